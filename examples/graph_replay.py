"""Work captured once and launched many times: smoothing steps that go back and forth between two buffers.

A graph owns what it captured. Between launches its tensors may be read; while it runs they are borrowed.
"""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def damp(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], drive: Tensor[Shared, f32, Dyn]) -> None:
    z.store(0.5 * tc.load_like(x, z) + tc.load_like(drive, z))


def main() -> None:
    start = np.random.default_rng(13).random(1000, np.float32)
    a, b, drive = tc.asarray(start), tc.zeros(1000), tc.ones(1000)
    with tc.CudaGraph.scope() as scope:
        scope.record(damp(b.partition(128), a, drive))
        scope.record(damp(a.partition(128), b, drive))
    graph = scope.graph
    expected = start.copy()
    for _ in range(10):
        graph.launch().sync()
        for _ in range(2):
            expected = np.float32(0.5) * expected + 1
    np.testing.assert_allclose(a.numpy(), expected, rtol=1e-6)
    print("graph_replay: 10 launches of 2 recorded steps, as NumPy says")


if __name__ == "__main__":
    main()
