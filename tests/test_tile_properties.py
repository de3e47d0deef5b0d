"""Random tile kernels: one result for every order of blocks, the result of whole-array NumPy, no race, no void lane
in it.

A random kernel is a pair: statements for the interpreter, and the same computation on whole arrays by the same
meanings. Tiling, order and poison must not show.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tile_builder import (
    binary,
    build,
    call,
    compare,
    do,
    each,
    item,
    let,
    loop,
    mapped,
    mut,
    scalar,
    shared,
    when,
)
from tilecheck.interp.arguments import TensorArgument, TileMap
from tilecheck.interp.recorder import Recorder
from tilecheck.interp.schedule import visits
from tilecheck.interp.tile import blocks, run
from tilecheck.ops import OPS, operators

ELEMENTWISE = settings(max_examples=80, deadline=None, derandomize=True)
FLOAT_UNARY = ("negative", "abs", "exp", "sin", "sqrt", "floor", "square")
BINARY = ("+", "-", "*")
NAMED = ("minimum", "maximum")


@dataclass
class Maker:
    """Draws expressions over the inputs: the kernel's text and the value on whole arrays grow together."""

    choose: random.Random
    arrays: dict[str, Any]
    load: Any
    scalars: dict[str, float] = field(default_factory=dict)

    def expression(self, depth: int) -> tuple[Any, Any]:
        pick = self.choose.random()
        if depth == 0 or pick < 0.15:
            if pick < 0.05 and self.scalars:
                name = self.choose.choice(sorted(self.scalars))
                return name, self.scalars[name]
            name = self.choose.choice(sorted(self.arrays))
            return self.load(name), self.arrays[name]
        if pick < 0.35:
            op = self.choose.choice(FLOAT_UNARY)
            inner, value = self.tile(depth - 1)
            return call(op, inner), OPS[op].meaning(value)
        if pick < 0.5:
            (a, x), (b, y), (c, z) = (self.tile(depth - 1) for _ in range(3))
            less = OPS["less"].meaning(x, y)
            return call("where", compare("<", a, b), a, c), OPS["where"].meaning(less, x, z)
        (a, x), (b, y) = self.tile(depth - 1), self.expression(depth - 1)
        if self.choose.random() < 0.5:
            a, x, b, y = b, y, a, x
        if self.choose.random() < 0.3:
            op = self.choose.choice(NAMED)
            return call(op, a, b), OPS[op].meaning(x, y)
        op = self.choose.choice(BINARY)
        return binary(op, a, b), operators()[op].meaning(x, y)

    def tile(self, depth: int) -> tuple[Any, Any]:
        """As `expression`, but never a scalar."""
        while True:
            made = self.expression(depth)
            if isinstance(made[1], np.ndarray):
                return made


def orders(grid: tuple[int, int, int], choose: random.Random) -> list[list[tuple[int, int, int]]]:
    natural = list(blocks(grid))
    shuffled = natural[:]
    choose.shuffle(shuffled)
    return [natural, natural[::-1], shuffled]


def outcomes(
    report: Any, make: Any, grid: tuple[int, int, int], dims: dict[str, int], choose: random.Random
) -> list[bytes]:
    """The bytes of the outputs for several orders, with zero and with poisoned void lanes. No run may race."""
    found = []
    for order in orders(grid, choose):
        for void in ("zero", "poison"):
            arguments, outputs = make()
            recorder = Recorder()
            run(report, arguments, grid, dims, order=order, recorder=recorder, void=void)
            assert recorder.races == []
            found.append(b"".join(out.tobytes() for out in outputs))
    # As launches run it: larger tiles where they cannot show.
    arguments, outputs = make()
    run(report, arguments, grid, dims)
    return [*found, b"".join(out.tobytes() for out in outputs)]


