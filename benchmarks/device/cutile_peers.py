"""A matrix product and causal attention in cuTile Python, as its samples write them. Needs cuda-tile; a machine without its
compiler takes the binaries from a kernel cache that `python -m benchmarks.device.fill` filled.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cuda.tile as ct
from cuda.tile import compilation

from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends.tile_ir.compile import compiler_version, compilers_on_path
from tilecheck_runtime.driver import Device

BAND = 8
QUERIES, KEYS, DEPTH = 128, 128, 128
LOG2E = 1.4426950408889634


def product(M: int, N: int, K: int):  # type: ignore[no-untyped-def]
    """A product whose blocks are numbered in bands."""

    def kernel(z, x, y):  # type: ignore[no-untyped-def]
        down, across = ct.cdiv(z.shape[0], M), ct.cdiv(z.shape[1], N)
        block = ct.bid(0)
        band = block // (BAND * across)
        rows = min(down - band * BAND, BAND)
        i = band * BAND + block % (BAND * across) % rows
        j = block % (BAND * across) // rows
        acc = ct.zeros((M, N), ct.float32)
        for k in range(ct.cdiv(x.shape[1], K)):
            acc = ct.mma(ct.load(x, (i, k), (M, K)), ct.load(y, (k, j), (K, N)), acc)
        ct.store(z, (i, j), ct.astype(acc, z.dtype))

    return kernel


def persistent(M: int, N: int, K: int):  # type: ignore[no-untyped-def]
    """The same by blocks that take one tile after another."""

    def kernel(z, x, y):  # type: ignore[no-untyped-def]
        down, across = ct.cdiv(z.shape[0], M), ct.cdiv(z.shape[1], N)
        for block in range(ct.bid(0), down * across, ct.num_blocks(0)):
            band = block // (BAND * across)
            rows = min(down - band * BAND, BAND)
            i = band * BAND + block % (BAND * across) % rows
            j = block % (BAND * across) // rows
            acc = ct.zeros((M, N), ct.float32)
            for k in range(ct.cdiv(x.shape[1], K)):
                acc = ct.mma(ct.load(x, (i, k), (M, K)), ct.load(y, (k, j), (K, N)), acc)
            ct.store(z, (i, j), ct.astype(acc, z.dtype))

    return kernel


def attention(z, q, k, v, scale):  # type: ignore[no-untyped-def]
    head, i = ct.bid(0), ct.bid(1)
    queries = ct.reshape(ct.load(q, (head, i, 0), (1, QUERIES, DEPTH)), (QUERIES, DEPTH))
    rows = ct.reshape(i * QUERIES + ct.arange(QUERIES, dtype=ct.int32), (QUERIES, 1))
    scaled = ct.astype(scale * LOG2E, ct.float32)
    highest = ct.full((QUERIES, 1), -1e30, ct.float32)
    total = ct.zeros((QUERIES, 1), ct.float32)
    acc = ct.zeros((QUERIES, DEPTH), ct.float32)
    whole = i * QUERIES // KEYS
    for j in range(ct.cdiv((i + 1) * QUERIES, KEYS)):
        keys = ct.transpose(ct.reshape(ct.load(k, (head, j, 0), (1, KEYS, DEPTH)), (KEYS, DEPTH)))
        scores = ct.mma(queries, keys, ct.zeros((QUERIES, KEYS), ct.float32))
        if j >= whole:
            columns = ct.reshape(j * KEYS + ct.arange(KEYS, dtype=ct.int32), (1, KEYS))
            scores = ct.where(rows >= columns, scores, -1e30)
        above = ct.maximum(highest, ct.max(scores, 1, keepdims=True) * scaled)
        weights = ct.exp2(scores * scaled - above, flush_to_zero=True)
        decay = ct.exp2(highest - above, flush_to_zero=True)
        total = total * decay + ct.sum(weights, 1, keepdims=True)
        values = ct.reshape(ct.load(v, (head, j, 0), (1, KEYS, DEPTH)), (KEYS, DEPTH))
        acc = ct.mma(ct.astype(weights, ct.float16), values, acc * decay)
        highest = above
    ct.store(z, (head, i, 0), ct.reshape(ct.astype(acc / total, ct.float16), (1, QUERIES, DEPTH)))


@dataclass(frozen=True)
class Peer:
    """A kernel: the dtype and rank of each array, whether a float scalar comes last, its hints, and the extents of its
    output tile.
    """

    function: Any
    arrays: tuple[tuple[Any, int], ...]
    scalar: bool
    hints: Mapping[str, int]
    tile: tuple[int, int]


def _products() -> Iterator[tuple[str, Peer]]:
    for out in (ct.float16, ct.float32):
        square = ((out, 2), (ct.float16, 2), (ct.float16, 2))
        for form, configurations in FORMS.items():
            for (m, n, k), hints in configurations:
                name = "_".join([form.__name__, out.__name__, *map(str, (m, n, k))])
                yield name, Peer(form(m, n, k), square, False, hints, (m, n))


# What was quickest of some hundred variants on an H200.
FORMS: dict[Any, tuple[tuple[tuple[int, int, int], Mapping[str, int]], ...]] = {
    product: (
        ((128, 128, 64), {"occupancy": 2}),
        ((128, 256, 128), {"num_worker_warps": 8}),
        ((256, 128, 32), {"num_worker_warps": 8}),
    ),
    persistent: (
        ((128, 128, 64), {}),
        ((256, 128, 32), {"num_worker_warps": 8}),
        ((256, 256, 64), {"num_ctas": 2, "num_worker_warps": 8}),
    ),
}
PEERS = {
    **dict(_products()),
    "attention": Peer(attention, ((ct.float16, 3),) * 4, True, {"num_worker_warps": 8}, (QUERIES, DEPTH)),
}


def image(name: str, architecture: str) -> bytes:
    """The cubin of a peer, from the kernel cache if it is there. Arrays are whole tiles, aligned, contiguous in rows."""
    peer = PEERS[name]
    key = disk_cache.key_of(
        "cutile peer", compiler_version(), inspect.getsource(inspect.getmodule(peer.function) or peer.function), name, architecture
    )  # fmt: skip
    kept = disk_cache.read(key)
    if kept is not None:
        return kept
    compilers_on_path()
    constraints: list[Any] = [
        compilation.ArrayConstraint(
            dtype, rank, index_dtype=ct.int32, stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False,
            stride_constant=[None] * (rank - 1) + [1], stride_divisible_by=(16,) * (rank - 1) + (1,),
            shape_divisible_by=(16,) * rank, base_addr_divisible_by=16,
        )
        for dtype, rank in peer.arrays
    ]  # fmt: skip
    if peer.scalar:
        constraints.append(compilation.ScalarConstraint(ct.float32))
    signature = compilation.KernelSignature(
        constraints, compilation.CallingConvention.cutile_python_v1(), symbol=f"peer_{name}"
    )
    out = io.BytesIO()
    kernel = ct.kernel(peer.function, **peer.hints)
    compilation.export_kernel(kernel, [signature], out, gpu_code=architecture, output_format="cubin")
    disk_cache.write(key, out.getvalue())
    return out.getvalue()


def launch(
    name: str, stream: int, grid: tuple[int, int, int], arrays: Sequence[Any], *scalars: float
) -> Callable[[], None]:
    """A call that launches a peer on torch tensors, its arguments packed once."""
    device = Device.open()
    function = device.load(image(name, f"sm_{device.capability[0]}{device.capability[1]}"), f"peer_{name}")
    formats, values = "", list[int | float]()
    for array in arrays:
        formats += "P" + "i" * (2 * array.ndim)
        values += [array.data_ptr(), *array.shape, *array.stride()]
    packed = function.pack(formats + "f" * len(scalars), [*values, *scalars])
    return packed.bound(grid, (1, 1, 1), 0, stream)
