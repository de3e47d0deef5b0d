"""A loop whose loads run ahead, as text: a ring of stages in shared memory, filled by `cp.async` some rounds early.

With three stages the loop of a matrix product becomes

    for _fill in range(2):                      # tiles 0 and 1 under way
        if ahead < stop:
            fetch_0(x, ..., (i, ahead), ring + fill)
            fetch_1(y, ..., (ahead, j), ring + fill + 16384)
        ...commit, one step on
    for k in range(start, stop, 1):
        arrive_0()                              # the tiles of round k are there, for all threads
        if ahead < stop: ...fetch into the stage that round k - 1 has left
        acc = mma_0(ring + full, ring + full + 16384, acc)
    leave_0()

Where warpgroups compute the products (see `warpgroup`), the copies are started between the issue of the first product and
its end, while the tensor cores are busy. If nothing but the next round's product looks at the accumulator, its end is left
to the next round as well (`overlaps`), so that the tensor cores work through the barrier; a stage is then read for one
round more, and copies run one round less ahead.

Invariant: one barrier a round. It follows the wait of every thread for its own copies, so the stage of round k is whole;
and every thread passes it after its reads of round k - 1, so that stage may be filled again. A group is committed in every
round, also when there is nothing left to fetch, so `wait_group` counts rounds.

The ring lies behind what the ops in the loop use of the shared buffer (see `shared`); before and after the loop the whole
buffer is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck.ir.kernel import Assign, For, Name, OpCall, walk
from tilecheck_runtime.backends.numba_cuda import swizzle, warpgroup
from tilecheck_runtime.backends.numba_cuda.accesses import index_tests, index_text, place
from tilecheck_runtime.backends.numba_cuda.plan import tile_shape
from tilecheck_runtime.backends.numba_cuda.registers import Value
from tilecheck_runtime.backends.numba_cuda.shared import barrier
from tilecheck_runtime.backends.numba_cuda.staging import Ahead, Staging
from tilecheck_runtime.backends.numba_cuda.standing import Standing

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering

# Shared memory in KiB: of a multiprocessor, and what one block may have of it.
_SHARED: Final = {(8, 0): (164, 163), (8, 7): (164, 163), (9, 0): (228, 227), (10, 0): (228, 227), (10, 3): (228, 227)}
_LEAST: Final = (100, 99)
_RESERVED: Final = 1024
# With as many stages, a product may end in the round after its own.
_OVERLAPPING: Final = 4


@dataclass(frozen=True, slots=True)
class Depth:
    """How far loads run ahead: `stages` in the ring, for `resident` blocks on a multiprocessor; no stages: not at all."""

    stages: int
    resident: int

    def fits(self, capability: tuple[int, int], shared: int) -> bool:
        """Whether blocks of `shared` bytes fit."""
        whole, block = _SHARED.get(capability, _LEAST)
        return shared <= min(block * 1024, whole * 1024 // self.resident - _RESERVED)


def depths(resident: int) -> tuple[Depth, ...]:
    """What to try, best first: three stages hide the latency of memory, and a second block the barriers of the first."""
    deep = [Depth(stages, blocks) for blocks in range(resident, 0, -1) for stages in (4, 3)]
    return (*deep, Depth(2, 1), Depth(0, 1))


@dataclass(frozen=True, slots=True)
class Ring:
    """The stages of one loop while its body is lowered: the text of the full stage's offset, where tiles lie in it, the
    product that starts the copies of a later round, if one does, and whether that product ends a round later.
    """

    full: str
    starts: Mapping[Ahead, int]
    starter: OpCall | None
    overlaps: bool
    refill: Callable[[], None]


def pipelined(low: Lowering, node: For, staging: Staging) -> None:
    """Spell out the loop."""
    stages, target = low.depth.stages, low.variable(node.target)
    starter = next((product for product in staging.products if product in low.plan.grouped), None)
    carrier = None if starter is None or stages < _OVERLAPPING else _carrier(node, starter)
    reach = stages - (1 if carrier is None else 2)
    ring, stop, ahead, fill, full = (low.out.fresh(stem) for stem in ("ring", "stop", "ahead", "fill", "full"))
    starts: dict[Ahead, int] = {}
    for load in staging.loads:
        starts[load] = sum(other.form.size for other in starts)
    last = (stages - 1) * staging.size
    low.out.line(f"{ahead} = int64({low.scalar(node.start)})")
    low.out.line(f"{stop} = int64({low.scalar(node.stop)})")
    step = low.scalar(node.step)
    low.out.line(f"{fill} = int64({ring})")

    def fetch() -> None:
        with low.out.block(f"if {ahead} < {stop}:"), low.renaming(node.target, ahead):
            for load in staging.loads:
                _fetch(low, load, f"{fill} + {starts[load]}")
        low.out.line(f"{_effect(low, 'commit')}()")
        low.out.line(f"{ahead} += {step}")

    first = low.out.fresh("first")
    low.out.line(f"{first} = {ahead}")
    with low.out.block(f"for _fill in range({reach}):"):
        fetch()
        low.out.line(f"{fill} += {staging.size}")
    low.out.line(f"{full} = int64({ring})")

    def refill() -> None:
        fetch()
        low.out.line(f"{fill} = {_next(fill, ring, last, staging.size)}")

    constant = step.isdigit()
    # A `range` with a step known at run time counts its rounds by a 64-bit division.
    head = f"for {target} in range({first}, {stop}, {step}):" if constant else f"while {first} < {stop}:"
    with low.out.block(head):
        if not constant:
            low.out.line(f"{target} = {first}")
            low.out.line(f"{first} += {step}")
        low.out.line(f"{_effect(low, 'arrive', reach - 1)}()")
        if starter is None:
            refill()
        before = low.out.take_shared()
        low.rings[node] = Ring(full, starts, starter, carrier is not None, refill)
        low.loop(node.body)
        del low.rings[node]
        used = low.out.take_shared()
        low.out.line(f"{full} = {_next(full, ring, last, staging.size)}")
    if carrier is not None:
        layout = low.plan.variables[carrier]
        low.out.line(f"{low.variable(carrier)} = {finisher(low, layout.registers)}({low.variable(carrier)})")
    low.out.line(f"{_effect(low, 'leave')}()")
    base = -(-used // swizzle.ALIGNMENT) * swizzle.ALIGNMENT
    low.out.constant(ring, base)
    low.out.shares(max(before, swizzle.ALIGNMENT + base + stages * staging.size))


def _carrier(loop: For, product: OpCall) -> str | None:
    """The variable of a loop that holds the accumulator of its only product, `v = mma(x, y, v)`, and that nothing else in
    the loop reads; None if there is none.
    """
    variable = product.args[2]
    if not isinstance(variable, Name):
        return None
    carried = any(isinstance(s, Assign) and s.value is product and s.target == variable.id for s in loop.body)
    nodes = list(walk(*loop.body))
    readings = sum(isinstance(n, Name) and n.id == variable.id for n in nodes)
    writings = sum(isinstance(n, Assign) and n.target == variable.id for n in nodes)
    products = sum(isinstance(n, OpCall) and n.op == "mma" for n in nodes)
    return variable.id if carried and readings == writings == products == 1 else None


def finisher(low: Lowering, registers: int) -> str:
    """The name of what waits for products under way and gives their accumulator."""

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        return warpgroup.finish(builder, args[0])

    return low.out.intrinsic("finish", registers, 1, ("f32", registers), build)


def _next(place: str, ring: str, last: int, size: int) -> str:
    return f"int64({ring}) if {place} == {ring} + {last} else {place} + {size}"


def stand(low: Lowering, tile: Standing) -> None:
    """Bring a tile to where it stands. The loops that read it wait for copies as old as this one in their first round."""
    for test in _tests(low, tile.load):
        low.fault_unless(test, tile.load.load.span.line)
    _copy(low, tile.load, low.place_of(tile))
    low.out.line(f"{_effect(low, 'commit')}()")


def _fetch(low: Lowering, load: Ahead, offset: str) -> None:
    tests = _tests(low, load)
    if not tests:
        _copy(low, load, offset)
        return
    # The round that the check belongs to will report it; until then nothing outside is read.
    with low.out.block(f"if {' and '.join(tests)}:"):
        _copy(low, load, offset)


def _copy(low: Lowering, load: Ahead, offset: str) -> None:
    permute = low.view_order(load.load)
    what = swizzle.Fetch(load.form, tile_shape(low.tile_type(load.load)), load.axes, load.whole, low.plan.threads)

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        base, extents, strides, index, target = args
        swizzle.fetch(builder, what, base[0], extents, strides, index, swizzle.arena(builder, target[0]))
        return ()

    name = low.out.intrinsic("fetch", what, 5, None, build)
    base, extents, strides = place(low, load.array, permute, False)
    low.out.line(f"{name}({base}, {extents}, {strides}, {index_text(low, load.load.args[1:])}, {offset})")


def _tests(low: Lowering, load: Ahead) -> list[str]:
    shape = tile_shape(low.tile_type(load.load))
    return index_tests(low, load.load, load.array, load.load.args[1:], shape, low.view_order(load.load))


def arrived(low: Lowering, ring: Ring, load: Ahead) -> str:
    """The offset of this round's tile in the arena, after the checks that stay at the load."""
    for test in _tests(low, load):
        low.fault_unless(test, load.load.span.line)
    return f"{ring.full} + {ring.starts[load]}"


def _effect(low: Lowering, what: str, pending: int = 0) -> str:
    """The name of `commit`, `arrive` (this round's tiles are there, those of `pending` later ones may be under way) or
    `leave` (nobody reads the ring any more).
    """

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        if what == "commit":
            swizzle.commit(builder)
        else:
            swizzle.wait(builder, pending)
            if grouped:
                warpgroup.visible(builder)
            barrier(builder)
        return ()

    grouped = bool(low.plan.grouped)
    return low.out.intrinsic(what, (pending, grouped), 0, None, build)
