"""The plan of one specialisation: threads, vector widths, layouts, and what is known of each array.

Everything that decides the shape of the generated code is decided here, from the types and the facts about the arrays;
the lowering only spells it out. `Facts` are part of the specialisation key.

Example: saxpy on f32 with tiles of 4096 gets 256 threads and vectors of 4: four 16-byte accesses a thread and array.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

from tilecheck.ir.kernel import (
    Access,
    Assign,
    Binary,
    Compare,
    Expr,
    For,
    ForIndices,
    If,
    Inline,
    Kernel,
    Name,
    Node,
    OpCall,
    Return,
    Select,
    TensorParam,
    Unary,
    While,
    walk,
)
from tilecheck.ir.types import TileType, Type
from tilecheck.ops.row import OPS
from tilecheck_runtime.backends.numba_cuda.elementwise import ELEMENTWISE
from tilecheck_runtime.backends.numba_cuda.layout import (
    WHOLE_LIMIT,
    Fragments,
    Layout,
    Linear,
    Lines,
    Whole,
    fits_fragments,
)
from tilecheck_runtime.backends.numba_cuda.matrix import TENSOR_DTYPES
from tilecheck_runtime.backends.numba_cuda.registers import SIZE

# Registers a thread spends on one tile, as far as the number of threads can be chosen.
_ELEMENTS_PER_THREAD: Final = 16
# The same where a tile is reduced: elements of 32 bits and of less, and what the latter may grow to in long rows. A block
# that reduces has nothing to do before its loads are there, so threads take as many bytes of short elements as of wide
# ones, and of a long row rather more, in more blocks of fewer threads, since a block in its reduction loads nothing.
_WIDE_PER_THREAD: Final = 8
_NARROW_PER_THREAD: Final = 32
_MOST_NARROW: Final = 64
_FEWEST_THREADS: Final = 32
# Below so many threads, a tile that is only computed with is one 16-byte piece a thread: a short launch waits for its
# longest thread, and blocks of few threads leave a multiprocessor half empty.
_THREADS_FIRST: Final = 256
_MOST_THREADS: Final = 512
_ACCUMULATORS_PER_THREAD: Final = 64
# For a product whose operands never pass through registers; and fragments, addresses and the rest.
_STAGED_ACCUMULATORS: Final = 128
_STAGED_FEWEST: Final = 128
_BESIDE_ACCUMULATORS: Final = 72
# The same where operands stay in shared memory.
_BESIDE_GROUPED: Final = 56

SAME_LANE: Final = frozenset(ELEMENTWISE) | {"where", "astype", "isinf", "isfinite", "bitcast"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What the launch knows of one array and the code may rely on.

    `unit`: the last axis has stride one. `aligned`: the address and every other stride are multiples of 16 bytes.
    `divisors`: per axis, the largest power of two, at most 65,536, that divides the extent. `turned`: another axis than
    the last of which `unit` and `aligned` hold, as in a transposed view. `single`: (axis, tile) where one tile is all.
    """

    dtype: str
    rank: int
    unit: bool
    aligned: bool
    divisors: tuple[int, ...]
    turned: int | None = None
    single: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, dtype: str, address: int, shape: Iterable[int], strides: Iterable[int]) -> Facts:
        """The facts of an array at `address` with `shape` and `strides` in elements."""
        extents, steps = tuple(shape), tuple(strides)
        size = SIZE[dtype]
        lines = [address % 16 == 0 and _whole_lines(steps, axis, size) for axis in range(len(steps))]
        turned = next((axis for axis, step in enumerate(steps[:-1]) if step == 1 and lines[axis]), None)
        return cls(
            dtype,
            len(extents),
            bool(steps) and steps[-1] == 1,
            bool(lines) and lines[-1],
            tuple(map(_divisor, extents)),
            turned,
        )

    @property
    def neighbours(self) -> int | None:
        """The axis along which whole 16-byte pieces can be moved."""
        return self.rank - 1 if self.unit and self.aligned else self.turned


def _whole_lines(strides: Sequence[int], axis: int, size: int) -> bool:
    """Whether every stride but that of `axis` is a multiple of 16 bytes."""
    return all(step * size % 16 == 0 for other, step in enumerate(strides) if other != axis)


def _divisor(extent: int) -> int:
    return min(extent & -extent, 65536) if extent else 1


def divides(tile: int, divisor: int) -> bool:
    """Whether a tile of `tile` elements is known to divide an extent with this power-of-two `divisor`."""
    return divisor % tile == 0


