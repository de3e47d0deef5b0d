"""What the kernel library is tried on: each kernel, each dtype, at extents that fit its tiles and at ragged ones.

A case builds its arguments, runs the kernel where the process computes, and compares with NumPy in double precision. The
same cases run on the CPU, are lowered for the GPU, and are recorded for the agreement of the GPU with the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import tilecheck as tc
from tilecheck.surface.dtypes import DTYPES
from tilecheck_runtime import kernels

Values = npt.NDArray[Any]

TOLERANCE = {"f32": 3e-5, "f16": 4e-3, "bf16": 3e-2}
REAL = ("f32", "f16", "bf16")
FACTOR = ("f16", "bf16")
ELEMENT = (*REAL, "i8", "i64")


@dataclass(frozen=True)
class Case:
    """A kernel of the library by name, the dtype it is tried with, and the trial."""

    kernel: str
    dtype: str
    run: Callable[[], None]


def values(*shape: int, dtype: str = "f32") -> Values:
    """Standard normal values, the same for a shape."""
    drawn = np.random.default_rng(shape).standard_normal(shape)
    return drawn.astype(DTYPES[dtype].numpy())


def wide(*arrays: Values) -> list[Values]:
    return [array.astype(np.float64) for array in arrays]


def close(got: Any, want: Values, dtype: str) -> None:
    """Within the dtype's tolerance, relative to the value and to 1."""
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=tolerance, atol=tolerance)


def kernel(name: str) -> Any:
    return getattr(kernels, name)


def empty(*shape: int, dtype: str = "f32") -> Any:
    return tc.zeros(*shape, dtype=DTYPES[dtype])


# ---- meanings, in double precision


def sigmoid(x: Values) -> Values:
    out: Values = 1 / (1 + np.exp(-x))
    return out


def silu(x: Values) -> Values:
    return x * sigmoid(x)


def relu(x: Values) -> Values:
    return np.maximum(x, 0)


def gelu(x: Values) -> Values:
    out: Values = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return out


def softmax(x: Values) -> Values:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    out: Values = e / e.sum(axis=-1, keepdims=True)
    return out


def normal(x: Values) -> Values:
    out: Values = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return out


def rms(x: Values) -> Values:
    out: Values = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
    return out


def causal(q: Values, k: Values, v: Values, scale: float) -> Values:
    """Query i sees keys 0 to i; k and v have a head for each group of q's."""
    group = len(q) // len(k)
    k, v = np.repeat(k, group, axis=0), np.repeat(v, group, axis=0)
    scores = q @ k.transpose(0, 2, 1) * scale
    out: Values = softmax(np.where(np.tri(q.shape[1], k.shape[1], dtype=bool), scores, -np.inf)) @ v
    return out


POINTWISE: dict[str, tuple[Callable[..., Values], int, tuple[float, ...]]] = {
    "add": (lambda x, y: x + y, 2, ()),
    "multiply": (lambda x, y: x * y, 2, ()),
    "saxpy": (lambda x, y, a: a * x + y, 2, (2.5,)),
    "relu": (relu, 1, ()),
    "silu": (silu, 1, ()),
    "gelu": (gelu, 1, ()),
    "silu_mul": (lambda x, y: silu(x) * y, 2, ()),
    "gelu_mul": (lambda x, y: gelu(x) * y, 2, ()),
}
REDUCTIONS: dict[str, Callable[..., Values]] = {
    "row_sum": lambda x: x.sum(axis=1, keepdims=True),
    "row_mean": lambda x: x.mean(axis=1, keepdims=True),
    "row_max": lambda x: x.max(axis=1, keepdims=True),
    "row_min": lambda x: x.min(axis=1, keepdims=True),
}
ACTIVATIONS: dict[str, Callable[[Values], Values]] = {"bias": lambda x: x, "relu": relu, "gelu": gelu, "silu": silu}


# ---- cases


def pointwise(name: str, dtype: str, size: int) -> None:
    meaning, count, scalars = POINTWISE[name]
    inputs = [values(size, n, dtype=dtype)[:, 0].copy() for n in range(1, count + 1)]
    z = empty(size, dtype=dtype)
    kernel(name)(z.partition(64), *map(tc.asarray, inputs), *scalars).sync()
    close(z, meaning(*wide(*inputs), *scalars), dtype)


