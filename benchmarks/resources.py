"""Registers, spills and shared memory of the kernel library at the tiles it is made for, on sm_80 and sm_90.

Everything is compiled by numba-cuda, here and without a GPU. A spill is a register that lives in memory: none is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec

from tilecheck.frontend.tile import read_function
from tilecheck.ir.kernel import Access, TensorParam
from tilecheck.verify.tile import Argument, check_kernel
from tilecheck_runtime import kernels
from tilecheck_runtime.backends.numba_cuda.compile import Binary
from tilecheck_runtime.backends.numba_cuda.lower import Lowered
from tilecheck_runtime.backends.numba_cuda.specialise import compile_for
from tilecheck_runtime.specialise import Key, TensorKey

CAPABILITIES = ((8, 0), (9, 0))
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


def dtypes_of(name: str) -> tuple[str, ...]:
    """The dtypes that a kernel is compiled for."""
    kernel = read_function(getattr(kernels, name).fn)
    (variable,) = {p.variable.name for p in kernel.params if isinstance(p, TensorParam) and p.variable is not None}
    return DTYPES[variable]


def resources(name: str, dtype: str, capability: tuple[int, int]) -> tuple[Lowered, Binary]:
    """The kernel compiled for contiguous arrays, aligned as an allocator does, that every tile divides."""
    kernel = read_function(getattr(kernels, name).fn)
    sizes = extents_of(name)
    dims = {key: sizes[decl.name] for key, decl in kernel.dims.items() if decl.size is None}
    arguments = tuple(tensor_key(p, dtype) if isinstance(p, TensorParam) else None for p in kernel.params)
    key = Key("numba-cuda", tuple(sorted(dims.items())), arguments)
    opened = {p.name: Argument(dtype, len(p.extents or ())) for p in kernel.params if isinstance(p, TensorParam)}
    return compile_for(check_kernel(kernel, dims, opened), key, capability)


def tensor_key(param: TensorParam, dtype: str) -> TensorKey:
    rank = len(param.extents or ())
    mapped = (8, 1) if param.access is Access.MAPPED else None
    return TensorKey(param.dtype or dtype, rank - 1, 16, (1 << 16,) * rank, (*((16,) * (rank - 1)), 1), mapped)


def row(job: tuple[str, str, tuple[int, int]]) -> str:
    name, dtype, capability = job
    lowered, binary = resources(name, dtype, capability)
    taken = binary.resources
    return (
        f"{name:18} {dtype:4} sm_{capability[0]}{capability[1]} {lowered.threads:5} threads {taken.registers:4} registers "
        f"{taken.spilled:4} bytes spilled {taken.shared + lowered.shared:7} bytes shared"
    )


def main() -> None:
    if find_spec("numba_cuda") is None:
        print("numba-cuda is not installed: nothing compiled")
        return
    jobs = [(n, dtype, capability) for n in kernels.__all__ for dtype in dtypes_of(n) for capability in CAPABILITIES]
    with ProcessPoolExecutor() as pool:
        for line in pool.map(row, jobs):
            print(line, flush=True)


if __name__ == "__main__":
    main()
