"""The Python text of a SIMT kernel.

Every array access is a call with the number of its site, every place where a thread waits for others a `yield` of
`(kind, place, payload)`: 1 block barrier, 2 `syncwarp`, 3 grid barrier, 4 warp operation, 5 `activemask`, and a bare
`yield None` where another thread may run first. The place of a barrier is its site and the rounds of the loops around
it, so that threads which meet at one barrier in different rounds are told apart.

Worked example: `cuda.syncthreads()` in a loop is `yield (1, (7, c1,), None)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilecheck.interp import simt_ops
from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Compare,
    Const,
    Continue,
    DimRef,
    Do,
    Expr,
    Extent,
    For,
    If,
    Inline,
    Item,
    Kernel,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Return,
    Select,
    TupleExpr,
    Unary,
    While,
    children,
    walk,
)
from tilecheck.ir.simt import (
    AllocArray,
    Atomic,
    Barrier,
    BarrierValue,
    Fence,
    FillSlice,
    Load,
    SliceExpr,
    Store,
    SubArray,
    ThreadVar,
    Unread,
    Warp,
)

WAITS = (Barrier, BarrierValue, Warp, Atomic)
# Loop rounds that a thread takes before it reports them to the machine, which stops runs that are too long.
_FUEL = 64


@dataclass
class _Loop:
    """An enclosing loop; `counter` is set when it counts its rounds for the barriers inside."""

    counter: str | None


@dataclass
class Writer:
    """Text of one kernel under construction."""

    kernel: Kernel
    lines: list[str] = field(default_factory=list)
    sites: list[Node] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    loops: list[_Loop] = field(default_factory=list)
    depth: int = 2
    counter: int = 0
    _waits: dict[int, bool] = field(default_factory=dict)

    # ---- small things

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, name: str) -> str:
        return self.names.setdefault(name, f"v{len(self.names)}")

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def site(self, node: Node) -> int:
        self.sites.append(node)
        return len(self.sites) - 1

    def waits(self, body: tuple[Node, ...]) -> bool:
        """Whether `body` holds anything at which a thread waits for others."""
        return any(self._wait(node) for node in body)

    def _wait(self, node: Node) -> bool:
        known = self._waits.get(id(node))
        if known is None:
            known = isinstance(node, WAITS) or any(self._wait(child) for child in children(node))
            self._waits[id(node)] = known
        return known

    # ---- the function

    def kernel_text(self) -> str:
        params = [self.name(p.name) for p in self.kernel.params]
        assigned = {p.name for p in self.kernel.params}
        for node in walk(*self.kernel.body):
            if isinstance(node, Assign | For):
                assigned.add(node.target)
            elif isinstance(node, AllocArray):
                assigned.add(node.name)
            elif isinstance(node, Inline) and node.result is not None:
                assigned.add(node.result)
        free = sorted(
            {node.id for node in walk(*self.kernel.body) if isinstance(node, Name) and node.id not in assigned}
        )
        self._locals(self.kernel.body, skip={p.name for p in self.kernel.params})
        self.block(self.kernel.body)
        body = self.lines
        head = [
            "def make(R):",
            "    read1, read, write1, write = R.memory.read1, R.memory.read, R.memory.write1, R.memory.write",
            "    F, wrap, divide, floor_divide, modulo = R.functions, R.wrap, R.divide, R.floor_divide, R.modulo",
            "    power, shift_left, shift_right, Refuel, Gone = R.power, R.shift_left, R.shift_right, R.refuel, R.Gone",
            *(f"    {self.name(name)} = R.free({name!r})" for name in free),
            f"    def kernel({', '.join(['t', *params])}):",
            f"        fuel = {_FUEL}",
        ]
        return "\n".join(
            [
                *head,
                *body,
                "        return",
                "        yield" if self.waits(self.kernel.body) else "",
                "    return kernel",
            ]
        )

    def _locals(self, body: tuple[Node, ...], skip: set[str]) -> None:
        """Variables start as 0: what is used before it is assigned is no Python error."""
        names: list[str] = []
        for node in _own(body):
            if isinstance(node, Assign | For):
                names.append(node.target)
            elif isinstance(node, AllocArray):
                names.append(node.name)
            elif isinstance(node, Inline) and node.result is not None:
                names.append(node.result)
        wanted = [self.name(name) for name in dict.fromkeys(names) if name not in skip]
        if wanted:
            self.line(" = ".join([*wanted, "0"]))

    def block(self, body: tuple[Node, ...]) -> None:
        if not body:
            self.line("pass")
        for node in body:
            self.statement(node)

    def inner(self, body: tuple[Node, ...]) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    # ---- statements

    def statement(self, node: Node) -> None:
        match node:
            case Assign(target=target, value=value):
                self.line(f"{self.name(target)} = {self.effect(value)}")
            case Do(value=value):
                self.line(self.effect(value))
            case If(cond=cond, then=then, other=other):
                self.line(f"if {self.expr(cond)}:")
                self.inner(then)
                if other:
                    self.line("else:")
                    self.inner(other)
            case For():
                self._for(node)
            case While(cond=cond, body=body):
                counter = self._counter(body)
                self.line(f"while {self.expr(cond)}:")
                self._round(body, counter, spins=True)
            case Break():
                self.line("break")
            case Continue():
                self.line("continue")
            case Return(value=value):
                self.line("return" if value is None else f"return {self.expr(value)}")
            case Inline():
                self._inline(node)
            case Assert(cond=cond):
                self.line(f"if not {self.expr(cond)}: raise Gone")
            case AllocArray():
                shape = self._tuple(node.shape)
                self.line(f"{self.name(node.name)} = R.allocate(t, {self.site(node)}, {shape})")
            case Store(array=array, index=index, value=value, field=member):
                self._store(node, array, index, value, member)
            case FillSlice(array=array, index=index, value=value):
                view = self._view(node, array, index)
                self.line(f"R.memory.fill(t, {view}, {self.expr(value)}, {self.site(node)})")
            case Barrier(scope=scope, mask=mask):
                kind = {"block": 1, "warp": 2, "grid": 3}[scope]
                payload = "None" if mask is None else self.expr(mask)
                self.line(f"yield ({kind}, {self._where(node)}, {payload})")
            case Fence(scope=scope):
                self.line(f"t.fence(device={scope != 'block'})")
            case Unread(reason=reason, elements=elements):
                for element in elements:
                    self.line(self.expr(element))
                self.line(f"R.inexact({reason!r})")
            case _:
                self.line(f"R.inexact({type(node).__name__!r})")

    def _for(self, node: For) -> None:
        counter = self._counter(node.body)
        bounds = ", ".join(self.expr(e) for e in (node.start, node.stop, node.step))
        self.line(f"for {self.name(node.target)} in R.range({bounds}):")
        self._round(node.body, counter, spins=False)

    def _counter(self, body: tuple[Node, ...]) -> str | None:
        """A round counter for a loop in which the block meets: a barrier is met in one round by all."""
        if not self.waits(body):
            return None
        counter = self.fresh("c")
        self.line(f"{counter} = 0")
        return counter

    def _round(self, body: tuple[Node, ...], counter: str | None, *, spins: bool) -> None:
        self.depth += 1
        self.line("fuel -= 1")
        generator = self._generator
        self.line(f"if fuel < 0: fuel = Refuel({_FUEL})")
        if spins and counter is None and generator:
            self.line("yield None")
        if counter is not None:
            self.line(f"{counter} += 1")
        self.loops.append(_Loop(counter))
        self.block(body)
        self.loops.pop()
        self.depth -= 1

    @property
    def _generator(self) -> bool:
        return self._function_waits[-1] if self._function_waits else self.waits(self.kernel.body)

    _function_waits: list[bool] = field(default_factory=list)

    def _inline(self, node: Inline) -> None:
        function = self.fresh("f")
        waits = self.waits(node.body)
        self.line(f"def {function}():")
        self.depth += 1
        self.line(f"fuel = {_FUEL}")
        self._locals(node.body, set())
        self._function_waits.append(waits)
        loops, self.loops = self.loops, [*self.loops]
        self.block(node.body)
        self.loops = loops
        self._function_waits.pop()
        if waits:
            self.line("return 0")
            self.line("yield")
        else:
            self.line("return 0")
        self.depth -= 1
        call = f"yield from {function}()" if waits else f"{function}()"
        self.line(call if node.result is None else f"{self.name(node.result)} = {call}")

    def _store(self, node: Store, array: Expr, index: tuple[Expr, ...], value: Expr, member: str | None) -> None:
        target, right = self.expr(array), self.expr(value)
        if len(index) == 1 and member is None:
            self.line(f"write1(t, {target}, {self.expr(index[0])}, {right}, {self.site(node)})")
            return
        extra = "" if member is None else f", {member!r}"
        self.line(f"write(t, {target}, {self._tuple(index)}, {right}, {self.site(node)}{extra})")

    # ---- expressions

    def _tuple(self, items: tuple[Expr, ...]) -> str:
        return f"({''.join(self.expr(item) + ', ' for item in items)})"

    def _where(self, node: Node) -> str:
        """The program point of a barrier: its site and the rounds of the loops around it."""
        rounds = [loop.counter for loop in self.loops if loop.counter is not None]
        return f"({', '.join([str(self.site(node)), *rounds])},)"

    def effect(self, value: Expr) -> str:
        """An expression in a place where a thread may wait."""
        match value:
            case Atomic(op=op, array=array, index=index, operands=operands):
                function = f"R.atomics[{op!r}]" if op in simt_ops.ATOMICS else f"R.unknown_atomic({op!r})"
                call = f"R.memory.atomic(t, {self.expr(array)}, {self._tuple(index)}, {self.site(value)}, {function}, "
                return f"((yield None), {call}{self._tuple(operands)}))[1]"
            case BarrierValue(op=op, predicate=predicate):
                return f"yield (1, {self._where(value)}, ({op!r}, {self.expr(predicate)}))"
            case Warp(op="activemask"):
                return f"yield (5, {self._where(value)}, None)"
            case Warp(op=op, mask=mask, operands=operands):
                lanes = "None" if mask is None else self.expr(mask)
                return f"yield (4, {self._where(value)}, ({op!r}, {lanes}, {self._tuple(operands)}))"
        return self.expr(value)

    def expr(self, node: Expr) -> str:
        """The Python text of an expression, in brackets where it needs them."""
        match node:
            case Const(value=value):
                if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
                    return f"R.number({str(value)!r})"
                return f"({value!r})" if isinstance(value, int | float) and value < 0 else repr(value)
            case Name(id=name):
                return self.name(name)
            case DimRef(key=key):
                return f"R.free({key!r})"
            case ThreadVar(kind=kind, axis=axis):
                return f"t.{_THREAD[kind]}{axis or ''}"
            case Unary(op="not", operand=operand):
                return f"(not {self.expr(operand)})"
            case Unary(op=op, operand=operand):
                return f"({op}{self.expr(operand)})"
            case Binary():
                return self._binary(node)
            case Compare(op=op, left=left, right=right):
                return f"({self.expr(left)} {op} {self.expr(right)})"
            case Logic(op=op, operands=operands):
                return f"({f' {op} '.join(self.expr(o) for o in operands)})"
            case Select(cond=cond, then=then, other=other):
                return f"({self.expr(then)} if {self.expr(cond)} else {self.expr(other)})"
            case TupleExpr(items=items):
                return self._tuple(items)
            case Item(base=base, index=index):
                return f"R.item(t, {self.expr(base)}, {self.expr(index)}, {self.site(node)})"
            case Extent(array=array, axis=axis):
                return f"R.extent({self.expr(array)}, {axis})"
            case OpCall(op=op, args=args):
                return self._call(op, args, node)
            case Opaque(reason=reason):
                return f"R.opaque({reason!r})"
            case Load(array=array, index=(only,), field=None):
                return f"read1(t, {self.expr(array)}, {self.expr(only)}, {self.site(node)})"
            case Load(array=array, index=index, field=member):
                extra = "" if member is None else f", {member!r}"
                return f"read(t, {self.expr(array)}, {self._tuple(index)}, {self.site(node)}{extra})"
            case SubArray(array=array, index=index):
                return self._view(node, array, index)
            case SliceExpr(start=start, stop=stop, step=step):
                parts = ", ".join("None" if p is None else self.expr(p) for p in (start, stop, step))
                return f"slice({parts})"
        return f"R.opaque({type(node).__name__!r})"

    def _view(self, node: Node, array: Expr, index: tuple[Expr, ...]) -> str:
        parts = "".join("..., " if isinstance(p, Const) and p.value == "..." else self.expr(p) + ", " for p in index)
        return f"R.view(t, {self.expr(array)}, ({parts}), {self.site(node)})"

    def _binary(self, node: Binary) -> str:
        left, right = self.expr(node.left), self.expr(node.right)
        match node.op:
            case "&" | "|" | "^":
                return f"({left} {node.op} {right})"
            case "+" | "-" | "*":
                temporary = self.fresh("m")
                value = f"({temporary} := {left} {node.op} {right})"
                return f"({temporary} if -0x8000000000000000 <= {value} <= 0x7FFFFFFFFFFFFFFF else wrap({temporary}))"
            case "//" | "%" if isinstance(node.right, Const) and node.right.value:
                return f"({left} {node.op} {right})"
        function = {
            "/": "divide",
            "//": "floor_divide",
            "%": "modulo",
            "**": "power",
            "<<": "shift_left",
            ">>": "shift_right",
        }
        if node.op == "@":
            return f"R.opaque({'a matrix product'!r})"
        return f"{function[node.op]}({left}, {right})"

    def _call(self, op: str, args: tuple[Expr, ...], node: Node) -> str:
        values = ", ".join(self.expr(arg) for arg in args)
        if op in simt_ops.FUNCTIONS:
            return f"F[{op!r}]({values})"
        if op in ("print", "nanosleep", "unsafe", "profile_start", "profile_stop", "synchronize"):
            return "None"
        if op in ("shape", "T", "reshape", "ravel", "view", "transpose", "flatten", "flat", "ndim"):
            return f"R.reshaped({op!r}, {values})"
        if op == "lanemask_lt":
            return "((1 << t.lane_id) - 1)"
        return f"R.opaque({f'`{op}`'!r}, {values})"


_THREAD = {
    "threadIdx": "t",
    "blockIdx": "b",
    "blockDim": "d",
    "gridDim": "g",
    "laneid": "lane_id",
    "warpsize": "warp_size",
}


def _own(body: tuple[Node, ...]) -> Iterator[Node]:
    """The nodes of a function's own body: those of inlined helpers belong to the helpers."""
    for node in body:
        yield node
        if not isinstance(node, Inline):
            yield from _own(tuple(children(node)))
