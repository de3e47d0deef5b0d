"""What the methods of a class give its fields, read from their assignments to `self.name`.

Invariant: a field that is set in two ways is nothing in particular.

Worked example: with `self.left = cuda.stream()` and nothing else, `left` is a stream in every method. With
`self.n = n` in `__init__` the field `n` is what somebody gave, with `self.n = (n + 255) // 256 * 256` it is not.
"""

from __future__ import annotations

from collections.abc import Callable

from tilecheck.borrow.extents import asked
from tilecheck.borrow.survey import Survey
from tilecheck.borrow.values import Value
from tilecheck.ir import host as ir
from tilecheck.ir.flow import Kind

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
            for target in node.targets:
                if isinstance(target, ir.Attr) and isinstance(target.base, ir.Name):
                    if target.base.id != method.params[0].name:
                        continue
                    made = maker(node.value) if node.value is not None else None
                    found[target.name] = made if found.get(target.name, made) == made else None
    return {name: made for name, made in found.items() if made is not None}


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
