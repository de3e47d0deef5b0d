"""Random thread-level kernels and launches, for the tests of the prover.

A kernel is text in numba-cuda's language: affine, modular and bit-wise indices, shared memory, barriers, loops, guards;
of the structured ones also helpers that return early, and arrays that are chosen, cut or kept to oneself.
Shared indices are reduced modulo the tile, global ones guarded or not; barriers stand where all threads get to, except
now and then. Nothing is done to make a kernel safe or unsafe: that is for the prover and the executor to agree on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hypothesis import strategies as st

HOSTILE_HEADER = """from numba import cuda, int16, int32, uint8, uint32


@cuda.jit(device=True)
def put(x, k, value):
    x[k] = value


@cuda.jit
def k(a, b, n):
"""
HEADER = "from numba import cuda, float32, int8, int32, uint8\n\n\n@cuda.jit\ndef k(a, b, n):\n"
TILES = (8, 16)
BARRIERS = ("cuda.syncthreads()", "cuda.syncthreads()", "cuda.syncwarp()", "cuda.syncwarp(0xF)")
# Scalars for which 64 bits are too few, or that shift everything away.
SCALARS = (-1, 0, 1, 3, 5, 64, 2**31, 2**32 + 1, -(2**40), 2**61, 2**62, 2**62 + 1, 3 * 2**60, -(2**63), 2**63 - 1)
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
def launches(draw: st.DrawFn, hostile: bool = False) -> RandomLaunch:
    block = draw(st.sampled_from([1, 2, 3, 4, 8, 16, 33]))
    grid = draw(st.sampled_from([1, 2, 3]))
    size = st.sampled_from([1, 2, 5, 8, 16, 24, 40, 100])
    scalars = SCALARS if hostile else (0, 1, 2, 3, 5, 8, 16, 31)
    return RandomLaunch(grid, block, (draw(size), draw(size)), draw(st.sampled_from(scalars)))


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


_BY_SCALAR = (
    "{} * n",
    "{} * n",
    "{} * n",
    "{} * n * n",
    "{} * n",
    "{} + n",
    "n - {}",
    "{} * n + 1",
    "{} // n",
    "{} % n",
    "({} << n)",
    "({} >> n)",
    "(n + {}) // 2",
)
_SIGNED = ("(-{}) % 7", "(-{}) // 2", "-({} // -2)", "abs({} - 3)", "min({}, 5)", "max({}, 2)", "(2 - {}) >> 1")
_NARROW = ("int16({} * n)", "int16({} * 4096)", "int32({} + n)", "uint32({} - n)", "int32({} << 28)")


def hostile_indices(names: list[str]) -> st.SearchStrategy[str]:
    """Integer expressions that may wrap, go below zero, or lose bits."""
    name = st.sampled_from(names)
    forms = st.builds(lambda form, x: form.format(x), st.sampled_from(_BY_SCALAR + _SIGNED + _NARROW), name)
    unsigned = st.builds(
        lambda x, y, dtype: f"{dtype}({x}) - {dtype}({y})",
        name,
        st.one_of(name, st.integers(0, 4).map(str)),
        st.sampled_from(["uint32", "uint8"]),
    )
    return st.one_of(forms, forms, forms, unsigned, indices(names))


@st.composite
def hostile_kernels(draw: st.DrawFn) -> str:
    """The text of a module with one kernel `k(a, b, n)`: big scalars, odd arithmetic, views, helpers, local arrays."""
    lines = ["t = cuda.threadIdx.x", "i = cuda.grid(1)", "v = 0"]
    for _ in range(draw(st.integers(1, 3))):
        lines += _hostile_statement(draw, ["t", "i"], 1)
    return HOSTILE_HEADER + "".join(f"    {line}\n" for line in lines)


def _hostile_statement(draw: st.DrawFn, names: list[str], depth: int) -> list[str]:
    kind = draw(
        st.sampled_from(
            ["above", "above", "above", "store", "view", "helper", "local", "slice"] + ["for", "while"] * depth
        )
    )
    index = draw(hostile_indices(names))
    value = draw(st.sampled_from(["t", "v", "1", "i"]))
    match kind:
        case "store":
            return [f"k = {index}", "if 0 <= k and k < b.size:", f"    b[k] = {value}"]
        case "above":
            # What is known of `k` decides whether the lower bound is missed.
            known = draw(st.sampled_from(["n >= 0", "n >= 1", "n >= 1", "0 < n < 40", "i >= 0"]))
            return [f"k = {index}", f"if {known} and k < b.size:", f"    b[k] = {value}"]
        case "view":
            cut = draw(st.sampled_from(["0:", "2:", "n:", "1::2", "::-1", ":n", "-3:"]))
            return [f"w = b[{cut}]", f"k = {index}", "if 0 <= k and k < w.size:", f"    w[k] = {value}"]
        case "slice":
            return [
                f"k = {index}",
                "if 0 <= k < b.size:",
                f"    b[k:k + {draw(st.sampled_from(['1', '2', 'n']))}] = {value}",
            ]
        case "helper":
            return [f"k = {index}", "if 0 <= k < b.size:", f"    put(b, k, {value})"]
        case "local":
            return ["q = cuda.local.array(4, int32)", "q[0] = v", f"q[({index}) % 4] = t", f"v = q[({index}) % 4]"]
    body = _hostile_statement(draw, [*names, "r"], depth - 1)
    if kind == "for":
        bounds = draw(st.sampled_from(["3", "0, 8, 3", "5, 0, -2", "n, n + 2", "i, b.size, cuda.gridsize(1)"]))
        return [f"for r in range({bounds}):", *(f"    {line}" for line in body)]
    start, test, step = draw(
        st.sampled_from(
            [
                ("0", "r < 4", "r += 1"),
                ("i", "r < b.size", "r += cuda.gridsize(1)"),
                ("n", "r > 0", "r //= 2"),
                ("1", "r < n", "r *= 4"),
            ]
        )
    )
    return [f"r = {start}", f"while {test}:", *(f"    {line}" for line in body), f"    {step}"]


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


STRUCTURED_HEADER = """from numba import cuda, int32


