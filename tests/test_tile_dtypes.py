"""Kernels that leave a dtype open: what is proved of them, what is said when, and what launches refuse."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import numpy as np
import pytest

import tilecheck as tc
from tests.tile_text import check, kernel
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32
from tilecheck.frontend.source import Source
from tilecheck.frontend.tile import read_kernels
from tilecheck.ir.kernel import TensorParam, TypeVariable
from tilecheck.verify.tile import Argument, check_kernel
from tilecheck.verify.tile_dtypes import shown_dtypes
from tilecheck.verify.verdict import Property
from tilecheck_runtime.errors import KernelRejected, LaunchRefused

Real = TypeVar("Real", f16, f32)
T = TypeVar("T")
VARIABLES = "from typing import Any, TypeVar\nT = TypeVar('T')\nU = TypeVar('U')\nReal = TypeVar('Real', f16, f32)"
BODIES = [
    "z.store(tc.load_like(x, z))",
    "xs = x.partition(B)\nacc = z.load()\nfor k in range(xs.num_tiles(0)):\n    acc = tc.maximum(acc, xs[k])\nz.store(acc)",
    "xs = x.partition(B)\nz.store(xs[tc.block_id(0) + 1])",
    "xs = x.partition(B)\nfor k in range(4):\n    if k < xs.num_tiles(0):\n        z.store(xs[k])",
]


class BM(Dim): ...


def facts(report: Any) -> Any:
    """What a report says of bounds, without the nodes."""
    answer = report.verdicts[Property.IN_BOUNDS]
    return answer, [(a.array, a.axis, a.rung) for a in report.accesses], [c.text for c in report.conditions]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("dtype", ["T", "Any", "Real"])
def test_bounds_are_those_of_a_known_dtype(body: str, dtype: str) -> None:
    known = check(body)
    opened = check(body, f"z: Tensor[Mut, {dtype}, B], x: Tensor[Shared, {dtype}, Dyn]", before=VARIABLES)
    assert [(f.rule, f.message) for f in opened.faults] == [(f.rule, f.message) for f in known.faults]
    assert facts(opened) == facts(known)
    assert all(isinstance(p, TensorParam) and p.dtype is None for p in opened.kernel.params)


def test_a_rank_that_is_open_leaves_bounds_to_the_launch() -> None:
    report = check("z.store(tc.load_like(x, z))", "z: Tensor[Mut], x: Tensor[Shared]")
    assert report.faults == () and report.verdicts[Property.IN_BOUNDS].verdict == "unknown"


@pytest.mark.parametrize(
    ("params", "body", "message"),
    [
        ("z: Tensor[Mut, T, B], x: Tensor[Shared, T, Dyn]", "t = tc.load_like(x, z)\nz.store(tc.exp(t) + (t & 1))", "no dtype fits `T`"),
        ("z: Tensor[Mut, f32, B], x: Tensor[Shared, T, Dyn]", "z.store(tc.load_like(x, z) & 1)", "no dtype fits `T`"),
        ("z: Tensor[Mut, f16, B], x: Tensor[Shared, f32, Dyn]", "z.store(tc.load_like(x, z))", "`store` of a `f32` tile"),
        ("z: Tensor[Mut, Real, B], x: Tensor[Shared, Real, Dyn]", "z.store(tc.load_like(x, z) & 1)", "`&` takes int or bool tiles"),
        ("z: Tensor[Mut, Real, B], x: Tensor[Shared, Real, Dyn]", "z.store(tc.load_like(x, z).astype(f32))", "where `Real` is f16"),
        # Two dtypes, of which some pair fits.
        ("z: Tensor[Mut, T, B], x: Tensor[Shared, U, Dyn]", "z.store(tc.load_like(x, z).astype(z.dtype))", None),
        ("z: Tensor[Mut, T, B], x: Tensor[Shared, U, Dyn]", "z.store(tc.where(tc.load_like(x, z) > 0, z.load(), 0))", None),
        ("z: Tensor[Mut, T, B], x: Tensor[Shared, U, Dyn]", "z.store(tc.exp(z.load()))\nt = tc.load_like(x, z) & 1\nassert tc.any(t > 0).item()", None),
    ],
)  # fmt: skip
def test_what_is_said_of_a_kernel_alone(params: str, body: str, message: str | None) -> None:
    report = check(body, params, before=VARIABLES)
    assert (message is None) == (report.faults == ()), report.faults
    if message is not None:
        assert any(message in fault.message for fault in report.faults), report.faults


def test_a_dtype_that_is_known_later_is_checked_then() -> None:
    read = kernel(
        "z.store(tc.exp(tc.load_like(x, z)))", "z: Tensor[Mut, T, B], x: Tensor[Shared, T, Dyn]", before=VARIABLES
    )
    assert check_kernel(read).faults == ()
    assert check_kernel(read, {}, {"x": Argument("f64", 1)}).faults == ()
    (fault,) = check_kernel(read, {}, {"x": Argument("i32", 1)}).faults
    assert fault.rule == "dtype-mismatch" and "`i32`" in fault.message


@pytest.mark.parametrize(
    ("before", "among"),
    [
        ("from typing import TypeVar\nT = TypeVar('T', f16, f32)\n", ("f16", "f32")),
        ("import typing\nT = typing.TypeVar('T')\n", ()),
        ("from typing_extensions import TypeVar\nT = TypeVar('T', tc.i32, f32)\n", ("i32", "f32")),
    ],
)
def test_a_type_variable_is_read(before: str, among: tuple[str, ...]) -> None:
    read = kernel("z.store(tc.load_like(x, z))", "z: Tensor[Mut, T, B], x: Tensor[Shared, T, Dyn]", before=before)
    assert [p.variable for p in read.params if isinstance(p, TensorParam)] == [TypeVariable("T", among)] * 2


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python reads type parameters from 3.12 on")
def test_a_function_may_have_type_parameters_of_its_own() -> None:
    text = (
        "import tilecheck as tc\nfrom tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32\nclass B(Dim): ...\n@tc.kernel\n"
        "def k[T: (f16, f32), U](z: Tensor[Mut, T, B], x: Tensor[Shared, U, Dyn]) -> None:\n"
        "    z.store(tc.load_like(x, z).astype(z.dtype))\n"
    )
    (read,), faults = read_kernels(Source("k.py", text), lambda module, importer: None)
    assert not faults
    assert shown_dtypes(read) == ("the dtype of `z`, `T`, is f16 or f32", "the dtype of `x`, `U`, is any that fits")


def test_a_type_variable_is_no_value() -> None:
    text = "import tilecheck as tc\nfrom typing import TypeVar\nT = TypeVar('T')\nclass B(tc.Dim): ...\n@tc.kernel\n"
    text += "def k(z: tc.Tensor[tc.Mut, T, B]) -> None:\n    z.store(z.load().astype(T))\n"
    _, (fault,) = read_kernels(Source("k.py", text), lambda module, importer: None)
    assert fault.message == "`T` is a type variable, no value" and "z.dtype" in str(fault.help)


# ---- launches


@tc.kernel
def doubled(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn]) -> None:
    z.store((tc.load_like(x, z).astype(f32) * 2.0).astype(z.dtype))


@tc.kernel
def risen(z: Tensor[Mut, T, BM], x: Tensor[Shared, T, Dyn]) -> None:
    z.store(tc.exp(tc.load_like(x, z)))


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_one_kernel_runs_for_each_dtype(dtype: str) -> None:
    z, x = tc.zeros(64, dtype=getattr(tc, dtype)), tc.ones(64, dtype=getattr(tc, dtype))
    doubled(z.partition(16), x).sync()
    assert z.numpy().tolist() == [2.0] * 64 and z.numpy().dtype == np.dtype(f"float{dtype[1:]}")


@pytest.mark.parametrize(
    ("of", "z", "x", "message"),
    [
        (doubled, "f64", "f64", "`z` holds f64, `doubled` wants f16 or f32"),
        (doubled, "f16", "f32", "`x` holds f32, `z` f16: in `doubled` both are `Real`, one dtype"),
        (risen, "f64", "f32", "`x` holds f32, `z` f64: in `risen` both are `T`, one dtype"),
    ],
)
def test_a_launch_that_breaks_the_variable_is_refused(of: Any, z: str, x: str, message: str) -> None:
    with pytest.raises(LaunchRefused, match=message) as caught:
        of(tc.zeros(64, dtype=getattr(tc, z)).partition(16), tc.zeros(64, dtype=getattr(tc, x)))
    assert caught.value.rule == "dtype-mismatch"


def test_a_launch_with_a_dtype_that_the_body_refuses() -> None:
    risen(tc.zeros(64).partition(16), tc.zeros(64)).sync()
    with pytest.raises(KernelRejected, match="`exp` takes float tiles, this one is `i32`"):
        risen(tc.zeros(64, dtype=tc.i32).partition(16), tc.zeros(64, dtype=tc.i32))
