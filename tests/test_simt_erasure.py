"""SIMT kernels as numba compiles them: what only the checker reads is gone, lines and values stay."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest
from numba import cuda, types

import tilecheck as tc
from tests.gpu.planted_race import placed
from tests.test_numba_cuda_lowering import compiled
from tilecheck import Dim, Dyn, Mut, Tensor, f32
from tilecheck_runtime.backends.numba_cuda.compile import numba_ptx
from tilecheck_runtime.backends.numba_cuda.erasure import erased
from tilecheck_runtime.backends.numba_cuda.simt import element
from tilecheck_runtime.errors import LaunchRefused


class BM(Dim): ...


class D4(Dim, size=4): ...


@tc.simt(block=8)
def widths(z: Tensor[Mut, f32, BM]) -> None:
    """A docstring."""
    s = cuda.shared.array(8, tc.f32)
    i = cuda.grid(1)
    s[cuda.threadIdx.x] = BM + D4
    if i < z.size:
        z[i] = s[cuda.threadIdx.x]


def closed_over(extra: int, size: Any) -> Any:
    @tc.simt(block=8)
    def kernel(z: Tensor[Mut, f32, Dyn], size_: int = 3) -> None:
        tc.unsafe("nothing to prove here")
        i = cuda.grid(1)
        if i < z.size:
            z[i] = extra * size + size_

    return kernel


@tc.simt(block=8)
def plain(z: Tensor[Mut, f32, Dyn]) -> None:
    f32 = 2.0
    i = cuda.grid(1)
    if i < z.size:
        z[i] = f32


def arrays(*dtypes: str) -> Any:
    return types.void(*(types.Array(element(dtype), 1, "C") for dtype in dtypes))


DIMS = {f"{__file__}::BM": 64}


@compiled
@pytest.mark.parametrize("capability", [(7, 5), (9, 0)], ids=str)
def test_names_of_ours_are_values(capability: tuple[int, int]) -> None:
    function = erased(widths.fn, DIMS, element)
    ptx, _ = numba_ptx(function, arrays("f32"), 8, capability)
    assert str(0x42880000) in ptx  # the bits of 68.0
    assert function.__code__.co_firstlineno > 1 and function.__code__.co_filename == widths.fn.__code__.co_filename


@compiled
def test_a_kernel_that_opts_out_compiles() -> None:
    ptx, _ = numba_ptx(erased(placed.fn, {}, element), arrays("f32", "f32", "i32"), 128, (9, 0))
    assert "bar.sync" in ptx or "barrier.sync" in ptx


@compiled
def test_a_closure_keeps_its_values() -> None:
    function = erased(closed_over(5, D4).fn, {}, element)
    assert function.__closure__ is not None and function.__defaults__ == (3,)
    ptx, _ = numba_ptx(function, types.void(types.Array(types.float32, 1, "C"), types.int64), 8, (9, 0))
    assert "20" in ptx


def test_what_uses_no_such_name_is_the_function_itself() -> None:
    assert erased(plain.fn, {}, element) is plain.fn
    made: dict[str, FunctionType] = {}
    exec("def ghost(z):\n    z[0] = 1\n", made)
    assert erased(made["ghost"], {}, element) is made["ghost"]


def test_a_dtype_that_numba_lacks_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="numba has no bf16"):
        element("bf16")
