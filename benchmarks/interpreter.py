"""The tile interpreter against plain NumPy: saxpy on 4096 x 4096 f32 with 128 x 128 tiles, and a gemm.

The target for saxpy is 10 times the time of `a * x + y` on whole arrays. The kernel runs as it would from the `cpu`
backend, every access checked; compilation is shown apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from tilecheck.frontend.source import Source
from tilecheck.frontend.tile import read_kernels
from tilecheck.interp.arguments import TensorArgument
from tilecheck.interp.compile import compile_kernel
from tilecheck.interp.tile import execute

KERNELS = """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32

class BM(Dim): ...
class BN(Dim): ...
class BK(Dim): ...

@tc.kernel
def saxpy(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn], y: Tensor[Shared, f32, Dyn, Dyn], a: float) -> None:
    z.store(a * tc.load_like(x, z) + tc.load_like(y, z))

@tc.kernel
def gemm(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn], y: Tensor[Shared, f32, Dyn, Dyn]) -> None:
    i, j = tc.block_id(0), tc.block_id(1)
    xs, ys = x.partition(BM, BK, pad=0.0), y.partition(BK, BN, pad=0.0)
    acc = tc.zeros(BM, BN)
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)
    z.store(acc)
"""


def best(run: Callable[[], object], rounds: int = 7) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    started = time.perf_counter()
    kernels, faults = read_kernels(Source("kernels.py", KERNELS), lambda name: None)
    assert not faults, faults
    extents = {"BM": 128, "BN": 128, "BK": 128}
    saxpy, gemm = (compile_kernel(k, {}, {key: extents[d.name] for key, d in k.dims.items()}) for k in kernels)
    print(f"reading and compiling two kernels: {1e3 * (time.perf_counter() - started):.1f} ms")

    rng = np.random.default_rng(0)
    x, y = (rng.random((4096, 4096), np.float32) for _ in range(2))
    z = np.zeros_like(x)
    arguments = {"z": TensorArgument(z, (128, 128)), "x": TensorArgument(x), "y": TensorArgument(y), "a": 2.0}
    ours = best(lambda: execute(saxpy, arguments, (32, 32, 1)))
    plain = best(lambda: 2.0 * x + y)
    assert np.array_equal(z, 2.0 * x + y)
    print(f"saxpy 4096 x 4096: interpreter {1e3 * ours:.1f} ms, NumPy {1e3 * plain:.1f} ms, {ours / plain:.2f} times")

    x, y = x[:1024, :1024].copy(), y[:1024, :1024].copy()
    z = np.zeros_like(x)
    arguments = {"z": TensorArgument(z, (128, 128)), "x": TensorArgument(x), "y": TensorArgument(y)}
    ours = best(lambda: execute(gemm, arguments, (8, 8, 1)))
    plain = best(lambda: x @ y)
    np.testing.assert_allclose(z, x @ y, rtol=1e-4)
    print(f"gemm 1024: interpreter {1e3 * ours:.1f} ms, NumPy {1e3 * plain:.1f} ms, {ours / plain:.2f} times")


if __name__ == "__main__":
    main()
