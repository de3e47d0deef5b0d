"""What a transformer does beside products: transposes, rotary positions, the key and value cache, and embedding.

`rope` takes f32, f16 and bf16 and turns in f32; the others move elements of any dtype as they are.

What depends on the position is cut on the host: the rows of the tables that the tokens stand at, the part of the cache
that they fill.

    at = slice(start, start + count)
    rope(turned.partition(1, heads, depth), x, cos[at], sin[at]).sync()
    cache_update(keys[:, at].partition(1, 64, depth), new).sync()
"""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, One, Shared, Tensor, f32, i32
from tilecheck_runtime.kernels.dtypes import Element, Real

TURNED = "D == 2 * Half and z.shape[2] == D and x.shape[1] >= z.shape[1]"


class BM(Dim): ...


class BN(Dim): ...


class D(Dim): ...


class Half(Dim): ...


@tc.kernel
def transpose(z: Tensor[Mut, Element, BM, BN], x: Tensor[Shared, Element, Dyn, Dyn]) -> None:
    """z[i, j] = x[j, i]."""
    i, j = tc.block_id(0), tc.block_id(1)
    z.store(tc.permute_dims(x.partition(BN, BM)[j, i], (1, 0)))


@tc.kernel(requires=TURNED)
def rope(
    z: Tensor[Mut, Real, One, BM, D],
    x: Tensor[Shared, Real, Dyn, Dyn, D],
    cos: Tensor[Shared, f32, Dyn, Half],
    sin: Tensor[Shared, f32, Dyn, Half],
) -> None:
    """Rotary position embedding (Su and others, "RoFormer", 2021), the two halves of a head as pairs.

    x and z have shape (tokens, heads, D), cos and sin (tokens, D / 2).
    """
    t, h = tc.block_id(0), tc.block_id(1)
    xs = x.partition(One, BM, Half)
    left, right = xs[t, h, 0].astype(f32), xs[t, h, 1].astype(f32)
    c = tc.reshape(cos.partition(One, Half)[t, 0], One, One, Half)
    s = tc.reshape(sin.partition(One, Half)[t, 0], One, One, Half)
    halves = z.tiles(One, BM, Half)
    halves.store((left * c - right * s).astype(z.dtype), 0, 0, 0)
    halves.store((right * c + left * s).astype(z.dtype), 0, 0, 1)


@tc.kernel
def cache_update(z: Tensor[Mut, Element, One, BM, D], new: Tensor[Shared, Element, Dyn, Dyn, D]) -> None:
    """New positions, shape (heads, count, D), into the slice of a cache that z is; the rest of the cache stays as it is."""
    z.store(tc.load_like(new, z))


@tc.kernel(requires="tokens.size >= z.shape[0]")
def embedding(
    z: Tensor[Mut, Element, One, D], table: Tensor[Shared, Element, Dyn, D], tokens: Tensor[Shared, i32, Dyn]
) -> None:
    """z[i] = table[tokens[i]]. A token that is no row of the table stops the kernel: one comparison per block."""
    token = tc.squeeze(tokens.partition(One)[tc.block_id(0)], 0).item()
    z.store(table.partition(One, D)[token, 0])
