"""Meanings against an independent reference: Python's big ints, its math module, and loops, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.op_values import BY_NUMPY, COMPUTED, Ext, tile
from tilecheck.ops import OPS
from tilecheck.surface.dtypes import DTYPES, DTypeClass, bf16, bool_, f8e4m3, f16, f32, f64, i8, i32, i64, u8, u32, u64

INTS = [dtype for dtype in COMPUTED if dtype.kind in ("int", "uint")]
FLOATS = [dtype for dtype in COMPUTED if dtype.kind == "float"]
# A float's spacing at 1.
ULP = {f16: 2.0**-10, bf16: 2.0**-7, f32: 2.0**-23, f64: 2.0**-52}


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    with np.errstate(all="ignore"):
        return OPS[name].meaning(*args, **kwargs)


def wrapped(value: int, dtype: DTypeClass) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def trunc_pow(x: int, y: int) -> int:
    if y >= 0:
        return x**y
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


INT_OPS: dict[str, Callable[[int, int], int]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "floor_divide": lambda x, y: x // y if y else 0,
    "remainder": lambda x, y: x % y if y else 0,
    "fmod": lambda x, y: x - y * int(math.copysign(1, x) * math.copysign(1, y)) * (abs(x) // abs(y)) if y else 0,
    "minimum": min,
    "maximum": max,
    "ceil_div": lambda x, y: -(-x // y) if y else 0,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
}


@pytest.mark.parametrize("name", INT_OPS)
def test_int_ops_wrap_like_big_ints(name: str) -> None:
    for dtype in INTS:
        x, y = tile(dtype, (40,), 1), tile(dtype, (40,), 2)
        wanted = [wrapped(INT_OPS[name](int(a), int(b)), dtype) for a, b in zip(x, y, strict=True)]
        assert call(name, x, y).tolist() == wanted, dtype


def test_shifts_powers_and_high_products() -> None:
    for dtype in INTS:
        x = tile(dtype, (30,), 1)
        counts = np.arange(30).astype(dtype.numpy()) % (dtype.bits + 3)
        if dtype.kind == "int":
            counts[3] = -1
        left, right, power, high = [], [], [], []
        for a, n in zip(x.tolist(), counts.tolist(), strict=True):
            inside = 0 <= n < dtype.bits
            left.append(wrapped(a << n, dtype) if inside else 0)
            right.append(a >> n if inside else (-1 if a < 0 else 0))
            power.append(wrapped(trunc_pow(a, n), dtype))
            high.append(wrapped((a * a) >> dtype.bits, dtype))
        assert call("bitwise_left_shift", x, counts).tolist() == left
        assert call("bitwise_right_shift", x, counts).tolist() == right
        assert call("pow", x, counts).tolist() == power
        assert call("mul_hi", x, x).tolist() == high


def test_unary_int_ops() -> None:
    for dtype in INTS:
        x = tile(dtype, (40,), 3)
        for name, f in {
            "negative": lambda v: -v,
            "positive": lambda v: v,
            "abs": abs,
            "square": lambda v: v * v,
            "sign": lambda v: (v > 0) - (v < 0),
            "bitwise_invert": lambda v: ~v,
        }.items():
            assert call(name, x).tolist() == [wrapped(f(v), dtype) for v in x.tolist()], (name, dtype)


def test_scalars_are_64_bit() -> None:
    big = 2**63 - 1
    assert call("add", big, 1) == -(2**63)
    assert call("multiply", 2**40, 2**40) == 0
    assert call("floor_divide", -7, 2) == -4 and call("remainder", -7, 2) == 1 and call("remainder", 7, -2) == -1
    assert call("floor_divide", 7, 0) == 0 and call("remainder", 7, 0) == 0
    assert call("divide", 7, 2) == 3.5
    assert call("maximum", 3, 4) == 4 and call("clip", 7, 0, 5) == 5
    assert call("equal", 2, 2.0) is True and call("logical_not", True) is False
    assert call("floor", 3) == 3.0 and isinstance(call("floor", 3), float)


def guarded(f: Callable[..., float]) -> Callable[..., float]:
    """Python's math with NumPy's ends of the domain: inf on overflow, nan outside."""

    def g(*xs: float) -> float:
        try:
            return f(*xs)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return g


FLOAT_OPS: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "expm1": math.expm1,
    "log": lambda x: -math.inf if x == 0 else math.log(x),
    "log2": lambda x: -math.inf if x == 0 else math.log2(x),
    "log10": lambda x: -math.inf if x == 0 else math.log10(x),
    "log1p": lambda x: -math.inf if x == -1 else math.log1p(x),
    "sqrt": lambda x: x if x == 0 else math.sqrt(x),
    "rsqrt": lambda x: math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x),
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": lambda x: math.copysign(math.inf, x) if abs(x) > 800 else math.sinh(x),
    "cosh": math.cosh,
    "tanh": math.tanh,
    "floor": lambda x: x if math.isinf(x) or x == 0 else float(math.floor(x)),
    "ceil": lambda x: x if math.isinf(x) else float(math.ceil(x)),
    "trunc": lambda x: x if math.isinf(x) else float(math.trunc(x)),
    "round": lambda x: x if math.isinf(x) else float(round(x)),
    "negative": lambda x: -x,
    "abs": abs,
    "square": lambda x: x * x,
    "sign": lambda x: math.nan if math.isnan(x) else float((x > 0) - (x < 0)),
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "minimum": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else min(x, y),
    "maximum": lambda x, y: math.nan if math.isnan(x) or math.isnan(y) else max(x, y),
    "fma": lambda x, y, z: x * y + z,
}


@pytest.mark.parametrize("name", FLOAT_OPS)
def test_float_ops_compute_in_their_dtype(name: str) -> None:
    f = guarded(FLOAT_OPS[name])
    arity = sum(p.kind is p.POSITIONAL_ONLY for p in OPS[name].signature.parameters.values())
    for dtype in FLOATS:
        args = [tile(dtype, (60,), n) for n in range(arity)]
        result = call(name, *args)
        exact = [f(*map(float, values)) for values in zip(*args, strict=True)]
        # Adjacent values of the reference after rounding to the dtype, two spacings apart at most.
        with np.errstate(all="ignore"):
            wanted = np.array(exact).astype(dtype.numpy()).astype(np.float64)
            got = result.astype(np.float64)
            close = np.abs(got - wanted) <= 2 * ULP[dtype] * np.maximum(np.abs(wanted), 1e-4)
        same = (got == wanted) | (np.isnan(got) & np.isnan(wanted))
        assert (close | same).all(), (dtype, [a[~(close | same)] for a in args], got[~(close | same)])


def test_division_and_remainder_of_floats() -> None:
    for dtype in FLOATS:
        x, y = tile(dtype, (60,), 1), tile(dtype, (60,), 2)
        finite = np.isfinite(x.astype(np.float64)) & np.isfinite(y.astype(np.float64)) & (y.astype(np.float64) != 0)
        x, y = x[finite], y[finite]
        wide = np.float32 if dtype.bits == 16 else dtype.numpy()
        for name, f in (("divide", lambda a, b: a / b), ("remainder", math.fmod)):
            for got, a, b in zip(call(name, x, y), x.astype(wide), y.astype(wide), strict=True):
                exact = f(float(a), float(b))
                if name == "remainder" and exact and (exact < 0) != (b < 0):
                    exact += float(b)
                assert abs(float(got) - exact) <= 2 * ULP[dtype] * max(abs(exact), abs(float(b))), (dtype, a, b)


def test_nothing_is_promoted_behind_the_back() -> None:
    one = np.ones(4, np.float32)
    assert call("multiply", one, 0.1)[0] == np.float32(0.1)
    assert call("multiply", np.ones(4, f16.numpy()), 0.1)[0] == np.float16(0.1)
    # 2048 + 1 rounds to even in f16 after every op, so a chain of sums stays where it is.
    assert call("add", np.full(1, 2048, np.float16), 1)[0] == 2048
    # A reduction keeps its sum in f32 and rounds once.
    assert call("sum", np.ones(4096, np.float16)) == 4096
    assert call("sum", np.full(300, 1, np.int8)) == np.int8(300 - 256)


def test_comparisons_and_selection() -> None:
    for dtype in COMPUTED:
        x, y = tile(dtype, (40,), 1), tile(dtype, (40,), 2)
        pairs = list(zip(x.tolist(), y.tolist(), strict=True))
        assert call("equal", x, y).tolist() == [a == b for a, b in pairs]
        assert call("not_equal", x, y).tolist() == [a != b for a, b in pairs]
        if dtype is not bool_:
            assert call("less", x, y).tolist() == [a < b for a, b in pairs]
            assert call("less_equal", x, y).tolist() == [a <= b for a, b in pairs]
            assert call("greater", x, y).tolist() == [a > b for a, b in pairs]
            assert call("greater_equal", x, y).tolist() == [a >= b for a, b in pairs]
        mask = tile(bool_, (40,), 3)
        chosen = call("where", mask, x, y)
        assert all(c.tobytes() == (a if m else b).tobytes() for c, m, a, b in zip(chosen, mask, x, y, strict=True))


def test_logic() -> None:
    x, y = tile(bool_, (40,), 1), tile(bool_, (40,), 2)
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    assert call("logical_and", x, y).tolist() == [a and b for a, b in pairs]
    assert call("logical_or", x, y).tolist() == [a or b for a, b in pairs]
    assert call("logical_xor", x, y).tolist() == [a != b for a, b in pairs]
    assert call("logical_not", x).tolist() == [not a for a in x.tolist()]
    special = np.array([0, -0.0, np.nan, np.inf, -np.inf, 1], np.float32)
    assert call("isnan", special).tolist() == [False, False, True, False, False, False]
    assert call("isinf", special).tolist() == [False, False, False, True, True, False]
    assert call("isfinite", special).tolist() == [True, True, False, False, False, True]


def test_reductions_along_axes() -> None:
    for dtype in (i8, i32, u64, f32, f64):
        x = tile(dtype, (3, 5), 4)
        if dtype.kind == "float":
            x = np.where(np.isfinite(x), x, 0).astype(dtype.numpy())
        columns = [[row[j] for row in x.tolist()] for j in range(5)]
        for name, f in {"sum": sum, "prod": math.prod, "max": max, "min": min}.items():
            got, wanted = call(name, x, axis=0).tolist(), [f(c) for c in columns]
            if dtype.kind == "float":
                np.testing.assert_allclose(got, wanted, rtol=8 * ULP[dtype], atol=8 * ULP[dtype])
            else:
                assert got == [wrapped(w, dtype) for w in wanted]
        assert call("argmax", x, axis=0).tolist() == [c.index(max(c)) for c in columns]
        assert call("argmin", x, axis=0).tolist() == [c.index(min(c)) for c in columns]
        flat = x.ravel().tolist()
        assert int(call("argmax", x)) == flat.index(max(flat))
    m = tile(bool_, (3, 5), 4)
    assert call("any", m, axis=1).tolist() == [any(r) for r in m.tolist()]
    assert call("all", m, axis=1, keepdims=True).tolist() == [[all(r)] for r in m.tolist()]
    assert np.isnan(call("max", np.array([1, np.nan, 2], np.float32)))


def test_scans_along_axes() -> None:
    x = tile(i32, (3, 5), 5)
    for name, f in (("cumsum", lambda a, b: a + b), ("cumprod", lambda a, b: a * b)):
        for axis in (0, 1):
            for reverse in (False, True):
                rows = (x if axis else x.T).tolist()
                wanted = []
                for row in rows:
                    row = row[::-1] if reverse else row
                    out = [row[0]]
                    for value in row[1:]:
                        out.append(wrapped(f(out[-1], value), i32))
                    wanted.append(out[::-1] if reverse else out)
                got = call(name, x, axis=axis, reverse=reverse)
                assert (got if axis else got.T).tolist() == wanted
                generic = call("scan", x, f, axis=axis, reverse=reverse)
                assert generic.tolist() == got.tolist()


def test_matrix_products_sum_in_the_accumulator() -> None:
    rng = np.random.default_rng(0)
    for dtype, acc in ((f16, f32), (bf16, f32), (f32, f32), (f64, f64), (i8, i32), (u8, i32)):
        x, y = (rng.integers(-9 if dtype.kind != "uint" else 0, 9, s).astype(dtype.numpy()) for s in ((3, 40), (40, 4)))
        z = rng.integers(0, 9, (3, 4)).astype(acc.numpy())
        wanted = [
            [int(z[i, j]) + sum(int(x[i, k]) * int(y[k, j]) for k in range(40)) for j in range(4)] for i in range(3)
        ]
        assert call("mma", x, y, z).tolist() == wanted
    tiny = call("matmul", np.full((1, 4096), 1, np.float16), np.full((4096, 1), 1, np.float16))
    assert tiny.dtype == np.float16 and tiny[0, 0] == 4096


def test_shape_ops_move_elements() -> None:
    x = np.arange(30, dtype=np.int32).reshape(2, 3, 5)
    assert call("reshape", x, Ext(5), Ext(6)).ravel().tolist() == list(range(30))
    moved = call("permute_dims", x, (2, 0, 1))
    stretched = call("broadcast_to", x[:, :1], Ext(2), Ext(3), Ext(5))
    for i, j, k in np.ndindex(2, 3, 5):
        assert moved[k, i, j] == x[i, j, k]
        assert stretched[i, j, k] == x[i, 0, k]
    assert call("transpose", x[0]).tolist() == [[x[0, i, j] for i in range(3)] for j in range(5)]
    assert call("concat", (x, x[:1]), axis=0)[2].tolist() == x[0].tolist()
    assert call("extract", x, (1, 2, 0), (Ext(1), Ext(1), Ext(5))).ravel().tolist() == x[1, 2].tolist()
    assert call("squeeze", call("expand_dims", x, 1), 1).tolist() == x.tolist()


def saturated(value: float, dtype: DTypeClass) -> int:
    if math.isnan(value):
        return 0
    low, high = (
        (-(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1) if dtype.kind == "int" else (0, (1 << dtype.bits) - 1)
    )
    return high if value >= high else low if value <= low else int(value)


def test_casts() -> None:
    special = [0.0, -0.5, 1.9, -1.9, 127.5, 255.5, -129.0, 3e9, -3e9, 1e19, -1e19, math.inf, -math.inf, math.nan]
    for dtype in FLOATS:
        with np.errstate(all="ignore"):
            x = np.array(special).astype(dtype.numpy())
        for target in INTS:
            got = call("astype", x, target).tolist()
            assert got == [saturated(float(v), target) for v in x.astype(np.float64)], (dtype, target)
    wide = tile(i64, (40,), 1)
    for target in INTS:
        assert call("astype", wide, target).tolist() == [wrapped(v, target) for v in wide.tolist()]
    assert call("astype", np.array([0, 2, -1], np.int8), bool_).tolist() == [False, True, True]
    assert call("astype", np.array([0, 0.5, np.nan], np.float32), bool_).tolist() == [False, True, True]
    assert np.isnan(call("astype", np.array([1e9], np.float32), f8e4m3).astype(np.float32))
    assert call("astype", np.array([1.0625], np.float32), f8e4m3).astype(np.float32) == 1.0  # ties to even
    assert call("bitcast", np.array([1.0], np.float32), u32).tolist() == [0x3F800000]
    assert call("item", np.array(7, np.uint8)) == 7 and call("int", -1.9) == -1 and call("int", math.nan) == 0
    assert call("int", 1e30) == 2**63 - 1 and call("bool", 0.0) is False and call("float", 3) == 3.0
    assert call("float", "-inf") == -math.inf


def test_creation_and_positions() -> None:
    assert call("arange", Ext(4), start=5, step=-2).tolist() == [5, 3, 1, -1]
    assert call("full", (Ext(2), Ext(2)), -1.5, dtype=f16).tolist() == [[-1.5, -1.5], [-1.5, -1.5]]
    assert call("full", Ext(2), np.array(3, np.float32)).tolist() == [3.0, 3.0]
    assert BY_NUMPY[call("ones", Ext(2), dtype=DTYPES["bf16"]).dtype] is bf16


def philox_plain(counter: int, seed: int) -> list[int]:
    """The published algorithm on Python ints."""
    c = [counter & 0xFFFFFFFF, counter >> 32, 0, 0]
    k = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_random_numbers_are_a_function_of_seed_and_position() -> None:
    from tilecheck.ops.philox import words

    # The first known answer of the authors' test vectors.
    assert philox_plain(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    counters = [0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    for seed in (0, 7, 2**64 - 1):
        got = words(np.array(counters, np.uint64), seed)
        assert [[int(w[i]) for w in got] for i in range(len(counters))] == [philox_plain(c, seed) for c in counters]
    whole = call("rand", Ext(4), Ext(6), seed=3, offset=10)
    parts = [call("rand", Ext(3), seed=3, offset=10 + 3 * n) for n in range(8)]
    assert whole.ravel().tolist() == np.concatenate(parts).tolist()
    for dtype in FLOATS:
        u = call("rand", Ext(4096), seed=1, offset=0, dtype=dtype).astype(np.float64)
        assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.02
        n = call("randn", Ext(4096), seed=1, offset=0, dtype=dtype).astype(np.float64)
        assert abs(n.mean()) < 0.06 and abs(n.std() - 1) < 0.05
    bits = call("random_bits", Ext(5), seed=3, offset=2**40)
    assert bits.tolist() == call("philox", np.arange(5) + 2**40, 3).tolist()


def test_the_smaller_value_with_and_without_nan() -> None:
    x, y = np.array([1.0, np.nan, np.nan], np.float32), np.array([np.nan, 2.0, np.nan], np.float32)
    for name, other in (("minimum", np.fmin), ("maximum", np.fmax)):
        assert np.isnan(OPS[name].meaning(x, y)).all()
        assert np.array_equal(OPS[name].meaning(x, y, propagate_nan=False), other(x, y), equal_nan=True)
        assert (
            OPS[name].meaning(np.array([3, 1]), 2, propagate_nan=False).tolist()
            == OPS[name].meaning(np.array([3, 1]), 2).tolist()
        )
