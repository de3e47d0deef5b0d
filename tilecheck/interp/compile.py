"""From a checked kernel to a Python function that runs one block.

The function is written as text, one line per statement, and calls the meanings of the op table; per-tile work is
NumPy's, so the price of interpretation is a few calls per tile. Evaluation order is the source's. For

    z.store(a * tc.load_like(x, z))

the text is

    def block(machine, z, x, a):
        access(7, store, z, multiply(a, access(7, load_like, x, z)))

where `access` notes the line for traps and the race recorder. Scalars known as such compute inline: ints wrap to 64
bits (`wrap`), `//` and `%` by zero give 0 (as for tiles).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilecheck.interp.coarse import is_coarse
from tilecheck.interp.machine import Machine
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
    DTypeRef,
    Expr,
    Extent,
    For,
    ForIndices,
    Function,
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
    Stmt,
    TupleExpr,
    Unary,
    While,
    children,
)
from tilecheck.ir.types import ScalarType, Type
from tilecheck.ops import OPS, operators
from tilecheck.surface.dtypes import DTYPES, DTypeClass

# Rows whose meaning touches memory or stops the kernel: the line must be known there.
_NOTED = ("load and store", "grid", "atomic", "debug")
_INLINE = {"+", "-", "*"}
_OPERATORS = operators()
# Python's own limit is 200 nested parentheses.
_NESTING = 60


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel that can run block by block: `run(machine, *values)` with the values of `Kernel.params` in order.
    `coarse` says that larger tiles give the same result.
    """

    kernel: Kernel
    source: str
    run: Callable[..., None]
    coarse: bool


