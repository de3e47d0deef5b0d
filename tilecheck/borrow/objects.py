"""Objects of classes that the checked files define: what making one keeps, what its methods borrow.

A dataclass or a named tuple keeps its arguments in its fields, any other class what its `__init__` puts there, if that can
be read. A method has the contract of its signature; one without a contract is read at its call (`inline.py`) where
it cannot be overridden: where the class of the object is known, or the file has no subclass.

Invariant: a class that is decorated, or has bases that are not read, keeps nothing.

Worked example: after `pair = Pair(z, x)` the names `pair.z` and `z` are one place, and `copy(pair.z.partition(8), z)` gets
it twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand
from tilecheck.borrow.contracts import tensor_or_none
from tilecheck.borrow.inline import read_call
from tilecheck.borrow.launching import call_function
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import NOTHING, Array, Callee, Closure, Thing, Value
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Kind
from tilecheck.ir.kernel import Access

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def construct(low: Expressions, node: ir.Call, name: str | None) -> Operand | None:
    """`Pair(z, x)` for a class of the checked files; None if it is none, or is not read."""
    full = node.func.full if isinstance(node.func, ir.Name | ir.Attr) else None
    cls = low.program.class_of(full) if full is not None else None
    if cls is None or full is None:
        return None
    fields = _fields(cls)
    if fields is not None:
        return _filled(low, node, Thing(full, True), fields, _is_tuple(cls), name)
    init = low.program.method(full, "__init__")
    if init is None and not node.args:
        if cls.bases:
            low.emit(instructions.Clobber(span=node.span))
        return Operand(low.make(Kind.OTHER, name or spell(node), node.span), Thing(full, True))
    if init is None or not isinstance(closure := low.program.callable(init), Closure | Callee):
        return None
    owned = {param.name for param in init.params if takes_over(low, param.name, param.annotation)}
    if owned and not low.program.is_readable(init):
        return _made_by(low, node, init, name, Thing(full, True))
    made = low.make(Kind.OTHER, name or spell(node), node.span)
    body = closure if isinstance(closure, Closure) else Closure(init)

    def take(param: str, operand: Operand, arg: ir.Expr) -> Operand:
        return _taken_over(low, node, param, operand, arg) if param in owned else operand

    self_ = Operand(made, Thing(full, True))
    if not low.program.is_readable(init) or read_call(low, node, body, None, self_, take) is None:
        return None
    kept = {key.removeprefix(f"{made}."): value for key, value in low.env.items() if key.startswith(f"{made}.")}
    known = tuple((field, _kind(value)) for field, value in kept.items() if field.isidentifier())
    return Operand(made, Thing(full, True, known))


def _made_by(low: Expressions, node: ir.Call, init: ir.Function, name: str | None, thing: Thing) -> Operand | None:
    """An object whose `__init__` is not read, but says whom it takes tensors from."""
    value = low.program.callable(init)
    if not isinstance(value, Callee):
        return None
    call_function(low, node, Callee(replace(value.contract, params=value.contract.params[1:])), name)
    return Operand(low.make(Kind.OTHER, name or spell(node), node.span), thing)


def _filled(
    low: Expressions, node: ir.Call, thing: Thing, fields: list[ir.Assign], is_tuple: bool, name: str | None
) -> Operand | None:
    """A new object with an argument in each field."""
    names = [target.id for field in fields for target in field.targets if isinstance(target, ir.Name)]
    if any(arg.star for arg in node.args) or len(node.args) > len(names):
        return None
    var = low.make(Kind.OTHER, name or spell(node), node.span)
    known: list[tuple[str, Value]] = []
    notes = {target.id: field.annotation for field in fields for target in field.targets if isinstance(target, ir.Name)}
    given: list[tuple[str, ir.Arg, Operand]] = []
    for at, arg in enumerate(node.args):
        field = arg.name if arg.name is not None else names[at]
        given.append((field, arg, low.expr(arg.value)))
    for field, arg, operand in given:
        if takes_over(low, field, notes.get(field)):
            operand = _taken_over(low, node, field, operand, arg.value)
        if operand.var is not None:
            low.emit(instructions.Put(var, f".{field}", operand.var, span=arg.span))
            if is_tuple and field in names:
                low.emit(instructions.Put(var, f"[{names.index(field)}]", operand.var, span=arg.span))
        known.append((field, _kind(operand.value)))
    return Operand(var, replace(thing, fields=tuple(known)))


def takes_over(low: Expressions, name: str, note: ir.Expr | None) -> bool:
    """Whether `name: note` is a tensor that is moved to whoever is made with it."""
    found = tensor_or_none(name, note, low.program.find) if note is not None else None
    return found is not None and found.access is Access.OWNED


def _taken_over(low: Expressions, node: ir.Call, param: str, operand: Operand, arg: ir.Expr) -> Operand:
    """The tensor under its new owner: the names that it had have lost it."""
    if operand.var is None:
        return operand
    low.emit(instructions.Move(operand.var, spell(node), param, span=arg.span))
    return Operand(low.make(Kind.TENSOR, spell(arg), arg.span), operand.value)


def _kind(value: Value) -> Value:
    """What stays true of a field when it is filled anew with a thing of its kind."""
    return Array(value.library, pinned=value.pinned) if isinstance(value, Array) else value


def _fields(cls: ir.Class) -> list[ir.Assign] | None:
    """The fields that making an object of `cls` fills in their order; None if it does more than that."""
    made = [decorator.func if isinstance(decorator, ir.Call) else decorator for decorator in cls.decorators]
    plain = len(made) == 1 and canonical(made[0]) == "dataclasses.dataclass" and not cls.bases
    if not plain and not (_is_tuple(cls) and not made):
        return None
    own = {part.name for part in cls.body if isinstance(part, ir.Function)}
    if own & {"__init__", "__post_init__", "__new__"}:
        return None
    return [part for part in cls.body if isinstance(part, ir.Assign) and part.annotation is not None]


def _is_tuple(cls: ir.Class) -> bool:
    return len(cls.bases) == 1 and canonical(cls.bases[0].value) == "typing.NamedTuple"


def call_method(low: Expressions, node: ir.Call, method: str, receiver: Operand, name: str | None) -> Operand | None:
    """A method of an object whose class the checked files define; None if it is none, or is not read."""
    thing = receiver.value
    if not isinstance(thing, Thing):
        return None
    function = low.program.method(thing.cls, method)
    if function is None or function.decorators or not function.params:
        return None
    value = low.program.callable(function)
    if isinstance(value, Callee):
        contract = replace(value.contract, params=value.contract.params[1:])
        body = value.body if thing.exact else None
        return call_function(low, node, Callee(contract, body), name, receiver)
    if isinstance(value, Closure) and thing.exact:
        return read_call(low, node, value, name, receiver)
    return None


def field_of(low: Expressions, thing: Thing, name: str) -> tuple[Kind, Value]:
    """What is known of a field of `thing`."""
    found = dict(thing.fields).get(name)
    if found is not None:
        return Kind.OTHER, found
    return low.program.fields_of(thing.cls).get(name, (Kind.OTHER, NOTHING))


def computed(low: Expressions, node: ir.Attr, base: Operand) -> Operand | None:
    """An attribute that a function of its class gives at each reading: a property, a descriptor, `__getattr__`. It is the field
    that a property only hands on, else something new each time; None for a field.
    """
    program = low.program
    if not isinstance(base.value, Thing):
        # Of an object that nothing is known of, a property of any class of the file may be meant; not where it was set.
        meant = node.name in program.properties and node.full is None and low.key(node) not in low.env
        return _anew(low, node) if meant else None
    full = base.value.cls
    function = program.method(full, node.name)
    if function is not None:
        if not any(map(_is_property, function.decorators)):
            return None
        handed = _handed_on(function)
        if handed is None:
            return _anew(low, node)
        return low.expr(ir.Attr(node.base, handed, span=node.span))
    known = node.name in dict(base.value.fields) or node.name in program.fields_of(full)
    if not known and (program.method(full, "__getattr__") or _is_descriptor(low, full, node.name)):
        return _anew(low, node)
    return None


def _anew(low: Expressions, node: ir.Attr) -> Operand:
    return Operand(low.make(Kind.OTHER, spell(node), node.span))


def _handed_on(function: ir.Function) -> str | None:
    """The field that `def z(self): return self._z` hands on."""
    match function.body:
        case (*docs, ir.Return(value=ir.Attr(base=ir.Name(id=own), name=name))) if function.params:
            plain = all(isinstance(each, ir.Do) and isinstance(each.value, ir.Const) for each in docs)
            return name if plain and own == function.params[0].name and name != function.name else None
        case _:
            return None


def _is_property(decorator: ir.Expr) -> bool:
    """Whether a function under `decorator` runs at each reading of the attribute."""
    full = canonical(decorator) if isinstance(decorator, ir.Name | ir.Attr) else None
    return full in ("builtins.property", "abc.abstractproperty")


def _is_descriptor(low: Expressions, full: str, name: str) -> bool:
    """Whether the class sets `name` to an object whose class has a `__get__`."""
    cls = low.program.class_of(full)
    for part in cls.body if cls is not None else ():
        if isinstance(part, ir.Assign) and isinstance(part.value, ir.Call):
            maker = part.value.func.full if isinstance(part.value.func, ir.Name | ir.Attr) else None
            named = any(isinstance(target, ir.Name) and target.id == name for target in part.targets)
            if named and maker is not None and low.program.method(maker, "__get__") is not None:
                return True
    return False
