"""Kernels that go through arrays of places: with the facts that make them safe, and what one fact less makes of them."""

from __future__ import annotations

from dataclasses import dataclass

HEAD = """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32, i64
"""


@dataclass(frozen=True)
class Case:
    """A kernel `k`: `requires` makes it proven; without any one of `needed` it is proven no more."""

    name: str
    params: str
    body: str
    requires: str
    needed: tuple[str, ...]
    block: int = 64

    def text(self, requires: str | None = None) -> str:
        """The module, under its own facts or others."""
        given = self.requires if requires is None else requires
        stated = f', requires="{given}"' if given else ""
        body = "\n".join(f"    {line}" for line in self.body.strip("\n").splitlines())
        return f"{HEAD}\n\n@tc.simt(block={self.block}{stated})\ndef k({self.params}) -> None:\n{body}\n"

    def without(self, part: str) -> str:
        """The module without one part of its facts."""
        kept = [p for p in self.requires.split(" and ") if p != part]
        assert len(kept) < len(self.requires.split(" and "))
        return self.text(" and ".join(kept))


OUT = "z: Tensor[Mut, f32, Dyn]"
X = "x: Tensor[Shared, f32, Dyn]"


def ints(name: str, dtype: str = "i32") -> str:
    return f"{name}: Tensor[Shared, {dtype}, Dyn]"


CASES = (
    Case(
        "scatter",
        f"{OUT}, {X}, {ints('perm')}",
        """
i = cuda.grid(1)
if i < perm.size:
    z[perm[i]] = x[i]
""",
        "x.size >= perm.size and 0 <= perm < z.size and distinct(perm)",
        ("distinct(perm)", "0 <= perm < z.size"),
    ),
    Case(
        "gather",
        f"{OUT}, {X}, {ints('idx')}",
        """
i = cuda.grid(1)
if i < z.size:
    z[i] = x[idx[i]]
""",
        "idx.size >= z.size and 0 <= idx < x.size",
        ("0 <= idx < x.size",),
    ),
    Case(
        "permute in strides",
        f"{OUT}, {X}, {ints('perm', 'i64')}, n: int",
        """
i = cuda.grid(1)
for k in range(i, n, cuda.gridsize(1)):
    z[perm[k]] = i * x[perm[k]]
""",
        "perm.size >= n and 0 <= perm < z.size and perm < x.size and distinct(perm)",
        ("distinct(perm)",),
    ),
    Case(
        "a row each",
        f"{OUT}, {X}, {ints('ptr')}",
        """
row = cuda.grid(1)
if row < ptr.size - 1:
    for k in range(ptr[row], ptr[row + 1]):
        z[k] = x[k] + row
""",
        "nondecreasing(ptr) and 0 <= ptr <= z.size and ptr <= x.size",
        ("nondecreasing(ptr)", "0 <= ptr <= z.size"),
    ),
    Case(
        "sparse times vector",
        f"{OUT}, a: Tensor[Shared, f32, Dyn], {ints('col')}, {ints('ptr')}, {X}",
        """
row = cuda.grid(1)
if row < z.size:
    total = 0.0
    for k in range(ptr[row], ptr[row + 1]):
        total += a[k] * x[col[k]]
    z[row] = total
""",
        "ptr.size >= z.size + 1 and 0 <= ptr <= a.size and col.size >= a.size and 0 <= col < x.size",
        ("0 <= ptr <= a.size", "0 <= col < x.size"),
    ),
    Case(
        "a block per segment",
        f"{OUT}, {ints('ptr')}",
        """
first, last = ptr[cuda.blockIdx.x], ptr[cuda.blockIdx.x + 1]
k = first + cuda.threadIdx.x
while k < last:
    z[k] = first
    k += cuda.blockDim.x
""",
        "ptr.size >= gridDim.x + 1 and nondecreasing(ptr) and 0 <= ptr <= z.size",
        ("nondecreasing(ptr)", "0 <= ptr <= z.size"),
    ),
    Case(
        "rows through a permutation",
        f"z: Tensor[Mut, f32, Dyn, Dyn], x: Tensor[Shared, f32, Dyn, Dyn], {ints('order')}",
        """
i = cuda.grid(1)
if i < order.size:
    for j in range(z.shape[1]):
        z[order[i], j] = x[i, j]
""",
        "x.shape[0] >= order.size and x.shape[1] >= z.shape[1] and 0 <= order < z.shape[0] and distinct(order)",
        ("distinct(order)", "0 <= order < z.shape[0]"),
    ),
    Case(
        "buckets with room for four",
        f"{OUT}, {ints('slot')}",
        """
i = cuda.grid(1)
if i < slot.size:
    for j in range(4):
        z[4 * slot[i] + j] = i
""",
        "0 <= slot < z.size // 4 and distinct(slot)",
        ("distinct(slot)", "0 <= slot < z.size // 4"),
    ),
    Case(
        "twice through",
        f"{OUT}, {ints('p')}, {ints('q')}",
        """
i = cuda.grid(1)
if i < p.size:
    z[q[p[i]]] = i
""",
        "0 <= p < q.size and distinct(p) and 0 <= q < z.size and distinct(q)",
        ("distinct(p)", "distinct(q)", "0 <= p < q.size", "0 <= q < z.size"),
    ),
    Case(
        "a table of two axes",
        f"{OUT}, table: Tensor[Shared, i32, Dyn, Dyn]",
        """
i, j = cuda.grid(2)
if i < table.shape[0] and j < table.shape[1]:
    z[table[i, j]] = i
""",
        "0 <= table < z.size and distinct(table)",
        ("distinct(table)", "0 <= table < z.size"),
    ),
    Case(
        "from a one-based table",
        f"{OUT}, {ints('one')}",
        """
i = cuda.grid(1)
if i < one.size:
    z[one[i] - 1] = i
""",
        "1 <= one <= z.size and distinct(one)",
        ("distinct(one)", "1 <= one <= z.size"),
    ),
)
