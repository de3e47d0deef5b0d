"""The functions that Tile IR kernels bring along compute what the ops mean: their text runs on NumPy here."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilecheck.ops import OPS
from tilecheck.ops.philox import words
from tilecheck.surface.dtypes import DTYPES as SURFACE
from tilecheck_runtime.backends.tile_ir import functions
from tilecheck_runtime.backends.tile_ir.words import wide

DTYPES = {f"{kind}{bits}": np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
INTS = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"} | {f"u{b}": f"uint{b}" for b in (8, 16, 32, 64)}


def _where(cond: Any, x: Any, y: Any) -> Any:
    """As cuTile types it: a Python number takes the dtype of the tile on the other side."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype if hasattr(y, "dtype") else np.dtype(np.int32)
    return np.where(cond, np.asarray(x).astype(dtype), np.asarray(y).astype(dtype))


CT = SimpleNamespace(
    **DTYPES,
    float32=np.float32,
    float64=np.float64,
    abs=np.abs,
    exp=np.exp,
    log=np.log,
    log2=np.log2,
    astile=lambda value, dtype: np.asarray(value, dtype),
    sqrt=np.sqrt,
    cos=np.cos,
    where=_where,
    astype=lambda x, dtype: np.asarray(x).astype(dtype),
    bitcast=lambda x, dtype: np.asarray(x).view(dtype),
)


def function(call: str) -> Any:
    """The function that `call` names, its text run on NumPy."""
    scope: dict[str, Any] = {"ct": CT, "math": math}
    exec(functions.before(call), scope)
    return scope[call.partition("(")[0]]


def operands(dtype: str) -> tuple[Any, Any]:
    info = np.iinfo(dtype)
    edges = [0, 1, 2, 3, 7, info.max, info.max - 1, info.max // 2 + 1, info.min, info.min + 1]
    drawn = np.random.default_rng(5).integers(info.min, info.max, 200, dtype=dtype, endpoint=True)
    values = np.concatenate([np.array(edges).astype(dtype), drawn])
    x, y = np.meshgrid(values, values)
    return x.ravel(), y.ravel()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("short", INTS)
@pytest.mark.parametrize("op", sorted(functions.UNSIGNED))
def test_on_ints(op: str, short: str) -> None:
    form = (functions.SIGNED if short[0] == "i" else functions.UNSIGNED)[op]
    x, y = operands(INTS[short])
    if op == "pow":
        x, y = x[:2000], y[:2000] % np.asarray(9, y.dtype)
    more = (int(short[1:]),) if "{bits}" in form else ()
    got = function(form)(x, y, *more)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, OPS[op].meaning(x, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", ["expm1", "log1p"])
def test_on_floats(op: str, dtype: Any) -> None:
    small = np.logspace(-30, 0, 300)
    x = np.concatenate([small, -small[:-1], [0.0, 3.0, 80.0, -0.5, np.inf]]).astype(dtype)
    x = np.concatenate([x, np.array([-np.inf] if op == "expm1" else [-1.0], dtype)])
    got, wanted = function(functions.FLOATS[op])(x), OPS[op].meaning(x)
    np.testing.assert_allclose(got, wanted, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log10_keeps_the_precision_of_its_dtype(dtype: Any) -> None:
    x = np.logspace(-30, 30, 301).astype(dtype)
    got = function(functions.FLOATS["log10"])(x)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, np.log10(x), rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).eps)


def test_fmod_of_floats() -> None:
    x, y = np.meshgrid(np.linspace(-9, 9, 41, dtype=np.float32), np.linspace(0.5, 7, 14, dtype=np.float32))
    np.testing.assert_array_equal(function(functions.FLOATS["fmod"])(x, -y), np.fmod(x, -y))


def test_random_words_are_bit_for_bit_the_same() -> None:
    counter, seed = np.arange(-40, 400, dtype=np.int64) << 27, 0x1234_5678_9ABC
    wanted = words(counter.view(np.uint64), seed)
    for got, want in zip(function("_words(")(counter, np.int64(seed)), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("digits", "dtype"), [(24, np.float32), (53, np.float64)])
def test_uniform_numbers_are_the_same(digits: int, dtype: Any) -> None:
    counter = np.arange(64, dtype=np.int64) + 4096
    wanted = OPS["rand"].meaning(64, seed=7, offset=4096, dtype=SURFACE[{24: "f32", 53: "f64"}[digits]])
    np.testing.assert_array_equal(function("_rand(")(counter, np.int64(7), digits), wanted)


def test_a_text_brings_what_it_calls_along_callees_first() -> None:
    text = functions.before("x = _ceil_div_u(a, b)")
    names = [line[4:].partition("(")[0] for line in text.splitlines() if line.startswith("def ")]
    assert sorted(names) == ["_ceil_div_u", "_floor_divide_u", "_remainder"] and names[-1] == "_ceil_div_u"


@pytest.mark.parametrize("value", [math.log10(2), 0.1, -1e300, 5e-324, math.pi * 1e-200, 1 + 2**-52])
def test_f64_constants_are_sums_of_f32_ones_to_the_last_bit(value: float) -> None:
    text = wide(value)
    assert text is not None
    for constant in re.findall(r"-?\d[\d.]*(?:e[-+]\d+)?(?=[,)])", text.replace("_f64", "")):
        assert np.float32(constant) == float(constant)
    assert eval(text, {"_f64": lambda a, b, c: a + b + c}) == value


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 2.0**-126, math.inf, math.nan])
def test_what_an_f32_holds_stays_as_it_is(value: float) -> None:
    assert wide(value) is None
