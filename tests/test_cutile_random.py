"""Random cuTile kernels: what is proved of them holds when their text runs, block by block, on a small stand-in of cuTile."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules

KERNELS = 90


@dataclass
class Array:
    """An array whose elements remember the blocks that read and write them."""

    shape: tuple[int, ...]
    readers: dict[tuple[int, ...], set[object]] = field(default_factory=dict)
    writers: dict[tuple[int, ...], set[object]] = field(default_factory=dict)


class Machine:
    """One launch: `outside` says whether a tile began outside of its array."""

    def __init__(self) -> None:
        self.block: tuple[int, ...] = (0, 0, 0)
        self.grid: tuple[int, ...] = (1, 1, 1)
        self.outside = False
        self.ct = SimpleNamespace(
            bid=lambda axis: self.block[axis],
            num_blocks=lambda axis: self.grid[axis],
            cdiv=lambda a, b: -(-a // b),
            arange=lambda n, dtype: np.arange(n),
            zeros=lambda shape, dtype: np.zeros(shape),
            where=np.where,
            load=self.load,
            store=self.store,
            gather=lambda array, at: self.elements(array, at, array.readers),
            scatter=lambda array, at, value: self.elements(array, at, array.writers),
            int32=None,
            float32=None,
        )

    def touch(self, array: Array, index: Sequence[int], shape: Sequence[int], table: dict[Any, set[object]]) -> None:
        first = [i * n for i, n in zip(index, shape, strict=True)]
        if any(not 0 <= at < extent for at, extent in zip(first, array.shape, strict=True)):
            self.outside = True
            return
        for place in product(*(range(at, at + n) for at, n in zip(first, shape, strict=True))):
            if all(p < extent for p, extent in zip(place, array.shape, strict=True)):
                table.setdefault(place, set()).add(self.block)

    def load(self, array: Array, index: Sequence[int], shape: Sequence[int]) -> Any:
        self.touch(array, index, shape, array.readers)
        return np.zeros(shape)

    def store(self, array: Array, index: Sequence[int], tile: Any) -> None:
        self.touch(array, index, tile.shape, array.writers)

    def elements(self, array: Array, at: Any, table: dict[Any, set[object]]) -> Any:
        places = np.broadcast_arrays(*(at if isinstance(at, tuple) else (at,)))
        for place in zip(*(p.ravel().tolist() for p in places), strict=True):
            if all(0 <= p < extent for p, extent in zip(place, array.shape, strict=True)):
                table.setdefault(place, set()).add(self.block)
        return np.zeros(places[0].shape)


def scalar(rng: random.Random, names: list[str], depth: int = 2) -> str:
    """An int expression over `names`."""
    kind = rng.random()
    if depth == 0 or kind < 0.35:
        return rng.choice([*names, *names, str(rng.randint(0, 3))])
    inner = scalar(rng, names, depth - 1)
    if kind < 0.55:
        return f"({inner} + {scalar(rng, names, depth - 1)})"
    if kind < 0.7:
        return f"{inner} * {rng.randint(1, 4)}"
    return f"({inner} {rng.choice(['//', '%'])} {rng.randint(1, 4)})"


def body(rng: random.Random) -> list[str]:
    """The statements of a kernel with arrays `x` and `y` of rank 2 and `flat` of rank 1, and a tile extent `T`."""
    lines = ["b, c = ct.bid(0), ct.bid(1)", f"i = {scalar(rng, ['b', 'c'])}"]
    names, pad = ["b", "c", "i"], ""
    if rng.random() < 0.4:
        start, step = rng.choice([("b", "ct.num_blocks(0)"), ("0", "1"), ("c", "2"), ("b", "ct.num_blocks(0) + 1")])
        lines.append(f"for j in range({start}, {rng.randint(2, 5)}, {step}):")
        names, pad = [*names, "j"], "    "
    if rng.random() < 0.3:
        lines.append(f"{pad}i = {scalar(rng, names)}")
    if rng.random() < 0.3:
        lines.append(f"{pad}if {scalar(rng, names)} < {rng.randint(1, 4)}:")
        pad += "    "
    for _ in range(rng.randint(1, 2)):
        one, two = scalar(rng, names), scalar(rng, names)
        lines.append(
            pad
            + rng.choice(
                [
                    f"ct.store(y, ({one}, {two}), ct.zeros((T, 2), dtype=ct.float32))",
                    f"ct.store(y, ({one}, {two}), ct.load({rng.choice('xy')}, ({two}, {one}), (T, T)))",
                    f"ct.scatter(flat, {one} * T + ct.arange(T, dtype=ct.int32), ct.zeros((T,), dtype=ct.float32))",
                    f"ct.scatter(y, (({one} + ct.arange(T, dtype=ct.int32))[:, None], {two}), ct.load(x, (0, 0), (T, 1)))",
                    f"ct.scatter(flat, ct.where(ct.arange(4, dtype=ct.int32) < {one}, {two}, b * 4), ct.load(x, (0, 0), (4, 1)))",
                ]
            )
        )
    return lines


def program(rng: random.Random) -> tuple[str, Callable[[Machine], dict[str, Array]]]:
    """The text of a file with a kernel and its launch, and a run of it."""
    grid, tile = (rng.randint(1, 4), rng.randint(1, 3)), rng.choice([1, 2, 4])
    shape, length = (rng.randint(4, 24), rng.randint(4, 24)), rng.randint(8, 40)
    lines = body(rng)
    text = "\n".join(
        [
            "import torch\nimport cuda.tile as ct\n\n",
            "@ct.kernel\ndef k(x, y, flat, T: ct.Constant[int]):",
            *(f"    {line}" for line in lines),
            "\n\ndef main():",
            f"    x, y = torch.zeros({shape}, device='cuda'), torch.zeros({shape}, device='cuda')",
            f"    flat = torch.zeros({length}, device='cuda')",
            f"    ct.launch(torch.cuda.current_stream(), {grid}, k, (x, y, flat, {tile}))\n",
        ]
    )

    def run(machine: Machine) -> dict[str, Array]:
        arrays = {"x": Array(shape), "y": Array(shape), "flat": Array((length,))}
        code = "def k(ct, x, y, flat, T):\n" + "\n".join(f"    {line}" for line in lines)
        scope: dict[str, Any] = {}
        exec(code, scope)
        machine.grid = (*grid, 1)
        for c, b in product(range(grid[1]), range(grid[0])):
            machine.block = (b, c, 0)
            scope["k"](machine.ct, *arrays.values(), tile)
        return arrays

    return text, run


def races(array: Array) -> bool:
    """Whether one block writes what another reads or writes."""
    return any(len(writers | array.readers.get(place, set())) > 1 for place, writers in array.writers.items())


@pytest.mark.parametrize("seed", range(KERNELS))
def test_what_is_proved_holds(seed: int) -> None:
    text, run = program(random.Random(seed))
    (kernel,) = check_text("k.py", text, Modules(), Options(budget=3.0)).kernels
    machine = Machine()
    racy = any(map(races, run(machine).values()))
    race, bounds = kernel.verdicts["race-free"].verdict, kernel.verdicts["in-bounds"].verdict
    assert not (racy and race in ("proven", "proven-given")), text
    assert not (machine.outside and bounds in ("proven", "proven-given")), text
    if race == "refuted":
        assert racy or machine.outside, text
    if bounds == "refuted":
        assert machine.outside, text


def test_many_kernels_are_decided() -> None:
    """The property above would hold of a checker that knows nothing."""
    decided = 0
    for seed in range(0, KERNELS, 3):
        (kernel,) = check_text("k.py", program(random.Random(seed))[0], Modules(), Options(budget=3.0)).kernels
        decided += kernel.verdicts["race-free"].verdict != "unknown"
    assert decided > KERNELS // 3 * 0.6
