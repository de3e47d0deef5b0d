"""What the extents of a plain library's array come from: the expressions in the call that made it.

An array is traced through what copies it (`to_device`, `zeros_like`, `astype`) to the call that gave it its shape, or to
where nothing is known of it: a parameter, whose extents are then unknowns of their own. What another function made
(`np.pad`, `np.concatenate`) cannot be traced.

Worked example: after `h = np.zeros((n, 4))` and `d = cuda.to_device(h)`, `d.size` is the product of `n` and `4`, and
`d.shape[0]` is `n`. `d.size` of a parameter `d` is the unknown `d`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.borrow.array_makers import argument
from tilecheck.borrow.launch import Launch
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Nothing
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir

Factors = tuple[ir.Expr | str, ...]
"""Expressions whose product is an extent; a text stands for an unknown of its own."""

_DEEPEST = 12


def asked(node: ir.Expr) -> tuple[ir.Expr, int | None] | None:
    """The array and the axis in `a.size`, `a.shape[0]` and `len(a)`; the axis of a size is None."""
    match node:
        case ir.Attr(base=base, name="size"):
            return base, None
        case ir.Sub(base=ir.Attr(base=base, name="shape"), index=ir.Const(value=int() as axis)):
            return base, axis
        case ir.Call(func=func, args=(ir.Arg(value=base, star=""),)) if canonical(func) == "builtins.len":
            return base, 0
        case _:
            return None


def factors(launch: Launch, array: ir.Expr, axis: int | None, visited: set[str], depth: int = 0) -> Factors | None:
    """What the extent of `array` along `axis` is the product of, all axes if None; None if that cannot be traced.

    `visited` gets what was asked on the way, as written.
    """
    visited.add(spell(array))
    value = launch.value(array)
    made = value.made if isinstance(value, Array) else value.expr if isinstance(value, Nothing) else None
    if isinstance(value, Array) and value.shape is not None and None not in value.shape:
        known = [ir.Const(extent, span=array.span) for extent in value.shape]
        return _part(tuple(known), axis)
    if made is None and not isinstance(array, ir.Name | ir.Attr):
        made = array
    if made is None:
        # A field that is set elsewhere.
        return None if isinstance(array, ir.Attr) else (f"{spell(array)} {axis or 0}",)
    if depth > _DEEPEST:
        return None
    match made:
        case ir.Call():
            return _called(launch, made, axis, visited, depth + 1)
        case ir.Sub(base=base, index=ir.Slice(start=None, stop=stop, step=None)) if axis in (None, 0):
            return factors(launch, base, axis, visited, depth + 1) if stop is None else (stop,)
        case ir.Name() | ir.Attr() if made is not array:
            return factors(launch, made, axis, visited, depth + 1)
        case _:
            return None


def _called(launch: Launch, call: ir.Call, axis: int | None, visited: set[str], depth: int) -> Factors | None:
    library, _, maker = (canonical(call.func) or spell(call.func)).rpartition(".")
    plain = tuple(arg.value for arg in call.args if arg.name is None and not arg.star)
    if any(arg.star for arg in call.args):
        return None
    if library.startswith(("numpy", "numba.cuda", "torch", "cupy")):
        if maker.endswith("_like") or maker in _FIRST:
            source = argument(call, "obj" if maker == "to_device" else "a", 0)
            return factors(launch, source, axis, visited, depth) if source is not None else None
        if maker in ("rand", "randn"):
            return _part(plain, axis)
        if maker == "arange" and len(plain) == 1:
            return plain
    if maker in _SHAPED:
        at = _SHAPED[maker]
        shape = argument(call, "shape" if at == 0 and maker not in _DRAWN else "size", at)
        return _shape(launch, shape, axis, visited, depth) if shape is not None else None
    if isinstance(call.func, ir.Attr) and call.func.name in _COPIES:
        return factors(launch, call.func.base, axis if call.func.name in _KEEPING else None, visited, depth)
    return None


def _shape(launch: Launch, node: ir.Expr, axis: int | None, visited: set[str], depth: int) -> Factors | None:
    """The extent of an array that is made with the shape `node`."""
    value = launch.value(node)
    if isinstance(value, Nothing) and value.expr is not None:
        visited.add(spell(node))
        node = value.expr
    match node:
        case ir.Display(items=items) if not any(isinstance(item, ir.Starred) for item in items):
            return _part(items, axis)
        case ir.Attr(base=base, name="shape"):
            return factors(launch, base, axis, visited, depth)
        case ir.Display():
            return None
        case _:
            return (node,) if axis in (None, 0) else None


def _part(items: tuple[ir.Expr, ...], axis: int | None) -> Factors | None:
    if axis is None:
        return items
    return (items[axis],) if -len(items) <= axis < len(items) else None


def remainders_of(tested: frozenset[str], visited: set[str], divisor: str) -> Iterator[str]:
    """The tests `x % divisor` that are about something that was asked on the way."""
    for text in tested:
        left, _, right = text.rpartition(" % ")
        if right == divisor and any(_mentions(left, name) for name in visited):
            yield text


def _mentions(text: str, name: str) -> bool:
    """Whether the expression `text` has `name` in it, not merely as a part of another name."""
    at = text.find(name)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not (before.isidentifier() or before == "." or after.isidentifier() or after.isdigit()):
            return True
        at = text.find(name, at + 1)
    return False


_FIRST = frozenset({"to_device", "asarray", "array", "ascontiguousarray", "copy", "abs", "sqrt", "as_cuda_array"})
_DRAWN = frozenset({"random", "standard_normal", "normal", "uniform", "randint", "integers"})
# Where the shape stands among the arguments.
_SHAPED = {
    **dict.fromkeys(("zeros", "ones", "empty", "full"), 0),
    **dict.fromkeys(("device_array", "pinned_array", "mapped_array", "managed_array"), 0),
    **dict.fromkeys(("random", "standard_normal"), 0),
    **dict.fromkeys(("normal", "uniform", "randint", "integers"), 2),
}
_KEEPING = frozenset({"copy", "astype", "copy_to_host"})
_COPIES = _KEEPING | {"ravel", "flatten"}