def wrap(value: int) -> int:
    """An int as 64-bit two's complement."""
    if -(1 << 63) <= value < 1 << 63:
        return value
    return ((value + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


def compile_kernel(kernel: Kernel, types: Mapping[Node, Type], dims: Mapping[str, int]) -> Program:
    """The program of `kernel` with the values of its `Dim`s by key; `types` as in a `TileReport`."""
    values = {key: decl.size for key, decl in kernel.dims.items() if decl.size is not None} | dict(dims)
    writer = _Writer(types, values)
    params = [writer.variable(param.name) for param in kernel.params]
    writer.line(f"def block({', '.join(('machine', *params))}):")
    writer.suite(kernel.body)
    source = "\n".join(writer.lines) + "\n"
    scope: dict[str, Any] = {f"op_{name}": row.meaning for name, row in OPS.items()}
    scope |= {f"dtype_{name}": dtype for name, dtype in DTYPES.items()}
    scope |= {
        "wrap": wrap,
        "inf": float("inf"),
        "nan": float("nan"),
        "access": _access,
        "steps": _steps,
        "dtype_of": _dtype_of,
    }
    exec(compile(source, f"<{kernel.name}>", "exec"), scope)
    return Program(kernel, source, scope["block"], is_coarse(kernel))


def _access(machine: Machine, line: int, meaning: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a meaning that touches memory, its line noted after its arguments are computed."""
    machine.line = line
    return meaning(*args, **kwargs)


def _dtype_of(value: Any) -> DTypeClass:
    """The dtype of a tile, tensor or view."""
    array = value if isinstance(value, np.ndarray) else value.memory.array
    return next(dtype for dtype in DTYPES.values() if dtype.numpy() == array.dtype)


def _steps(machine: Machine, line: int, start: int, stop: int, step: int) -> range:
    """The range of a `for`; a step of 0 traps."""
    if step == 0:
        machine.line = line
        raise machine.trap("out-of-bounds", "the step of `range` is 0", help="use a step of at least 1")
    return range(start, stop, step)


@dataclass(slots=True)
class _Writer:
    """Writes the text; `names` maps the kernel's variables to Python's."""

    types: Mapping[Node, Type]
    dims: Mapping[str, int]
    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    depth: int = 0
    helpers: int = 0
    # Whether the expression being written may be evaluated before its statement.
    straight: bool = True

    def variable(self, name: str) -> str:
        """The Python name of a variable: its own where possible, numbered."""
        if name not in self.names:
            plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
            self.names[name] = f"v{len(self.names)}_{plain}"
        return self.names[name]

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def suite(self, body: tuple[Stmt, ...]) -> None:
        """The statements of a block, one level deeper."""
        self.depth += 1
        for statement in body:
            self.statement(statement)
        if not body:
            self.line("pass")
        self.depth -= 1

    # ---- statements

    def statement(self, node: Stmt) -> None:
        match node:
            case Assign(target=target, value=value):
                text = self.expression(value)
                self.line(f"{self.variable(target)} = {text}")
            case Do(value=value):
                self.line(self.expression(value))
            case If(cond=cond, then=then, other=other):
                self.line(f"if {self.expression(cond)}:")
                self.suite(then)
                if other:
                    self.line("else:")
                    self.suite(other)
            case For(target=target, start=start, stop=stop, step=step, body=body):
                bounds = ", ".join(self.expression(e) for e in (start, stop, step))
                self.line(f"for {self.variable(target)} in steps(machine, {node.span.line}, {bounds}):")
                self.suite(body)
            case ForIndices(target=target, source=source, body=body):
                text = self.expression(source)
                self.line(f"for {self.variable(target)} in {text}:")
                self.suite(body)
            case While(cond=cond, body=body):
                self.line(f"while {self.lazily(cond)}:")
                self.suite(body)
            case Break():
                self.line("break")
            case Continue():
                self.line("continue")
            case Return(value=value):
                self.line("return" if value is None else f"return {self.expression(value)}")
            case Inline(body=body, result=result):
                self.inline(body, result)
            case Assert(cond=cond, message=message):
                text = self.expression(cond)
                self.line(f"access(machine, {node.span.line}, op_device_assert, {text}, {message!r})")
            case _:
                raise TypeError(f"a tile kernel has no statement {type(node).__name__}")

    def inline(self, body: tuple[Stmt, ...], result: str | None) -> None:
        """A device function: in place if it returns at its end alone, as a local function otherwise."""
        last = body[-1] if body else None
        if isinstance(last, Return) and not any(isinstance(n, Return) for n in _outer(body[:-1])):
            for statement in body[:-1]:
                self.statement(statement)
            if result is not None:
                value = "None" if last.value is None else self.expression(last.value)
                self.line(f"{self.variable(result)} = {value}")
            return
        if not any(isinstance(n, Return) for n in _outer(body)):
            for statement in body:
                self.statement(statement)
            return
        self.helpers += 1
        name = f"helper{self.helpers}"
        self.line(f"def {name}():")
        self.suite(body)
        self.line(f"{self.variable(result)} = {name}()" if result is not None else f"{name}()")

    # ---- expressions

    def expression(self, node: Expr) -> str:
        """The text of `node`; a part that nests deeply goes to a variable of its own first."""
        text = self.written(node)
        if not self.straight or len(text) < _NESTING or _nesting(text) < _NESTING:
            return text
        self.helpers += 1
        self.line(f"part{self.helpers} = {text}")
        return f"part{self.helpers}"

    def lazily(self, node: Expr) -> str:
        """The text of an expression that may not be evaluated, or not once."""
        before, self.straight = self.straight, False
        text = self.expression(node)
        self.straight = before
        return text

    def written(self, node: Expr) -> str:
        match node:
            case Const(value=value):
                return f"({value!r})" if isinstance(value, int | float) else repr(value)
            case Name(id=variable):
                return self.variable(variable)
            case DimRef(key=key):
                return str(self.dims[key])
            case DTypeRef(name=dtype):
                return f"dtype_{dtype}"
            case Unary(op=op, operand=operand):
                return self.unary(op, operand)
            case Binary(op=op, left=left, right=right):
                one, two = self.expression(left), self.expression(right)
                if op in _INLINE and self.is_scalar(left) and self.is_scalar(right):
                    text = f"({one} {op} {two})"
                    return f"wrap{text}" if self.is_int(left) and self.is_int(right) else text
                return f"op_{_OPERATORS[op].name}({one}, {two})"
            case Compare(op=op, left=left, right=right):
                one, two = self.expression(left), self.expression(right)
                if self.is_scalar(left) and self.is_scalar(right):
                    return f"({one} {op} {two})"
                return f"op_{_OPERATORS[op].name}({one}, {two})"
            case Logic(op=op, operands=operands):
                return f"({f' {op} '.join(self.lazily(e) for e in operands)})"
            case Select(cond=cond, then=then, other=other):
                return f"({self.lazily(then)} if {self.lazily(cond)} else {self.lazily(other)})"
            case TupleExpr(items=items):
                return f"({''.join(self.expression(e) + ', ' for e in items)})"
            case Item(base=tuple_, index=index):
                return f"{self.expression(tuple_)}[{self.expression(index)}]"
            case Extent(array=array, axis=along):
                base = self.expression(array)
                return f"{base}.size" if along is None else f"{base}.shape[{along}]"
            case OpCall():
                return self.call(node)
            case Function():
                return self.function(node)
            case Opaque(reason=reason):
                raise TypeError(f"a tile kernel has no opaque value: {reason}")
            case _:
                raise TypeError(f"a tile kernel has no expression {type(node).__name__}")

    def unary(self, op: str, operand: Expr) -> str:
        text = self.expression(operand)
        if op == "not" and self.is_scalar(operand):
            return f"(not {text})"
        if op == "-" and self.is_scalar(operand):
            return f"wrap(-{text})" if self.is_int(operand) else f"(-{text})"
        return f"op_{_OPERATORS[f'unary {op}'].name}({text})"

    def call(self, node: OpCall) -> str:
        args = [self.expression(arg) for arg in node.args]
        args += [f"{name}={self.expression(value)}" for name, value in node.kwargs]
        if node.op == "block_id":
            return f"machine.block[{args[0]}]"
        if node.op == "num_blocks":
            return f"machine.grid[{args[0]}]"
        if node.op == "rank":
            return f"len({args[0]}.shape)"
        if node.op == "dtype":
            return f"dtype_of({args[0]})"
        meaning = f"op_{node.op}"
        if OPS[node.op].family in _NOTED:
            return f"access(machine, {', '.join((str(node.span.line), meaning, *args))})"
        return f"{meaning}({', '.join(args)})"

    def function(self, node: Function) -> str:
        """A function value: written as a local function before the statement that uses it."""
        self.helpers += 1
        name = f"function{self.helpers}"
        self.line(f"def {name}({', '.join(self.variable(p) for p in node.params)}):")
        self.suite(node.body)
        if not isinstance(node.body[-1], Return):
            self.depth += 1
            self.line(f"return {self.variable(node.result)}")
            self.depth -= 1
        return name

    def is_scalar(self, node: Expr) -> bool:
        return isinstance(node, DimRef) or isinstance(self.types.get(node), ScalarType)

    def is_int(self, node: Expr) -> bool:
        type = self.types.get(node)
        return isinstance(node, DimRef) or (isinstance(type, ScalarType) and type.kind != "float")


def _nesting(text: str) -> int:
    """How deep parentheses nest in `text`; those inside strings only make the answer larger."""
    deepest = level = 0
    for c in text:
        if c in "([":
            level += 1
            deepest = max(deepest, level)
        elif c in ")]":
            level -= 1
    return deepest


def _outer(body: tuple[Stmt, ...]) -> Iterator[Node]:
    """The nodes of `body` without those of functions inside, whose `Return` is their own."""
    stack: list[Node] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Inline | Function):
            stack.extend(reversed(list(children(node))))
