"""Tiles that meet in another layout: which registers already hold what is wanted, and what spilling costs in residency."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from tests.library_reports import checked_for
from tests.test_numba_cuda_lowering import compiled
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends.numba_cuda.compile import build
from tilecheck_runtime.backends.numba_cuda.exchange import in_place
from tilecheck_runtime.backends.numba_cuda.layout import Linear, Whole
from tilecheck_runtime.backends.numba_cuda.lower import Lowered, lower
from tilecheck_runtime.backends.numba_cuda.plan import Facts


def sources(shape: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Every shape that broadcasts to `shape`."""
    found = set()
    for kept in product((False, True), repeat=len(shape)):
        full = tuple(n if keep else 1 for n, keep in zip(shape, kept, strict=True))
        found |= {full[start:] for start in range(len(shape)) if not any(kept[:start])}
    return found


@pytest.mark.parametrize("shape", [(64,), (4, 64), (1, 64), (2, 4, 32), (8, 16)])
def test_registers_in_place_hold_the_elements_that_a_broadcast_wants(shape: tuple[int, ...]) -> None:
    seen = 0
    for threads, vector in ((4, 2), (8, 1), (8, 4), (16, 1)):
        target = Linear(shape, threads, vector)
        for small in sources(shape):
            wanted = np.broadcast_to(np.arange(prod(small)).reshape(small), shape).reshape(-1)
            for source in (Linear(small, threads, vector), Linear(small, threads, 1), Whole(small, threads)):
                registers = in_place(source, target)
                if registers is None:
                    continue
                seen += 1
                for thread, slot in product(range(threads), range(target.registers)):
                    turn, lane = divmod(slot, vector)
                    element = (turn * threads + thread) * vector + lane
                    held = registers[slot]
                    if isinstance(source, Linear):
                        held = (held // source.vector * threads + thread) * source.vector + held % source.vector
                    assert held == wanted[element], (source, target, thread, slot)
    assert seen > 3


def layer_norm(rows: int, width: int, capability: tuple[int, int] = (9, 0)) -> Lowered:
    report = checked_for(library.layer_norm, {"BM": rows, "BN": width, "N": width}, "f32")
    shapes = {"z": (4096, width), "x": (4096, width), "w": (width,), "b": (width,)}
    facts = {name: Facts.of("f32", 256, shape, (*shape[1:], 1)) for name, shape in shapes.items()}
    return lower(report, facts, capability=capability)


def test_weights_and_statistics_of_rows_need_no_exchange() -> None:
    for rows in (1, 2):
        assert layer_norm(rows, 4096).shared == 0


@compiled
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)])
def test_fewer_resident_blocks_rather_than_spilled_registers(capability: tuple[int, int]) -> None:
    code = layer_norm(1, 16384, capability)
    binary = build(
        code.name, code.source, code.namespace, code.identity, code.formats, code.threads, capability,
        blocks_per_multiprocessor=4,
    )  # fmt: skip
    assert binary.resources.spilled == 0
    assert binary.resources.registers * code.threads * 4 > 65536
