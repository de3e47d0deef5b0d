"""Names of other libraries: refused with what they are called here, and whatever is named there is there."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
from tilecheck.ops import OPS
from tilecheck.surface.dtypes import DTYPES
from tilecheck.surface.elsewhere import IN_KERNELS, ON_HOST, ON_KERNELS, ON_TENSORS, dtype_name


@pytest.mark.parametrize(
    "table", [ON_HOST, ON_TENSORS, IN_KERNELS, ON_KERNELS], ids=["host", "tensors", "ops", "kernels"]
)
def test_what_is_named_is_there(table: dict[str, str]) -> None:
    for name, help in table.items():
        for ours in re.findall(r"\btc\.((?:kernels\.)?\w+)", help):
            owner, _, last = ours.rpartition(".")
            assert last in (dir(tc.kernels) if owner else dir(tc)), (name, help)
        for ours in re.findall(r"\{x\}\.(\w+)", help):
            assert hasattr(tc.kernels.relu if table is ON_KERNELS else tc.zeros(1), ours), (name, help)


def test_no_name_is_told_to_be_missing_that_is_there() -> None:
    assert not set(ON_HOST) & set(dir(tc))
    assert not {name for name in ON_TENSORS if hasattr(tc.zeros(1), name)}
    assert not set(IN_KERNELS) & set(OPS)
    assert not {name for name in ON_KERNELS if hasattr(tc.kernels.relu, name)}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_go_by_their_names_elsewhere(name: str) -> None:
    assert dtype_name(name) == name
    assert dtype_name(str(DTYPES[name].numpy())) == name
    assert dtype_name(f"torch.{DTYPES[name].numpy()}") == name


def test_other_dtypes_have_no_name_here() -> None:
    assert dtype_name("complex64") is dtype_name("object") is dtype_name(str(np.dtype(ml_dtypes.int4))) is None


def test_names_of_the_module() -> None:
    for name, help in (
        ("to_device", "use `tc.asarray(a)`"),
        ("float32", "use `tc.f32`"),
        ("bfloat16", "use `tc.bf16`"),
    ):
        with pytest.raises(AttributeError, match=f"module `tilecheck` has no attribute `{name}`") as caught:
            getattr(tc, name)
        assert isinstance(caught.value, tc.UsageError) and caught.value.help == help
    assert not hasattr(tc, "synchronize")


def test_names_of_tensors_and_partitions() -> None:
    z: Any = tc.zeros(4)
    zp = z.partition(2)
    calls: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: z.cpu(), "use `z.numpy()`"),
        (lambda: z.zero_(), "use `z[...] = 0`"),
        (lambda: zp.copy_to_host(), "use `zp.unpartition().numpy()`"),
        (lambda: zp.numpy(), "its tensor has it: `zp.unpartition().numpy`"),
        (lambda: z.sum(), "call it inside of a kernel, or on a copy: `z.numpy().sum(...)`"),
        (lambda: z.load(), "call it inside a function decorated with `@tc.kernel`"),
    )
    for call, help in calls:
        with pytest.raises(tc.UsageError) as caught:
            call()
        assert caught.value.help == help


def test_a_tensor_is_not_compared_with_a_number() -> None:
    z: Any = tc.zeros(4)
    other = tc.zeros(4)
    for compare in (lambda: z == 0, lambda: 0 == z, lambda: z != 0):  # noqa: SIM300
        with pytest.raises(tc.UsageError, match="`==` of a tensor does not look at its elements") as caught:
            compare()
        assert caught.value.help == "compare a copy: `z.numpy() == 0`"
    assert z == z and z != other and z in {z, other} and (z.numpy() == 0).all()
    # NumPy takes the elements of both.
    assert (z == np.zeros(4)).all() and (np.zeros(4) == z).all()


class BM(Dim): ...


FACTOR: Any = 2


@tc.kernel
def scaled(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z) * FACTOR)


def test_a_number_of_the_module_that_becomes_a_tensor_is_looked_at_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    z, x = tc.zeros(8), tc.ones(8)
    for _ in range(3):
        scaled(z.partition(8), x).sync()
    monkeypatch.setattr(f"{__name__}.FACTOR", tc.ones(1))
    with pytest.raises(tc.KernelRejected, match="FACTOR"):
        scaled(z.partition(8), x)


def test_names_of_kernels() -> None:
    relu: Any = tc.kernels.relu
    with pytest.raises(AttributeError, match=r"the kernel `relu` has no attribute `forall`") as caught:
        relu.forall(1000)
    assert "help: the grid comes from the partition: `relu(z.partition(256), ...).sync()`" in str(caught.value)
    assert copy.copy(relu) == relu and not hasattr(relu, "specialize")


def test_dtypes_that_are_none() -> None:
    zeros: Any = tc.zeros
    with pytest.raises(tc.UsageError, match=r"'f32' is no dtype of tensors\nhelp: write `tc\.f32`"):
        zeros(4, dtype="f32")
    with pytest.raises(tc.UsageError, match="help: one of f8e4m3, "):
        zeros(4, dtype="complex64")


def test_subscripts_are_shown_short_and_by_the_name_of_their_tensor() -> None:
    wide: Any = tc.zeros(5000)
    with pytest.raises(tc.UsageError) as caught:
        wide[np.ones(5000, bool)]
    assert caught.value.message == "the subscript on axis 0 is an array of shape (5000,), neither an int nor a slice"
    assert caught.value.help == "gather in a kernel, or index a copy: `wide.numpy()[...]`"
    with pytest.raises(tc.UsageError, match=r"axis 0 is \[0, 1, .*\.\.\., neither"):
        wide[list(range(5000))]
    with pytest.raises(tc.UsageError, match=r"help: reverse a copy: `wide.numpy\(\)\[::-1\]`"):
        wide[::-1]


def test_the_library_by_either_name() -> None:
    import tilecheck.kernels
    from tilecheck.kernels import softmax
    from tilecheck_runtime.kernels import rows

    assert softmax is tc.kernels.softmax is rows.softmax
    assert tilecheck.kernels is tc.kernels and "softmax" in dir(tc.kernels)
    with pytest.raises(AttributeError, match=r"module `tilecheck\.kernels` has no attribute `sofmax`"):
        getattr(tilecheck.kernels, "sofmax")  # noqa: B009


def test_a_declared_condition_says_where_its_dims_come_from() -> None:
    z, x = tc.empty(8, 100), tc.ones(8, 100)
    with pytest.raises(tc.LaunchRefused) as caught:
        tc.kernels.softmax(z.partition(2, 64), x)
    assert caught.value.points == ("`BN` is 64: the tile of `z` on axis 1", "`N` is 100: the extent of `x` on axis 1")


def test_the_widest_dtype_that_a_kernel_takes_is_proposed() -> None:
    z, x = tc.empty(8, 64), tc.ones(8, 64, dtype=tc.f64)
    softmax: Any = tc.kernels.softmax
    with pytest.raises(tc.LaunchRefused, match=r"help: convert it: `x.astype\(tc.f32\)`"):
        softmax(z.partition(2, 64), x)