LONG = 16384


def whole_rows(name: str, dtype: str, shape: tuple[int, int], lanes: int) -> None:
    """Kernels whose tile is whole rows of `lanes` lanes."""
    x, r, w, b = values(*shape, dtype=dtype), values(*shape, 1, dtype=dtype)[..., 0].copy(), *_weights(shape[1], dtype)
    z, s = empty(*shape, dtype=dtype), empty(*shape, dtype=dtype)
    tile = (1 if lanes == LONG else 2, lanes)
    a, c, d, e = wide(x, r, w, b)
    match name:
        case "softmax":
            kernel(name)(z.partition(tile), tc.asarray(x)).sync()
            close(z, softmax(a), dtype)
        case "rms_norm":
            kernel(name)(z.partition(tile), tc.asarray(x), tc.asarray(w), 1e-5).sync()
            close(z, rms(a) * d, dtype)
        case "add_rms_norm":
            given = tc.asarray(x), tc.asarray(r), tc.asarray(w)
            kernel(name)(z.partition(tile), s.partition(tile), *given, 1e-5).sync()
            close(z, rms(a + c) * d, dtype)
            close(s, a + c, dtype)
        case "layer_norm":
            given = tc.asarray(x), tc.asarray(w), tc.asarray(b)
            kernel(name)(z.partition(tile), *given, 1e-5).sync()
            close(z, normal(a) * d + e, dtype)


def _weights(width: int, dtype: str) -> tuple[Values, Values]:
    both = values(width, 2, dtype=dtype)
    return both[:, 0].copy(), both[:, 1].copy()


def reduced_rows(name: str, dtype: str, shape: tuple[int, int]) -> None:
    x = values(*shape, dtype=dtype)
    if name == "row_argmax":
        z = empty(shape[0], dtype="i32")
        kernel(name).where(BN=32)(z.partition(4), tc.asarray(x)).sync()
        np.testing.assert_array_equal(z.numpy(), wide(x)[0].argmax(axis=1))
        return
    z = empty(shape[0], 1)
    kernel(name).where(BN=32)(z.partition(4, 1), tc.asarray(x)).sync()
    close(z, REDUCTIONS[name](*wide(x)), "f32")


def total(dtype: str, size: int) -> None:
    x = values(size, dtype=dtype)
    parts, z = empty(4), empty(1)
    kernels.total.where(BN=64)(parts.partition(1), tc.asarray(x)).sync()
    kernels.total.where(BN=64)(z.partition(1), parts).sync()
    close(z, x.astype(np.float64).sum(keepdims=True), "f32")


def product(name: str, dtype: str, m: int, n: int, k: int, into: str = "f32") -> None:
    """`gemm` and its transposes, by the letters of the name."""
    letters = name.removeprefix("gemm_") if name != "gemm" else "nn"
    x, y = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
    stored = [
        tc.asarray(np.ascontiguousarray(t.T) if way == "t" else t) for t, way in zip((x, y), letters, strict=True)
    ]
    z = empty(m, n, dtype=into)
    kernel(name).where(BK=16)(z.partition(32, 32), *stored).sync()
    close(z, np.matmul(*wide(x, y)), into)


