"""Which compiler a tile kernel goes to on a GPU.

A kernel may ask for one (`@tc.kernel(backend="tile-ir")`). Otherwise those that multiply matrices go to Tile IR, which
feeds the tensor cores as cuBLAS does, where it is installed and takes the kernel; all others go to numba-cuda.

    preference(gemm)  ->  Preference("tile-ir", asked=False, reason="it multiplies matrices (line 17)")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilecheck.ir.kernel import Binary, Kernel, OpCall, walk

Compiler = Literal["tile-ir", "numba-cuda"]
PRODUCTS = ("mma", "matmul", "@")


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


def preference(kernel: Kernel) -> Preference:
    """What `backend=` says, else what the body does."""
    asked = kernel.options.get("backend", "auto")
    if asked == "tile-ir" or asked == "numba-cuda":
        return Preference(asked, True, f'`backend="{asked}"`')
    for node in walk(*kernel.body):
        if isinstance(node, OpCall | Binary) and node.op in PRODUCTS:
            return Preference("tile-ir", False, f"it multiplies matrices (line {node.span.line})")
    return Preference("numba-cuda", False, "it multiplies no matrices")
