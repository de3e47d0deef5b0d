"""A matrix product in cuTile Python, as its samples write it: bands of 8 block rows, one block a tile. Needs cuda-tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cuda.tile as ct

M, N, K, BAND = 128, 128, 64, 8


@ct.kernel  # type: ignore[untyped-decorator]
def product(z: Any, x: Any, y: Any) -> None:
    down, across = ct.cdiv(z.shape[0], M), ct.cdiv(z.shape[1], N)
    block = ct.bid(0)
    band = block // (BAND * across)
    rows = min(down - band * BAND, BAND)
    i = band * BAND + block % (BAND * across) % rows
    j = block % (BAND * across) // rows
    acc = ct.zeros((M, N), ct.float32)
    for k in range(ct.cdiv(x.shape[1], K)):
        acc = ct.mma(ct.load(x, (i, k), (M, K)), ct.load(y, (k, j), (K, N)), acc)
    ct.store(z, (i, j), acc)


def gemm(stream: Any, z: Any, x: Any, y: Any) -> Callable[[], object]:
    """A call that launches z = x @ y on the stream."""
    blocks = -(-z.shape[0] // M) * -(-z.shape[1] // N)
    return lambda: ct.launch(stream, (blocks, 1, 1), product, (z, x, y))
