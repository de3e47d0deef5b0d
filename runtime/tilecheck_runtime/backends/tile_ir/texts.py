"""The text of one cuTile function while it is written, and what is known of the kernel: types, tiles, checks that stay.

Invariant: every line stands in the block that is open, and a block is never empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tilecheck.ir.compilers import PRODUCTS
from tilecheck.ir.kernel import (
    Assert,
    Binary,
    Const,
    DimRef,
    Expr,
    ForIndices,
    Inline,
    Node,
    OpCall,
    Return,
    Stmt,
    walk,
)
from tilecheck.ir.types import (
    DimType,
    ScalarType,
    SubTilesType,
    TensorType,
    TileType,
    Type,
    ViewType,
)
from tilecheck.verify.tile import TileReport
from tilecheck.verify.tile_report import CHECKED
from tilecheck_runtime.backends import faults
from tilecheck_runtime.backends.generated import Indented
from tilecheck_runtime.backends.tile_ir.words import ASSERTING, PADDING, NoLowering

# Rows of tiles that the blocks of a matrix product finish before they go on to the next rows.
BAND = 8


class Texts(Indented):
    """The state of one lowering."""

    def __init__(self, report: TileReport, maps: Mapping[str, tuple[int, ...]], latency: int | None = None) -> None:
        super().__init__()
        self.kernel = report.kernel
        self.types: Mapping[Node, Type] = report.types
        self.dims = {key: decl.size for key, decl in report.kernel.dims.items() if decl.size is not None}
        self.maps = maps
        self.latency = latency
        # Functions of the user's that `reduce` and `scan` take, in front of the kernel.
        self.functions: list[str] = []
        self.hoisted = report.hoisted
        self.in_place: dict[Node, list[int]] = {}
        for access in report.accesses:
            if access.rung == "in-place":
                self.in_place.setdefault(access.node, []).append(access.axis)
        self.checks = has_checks(report)
        self._inlined = 0
        self.banded = not maps and _of_products(report)
        # A check that fails ends its tile only, and a `return` too.
        self.walks = self.banded and not self.checks and not _leaves(report.kernel.body)
        self.own = {
            t.name: tuple(self.extent(e) for e in t.shape)
            for t in self.types.values()
            if isinstance(t, TensorType) and t.access in ("Mut", "Mapped") and t.shape is not None
        }

    def variable(self, name: str) -> str:
        return name.replace(".", "__")

    def extent(self, extent: object) -> int:
        if isinstance(extent, int):
            return extent
        raise AssertionError(f"the extent {extent} is not bound: the kernel was not specialised")

    def shape(self, kind: TileType) -> tuple[int, ...]:
        """The extents of a tile, which cuTile wants to be powers of two."""
        return tuple(self.extent(e) for e in kind.shape)

    def constant_int(self, expr: Expr) -> int:
        kind = self.types.get(expr)
        if isinstance(expr, Const) and isinstance(expr.value, int):
            return expr.value
        if isinstance(expr, DimRef):
            return self.dims[expr.key]
        if isinstance(kind, ScalarType) and isinstance(kind.value, int):
            return kind.value
        if isinstance(kind, DimType):
            return self.extent(kind.extent)
        raise AssertionError("not a constant")

    def bid(self, axis: int) -> str:
        """The block's own number along `axis`."""
        return f"b{axis}__" if self.banded and axis < 2 else f"ct.bid({axis})"

    def blocks_along(self, axis: int) -> str:
        """How many tiles the launch has along `axis`."""
        return ("rows__", "columns__", "1")[axis] if self.walks else f"ct.num_blocks({axis})"

    @contextmanager
    def tiles(self) -> Iterator[None]:
        """What the block computes inside: its own tile, or one tile after another.

        Blocks of a matrix product find their tile in bands of rows, so that those which run together share what they load.
        As many blocks as run at once then walk over all tiles, where nothing in the kernel speaks against it: the store
        of one tile goes on while the loads of the next have begun.
        """
        if not self.walks:
            if self.banded:
                self.line("rows__, columns__ = ct.num_blocks(0), ct.num_blocks(1)")
                self.line("number__ = ct.bid(0) + rows__ * ct.bid(1)")
                self._place_in_bands()
            yield
            return
        name, own = next(iter(self.own.items()))
        array = self.variable(name)
        for along, axis in (("rows__", 0), ("columns__", 1)):
            self.line(f"{along} = ct.cdiv({array}.shape[{axis}], {own[axis]})")
        with self.block("for tile__ in range(ct.bid(0), rows__ * columns__, ct.num_blocks(0)):"):
            self.line("number__ = tile__")
            self._place_in_bands()
            yield

    def _place_in_bands(self) -> None:
        for text in (
            f"first__ = number__ // ({BAND} * columns__) * {BAND}",
            "number__ = number__ - first__ * columns__",
            f"height__ = min({BAND}, rows__ - first__)",
            "b1__ = number__ // height__",
            "b0__ = first__ + number__ - b1__ * height__",
        ):
            self.line(text)

    def block_index(self, rank: int) -> str:
        return "(" + "".join(f"{self.bid(axis)}, " for axis in range(rank)) + ")"

    def sub_array(self, array: str) -> str:
        """The block's own tile of `array` as an array of its own, clipped at the array's edge."""
        text = self.variable(array)
        for axis, tile in enumerate(self.own[array]):
            start = f"{self.bid(axis)} * {tile}"
            stop = f"min({start} + {tile}, {self.variable(array)}.shape[{axis}])"
            text = f"{text}.slice(axis={axis}, start={start}, stop={stop})"
        return text

    def tile_count(self, source: Type, axis: int, tile: int) -> str:
        """How many tiles of `tile` elements a view, tensor or the block's own tile has along `axis`."""
        match source:
            case SubTilesType(array=array):
                return str(-(-self.own[array][axis] // tile))
            case ViewType(array=array, permute=permute):
                return f"ct.cdiv({self.variable(array)}.shape[{permute[axis]}], {tile})"
            case TensorType(name=array):
                return f"ct.cdiv({self.variable(array)}.shape[{axis}], {tile})"
        raise AssertionError("tiles of something that has none")

    def fault_unless(self, test: str, line: int) -> None:
        """Note `line` and the block once, and turn later stores of the block off, unless `test` holds."""
        with self.block(f"if ok & ct.bitwise_not({test}):"):
            number = f"{self.bid(0)} + ct.num_blocks(0) * ({self.bid(1)} + ct.num_blocks(1) * ct.bid(2))"
            self.line(f"ct.atomic_max(fault, 0, {faults.code(line, 0)} - ct.astype({number}, ct.int64) * {1 << 32})")
            self.line("ok = False")

    def padding(self, pad: object, call: OpCall) -> str:
        if isinstance(pad, str):
            return PADDING[pad]
        if pad == 0:
            return "ZERO"
        raise NoLowering(f"a padding of {pad}", call)


def _leaves(body: Sequence[Stmt]) -> bool:
    """Whether a kernel may end before its last statement; a helper ends with its value."""
    ends = sum(isinstance(node, Return) for node in walk(*body))
    return ends != sum(isinstance(node, Inline) for node in walk(*body))


def _of_products(report: TileReport) -> bool:
    """Whether a kernel multiplies matrices, and its blocks write matrices."""
    nodes = [node for node in walk(*report.kernel.body) if isinstance(node, OpCall | Binary)]
    written = [t for t in report.types.values() if isinstance(t, TensorType) and t.access == "Mut"]
    ranks = {len(t.shape) for t in written if t.shape is not None}
    return ranks == {2} and any(node.op in PRODUCTS for node in nodes)


def has_checks(report: TileReport) -> bool:
    """Whether a check remains in the kernel."""
    if any(access.rung in CHECKED for access in report.accesses):
        return True
    for node in walk(*report.kernel.body):
        if isinstance(node, Assert) or (isinstance(node, OpCall) and node.op in ASSERTING):
            return True
        if isinstance(node, ForIndices) and dict(node.source.kwargs).get("within") is not None:
            return True
    return False
