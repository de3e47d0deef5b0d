"""Kernels of the library on a GPU against PyTorch and, for the launch, against numba-cuda itself.

Both sides run in turns on the same memory, each turn many launches back to back and one wait, and the best turn counts;
every result is compared first. Sizes exceed the second-level cache. Needs a GPU, `tilecheck[cuda]` and `torch`;
`tilecheck[tile-ir]` for the matrix products that its compiler takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

Run = Callable[[], object]


def missing() -> str | None:
    """What keeps this benchmark from running here."""
    try:
        torch = import_module("torch")
    except ImportError:
        return "torch is not installed"
    return None if torch.cuda.is_available() else "there is no GPU"


def turns(ours: tuple[Run, Run], theirs: tuple[Run, Run], launches: int, rounds: int = 7) -> tuple[float, float]:
    """Seconds per launch of both sides, (launch, wait) each: the best of `rounds` turns, the sides alternating."""
    best = [float("inf"), float("inf")]
    for _ in range(rounds):
        for side, (launch, wait) in enumerate((ours, theirs)):
            launch()
            wait()
            started = time.perf_counter()
            for _ in range(launches):
                launch()
            wait()
            best[side] = min(best[side], (time.perf_counter() - started) / launches)
    return best[0], best[1]


def compared(title: str, work: float, unit: str, op: Any, theirs: Run, check: Run, launches: int = 60) -> None:
    """One line: `work` per second on both sides. `check` raises if the results differ."""
    torch = import_module("torch")
    again = op.prepare()
    again()
    again.wait()
    check()
    mine, other = turns((again, again.wait), (theirs, torch.cuda.synchronize), launches)
    print(
        f"{title}: tilecheck {work / mine / 1e12:.3g} {unit} ({1e6 * mine:.0f} us), torch {work / other / 1e12:.3g} "
        f"{unit} ({1e6 * other:.0f} us), {other / mine:.2f} of torch's speed",
        flush=True,
    )


def close(torch: Any, got: Any, want: Any, tolerance: float) -> None:
    error = ((got.double() - want.double()).norm() / want.double().norm()).item()
    assert error < tolerance, f"relative error {error}"


def pointwise(torch: Any, tc: Any) -> None:
    from tilecheck_runtime import kernels

    n = 1 << 28
    for dtype, kernel in ((torch.float32, kernels.add), (torch.float16, kernels.add_f16)):
        x, y = (torch.randn(n, device="cuda", dtype=dtype) for _ in range(2))
        z, out = torch.empty_like(x), torch.empty_like(x)
        mine = [tc.from_dlpack(t) for t in (z, x, y)]
        op = kernel(mine[0].partition(2048), mine[1], mine[2])
        nbytes = 3 * n * x.element_size()

        def theirs(x: Any = x, y: Any = y, out: Any = out) -> object:
            return torch.add(x, y, out=out)

        def check(x: Any = x, y: Any = y, z: Any = z) -> None:
            close(torch, z, x + y, 1e-6)

        compared(f"add {str(dtype)[6:]} 2^28", nbytes, "TB/s", op, theirs, check)


def rows(torch: Any, tc: Any) -> None:
    from tilecheck_runtime import kernels

    for height, width, tile in ((8192, 4096, 4), (4096, 16384, 1)):
        for dtype, soft, norm in (
            (torch.float32, kernels.softmax, kernels.rms_norm),
            (torch.float16, kernels.softmax_f16, kernels.rms_norm_f16),
        ):
            x, w = (
                torch.randn(height, width, device="cuda", dtype=dtype),
                torch.randn(width, device="cuda", dtype=dtype),
            )
            z, out = torch.empty_like(x), torch.empty_like(x)
            mine = {name: tc.from_dlpack(t) for name, t in (("z", z), ("x", x), ("w", w))}
            nbytes = 2 * height * width * x.element_size()
            size = f"{str(dtype)[6:]} {height} x {width}"

            def softmax(x: Any = x, out: Any = out) -> object:
                return torch.softmax(x, 1, out=out)

            def soft_check(x: Any = x, z: Any = z) -> None:
                close(torch, z, torch.softmax(x.double(), 1), 1e-3)

            op = soft(mine["z"].partition(tile, width), mine["x"])
            compared(f"softmax {size}", nbytes, "TB/s", op, softmax, soft_check)
            del op

            def rms_norm(x: Any = x, w: Any = w) -> object:
                return torch.nn.functional.rms_norm(x, (x.shape[1],), w, 1e-5)

            def norm_check(x: Any = x, w: Any = w, z: Any = z) -> None:
                close(torch, z, torch.nn.functional.rms_norm(x.double(), (x.shape[1],), w.double(), 1e-5), 1e-3)

            op = norm(mine["z"].partition(tile, width), mine["x"], mine["w"], 1e-5)
            compared(f"rms_norm {size}", nbytes, "TB/s", op, rms_norm, norm_check)


def products(torch: Any, tc: Any) -> None:
    from tilecheck_runtime import kernels

    for n in (2048, 4096, 8192):
        x, y = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
        z, out = torch.empty(n, n, device="cuda", dtype=torch.float32), torch.empty_like(x)
        mine = [tc.from_dlpack(t) for t in (z, x, y)]
        op = kernels.gemm.where(BK=64)(mine[0].partition(128, 128), mine[1], mine[2])

        def theirs(x: Any = x, y: Any = y, out: Any = out) -> object:
            return torch.matmul(x, y, out=out)

        def check(x: Any = x, y: Any = y, z: Any = z) -> None:
            close(torch, z, x.float() @ y.float(), 1e-2)

        compared(f"gemm float16 {n}", 2 * n**3, "TFLOP/s", op, theirs, check, launches=20)


def attention(torch: Any, tc: Any) -> None:
    from tilecheck_runtime import kernels

    heads, length, depth = 32, 4096, 128
    q, k, v = (torch.randn(heads, length, depth, device="cuda", dtype=torch.float16) for _ in range(3))
    z = torch.empty_like(q)
    mine = [tc.from_dlpack(t) for t in (z, q, k, v)]
    op = kernels.attention.where(BN=64)(mine[0].partition(1, 128, depth), mine[1], mine[2], mine[3], depth**-0.5)

    def theirs() -> Any:
        batch = [t.unsqueeze(0) for t in (q, k, v)]
        return torch.nn.functional.scaled_dot_product_attention(*batch, is_causal=True)

    def check() -> None:
        close(torch, z, theirs()[0], 1e-2)

    compared(
        f"causal attention float16, {heads} heads x {length} x {depth}", 2 * heads * length**2 * depth, "TFLOP/s", op,
        theirs, check, launches=20,
    )  # fmt: skip


def launch(torch: Any, tc: Any) -> None:
    """What a launch of a small kernel costs the host: prepared, with all checks, and by numba-cuda."""
    from tilecheck_runtime import kernels

    cuda = import_module("numba.cuda")

    @cuda.jit  # type: ignore[untyped-decorator]
    def plain(z: Any, x: Any, y: Any) -> None:
        i = cuda.grid(1)
        if i < z.size:
            z[i] = x[i] + y[i]

    z, x, y = (torch.ones(4096, device="cuda") for _ in range(3))
    arrays = [cuda.as_cuda_array(t) for t in (z, x, y)]
    ready = plain[32, 128]
    mine = [tc.from_dlpack(t) for t in (z, x, y)]
    again = kernels.add(mine[0].partition(1024), mine[1], mine[2]).prepare()
    prepared, numba = turns((again, again.wait), (lambda: ready(*arrays), cuda.synchronize), 2000)
    again.wait()
    del again
    stream = tc.Stream()

    def checked() -> None:
        kernels.add(mine[0].partition(1024), mine[1], mine[2]).sync_on(stream)

    checked()
    started = time.perf_counter()
    for _ in range(200):
        checked()
    whole = (time.perf_counter() - started) / 200
    print(
        f"launch of a small kernel: prepared {1e6 * prepared:.2f} us, numba-cuda {1e6 * numba:.2f} us; built, checked, "
        f"launched and waited for each time {1e6 * whole:.0f} us",
        flush=True,
    )


def main() -> None:
    reason = missing()
    if reason is not None:
        print(f"{reason}: nothing measured")
        return
    os.environ.setdefault("TILECHECK_DEVICE", "cuda")
    torch, tc = import_module("torch"), import_module("tilecheck")
    print(torch.cuda.get_device_name(), flush=True)
    for part in (launch, pointwise, rows, products, attention):
        part(torch, tc)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