@cuda.jit(device=True)
def put(x, k, value):
    if value > 2:
        return 0
    if value == 1:
        x[k] = value
        return 1
    x[k] = value + 1
    return 2


@cuda.jit(device=True)
def scan(x, count, level):
    for k in range(count):
        if x[k] > level:
            return k
        x[k] = level
    return count


@cuda.jit(device=True)
def find(x, count, wanted):
    for k in range(count):
        if x[k] == wanted:
            return k
    return 0


@cuda.jit(device=True)
def pick(x, y, first):
    if first:
        return x
    return y


@cuda.jit(device=True)
def meet(x, k, by_two):
    if by_two:
        cuda.syncthreads()
        x[k] = k
        cuda.syncthreads()
        return x[0]
    cuda.syncthreads()
    return 1


@cuda.jit
def k(a, b, n):
"""
_DECIDED = ("t < 4", "t == 0", "v > 1", "v == t", "n > 2", "n > 1", "t % 2 == 0", "x[t % 8] > v", "s[0] != v")
_PLACES = ("t", "t", "t", "t % 8", "(t + 1) % 16", "t ^ 1", "0", "v % 8", "15 - t % 16")


@st.composite
def structured_kernels(draw: st.DrawFn) -> str:
    """The text of a module with one kernel `k(a, b, n)`: helpers that return early, `else` of loops, arrays that are
    chosen, cut or kept to oneself.
    """
    lines = ["t = cuda.threadIdx.x", "i = cuda.grid(1)", "v = 0", "s = cuda.shared.array(64, int32)", "s[t] = 0"]
    lines += ["u = cuda.shared.array(64, int32)", "u[t] = t", "m = cuda.local.array(64, int32)", "m[t] = 1", "x = s"]
    lines.append("cuda.syncthreads()")
    for _ in range(draw(st.integers(3, 6))):
        lines += _structured(draw, 2)
    return STRUCTURED_HEADER + "".join(f"    {line}\n" for line in lines)


def _structured(draw: st.DrawFn, depth: int) -> list[str]:
    kind = draw(
        st.sampled_from(["store", "read", "use", "barrier", "helper", "choose"] + ["if", "for", "while"] * depth)
    )
    array, place = draw(st.sampled_from(["s", "u", "m", "x"])), draw(st.sampled_from(_PLACES))
    cond, value = draw(st.sampled_from(_DECIDED)), draw(st.sampled_from(["t", "v", "1", "n"]))
    match kind:
        case "store":
            return [f"{array}[{place}] {draw(st.sampled_from(['=', '=', '+=']))} {value}"]
        case "read":
            return [f"v = {array}[{place}]"]
        case "use":
            return [f"if {cond} and i < b.size:", f"    b[{draw(st.sampled_from(['i', 'i', '0']))}] = {value}"]
        case "barrier":
            return ["cuda.syncthreads()"]
        case "choose":
            other = draw(st.sampled_from(["s", "u", "m"]))
            made = [f"{array} if {cond} else {other}", f"pick({array}, {other}, {cond})"] if array != other else [array]
            return [f"x = {draw(st.sampled_from([*made, f'{array}[:]', f'{array}[n % 3:]', f'{array}[::-1]']))}"]
        case "helper":
            calls = [f"put({array}, {place}, {value})", f"scan({array}, n % 3, {value})", f"find({array}, 4, {value})"]
            return [f"v = {draw(st.sampled_from([*calls, f'meet({array}, {place}, {cond})']))}"]
    body = [line for _ in range(draw(st.integers(1, 3))) for line in _structured(draw, depth - 1)]
    if kind == "if":
        other_lines = _structured(draw, depth - 1) if draw(st.booleans()) else ["v += 1"]
        return [f"if {cond}:", *(f"    {line}" for line in body), "else:", *(f"    {line}" for line in other_lines)]
    leave = [
        f"if {cond}:",
        *(f"    {line}" for line in _structured(draw, 0)),
        f"    {draw(st.sampled_from(['break', 'continue']))}",
    ]
    if kind == "for":
        body += leave if draw(st.booleans()) else []
        end = ["else:", *(f"    {line}" for line in _structured(draw, 0))] if draw(st.booleans()) else []
        bounds = draw(st.sampled_from(["2", "n", "t % 3", "n, 0, -1"]))
        return [f"for r{depth} in range({bounds}):", *(f"    {line}" for line in body), *end]
    return [
        f"q{depth} = {draw(st.sampled_from(['3', 'n', 't % 4']))}",
        f"while q{depth} > 0:",
        f"    q{depth} -= 1",
        *(f"    {line}" for line in [*body, *leave]),
    ]
