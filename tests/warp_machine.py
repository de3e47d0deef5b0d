"""A small machine that runs what the numba-cuda backend builds, all threads of a block in step, without a GPU.

It reads the LLVM IR of one builder function: arithmetic, selections, memory, and the inline PTX of the backend; `tests/tensor_cores.py`
says what copies and matrix instructions do. Blocks run when all that lead to them have, each for the threads that reach it;
there are no loops, so barriers are met by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tests.tensor_cores import SHARED_BASE, TensorCores
from tilecheck_runtime.backends.numba_cuda.registers import I64, element_bytes

Lanes = npt.NDArray[Any]
Build = Callable[[ir.IRBuilder, Sequence[Sequence[Any]]], Sequence[Any]]
Instruction = ir.instructions.Instruction

__all__ = ["SHARED_BASE", "Machine"]

_FLOATS = {"half": np.float16, "float": np.float32, "double": np.float64}


class Machine(TensorCores):
    """One block: its shared memory, and global memory as one array of bytes from address 0 on."""

    def run(
        self, build: Build, arguments: Sequence[Sequence[int | Lanes]], kinds: Sequence[Sequence[Any]] | None = None
    ) -> list[Lanes]:
        """Build one intrinsic and run it. Arrays have a value per thread. Without `kinds`, the LLVM types of the arguments,
        those of float32 are f32, all others i64.
        """
        flat = [value for group in arguments for value in group]
        if kinds is None:
            types = [ir.FloatType() if _is_float(value) else I64 for value in flat]
        else:
            types = [kind for group in kinds for kind in group]
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), "f")
        builder = ir.IRBuilder(function.append_basic_block())
        rest = iter(function.args)
        results = build(builder, [[next(rest) for _ in group] for group in arguments])
        self.values: dict[int, Any] = {}
        for parameter, value in zip(function.args, flat, strict=True):
            # An accumulator under way is filled in later, so arrays are not copied.
            whole = isinstance(value, np.ndarray) and value.shape == (self.threads,)
            self.values[id(parameter)] = value if whole else np.broadcast_to(np.asarray(value), (self.threads,))
        self.edges: dict[tuple[int, int], Lanes] = {}
        for block in _in_order(function):
            before = [mask for (_, target), mask in self.edges.items() if target == id(block)]
            self.active = np.any(before, axis=0) if before else np.ones(self.threads, bool)
            for instruction in block.instructions:
                self.values[id(instruction)] = self.step(instruction)
            self.leave(block, block.instructions[-1] if block.instructions else None)
        return [self.value(result) for result in results]

    def leave(self, block: Any, last: Any) -> None:
        """Note which threads go where."""
        if isinstance(last, ir.instructions.ConditionalBranch):
            taken = self.value(last.operands[0]) != 0
            self.edges[id(block), id(last.operands[1])] = self.active & taken
            self.edges[id(block), id(last.operands[2])] = self.active & ~taken
        elif isinstance(last, ir.instructions.Branch):
            self.edges[id(block), id(last.operands[0])] = self.active

    def value(self, node: Any) -> Any:
        if id(node) in self.values:
            return self.values[id(node)]
        if isinstance(node, ir.GlobalVariable):
            return np.full(self.threads, self.place_of(node))
        assert isinstance(node, ir.Constant), node
        if str(node.type) in _FLOATS:
            return np.full(self.threads, node.constant, _FLOATS[str(node.type)])
        if isinstance(node.type, ir.VectorType):
            floats = isinstance(node.type.element, ir.FloatType)
            return np.zeros((self.threads, node.type.count), np.float32 if floats else np.int64)
        return np.full(self.threads, node.constant or 0, np.int64)

    def place_of(self, node: Any) -> int:
        """Where a shared buffer begins: the dynamic one first, buffers of an op's own behind it."""
        if node.linkage == "external":
            return SHARED_BASE
        if node.name not in self.statics:
            self.statics[node.name] = len(self.shared)
            size = node.value_type.count * element_bytes(node.value_type.element)
            self.shared = np.concatenate([self.shared, np.full(-(-size // 16) * 16, 0xAB, np.uint8)])
            self.written = np.concatenate([self.written, np.zeros(len(self.shared) - len(self.written), np.int64)])
        return self.statics[node.name]

    def step(self, node: Any) -> Any:
        if isinstance(node, ir.CallInstr):
            return self.call(node)
        if isinstance(node, ir.instructions.Branch | ir.instructions.ConditionalBranch):
            return None
        if isinstance(node, ir.instructions.PhiInstr):
            return self.joined(node)
        operands = [self.value(o) for o in node.operands]
        if isinstance(node, ir.instructions.CompareInstr):
            return _compare(node.op, *operands)
        if isinstance(node, ir.instructions.LoadInstr):
            return self.load(node.type, operands[0], shared=node.operands[0].type.addrspace == 3)
        if isinstance(node, ir.instructions.ExtractValue):
            return operands[0][node.indices[0]]
        if isinstance(node, ir.instructions.GEPInstr):
            element = node.pointer.type.pointee
            if isinstance(element, ir.ArrayType):
                return operands[0] + operands[2]
            return operands[0] + operands[1] * element_bytes(element)
        if isinstance(node, ir.instructions.StoreInstr):
            return self.store(node.operands[0].type, *operands, shared=node.operands[1].type.addrspace == 3)
        return _plain(node, operands)

    def joined(self, node: Any) -> Lanes:
        """The value of a phi: for each thread that of the edge it came by."""
        incoming = [(self.edges[id(block), id(node.parent)], self.value(value)) for value, block in node.incomings]
        chosen: Lanes = np.select([mask for mask, _ in incoming], [value for _, value in incoming])
        return chosen

    def load(self, kind: Any, place: Lanes, *, shared: bool) -> Lanes:
        element = kind.element if isinstance(kind, ir.VectorType) else kind
        form = np.dtype(_FLOATS[str(element)] if str(element) in _FLOATS else f"<i{element.width // 8}")
        count = kind.count if isinstance(kind, ir.VectorType) else 1
        rows = np.zeros((self.threads, count), form)
        for thread in np.flatnonzero(self.active):
            rows[thread] = np.frombuffer(self.get(int(place[thread]), form.itemsize * count, shared=shared), form)
        wide = rows if form.kind == "f" else rows.astype(np.int64)
        return wide if isinstance(kind, ir.VectorType) else wide[:, 0]

    def store(self, kind: Any, value: Lanes, place: Lanes, *, shared: bool) -> None:
        rows = value if value.ndim == 2 else value[:, None]
        element = kind.element if isinstance(kind, ir.VectorType) else kind
        form = _FLOATS[str(element)] if str(element) in _FLOATS else f"<i{max(element.width // 8, 1)}"
        for thread in np.flatnonzero(self.active):
            self.put(int(place[thread]), rows[thread].astype(form).tobytes(), shared=shared)

    def call(self, node: Any) -> Any:
        callee = node.callee
        arguments = [self.value(a) for a in node.args]
        if isinstance(callee, ir.InlineAsm):
            return self.assembly(callee.asm, arguments)
        if "shfl.sync.bfly" in callee.name:
            return arguments[1][np.arange(self.threads) ^ arguments[2]]
        if callee.name.startswith("__nv_exp2"):
            return np.exp2(arguments[0])
        return np.arange(self.threads) if callee.name.endswith("tid.x") else None

    def assembly(self, text: str, arguments: Sequence[Lanes]) -> Any:
        """One of the conversions, or what `TensorCores` knows."""
        if text.startswith("cvt.rn.f16x2.f32"):
            bits = [argument.astype(np.float16).view(np.uint16).astype(np.int64) for argument in arguments]
            return bits[1] | bits[0] << 16
        if text.startswith("mov.b32 $0, $1"):
            return arguments[0]
        if text.startswith("mov.b32 $0, {$1, $2}"):
            low, high = (argument.astype(np.int64) & 0xFFFF for argument in arguments)
            return low | high << 16
        if text.startswith("ex2.approx.ftz.f32"):
            return np.exp2(arguments[0])
        if text.startswith("max.NaN.f32"):
            return np.maximum(*arguments)
        if text.startswith("div.full.f32"):
            return np.divide(*arguments)
        if text.startswith("cvt.f32.f16"):
            return arguments[0].astype(np.int16).view(np.float16).astype(np.float32)
        return self.instruction(text, arguments)


def _in_order(function: Any) -> list[Any]:
    """The basic blocks, each after all that lead to it."""
    done: list[Any] = []

    def visit(block: Any) -> None:
        last = block.instructions[-1] if block.instructions else None
        targets = last.operands if isinstance(last, ir.instructions.Branch | ir.instructions.ConditionalBranch) else []
        for target in targets:
            if isinstance(target, ir.Block) and target not in done:
                visit(target)
        done.append(block)

    visit(function.blocks[0])
    return done[::-1]


def _is_float(value: int | Lanes) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32


def _wrapped(value: Lanes, width: int) -> Lanes:
    """Two's complement of `width` bits."""
    if width == 64:
        return value
    return (value + (1 << (width - 1))) % (1 << width) - (1 << (width - 1)) if width > 1 else value % 2


def _unsigned(value: Lanes, width: int) -> Lanes:
    return value % (1 << width) if width < 64 else value


def _compare(op: str, left: Lanes, right: Lanes) -> Lanes:
    test = {
        "eq": np.equal,
        "ne": np.not_equal,
        "slt": np.less,
        "ult": np.less,
        "sgt": np.greater,
        "sle": np.less_equal,
    }[op]
    return test(left, right).astype(np.int64)


_FLOAT_OPS: dict[str, Any] = {"fadd": np.add, "fsub": np.subtract, "fmul": np.multiply, "fdiv": np.divide}


def _plain(node: Any, operands: Sequence[Lanes]) -> Lanes:
    kind = node.type
    if isinstance(node, ir.instructions.CastInstr):
        return _cast(node, operands[0])
    if node.opname == "select":
        chosen: Lanes = np.where(operands[0] != 0, operands[1], operands[2])
        return chosen
    if node.opname == "insertelement":
        vector = operands[0].copy()
        vector[:, int(operands[2][0])] = operands[1]
        return vector
    if node.opname == "extractelement":
        return operands[0][:, int(operands[1][0])]
    left, right = operands
    if node.opname in _FLOAT_OPS:
        return np.asarray(_FLOAT_OPS[node.opname](left, right), left.dtype)
    width = kind.width
    bare = [_unsigned(o, width) for o in operands]
    results: dict[str, Callable[[], Lanes]] = {
        "add": lambda: left + right,
        "sub": lambda: left - right,
        "mul": lambda: left * right,
        "and": lambda: left & right,
        "or": lambda: left | right,
        "xor": lambda: left ^ right,
        "shl": lambda: left << right,
        "lshr": lambda: bare[0] >> bare[1],
        "udiv": lambda: bare[0] // bare[1],
        "urem": lambda: bare[0] % bare[1],
    }
    return _wrapped(results[node.opname](), width)


def _cast(node: Any, value: Lanes) -> Lanes:
    source, target = node.operands[0].type, node.type
    match node.opname:
        case "zext":
            return _unsigned(value, source.width)
        case "trunc":
            return _wrapped(value, target.width)
        case "fptrunc" | "fpext" | "sitofp" | "uitofp":
            return value.astype(_FLOATS[str(target)])
        case "bitcast" if not isinstance(target, ir.PointerType):
            return _reread(value, source, target)
        case _:
            return value


def _reread(value: Lanes, source: Any, target: Any) -> Lanes:
    """The same bits as other elements."""
    rows = value if isinstance(source, ir.VectorType) else value[:, None]
    forms = []
    for kind in (source, target):
        element = kind.element if isinstance(kind, ir.VectorType) else kind
        forms.append(np.dtype(_FLOATS[str(element)] if str(element) in _FLOATS else f"<i{element.width // 8}"))
    moved = np.ascontiguousarray(rows.astype(forms[0])).view(forms[1])
    wide = moved if forms[1].kind == "f" else moved.astype(np.int64)
    return wide if isinstance(target, ir.VectorType) else wide[:, 0]
