"""Subscripts: an element, a slice, an item of a container, a launch configuration.

What `base[index]` is depends on what `base` is: of an array of known shape one element is a number and anything else a
view of the ranges that the index shows; of a kernel it is the kernel with a grid and a block; of a container at a constant
place it is a place of its own, at any other place it may be each of them.

Worked example. `x[4:8]` borrows `x` with `Range(4, 8)`; `x[i]` with `Range(None, None)`, an unknown index overlaps all;
`scale[8, 128]` is `scale` with `Config(8, 128)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck.borrow.context import Operand
from tilecheck.borrow.plain_brackets import check_entries
from tilecheck.borrow.shapes import check_slice
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import (
    NOTHING,
    Array,
    Config,
    Handle,
    Items,
    KernelValue,
    Many,
    Nothing,
    Number,
    Thing,
    Value,
    item_of,
)
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.instructions import Kind, Range, Site, Touch

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


def subscript(low: Expressions, node: ir.Sub, base: Operand) -> Operand:
    """`node`, whose base is lowered already."""
    if isinstance(base.value, KernelValue) and base.value.facts.contract.track in ("tile", "simt"):
        low.read(node.index)
        name = spell(node.base)
        message = f"`{spell(node)}`: the grid of a tilecheck kernel comes from its partitions"
        way_out = f"call it with a partition: `{name}(z.partition(...), ...)`, or set a grid with `.with_grid(...)`"
        low.fault("usage", message, node.span, way_out)
        return Operand(None)
    if isinstance(base.value, KernelValue):
        return Operand(None, _configured(low, base.value, node))
    if isinstance(base.value, Array):
        return low.view(base, node, _ranges(low, node.index))
    index = low.read(node.index)
    if isinstance(base.value, Thing) and low.program.method(base.value.cls, "__getitem__") is not None:
        return Operand(low.make(Kind.OTHER, spell(node), node.span))
    if isinstance(node.index, ir.Display) and low.device_function(node.base):
        message = f"`{spell(node.base)}` is a device function, only a kernel is launched"
        low.fault("launch-contract", message, node.span, "leave out `device=True` if it is meant to be a kernel")
    if base.var is None:
        return Operand(None, item_of(base.value, low.scalar(node.index)))
    if isinstance(node.index, ir.Const) and node.index.known:
        item = low.known(node)
        if isinstance(item, Nothing):
            item = item_of(base.value, node.index.value)
        if isinstance(base.value, Many) and not base.value.keyed and low.waited:
            # Which of those that were put in it is, and whether that one was waited for, is not known.
            return Operand(None, item)
        var = low.temp()
        field = f"[{node.index.value!r}]"
        kind = Kind.STREAM if item == Handle("stream") else Kind.OTHER
        low.emit(instructions.Get(var, base.var, field, Site(kind, spell(node), node.span), span=node.span))
        return Operand(var, item)
    if isinstance(base.value, Many) and not isinstance(node.index, ir.Slice):
        var = low.temp()
        site = Site(Kind.OTHER, spell(node), node.span)
        low.emit(instructions.Get(var, base.var, instructions.ANY, site, span=node.span))
        return Operand(var, base.value.of)
    if isinstance(base.value, Items) or not isinstance(index.value, Nothing | Number):
        low.escape(base, node.span)
    else:
        low.look(base, node.base, Touch.READ, spell(node))
        low.escape(base, node.span)
    any_of = item_of(base.value, low.scalar(node.index))
    var = low.make(Kind.OTHER, spell(node), node.span)
    return Operand(var, any_of if isinstance(any_of, KernelValue) else NOTHING)


def is_element(low: Expressions, node: ir.Sub, value: Value) -> bool:
    """Whether `node` is one element of a tensor of ours or of a NumPy array: a number, read from its memory."""
    if not isinstance(value, Array) or value.library not in ("tilecheck", "numpy") or value.shape is None:
        return False
    parts = node.index.items if isinstance(node.index, ir.Display) else (node.index,)
    if len(parts) != len(value.shape) or any(low.whole(part) is None for part in parts):
        return False
    if value.library == "tilecheck":
        check_slice(low, node, value)
    return True


def _configured(low: Expressions, kernel: KernelValue, node: ir.Sub) -> KernelValue:
    index = node.index
    parts = list(index.items) if isinstance(index, ir.Display) and index.kind == "tuple" else [index]
    operands = [low.expr(part) for part in parts]
    if len(parts) == 1:
        parts = _spread(low, parts[0], operands[0])
    if kernel.facts.contract.track == "numba" and len(parts) == 1 and low.whole(parts[0]) is not None:
        name, given = spell(node.base), spell(parts[0])
        message = f"`{name}[{given}]` gives one number: a launch takes a grid and a block"
        low.fault("launch-contract", message, node.span, f"write `{name}[blocks, {given}](...)`")
    if kernel.facts.contract.track == "numba":
        low.faults.extend(check_entries(spell(node.base), parts, node))
    if any(isinstance(part, ir.Starred) for part in parts) or not 2 <= len(parts) <= 4:
        return KernelValue(kernel.facts, kernel.bound, Config())
    padded: list[ir.Expr | None] = [*parts, None, None]
    return KernelValue(kernel.facts, kernel.bound, Config(*padded[:4]))


def _spread(low: Expressions, config: ir.Expr, operand: Operand) -> list[ir.Expr]:
    """The entries of a whole configuration, as in `kernel[config]`: a tuple that was made elsewhere."""
    if not isinstance(operand.value, Items) or operand.value.loose:
        return [config]
    if low.key(config) is None:
        # What a call gave is kept under its text, which no variable has.
        name = ir.Name(spell(config), span=config.span)
        low.env[name.id] = operand.value
        if operand.var is not None:
            low.emit(instructions.Bind(name.id, operand.var, span=config.span))
        config = name
    entries = range(len(operand.value.values))
    return [ir.Sub(config, ir.Const(at, span=config.span), span=config.span) for at in entries]


def _ranges(low: Expressions, index: ir.Expr) -> tuple[Range, ...]:
    parts = index.items if isinstance(index, ir.Display) and index.kind == "tuple" else (index,)
    ranges: list[Range] = []
    for part in parts:
        if isinstance(part, ir.Slice):
            low.expr(part)
            start = 0 if part.start is None else _bound(low.whole(part.start))
            stop = instructions.END if part.stop is None else _bound(low.whole(part.stop))
            step = 1 if part.step is None else low.whole(part.step)
            ranges.append(Range(start, stop, step))
            continue
        low.read(part)
        at = _bound(low.whole(part))
        if at is None:
            ranges.append(Range(None, None))
            if not isinstance(part, ir.Name | ir.Operation):
                break
        else:
            ranges.append(Range(at, at + 1))
    return tuple(ranges)


def _bound(value: int | None) -> int | None:
    """A bound of a slice; a negative one counts from the end."""
    return value + instructions.END if value is not None and value < 0 else value
