"""Host calls on tensors whose extents stand in the file: tiles, slices, maps and grids that cannot be.

Each check says nothing unless every number that it needs is known. A slice is never clamped: `t[0:9]` of eight elements
is refused, as it is at run time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilecheck.borrow.numbers import wholes
from tilecheck.borrow.spell import spell
from tilecheck.borrow.tensor_makers import is_meta
from tilecheck.borrow.values import Array, KernelValue, Number, Op, Pieces, Shape, Value
from tilecheck.borrow.vocabulary import DTYPES as LIBRARY_DTYPES
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir
from tilecheck.ir.kernel import Access, TensorParam
from tilecheck.surface.dtypes import DTYPES

if TYPE_CHECKING:
    from tilecheck.borrow.launch import LaunchArg
    from tilecheck.borrow.lower_expr import Expressions


def tile_of(low: Expressions, node: ir.Call, array: Array) -> Shape | None:
    """The extents of `array.partition(*tile)`, or of one tuple of them; None if not even their number is known.

    One argument that cannot be read is an int or a tuple, one extent per axis of the tensor if its axes are known.
    """
    if any(arg.star or arg.name for arg in node.args):
        return None
    if len(node.args) != 1:
        return tuple(low.whole(arg.value) for arg in node.args)
    given = node.args[0].value
    found = wholes(given, low.known)
    if found is not None:
        return found
    if given.type is not None and given.type.name == "builtins.int":
        return (None,)
    return (None,) * len(array.shape) if array.shape is not None else None


def check_ints(low: Expressions, node: ir.Call) -> bool:
    """Whether the tile of `array.partition(*tile)` has an extent that is no int, which is told."""
    for arg in node.args:
        known = low.known(arg.value)
        found = known.value if isinstance(known, Number) else low.number(arg.value)
        unknown = found is None and not isinstance(known, Number)
        if arg.star or arg.name or unknown or (isinstance(found, int) and not isinstance(found, bool)):
            continue
        # A whole number in the wrong type: `64 / 4`.
        way_out = "divide ints with `//`" if isinstance(found, float) and found.is_integer() else None
        low.fault("shape-mismatch", f"`partition` wants ints, not {found!r}", node.span, way_out)
        return True
    return False


def check_bindings(low: Expressions, node: ir.Call, kernel: KernelValue) -> None:
    """`kernel.where(NAME=...)`: extents by name, each a positive int."""
    for arg in node.args:
        known = low.known(arg.value)
        found = known.value if isinstance(known, Number) else low.number(arg.value)
        if arg.star:
            continue
        if arg.name is None:
            message = f"`where` takes extents by name, `{spell(arg.value)}` has none"
            low.fault(
                "usage", message, node.span, f"write `{kernel.facts.contract.name}.where(NAME={spell(arg.value)})`"
            )
            return
        unknown = found is None and not isinstance(known, Number)
        if not unknown and (isinstance(found, bool) or not isinstance(found, int) or found < 1):
            message = f"`where({arg.name}={found!r})` binds no positive int"
            low.fault("unbound-dim", message, node.span, "give it an int of at least 1")


def check_tile(low: Expressions, node: ir.Call, array: Array, tile: Shape | None) -> None:
    """`array.partition(*tile)`."""
    for axis, size in enumerate(array.shape or ()):
        if size == 0:
            base = spell(node.func.base) if isinstance(node.func, ir.Attr) else "the tensor"
            message = f"`{base}` has no elements to partition: its extent on axis {axis} is 0"
            low.fault("shape-mismatch", message, node.span)
            return
    if tile is None:
        return
    for axis, extent in enumerate(tile):
        if extent is not None and extent < 1:
            low.fault("shape-mismatch", f"a tile of extent {extent} on axis {axis}", node.span, "at least 1")
            return
    if array.shape is not None and len(array.shape) != len(tile):
        base = spell(node.func.base) if isinstance(node.func, ir.Attr) else "the tensor"
        low.fault(
            "shape-mismatch",
            f"a tile of {len(tile)} axes for `{base}`, which has {len(array.shape)}",
            node.span,
            "one extent per axis",
        )


def check_slice(low: Expressions, node: ir.Sub, array: Array) -> None:
    """`array[node.index]` of one of our tensors."""
    parts = node.index.items if isinstance(node.index, ir.Display) else (node.index,)
    if array.library != "tilecheck" or array.shape is None or any(isinstance(part, ir.Starred) for part in parts):
        return
    if len(parts) > len(array.shape):
        low.fault(
            "out-of-bounds",
            f"`{spell(node)}` has {len(parts)} subscripts, the tensor {len(array.shape)} axes",
            node.span,
        )
        return
    for axis, (part, extent) in enumerate(zip(parts, array.shape, strict=False)):
        if extent is None:
            continue
        at = low.whole(part) if not isinstance(part, ir.Slice) else None
        if at is not None and not -extent <= at < extent:
            low.fault("out-of-bounds", f"`{spell(node)}` is outside axis {axis}, whose extent is {extent}", node.span)
        if not isinstance(part, ir.Slice):
            continue
        start = 0 if part.start is None else low.whole(part.start)
        stop = extent if part.stop is None else low.whole(part.stop)
        if start is None or stop is None:
            continue
        start, stop = (bound + extent if bound < 0 else bound for bound in (start, stop))
        if not 0 <= start <= stop <= extent:
            low.fault(
                "out-of-bounds",
                f"`{spell(node)}` is outside axis {axis}, whose extent is {extent}",
                node.span,
                "slices are not clamped: start <= stop <= extent",
            )
            return


def sliced_shape(low: Expressions, index: ir.Expr, array: Array) -> Shape | None:
    """The extents of `array[index]`."""
    if array.shape is None:
        return None
    parts = index.items if isinstance(index, ir.Display) else (index,)
    shape: list[int | None] = []
    for part, extent in zip(parts, array.shape, strict=False):
        if not isinstance(part, ir.Slice):
            if not isinstance(part, ir.Const) or type(part.value) is not int:
                return None
            continue
        if array.library != "tilecheck" and extent is None:
            shape.append(None)
            continue
        start = 0 if part.start is None else low.whole(part.start)
        stop = extent if part.stop is None else low.whole(part.stop)
        step = 1 if part.step is None else low.whole(part.step)
        if array.library != "tilecheck" and extent is not None and start is not None and stop is not None:
            # NumPy clamps what leaves the array.
            start, stop = min(start, extent), min(stop, extent)
        known = start is not None and stop is not None and step == 1 and 0 <= start <= stop
        shape.append(stop - start if known and start is not None and stop is not None else None)
    return (*shape, *array.shape[len(parts) :])


def split_shapes(low: Expressions, node: ir.Call, array: Array) -> tuple[Shape | None, Shape | None]:
    """The extents of the two sides of `array.split(at)`; those along another axis than the first are not read."""
    at = low.whole(node.args[0].value) if len(node.args) == 1 and node.args[0].name is None else None
    if at is None or not array.shape or (extent := array.shape[0]) is None or not 0 < at < extent:
        return None, None
    return (at, *array.shape[1:]), (extent - at, *array.shape[1:])


def reshaped(low: Expressions, node: ir.Call, array: Array) -> Shape | None:
    """The extents of `array.reshape(...)`."""
    given: Sequence[ir.Expr] = [arg.value for arg in node.args]
    if len(given) == 1 and isinstance(given[0], ir.Display):
        given = given[0].items
    shape = tuple(low.whole(item) for item in given)
    if not shape or -1 in shape or any(arg.star or arg.name for arg in node.args):
        return None
    known = [extent for extent in shape if extent is not None]
    if array.shape is not None and None not in array.shape and len(known) == len(shape):
        size = math.prod(extent for extent in array.shape if extent is not None)
        if array.library == "tilecheck" and math.prod(known) != size:
            message = f"{size} elements do not fit the shape {tuple(known)}"
            low.fault("shape-mismatch", message, node.span)
    return shape


def viewed_dtype(low: Expressions, node: ir.Call, former: str | None) -> str | None:
    """The dtype of `array.view(dtype)`, None if it is not shown; a view of a shape has the `former` one."""
    given = [arg.value for arg in node.args if not arg.star]
    if not given or len(given) > 1 or isinstance(given[0], ir.Display) or low.whole(given[0]) is not None:
        return former
    name = canonical(given[0]) or ""
    ours = name.removeprefix("tilecheck.")
    return ours if ours in DTYPES else LIBRARY_DTYPES.get(name)


def check_map(low: Expressions, node: ir.Call, pieces: Pieces) -> None:
    """`pieces.map(*shape, blocks=n)`."""
    blocks = next((arg.value for arg in node.args if arg.name == "blocks"), None)
    count = low.whole(blocks) if blocks is not None else None
    given = [arg.value for arg in node.args if arg.name is None and not arg.star]
    if len(given) == 1 and isinstance(given[0], ir.Display):
        given = list(given[0].items)
    if pieces.tile is not None and given and len(given) != len(pieces.tile):
        low.fault(
            "usage",
            f"`map` has {len(given)} extents for a partition of {len(pieces.tile)} axes",
            node.span,
            "one int or `tc.OWNED` per axis",
        )
        return
    if count is None:
        return
    grid = grid_of(pieces)
    owned = {at for at, item in enumerate(given) if canonical(item) == "tilecheck.OWNED"}
    streamed = None
    if grid is not None and given and len(owned) < len(given):
        streamed = math.prod(tiles for at, tiles in enumerate(grid) if at not in owned)
    if count < 1 or (streamed is not None and count > streamed):
        most = f"between 1 and {streamed}" if streamed is not None else "at least 1"
        tiles = f" for {streamed} tiles" if streamed is not None else ""
        low.fault("usage", f"`map` has blocks={count}{tiles}", node.span, most)


def grid_of(pieces: Pieces) -> tuple[int, ...] | None:
    """The number of tiles along each axis."""
    shape, tile = pieces.array.shape, pieces.tile
    if shape is None or tile is None or len(shape) != len(tile):
        return None
    grid: list[int] = []
    for extent, size in zip(shape, tile, strict=True):
        if extent is None or size is None or size < 1:
            return None
        grid.append(-(-extent // size))
    return tuple(grid)


def op_of(kernel: KernelValue, args: dict[str, LaunchArg]) -> Op:
    """The op of a launch of one of our kernels: the grid that its outputs fix."""
    contract = kernel.facts.contract
    # A parameter whose annotation cannot be read may be an output.
    known = (p.access if isinstance(p, TensorParam) else p.kind for p in contract.params)
    needs = contract.track == "tile" and all(known)
    grid: tuple[int, ...] | None = None
    for param in contract.params:
        if not isinstance(param, TensorParam) or param.access not in (Access.MUT, Access.MAPPED):
            continue
        arg = args.get(param.name)
        prefix = arg is not None and isinstance(arg.value, Pieces) and not arg.value.exact and not arg.value.mapped
        needs = needs and prefix
        if arg is not None and isinstance(arg.value, Pieces) and arg.value.exact and grid is None:
            grid = grid_of(arg.value)
    empty = next((spell(arg.expr) for arg in args.values() if is_meta(_array_of(arg.value))), None)
    return Op(contract.name, (*grid, 1, 1, 1)[:3] if grid is not None else None, needs, meta=empty)


def _array_of(value: Value) -> Value:
    return value.array if isinstance(value, Pieces) else value


def with_grid(low: Expressions, node: ir.Call, op: Op) -> Op:
    """`op.with_grid(...)`: a checked override of what the outputs fix."""
    given: Shape | None = tuple(low.whole(arg.value) for arg in node.args)
    if len(node.args) == 1:
        given = wholes(node.args[0].value, low.known)
    known = [extent for extent in given or () if extent is not None]
    if op.grid is not None and given and len(known) == len(given) and (*known, 1, 1, 1)[:3] != op.grid:
        low.fault(
            "launch-contract",
            f"the grid {(*known, 1, 1, 1)[:3]} is not the one that the outputs fix, {op.grid}",
            node.span,
            "leave `with_grid` out, or let a smaller grid cover a part: `.prefix()`",
        )
    return Op(op.kernel, op.grid, meta=op.meta)


def check_run(low: Expressions, node: ir.Expr, op: Op) -> None:
    """An op is run: something must have fixed its grid, and its arguments must have data."""
    if op.meta is not None:
        message = f"`{op.kernel}` is run with `{op.meta}`, a meta tensor, which has no data"
        low.fault("usage", message, node.span, "prepare it instead: `.compile()`")
    if op.needs_grid and op.kernel is not None:
        low.fault(
            "launch-contract",
            f"nothing fixes the grid of `{op.kernel}`",
            node.span,
            "give one: `.with_grid(n)`; a prefix only says that it may be smaller",
        )
