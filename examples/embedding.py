"""Rows of a table by token: the index is data, so each gathered element is checked where it is read."""

import numpy as np

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32, i32


class BM(Dim): ...


class BD(Dim): ...


@tc.kernel
def embedding(
    z: Tensor[Mut, f32, BM, BD], table: Tensor[Shared, f32, Dyn, BD], tokens: Tensor[Shared, i32, Dyn]
) -> None:
    rows = tc.expand_dims(tokens.partition(BM, pad=0)[tc.block_id(0)], 1)
    columns = tc.expand_dims(tc.arange(BD), 0)
    z.store(tc.gather(table, (tc.broadcast_to(rows, BM, BD), tc.broadcast_to(columns, BM, BD))))


def main() -> None:
    rng = np.random.default_rng(17)
    weights, ids = rng.standard_normal((100, 16), np.float32), rng.integers(0, 100, 50).astype(np.int32)
    table, tokens, z = tc.asarray(weights), tc.asarray(ids), tc.zeros(50, 16)
    embedding(z.partition(8, 16), table, tokens).sync()
    np.testing.assert_array_equal(z.numpy(), weights[ids])
    print("embedding: 50 tokens of 16, equal to NumPy")


if __name__ == "__main__":
    main()
