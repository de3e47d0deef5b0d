"""Void lanes at stores: what a store may drop, and what each launch must ensure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tilecheck.frontend.source import Source
from tilecheck.frontend.tile import read_kernels
from tilecheck.verify.tile import check_kernel

HEADER = """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Mut, Shared, Tensor, f32

class B(Dim): ...
class D(Dim): ...

@tc.kernel
"""
B, D = "k.py::B", "k.py::D"


def refusal(
    body: str, shapes: Mapping[str, tuple[int, ...]], grid: Any, access: str = "Mut", rank: int = 1, **more: int
) -> str | None:
    """The void-lanes refusal of a launch with B = 8; the kernel has no faults."""
    extents, whole = ", ".join(["B"] * rank), ", ".join(["Dyn"] * rank)
    head = f"def k(z: Tensor[{access}, f32, {extents}], x: Tensor[Shared, f32, {whole}], n: int) -> None:\n"
    text = HEADER + head + "".join(f"    {line}\n" for line in body.strip().splitlines())
    (kernel,), faults = read_kernels(Source("k.py", text), lambda module, importer: None)
    assert not faults, faults
    report = check_kernel(kernel)
    assert not report.faults, report.faults
    dims = {B: 8, **({D: more["D"]} if "D" in more else {})}
    for condition in report.conditions:
        if condition.rule == "void-lanes" and (no := condition.evaluate(shapes, {"n": 0}, dims, grid)) is not None:
            assert no.help
            return no.message
    return None


BY_BLOCK = "z.store(x.partition(B)[tc.block_id(0)] + 1.0)"


def test_a_tile_stored_where_it_was_read_needs_an_input_as_long() -> None:
    assert refusal(BY_BLOCK, {"z": (60,), "x": (60,)}, (8, 1, 1)) is None
    assert refusal(BY_BLOCK, {"z": (60,), "x": (61,)}, (8, 1, 1)) is None
    message = refusal(BY_BLOCK, {"z": (60,), "x": (59,)}, (8, 1, 1))
    assert message is not None and "`x` has 59 elements on axis 0, `z` has 60 on axis 0" in message
    # A smaller grid writes less of `z`.
    assert refusal(BY_BLOCK, {"z": (60,), "x": (16,)}, (2, 1, 1)) is None


@pytest.mark.parametrize("index", ["n", "1", "tc.block_id(0) + n"])
def test_a_tile_stored_elsewhere_must_not_hang_over(index: str) -> None:
    body = f"z.store(x.partition(B)[{index}])"
    assert refusal(body, {"z": (60,), "x": (64,)}, (8, 1, 1)) is None
    message = refusal(body, {"z": (60,), "x": (60,)}, (8, 1, 1))
    assert message is not None and "tiles of 8 do not divide `x.shape[0]`, which is 60" in message
    assert refusal(body.replace("(B)", "(B, pad=0.0)"), {"z": (60,), "x": (60,)}, (8, 1, 1)) is None


def test_the_first_tile_is_the_place_of_a_single_block() -> None:
    body = "z.store(x.partition(B)[0] + 1.0)"
    assert refusal(body, {"z": (5,), "x": (5,)}, (1, 1, 1)) is None
    assert refusal(body, {"z": (5,), "x": (4,)}, (1, 1, 1)) is not None
    assert refusal(body, {"z": (12,), "x": (12,)}, (2, 1, 1)) is not None
    assert refusal(body, {"z": (12,), "x": (16,)}, (2, 1, 1)) is None
    walked = "for at in z.indices():\n    z.store(x.partition(B)[0], at)"
    assert refusal(walked, {"z": (5,), "x": (5,)}, (1, 1, 1), "Mapped") is None
    assert refusal(walked, {"z": (12,), "x": (12,)}, (2, 1, 1), "Mapped") is not None


def test_the_axis_counts() -> None:
    swapped = "z.store(x.partition(B, B, permute=(1, 0))[tc.block_id(0), tc.block_id(1)])"
    assert refusal(swapped, {"z": (6, 9), "x": (9, 6)}, (1, 2, 1), rank=2) is None
    assert refusal(swapped, {"z": (6, 9), "x": (6, 9)}, (1, 2, 1), rank=2) is not None
    turned = "z.store(tc.transpose(z.load()))"
    assert refusal(turned, {"z": (8, 16), "x": (1, 1)}, (1, 2, 1), rank=2) is None
    assert refusal(turned, {"z": (6, 16), "x": (1, 1)}, (1, 2, 1), rank=2) is not None


def test_minted_places() -> None:
    same = "for at in z.indices():\n    z.store(x.partition(B)[at[0]], at)"
    assert refusal(same, {"z": (60,), "x": (60,)}, (2, 1, 1), "Mapped") is None
    assert refusal(same, {"z": (60,), "x": (57,)}, (2, 1, 1), "Mapped") is not None
    late = "t = tc.zeros(B)\nfor at in z.indices():\n    z.store(t, at)\n    t = x.partition(B)[at[0]]"
    assert refusal(late, {"z": (60,), "x": (60,)}, (2, 1, 1), "Mapped") is not None
    assert refusal(late, {"z": (60,), "x": (64,)}, (2, 1, 1), "Mapped") is None
    counted = "s = 0.0\nfor at in z.indices():\n    s = s + 1.0\n    z.store(x.partition(B)[at[0]] * s, at)"
    assert refusal(counted, {"z": (60,), "x": (60,)}, (2, 1, 1), "Mapped") is None


def test_sub_tiles() -> None:
    moved = "p = z.tiles(D)\np.store(p[1], 0)"
    assert refusal(moved, {"z": (64,), "x": (1,)}, (8, 1, 1), D=4) is None
    assert refusal(moved, {"z": (63,), "x": (1,)}, (8, 1, 1), D=4) is not None
    rows = "p = z.tiles(B, D)\np.store(x.partition(B, D)[tc.block_id(0), 1], 0, 0)"
    assert refusal(rows, {"z": (13, 8), "x": (13, 8)}, (2, 1, 1), rank=2, D=4) is None
    assert refusal(rows, {"z": (13, 8), "x": (12, 8)}, (2, 1, 1), rank=2, D=4) is not None
    kept = "p = z.tiles(D)\nfor j in range(p.num_tiles(0)):\n    p.store(p[j] + 1.0, j)"
    assert refusal(kept, {"z": (63,), "x": (1,)}, (8, 1, 1), D=4) is None


def test_elementwise_kernels_ask_for_nothing() -> None:
    body = "z.store(tc.load_like(x, z) + z.load())"
    assert refusal(body, {"z": (61,), "x": (61,)}, (8, 1, 1)) is None
