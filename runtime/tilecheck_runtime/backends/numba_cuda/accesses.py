"""Loads and stores of a kernel: which array, which index, which form.

What each access may rely on is decided here from the facts: whole tiles, vectors, the block's own frame for sub-tiles.
A sub-tile is an ordinary tile of a smaller array, the block's own tile clipped at the array's edge, so sub-tiles clip
there and never reach a neighbour's elements, whether they divide or not.

Invariant: stores of one block happen in program order. Whole tiles have one layout, so a thread meets only its own
elements; where a kernel cuts a tensor into sub-tiles, a barrier follows every access to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Access, Expr, OpCall, TensorParam
from tilecheck.ir.types import IndexType, ScalarType, StrType, SubTilesType, TensorType, TileType, TupleType, ViewType
from tilecheck_runtime.backends.numba_cuda import fetching, memory, swizzle
from tilecheck_runtime.backends.numba_cuda.blocks import tiles_along
from tilecheck_runtime.backends.numba_cuda.layout import Fragments, Layout, Linear
from tilecheck_runtime.backends.numba_cuda.plan import divides, tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import I8, SIZE, Value, constant
from tilecheck_runtime.backends.numba_cuda.shared import barrier
from tilecheck_runtime.backends.numba_cuda.staging import Ahead
from tilecheck_runtime.backends.numba_cuda.tiles import Held

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

_PADS: Final = {"zero": 0.0, "neg_zero": -0.0, "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def _pad(padding: str | float | None) -> float | None:
    """What a padded lane reads, as a number."""
    return _PADS[padding] if isinstance(padding, str) else padding


def load(low: Lowering, call: OpCall, want: Layout | None) -> Held:
    """`z.load()`, `xs[i, k]`, `load_like(x, z)`: a tile from an array."""
    source = low.types[call.args[0]]
    shape = tile_shape(low.tile_type(call))
    layout = want if want is not None and want.shape == shape else low.plan.layout(shape)
    found = low.ring_of_load(call)
    if found is not None:
        return _take(low, call, layout, *found)
    pad: float | None = None
    permute = tuple(range(len(shape)))
    rest = call.args[1:]
    cut = False
    match source:
        case ViewType(array=array, permute=order, pad=padding):
            permute = order
            pad = _pad(padding)
            index = index_text(low, rest)
        case SubTilesType(array=array):
            index, cut = index_text(low, rest), True
        case TensorType(name=array, access=access):
            rest = rest[1:] if call.op == "load_like" else rest
            given = low.types.get(dict(call.kwargs).get("pad", call))
            if isinstance(given, StrType | ScalarType):
                pad = _pad(given.value)
            if access == "Shared" and call.op != "load_like":
                index = "(" + "int64(0), " * len(shape) + ")"
            else:
                index = index_text(low, rest) if rest else _block_index(len(shape))
        case _:
            raise AssertionError(f"a load of {type(source).__name__}")
    _check_index(low, call, array, rest, shape, permute, cut)
    form = _form(low, array, shape, permute, layout, cut)
    filler = constant(form.dtype, pad if pad is not None else 0)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        base, extents, strides, at = args
        in_memory = builder.zext(filler, I8) if form.dtype == "bool_" else filler
        return memory.load_tile(builder, form, base[0], extents, strides, at, in_memory)

    key = (form, None if pad is None else repr(pad))
    name = low.out.intrinsic(f"load_{form.dtype}", key, 4, (form.dtype, layout.registers), build)
    base, extents, strides = place(low, array, permute, cut)
    held = low.bind("t", f"{name}({base}, {extents}, {strides}, {index})", layout, form.dtype)
    if not cut:
        fetching.next_wave(low, form, rest or None, (base, extents, strides), index)
    if array in low.cut:
        emit_barrier(low)
    return held


def _take(low: Lowering, call: OpCall, layout: Layout, ahead: Ahead, place: str) -> Held:
    """A load that ran ahead, from shared memory to registers."""

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return swizzle.take(builder, ahead.form, layout, ahead.axes, swizzle.arena(builder, args[0][0]))

    dtype = low.facts[ahead.array].dtype
    name = low.out.intrinsic("take", (dtype, ahead.form, ahead.axes, layout), 1, (dtype, layout.registers), build)
    return low.bind("t", f"{name}({place})", layout, dtype)


def store(low: Lowering, call: OpCall) -> None:
    """`z.store(tile)`, with an index for mapped partitions and sub-tiles."""
    target, kind = low.types[call.args[0]], low.types[call.args[1]]
    assert isinstance(kind, TileType)
    shape = tile_shape(kind)
    held = low.tile(call.args[1], None)
    rest = call.args[2:]
    cut = isinstance(target, SubTilesType)
    match target:
        case SubTilesType(array=array):
            index = index_text(low, rest)
        case TensorType(name=array):
            index = index_text(low, rest) if rest else _block_index(len(shape))
        case _:
            raise AssertionError(f"a store to {type(target).__name__}")
    order = tuple(range(len(shape)))
    _check_index(low, call, array, rest, shape, order, cut)
    form = _form(low, array, shape, order, held.layout, cut)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        base, extents, strides, at, values = args
        memory.store_tile(builder, form, base[0], extents, strides, at, values)
        return ()

    name = low.out.intrinsic(f"store_{form.dtype}", form, 5, None, build)
    base, extents, strides = place(low, array, order, cut)
    low.out.line(f"{name}({base}, {extents}, {strides}, {index}, {held.name})")
    if array in low.cut:
        emit_barrier(low)


def tile_count(low: Lowering, array: str, axis: int, tile: int, local: bool) -> str:
    """How many tiles of `tile` elements cover `array` along `axis`, or the block's own tile of it."""
    if local:
        return str(-(-low.own[array][axis] // tile))
    return tiles_along(low, array, axis, tile)


def _check_index(
    low: Lowering,
    call: OpCall,
    array: str,
    items: Sequence[Expr],
    shape: tuple[int, ...],
    permute: Sequence[int],
    cut: bool,
) -> None:
    """The checks that stay at this access, one per axis that the ladder could not prove."""
    for test in index_tests(low, call, array, items, shape, permute, cut):
        low.fault_unless(test, call.span.line)


def index_tests(
    low: Lowering,
    call: OpCall,
    array: str,
    items: Sequence[Expr],
    shape: tuple[int, ...],
    permute: Sequence[int],
    cut: bool = False,
) -> list[str]:
    """What must hold of the index for `call` to be in bounds, beyond what is proven."""
    tests: list[str] = []
    for axis in low.in_place.get(call, ()):
        whole = len(items) == 1 and isinstance(low.types[items[0]], IndexType | TupleType)
        index = f"{low.scalar(items[0])}[{axis}]" if whole else low.scalar(items[axis])
        tiles = tile_count(low, array, permute[axis], shape[axis], cut)
        tests.append(f"(0 <= {index} and {index} < {tiles})")
    return tests


def _form(
    low: Lowering, array: str, shape: tuple[int, ...], permute: Sequence[int], layout: Layout, cut: bool
) -> memory.Global:
    facts = low.facts[array]
    own = low.own.get(array, shape)
    in_order = tuple(permute) == tuple(range(len(shape)))
    vectors = facts.unit and facts.aligned and in_order and isinstance(layout, Linear | Fragments)
    whole = all(_divides(low, array, axis, tile) for tile, axis in zip(shape, permute, strict=True))
    if cut:
        vectors = vectors and own[-1] * SIZE[facts.dtype] % 16 == 0
        # A sub-tile that is whole may still lie beyond the edge, where the block's own tile hangs over it.
        whole = whole and all(o % s == 0 for o, s in zip(own, shape, strict=True))
        whole = whole and all(_divides(low, array, axis, o) for axis, o in enumerate(own))
    param = low.kernel.param(array)
    constant = isinstance(param, TensorParam) and param.access is Access.SHARED
    return memory.Global(facts.dtype, layout, whole, vectors, constant)


def _divides(low: Lowering, array: str, axis: int, tile: int) -> bool:
    """Whether tiles of `tile` are known to divide the array's extent: by its divisor, or because a `Dim` says the extent."""
    if divides(tile, low.facts[array].divisors[axis]):
        return True
    param = low.kernel.param(array)
    if not isinstance(param, TensorParam) or param.access is not Access.SHARED or param.extents is None:
        return False
    extent = low.dims.get(param.extents[axis] or "")
    return extent is not None and extent % tile == 0


def place(low: Lowering, array: str, permute: Sequence[int], cut: bool) -> tuple[str, str, str]:
    """Address, extents and strides of an access, as text; of sub-tiles those of the block's own tile."""
    name, facts = low.variable(array), low.facts[array]

    def stride(axis: int) -> str:
        return "int64(1)" if facts.unit and axis == facts.rank - 1 else f"{name}_s{axis}"

    strides = "(" + "".join(f"{stride(a)}, " for a in permute) + ")"
    if not cut:
        return name, "(" + "".join(f"{name}_n{a}, " for a in permute) + ")", strides
    own = low.own[array]
    start = " + ".join(f"b{a} * {tile} * {stride(a)}" for a, tile in enumerate(own))
    extents = "".join(f"min(int64({tile}), {name}_n{a} - b{a} * {tile}), " for a, tile in enumerate(own))
    return f"{name} + ({start}) * {SIZE[facts.dtype]}", f"({extents})", strides


def index_text(low: Lowering, items: Sequence[Expr]) -> str:
    """The indices of an access as a tuple of int64."""
    if len(items) == 1 and isinstance(low.types[items[0]], IndexType | TupleType):
        return low.scalar(items[0])
    return "(" + "".join(f"int64({low.scalar(i)}), " for i in items) + ")"


def _block_index(rank: int) -> str:
    return "(" + "".join(f"b{axis}, " for axis in range(rank)) + ")"


def emit_barrier(low: Lowering) -> None:
    """A block barrier between two statements."""

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        barrier(builder)
        return ()

    low.out.line(f"{low.out.intrinsic('barrier', None, 0, None, build)}()")
