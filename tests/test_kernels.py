"""The kernel library against NumPy, in double precision, on sizes that fit and sizes that do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilecheck as tc
from tilecheck_runtime import kernels
from tilecheck_runtime.errors import LaunchRefused

Values = npt.NDArray[Any]
RNG = np.random.default_rng(7)


def values(*shape: int, dtype: type[np.floating[Any]] = np.float32) -> Values:
    return RNG.standard_normal(shape).astype(dtype)


def close(got: Any, want: Values, tolerance: float) -> None:
    np.testing.assert_allclose(got.numpy().astype(np.float64), want, rtol=tolerance, atol=tolerance)


def sigmoid(x: Values) -> Values:
    out: Values = 1 / (1 + np.exp(-x))
    return out


POINTWISE: dict[str, tuple[Callable[..., Values], type[np.floating[Any]], tuple[float, ...]]] = {
    "add": (lambda x, y: x + y, np.float32, ()),
    "add_f16": (lambda x, y: x + y, np.float16, ()),
    "saxpy": (lambda x, y, a: a * x + y, np.float32, (2.5,)),
    "silu_mul": (lambda x, y: x * sigmoid(x) * y, np.float32, ()),
    "silu_mul_f16": (lambda x, y: x * sigmoid(x) * y, np.float16, ()),
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("size", [1, 64, 1000])
def test_pointwise(name: str, size: int) -> None:
    meaning, dtype, scalars = POINTWISE[name]
    x, y = values(size, dtype=dtype), values(size, dtype=dtype)
    z = tc.zeros(size, dtype=tc.f16 if dtype is np.float16 else tc.f32)
    getattr(kernels, name)(z.partition(64), tc.asarray(x), tc.asarray(y), *scalars).sync()
    close(z, meaning(x.astype(np.float64), y.astype(np.float64), *scalars), 4e-3 if dtype is np.float16 else 1e-5)


def softmax(x: Values) -> Values:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    out: Values = e / e.sum(axis=1, keepdims=True)
    return out


def normal(x: Values) -> Values:
    out: Values = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)
    return out


def rms(x: Values) -> Values:
    out: Values = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
    return out


ROWS: dict[str, tuple[Callable[..., Values], int, tuple[float, ...]]] = {
    "softmax": (softmax, 0, ()),
    "rms_norm": (lambda x, w: rms(x) * w, 1, (1e-5,)),
    "layer_norm": (lambda x, w, b: normal(x) * w + b, 2, (1e-5,)),
    "row_sum": (lambda x: x.sum(axis=1, keepdims=True), 0, ()),
}


@pytest.mark.parametrize("half", [False, True], ids=["f32", "f16"])
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(4, 32), (7, 128)])
def test_rows(name: str, half: bool, shape: tuple[int, int]) -> None:
    meaning, weights, scalars = ROWS[name]
    dtype = np.float16 if half else np.float32
    x = values(*shape, dtype=dtype)
    more = [values(shape[1], dtype=dtype) for _ in range(weights)]
    width = 1 if name == "row_sum" else shape[1]
    z = tc.zeros(shape[0], width, dtype=tc.f16 if half and name != "row_sum" else tc.f32)
    kernel = getattr(kernels, name + "_f16" if half else name)
    if name == "row_sum":
        kernel = kernel.where(BN=shape[1])
    kernel(z.partition(4, width), *(tc.asarray(t) for t in (x, *more)), *scalars).sync()
    wide = [t.astype(np.float64) for t in (x, *more)]
    close(z, meaning(*wide), 4e-3 if half else 2e-5)


@pytest.mark.parametrize("m, n, k", [(64, 64, 64), (50, 70, 30), (1, 1, 1)])
def test_matrix_products(m: int, n: int, k: int) -> None:
    x, y = values(m, k, dtype=np.float16), values(k, n, dtype=np.float16)
    want = x.astype(np.float64) @ y.astype(np.float64)
    z = tc.zeros(m, n)
    kernels.gemm.where(BK=16)(z.partition(32, 32), tc.asarray(x), tc.asarray(y)).sync()
    close(z, want, 1e-4)
    z = tc.zeros(m, n)
    walk = z.partition(32, 32).map((1, 1), blocks=min(3, -(-m // 32)))
    kernels.persistent_gemm.where(BK=16)(walk, tc.asarray(x), tc.asarray(y)).sync()
    close(z, want, 1e-4)


@pytest.mark.parametrize("length", [32, 50])
def test_attention_is_causal(length: int) -> None:
    heads, depth = 2, 16
    q, k, v = (values(heads, length, depth, dtype=np.float16) for _ in range(3))
    z = tc.zeros(heads, length, depth, dtype=tc.f16)
    scale = depth**-0.5
    kernels.attention.where(BN=16)(z.partition(1, 16, depth), tc.asarray(q), tc.asarray(k), tc.asarray(v), scale).sync()
    wide = [t.astype(np.float64) for t in (q, k, v)]
    scores = np.where(np.tri(length, dtype=bool), wide[0] @ wide[1].transpose(0, 2, 1) * scale, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    close(z, weights / weights.sum(axis=2, keepdims=True) @ wide[2], 4e-3)


def test_a_row_longer_than_its_tile_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="`BN` is 32"):
        kernels.softmax(tc.zeros(4, 64).partition(4, 32), tc.zeros(4, 64)).sync()
