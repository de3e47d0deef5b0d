"""Correct rounding of `fma`, against the C library's."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
import random
import struct
import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tilecheck.ops import OPS, exact

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
