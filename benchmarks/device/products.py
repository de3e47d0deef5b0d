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
    ((256, 128, 64), {"num_worker_warps": 8}),
)
BLOCKS = 132
TARGETS = {"cuBLAS": 0.9}
PEERS = {"gemm f32 out": "product", "persistent gemm f32 out": "persistent"}
THROUGH_NUMBA: Any = tc.kernel(kernels.gemm.fn, **{**kernels.gemm.options, "backend": "numba-cuda"})


def builders(mine: list[Any]) -> dict[str, Callable[[Configuration], Any]]:
    """The products of `mine`, an f32 and an f16 output and two operands, by name."""
    z, half, x, y = mine

    def gemm(configuration: Configuration, kernel: Any = kernels.gemm, out: Any = z) -> Any:
        (m, n, k), hints = configuration
        return kernel.with_hints(**hints).where(BK=k)(out.partition(m, n), x, y)

    def persistent(configuration: Configuration) -> Any:
        (m, n, k), hints = configuration
        walk = z.partition(m, n).map((8, 1), blocks=BLOCKS)
        return kernels.persistent_gemm.with_hints(**hints).where(BK=k)(walk, x, y)

    return {
        "gemm f32 out": gemm,
        "persistent gemm f32 out": persistent,
        # y as the weights of a linear layer: x @ y^T.
        "linear f16 out": lambda configuration: gemm(configuration, kernels.linear, half),
        "gemm f32 out, numba-cuda": lambda configuration: gemm(configuration, THROUGH_NUMBA),
    }


def run(bench: Bench) -> None:
    torch = bench.torch
    for n in SIZES:
        x, y = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
        out, z, half = torch.empty_like(x), torch.empty(n, n, device="cuda"), torch.empty_like(x)
        for name, build in builders(bench.tensors(z, half, x, y)).items():
            turned = name.startswith("linear")
            other = y.T if turned else y
            (tile, hints), again = bench.quickest(name, build, CONFIGURATIONS)
            want = x[:512].double() @ other.double()
            bench.close(name, (half if turned else z)[:512], want, 1e-2 if turned else 1e-3)
            peers: dict[str, Run] = {"cuBLAS": lambda x=x, other=other, out=out: torch.matmul(x, other, out=out)}  # type: ignore[misc]
            if name in PEERS:
                peers |= _cutile(bench, PEERS[name], x, y, want)
            title = f"{name} {n}, tiles {tile}, {dict(hints)}"
            targets = {} if "numba" in name else TARGETS
            bench.compare(title, again, peers, work=2 * n**3, unit="TFLOP/s", at_least=targets, rounds=11)
            del again


def _cutile(bench: Bench, name: str, x: Any, y: Any, want: Any) -> dict[str, Run]:
    """The same product written in cuTile Python."""
    try:
        from benchmarks.device import cutile_peers
    except ImportError:
        return {}
    n = x.shape[0]
    out = bench.torch.empty(n, n, device="cuda")
    tiles = n // cutile_peers.M * (n // cutile_peers.N)
    grid = (BLOCKS if name == "persistent" else tiles, 1, 1)
    launch = cutile_peers.launch(name, bench.handle, grid, (out, x, y))
    launch()
    bench.close(f"cuTile's {name}", out[:512], want, 1e-3)
    return {"cuTile": launch}
