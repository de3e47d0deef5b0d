"""Whole generated kernels, run on an emulated block and compared with NumPy: ragged edges, all forms of the product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests.block_machine import Memory, lowered, run
from tests.library_reports import checked_for
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f32
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends.numba_cuda.registers import TARGET

RNG = np.random.default_rng(3)
LATE = [frozenset(names) for names in ((), ("copies",), ("products",), ("copies", "products"))]
FORMS = {"warps": ((8, 0), False), "warpgroups": ((9, 0), True)}


def half(*shape: int) -> Any:
    return RNG.uniform(-1, 1, shape).astype(np.float16)


def computed(
    monkeypatch: pytest.MonkeyPatch, kernel: Any, sizes: dict[str, int], arrays: dict[str, Any], form: str, **more: Any
) -> list[Any]:
    """What is left in `z`, with copies and products early and late."""
    report = checked_for(kernel, sizes, "f16")
    assert [f.message for f in report.faults if f.rule != "partial-coverage"] == []
    memory = Memory(arrays)
    capability, warpgroups = FORMS[form]
    maps = more.get("maps", {})
    code = lowered(monkeypatch, report, memory.facts(), capability=capability, warpgroups=warpgroups, maps=maps)
    assert "fetch_0(" in code.source
    assert code.accelerated == warpgroups
    tile, shape = more["tile"], arrays["z"].shape
    grid = more.get("grid") or ([-(-n // t) for n, t in zip(shape, tile, strict=True)] + [1, 1])[:3]
    left = [run(report, code, memory, more.get("scalars", {}), grid, late=late) for late in LATE]
    return left if more.get("every") else [arrays["z"] for arrays in left]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "m, n, k, tile",
    [(64, 64, 160, (64, 64, 32)), (72, 40, 88, (64, 32, 16)), (64, 32, 8, (64, 32, 16)), (128, 64, 96, (128, 64, 32))],
    ids=str,
)
def test_gemm(monkeypatch: pytest.MonkeyPatch, form: str, m: int, n: int, k: int, tile: tuple[int, int, int]) -> None:
    x, y = half(m, k), half(k, n)
    sizes = dict(zip(("BM", "BN", "BK"), tile, strict=True))
    arrays = {"z": np.full((m, n), np.nan, np.float32), "x": x, "y": y}
    for z in computed(monkeypatch, library.gemm, sizes, arrays, form, tile=tile[:2]):
        np.testing.assert_allclose(z, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("m, n, k, tile", [(72, 40, 88, (64, 32, 16)), (64, 64, 160, (64, 64, 32))], ids=str)
def test_gemm_on_the_first_tensor_cores(
    monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int, tile: tuple[int, int, int]
) -> None:
    x, y = half(m, k), half(k, n)
    report = checked_for(library.gemm, dict(zip(("BM", "BN", "BK"), tile, strict=True)), "f16")
    memory = Memory({"z": np.full((m, n), np.nan, np.float32), "x": x, "y": y})
    code = lowered(monkeypatch, report, memory.facts(), capability=(7, 5))
    grid = (-(-m // tile[0]), -(-n // tile[1]), 1)
    token = TARGET.set((7, 5))
    try:
        left = run(report, code, memory, {}, grid, late=frozenset())
    finally:
        TARGET.reset(token)
    np.testing.assert_allclose(left["z"], x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["gemm_tn", "gemm_nt", "gemm_tt"])
def test_transposed_products(monkeypatch: pytest.MonkeyPatch, form: str, name: str) -> None:
    x, y = half(72, 88), half(88, 40)
    stored = {"x": x.T.copy() if name[-2] == "t" else x, "y": y.T.copy() if name[-1] == "t" else y}
    arrays = {"z": np.full((72, 40), np.nan, np.float32), **stored}
    for z in computed(monkeypatch, getattr(library, name), {"BM": 64, "BN": 32, "BK": 32}, arrays, form, tile=(64, 32)):
        np.testing.assert_allclose(z, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_transposed_views_are_copied_along_their_own_axis(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    x, y = half(88, 72).T, half(40, 88).T
    arrays = {"z": np.full((72, 40), np.nan, np.float32), "x": x, "y": y}
    for z in computed(monkeypatch, library.gemm, {"BM": 64, "BN": 32, "BK": 32}, arrays, form, tile=(64, 32)):
        np.testing.assert_allclose(z, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_batches_and_bands(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    x, y = half(2, 72, 40), half(2, 40, 72)
    arrays = {"z": np.full((2, 72, 72), np.nan, np.float32), "x": x, "y": y}
    sizes = {"BM": 64, "BN": 64, "BK": 16}
    for z in computed(monkeypatch, library.batched_gemm, sizes, arrays, form, tile=(1, 64, 64)):
        np.testing.assert_allclose(z, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("form", FORMS)
def test_a_persistent_block_uses_its_ring_again(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    x, y = half(136, 56), half(56, 72)
    arrays = {"z": np.full((136, 72), np.nan, np.float32), "x": x, "y": y}
    sizes = {"BM": 64, "BN": 32, "BK": 16}
    more: dict[str, Any] = {"tile": (64, 32), "grid": (2, 1, 1), "maps": {"z": (2, 1)}}
    for z in computed(monkeypatch, library.persistent_gemm, sizes, arrays, form, **more):
        np.testing.assert_allclose(z, x.astype(np.float64) @ y.astype(np.float64), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("length", [64, 70])
def test_a_part_of_a_decoding_step(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    q, k, v = half(1, 4, 32), half(1, 80, 32), half(1, 80, 32)
    v[0, length:] = np.nan
    arrays = {
        "z": np.full((1, 32, 32), np.nan, np.float32),
        "highest": np.full((1, 32, 1), np.nan, np.float32),
        "total": np.full((1, 32, 1), np.nan, np.float32),
        "q": q,
        "k": k,
        "v": v,
    }
    more: dict[str, Any] = {"tile": (1, 16, 32), "scalars": {"scale": 0.25, "length": length}}
    sizes = {"BM": 16, "BN": 32, "D": 32}
    results = computed(monkeypatch, library.decode_split, sizes, arrays, "warps", every=True, **more)
    scores = q[0].astype(np.float64) @ k[0, :length].astype(np.float64).T * 0.25
    for found in results:
        for part in range(2):
            rows = slice(16 * part, 16 * part + 4)
            mine = [i for i in range(length) if i // 32 % 2 == part]
            weights = np.exp(scores[:, mine] - scores[:, mine].max(axis=1, keepdims=True))
            want = weights @ v[0, mine].astype(np.float64)
            np.testing.assert_allclose(found["z"][0, rows], want, rtol=4e-3, atol=4e-3)
            np.testing.assert_allclose(found["total"][0, rows, 0], weights.sum(axis=1), rtol=1e-4)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("length", [64, 72])
def test_attention(monkeypatch: pytest.MonkeyPatch, form: str, length: int) -> None:
    q, k, v = (half(2, length, 32) for _ in range(3))
    arrays = {"z": np.full((2, length, 32), np.nan, np.float16), "q": q, "k": k, "v": v}
    more: dict[str, Any] = {"tile": (1, 64, 32), "scalars": {"scale": 32**-0.5}}
    wide = [t.astype(np.float64) for t in (q, k, v)]
    scores = np.where(np.tri(length, dtype=bool), wide[0] @ wide[1].transpose(0, 2, 1) * 32**-0.5, -np.inf)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    want = weights / weights.sum(axis=2, keepdims=True) @ wide[2]
    for z in computed(monkeypatch, library.attention, {"BM": 64, "BN": 16, "D": 32}, arrays, form, **more):
        np.testing.assert_allclose(z, want, rtol=4e-3, atol=4e-3)


class ROWS(Dim): ...


class BN(Dim): ...


@tc.kernel(requires="x.shape[0] >= z.shape[0]")
def doubled_row_by_row(z: Tensor[Mut, f32, ROWS, BN], x: Tensor[Shared, f32, Dyn, BN]) -> None:
    xs, out, first = x.partition(One, BN), z.tiles(One, BN), tc.block_id(0) * ROWS
    for r in range(out.num_tiles(0)):
        out.store(xs[tc.minimum(first + r, xs.num_tiles(0) - 1), 0] * 2, r, 0)


@pytest.mark.parametrize("rows", [8, 13])
def test_sub_tiles_beyond_the_edge_are_not_stored(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    x = RNG.uniform(-1, 1, (rows, 64)).astype(np.float32)
    # What stands behind `z` in memory is another array's.
    memory = Memory({"z": np.zeros((rows, 64), np.float32), "x": x})
    report = checked_for(doubled_row_by_row, {"ROWS": 4, "BN": 64}, "f32")
    assert not report.faults
    code = lowered(monkeypatch, report, memory.facts(), capability=(9, 0))
    left = run(report, code, memory, {}, [-(-rows // 4), 1, 1], late=frozenset())
    np.testing.assert_array_equal(left["z"], x * 2)
    np.testing.assert_array_equal(left["x"], x)


@tc.kernel
def numbered(z: Tensor[Mut, f32, ROWS, BN]) -> None:
    z.store(tc.full((ROWS, BN), 100.0 * tc.block_id(0) + tc.block_id(1), dtype=f32))


@pytest.mark.parametrize("in_row", [False, True])
def test_a_block_has_the_same_id_by_the_hardware_s_grid_and_in_a_row(
    monkeypatch: pytest.MonkeyPatch, in_row: bool
) -> None:
    memory = Memory({"z": np.zeros((6, 14), np.float32)})
    report = checked_for(numbered, {"ROWS": 2, "BN": 4}, "f32")
    code = lowered(monkeypatch, report, memory.facts(), capability=(9, 0), in_row=in_row)
    assert code.in_row == in_row
    left = run(report, code, memory, {}, [3, 4, 1], late=frozenset())
    rows, columns = np.indices((6, 14))
    np.testing.assert_array_equal(left["z"], 100.0 * (rows // 2) + columns // 4)
