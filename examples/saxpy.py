"""z = a * x + y, in place: `z` is read as the block's own tile and written back."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def saxpy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], a: float) -> None:
    z.store(a * tc.load_like(x, z) + z.load())


def main() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random(4096, np.float32), rng.random(4096, np.float32)
    x, z = tc.asarray(a), tc.asarray(b.copy())
    saxpy(z.partition(256), x, 2.0).sync()
    np.testing.assert_allclose(z.numpy(), 2 * a + b, rtol=1e-6)
    print("saxpy: 4096 elements, as NumPy says")


if __name__ == "__main__":
    main()
