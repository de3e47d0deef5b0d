"""The state of one lowering, and expressions: what things are, what they are called, in which layout a tile is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from llvmlite import ir

from tilecheck.ir.compilers import PRODUCTS
from tilecheck.ir.kernel import (
    Binary,
    Compare,
    Const,
    DimRef,
    Expr,
    For,
    Name,
    Node,
    OpCall,
    Stmt,
    Unary,
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
from tilecheck.ops.row import operators
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import faults
from tilecheck_runtime.backends.numba_cuda import accesses, blocks, products, statements, tiles, warpgroup
from tilecheck_runtime.backends.numba_cuda.anew import Recipes
from tilecheck_runtime.backends.numba_cuda.elementwise import ELEMENTWISE
from tilecheck_runtime.backends.numba_cuda.layout import Layout
from tilecheck_runtime.backends.numba_cuda.matrix import tensor_dtypes
from tilecheck_runtime.backends.numba_cuda.pipeline import Depth, Ring, arrived
from tilecheck_runtime.backends.numba_cuda.plan import Facts, Plan, make_plan, tile_shape
from tilecheck_runtime.backends.numba_cuda.reduction import Site
from tilecheck_runtime.backends.numba_cuda.registers import I32, I64, Value
from tilecheck_runtime.backends.numba_cuda.scalars import scalar_text
from tilecheck_runtime.backends.numba_cuda.source import Writer
from tilecheck_runtime.backends.numba_cuda.staging import Ahead, Search, Staging, find_stagings, settle_staging
from tilecheck_runtime.backends.numba_cuda.standing import Standing, find_standing, fresh, still_staged
from tilecheck_runtime.backends.numba_cuda.swizzle import ALIGNMENT, Swizzled
from tilecheck_runtime.backends.numba_cuda.table import TILE_OPS
from tilecheck_runtime.backends.numba_cuda.tiles import Held, cast_held


class NoLowering(Exception):
    """An op or form that this backend does not compile; `what` names it in the user's words."""

    def __init__(self, what: str, node: Node) -> None:
        super().__init__(f"the numba-cuda backend does not compile {what}")
        self.what = what
        self.span = node.span


