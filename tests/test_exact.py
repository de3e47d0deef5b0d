"""Correct rounding of `fma`, against the C library's."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import random
import struct
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest

from tilecheck.ir.types import ScalarType, StrType, TileType, Type
from tilecheck.ops import OPS, Refused, exact
from tilecheck.surface.dtypes import f16, f32, f64, i32

SPECIAL = [0.0, math.inf, math.nan, 5e-324, 2.3e-308, 1e308, 1e-45, 1.2e-38, 3.4e38, 1.0]


def numbers(rng: random.Random, count: int) -> Iterator[tuple[float, float, float]]:
    """Triples of all magnitudes, many of which cancel."""

    def any_bits() -> float:
        return float(struct.unpack("d", rng.randbytes(8))[0])

    def moderate() -> float:
        return rng.choice([-1, 1]) * rng.random() * 2.0 ** rng.randint(-60, 60)

    for n in range(count):
        x, y, z = (any_bits(), any_bits(), any_bits()) if n % 4 == 0 else (moderate(), moderate(), moderate())
        if n % 4 == 1:
            z = -(x * y) * (1 + rng.choice([0.0, 2.0**-52, -(2.0**-53), 2.0**-30]))
        elif n % 4 == 2:
            x, y, z = (rng.choice([1, -1]) * rng.choice([*SPECIAL, moderate(), any_bits()]) for _ in range(3))
        yield x, y, z


@pytest.mark.skipif(sys.platform == "win32", reason="the C library's fma is not found by name")
@pytest.mark.parametrize(("name", "dtype", "kind"), [("fma", np.float64, "double"), ("fmaf", np.float32, "float")])
def test_fma_rounds_once(name: str, dtype: type, kind: str) -> None:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    fused: Callable[..., float] = getattr(library, name)
    fused.restype, fused.argtypes = getattr(ctypes, f"c_{kind}"), [getattr(ctypes, f"c_{kind}")] * 3  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        triples = np.array(list(numbers(random.Random(1), 8000))).astype(dtype)
    found = exact.fma(*triples.T)
    wanted = np.array([fused(*triple) for triple in triples.tolist()], dtype)
    nan = np.isnan(wanted)
    assert (np.isnan(found) == nan).all()
    assert found[~nan].tobytes() == wanted[~nan].tobytes()
    # The plain formula rounds twice, and that shows.
    with np.errstate(all="ignore"):
        twice = triples[:, 0] * triples[:, 1] + triples[:, 2]
    assert (twice[~nan] != wanted[~nan]).sum() > 100


def test_scalars_and_rank_0() -> None:
    x, y = 1 + 2.0**-27, 1 - 2.0**-27
    assert OPS["fma"].meaning(x, y, -1.0) == -(2.0**-54)
    assert OPS["fma"].meaning(np.array(x), y, -1.0).tolist() == -(2.0**-54)
    assert OPS["fma"].meaning(np.array([[x], [1.0]]), np.array([y, 1.0]), 0.0).shape == (2, 2)


# ---- roundings that are asked for


def toward(rounding: str, exact_value: Fraction, dtype: type) -> float:
    """The number of `dtype` next to a value, found by bisection over bit patterns."""
    bits = np.uint32 if dtype is np.float32 else np.uint64
    sign, size = (-1, -exact_value) if exact_value < 0 else (1, exact_value)
    low, high = 0, int(np.array(np.inf, dtype).view(bits)) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if Fraction(float(np.array(middle, bits).view(dtype))) <= size:
            low = middle
        else:
            high = middle - 1
    below = np.array(low, bits).view(dtype)
    exactly = Fraction(float(below)) == size
    away = {"zero": False, "up": sign > 0, "down": sign < 0}[rounding] and not exactly
    with np.errstate(over="ignore"):
        return sign * float(np.nextafter(below, dtype(np.inf)) if away else below)


EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "fma": lambda x, y, z: x * y + z,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("rounding", ["zero", "up", "down"])
def test_directed_rounding(op: str, rounding: exact.Rounding, dtype: type) -> None:
    with np.errstate(all="ignore"):
        triples = np.array(list(numbers(random.Random(2), 600))).astype(dtype)
    finite = triples[np.isfinite(triples).all(axis=1) & (triples[:, 1] != 0)]
    args = finite.T[: 3 if op == "fma" else 2]
    found = exact.rounded(op, rounding, False, *args)
    for result, *each in zip(found.tolist(), *(a.tolist() for a in args), strict=True):
        assert result == toward(rounding, EXACT[op](*map(Fraction, each)), dtype), (op, rounding, each)


@pytest.mark.parametrize("rounding", ["zero", "up", "down"])
def test_roots_lie_on_the_asked_side(rounding: exact.Rounding) -> None:
    x = np.random.default_rng(3).random(300).astype(np.float32) * 9
    for root, of in zip(exact.rounded("sqrt", rounding, False, x), x, strict=True):
        below, above = (np.nextafter(root, np.float32(end)) for end in (0, np.inf))
        square = Fraction(float(root)) ** 2
        if rounding == "up":
            assert Fraction(float(below)) ** 2 < Fraction(float(of)) <= square
        else:
            assert square <= Fraction(float(of)) < Fraction(float(above)) ** 2


def test_special_numbers_and_zeros_of_directed_rounding() -> None:
    x = np.array([1.0, np.inf, np.nan, -0.0, 0.0], np.float64)
    y = np.array([-1.0, -np.inf, 1.0, 0.0, 0.0], np.float64)
    assert str(exact.rounded("add", "down", False, x, y)) == "[-0. nan nan -0.  0.]"
    assert str(exact.rounded("add", "up", False, x, y)) == "[ 0. nan nan  0.  0.]"
    large = np.array([1e308])
    assert exact.rounded("multiply", "down", False, large, large)[0] == np.finfo(np.float64).max
    assert exact.rounded("multiply", "up", False, large, -large)[0] == -np.finfo(np.float64).max


def test_subnormal_numbers_count_as_zeros_where_that_is_asked() -> None:
    tiny = np.array([1e-39, -1e-39, 1.2e-38], np.float32)
    assert str(exact.rounded("multiply", "nearest", True, tiny, np.float32(0.5))) == "[ 0. -0.  0.]"
    assert exact.rounded("add", "nearest", True, tiny, np.float32(1e-37))[0] == np.float32(1e-37)


def test_what_takes_options() -> None:
    def type_of(op: str, *args: Type, **options: Type) -> Type:
        return OPS[op].type_of(args, options)

    tile, up, yes = TileType(f32, (4,)), StrType("up"), ScalarType("bool", True)
    assert type_of("add", tile, tile, rounding=up, flush_to_zero=yes) == tile
    assert type_of("sqrt", TileType(f64, (4,)), rounding=up) == TileType(f64, (4,))
    refused: list[tuple[str, list[Type], dict[str, Type]]] = [
        ("add", [TileType(i32, (4,))] * 2, {"rounding": up}),
        ("add", [TileType(f16, (4,))] * 2, {"rounding": up}),
        ("multiply", [TileType(f64, (4,))] * 2, {"flush_to_zero": yes}),
        ("divide", [ScalarType("float"), ScalarType("float")], {"rounding": up}),
        ("add", [tile, tile], {"rounding": StrType("sideways")}),
        ("add", [tile, tile], {"flush_to_zero": ScalarType("bool")}),
        ("pow", [tile, tile], {"rounding": up}),
        ("minimum", [tile, tile], {"propagate_nan": ScalarType("int", 1)}),
        ("maximum", [ScalarType("float"), ScalarType("float")], {"propagate_nan": ScalarType("bool", False)}),
    ]
    for op, args, options in refused:
        with pytest.raises(Refused):
            type_of(op, *args, **options)
