"""Rows: softmax and row sum (`norms` has rms_norm and layer_norm), 8192 x 4096 and 4096 x 16384, f16 and f32.

Against a copy of as many bytes, Triton with the best of its numbers of warps, and torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.device.measure import MANY_ROUNDS, Bench, Run
from tilecheck_runtime import kernels

SHAPES = ((8192, 4096), (4096, 16384))
# Rows a block, lanes a step, and hints, by the length of a row; the quickest counts, as of Triton's. Only a reduction takes
# a row in steps.
Configuration = tuple[tuple[int, int], Mapping[str, int]]
WHOLE: dict[int, tuple[Configuration, ...]] = {
    4096: (
        ((1, 4096), {}),
        ((2, 4096), {}),
        ((4, 4096), {}),
        ((1, 4096), {"num_warps": 8}),
        ((2, 4096), {"num_warps": 16}),
        ((1, 4096), {"num_warps": 4, "occupancy": 12}),
        ((1, 4096), {"num_warps": 4, "occupancy": 8}),
        ((2, 4096), {"num_warps": 4, "occupancy": 6}),
        ((2, 4096), {"num_warps": 4, "occupancy": 8}),
        ((1, 4096), {"num_warps": 16, "occupancy": 4}),
    ),
    16384: (
        ((1, 16384), {}),
        ((1, 16384), {"num_warps": 16}),
        ((1, 16384), {"num_warps": 16, "occupancy": 1}),
        ((1, 16384), {"num_warps": 8, "occupancy": 2}),
        ((1, 16384), {"num_warps": 8, "occupancy": 3}),
        ((1, 16384), {"num_warps": 8, "occupancy": 4}),
    ),
}
STEPS = {
    4096: (
        *WHOLE[4096],
        ((1, 4096), {"num_warps": 2, "occupancy": 16}),
        ((1, 4096), {"num_warps": 4, "occupancy": 6}),
        ((1, 4096), {"num_warps": 4, "occupancy": 16}),
        ((1, 4096), {"num_warps": 8, "occupancy": 5}),
        ((1, 4096), {"num_warps": 8, "occupancy": 8}),
        ((2, 4096), {"num_warps": 8}),
        ((2, 4096), {"num_warps": 16, "occupancy": 4}),
        ((4, 4096), {"num_warps": 16}),
    ),
    16384: (
        *WHOLE[16384],
        ((1, 16384), {"num_warps": 8, "occupancy": 5}),
        ((1, 16384), {"num_warps": 16, "occupancy": 2}),
        ((1, 16384), {"num_warps": 16, "occupancy": 3}),
        ((1, 16384), {"num_warps": 16, "occupancy": 4}),
        ((2, 16384), {"num_warps": 16}),
        ((1, 4096), {"num_warps": 8}),
        ((1, 4096), {"num_warps": 16}),
        ((1, 8192), {"num_warps": 8}),
        ((1, 8192), {"num_warps": 4, "occupancy": 4}),
        ((1, 8192), {"num_warps": 16, "occupancy": 3}),
    ),
}
TARGETS = {"copy": 0.95, "triton": 1.0}
EPS = 1e-5


def run(bench: Bench) -> None:
    measure(bench, ("softmax", "row_sum"))


def measure(bench: Bench, names: Sequence[str]) -> None:
    """The kernels called `names` at every shape and dtype."""
    torch = bench.torch
    for rows, columns in SHAPES:
        for dtype, element in (("f16", torch.float16), ("f32", torch.float32)):
            x = torch.randn(rows, columns, device="cuda", dtype=element)
            w, b = (torch.randn(columns, device="cuda", dtype=element) for _ in range(2))
            for name in names:
                _one(bench, name, dtype, x, w, b)


def _one(bench: Bench, name: str, dtype: str, x: Any, w: Any, b: Any) -> None:
    torch, (rows, columns) = bench.torch, x.shape
    summed = name == "row_sum"
    z = torch.empty(rows, 1, device="cuda") if summed else torch.empty_like(x)
    out = torch.empty_like(z)
    nbytes = x.nbytes + z.nbytes
    kernel: Any = getattr(kernels, name)
    mine = bench.tensors(z, x, w, b)
    more = {"softmax": (), "row_sum": (), "rms_norm": (mine[2], EPS), "layer_norm": (mine[2], mine[3], EPS)}[name]

    def build(configuration: Configuration) -> Any:
        (rows, lanes), hints = configuration
        hinted = kernel.with_hints(**hints)
        bound = hinted.where(BN=lanes) if summed else hinted
        return bound(mine[0].partition(rows, 1 if summed else lanes), mine[1], *more)

    choices = (STEPS if summed else WHOLE)[columns]
    ((tile, lanes), hints), again = bench.quickest(f"{name} {dtype}", build, choices, MANY_ROUNDS)
    bench.close(f"{name} {dtype}", z, _wanted(torch, name, x.double(), w.double(), b.double()), 3e-3)
    peers: dict[str, Run] = {"copy": bench.copy_of(nbytes)}
    fastest = _triton(bench, name, out, x, w, b)
    if fastest is not None:
        peers["triton"] = fastest
    peers["torch"] = _torch(torch, name, out, x, w, b)
    item = f"{name} {dtype} {rows} x {columns}, {tile} x {lanes} a block, {dict(hints)}"
    bench.compare(item, again, peers, work=nbytes, unit="TB/s", at_least=TARGETS, rounds=MANY_ROUNDS)


def _wanted(torch: Any, name: str, x: Any, w: Any, b: Any) -> Any:
    functional = torch.nn.functional
    match name:
        case "softmax":
            return torch.softmax(x, 1)
        case "rms_norm":
            return functional.rms_norm(x, x.shape[1:], w, EPS)
        case "layer_norm":
            return functional.layer_norm(x, x.shape[1:], w, b, EPS)
        case _:
            return x.sum(1, keepdim=True)


def _torch(torch: Any, name: str, out: Any, x: Any, w: Any, b: Any) -> Run:
    if name == "softmax":
        return lambda: torch.softmax(x, 1, out=out)
    if name == "row_sum":
        return lambda: torch.sum(x, 1, keepdim=True, dtype=out.dtype, out=out)
    return lambda: _wanted(torch, name, x, w, b)


def _triton(bench: Bench, name: str, out: Any, x: Any, w: Any, b: Any) -> Run | None:
    """Triton's launch with the number of warps that a few turns show to be the best; None without Triton."""
    try:
        from benchmarks.device import triton_peers
    except ImportError:
        return None
    columns = x.shape[1]
    arguments = {
        "softmax": (out, x, columns),
        "row_sum": (out, x, columns),
        "rms_norm": (out, x, w, columns, EPS),
        "layer_norm": (out, x, w, b, columns, EPS),
    }[name]
    choices = triton_peers.launches(getattr(triton_peers, name), x.shape[0], columns, *arguments)
    best = bench.fastest(list(choices.values()), MANY_ROUNDS)
    best()
    bench.close(f"triton {name}", out, _wanted(bench.torch, name, x.double(), w.double(), b.double()), 3e-3)
    return best
