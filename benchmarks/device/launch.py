"""What a launch of a small kernel costs the host, and the replay of a graph of 100.

An add of 4096 elements against `cuLaunchKernel` on arguments packed once through cuda.bindings and against numba-cuda's
own dispatch: prepared, and with all checks in the ways of `benchmarks/calls.py`. What has to hold is said of the quickest
one with all checks.
"""

from __future__ import annotations

import ctypes
import itertools
from importlib import import_module
from statistics import median
from typing import Any

from benchmarks.calls import AT_ONCE, COUNT, ROWS, handles, ways
from benchmarks.device import numba_peers
from benchmarks.device.measure import Against, Bench, Line, Run, host_line, host_turns
from tilecheck_runtime import kernels

LAUNCHES = 1000
NODES = 100
REPLAYS = 50
TILES = (256, 512, 1024, 2048, 4096)


def run(bench: Bench) -> None:
    torch = bench.torch
    z, x, y = (torch.ones(COUNT, device="cuda") for _ in range(3))
    mine = bench.tensors(z, x, y)
    numba = (numba_peers.launch(numba_peers.scalar_kernels()["add"], bench.handle, z, x, y), bench.wait)
    numba[0]()
    packed = _packed(bench, z, x, y)
    peers: dict[str, tuple[tuple[Run, Run], float | None]] = {"numba-cuda": (numba, 0.25)}

    again = bench.prepared(kernels.add(mine[0].partition(1024), mine[1], mine[2]))
    prepared = (again, again.wait)
    against = {"pre-packed cuLaunchKernel": ((packed, bench.wait), 1.3)} if packed is not None else {}
    bench.add(host_line("host cost of a prepared launch", prepared, {**against, **peers}, LAUNCHES))
    del again, prepared

    spare = bench.tensors(torch.ones(COUNT, device="cuda"))[0]
    them = torch.ones(ROWS, COUNT, device="cuda")
    at = itertools.cycle(range(ROWS))
    for how, side in ways(bench.stream, mine[0], spare, mine[1], mine[2], lambda: them[next(at)]).items():
        limit = 1.8 if how == AT_ONCE else None
        against = {"pre-packed cuLaunchKernel": ((packed, bench.wait), limit)} if packed is not None else {}
        theirs = peers if limit is not None else {name: (other, None) for name, (other, _) in peers.items()}
        for _ in range(3):
            side[0]()
        bench.add(host_line(f"host cost of a launch with all checks, `{how}`", side, {**against, **theirs}, LAUNCHES))
    for how, side in handles(lambda: them[next(at)]).items():
        bench.add(host_line(f"host cost of a handle, `{how}`", side, {"numba-cuda": (numba, None)}, LAUNCHES))
    bench.stream.synchronize()
    _graphs(bench, mine)


def _packed(bench: Bench, z: Any, x: Any, y: Any) -> Run | None:
    """`cuLaunchKernel` of the same sum, compiled by CuPy, its arguments in place; None without CuPy."""
    try:
        cupy: Any = import_module("cupy")
    except ImportError:
        return None
    driver: Any = import_module("cuda.bindings.driver")
    code = (
        'extern "C" __global__ void add(float* z, const float* x, const float* y, int n)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = x[i] + y[i]; }"
    )
    kernel = cupy.RawKernel(code, "add")
    handle = driver.CUfunction(kernel.kernel.ptr)
    values = [ctypes.c_void_p(t.data_ptr()) for t in (z, x, y)] + [ctypes.c_int(COUNT)]
    addresses = (ctypes.c_void_p * 4)(*(ctypes.addressof(v) for v in values))
    raw, submit, stream = ctypes.addressof(addresses), driver.cuLaunchKernel, bench.handle

    def launch(keep: Any = (kernel, values, addresses)) -> None:
        submit(handle, 16, 1, 1, 256, 1, 1, 0, stream, raw, 0)

    launch()
    return launch


def _graphs(bench: Bench, mine: list[Any]) -> None:
    """Replays of 100 sums that follow one another, one replay behind the other: microseconds of each until all are done.
    The quickest tile counts.
    """
    torch = bench.torch
    z, x, y = (torch.ones(COUNT, device="cuda") for _ in range(3))
    torch.add(x, y, out=z)
    bench.wait()
    theirs = torch.cuda.CUDAGraph()
    with torch.cuda.graph(theirs):
        for _ in range(NODES):
            torch.add(x, y, out=z)

    def their_replays() -> None:
        for _ in range(REPLAYS):
            theirs.replay()
        bench.wait()

    taken: list[tuple[float, int]] = []
    for tile in TILES:
        rounds, _ = _replays(bench, mine, tile)
        taken.append((median(host_turns([(rounds, bench.wait)], 1)[0]), tile))
        del rounds, _
    tile = min(taken)[1]
    for item, replays in zip(("prepared", "an op each time"), _replays(bench, mine, tile), strict=True):
        own, their = host_turns([(replays, bench.wait), (their_replays, bench.wait)], 1, 41)
        ratio = median(m / t for t, m in zip(their, own, strict=True))
        against = (Against("torch's graph", median(their) / REPLAYS, ratio, at_most=1.0),)
        line = f"replay of a graph of {NODES} launches, tiles of {tile}, {item}"
        bench.add(Line(line, median(own) / REPLAYS, None, "", against))


def _replays(bench: Bench, mine: list[Any], tile: int) -> tuple[Run, Run]:
    """The replays of a graph: prepared, and as an op each time."""
    pieces = mine[0].partition(tile)
    with bench.tc.CudaGraph.scope(bench.stream) as scope:
        for _ in range(NODES):
            scope.record(kernels.add(pieces, mine[1], mine[2]))
    graph = scope.graph
    again = graph.prepare(bench.stream)

    def rounds() -> None:
        for _ in range(REPLAYS):
            again()
        again.wait()

    def ops() -> None:
        for _ in range(REPLAYS):
            graph.launch().run(bench.stream)
        bench.stream.synchronize()

    return rounds, ops
