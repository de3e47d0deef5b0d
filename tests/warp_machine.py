"""A small machine that runs what the numba-cuda backend builds, all threads of a block in step, without a GPU.

It reads the LLVM IR of one builder function: integer arithmetic, selections, shared memory, and the inline PTX of
`cp.async`, `ldmatrix`, `mma.sync` and `wgmma`, whose meaning is written down here from the PTX ISA, apart from the code under test.
Blocks run in order, each for the threads that reach it; there are no loops, so barriers are met by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.registers import I64

Lanes = npt.NDArray[Any]
Build = Callable[[ir.IRBuilder, Sequence[Sequence[Any]]], Sequence[Any]]

# Where the shared buffer begins: on no boundary of 1024 bytes, as behind static arrays.
SHARED_BASE = 2064


class Machine:
    """One block: its shared memory, and global memory as one array of bytes from address 0 on."""

    def __init__(self, threads: int, shared: int, memory: bytes) -> None:
        self.threads = threads
        self.shared = np.full(SHARED_BASE + shared, 0xAB, np.uint8)
        self.written = np.zeros(SHARED_BASE + shared, np.int64)
        self.memory = np.frombuffer(memory, np.uint8).copy()
        self.values: dict[int, Any] = {}
        self.active = np.ones(threads, bool)

    def run(self, build: Build, arguments: Sequence[Sequence[int | Lanes]]) -> list[Lanes]:
        """Build one intrinsic and run it. Arrays have a value per thread; those of float32 are f32, all others i64."""
        flat = [value for group in arguments for value in group]
        kinds = [ir.FloatType() if _is_float(value) else I64 for value in flat]
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), "f")
        builder = ir.IRBuilder(function.append_basic_block())
        rest = iter(function.args)
        results = build(builder, [[next(rest) for _ in group] for group in arguments])
        self.values = {}
        for parameter, value in zip(function.args, flat, strict=True):
            self.values[id(parameter)] = np.broadcast_to(np.asarray(value), (self.threads,))
        reach = {id(block): np.zeros(self.threads, bool) for block in function.blocks}
        reach[id(function.blocks[0])][:] = True
        for block in function.blocks:
            self.active = reach[id(block)]
            for instruction in block.instructions:
                self.values[id(instruction)] = self.step(instruction)
                if isinstance(instruction, ir.instructions.ConditionalBranch):
                    taken = self.value(instruction.operands[0]) != 0
                    reach[id(instruction.operands[1])] |= self.active & taken
                    reach[id(instruction.operands[2])] |= self.active & ~taken
                elif isinstance(instruction, ir.instructions.Branch):
                    reach[id(instruction.operands[0])] |= self.active
        return [self.value(result) for result in results]

    def value(self, node: Any) -> Any:
        if id(node) in self.values:
            return self.values[id(node)]
        if isinstance(node, ir.GlobalVariable):
            return np.full(self.threads, SHARED_BASE)
        assert isinstance(node, ir.Constant), node
        if isinstance(node.type, ir.FloatType):
            return np.full(self.threads, node.constant, np.float32)
        if isinstance(node.type, ir.VectorType):
            floats = isinstance(node.type.element, ir.FloatType)
            return np.zeros((self.threads, node.type.count), np.float32 if floats else np.int64)
        return np.full(self.threads, node.constant, np.int64)

    def step(self, node: Any) -> Any:
        if isinstance(node, ir.CallInstr):
            return self.call(node)
        if isinstance(node, ir.instructions.Branch | ir.instructions.ConditionalBranch):
            return None
        operands = [self.value(o) for o in node.operands]
        if isinstance(node, ir.instructions.ICMPInstr):
            return _compare(node.op, *operands)
        if node.opname == "bitcast" and {"i32", "float"} == {str(node.type), str(node.operands[0].type)}:
            kinds = (np.float32, np.int32) if str(node.type) == "i32" else (np.int32, np.float32)
            moved = operands[0].astype(kinds[0]).view(kinds[1])
            return moved if kinds[1] is np.float32 else moved.astype(np.int64)
        if isinstance(node, ir.instructions.ExtractValue):
            return operands[0][node.indices[0]]
        if isinstance(node, ir.instructions.GEPInstr):
            element = node.pointer.type.pointee
            if isinstance(element, ir.ArrayType):
                return operands[0] + operands[2]
            return operands[0] + operands[1] * (element.width // 8)
        if isinstance(node, ir.instructions.StoreInstr):
            return self.store(node.operands[0].type, *operands, shared=node.operands[1].type.addrspace == 3)
        return _plain(node, operands)

    def store(self, kind: Any, value: Lanes, place: Lanes, *, shared: bool) -> None:
        rows = value if value.ndim == 2 else value[:, None]
        element = kind.element if isinstance(kind, ir.VectorType) else kind
        form = "<f4" if isinstance(element, ir.FloatType) else f"<i{max(element.width // 8, 1)}"
        for thread in np.flatnonzero(self.active):
            self.put(int(place[thread]), rows[thread].astype(form).tobytes(), shared=shared)

    def put(self, place: int, data: bytes, *, shared: bool = True) -> None:
        target, first = (self.shared, SHARED_BASE) if shared else (self.memory, 0)
        assert first <= place <= len(target) - len(data)
        assert place % len(data) == 0, "an unaligned access"
        target[place : place + len(data)] = np.frombuffer(data, np.uint8)
        if shared:
            self.written[place : place + len(data)] += 1

    def call(self, node: Any) -> Any:
        callee = node.callee
        arguments = [self.value(a) for a in node.args]
        if not isinstance(callee, ir.InlineAsm) and "shfl.sync.bfly" in callee.name:
            return arguments[1][np.arange(self.threads) ^ arguments[2]]
        if not isinstance(callee, ir.InlineAsm):
            return np.arange(self.threads) if callee.name.endswith("tid.x") else None
        text = callee.asm
        if "cp.async.cg" in text:
            return self.copy(text, arguments)
        if text.startswith("ldmatrix"):
            return self.load_matrices(text, arguments[0])
        if "wgmma.mma_async" in text:
            return self.multiply_by_groups(text, arguments)
        if text.startswith("wgmma.wait_group"):
            return arguments
        assert text.startswith("mma.sync.aligned.m16n8k16.row.col.f32.f16"), text
        return self.multiply(arguments)

    def copy(self, text: str, arguments: Sequence[Lanes]) -> None:
        """`cp.async`: 16 bytes, of which the first `size` come from memory and the others are zero."""
        found = re.search(r"\[\$0\+(\d+)\], \[\$1\], 16(?:, \$(\d))?;", text)
        assert found is not None
        guard = re.search(r"setp.ne.b32 p, \$(\d), 0; @p", text)
        for thread in range(self.threads):
            if guard is not None and not arguments[int(guard[1])][thread]:
                continue
            size = 16 if found[2] is None else int(arguments[int(found[2])][thread])
            source = int(arguments[1][thread])
            assert source % 16 == 0
            assert 0 <= source <= len(self.memory) - size
            assert 0 <= size <= 16
            data = self.memory[source : source + size].tobytes().ljust(16, b"\0")
            self.put(int(arguments[0][thread]) + int(found[1]), data)

    def load_matrices(self, text: str, address: Lanes) -> list[Lanes]:
        """`ldmatrix.x4`: lane 8 i + r names row r of matrix i; lane l gets a pair of row l / 4 (of column, transposed)."""
        found = re.search(r"\[\$4\+(\d+)\]", text)
        assert found is not None
        words = [np.zeros(self.threads, np.int64) for _ in range(4)]
        for warp in range(0, self.threads, 32):
            banks = [set[int]() for _ in range(4)]
            for matrix in range(4):
                block = np.zeros((8, 8), np.uint16)
                for row in range(8):
                    place = int(address[warp + 8 * matrix + row]) + int(found[1])
                    assert place % 16 == 0
                    assert SHARED_BASE <= place <= len(self.shared) - 16
                    banks[matrix].add(place // 16 % 8)
                    block[row] = self.shared[place : place + 16].view(np.uint16)
                if ".trans" in text:
                    block = block.T
                for lane in range(32):
                    pair = block[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
                    words[matrix][warp + lane] = int(pair[0]) | int(pair[1]) << 16
            assert all(len(used) == 8 for used in banks), "a bank conflict"
        return words

    def multiply(self, arguments: Sequence[Lanes]) -> list[Lanes]:
        """`mma.m16n8k16`, f16 into f32."""
        a, b, c = arguments[:4], arguments[4:6], arguments[6:]
        out = [np.zeros(self.threads, np.float32) for _ in range(4)]
        for warp in range(0, self.threads, 32):
            left, right, total = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
            for lane in range(32):
                g, t = divmod(lane, 4)
                for q in range(4):
                    left[g + 8 * (q % 2), 2 * t + 8 * (q // 2) :][:2] = _halves(a[q][warp + lane])
                    total[g + 8 * (q // 2), 2 * t + q % 2] = c[q][warp + lane]
                for q in range(2):
                    right[2 * t + 8 * q : 2 * t + 8 * q + 2, g] = _halves(b[q][warp + lane])
            total += left @ right
            for lane in range(32):
                g, t = divmod(lane, 4)
                for q in range(4):
                    out[q][warp + lane] = total[g + 8 * (q // 2), 2 * t + q % 2]
        return out

    def multiply_by_groups(self, text: str, arguments: Sequence[Lanes]) -> list[Lanes]:
        """`wgmma.m64nNk16`, f16 into f32, both operands by descriptor."""
        pattern = r"m64n(\d+)k16\S* \{[^}]*\}, (\{[^}]*\}|\$\d+), \$(\d+), p, 1, 1,(?: (\d),)? (\d);"
        steps = re.findall(pattern, text)
        columns = int(steps[0][0])
        count = columns // 2
        totals = [values.astype(np.float64) for values in arguments[len(arguments) - count :]]
        for group in range(0, self.threads, 128):
            total = np.zeros((64, columns))
            for _, left, right, left_major, right_major in steps:
                a, b = ([arguments[int(n) - count] for n in re.findall(r"\d+", text)] for text in (left, right))
                rows = self.group_rows(a, group) if len(a) == 4 else self.described(a[0], group, 64, left_major == "1")
                total += rows @ self.described(b[0], group, columns, right_major == "1").T
            for thread in range(128):
                warp, lane = divmod(thread, 32)
                for q in range(count):
                    row = 16 * warp + lane // 4 + 8 * (q % 4 // 2)
                    totals[q][group + thread] += total[row, q // 4 * 8 + 2 * (lane % 4) + q % 2]
        return [values.astype(np.float32) for values in totals]

    def group_rows(self, words: Sequence[Lanes], group: int) -> Lanes:
        """The 64 x 16 elements of A that a warpgroup holds in four registers a thread."""
        rows = np.zeros((64, 16))
        for thread in range(128):
            warp, lane = divmod(thread, 32)
            for q in range(4):
                row, column = 16 * warp + lane // 4 + 8 * (q % 2), 2 * (lane % 4) + 8 * (q // 2)
                rows[row, column : column + 2] = _halves(words[q][group + thread])
        return rows

    def described(self, descriptors: Lanes, group: int, extent: int, major: bool) -> Lanes:
        """The (extent, 16) elements that a warpgroup's descriptor names; `major`: neighbours in memory are not along k."""
        (descriptor,) = set(descriptors[group : group + 128].tolist())
        start, leading, stride = ((descriptor >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        width = {1: 128, 2: 64, 3: 32}[descriptor >> 62 & 3]
        out = np.zeros((extent, 16), np.float64)
        for i in range(extent):
            for k in range(16):
                if major:
                    panel, inner = divmod(2 * i, width)
                    place = start + panel * leading + inner + k // 8 * stride + k % 8 * width
                else:
                    place = start + i // 8 * stride + i % 8 * width + 2 * k
                place ^= (place >> 7 & width // 16 - 1) << 4
                assert SHARED_BASE <= place <= len(self.shared) - 2
                out[i, k] = self.shared[place : place + 2].view(np.float16)[0]
        return out


def _is_float(value: int | Lanes) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32


def _halves(word: int) -> Lanes:
    return np.array([int(word) & 0xFFFFFFFF], np.uint32).view(np.float16)


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


def _plain(node: Any, operands: Sequence[Lanes]) -> Lanes:
    kind = node.type
    if node.opname in ("zext", "ptrtoint", "inttoptr", "bitcast", "trunc"):
        return _cast(node, operands[0])
    if node.opname == "select":
        chosen: Lanes = np.where(operands[0] != 0, operands[1], operands[2])
        return chosen
    if node.opname == "insertelement":
        vector = operands[0].copy()
        vector[:, int(operands[2][0])] = operands[1]
        return vector
    left, right = operands
    if node.opname == "fadd":
        return left + right
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
    if node.opname == "zext":
        return _unsigned(value, source.width)
    if node.opname == "trunc":
        return _wrapped(value, target.width)
    if isinstance(source, ir.VectorType):
        words = target.element.width // 8 if isinstance(target, ir.VectorType) else target.width // 8
        data = np.ascontiguousarray(value.astype(f"<i{source.element.width // 8}")).view(f"<i{words}").astype(np.int64)
        return data if isinstance(target, ir.VectorType) else data[:, 0]
    return value
