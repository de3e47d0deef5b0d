"""Calls inside numba kernels: the cuda intrinsics, pure scalar functions, and everything that could not be read.

An intrinsic is a row of a table below: canonical name to handler. A pure scalar function becomes an `OpCall` whose
name drops the module (`math.sqrt`, `numpy.sqrt` and `libdevice.sqrt` are all `sqrt`). A call of something unknown is
an `Unread` statement that may touch every array handed to it and may hold a barrier, and its value is `Opaque`.

Worked example: `old = cuda.atomic.add(hist, b, 1)` is `Assign("old", Atomic("add", hist, (b,), (1,)))`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.host_dtypes import dtype_name
from tilecheck.frontend.numba_build import const_array, handed, names_in, settled
from tilecheck.frontend.numba_exprs import Expressions
from tilecheck.frontend.scopes import UNKNOWN, FunctionValue, Ref
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import Binary, Const, Do, Expr, Extent, Name, Opaque, OpCall, Select, TupleExpr
from tilecheck.ir.simt import AllocArray, Atomic, Axis, Barrier, BarrierValue, Fence, Load, Store, ThreadVar, Warp

_AXES: tuple[Axis, ...] = ("x", "y", "z")
NOTHING = "no value"

# Scalar functions without effect, by the module that offers them.
_PURE_BUILTINS = frozenset(
    {"min", "max", "abs", "round", "int", "float", "bool", "complex", "ord", "chr", "hash", "str"}
)
_PURE_CUDA = frozenset({"popc", "brev", "clz", "ffs", "fma", "cbrt", "lanemask_lt"})
_PURE_MODULES = frozenset(
    {"math", "cmath", "operator", "numpy", "numba", "numba.cuda.libdevice", "numba.cuda.fp16", "numba.cuda.bf16"}
    | {"numba.cuda._internal.cuda_bf16", "numba.cuda._internal.cuda_fp8", "numba.cuda._internal.cuda_fp16"}
)
_ARRAY_FUNCTIONS = frozenset(
    {"sum", "prod", "mean", "std", "var", "argmin", "argmax", "cumsum", "sort", "argsort", "any", "all", "dot", "zeros"}
    | {"ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "array", "asarray", "copy", "reshape", "ravel"}
    | {"transpose", "concatenate", "nonzero", "where", "arange", "linspace", "polyfit", "interp", "broadcast_to"}
)
_VIEW_METHODS = frozenset({"reshape", "ravel", "view", "transpose", "astype", "flatten"})
_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
}
_VOTES = {
    "all_sync": "all",
    "any_sync": "any",
    "eq_sync": "eq",
    "ballot_sync": "ballot",
    "match_any_sync": "match_any",
    "match_all_sync": "match_all",
    "shfl_sync": "shfl",
    "shfl_up_sync": "shfl_up",
    "shfl_down_sync": "shfl_down",
    "shfl_xor_sync": "shfl_xor",
    "vote_sync_intrinsic": "vote",
    "shfl_sync_intrinsic": "shfl_intrinsic",
}
_FENCES = {"threadfence_block": "block", "threadfence": "device", "threadfence_system": "system"}
_CACHED_LOADS = frozenset({"ldca", "ldcg", "ldcs", "ldlu", "ldcv"})
_CACHED_STORES = frozenset({"stcg", "stcs", "stwb", "stwt"})
# Libraries of which no function synchronises threads.
_WITHOUT_BARRIERS = ("numpy.", "math.", "numba.cuda.bf16.", "numba.cuda.fp16.", "numba.cuda._internal.", "numba.core.")
_NO_EFFECT = frozenset({"nanosleep", "profile_start", "profile_stop", "synchronize"})


class Calls(Expressions):
    """Lowering of calls; inlining of functions is left to the subclass."""

    @abstractmethod
    def inline(self, function: FunctionValue, node: cst.Call) -> Expr:
        """Inline a call of `function`; the value is its result."""

    def call(self, node: cst.Call) -> Expr:
        """Lower a call to its value, emitting what it does."""
        span = self.span(node)
        function = self.static(node.func)
        if isinstance(function, FunctionValue):
            return self.inline(function, node)
        if isinstance(function, Ref):
            return self._library(function.path, node, span)
        if isinstance(node.func, cst.Name) and function is UNKNOWN and self.local(node.func.value) is None:
            return self._builtin(node.func.value, node, span)
        if isinstance(node.func, cst.Attribute):
            return self._method(node.func, node, span)
        return self.unread_call(self.source_text(node.func), node, span)

    def source_text(self, node: cst.CSTNode) -> str:
        """The text of `node`, for messages. It is cut out of the file: printing each link of a chain takes quadratic time."""
        at = self.span(node)
        lines = self.frame.scope.source.lines[at.line - 1 : min(at.end_line, at.line + 3)]
        if at.end_line < at.line + 3:
            lines[-1] = lines[-1][: at.end_column - 1]
        lines[0] = lines[0][at.column - 1 :]
        text = " ".join(" ".join(lines).split())
        return text if len(text) <= 60 else text[:57] + "..."

    # ---- arguments

    def arguments(self, node: cst.Call) -> list[Expr]:
        """All arguments lowered left to right, keyword ones last."""
        return self.in_order([self._argument(a.value) for a in node.args])

    def _argument(self, node: cst.BaseExpression) -> Callable[[], Expr]:
        return lambda: self.expr(node)

    def _given(self, node: cst.Call, *names: str) -> dict[str, cst.BaseExpression]:
        """The argument expressions of a call of a function with parameters `names`."""
        given: dict[str, cst.BaseExpression] = {}
        place = 0
        for argument in node.args:
            if argument.keyword is not None:
                given[argument.keyword.value] = argument.value
            elif place < len(names):
                given[names[place]] = argument.value
                place += 1
        return given

    def unread_call(self, name: str, node: cst.Call, span: Span, *, receiver: Expr | None = None) -> Expr:
        """A call of something that could not be read; `receiver` is what a method is called on, if lowered before."""
        values = [self.array(a.value) for a in node.args]
        if receiver is not None:
            values.append(receiver)
        elif isinstance(node.func, cst.Attribute) and not isinstance(self.static(node.func.value), Ref):
            values.append(self.array(node.func.value))
        barrier = not name.startswith(_WITHOUT_BARRIERS)
        names, elements = handed(*values)
        self.unread(f"calls `{name}`, which could not be read", span, names, barrier=barrier, elements=elements)
        return Opaque(f"the result of `{name}`", span=span)

    # ---- library functions

    def _library(self, path: str, node: cst.Call, span: Span) -> Expr:
        head, _, name = path.rpartition(".")
        if head == "numba.cuda" or (head == "numba" and name in ("syncthreads",)):
            return self._cuda(name, node, span)
        if head == "numba.cuda.atomic":
            return self._atomic(name, node, span)
        if path in ("numba.cuda.shared.array", "numba.cuda.local.array"):
            return self._alloc("shared" if ".shared." in path else "local", node, span, None)
        if path == "numba.cuda.const.array_like":
            return self._const_array(node, span, None)
        if path in ("numba.cuda.cg.this_grid().sync", "numba.cuda.cg.sync_group"):
            self.emit(Barrier("grid", span=span))
            return Const(0, span=span)
        if head == "numba.cuda.random":
            return self._random(name, node, span)
        if path == "tilecheck.unsafe":
            self.emit(Do(OpCall("unsafe", tuple(self.arguments(node)), span=span), span=span))
            return Const(None, span=span)
        if path in ("numba.prange", "numba.literal_unroll", "builtins.tuple", "builtins.list") and len(node.args) == 1:
            return self.expr(node.args[0].value)
        if head == "builtins":
            return self._builtin(name, node, span)
        cast = dtype_name(Ref(path))
        if cast is not None and len(node.args) == 1:
            return OpCall(cast, tuple(self.arguments(node)), span=span)
        return self._scalar_function(head, name, node, span)

    def _scalar_function(self, head: str, name: str, node: cst.Call, span: Span) -> Expr:
        known_module = head in _PURE_MODULES
        if not known_module or (head == "numpy" and name in _ARRAY_FUNCTIONS) or (head == "numba" and name != "selp"):
            return self.unread_call(f"{head}.{name}", node, span)
        values = self.arguments(node)
        if head == "operator" and name in _OPERATORS and len(values) == 2:
            return Binary(_OPERATORS[name], values[0], values[1], span=span)  # type: ignore[arg-type]
        op = f"{head.rpartition('.')[2]}.{name}" if head.startswith("numba.cuda.") and "libdevice" not in head else name
        return OpCall(op, tuple(values), span=span)

    def _builtin(self, name: str, node: cst.Call, span: Span) -> Expr:
        if name == "len" and len(node.args) == 1:
            array = self.array(node.args[0].value)
            items = self.tuple_items(array)
            return Extent(array, 0, span=span) if items is None else Const(len(items), span=span)
        if name == "divmod" and len(node.args) == 2:
            a, b = (self.named(value) if not settled(value) else value for value in self.arguments(node))
            return TupleExpr((Binary("//", a, b, span=span), Binary("%", a, b, span=span)), span=span)
        if name == "pow" and len(node.args) == 2:
            a, b = self.arguments(node)
            return Binary("**", a, b, span=span)
        if name == "print":
            self.emit(Do(OpCall("print", tuple(self.arguments(node)), span=span), span=span))
            return Const(None, span=span)
        if name in ("min", "max") and len(node.args) == 1:
            value = self.expr(node.args[0].value)
            items = self.tuple_items(value)
            if items is None:
                self.unread(f"`{name}` of an array", span, names_in(value), barrier=False)
                return Opaque(f"`{name}` of an array", span=span)
            return OpCall(name, items, span=span)
        if name in ("tuple", "list") and len(node.args) == 1:
            return self.expr(node.args[0].value)
        if name in _PURE_BUILTINS:
            return OpCall(name, tuple(self.arguments(node)), span=span)
        if name in (
            "range",
            "enumerate",
            "zip",
            "reversed",
            "slice",
            "iter",
            "isinstance",
            "hasattr",
            "type",
            "getattr",
        ):
            for argument in node.args:
                self.array(argument.value)
            return Opaque(f"`{name}` as a value", span=span)
        return self.unread_call(name, node, span)

    def _method(self, func: cst.Attribute, node: cst.Call, span: Span) -> Expr:
        name = func.attr.value
        if name == "conjugate" and not node.args:
            return OpCall("conjugate", (self.expr(func.value),), span=span)
        receiver = self.array(func.value)
        if name in _VIEW_METHODS and name != "astype":
            return OpCall(name, (receiver, *self.arguments(node)), span=span)
        if name == "item" and len(node.args) == 1:
            return Load(receiver, tuple(self.arguments(node)), span=span)
        return self.unread_call(self.source_text(func), node, span, receiver=receiver)

    # ---- numba.cuda

    def _cuda(self, name: str, node: cst.Call, span: Span) -> Expr:
        if name in ("grid", "gridsize"):
            return self._grid(name, node, span)
        if name == "syncthreads":
            self.emit(Barrier("block", span=span))
            return Const(0, span=span)
        if name in ("syncthreads_count", "syncthreads_and", "syncthreads_or") and len(node.args) == 1:
            predicate = self.expr(node.args[0].value)
            kind = name.rpartition("_")[2]
            return self.named(BarrierValue(kind, predicate, span=span))  # type: ignore[arg-type]
        if name == "syncwarp":
            mask = self.expr(node.args[0].value) if node.args else None
            self.emit(Barrier("warp", mask, span=span))
            return Const(0, span=span)
        if name in _FENCES:
            self.emit(Fence(_FENCES[name], span=span))  # type: ignore[arg-type]
            return Const(0, span=span)
        if name == "activemask":
            return self.named(Warp("activemask", None, (), span=span))
        if name in _VOTES and node.args:
            mask, *operands = self.arguments(node)
            return self.named(Warp(_VOTES[name], mask, tuple(operands), span=span))
        if name == "selp" and len(node.args) == 3:
            cond, then, other = (value if settled(value) else self.named(value) for value in self.arguments(node))
            return Select(cond, then, other, span=span)
        if name in _PURE_CUDA:
            return OpCall(name, tuple(self.arguments(node)), span=span)
        if name in _CACHED_LOADS and len(node.args) == 2:
            array, index = self._cell(node)
            return Load(array, index, span=span)
        if name in _CACHED_STORES and len(node.args) == 3:
            array, index = self._cell(node)
            self.emit(Store(array, index, self.expr(node.args[2].value), span=span))
            return Const(0, span=span)
        if name in _NO_EFFECT:
            self.emit(Do(OpCall(name, tuple(self.arguments(node)), span=span), span=span))
            return Const(None, span=span)
        cast = dtype_name(Ref(f"numba.cuda.{name}"))
        if cast is not None:
            return OpCall(cast, tuple(self.arguments(node)), span=span)
        if name[:1].isalpha() and ("x2" in name or "x3" in name or "x4" in name or name[-1:] in "1234"):
            return OpCall("vector", tuple(self.arguments(node)), span=span)
        return self.unread_call(f"cuda.{name}", node, span)

    def _grid(self, name: str, node: cst.Call, span: Span) -> Expr:
        given = self._given(node, "ndim")
        rank = self.static(given["ndim"]) if "ndim" in given else UNKNOWN
        if rank not in (1, 2, 3):
            return Opaque(f"`cuda.{name}` of a rank that is not 1, 2 or 3", span=span)
        assert isinstance(rank, int)
        items: list[Expr] = []
        for axis in _AXES[:rank]:
            extent = ThreadVar("blockDim", axis, span=span)
            if name == "gridsize":
                items.append(Binary("*", extent, ThreadVar("gridDim", axis, span=span), span=span))
                continue
            start = Binary("*", ThreadVar("blockIdx", axis, span=span), extent, span=span)
            items.append(Binary("+", start, ThreadVar("threadIdx", axis, span=span), span=span))
        return items[0] if rank == 1 else TupleExpr(tuple(items), span=span)

    def _cell(self, node: cst.Call) -> tuple[Expr, tuple[Expr, ...]]:
        """The first two arguments as array and index."""
        array = self.array(node.args[0].value)
        index = self.expr(node.args[1].value)
        items = self.tuple_items(index)
        return array, (index,) if items is None else items

    def _atomic(self, name: str, node: cst.Call, span: Span) -> Expr:
        needs = {"compare_and_swap": 3, "cas": 4}.get(name, 3)
        if len(node.args) < needs:
            return self.unread_call(f"cuda.atomic.{name}", node, span)
        values = self.in_order([self._first_array(node), *(self._argument(a.value) for a in node.args[1:])])
        if name == "compare_and_swap":
            zero = Const(0, span=span)
            return self.named(Atomic("cas", values[0], (zero,), tuple(values[1:]), span=span))
        items = self.tuple_items(values[1])
        index = (values[1],) if items is None else items
        return self.named(Atomic(name.rstrip("_"), values[0], index, tuple(values[2:]), span=span))

    def _first_array(self, node: cst.Call) -> Callable[[], Expr]:
        return lambda: self.array(node.args[0].value)

    def _random(self, name: str, node: cst.Call, span: Span) -> Expr:
        """The xoroshiro generators read and write one element of their state array."""
        if "_uniform_" not in name and "_normal_" not in name and not name.endswith("_next"):
            return self.unread_call(f"cuda.random.{name}", node, span)
        if len(node.args) != 2:
            return self.unread_call(f"cuda.random.{name}", node, span)
        array, index = self._cell(node)
        state = OpCall("random_state", (Load(array, index, span=span),), span=span)
        self.emit(Store(array, index, state, update=True, span=span))
        number = Opaque("a random number", span=span)
        kind = name.rpartition("_")[2]
        return OpCall(kind, (number,), span=span) if kind in ("float32", "float64") else number

    # ---- arrays of the kernel's own

    def allocation(self, node: cst.BaseExpression, target: str | None) -> Expr | None:
        """Lower `target = cuda.shared.array(...)` and its kin; None if `node` allocates nothing."""
        if not isinstance(node, cst.Call):
            return None
        function = self.static(node.func)
        if not isinstance(function, Ref):
            return None
        span = self.span(node)
        if function.path in ("numba.cuda.shared.array", "numba.cuda.local.array"):
            return self._alloc("shared" if ".shared." in function.path else "local", node, span, target)
        if function.path == "numba.cuda.const.array_like":
            return self._const_array(node, span, target)
        return None

    def array_name(self, target: str | None) -> str:
        """The IR name of an array allocated for `target`. A helper's shared array is one for all calls of the helper."""
        if target is None or target in self.array_names:
            return self.fresh()
        return target

    def _alloc(self, space: str, node: cst.Call, span: Span, target: str | None) -> Expr:
        given = self._given(node, "shape", "dtype", "alignas")
        shape_node, dtype_node = given.get("shape"), given.get("dtype")
        shape = () if shape_node is None else self._alloc_shape(shape_node)
        dtype = None if dtype_node is None else dtype_name(self.static(dtype_node))
        name = self.array_name(target)
        self.array_names.add(name)
        dynamic = space == "shared" and len(shape) == 1 and isinstance(shape[0], Const) and shape[0].value == 0
        self.emit(AllocArray(name, space, shape, dtype, dynamic, span=span))  # type: ignore[arg-type]
        return Name(name, span=span)

    def _alloc_shape(self, node: cst.BaseExpression) -> tuple[Expr, ...]:
        folded = self.static(node)
        span = self.span(node)
        extents = folded if isinstance(folded, tuple) else (folded,)
        if isinstance(folded, tuple | int):
            return tuple(
                Const(e, span=span) if isinstance(e, int) else Opaque("an extent that is not constant", span=span)
                for e in extents
            )
        if isinstance(node, cst.Tuple):
            return tuple(self._alloc_shape(element.value)[0] for element in node.elements)
        return (self.expr(node),)

    def _const_array(self, node: cst.Call, span: Span, target: str | None) -> Expr:
        value = self.static(node.args[0].value) if node.args else UNKNOWN
        text = self.source_text(node.args[0].value) if node.args else "nothing"
        name = self.array_name(target)
        self.array_names.add(name)
        array = value if isinstance(value, HostArray) else HostArray(None)
        self.constants[text] = array
        self.emit(const_array(name, array, span, text))
        return Name(name, span=span)
