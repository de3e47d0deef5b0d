"""Row kernels in Triton, one row a program, as its tutorials write them: what the library's are measured against.

Needs Triton; import it only where there is a GPU. The kernels have no annotations, whose names Triton would look up.
"""

from __future__ import annotations

from typing import Any

import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

WARPS = (4, 8, 16)


@triton.jit  # type: ignore[untyped-decorator]
def softmax(z, x, n, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, LANES)
    t = tl.load(x + row * n + at, mask=at < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(t - tl.max(t, axis=0))
    tl.store(z + row * n + at, e / tl.sum(e, axis=0), mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def rms_norm(z, x, w, n, eps, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, LANES)
    t = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(t * t, axis=0) / n + eps)
    tl.store(z + row * n + at, t * scale * tl.load(w + at, mask=at < n, other=0.0).to(tl.float32), mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def layer_norm(z, x, w, b, n, eps, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, LANES)
    t = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    d = tl.where(at < n, t - tl.sum(t, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(d * d, axis=0) / n + eps)
    weight = tl.load(w + at, mask=at < n, other=0.0).to(tl.float32)
    bias = tl.load(b + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(z + row * n + at, d * scale * weight + bias, mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def row_sum(z, x, n, LANES: tl.constexpr):  # type: ignore[no-untyped-def]
    row, at = tl.program_id(0), tl.arange(0, LANES)
    t = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(z + row, tl.sum(t, axis=0))


def launches(kernel: Any, rows: int, columns: int, *arguments: Any) -> dict[str, Any]:
    """The kernel on all rows, by number of warps; `arguments` are those before LANES."""

    def launch(warps: int) -> Any:
        lanes = triton.next_power_of_2(columns)
        return lambda: kernel[(rows,)](*arguments, LANES=lanes, num_warps=warps)

    return {f"triton {warps} warps": launch(warps) for warps in WARPS}
