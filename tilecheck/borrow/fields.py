"""What the methods of a class give its fields, read from their assignments to `self.name`.

Invariant: a field that is set in two ways is nothing in particular.

Worked example: with `self.left = cuda.stream()` and nothing else, `left` is a stream in every method. With
`self.n = n` in `__init__` the field `n` is what somebody gave, with `self.n = (n + 255) // 256 * 256` it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilecheck.borrow.extents import asked
from tilecheck.borrow.survey import Survey
from tilecheck.borrow.values import Value
from tilecheck.ir import host as ir
from tilecheck.ir.instructions import Kind

Maker = Callable[[ir.Expr], tuple[Kind, Value] | None]


def made_fields(owner: Survey, maker: Maker) -> dict[str, tuple[Kind, Value]]:
    """The fields of a class that all of its methods assign from one kind of maker (`self.left = cuda.stream()`)."""
    found: dict[str, tuple[Kind, Value] | None] = {}
    for part in owner.nested:
        method = part.unit
        if not isinstance(method, ir.Function) or not method.params:
            continue
        for node in ir.walk(*method.body):
            if not isinstance(node, ir.Assign):
                continue
            for field, value in (pair for target in node.targets for pair in _set_in(target, node.value)):
                if isinstance(field.base, ir.Name) and field.base.id == method.params[0].name:
                    made = maker(value) if value is not None else None
                    found[field.name] = made if found.get(field.name, made) == made else None
    return {name: made for name, made in found.items() if made is not None}


def _set_in(target: ir.Expr, value: ir.Expr | None) -> list[tuple[ir.Attr, ir.Expr | None]]:
    """The attributes that an assignment sets, each with its value where that is written out: `self.a, self.b = f(), g()`."""
    pairs = apart(target, value) if value is not None else []
    alone = {id(part): each for part, each in pairs}
    return [(part, alone.get(id(part))) for part in _parts(target) if isinstance(part, ir.Attr)]


def _parts(target: ir.Expr) -> Iterator[ir.Expr]:
    match target:
        case ir.Display(items=items):
            for item in items:
                yield from _parts(item)
        case ir.Starred(value=value):
            yield from _parts(value)
        case _:
            yield target


def given_field(owner: Survey, name: str) -> bool:
    """Whether the methods of a class set the field `name`, and only to what they were given."""
    found = False
    for part in owner.nested:
        given = {param.name for param in part.params[1:]} - part.assigned.keys()
        for node in ir.walk(*part.unit.body) if isinstance(part.unit, ir.Function) else ():
            match node:
                case ir.Augment(target=ir.Attr(name=set_)) if set_ == name:
                    return False
                case ir.Assign(targets=targets, value=ir.Expr() as value):
                    for target, item in (pair for each in targets for pair in apart(each, value)):
                        if isinstance(target, ir.Attr) and target.name == name:
                            found = (isinstance(item, ir.Name) and item.id in given) or _is_extent(item, given)
                            if not found:
                                return False
                case _:
                    pass
    return found


def _is_extent(node: ir.Expr, given: set[str]) -> bool:
    about = asked(node)
    return about is not None and isinstance(about[0], ir.Name) and about[0].id in given


def apart(target: ir.Expr, value: ir.Expr) -> list[tuple[ir.Expr, ir.Expr]]:
    """The targets of an assignment and what each gets, tuples of equal length taken apart."""
    if isinstance(target, ir.Display) and isinstance(value, ir.Display) and len(target.items) == len(value.items):
        return [pair for parts in zip(target.items, value.items, strict=True) for pair in apart(*parts)]
    return [(target, value)]
