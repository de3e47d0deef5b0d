"""What copies and matrix instructions do to a block, after the PTX ISA and apart from the code under test.

`cp.async`, `ldmatrix`, `mma.sync` and `wgmma`. What is asynchronous happens at once, or, where it is `late`, not before
something waits for it: a program that is right either way does not depend on when it happens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Lanes = npt.NDArray[Any]

# Where the shared buffer begins: on no boundary of 1024 bytes, as behind static arrays.
SHARED_BASE = 2064


class TensorCores:
    """A block's shared memory, and global memory as one array of bytes from address 0 on. `ranges` are the arrays in it,
    `late` names what does not happen at once: copies, products.
    """

    def __init__(
        self,
        threads: int,
        shared: int,
        memory: bytes,
        *,
        late: frozenset[str] = frozenset(),
        ranges: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.threads = threads
        self.late = late
        self.shared = np.full(SHARED_BASE + shared, 0xAB, np.uint8)
        self.written = np.zeros(SHARED_BASE + shared, np.int64)
        self.memory = np.frombuffer(memory, np.uint8).copy()
        self.ranges = ranges or [(0, len(memory))]
        self.statics: dict[str, int] = {}
        self.active = np.ones(threads, bool)
        self.started: list[tuple[int, bytes]] = []
        self.groups: list[list[tuple[int, bytes]]] = []
        self.under_way: list[Callable[[], None]] = []

    def get(self, place: int, size: int, *, shared: bool) -> bytes:
        source = self.shared if shared else self.memory
        self.inside(place, size, shared=shared)
        return source[place : place + size].tobytes()

    def put(self, place: int, data: bytes, *, shared: bool = True) -> None:
        target = self.shared if shared else self.memory
        self.inside(place, len(data), shared=shared)
        assert place % len(data) == 0, "an unaligned access"
        target[place : place + len(data)] = np.frombuffer(data, np.uint8)
        if shared:
            self.written[place : place + len(data)] += 1

    def inside(self, place: int, size: int, *, shared: bool) -> None:
        ranges = [(SHARED_BASE, len(self.shared))] if shared else self.ranges
        assert any(start <= place <= end - size for start, end in ranges), "an access out of bounds"

    def instruction(self, text: str, arguments: Sequence[Lanes]) -> Any:
        """Run one piece of inline PTX for the whole block."""
        if "cp.async.cg" in text:
            return self.copy(text, arguments)
        if text.startswith("cp.async.commit_group"):
            self.groups.append(self.started)
            self.started = []
            return None
        if found := re.match(r"cp\.async\.wait_group (\d+);", text):
            while len(self.groups) > int(found[1]):
                for place, data in self.groups.pop(0):
                    self.put(place, data)
            return None
        if text.startswith("ldmatrix"):
            return self.load_matrices(text, arguments[0])
        if "wgmma.mma_async" in text:
            return self.multiply_by_groups(text, arguments)
        if found := re.match(r"wgmma\.wait_group\.sync\.aligned (\d+);", text):
            self.finish(int(found[1]))
            return arguments
        if text.startswith("fence.proxy.async"):
            return None
        depth = re.match(r"mma\.sync\.aligned\.m16n8k(8|16)\.row\.col\.f32\.f16", text)
        assert depth is not None, text
        return self.multiply(arguments, int(depth[1]))

    def finish(self, pending: int) -> None:
        """Let all but the last `pending` groups of products end."""
        while len(self.under_way) > pending:
            self.under_way.pop(0)()

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
            assert 0 <= size <= 16
            data = self.get(source, size, shared=False) if size else b""
            place = int(arguments[0][thread]) + int(found[1])
            if "copies" in self.late:
                self.started.append((place, data.ljust(16, b"\0")))
            else:
                self.put(place, data.ljust(16, b"\0"))

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

    def multiply(self, arguments: Sequence[Lanes], depth: int) -> list[Lanes]:
        """`mma.m16n8k16` or, with half the `depth`, `mma.m16n8k8`; f16 into f32."""
        left_registers, right_registers = depth // 4, depth // 8
        a, b = arguments[:left_registers], arguments[left_registers:-4]
        c = arguments[-4:]
        assert len(b) == right_registers
        out = [np.zeros(self.threads, np.float32) for _ in range(4)]
        for warp in range(0, self.threads, 32):
            left, right, total = np.zeros((16, depth)), np.zeros((depth, 8)), np.zeros((16, 8))
            for lane in range(32):
                g, t = divmod(lane, 4)
                for q in range(left_registers):
                    left[g + 8 * (q % 2), 2 * t + 8 * (q // 2) :][:2] = _halves(a[q][warp + lane])
                for q in range(4):
                    total[g + 8 * (q // 2), 2 * t + q % 2] = c[q][warp + lane]
                for q in range(right_registers):
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
        accumulators = arguments[len(arguments) - count :]
        results = [np.full(self.threads, np.nan, np.float32) for _ in accumulators]

        def finish() -> None:
            for result, total in zip(results, self.products(steps, count, arguments), strict=True):
                result[:] = total

        self.under_way.append(finish)
        if "products" not in self.late:
            self.finish(0)
        return results

    def products(self, steps: Sequence[Sequence[str]], count: int, arguments: Sequence[Lanes]) -> list[Lanes]:
        """The accumulators after all steps."""
        columns = count * 2
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
        return totals

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


def _halves(word: int) -> Lanes:
    return np.array([int(word) & 0xFFFFFFFF], np.uint32).view(np.float16)
