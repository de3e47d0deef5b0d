"""The record of one symbolic walk through a kernel: launch symbols, arrays, accesses, barriers, gaps.

A *gap* is something the walk could not follow; the properties it names become unknown at its line, never silently true.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tilecheck.ir.kernel import Kernel, Node
from tilecheck.ir.simt import AllocArray
from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint, Term
from tilecheck.symbolic.smt_solver import Solver
from tilecheck.symbolic.smt_symbols import Symbols, bound_by, give_fact
from tilecheck.symbolic.smt_terms import FALSE, TRUE, ZERO, add, conj, lt, mul, num
from tilecheck.verify.known import Known
from tilecheck.verify.usage import Usage
from tilecheck.verify.values import Access, Array, Check, Held, Tags, Told, Value
from tilecheck.verify.verdict import Property

AXES: tuple[Literal["x", "y", "z"], ...] = ("x", "y", "z")
LARGEST_BLOCK = {"x": 1024, "y": 1024, "z": 64}
LARGEST_GRID = {"x": 2**31 - 1, "y": 65535, "z": 65535}
WARP_LANES = 32
# No address space holds more elements.
LARGEST_ARRAY = 2**56


@dataclass(frozen=True, slots=True)
class Gap:
    """`properties` are unknown because of `reason` at `node`; `array` limits that to one array."""

    reason: str
    node: Node
    properties: frozenset[Property]
    array: Array | None = None


@dataclass(frozen=True, slots=True)
class BarrierPoint:
    """A barrier met under `guard`. `mask` is the value of a warp barrier's or warp operation's mask, None for all."""

    scope: Level
    guard: Term
    node: Node
    word: str
    mask: Term | None = None


@dataclass(frozen=True, slots=True)
class Crossing:
    """A warp barrier of some lanes, passed at most once by a thread; accesses from number `at` on come after it."""

    at: int
    guard: Term
    mask: Term | None


@dataclass(frozen=True, slots=True)
class FencePoint:
    """A device fence, passed at most once by a thread; accesses from number `at` on come after it."""

    at: int
    guard: Term
    tags: Tags


@dataclass(frozen=True, slots=True)
class Taking:
    """An atomic that takes the lock `(array, index)` by writing `value` where it returns 0."""

    array: Array
    index: tuple[Term, ...]
    value: int


@dataclass(frozen=True, slots=True)
class Narrowing:
    """`dtype(term)` evaluated under `guard`."""

    dtype: str
    term: Term
    guard: Term
    node: Node


@dataclass(frozen=True, slots=True)
class Observation:
    """A term that has to be in `limits` at `node`, reached under `guard`; `index` if it is a position of an access."""

    term: Term
    guard: Term
    node: Node
    index: bool = False
    limits: tuple[int, int] = INT64


@dataclass(frozen=True, slots=True)
class Ticket:
    """The old value of an atomic add of `increment` to a counter that only such adds touch; `once` if it stands in no
    loop.
    """

    old: Term
    array: Array
    level: Level
    increment: Term
    access: Access
    once: bool = False


@dataclass(slots=True)
class State:
    """One point of the walk: variables, path condition, whether the thread is still here, open barrier intervals.

    `dirty` are the arrays that this thread may have written since its last block barrier; `version` names the contents
    of memory between two barriers. `locks` are held here; accesses before number `sealed` are before a fence. `told` is
    what single threads told the block before its last barrier, `telling` what they will have at the next, `wrote` the
    arrays written since (`told.py`).
    """

    env: dict[str, Value]
    path: tuple[Term, ...]
    live: Term
    tags: Tags
    dirty: frozenset[Array] = frozenset()
    version: int = 0
    locks: frozenset[Held] = frozenset()
    sealed: int = 0
    told: tuple[Told, ...] = ()
    telling: tuple[Told, ...] = ()
    wrote: frozenset[Array] = frozenset()

    def fork(self) -> State:
        return replace(self, env=dict(self.env))

    def become(self, other: State) -> None:
        """Take over everything but the path condition."""
        self.env, self.live, self.tags = other.env, other.live, other.tags
        self.dirty, self.version = other.dirty, other.version
        self.locks, self.sealed = other.locks, other.sealed
        self.told, self.telling, self.wrote = other.told, other.telling, other.wrote

    @property
    def guard(self) -> Term:
        return conj(*self.path, self.live)

    @property
    def dead(self) -> bool:
        return self.live is FALSE


@dataclass(slots=True)
class Leave:
    """A jump out of a construct: under `cond` (from the construct's start), with these variables, intervals and locks, and
    with what is known of memory there.
    """

    cond: Term
    env: dict[str, Value]
    tags: Tags
    locks: frozenset[Held]
    sealed: int
    dirty: frozenset[Array]
    version: int


@dataclass(slots=True)
class Frame:
    """A loop or an inlined function being walked; `depth` is the length of the path at its start."""

    depth: int
    loop: bool
    breaks: list[Leave] = field(default_factory=list)
    continues: list[Leave] = field(default_factory=list)
    returns: list[Leave] = field(default_factory=list)
    exits: list[Term] = field(default_factory=list)
    asserts: bool = False


class Dims:
    """The launch as terms: constants where it is known, symbols elsewhere."""

    def __init__(self, symbols: Symbols, grid: tuple[int | None, ...], block: tuple[int | None, ...]) -> None:
        self.block: list[Term] = []
        self.grid: list[Term] = []
        self.thread: list[Term] = []
        self.at: list[Term] = []
        for i, axis in enumerate(AXES):
            self.block.append(_extent(symbols, f"blockDim.{axis}", block[i], LARGEST_BLOCK[axis]))
            self.grid.append(_extent(symbols, f"gridDim.{axis}", grid[i], LARGEST_GRID[axis]))
            self.thread.append(_position(symbols, f"threadIdx.{axis}", Level.THREAD, self.block[i]))
            self.at.append(_position(symbols, f"blockIdx.{axis}", Level.BLOCK, self.grid[i]))
        threads = mul(mul(self.block[0], self.block[1]), self.block[2])
        for extent in self.block:
            if extent.symbol is not None and threads is not extent:
                give_fact(extent, lt(threads, num(1025)))

    @property
    def linear(self) -> Term:
        """The thread's number in its block."""
        x, y, z = self.thread
        return add(x, mul(self.block[0], add(y, mul(self.block[1], z))))

    @property
    def threads(self) -> Term:
        return mul(mul(self.block[0], self.block[1]), self.block[2])

    @property
    def symbols(self) -> tuple[Term, ...]:
        return tuple(t for t in (*self.block, *self.grid) if t.symbol is not None)


def _extent(symbols: Symbols, name: str, value: int | None, largest: int) -> Term:
    return num(value) if value is not None else symbols.fresh(name, Level.GRID, Taint.INPUT, 1, largest)


def _position(symbols: Symbols, name: str, level: Level, extent: Term) -> Term:
    if extent.high == 1:
        return ZERO
    made = symbols.fresh(name, level, Taint.NONE, 0, None if extent.high is None else extent.high - 1)
    if extent.kind != "const":
        bound_by(made, high=add(extent, num(-1)))
    return made


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Lengths of what a run has noted, the accesses first, and of the jumps of its frames."""

    noted: tuple[int, ...]
    frames: tuple[tuple[int, int, int, int], ...]


_WIDTHS = {"bool": 1, "complex64": 8, "complex128": 16}


def itemsize(dtype: str | None) -> int | None:
    """Bytes of one element of a NumPy dtype, None if it is not known."""
    if dtype is None:
        return None
    digits = dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
    return _WIDTHS.get(dtype, int(digits) // 8 if digits.isdigit() else None)


class Run:
    """Everything that one walk finds out. `recording` is off while loops are being analysed."""

    def __init__(
        self,
        kernel: Kernel,
        usage: Usage,
        dims: Dims,
        symbols: Symbols,
        solver: Solver,
        shared_bytes: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.solver = solver
        self.shared_bytes = shared_bytes
        # Whether a negative index counts from the end once, as it does for numba.
        self.wraps = kernel.track != "cutile"
        self.usage = usage
        self.symbols = symbols
        self.dims = dims
        self.arrays: dict[str, Array] = {}
        self.accesses: list[Access] = []
        self.barriers: list[BarrierPoint] = []
        self.warp_ops: list[BarrierPoint] = []
        self.gaps: list[Gap] = []
        self.tickets: list[Ticket] = []
        self.ends: list[tuple[Term, Node]] = []
        self.frames: list[Frame] = []
        self.recording = True
        self.only_tags: frozenset[str] | None = None
        self.barrier_loops = 0
        self.tag_count = 0
        self.uses_warp_barrier = False
        self.uses_fence = False
        self.uses_lock = False
        # Fixed positions of views: they must be in bounds although they touch no element.
        self.view_checks: list[tuple[Array, tuple[Check, ...], Term, Node]] = []
        # A ballot's predicate, and the predicate under which a rank taken from a ballot is nobody else's.
        # Counters of loops in whose body the lanes of a warp meet for a vote or a shuffle.
        self.warp_counters: set[Symbol] = set()
        # Arrays that hold counters: atomics only ever add to them.
        self.counters: set[str] = set()
        # Old values taken to be zero or above, those of which no such thing may be said, and counters that are assumed
        # not to wrap (`counters.py`).
        self.counted: dict[Term, Access] = {}
        self.falling: frozenset[Node] = frozenset()
        self.unwrapped: set[str] = set()
        # Values that may not fit into 64 bits where that is seen, and the scalars that were taken to be below 2**60.
        self.observations: list[Observation] = []
        self.modest: set[str] = set()
        # What counters that are multiplied run up to, and no further than they are followed.
        self.followed: set[str] = set()
        # Casts of integers to fewer bits.
        self.narrowings: list[Narrowing] = []
        # What is known of the contents of arrays, by the name of the function that loads them.
        self.known: dict[str, Known] = {}
        # Constants of the enclosing Python scope that could not be read, by name.
        self.constants: dict[str, Term] = {}
        self.ballots: dict[Term, Term] = {}
        self.ranks: dict[Term, Term] = {}
        # Tickets as their drawers see them, in loops with barriers too, and arrays whose told elements were read.
        self.draws: dict[Term, Ticket] = {}
        self.leaned: set[Array] = set()
        # Who got to where an active mask was taken.
        self.active_masks: dict[Term, Term] = {}
        # Warp barriers that order only the lanes of their masks, and loops being walked for a generic round.
        self.crossings: list[Crossing] = []
        self.fences: list[FencePoint] = []
        # Locks: the old values of what takes one, the atomics that do, and arrays given back by who holds nothing.
        self.takings: dict[Term, Taking] = {}
        self.lock_nodes: set[Node] = set()
        self.broken_locks: set[Array] = set()
        # Arrays that the launch shows to hold something else than zeros, and something below zero, at the start.
        self.not_zero: set[str] = set()
        self.below_zero: set[str] = set()
        # Counters of tickets that were taken to start at zero.
        self.zeroed: set[str] = set()
        # Counters whose tickets were taken to fit into 32 bits.
        self.small: set[str] = set()
        # Barriers that some threads may miss: they are not relied on.
        self.missed: frozenset[Node] = frozenset()
        self.generic_loops = 0

    def is_assigned(self, name: str) -> bool:
        """Whether the kernel binds `name`; a name it does not bind is a constant of the launch."""
        return self.usage.binds(name)

    def _noted(self) -> tuple[list[Any], ...]:
        return (
            self.accesses,
            self.barriers,
            self.warp_ops,
            self.gaps,
            self.tickets,
            self.ends,
            self.view_checks,
            self.crossings,
            self.observations,
        )

    def snapshot(self) -> Snapshot:
        """How much has been noted so far, for `restore`."""
        frames = tuple((len(f.breaks), len(f.continues), len(f.returns), len(f.exits)) for f in self.frames)
        return Snapshot(tuple(len(noted) for noted in self._noted()), frames)

    def restore(self, kept: Snapshot) -> None:
        """Forget everything noted since `kept` was taken."""
        for noted, length in zip(self._noted(), kept.noted, strict=True):
            del noted[length:]
        for frame, (breaks, continues, returns, exits) in zip(self.frames, kept.frames, strict=True):
            del frame.breaks[breaks:], frame.continues[continues:], frame.returns[returns:], frame.exits[exits:]

    def dynamic_array(self, node: AllocArray) -> Array:
        """The launch's dynamic shared buffer seen with `node`'s dtype; equal item sizes see the same elements."""
        width = itemsize(node.dtype)
        for array in self.arrays.values():
            if array.dynamic and itemsize(array.dtype) == width:
                self.arrays[node.name] = array
                return array
        if any(array.dynamic for array in self.arrays.values()):
            self.gap("two views of the dynamic shared buffer with items of different sizes", node, Property.RACE_FREE)
        if self.shared_bytes is not None and width is not None:
            extent = num(self.shared_bytes // width)
        else:
            name = f"dynamic_shared // {width}" if width is not None else f"{node.name}.size"
            extent = self.symbols.fresh(name, Level.GRID, Taint.INPUT, 0, 2**20)
        made = Array(node.name, "shared", (extent,), node.dtype, node.name in self.usage.written)
        made.whole_numbers = node.name in self.usage.whole_numbers
        made.node, made.dynamic = node, True
        self.arrays[node.name] = made
        return made

    def new_tag(self, label: str) -> str:
        self.tag_count += 1
        return f"{label}{self.tag_count}"

    def new_version(self) -> int:
        self.tag_count += 1
        return self.tag_count

    def gap(self, reason: str, node: Node, *properties: Property, array: Array | None = None) -> None:
        """Note what could not be followed; with no properties named, all of them are unknown."""
        names = frozenset(properties or tuple(Property))
        if not any(g.reason == reason and g.node is node and g.properties == names for g in self.gaps):
            self.gaps.append(Gap(reason, node, names, array))


def start_tags() -> Tags:
    return {level: {"start": TRUE} for level in (Level.GRID, Level.BLOCK, Level.WARP)}
