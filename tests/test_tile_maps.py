"""Owned axes of mapped partitions: what the kernel sets with `at` is what the launch's map leaves open."""

from __future__ import annotations

import numpy as np
import pytest

import tilecheck as tc
from tilecheck import Dim, Mapped, Tensor, f32


class B(Dim): ...


@tc.kernel
def composite(z: Tensor[Mapped, f32, B, B]) -> None:
    for at in z.indices():
        for j in range(z.num_tiles(1)):
            z.store(tc.ones(B, B), z.at(at, j))


@tc.kernel
def of_the_first_axis(z: Tensor[Mapped, f32, B, B]) -> None:
    for at in z.indices():
        for i in range(z.num_tiles(0)):
            z.store(tc.ones(B, B), z.at(at, i))


@tc.kernel
def bare(z: Tensor[Mapped, f32, B, B]) -> None:
    for at in z.indices():
        z.store(tc.ones(B, B), at)


def test_the_map_leaves_the_axes_that_the_kernel_sets() -> None:
    z = tc.zeros(10, 6)
    composite(z.partition(4, 4).map((1, tc.OWNED), blocks=2)).sync()
    assert np.all(z.numpy() == 1)
    of_the_first_axis(z.partition(4, 4).map((tc.OWNED, 1), blocks=2)).sync()
    bare(z.partition(4, 4).map((2, 1), blocks=3)).sync()


@pytest.mark.parametrize(
    ("kernel", "shape", "words"),
    [
        (composite, (1, 1), "with axis 1 set by `at`, its map leaves no axis `OWNED`"),
        (composite, (tc.OWNED, 1), "with axis 1 set by `at`, its map leaves axis 0 `OWNED`"),
        (of_the_first_axis, (1, tc.OWNED), "with axis 0 set by `at`, its map leaves axis 1 `OWNED`"),
        (bare, (1, tc.OWNED), "with no axis set by `at`, its map leaves axis 1 `OWNED`"),
    ],
)
def test_another_map_is_refused_before_anything_runs(kernel: tc.Kernel, shape: tuple[int, int], words: str) -> None:
    z = tc.zeros(10, 6)
    with pytest.raises(tc.LaunchRefused) as refused:
        kernel(z.partition(4, 4).map(shape, blocks=2))
    assert words in str(refused.value) and refused.value.rule == "foreign-index"
    assert not z.numpy().any()
