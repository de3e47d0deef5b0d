"""Elementwise kernels, bound by memory: add, saxpy, silu_mul in f32 and f16, 2^26 and 2^28 elements.

Against a copy of as many bytes, a hand-written numba-cuda kernel, torch and CuPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks.device import numba_peers
from benchmarks.device.measure import Bench, Run
from tilecheck_runtime import kernels

SIZES = (26, 28)
TILE = {"f32": 2048, "f16": 4096}
TARGETS = {"copy": 0.98, "numba-cuda": 1.25}


def run(bench: Bench) -> None:
    torch = bench.torch
    for dtype, element in (("f32", torch.float32), ("f16", torch.float16)):
        scalar = numba_peers.scalar_kernels()
        for log in SIZES:
            n = 1 << log
            x, y = (torch.randn(n, device="cuda", dtype=element) for _ in range(2))
            z, out = torch.empty_like(x), torch.empty_like(x)
            nbytes = 3 * n * x.element_size()
            copy = bench.copy_of(nbytes)
            for name in ("add", "saxpy", "silu_mul"):
                mine = bench.tensors(z, x, y)
                kernel = getattr(kernels, name)
                scalars = (2.5,) if name == "saxpy" else ()
                again = bench.prepared(kernel(mine[0].partition(TILE[dtype]), mine[1], mine[2], *scalars))
                bench.close(f"{name} {dtype}", z[: 1 << 24], wanted(torch, name, x[: 1 << 24], y[: 1 << 24]), 2e-3)
                peers: dict[str, Run] = {
                    "copy": copy,
                    "numba-cuda": numba_peers.launch(scalar[name], bench.handle, out, x, y),
                    **libraries(bench, name, out, x, y),
                }
                bench.compare(f"{name} {dtype} 2^{log}", again, peers, work=nbytes, unit="TB/s", at_least=TARGETS)
                del again, mine


def wanted(torch: Any, name: str, x: Any, y: Any) -> Any:
    """In double precision."""
    a, b = x.double(), y.double()
    return {"add": lambda: a + b, "saxpy": lambda: 2.5 * a + b, "silu_mul": lambda: torch.sigmoid(a) * a * b}[name]()


def libraries(bench: Bench, name: str, out: Any, x: Any, y: Any) -> dict[str, Run]:
    """torch where one call does it, and CuPy's fused form."""
    torch = bench.torch
    found: dict[str, Run] = {}
    if name == "add":
        found["torch"] = lambda: torch.add(x, y, out=out)
    if name == "saxpy":
        found["torch"] = lambda: torch.add(y, x, alpha=2.5, out=out)
    try:
        cupy: Any = import_module("cupy")
    except ImportError:
        return found
    kind = {torch.float32: "float", torch.float16: "float16"}[x.dtype]
    forms = {
        "add": "z = x + y",
        "saxpy": "z = 2.5f * (float)x + (float)y",
        "silu_mul": "float t = x; z = t / (1.0f + expf(-t)) * (float)y",
    }
    names = {"float": "float32", "float16": "float16"}
    kernel = cupy.ElementwiseKernel(f"{names[kind]} x, {names[kind]} y", f"{names[kind]} z", forms[name], name)
    stream = cupy.cuda.ExternalStream(bench.handle)
    arrays = [cupy.from_dlpack(t) for t in (x, y, out)]

    def launch() -> None:
        with stream:
            kernel(*arrays)

    found["cupy"] = launch
    return found
