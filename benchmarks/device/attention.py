"""Causal attention, 4 x 32 heads, 4096 positions of 128, f16, against torch's scaled dot product attention; and one token
over a cache, against a copy of the bytes of its keys and values.
"""

from __future__ import annotations

from typing import Any

from benchmarks.device.measure import Bench
from tilecheck_runtime import kernels

TILES = ((128, 64), (128, 128), (64, 64))


def run(bench: Bench) -> None:
    prefill(bench)
    decode(bench)


def prefill(bench: Bench) -> None:
    torch = bench.torch
    heads, length, depth = 4 * 32, 4096, 128
    q, k, v = (torch.randn(heads, length, depth, device="cuda", dtype=torch.float16) for _ in range(3))
    z = torch.empty_like(q)
    mine = bench.tensors(z, q, k, v)
    batch = [t.view(4, 32, length, depth) for t in (q, k, v)]

    def theirs() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*batch, is_causal=True)

    want = theirs().view(heads, length, depth)
    kernel: Any = kernels.attention
    item = f"causal attention f16, 4 x 32 x {length} x {depth}"

    def build(tile: tuple[int, int]) -> Any:
        queries, keys = tile
        return kernel.where(BN=keys)(mine[0].partition(1, queries, depth), *mine[1:], depth**-0.5)

    tile, again = bench.quickest(item, build, TILES)
    bench.close(item, z, want, 1e-2)
    bench.compare(
        f"{item}, tiles {tile}", again, {"SDPA": theirs}, work=2 * heads * length**2 * depth, unit="TFLOP/s",
        at_least={"SDPA": 0.6}, rounds=11,
    )  # fmt: skip


def decode(bench: Bench) -> None:
    """Both launches of a token, 8 key heads of 4 query heads, batch 4, 8192 positions in the cache."""
    torch = bench.torch
    kv, group, length, depth, rows = 4 * 8, 4, 8192, 128, 16
    q = torch.randn(kv, group, depth, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(kv, length, depth, device="cuda", dtype=torch.float16) for _ in range(2))
    z = torch.empty_like(q)
    heads = [t.unsqueeze(0) for t in (k, v)]

    def theirs() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q.unsqueeze(0), *heads)

    split: Any = kernels.decode_split
    nbytes = k.nbytes + v.nbytes
    for splits in (8, 32):
        parts, highest, total = (torch.empty(kv, splits * rows, n, device="cuda") for n in (depth, 1, 1))
        mine = bench.tensors(z, q, k, v, parts, highest, total)
        pieces = [t.partition(1, rows, t.shape[2]) for t in mine[4:]]
        with bench.tc.CudaGraph.scope(bench.stream) as scope:
            scope.record(split.where(BN=64)(*pieces, *mine[1:4], depth**-0.5, length))
            scope.record(kernels.decode_merge(mine[0].partition(1, rows, depth), *mine[4:]))
        graph = scope.graph

        def both(graph: Any = graph) -> object:
            return graph.launch().run(bench.stream)

        both()
        bench.close("decode", z, theirs()[0], 1e-2)
        peers = {"copy": bench.copy_of(nbytes), "SDPA": theirs}
        item = f"decode f16, {kv} x {group} heads over {length} x {depth}, {splits} parts"
        bench.compare(item, both, peers, work=nbytes, unit="TB/s")
        bench.stream.synchronize()
        del both, graph, scope, pieces, mine