class Lowering:
    """The state of one lowering: the text so far, the plan, the types."""

    def __init__(
        self,
        report: TileReport,
        facts: Mapping[str, Facts],
        maps: Mapping[str, tuple[int, ...]],
        threads: int | None,
        depth: Depth,
        warpgroups: bool,
        capability: tuple[int, int],
    ) -> None:
        self.kernel = report.kernel
        self.types: Mapping[Node, Type] = report.types
        self.dims = {key: decl.size for key, decl in report.kernel.dims.items() if decl.size is not None}
        self.facts = facts
        self.maps = maps
        self.hoisted = report.hoisted
        self.in_place: dict[Node, list[int]] = {}
        for access in report.accesses:
            if access.rung == "in-place":
                self.in_place.setdefault(access.node, []).append(access.axis)
        self.depth = depth
        self.capability = capability
        search = Search(self.kernel, self.types, facts)
        stagings = find_stagings(search, self.kernel) if depth.stages else ()
        standing = find_standing(search, self.kernel, stagings)
        staged = tuple(product for staging in stagings for product in staging.products)
        grouped = self._grouped(stagings, standing) if warpgroups else None
        tall = any(staging.ahead(product) == (False, True) for staging in stagings for product in staging.products)
        self.plan: Plan = make_plan(
            self.kernel, self.types, facts, threads, staged, grouped, tall, tensor_dtypes(capability)
        )
        settled = [settle_staging(staging, self.plan.accumulator) for staging in stagings]
        self.stagings = {staging.loop: staging for staging in settled if staging.uses}
        self.rings: dict[For, Ring] = {}
        self.standing = still_staged(standing, tuple(self.stagings.values())) if self.plan.grouped else {}
        self.unspoken = frozenset(value for staging in self.stagings.values() for value in staging.unspoken)
        self.unspoken |= {value for tile in self.standing.values() for value in tile.by_way_of}
        self._places: dict[str, str] = {}
        self._renamed: dict[str, str] = {}
        self.out = Writer()
        self.recipes = Recipes()
        self.checks = False
        self._operators = {token: row.name for token, row in operators().items()}
        self.own: dict[str, tuple[int, ...]] = {}
        self.cut: set[str] = set()
        for kind in self.types.values():
            if isinstance(kind, SubTilesType):
                self.cut.add(kind.array)
            elif isinstance(kind, TensorType) and kind.access in ("Mut", "Mapped") and kind.shape is not None:
                self.own[kind.name] = tuple(self.extent(e) for e in kind.shape)
        self._loops = 0
        self.returns: list[tuple[str | None, bool]] = []

    def _grouped(self, stagings: Sequence[Staging], standing: Mapping[str, Standing]) -> int | None:
        """The threads of a block whose warpgroups compute all of the kernel's products; None if they cannot."""
        stand = {product for tile in standing.values() for product in tile.products}
        products = [node for node in self.types if isinstance(node, OpCall | Binary) and node.op in PRODUCTS]
        counts: set[int | None] = set()
        for node in products:
            if not isinstance(node, OpCall):
                return None
            staging = next((staging for staging in stagings if staging.ahead(node)[1]), None)
            if staging is None:
                return None
            if not (staging.ahead(node)[0] or node in stand or fresh(node.args[0], staging.loop)):
                return None
            left = self.tile_type(node.args[0])
            counts.add(warpgroup.threads_for(left.dtype.name, tile_shape(self.tile_type(node)), tile_shape(left)[-1]))
        return counts.pop() if len(counts) == 1 else None

    def block_ids(self, in_row: bool) -> bool:
        """Bind b0, b1, b2; whether the blocks stand `in_row`, which they do also where their order is the kernel's own."""
        outputs = [
            len(t.shape)
            for t in self.types.values()
            if isinstance(t, TensorType) and t.access == "Mut" and t.shape is not None
        ]
        # The grid has the axes of its outputs: the launch refuses one that disagrees with their partitions.
        axes = min((3, *outputs))
        rank = max((len(tile) for tile in self.own.values()), default=0)
        product = any(isinstance(node, OpCall) and node.op == "mma" for node in self.types)
        by_bands, descending = product and rank in (2, 3) and axes > 1, blocks.uneven(self.kernel.body)
        if not by_bands and (axes == 1 or not in_row):
            ids = (
                f"int64(uint32(cuda.blockIdx.{name}))" if axis < axes else "int64(0)" for axis, name in enumerate("xyz")
            )
            self.out.line(f"b0, b1, b2 = {', '.join(ids)}")
            return False

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            block, *grid = (builder.trunc(a[0], I32) for a in args)
            if by_bands:
                parts = blocks.banded(builder, block, grid, rank, descending)
            else:
                parts = blocks.counted(builder, block, grid)
            return [builder.zext(part, I64) for part in parts]

        key = (rank, descending) if by_bands else None
        name = self.out.intrinsic("block_ids", key, 4, ("i64", 3), build)
        self.out.line(f"b0, b1, b2 = {name}(int64(cuda.blockIdx.x), g0, g1, g2)")
        return True

    # ---- what things are

    def variable(self, name: str) -> str:
        """The name of a variable in the text; inlined helpers' `scale.x` becomes `scale__x`."""
        return self._renamed.get(name) or name.replace(".", "__")

    @contextmanager
    def renaming(self, name: str, to: str) -> Iterator[None]:
        """Spell a variable as another one, for text that speaks of a later round of a loop."""
        self._renamed[name] = to
        yield
        del self._renamed[name]

    def in_shared(self, operand: Expr) -> tuple[Swizzled, bool, str] | None:
        """The form, whether it is transposed, and the offset of an operand that stands in shared memory; None if it comes
        in registers.
        """
        for loop, ring in self.rings.items():
            use = self.stagings[loop].uses.get(operand)
            if use is not None:
                return use.ahead.form, use.transposed, arrived(self, ring, use.ahead)
        if isinstance(operand, Name) and operand.id in self.standing:
            tile = self.standing[operand.id]
            return tile.load.form, tile.transposed, self.place_of(tile)
        return None

    def runs_ahead(self, operand: Expr) -> bool:
        """Whether `operand` is a tile of the loop that is being lowered, and is there already."""
        return any(operand in self.stagings[loop].uses for loop in self.rings)

    def place_of(self, tile: Standing) -> str:
        """The offset of a standing tile, as text."""
        if tile.variable not in self._places:
            self._places[tile.variable] = self.out.fresh("place")
        return f"int64({self._places[tile.variable]})"

    def settle_places(self) -> None:
        """Find room for the standing tiles, behind all that ops and loops use in turns."""
        for variable, name in self._places.items():
            base = -(-self.out.shared_bytes // ALIGNMENT) * ALIGNMENT
            self.out.constant(name, base)
            self.out.shares(ALIGNMENT + base + self.standing[variable].load.form.size)

    def ring_of_load(self, load: OpCall) -> tuple[Ahead, str] | None:
        """A load that ran ahead and goes to registers in this round, and the offset of its tile; None if it did not."""
        for loop, ring in self.rings.items():
            ahead = self.stagings[loop].taken.get(load)
            if ahead is not None:
                return ahead, arrived(self, ring, ahead)
        return None

    def view_order(self, load: OpCall) -> tuple[int, ...]:
        """The array's axes that the axes of a view walk."""
        view = self.types[load.args[0]]
        assert isinstance(view, ViewType)
        return view.permute

    def extent(self, extent: object) -> int:
        """A bound extent as a number."""
        if isinstance(extent, int):
            return extent
        raise AssertionError(f"the extent {extent} is not bound: the kernel was not specialised")

    def tile_type(self, node: Expr) -> TileType:
        kind = self.types[node]
        if not isinstance(kind, TileType):
            raise AssertionError(f"{type(node).__name__} is not a tile")
        return kind

    def scalar_kind(self, expr: Expr) -> str | None:
        """`int`, `float` or `bool` for a scalar, None for a tile."""
        kind = self.types[expr]
        if isinstance(kind, ScalarType):
            return kind.kind
        return "int" if isinstance(kind, DimType) else None

    def constant_int(self, expr: Expr) -> int:
        """The value of an int that the type pass knows."""
        if isinstance(expr, Const) and isinstance(expr.value, int):
            return expr.value
        if isinstance(expr, DimRef):
            return self.dims[expr.key]
        kind = self.types[expr]
        if isinstance(kind, ScalarType) and isinstance(kind.value, int):
            return kind.value
        if isinstance(kind, DimType):
            return self.extent(kind.extent)
        raise AssertionError("not a constant")

    def site(self, op: str) -> Site:
        """A name for this place in the kernel, for what an op keeps in shared memory."""
        return Site(self.out.fresh(f"tilecheck_{self.kernel.name}_{op}"), self._loops > 0)

    def choose(self, node: Expr, shape: tuple[int, ...], want: Layout | None) -> Layout:
        """The layout that a flexible op computes in: the wanted one, its operands', or the plan's."""
        if want is not None and want.shape == shape:
            return want
        return self.plan.natural(node) or self.plan.layout(shape)

    # ---- expressions

    def bind(self, stem: str, text: str, layout: Layout, dtype: str) -> Held:
        """Give the tile that `text` computes a name."""
        name = self.out.fresh(stem)
        self.out.line(f"{name} = {text}")
        return Held(name, layout, dtype)

    def scalar(self, expr: Expr) -> str:
        return scalar_text(self, expr)

    def tile(self, expr: Expr, want: Layout | None) -> Held:
        """Lower a tile expression; `want` is the layout that the consumer computes in, a wish."""
        match expr:
            case Name(id=name):
                kind = self.tile_type(expr)
                layout = self.plan.variables.get(name) or self.plan.layout(tile_shape(kind))
                return Held(self.variable(name), layout, kind.dtype.name)
            case Binary(op="@", left=left, right=right):
                return products.product(self, expr, left, right, None, want)
            case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right):
                return tiles.elementwise_op(self, self._operators[op], expr, (left, right), want)
            case Unary(op=op, operand=operand):
                return tiles.elementwise_op(self, self._operators[f"unary {op}"], expr, (operand,), want)
            case OpCall(op=op) if op in ELEMENTWISE:
                return tiles.elementwise_op(self, op, expr, expr.args, want)
            case OpCall(op=op) if op in TILE_OPS:
                return TILE_OPS[op](self, expr, want)
            case OpCall(op="load" | "load_tile" | "load_like"):
                return accesses.load(self, expr, want)
        raise NoLowering(f"`{expr.op}`" if isinstance(expr, OpCall) else type(expr).__name__.lower(), expr)

    def elementwise_parts(self, expr: Expr) -> tuple[str, tuple[Expr, ...]]:
        """The row and the operands of an elementwise expression."""
        match expr:
            case Binary(op=op, left=left, right=right) | Compare(op=op, left=left, right=right) if op != "@":
                return self._operators[op], (left, right)
            case Unary(op=op, operand=operand):
                return self._operators[f"unary {op}"], (operand,)
            case OpCall(op=op, args=args) if op in ELEMENTWISE or op == "where":
                return op, args
        raise self.refuse("this expression in a device function", expr)

    def refuse(self, what: str, node: Node) -> NoLowering:
        return NoLowering(what, node)

    def one_value(self, expr: Expr, dtype: str) -> str:
        """A tile of one element as a scalar of the text, cast to `dtype`."""
        held = cast_held(self, self.tile(expr, None), dtype)
        return f"{held.name}[0]"

    # ---- statements

    def body(self, nodes: Sequence[Stmt]) -> None:
        for node in nodes:
            statements.statement(self, node)

    def loop(self, body: Sequence[Stmt]) -> None:
        """The body of a loop: a `return` in it could not leave a helper by `break`."""
        self.returns.append((None, True))
        self._loops += 1
        self.body(body)
        self._loops -= 1
        self.returns.pop()

    def fault_unless(self, test: str, line: int) -> None:
        """Leave the kernel unless `test` holds, with `line` and the block in the fault record."""

        def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
            record = builder.inttoptr(args[0][0], ir.PointerType(I64))
            failed = builder.sub(I64(faults.MOST), builder.or_(builder.shl(args[2][0], I64(32)), args[1][0]))
            builder.atomic_rmw("max", record, failed, "monotonic")
            return ()

        self.checks = True
        name = self.out.intrinsic("fault", None, 3, None, build)
        with self.out.block(f"if not {test}:"):
            self.out.line(f"{name}(fault, int64({line}), b0 + g0 * (b1 + g1 * b2))")
            self.out.line("return")