@dataclass(slots=True)
class Plan:
    """Threads, blocks per multiprocessor, bytes of the smallest element, layout per variable."""

    threads: int
    resident: int
    smallest: int
    types: Mapping[Node, Type]
    variables: dict[str, Layout] = field(default_factory=dict)
    # The products that warpgroups compute.
    grouped: frozenset[Node] = frozenset()
    # Whether each warp takes whole rows of every accumulator.
    tall: bool = False
    # The dtypes that tensor cores multiply.
    tensor: tuple[str, ...] = TENSOR_DTYPES
    lines: dict[tuple[int, ...], Lines] = field(default_factory=dict)

    def layout(self, shape: tuple[int, ...]) -> Layout:
        """Where a tile of `shape` lives unless it is an accumulator: beside one, if it is a row or a column of it."""
        return self.lines.get(shape) or self.apart(shape)

    def apart(self, shape: tuple[int, ...]) -> Layout:
        """The same with each element in one thread alone, or the whole tile in all of them."""
        size = prod(shape)
        if size <= WHOLE_LIMIT:
            return Whole(shape, self.threads)
        vector = 16 // self.smallest
        while vector > 1 and (shape[-1] % vector or vector * self.threads > size):
            vector //= 2
        return Linear(shape, self.threads, vector)

    def natural(self, expr: Expr) -> Layout | None:
        """The layout that `expr` computes in by itself; None if any would do."""
        if isinstance(expr, Name):
            return self.variables.get(expr.id)
        kind = self.types.get(expr)
        if not isinstance(kind, TileType):
            return None
        shape = tile_shape(kind)
        if isinstance(expr, OpCall) and expr.op == "mma":
            return self.accumulator(expr) or self.layout(shape)
        operands = operands_of(expr)
        if operands is None:
            return None
        for operand in operands:
            layout = self.natural(operand)
            if isinstance(layout, Fragments) and layout.shape == shape:
                return layout
        return None

    def accumulator(self, call: OpCall) -> Fragments | None:
        """The fragment layout of a product that the tensor cores can do, None for the others."""
        x, z = self.types[call.args[0]], self.types[call]
        if not isinstance(x, TileType) or not isinstance(z, TileType) or x.dtype.name not in self.tensor:
            return None
        inner = tile_shape(x)[-1]
        shape = tile_shape(z)
        if inner % 16:
            return None
        warps = fits_fragments(shape, self.threads)
        if warps is not None and (call in self.grouped or self.tall) and shape[-2] % (self.threads // 2) == 0:
            warps = (self.threads // 32, 1)
        return None if warps is None else Fragments(shape, self.threads, warps)

    def left(self, call: OpCall) -> Fragments | None:
        """Where the left operand of a product stands if its registers are to be the tensor cores' own: a warp that has
        whole rows of the accumulator needs the same rows of the operand and no others.
        """
        accumulator, kind = self.accumulator(call), self.types[call.args[0]]
        if accumulator is None or accumulator.warps[1] != 1 or not isinstance(kind, TileType):
            return None
        return Fragments(tile_shape(kind), self.threads, accumulator.warps)


def tile_shape(kind: TileType) -> tuple[int, ...]:
    """The extents of a specialised tile."""
    shape = tuple(e for e in kind.shape if isinstance(e, int))
    if len(shape) != len(kind.shape):
        raise AssertionError(f"the extents of {kind} are not bound: the kernel was not specialised")
    return shape


def operands_of(expr: Expr) -> tuple[Expr, ...] | None:
    """The operands of an elementwise expression, None for any other."""
    match expr:
        case Binary(op="@"):
            return None
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Unary(operand=operand):
            return (operand,)
        case Select(then=then, other=other):
            return (then, other)
        case OpCall(op=op, args=args) if op in SAME_LANE:
            return args
    return None


def make_plan(
    kernel: Kernel,
    types: Mapping[Node, Type],
    facts: Mapping[str, Facts],
    threads: int | None = None,
    staged: Sequence[OpCall] = (),
    grouped: int | None = None,
    tall: bool = False,
    tensor: tuple[str, ...] = TENSOR_DTYPES,
) -> Plan:
    """Choose threads and layouts for `kernel` with bound extents. `threads` overrides the choice; `staged` are the
    products with operands that run ahead (see `staging`); warpgroups compute all of them with `grouped` threads if given.
    `tall`: the left operand of one is computed, so warps take whole rows. `tensor` are the dtypes that tensor cores multiply.
    """
    sizes = [prod(tile_shape(t)) for t in types.values() if isinstance(t, TileType)]
    products = [n for n in walk(*kernel.body) if isinstance(n, OpCall) and n.op in ("mma", "matmul")]
    largest = max(sizes, default=1)
    if threads is None and grouped is not None:
        threads = grouped
    if threads is None and staged:
        threads = _staged_threads([tile_shape(t) for n in products if isinstance(t := types[n], TileType)])
    reduces = any(isinstance(n, OpCall) and n.op in OPS and OPS[n.op].family == "reduction" for n in walk(*kernel.body))
    smallest = min((SIZE[facts[p.name].dtype] for p in kernel.params if p.name in facts), default=4)
    narrow = not products and reduces and smallest < 4
    if threads is None:
        reducing = _NARROW_PER_THREAD if narrow else _WIDE_PER_THREAD
        per_thread = reducing if reduces else _ELEMENTS_PER_THREAD
        threads = _grown(largest, _ACCUMULATORS_PER_THREAD if products else per_thread)
        if not products and not reduces:
            threads = max(threads, min(_THREADS_FIRST, _grown(largest, 16 // smallest)))
        if narrow and threads == _MOST_THREADS and threads // 2 * _MOST_NARROW >= largest:
            threads //= 2
    several = sum(isinstance(p, TensorParam) and p.access is Access.SHARED for p in kernel.params) > 1
    resident = 1 if products else _resident(threads, largest, narrow, not reduces and several)
    if staged:
        shapes = {tile_shape(t) for n in products if isinstance(t := types[n], TileType)}
        held = sum(map(prod, shapes)) // threads
        beside = _BESIDE_ACCUMULATORS if grouped is None else _BESIDE_GROUPED
        resident = max(1, min(2, 65536 // (threads * min(held + beside, 255))))
    plan = Plan(threads, resident, smallest, types, tall=tall, tensor=tensor)
    if grouped == threads:
        plan.grouped = frozenset(staged)
    plan.lines = _lines(plan, products)
    _settle(plan, kernel)
    for product in staged:
        name, left = product.args[0], plan.left(product)
        if isinstance(name, Name) and left is not None and not isinstance(plan.variables.get(name.id), Fragments):
            plan.variables[name.id] = left
    return plan


def _grown(largest: int, per_thread: int) -> int:
    """Threads for a tile of `largest` elements, `per_thread` each."""
    threads = _FEWEST_THREADS
    while threads < _MOST_THREADS and threads * per_thread < largest:
        threads *= 2
    return threads


def _lines(plan: Plan, products: Sequence[OpCall]) -> dict[tuple[int, ...], Lines]:
    """The rows and columns beside accumulators, where all accumulators agree on who holds them."""
    found: dict[tuple[int, ...], set[Lines]] = {}
    for product in products:
        fragments = plan.accumulator(product) if product.op == "mma" else None
        if fragments is not None and len(fragments.shape) == 2:
            for shape in ((fragments.shape[0], 1), (1, fragments.shape[1])):
                found.setdefault(shape, set()).add(Lines(shape, plan.threads, fragments.warps))
    return {shape: lines.pop() for shape, lines in found.items() if len(lines) == 1 and prod(shape) > WHOLE_LIMIT}


def _staged_threads(shapes: Sequence[tuple[int, ...]]) -> int:
    """Threads for products into accumulators of `shapes`: shares as large as registers allow, since a warp reads less of
    the operands for each product the larger its share is.
    """
    per_thread = _STAGED_ACCUMULATORS if len(shapes) == 1 else _ACCUMULATORS_PER_THREAD
    threads = _STAGED_FEWEST
    while threads < _MOST_THREADS and threads * per_thread < max(map(prod, shapes)):
        threads *= 2
    while threads > _FEWEST_THREADS and not all(_in_pairs(shape, threads) for shape in shapes):
        threads //= 2
    return threads


def _in_pairs(shape: tuple[int, ...], threads: int) -> bool:
    """Whether warps can share an accumulator so that the pieces of each come in pairs, as `ldmatrix` brings operands."""
    warps = fits_fragments(shape, threads)
    return warps is not None and shape[-1] // warps[1] % 16 == 0


def _resident(threads: int, largest: int, narrow: bool, several: bool) -> int:
    """How many blocks should fit on a multiprocessor at once: the registers that the largest tile needs, plus room for
    addresses and temporaries, decide. A block in its reduction then leaves others to keep memory busy. With `several`
    operands there is room for two to be under way, or the second would wait for the first.
    """
    held = -(-largest // threads)
    wanted = 16 + held if narrow else 20 + held * 5 // 4 + (held // 2 if several else 0)
    registers = max(-(-wanted // 8) * 8, 32)
    return max(1, min(65536 // (threads * registers), 2048 // threads))


def _settle(plan: Plan, kernel: Kernel) -> None:
    """Give every tile variable its layout: fragments if any value it takes is one, to a fixed point."""
    values = list(_assignments(kernel.body, None))
    changed = True
    while changed:
        changed = False
        for target, value in values:
            layout = plan.natural(value)
            if isinstance(layout, Fragments) and plan.variables.get(target) != layout:
                plan.variables[target] = layout
                changed = True
    for target, value in values:
        kind = plan.types.get(value)
        if isinstance(kind, TileType) and target not in plan.variables:
            plan.variables[target] = plan.layout(tile_shape(kind))


def _assignments(body: Sequence[Node], result: str | None) -> Iterator[tuple[str, Expr]]:
    """Every variable with a value that it takes; a `Return` gives the result of the helper it leaves."""
    for node in body:
        match node:
            case Assign(target=target, value=value):
                yield target, value
            case Return(value=value) if value is not None and result is not None:
                yield result, value
            case Inline():
                yield from _assignments(node.body, node.result)
            case If(then=then, other=other):
                yield from _assignments((*then, *other), result)
            case For(body=inner) | ForIndices(body=inner) | While(body=inner):
                yield from _assignments(inner, result)
