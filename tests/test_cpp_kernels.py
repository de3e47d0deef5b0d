"""Kernels in CUDA C++: what they are given, what they borrow, and what is refused, on a driver on paper."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends import cuda_cpp as backend
from tilecheck_runtime.backends import default

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")

SOURCE = """
#include <cuda_fp16.h>
extern "C" __global__ void scale(float* z, const float* x, float a, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) z[i] = a * x[i];
}
template <class T, int N> __global__ void fill(T* z, T value) { z[blockIdx.x * N + threadIdx.x] = value; }
"""


def made(name: str = "scale", **more: Any) -> Any:
    with tc.unsafe("the tests launch it on paper"):
        return tc.cuda_cpp(SOURCE, name, block=more.pop("block", 32), **more)


def compiler() -> bool:
    return find_spec("cuda") is not None and find_spec("cuda.bindings") is not None and backend._version() is not None


compiled = pytest.mark.skipif(not compiler(), reason="NVRTC is not there")


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Iterator[PaperDriver]:
    monkeypatch.setattr(backend, "cubin", lambda source, name, capability, options: (b"", name))
    with on_paper() as driver:
        driver.parameters = [8, 8, 4, 8]
        yield driver


def test_a_launch_is_an_op_like_others(paper: PaperDriver) -> None:
    z, x, scale = tc.zeros(64), tc.ones(64), made()
    op = scale(z.partition(16), x, np.float32(2), 64)
    assert isinstance(op, tc.DeviceOp) and paper.launched == []
    with pytest.raises(tc.BorrowError, match="cannot read `z` while `scale` has it exclusively"):
        z.numpy()
    written, read = op.sync()
    assert read is x and written.unpartition().shape == (64,)
    assert paper.grids == [(4, 1, 1)] and paper.blocks == [((32, 1, 1), 0)]
    with pytest.raises(tc.OpError, match="cannot run `scale`"):
        op.sync()
    z.numpy()


def test_arguments_are_packed_in_their_widths(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    packed: list[bytes] = []

    def launch(self: Any, function: Any, *rest: Any) -> Any:
        addresses = (ctypes.c_void_p * 4).from_address(rest[8])
        packed.extend(ctypes.string_at(addresses[n] or 0, size) for n, size in enumerate((8, 8, 4, 8)))
        return (self.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(PaperDriver, "cuLaunchKernel", launch)
    z, x = tc.zeros(64), tc.ones(64)
    made()(z.partition(16), x[8:40], np.float32(2.5), -3).sync()
    address = [t._elements.strided().address for t in (z, x)]  # type: ignore[attr-defined]
    assert packed[0] == address[0].to_bytes(8, "little")
    assert packed[1] == (address[1] + 32).to_bytes(8, "little")
    assert packed[2] == np.float32(2.5).tobytes() and packed[3] == np.int64(-3).tobytes()


def test_what_it_uses_is_in_flight_until_the_wait(paper: PaperDriver) -> None:
    z, x, scale = tc.zeros(64), tc.ones(64), made()
    running = scale(z.partition(16), x, np.float32(2), 64).run(tc.Stream())
    with pytest.raises(tc.BorrowError, match="cannot write `x` while `scale` is reading it"):
        x[0] = 1
    running.wait()
    x[0] = 1
    with pytest.raises(tc.BorrowError, match="share memory in one launch of `scale`"):
        scale(z.partition(16), z, np.float32(2), 64)


def test_graphs_and_streams_take_it(paper: PaperDriver) -> None:
    z, x, scale = tc.zeros(64), tc.ones(64), made()
    with tc.CudaGraph.scope() as scope:
        scope.record(scale(z.partition(16), x, np.float32(2), 64))
        scope.record(scale(z.partition(16), x, np.float32(3), 64))
    assert len(paper.launched) == 2
    scope.graph.launch().sync()
    assert paper.calls["cuGraphLaunch"] == 1
    with pytest.raises(tc.BorrowError, match="cannot write `z`"):
        z[0] = 1
    del scope
    gc.collect()
    first, second = tc.Stream(), tc.Stream()
    scale(z.partition(16), x, np.float32(2), 64).run(first)
    scale(x.partition(16), z, np.float32(2), 64).run(second)
    assert paper.waits and paper.waits[-1][0] == second._queue.handle  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((2.0, 64), "parameter 3 of `scale` has 4 bytes, it got `2.0`, which has 8"),
        ((np.float32(2), np.int32(64)), r"parameter 4 of `scale` has 8 bytes, it got `.*64.*`, which has 4"),
        ((np.float32(2),), "`scale` takes 4 arguments, it got 3"),
        ((np.float32(2), "64"), "argument 4 of `scale` is a `str`, C\\+\\+ takes tensors, partitions and numbers"),
        ((np.float32(2), 2**63), "argument 4 of `scale` is 9223372036854775808, a `long long` has 64 bits"),
        ((np.ones(4), 64), "argument 3 of `scale` is a `ndarray`"),
    ],
)
def test_arguments_that_do_not_fit(paper: PaperDriver, arguments: tuple[Any, ...], says: str) -> None:
    z, x = tc.zeros(64), tc.ones(64)
    with pytest.raises(tc.UsageError, match=says):
        made()(z.partition(16), x, *arguments)
    z[0] = 1


def test_tensors_that_an_address_does_not_describe(paper: PaperDriver) -> None:
    z, x, scale = tc.zeros(8, 8), tc.ones(8, 8), made()
    with pytest.raises(tc.UsageError, match="argument 2 of `scale` is not contiguous"):
        scale(z.partition(8, 8), x[:, ::2], np.float32(2), 64)
    with pytest.raises(tc.UsageError, match="a meta tensor has a shape and no data"):
        scale(z.partition(8, 8), tc.meta(8, 8), np.float32(2), 64)
    with pytest.raises(tc.UsageError, match="argument 1 of `scale` is mapped"):
        scale(z.partition(8, 8).map((1, 1), blocks=1), x, np.float32(2), 64)
    moved = tc.zeros(64)
    kept = moved.into_partition(8)
    with pytest.raises(tc.BorrowError, match="argument 2 was moved"):
        scale(z.partition(8, 8), moved, np.float32(2), 64)
    del kept


def test_the_grid_comes_from_partitions_or_is_given(paper: PaperDriver) -> None:
    z, x, scale = tc.zeros(64), tc.ones(64), made()
    scale(z.partition(16), x, np.float32(2), 64, grid=(2, 3)).sync()
    assert paper.grids[-1] == (2, 3, 1)
    paper.parameters = None
    with pytest.raises(tc.LaunchRefused, match="the launch of `scale` has no grid"):
        scale(x, 1)
    with pytest.raises(tc.LaunchRefused, match=r"define different grids: \(4, 1, 1\) and \(2, 1, 1\)"):
        scale(z.partition(16), x.partition(32))
    for grid in (0, -1, (1, 2, 3, 4), 1.5, True):
        with pytest.raises(tc.UsageError, match="is no grid"):
            scale(x, grid=grid)
    with pytest.raises(tc.LaunchRefused, match="has 70000 blocks along y, cuda:0 takes 65535"):
        scale(x, grid=(1, 70000)).sync()


def test_what_the_device_cannot_hold_is_refused_with_the_arithmetic(paper: PaperDriver) -> None:
    x = tc.ones(64)
    paper.parameters = [8]
    paper.attributes = {"NUM_REGS": 128}
    with pytest.raises(tc.LaunchRefused, match="needs 128 registers x 1024 threads = 131072, paper has 65535 a block"):
        made(block=1024)(x, grid=1)
    paper.attributes = {"SHARED_SIZE_BYTES": 1024}
    with pytest.raises(
        tc.LaunchRefused, match="needs 232448 \\+ 1024 bytes of shared memory a block, paper has 232448"
    ):
        made(shared=227 << 10)(x, grid=1)
    made(shared=48 << 10)(x, grid=1).sync()
    assert paper.calls["cuFuncSetAttribute"] == 1 and paper.blocks[-1] == ((32, 1, 1), 48 << 10)


def test_a_kernel_needs_a_reason_and_a_block() -> None:
    with pytest.raises(tc.UsageError, match="nobody checks what `scale` does") as caught:
        tc.cuda_cpp(SOURCE, "scale", block=32)
    assert caught.value.rule == "allow-without-reason"
    for block in (0, 2048, (1, 1, 128), "32"):
        with pytest.raises(tc.UsageError, match="block"):
            made(block=block)
    with pytest.raises(tc.UsageError, match="is no list of options"):
        made(options="-O3")
    with pytest.raises(tc.UsageError, match="both as text"):
        made(name=3)  # type: ignore[arg-type]


@pytest.mark.cpu
def test_the_cpu_has_no_cpp() -> None:
    assert default().name == "cpu"
    z, x = tc.zeros(64), tc.ones(64)
    with pytest.raises(tc.LaunchRefused, match="`scale` is CUDA C\\+\\+, which runs on a GPU alone") as caught:
        made()(z.partition(16), x, np.float32(2), 64)
    assert caught.value.rule == "unsupported"
    z[0] = 1


@compiled
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0)], ids=str)
def test_functions_and_templates_compile(capability: tuple[int, int]) -> None:
    image, entry = backend.cubin(SOURCE, "scale", capability, ())
    assert image.startswith(b"\x7fELF") and entry == "scale"
    image, entry = backend.cubin(SOURCE, "fill<float, 32>", capability, ("--use_fast_math",))
    assert image.startswith(b"\x7fELF") and entry.encode() in image and "fill" in entry


@compiled
def test_errors_of_the_compiler_are_shown() -> None:
    with pytest.raises(tc.LaunchRefused, match=r"`bad` does not compile for sm_90: .*error: .*undefined") as caught:
        backend.cubin('extern "C" __global__ void bad(float* z) { z[0] = nothing; }', "bad", (9, 0), ())
    assert any("nothing" in point for point in caught.value.points)
    with pytest.raises(tc.LaunchRefused, match='"absent" is undefined'):
        backend.cubin(SOURCE, "absent", (9, 0), ())
    with pytest.raises(tc.LaunchRefused, match="does not compile"):
        backend.cubin(SOURCE, "scale", (9, 0), ("--no-such-option",))


@compiled
def test_the_kernel_cache_keeps_them_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_cache.enable(tmp_path / "kernels")
    try:
        made_first = backend.cubin(SOURCE, "scale", (9, 0), ())
        for other in (
            (SOURCE + "\n", "scale", (9, 0), ()),
            (SOURCE, "fill<float, 32>", (9, 0), ()),
            (SOURCE, "scale", (8, 0), ()),
            (SOURCE, "scale", (9, 0), ("--use_fast_math",)),
        ):
            backend.cubin(*other)
        assert disk_cache.statistics().misses == 5
        monkeypatch.setattr(backend, "_compiled", None)
        assert backend.cubin(SOURCE, "scale", (9, 0), ()) == made_first
    finally:
        disk_cache.disable()
