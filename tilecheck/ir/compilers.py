"""Which compiler a tile kernel goes to on a GPU.

A kernel may ask for one (`@tc.kernel(backend="tile-ir")`). Otherwise those that multiply matrices go to Tile IR, which
feeds the tensor cores as cuBLAS does, where it is installed and takes the kernel; all others go to numba-cuda.

So do products of few rows, or few columns: in a product of M x K by K x N tiles an element of the one tile takes part in N
multiplications, of the other in M. A tensor core does some hundred in the time that memory takes to bring an element, so
with NARROW or fewer, as for the single query of a decode step, memory is the limit, and numba-cuda reads as fast as a
copy. What counts is the widest product of a kernel; where an extent is open until the launch, the launch decides.

    preference(gemm, types)  ->  Preference("tile-ir", asked=False, reason="it multiplies matrices (line 17)")
    preference(decode_split, types)  ->  Preference("numba-cuda", asked=False, reason="its products are narrow: ...")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tilecheck.ir.kernel import Binary, Kernel, Node, OpCall, walk
from tilecheck.ir.types import TileType, Type

Compiler = Literal["tile-ir", "numba-cuda"]
PRODUCTS = ("mma", "matmul", "@")
NARROW: Final = 16


@dataclass(frozen=True, slots=True)
class Preference:
    """The compiler a kernel wants, and why; `asked` if the kernel names it, so that no other will do."""

    compiler: Compiler
    asked: bool
    reason: str

    def __str__(self) -> str:
        if self.asked or self.compiler == "numba-cuda":
            return f"{self.compiler}: {self.reason}"
        return f"tile-ir where it is installed, else numba-cuda: {self.reason}"


def products(kernel: Kernel) -> tuple[Node, ...]:
    """The matrix products of a kernel, in order."""
    return tuple(n for n in walk(*kernel.body) if isinstance(n, OpCall | Binary) and n.op in PRODUCTS)


def preference(kernel: Kernel, types: Mapping[Node, Type]) -> Preference:
    """What `backend=` says, else what the body does; `types` are those of its expressions."""
    asked = kernel.options.get("backend", "auto")
    if asked == "tile-ir" or asked == "numba-cuda":
        return Preference(asked, True, f'`backend="{asked}"`')
    found = products(kernel)
    if not found:
        return Preference("numba-cuda", False, "it multiplies no matrices")
    uses = {node: _uses(types.get(node)) for node in found}
    known = [n for n in uses.values() if n is not None]
    if len(known) == len(uses) and max(known) <= NARROW:
        line = next(node.span.line for node, n in uses.items() if n == max(known))
        reason = f"its products are narrow: an element read takes part in {max(known)} multiplications (line {line})"
        return Preference("numba-cuda", False, f"{reason}, so memory is the limit")
    open_ = f", if its tiles have more than {NARROW} rows and columns" if not known or max(known) <= NARROW else ""
    return Preference("tile-ir", False, f"it multiplies matrices (line {found[0].span.line}){open_}")


def _uses(result: Type | None) -> int | None:
    """In how many multiplications an element of the less used operand takes part; None if only the launch says."""
    if not isinstance(result, TileType):
        return None
    sizes = [extent for extent in result.shape[-2:] if isinstance(extent, int)]
    if sizes and min(sizes) <= NARROW:
        return min(sizes)
    return min(sizes) if len(sizes) == len(result.shape[-2:]) else None
