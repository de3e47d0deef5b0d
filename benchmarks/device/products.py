"""Matrix products, f16 summed in f32, 4096 and 8192 cubed: partitioned and persistent, against cuBLAS through torch.

The quickest of a few tile shapes counts. Where `cuda-tile` is installed, a kernel written in its own language runs too.
"""

from __future__ import annotations

from typing import Any

from benchmarks.device.measure import Bench, Run
from tilecheck_runtime import kernels

SIZES = (4096, 8192)
TILES = ((128, 128, 64), (128, 256, 64), (256, 128, 64))
BLOCKS = 132
TARGETS = {"cuBLAS": 0.9}


def run(bench: Bench) -> None:
    torch = bench.torch
    for n in SIZES:
        x, y = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
        out = torch.empty_like(x)
        want = x[:512].double() @ y.double()
        z, half = torch.empty(n, n, device="cuda"), torch.empty_like(x)
        mine = bench.tensors(z, half, x, y)

        def partitioned(tile: tuple[int, int, int], mine: list[Any] = mine) -> Any:
            m, c, k = tile
            return kernels.gemm.where(BK=k)(mine[0].partition(m, c), mine[2], mine[3])

        def persistent(tile: tuple[int, int, int], mine: list[Any] = mine) -> Any:
            m, c, k = tile
            walk = mine[0].partition(m, c).map((8, 1), blocks=BLOCKS)
            return kernels.persistent_gemm.where(BK=k)(walk, mine[2], mine[3])

        def rounded(tile: tuple[int, int, int], mine: list[Any] = mine) -> Any:
            m, c, k = tile
            # y as the weights of a linear layer: x @ y^T.
            return kernels.linear_f16.where(BK=k)(mine[1].partition(m, c), mine[2], mine[3])

        cublas: dict[str, Run] = {
            "cuBLAS": lambda x=x, y=y, out=out: torch.matmul(x, y, out=out),  # type: ignore[misc]
            **_cutile(bench, n, x, y),
        }
        turned: dict[str, Run] = {"cuBLAS": lambda x=x, y=y, out=out: torch.matmul(x, y.T, out=out)}  # type: ignore[misc]
        for name, build, peers in (
            ("gemm f32 out", partitioned, cublas),
            ("persistent gemm f32 out", persistent, cublas),
            ("linear f16 out", rounded, turned),
        ):
            tile, again = bench.quickest(name, build, TILES)
            if name.startswith("linear"):
                bench.close(name, half[:512], x[:512].double() @ y.T.double(), 1e-2)
            else:
                bench.close(name, z[:512], want, 1e-3)
            title = f"{name} {n}, tiles {tile}"
            bench.compare(title, again, peers, work=2 * n**3, unit="TFLOP/s", at_least=TARGETS, rounds=11)
            del again


def _cutile(bench: Bench, n: int, x: Any, y: Any) -> dict[str, Run]:
    """A product in cuTile Python, as its samples write it."""
    try:
        from benchmarks.device import cutile_peers
    except ImportError:
        return {}
    out = bench.torch.empty(n, n, device="cuda")
    return {"cuTile": cutile_peers.gemm(bench.theirs, out, x, y)}