def persistent_product(dtype: str, m: int, n: int, k: int) -> None:
    x, y = values(m, k, dtype=dtype), values(k, n, dtype=dtype)
    z = empty(m, n)
    walk = z.partition(32, 32).map((1, 1), blocks=min(3, -(-m // 32)))
    kernels.persistent_gemm.where(BK=16)(walk, tc.asarray(x), tc.asarray(y)).sync()
    close(z, np.matmul(*wide(x, y)), "f32")


def batched_product(dtype: str, m: int, n: int, k: int) -> None:
    x, y = values(3, m, k, dtype=dtype), values(3, k, n, dtype=dtype)
    z = empty(3, m, n)
    kernels.batched_gemm.where(BK=16)(z.partition(1, 32, 32), tc.asarray(x), tc.asarray(y)).sync()
    close(z, np.matmul(*wide(x, y)), "f32")


def linear(activation: str, dtype: str, m: int, n: int, k: int) -> None:
    x, y, b = values(m, k, dtype=dtype), values(n, k, dtype=dtype), values(n, dtype=dtype)
    a, c, d = wide(x, y, b)
    z = empty(m, n, dtype=dtype)
    given = [tc.asarray(x), tc.asarray(y)] + ([tc.asarray(b)] if activation else [])
    name = f"linear_{activation}" if activation else "linear"
    kernel(name).where(BK=16)(z.partition(32, 32), *given).sync()
    want = a @ c.T
    close(z, ACTIVATIONS[activation](want + d) if activation else want, dtype)


def attention(dtype: str, queries: int, keys: int) -> None:
    heads, depth = 2, 16
    q, k, v = (values(heads, n, depth, dtype=dtype) for n in (queries, keys, keys + 3))
    z = empty(heads, queries, depth, dtype=dtype)
    scale = depth**-0.5
    given = tc.asarray(q), tc.asarray(k), tc.asarray(v)
    kernels.attention.where(BN=16)(z.partition(1, 32, depth), *given, scale).sync()
    close(z, causal(*wide(q, k, v[:, :keys]), scale), dtype)


def grouped_attention(dtype: str, length: int) -> None:
    group, kv, depth = 4, 2, 16
    q = values(group * kv, length, depth, dtype=dtype)
    k, v = (values(kv, length, depth, dtype=dtype) for _ in range(2))
    z = empty(group * kv, length, depth, dtype=dtype)
    scale = depth**-0.5
    bound = kernels.grouped_attention.where(BN=16, ROWS=32)
    bound(z.partition(group, 8, depth), tc.asarray(q), tc.asarray(k), tc.asarray(v), scale).sync()
    close(z, causal(*wide(q, k, v), scale), dtype)


def decode(dtype: str, length: int, room: int) -> None:
    """One token over a cache with `room` positions, of which `length` count; what lies beyond is nan."""
    kv, group, depth, rows, splits = 2, 4, 16, 16, 3
    q, k, v = values(kv, group, depth, dtype=dtype), *(values(kv, room, depth, dtype=dtype) for _ in range(2))
    k[:, length:], v[:, length:] = np.nan, np.nan
    scale = depth**-0.5
    parts, highest, total = (empty(kv, splits * rows, n) for n in (depth, 1, 1))
    pieces = parts.partition(1, rows, depth), highest.partition(1, rows, 1), total.partition(1, rows, 1)
    given = tc.asarray(q), tc.asarray(k), tc.asarray(v)
    kernels.decode_split.where(BN=16)(*pieces, *given, scale, length).sync()
    z = empty(kv, group, depth, dtype=dtype)
    kernels.decode_merge(z.partition(1, rows, depth), parts, highest, total).sync()
    a, b, c = wide(q, k[:, :length], v[:, :length])
    close(z, softmax(a @ b.transpose(0, 2, 1) * scale) @ c, dtype)


def rope(dtype: str, tokens: int, heads: int) -> None:
    depth, start = 16, 5
    x = values(tokens, heads, depth, dtype=dtype)
    angle = np.arange(start + tokens)[:, None] / 10_000 ** (np.arange(depth // 2) / (depth // 2))
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    z = empty(tokens, heads, depth, dtype=dtype)
    tables = tc.asarray(cos)[start:], tc.asarray(sin)[start:]
    kernels.rope(z.partition(1, 4, depth), tc.asarray(x), *tables).sync()
    c, s = (t[start:, None, :].astype(np.float64) for t in (cos, sin))
    left, right = np.split(x.astype(np.float64), 2, axis=2)
    close(z, np.concatenate([left * c - right * s, right * c + left * s], axis=2), dtype)


def cache_update(dtype: str, start: int, count: int) -> None:
    old, new = values(2, 16, 8, dtype=dtype), values(2, count + 1, 8, dtype=dtype)
    cache = tc.asarray(old.copy())
    room = cache[:, start : start + count]
    kernels.cache_update(room.partition(1, 4, 8), tc.asarray(new)).sync()
    want = old.copy()
    want[:, start : start + count] = new[:, :count]
    np.testing.assert_array_equal(cache.numpy(), want)


def embedding(dtype: str, count: int) -> None:
    table = values(30, 16, dtype=dtype)
    tokens = np.random.default_rng(count).integers(0, 30, count).astype(np.int32)
    z = empty(count, 16, dtype=dtype)
    kernels.embedding(z.partition(1, 16), tc.asarray(table), tc.asarray(tokens)).sync()
    np.testing.assert_array_equal(z.numpy(), table[tokens])


def transpose(dtype: str, rows: int, columns: int) -> None:
    x = values(rows, columns, dtype=dtype)
    z = empty(columns, rows, dtype=dtype)
    kernels.transpose(z.partition(32, 16), tc.asarray(x)).sync()
    np.testing.assert_array_equal(z.numpy(), x.T)


def _cases() -> Iterator[tuple[str, str, str, Callable[[], None]]]:
    """The kernel's name, the dtype, what else it is tried on, and the trial."""
    for dtype in REAL:
        for name in POINTWISE:
            for size in (128, 1000):
                yield name, dtype, f"{size}", partial(pointwise, name, dtype, size)
        for name in ("softmax", "rms_norm", "add_rms_norm", "layer_norm"):
            for shape, lanes in (((4, 64), 64), ((3, 48), 48), ((5, 50), 64)):
                yield name, dtype, f"{shape} in {lanes}", partial(whole_rows, name, dtype, shape, lanes)
            # More rows than multiprocessors, and long enough ones that blocks fetch for those after them.
            yield name, dtype, f"(140, {LONG})", partial(whole_rows, name, dtype, (140, LONG), LONG)
        for name in (*REDUCTIONS, "row_argmax"):
            for shape in ((4, 64), (7, 77), (5, 20)):
                yield name, dtype, f"{shape}", partial(reduced_rows, name, dtype, shape)
        for size in (512, 1000, 3):
            yield "total", dtype, f"{size}", partial(total, dtype, size)
        yield "rope", dtype, "8 x 4", partial(rope, dtype, 8, 4)
        yield "rope", dtype, "3 x 6", partial(rope, dtype, 3, 6)
    for dtype in ELEMENT:
        yield "cache_update", dtype, "at 4", partial(cache_update, dtype, 4, 8)
        yield "cache_update", dtype, "at 13", partial(cache_update, dtype, 13, 3)
        yield "embedding", dtype, "20", partial(embedding, dtype, 20)
        yield "transpose", dtype, "64 x 32", partial(transpose, dtype, 64, 32)
        yield "transpose", dtype, "50 x 70", partial(transpose, dtype, 50, 70)
    for dtype in FACTOR:
        for m, n, k in ((64, 64, 64), (50, 70, 30), (1, 1, 1)):
            size = f"{m} x {n} x {k}"
            for name in ("gemm", "gemm_nt", "gemm_tn", "gemm_tt"):
                yield name, dtype, size, partial(product, name, dtype, m, n, k)
                yield name, dtype, f"{size} into {dtype}", partial(product, name, dtype, m, n, k, dtype)
            for activation in ("", *ACTIVATIONS):
                name = f"linear_{activation}" if activation else "linear"
                yield name, dtype, size, partial(linear, activation, dtype, m, n, k)
            yield "persistent_gemm", dtype, size, partial(persistent_product, dtype, m, n, k)
            yield "batched_gemm", dtype, size, partial(batched_product, dtype, m, n, k)
        for queries, keys in ((64, 64), (50, 50), (40, 77)):
            yield "attention", dtype, f"{queries} of {keys}", partial(attention, dtype, queries, keys)
        for length in (32, 43):
            yield "grouped_attention", dtype, f"{length}", partial(grouped_attention, dtype, length)
        for length, room in ((96, 96), (50, 64), (7, 20)):
            yield "decode_split", dtype, f"{length} of {room}", partial(decode, dtype, length, room)
        yield "decode_merge", dtype, "40 of 40", partial(decode, dtype, 40, 40)


CASES = {f"{name} {dtype} {on}": Case(name, dtype, run) for name, dtype, on, run in _cases()}
