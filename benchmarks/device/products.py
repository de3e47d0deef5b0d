"""Matrix products, f16 summed in f32, 4096 and 8192 cubed: partitioned and persistent, against cuBLAS through torch.

The quickest of a few configurations counts, for the compiler that `backend="auto"` takes and for numba-cuda. Where
`cuda-tile` is installed, kernels written in its own language run too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tilecheck as tc
from benchmarks.device.measure import Bench, Run
from tilecheck_runtime import kernels

SIZES = (4096, 8192)
# Tile of the output, step, and hints for Tile IR.
Configuration = tuple[tuple[int, int, int], Mapping[str, int]]
CONFIGURATIONS: tuple[Configuration, ...] = (
    ((128, 128, 64), {}),
    ((128, 128, 64), {"occupancy": 2}),
    ((128, 256, 64), {"num_worker_warps": 8}),
    ((128, 256, 128), {"num_worker_warps": 8}),
    ((256, 128, 32), {"num_worker_warps": 8}),
    ((256, 256, 64), {"num_ctas": 2, "num_worker_warps": 8}),
)
BLOCKS = 132
TARGETS = {"cuBLAS": 0.96, "cuTile": 0.99}
THROUGH_NUMBA: Any = tc.kernel(kernels.gemm.fn, **{**kernels.gemm.options, "backend": "numba-cuda"})
IN_A_ROW = 10


def builders(mine: list[Any]) -> dict[str, Callable[[Configuration], Any]]:
    """The products of `mine`, an f32 and an f16 output and two operands, by name."""
    wide, half, x, y = mine

    def gemm(configuration: Configuration, out: Any, kernel: Any = kernels.gemm) -> Any:
        (m, n, k), hints = configuration
        return kernel.with_hints(**hints).where(BK=k)(out.partition(m, n), x, y)

    def persistent(configuration: Configuration, out: Any) -> Any:
        (m, n, k), hints = configuration
        walk = out.partition(m, n).map((8, 1), blocks=BLOCKS)
        return kernels.persistent_gemm.with_hints(**hints).where(BK=k)(walk, x, y)

    return {
        "gemm f16 out": lambda configuration: gemm(configuration, half),
        "gemm f32 out": lambda configuration: gemm(configuration, wide),
        "persistent gemm f16 out": lambda configuration: persistent(configuration, half),
        "persistent gemm f32 out": lambda configuration: persistent(configuration, wide),
        # y as the weights of a linear layer: x @ y^T.
        "linear f16 out": lambda configuration: gemm(configuration, half, kernels.linear),
        "gemm f32 out, numba-cuda": lambda configuration: gemm(configuration, wide, THROUGH_NUMBA),
    }


def run(bench: Bench) -> None:
    torch = bench.torch
    for n in SIZES:
        x, y = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
        wide, half = torch.empty(n, n, device="cuda"), torch.empty_like(x)
        for name, build in builders(bench.tensors(wide, half, x, y)).items():
            turned, narrow = name.startswith("linear"), "f16 out" in name
            other, dtype = y.T if turned else y, torch.float16 if narrow else torch.float32
            (tile, hints), again = bench.quickest(name, build, CONFIGURATIONS)
            want = x[:512].double() @ other.double()
            bench.close(name, (half if narrow else wide)[:512], want, 1e-2 if narrow else 1e-3)
            peers: dict[str, Run] = {"cuBLAS": _cublas(torch, x, other, dtype)}
            if name.removeprefix("persistent ").startswith("gemm") and "numba" not in name:
                peers |= _cutile(
                    bench, name.startswith("persistent"), x, y, torch.empty_like(half if narrow else wide), want
                )
            title = f"{name} {n}, tiles {tile}, {dict(hints)}"
            targets = {"cuBLAS": 0.9} if "numba" in name else TARGETS
            for more, in_a_row in ((", cache flushed", 0), (f", {IN_A_ROW} in a row", IN_A_ROW)):
                bench.compare(
                    title + more, again, peers, work=2 * n**3, unit="TFLOP/s", at_least=targets, rounds=11, in_a_row=in_a_row
                )  # fmt: skip
            del again


def _cublas(torch: Any, x: Any, y: Any, dtype: Any) -> Run:
    """The product into the dtype that ours goes to."""
    out = torch.empty(x.shape[0], y.shape[1], device="cuda", dtype=dtype)
    if dtype == x.dtype:
        return lambda: torch.mm(x, y, out=out)
    return lambda: torch.mm(x, y, out_dtype=dtype, out=out)


def _cutile(bench: Bench, persistent: bool, x: Any, y: Any, out: Any, want: Any) -> dict[str, Run]:
    """The same product written in cuTile Python, the quickest of its variants."""
    try:
        from benchmarks.device import cutile_peers
    except ImportError:
        return {}
    n = x.shape[0]
    form = "persistent" if persistent else "product"
    dtype = "float16" if out.element_size() == 2 else "float32"
    launches: list[Run] = []
    for name, peer in cutile_peers.PEERS.items():
        if name.startswith(f"{form}_{dtype}_"):
            tiles = n // peer.tile[0] * (n // peer.tile[1])
            launch = cutile_peers.launch(name, bench.handle, (BLOCKS if persistent else tiles, 1, 1), (out, x, y))
            launch()
            bench.close(f"cuTile's {name}", out[:512], want, 1e-2)
            launches.append(launch)
    return {"cuTile": bench.fastest(launches)}
