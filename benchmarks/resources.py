"""Registers, spills and shared memory of the kernel library at the tiles it is made for, on sm_80 and sm_90.

Everything is compiled by numba-cuda, here and without a GPU. A spill is a register that lives in memory: none is wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product

from tilecheck.frontend.tile import read_function
from tilecheck.ir.kernel import TensorParam
from tilecheck_runtime import kernels
from tilecheck_runtime.resources import Taken, assume, missing, taken

ARCHITECTURES = ("sm_80", "sm_90")
# The dtypes that are compiled, for each type variable of the library.
DTYPES = {"Real": ("f32", "f16", "bf16"), "Factor": ("f16", "bf16"), "Element": ("f32", "f16", "i8")}
# The extents by module, or by kernel where it has its own.
_ROWS = {"BM": 1, "BN": 4096, "N": 4096}
_PRODUCT = {"BM": 128, "BN": 128, "BK": 64}
EXTENTS: Mapping[str, Mapping[str, int]] = {
    "pointwise": {"BM": 2048},
    "rows": _ROWS,
    "norms": _ROWS,
    "matrix": _PRODUCT,
    "attention": {"BM": 128, "BN": 64, "D": 128},
    "attention.grouped_attention": {"G": 4, "BM": 32, "ROWS": 128, "BN": 64, "D": 128},
    "decode": {"BM": 16, "BN": 64, "D": 128},
    "sequence": {"BM": 32, "D": 128, "Half": 64, "BN": 32},
    "sequence.embedding": {"D": 4096},
}


def extents_of(name: str) -> Mapping[str, int]:
    """The extents that a kernel is made for."""
    module = getattr(kernels, name).__module__.rpartition(".")[2]
    return EXTENTS.get(f"{module}.{name}", EXTENTS[module])


def dtypes_of(name: str) -> Iterator[Mapping[str, str]]:
    """The dtypes that a kernel is compiled for, by type variable; a product goes to f32, and to what it multiplies."""
    kernel = read_function(getattr(kernels, name).fn)
    variables = {p.variable.name for p in kernel.params if isinstance(p, TensorParam) and p.variable is not None}
    for choice in product(*(DTYPES[variable] for variable in sorted(variables))):
        found = dict(zip(sorted(variables), choice, strict=True))
        if len(found) == 1 or found["Real"] in ("f32", found["Factor"]):
            yield found


def resources(name: str, dtypes: Mapping[str, str], architecture: str) -> Taken:
    """What the kernel takes at those extents."""
    kernel = read_function(getattr(kernels, name).fn)
    used = {decl.name for decl in kernel.dims.values() if decl.size is None}
    sizes = {name: size for name, size in extents_of(name).items() if name in used}
    return taken(*assume(kernel, sizes, dtypes), architecture)


def row(job: tuple[str, Mapping[str, str], str]) -> str:
    name, dtypes, architecture = job
    found = resources(name, dtypes, architecture)
    limit = found.limit
    return (
        f"{name:18} {' to '.join(dtypes.values()):12} {architecture} {found.threads:5} threads {found.registers:4} "
        f"registers {found.spilled:4} bytes spilled {found.static + found.dynamic:7} bytes shared "
        f"{limit.blocks if limit else 0:3} blocks by {limit.resource if limit else '-'}"
    )


def main() -> None:
    if missing() is not None:
        print(f"nothing compiled: {missing()}")
        return
    jobs = [(n, dtypes, arch) for n in kernels.__all__ for dtypes in dtypes_of(n) for arch in ARCHITECTURES]
    with ProcessPoolExecutor() as pool:
        for line in pool.map(row, jobs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