@given(st.integers(0, 2**32), st.integers(1, 3), st.sampled_from([np.float32, np.float64, np.float16]))
@ELEMENTWISE
def test_elementwise_kernels(seed: int, rank: int, dtype: Any) -> None:
    choose = random.Random(seed)
    shape = tuple(choose.randint(1, 9) for _ in range(rank))
    tile = tuple(choose.randint(1, 5) for _ in range(rank))
    data = np.random.default_rng(seed)
    arrays = {name: data.normal(size=shape).astype(dtype) for name in ("x", "y")}
    with np.errstate(all="ignore"):
        maker = Maker(choose, arrays, lambda name: call("load_like", name, "z"), {"a": 0.5})
        text, wanted = maker.tile(3)
        more, second = maker.tile(2)
    both = OPS["add"].meaning(wanted, second)
    body = [do("store", "z", text), let("t", call("load", "z"))]
    body.append(do("store", "z", binary("+", "t", more)))
    report = build("random", [mut("z"), shared("x"), shared("y"), scalar("a")], body)
    grid = tuple(-(-n // t) for n, t in zip(shape, tile, strict=True))
    grid = (*grid, 1, 1, 1)[:3]

    def make() -> tuple[dict[str, Any], list[Any]]:
        z = np.full(shape, 77, dtype)
        inputs = {name: TensorArgument(array) for name, array in arrays.items()}
        return {"z": TensorArgument(z, tile), **inputs, "a": 0.5}, [z]

    results = outcomes(report, make, grid, {}, choose)
    assert set(results) == {both.astype(dtype).tobytes()} or _equal(results, both, shape, dtype)


def _equal(results: list[bytes], wanted: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether all results are one, equal to `wanted` up to the sign and payload of nan."""
    arrays = [np.frombuffer(r, dtype).reshape(shape) for r in results]
    return all(np.array_equal(a, wanted, equal_nan=True) for a in arrays)


@given(st.integers(0, 2**32))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_mapped_kernels_cover_exactly_once(seed: int) -> None:
    choose = random.Random(seed)
    rank = choose.randint(1, 3)
    shape = tuple(choose.randint(1, 9) for _ in range(rank))
    tile = tuple(choose.randint(1, 4) for _ in range(rank))
    tiles = tuple(-(-n // t) for n, t in zip(shape, tile, strict=True))
    map_shape = tuple(choose.choice((0, 1, 1, 2, 3)) for _ in range(rank))
    if not any(map_shape):
        map_shape = (1, *map_shape[1:])
    streamed = int(np.prod([n for n, g in zip(tiles, map_shape, strict=True) if g]))
    count = choose.randint(1, streamed)
    owned = [axis for axis, entry in enumerate(map_shape) if entry == 0]
    at: Any = "at" if not owned else call("at", "z", "at", *(f"j{axis}" for axis in owned))
    inner: Any = do("store", "z", binary("+", call("load", "z", at), call("load_like", "x", "z", at)), at)
    for axis in owned:
        inner = loop(f"j{axis}", call("num_tiles", "z", axis), [inner])
    report = build("visits", [mapped("z"), shared("x")], [each("at", call("indices", "z"), [inner])])
    x = np.random.default_rng(seed).normal(size=shape)

    def make() -> tuple[dict[str, Any], list[Any]]:
        z = np.ones(shape)
        return {"z": TensorArgument(z, tile, TileMap(map_shape, count)), "x": TensorArgument(x)}, [z]

    assert set(outcomes(report, make, (count, 1, 1), {}, choose)) == {(1 + x).tobytes()}


@given(st.integers(0, 2**32))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_schedules_partition_every_range(seed: int) -> None:
    choose = random.Random(seed)
    rank = choose.randint(1, 4)
    extents = tuple(choose.randint(0, 5) for _ in range(rank))
    start = tuple(choose.randint(0, 3) for _ in range(rank))
    tiles = TileMap(tuple(choose.randint(1, 4) for _ in range(rank)), choose.randint(1, 7))
    seen = [tile for block in range(tiles.blocks) for tile in visits(block, start, extents, tiles)]
    assert sorted(seen) == sorted(  # type: ignore[type-var]
        tuple(s + i for s, i in zip(start, index, strict=True)) for index in np.ndindex(extents)
    )


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_nested_tiles_stay_in_their_block(seed: int) -> None:
    choose = random.Random(seed)
    rank = choose.randint(1, 3)
    names = ("D", "E", "F")[:rank]
    shape = tuple(choose.randint(1, 12) for _ in range(rank))
    tile = tuple(choose.randint(1, 7) for _ in range(rank))
    dims = {name: choose.randint(1, 8) for name in names}
    other = {f"{name}2": choose.randint(1, 8) for name in names}
    body: list[Any] = []
    for view, shapes in (("a", names), ("b", tuple(other))):
        body.append(let(view, call("tiles", "z", *shapes)))
        value = (
            binary("+", call("full", shapes, 1.0), call("block_id", 0)) if view == "a" else call("full", shapes, 5.0)
        )
        indices = [f"{view}{axis}" for axis in range(rank)]
        stored: Any = do("store", view, value, *indices)
        if view == "b":
            stored = when(compare("==", binary("%", indices[0], 2), 0), [stored])
        for axis in reversed(range(rank)):
            stored = loop(indices[axis], call("num_tiles", view, axis), [stored])
        body.append(stored)
    report = build("nested", [mut("z")], body)
    grid = (*(-(-n // t) for n, t in zip(shape, tile, strict=True)), 1, 1, 1)[:3]

    def make() -> tuple[dict[str, Any], list[Any]]:
        z = np.zeros(shape, np.float32)
        return {"z": TensorArgument(z, tile)}, [z]

    results = outcomes(report, make, grid, {**dims, **other}, choose)
    wanted = np.zeros(shape, np.float32)
    for index in np.ndindex(shape):
        inside = index[0] % tile[0] // other[f"{names[0]}2"]
        wanted[index] = 5 if inside % 2 == 0 else 1 + index[0] // tile[0]
    assert set(results) == {wanted.tobytes()}


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_gemm_of_any_extents(seed: int) -> None:
    choose = random.Random(seed)
    m, n, k = (choose.randint(1, 12) for _ in range(3))
    dims = {"BM": choose.randint(1, 5), "BN": choose.randint(1, 5), "BK": choose.randint(1, 5)}
    product = call("mma", call("load_tile", "xs", "i", "k"), call("load_tile", "ys", "k", "j"), "acc")
    body = [
        let("i", call("block_id", 0)),
        let("j", call("block_id", 1)),
        let("xs", call("partition", "x", "BM", "BK", pad=0.0)),
        let("ys", call("partition", "y", "BK", "BN", pad=0.0)),
        let("acc", call("zeros", "BM", "BN")),
        loop("k", call("num_tiles", "xs", 1), [let("acc", product)]),
        do("store", "z", "acc"),
    ]
    report = build("gemm", [mut("z"), shared("x"), shared("y")], body)
    data = np.random.default_rng(seed)
    x, y = (data.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (k, n)))

    def make() -> tuple[dict[str, Any], list[Any]]:
        z = np.full((m, n), -7, np.float32)
        return {"z": TensorArgument(z, (dims["BM"], dims["BN"])), "x": TensorArgument(x), "y": TensorArgument(y)}, [z]

    grid = (-(-m // dims["BM"]), -(-n // dims["BN"]), 1)
    assert set(outcomes(report, make, grid, dims, choose)) == {(x @ y).tobytes()}


@given(st.integers(0, 2**32))
@settings(max_examples=80, deadline=None, derandomize=True)
def test_overlapping_outputs_always_race(seed: int) -> None:
    choose = random.Random(seed)
    tile, count = choose.randint(1, 4), choose.randint(2, 4)
    shift = choose.randint(1, tile * count - 1)
    report = build(
        "pair", [mut("a"), mut("b")], [do("store", "a", call("ones", "B")), do("store", "b", call("zeros", "B"))]
    )
    memory = np.zeros(2 * tile * count, np.float32)
    first, second = memory[: tile * count], memory[shift : shift + tile * count]
    for order in orders((count, 1, 1), choose):
        recorder = Recorder()
        arguments = {"a": TensorArgument(first, (tile,)), "b": TensorArgument(second, (tile,))}
        run(report, arguments, (count, 1, 1), {"B": tile}, order=order, recorder=recorder)
        # Blocks i and j overlap iff the shifted tile j meets tile i; only i == j everywhere would be no race.
        meets = any(
            i != j and max(i * tile, shift + j * tile) < min((i + 1) * tile, shift + (j + 1) * tile)
            for i in range(count)
            for j in range(count)
        )
        assert bool(recorder.races) == meets


def test_items_of_an_index_are_where_it_stores() -> None:
    body = [each("at", call("indices", "z"), [do("store", "z", call("full", ("One", "One"), item("at", 1)), "at")])]
    z = np.zeros((3, 4), np.float32)
    arguments = {"z": TensorArgument(z, (1, 1), TileMap((2, 1), 5))}
    run(build("items", [mapped("z")], body), arguments, (5, 1, 1), {"One": 1})
    assert (z == np.arange(4)).all()
