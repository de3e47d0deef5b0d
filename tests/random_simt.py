"""Random thread-level kernels and launches, for the tests of the prover.

A kernel is text in numba-cuda's language: affine, modular and bit-wise indices, shared memory, barriers, loops, guards.
Shared indices are reduced modulo the tile, global ones guarded or not; barriers stand where all threads get to, except
now and then. Nothing is done to make a kernel safe or unsafe: that is for the prover and the executor to agree on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

HEADER = "from numba import cuda, float32, int8, int32, uint8\n\n\n@cuda.jit\ndef k(a, b, n):\n"
TILES = (8, 16)
BARRIERS = ("cuda.syncthreads()", "cuda.syncthreads()", "cuda.syncwarp()", "cuda.syncwarp(0xF)")
_BARRIER = re.compile(r"cuda\.sync\w+\(\w*\)")
CONDITIONS = (
    "t < 4",
    "t == 0",
    "i < n",
    "i < b.size",
    "t % 2 == 0",
    "n > 2",
    "t > n",
    "v > 3",
    "n == t",
    "i >= b.size",
)


@dataclass(frozen=True)
class RandomLaunch:
    """A launch of a random kernel."""

    grid: int
    block: int
    sizes: tuple[int, int]
    n: int


@st.composite
def launches(draw: st.DrawFn) -> RandomLaunch:
    block = draw(st.sampled_from([1, 2, 3, 4, 8, 16, 33]))
    grid = draw(st.sampled_from([1, 2, 3]))
    size = st.sampled_from([1, 2, 5, 8, 16, 24, 40, 100])
    return RandomLaunch(grid, block, (draw(size), draw(size)), draw(st.sampled_from([0, 1, 2, 3, 5, 8, 16, 31])))


def indices(names: list[str]) -> st.SearchStrategy[str]:
    """Integer expressions over `names`."""
    name = st.sampled_from(names)
    small = st.integers(0, 4)
    affine = st.builds(lambda x, c, d: f"{c} * {x} + {d}", name, st.integers(1, 3), small)
    reverse = st.builds(lambda x, d: f"{d} - {x}", name, st.sampled_from(["n", "7", "15"]))
    modular = st.builds(lambda x, d, m: f"({x} + {d}) % {m}", name, small, st.sampled_from([2, 4, 8, 16, 32]))
    quotient = st.builds(lambda x, m: f"{x} // {m}", name, st.sampled_from([2, 4, 8]))
    bits = st.builds(
        lambda x, op, m: f"({x} {op} {m})", name, st.sampled_from(["^", "&", "|"]), st.sampled_from([1, 2, 3, 4, 7])
    )
    shifts = st.builds(lambda x, op, m: f"({x} {op} {m})", name, st.sampled_from(["<<", ">>"]), st.sampled_from([1, 2]))
    casts = st.builds(
        lambda x, dtype, c: f"{dtype}({c} * {x})",
        name,
        st.sampled_from(["int32", "uint8", "int8"]),
        st.sampled_from([1, 3, 16, 32]),
    )
    two = st.builds(lambda x, y, c: f"{c} * {x} + {y}", name, name, st.sampled_from([2, 8, 16, 32]))
    return st.one_of(name, affine, reverse, modular, quotient, bits, shifts, casts, two)


@st.composite
def kernels(draw: st.DrawFn) -> str:
    """The text of a module with one kernel `k(a, b, n)`."""
    tile = draw(st.sampled_from(TILES))
    lines = [f"s = cuda.shared.array({tile}, int32)", "t = cuda.threadIdx.x", "i = cuda.grid(1)", "v = 0"]
    if draw(st.booleans()):
        lines.append(f"s[t % {tile}] = t % {tile}")
    for _ in range(draw(st.integers(1, 4))):
        lines += _statement(draw, ["t", "i"], tile, 2)
    return HEADER + "".join(f"    {line}\n" for line in lines)


def _statement(draw: st.DrawFn, names: list[str], tile: int, depth: int) -> list[str]:
    inside_loop = any(name.startswith("k") for name in names)
    choices = ["store", "shared", "read", "barrier", "atomic", "tell"] + (["if", "for", "while"] if depth else [])
    choices += ["break", "continue"] if inside_loop else ["return"] if depth == 2 else []
    kind = draw(st.sampled_from(choices))
    index = draw(indices(names))
    if kind == "store":
        guarded = [f"if 0 <= {index} and {index} < b.size:", f"    b[{index}] = v + t"]
        return guarded if draw(st.integers(0, 3)) else [f"b[{index}] = v + t"]
    if kind == "shared":
        return [f"s[({index}) % {tile}] {draw(st.sampled_from(['=', '+=']))} t"]
    if kind == "read":
        if draw(st.booleans()):
            return [f"v = s[({index}) % {tile}]"]
        return [f"if 0 <= {index} < a.size:", f"    v = a[{index}]"]
    if kind == "barrier":
        return [draw(st.sampled_from(BARRIERS))]
    if kind == "tell":
        at, by = (
            draw(st.integers(0, 1)),
            draw(st.sampled_from(["t == 0", "t == 0", "t == cuda.blockDim.x - 1", "t == 1"])),
        )
        told = [f"if {by}:", f"    s[{at}] = {index}", "cuda.syncthreads()", f"v = s[{at}]", "cuda.syncthreads()"]
        used = ["if 0 <= v:", f"    s[v % {tile}] = t"] if draw(st.booleans()) else ["if v < b.size:", "    b[v] = i"]
        # Now and then a barrier is missing, or what was told is not used.
        return told[: draw(st.sampled_from([5, 5, 4]))] + (used if draw(st.integers(0, 3)) else [])
    if kind == "atomic":
        return [f"cuda.atomic.add(s, ({index}) % {tile}, 1)"]
    if kind in ("break", "continue", "return"):
        return [f"if {draw(st.sampled_from(CONDITIONS))}:", f"    {kind}"]
    if kind == "if":
        cond = draw(
            st.sampled_from(["t < 4", "t == 0", "i < n", "i < b.size", "t % 2 == 0", "n > 2", "t > n", "v > 3"])
        )
        body = [line for _ in range(draw(st.integers(1, 2))) for line in _statement(draw, names, tile, depth - 1)]
        if draw(st.integers(0, 9)):
            body = [_BARRIER.sub("v += 1", line) for line in body]
        return [f"if {cond}:", *(f"    {line}" for line in body)]
    counter = f"k{depth}"
    inner = [*names, counter]
    body = [line for _ in range(draw(st.integers(1, 3))) for line in _statement(draw, inner, tile, depth - 1)]
    if kind == "for":
        bounds = draw(st.sampled_from(["3", "n", "1, 4", "t, 16, cuda.blockDim.x", "0, 8, 2"]))
        if "t," in bounds:
            body = [_BARRIER.sub("v += 1", line) for line in body]
        return [f"for {counter} in range({bounds}):", *(f"    {line}" for line in body)]
    step = draw(st.sampled_from([f"{counter} //= 2", f"{counter} -= 1"]))
    return [
        f"{counter} = {draw(st.sampled_from(['4', 'n', '8']))}",
        f"while {counter} > 0:",
        *(f"    {line}" for line in body),
        f"    {step}",
    ]
