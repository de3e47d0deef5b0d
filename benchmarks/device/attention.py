"""Causal attention, 4 x 32 heads, 4096 positions of 128, f16, against torch's scaled dot product attention; and one token
over a cache, against a copy of the bytes of its keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tilecheck as tc
from benchmarks.device.measure import Bench, Run
from tilecheck_runtime import kernels

HEADS, LENGTH, DEPTH = 4 * 32, 4096, 128
# Queries and keys of a tile, and hints for Tile IR.
Configuration = tuple[tuple[int, int], Mapping[str, int]]
CONFIGURATIONS: tuple[Configuration, ...] = (
    ((128, 64), {"occupancy": 2}),
    ((128, 64), {"num_worker_warps": 8}),
    ((128, 128), {"num_worker_warps": 8}),
    ((256, 64), {"num_worker_warps": 8}),
)


def run(bench: Bench) -> None:
    prefill(bench)
    decode(bench)


def prefill_op(mine: list[Any], configuration: Configuration, kernel: Any = kernels.attention) -> Any:
    """Attention of `mine`: the output, queries, keys and values."""
    (queries, keys), hints = configuration
    return kernel.with_hints(**hints).where(BN=keys)(mine[0].partition(1, queries, DEPTH), *mine[1:], DEPTH**-0.5)


def prefill(bench: Bench) -> None:
    torch = bench.torch
    q, k, v = (torch.randn(HEADS, LENGTH, DEPTH, device="cuda", dtype=torch.float16) for _ in range(3))
    z = torch.empty_like(q)
    mine = bench.tensors(z, q, k, v)
    batch = [t.view(4, HEADS // 4, LENGTH, DEPTH) for t in (q, k, v)]

    def theirs() -> Any:
        return torch.nn.functional.scaled_dot_product_attention(*batch, is_causal=True)

    want = theirs().view(HEADS, LENGTH, DEPTH)
    through_numba: Any = tc.kernel(kernels.attention.fn, **{**kernels.attention.options, "backend": "numba-cuda"})
    for compiler, kernel in (("", kernels.attention), (", numba-cuda", through_numba)):
        item = f"causal attention f16, 4 x {HEADS // 4} x {LENGTH} x {DEPTH}{compiler}"

        def build(configuration: Configuration, kernel: Any = kernel) -> Any:
            return prefill_op(mine, configuration, kernel)

        (tile, hints), again = bench.quickest(item, build, CONFIGURATIONS)
        bench.close(item, z, want, 1e-2)
        peers: dict[str, Run] = {"SDPA": theirs}
        targets = {}
        if not compiler:
            peers |= _cutile(bench, q, k, v, want)
            targets = {"SDPA": 0.6}
        bench.compare(
            f"{item}, tiles {tile}, {dict(hints)}", again, peers, work=2 * HEADS * LENGTH**2 * DEPTH, unit="TFLOP/s",
            at_least=targets, rounds=11,
        )  # fmt: skip
        del again


def _cutile(bench: Bench, q: Any, k: Any, v: Any, want: Any) -> dict[str, Run]:
    """The same written in cuTile Python."""
    try:
        from benchmarks.device import cutile_peers
    except ImportError:
        return {}
    out = bench.torch.empty_like(q)
    grid = (HEADS, LENGTH // cutile_peers.QUERIES, 1)
    launch = cutile_peers.launch("attention", bench.handle, grid, (out, q, k, v), DEPTH**-0.5)
    launch()
    bench.close("cuTile's attention", out, want, 1e-2)
    return {"cuTile": launch}


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
        both = scope.graph.prepare(bench.stream)
        both()
        both.wait()
        bench.close("decode", z, theirs()[0], 1e-2)
        peers = {"copy": bench.copy_of(nbytes), "SDPA": theirs}
        item = f"decode f16, {kv} x {group} heads over {length} x {depth}, {splits} parts"
        bench.compare(item, both, peers, work=nbytes, unit="TB/s")
        bench.stream.synchronize()
        del both, scope, pieces, mine
