"""What the runtime does with other libraries on a GPU: wraps their streams, lends and borrows, launches CUDA C++ and grid barriers.

python -m tests.gpu.other_libraries NAME

Prints `fine`, or `skip: ` and what is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

import tilecheck as tc
from tilecheck import kernels

COUNT = 1 << 20
SOURCE = """
extern "C" __global__ void scale(float* z, const float* x, float a, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) z[i] = a * x[i];
}
template <class T> __global__ void shift(T* z, T by) { z[blockIdx.x * blockDim.x + threadIdx.x] += by; }
"""


def torch_stream() -> None:
    """Our launches and torch's in one stream, both ways without an event."""
    torch: Any = import_module("torch")
    theirs = torch.cuda.Stream()
    ours = tc.Stream(theirs)
    for value in range(20):
        with torch.cuda.stream(theirs):
            y = torch.full((COUNT,), float(value), device="cuda")
            y = y * 2
        x, z = tc.from_dlpack(y), tc.zeros(COUNT)
        kernels.add(z.partition(1024), x, x).run(ours).wait()
        assert (z.numpy() == 4 * value).all()
        with tc.streams(tc.Single(ours)):
            kernels.add(z.partition(1024), x, x).sync()


def torch_lent() -> None:
    """torch writes our memory, and what it wrote is read by a kernel."""
    torch: Any = import_module("torch")
    z, w = tc.zeros(COUNT), tc.zeros(COUNT)
    a = torch.as_tensor(tc.lend(z), device="cuda")
    a.fill_(3.0)
    torch.cuda.synchronize()
    try:
        z.numpy()
    except tc.BorrowError:
        pass
    else:
        raise AssertionError("what is lent was read")
    del a
    kernels.add(w.partition(1024), z, z).sync()
    assert (w.numpy() == 6).all()
    seen = torch.as_tensor(tc.lend(w[1::2], read_only=False), device="cuda")
    assert float(seen.sum()) == 6.0 * (COUNT // 2)


def numba_lent() -> None:
    """numba makes an array of our memory."""
    cuda: Any = import_module("numba.cuda")
    z = tc.arange(COUNT, dtype=tc.f32)
    a = cuda.as_cuda_array(tc.lend(z))
    assert (a.copy_to_host() == np.arange(COUNT, dtype=np.float32)).all()
    a.copy_to_device(np.ones(COUNT, np.float32))
    cuda.synchronize()
    del a
    assert (z.numpy() == 1).all()


def cupy_lent() -> None:
    """CuPy adds in place, on its own stream, which is wrapped for the next launch."""
    cupy: Any = import_module("cupy")
    z, w, stream = tc.ones(COUNT), tc.zeros(COUNT), cupy.cuda.Stream(non_blocking=True)
    a = cupy.asarray(tc.lend(z))
    with stream:
        a += 4
    stream.synchronize()
    del a
    kernels.add(w.partition(1024), z, z).sync_on(tc.Stream(stream))
    assert (w.numpy() == 10).all()


def cpp() -> None:
    """A function and an instance of a template, ordered by their data on different streams, and in a graph."""
    with tc.unsafe("the guard keeps `scale` inside, `shift` has a thread per element"):
        scale = tc.cuda_cpp(SOURCE, "scale", block=256)
        shift = tc.cuda_cpp(SOURCE, "shift<float>", block=128)
    z, x, w = tc.zeros(COUNT), tc.ones(COUNT), tc.zeros(COUNT)
    scale(z.partition(256), x, np.float32(3), COUNT).run(tc.Stream())
    shift(z.partition(128), np.float32(0.5)).run(tc.Stream())
    kernels.add(w.partition(1024), z, z).run(tc.Stream()).wait()
    assert (w.numpy() == 7).all()
    for wrong in ((3.0, COUNT), (np.float32(3),)):
        try:
            scale(z.partition(256), x, *wrong)
        except tc.UsageError:
            continue
        raise AssertionError("parameters of another width were taken")
    graph = shift(z.partition(128), np.float32(1)).graph()
    for _ in range(3):
        graph.launch().sync()
    assert (z.numpy() == 6.5).all()


def grid_barrier() -> None:
    """Blocks meet, and more than the device holds are refused."""
    from tests.grid_kernels import mirrored

    z, w, x = tc.zeros(6400), tc.zeros(6400), tc.arange(6400, dtype=tc.f32)
    mirrored(z.partition(64), w.partition(64), x).sync()
    assert (z.numpy() == 2 * np.arange(6400)[::-1]).all()
    many = 64 * 100_000
    z, w, x = tc.zeros(many), tc.zeros(many), tc.zeros(many)
    try:
        mirrored(z.partition(64), w.partition(64), x).sync()
    except tc.LaunchRefused as refused:
        assert "blocks that wait for each other" in refused.message
    else:
        raise AssertionError("a launch that cannot end was taken")


def host_values_in_a_graph() -> None:
    """A graph copies values of the host that were there when it was recorded."""
    z, w, values = tc.zeros(COUNT), tc.zeros(COUNT), np.arange(COUNT, dtype=np.float32)
    with tc.CudaGraph.scope() as scope:
        scope.record(tc.memcpy(z, values))
        scope.record(kernels.add(w.partition(1024), z, z))
    values[:] = 0
    scope.graph.launch().sync()
    assert (w.numpy() == 2 * np.arange(COUNT, dtype=np.float32)).all()


CASES: dict[str, Callable[[], None]] = {
    case.__name__: case
    for case in (torch_stream, torch_lent, numba_lent, cupy_lent, cpp, grid_barrier, host_values_in_a_graph)
}


def main() -> None:
    try:
        CASES[sys.argv[1]]()
    except ModuleNotFoundError as missing:
        print(f"skip: {missing}")
    else:
        print("fine")


if __name__ == "__main__":
    main()
