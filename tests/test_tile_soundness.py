"""What the tile checks let through is right: random kernels from source, checked, launched where every condition holds.

Then no access that was proved or left to the launch traps, no race happens, and no void lane shows: zeros and poison
in the void lanes give the same bytes. Refusals are counted, so that a checker that refuses everything fails too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from tilecheck.frontend.source import Source
from tilecheck.frontend.tile import read_kernels
from tilecheck.interp.arguments import TensorArgument, TileMap, Trap
from tilecheck.interp.recorder import Recorder
from tilecheck.interp.tile import blocks, run
from tilecheck.verify.tile import check_kernel
from tilecheck.verify.tile_report import CHECKED

HEADER = """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Mut, One, Shared, Tensor, f32, i32

class BM(Dim): ...
class BN(Dim): ...
class BK(Dim): ...
"""
Shape = tuple[str, ...]


@dataclass
class Writer:
    """Writes one kernel: `tiles` are the names of tiles by shape, `ints` those of int scalars."""

    choose: random.Random
    rank: int
    mapped: bool
    two: bool
    # The axis of a mapped `z` that belongs to the block as a whole.
    owned: int | None
    # The sub-range that a mapped `z` walks, as written.
    within: str
    # The extents of `x` that its annotation names.
    declared: tuple[str | None, ...]
    lines: list[str] = field(default_factory=list)
    tiles: dict[str, Shape] = field(default_factory=dict)
    ints: list[str] = field(default_factory=lambda: ["n", "0", "1"])
    depth: int = 1
    names: int = 0

    def put(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def pick(self, *shapes: Shape) -> str | None:
        fitting = [name for name, shape in self.tiles.items() if shape in shapes]
        return self.choose.choice(fitting) if fitting else None

    def let(self, shape: Shape, text: str) -> None:
        name = self.name("t")
        self.put(f"{name} = {text}")
        self.tiles[name] = shape

    def index(self) -> str:
        chosen = self.choose.choice(self.ints)
        return self.choose.choice([chosen, chosen, chosen, f"{chosen} + 1", f"{chosen} - 1"])

    @property
    def at(self) -> str:
        """The index of a mapped `z`."""
        return "at" if self.owned is None else "z.at(at, j)"

    @property
    def own(self) -> Shape:
        return ("BM", "BN")[: self.rank]

    def step(self) -> None:
        """One more statement."""
        pad = self.choose.choice(["", "", ", pad=0.0"])
        at = f", {self.at}" if self.mapped else ""
        match 18 if self.mapped and self.choose.random() < 0.2 else self.choose.randint(0, 18):
            case 0 | 1:
                self.let(self.own, f"tc.load_like({self.choose.choice('xy')}, z{at}{pad})")
            case 2 | 3 | 4:
                shape = tuple(self.choose.choice(("BM", "BN", "BK")) for _ in range(self.rank))
                if self.choose.random() < 0.6:
                    shape = self.own
                swap = ", permute=(1, 0)" if self.rank == 2 and self.choose.random() < 0.2 else ""
                view = f"{self.choose.choice('xy')}.partition({', '.join(shape)}{pad}{swap})"
                axes = [self.index() for _ in shape]
                if self.choose.random() < 0.6:
                    axes = list(self.places())
                self.let(shape, f"{view}[{', '.join(axes)}]")
            case 5:
                self.let(self.own, f"z.load({self.at if self.mapped else ''})")
            case 6 | 7:
                one = self.choose.choice(sorted(self.tiles))
                shape = self.tiles[one]
                other = self.pick(shape) or one
                self.let(
                    shape,
                    self.choose.choice([f"{one} + {other}", f"tc.exp({one}) * 0.5", f"tc.maximum({one}, {other})"]),
                )
            case 8:
                one = self.choose.choice(sorted(self.tiles))
                axis = self.choose.randrange(len(self.tiles[one]))
                kept = tuple("One" if a == axis else d for a, d in enumerate(self.tiles[one]))
                op = self.choose.choice(("sum", "max"))
                self.let(kept, f"tc.{op}({one}, axis={axis}, keepdims=True)")
            case 9:
                one = self.choose.choice(sorted(self.tiles))
                stretch = self.choose.choice(sorted(self.tiles))
                a, b = self.tiles[one], self.tiles[stretch]
                if all(q in (p, "One") for p, q in zip(a, b, strict=True)):
                    self.let(a, f"{one} - {stretch}")
            case 10 if self.rank == 2:
                one = self.choose.choice(sorted(self.tiles))
                if self.choose.random() < 0.5:
                    self.let(self.tiles[one][::-1], f"tc.transpose({one})")
                else:
                    self.let(self.tiles[one], f"tc.cumsum({one}, axis=0)")
            case 11:
                inner = self.pick(*[s for s in self.tiles.values() if "One" not in s])
                if inner is not None and self.rank == 1 and not self.mapped:
                    (extent,) = self.tiles[inner]
                    part = self.name("p")
                    self.put(f"{part} = z.tiles({extent})")
                    self.put(f"{part}.store({inner}, {self.index()})")

            case 12:
                one = self.choose.choice(sorted(self.tiles))
                other = self.pick(self.tiles[one]) or one
                self.let(self.tiles[one], f"tc.where({one} > {other}, {one}, 0.5)")
            case 13:
                one, test = self.choose.choice(sorted(self.tiles)), self.index()
                other = self.pick(self.tiles[one]) or one
                self.put(f"if {test} > {self.choose.choice(self.ints)}:")
                self.put(f"    {one} = {other} * 2.0")
            case 14 if self.rank == 2:
                left, right = (self.choose.choice(sorted(self.tiles)) for _ in range(2))
                (a, b), (c, d) = self.tiles[left], self.tiles[right]
                if b == c:
                    self.let((a, d), f"tc.mma({left}, {right}, tc.zeros({a}, {d}))")
            case 15 if self.rank == 2:
                one = self.choose.choice(sorted(self.tiles))
                last = self.tiles[one][1]
                if last != "One":
                    self.let(self.tiles[one], f"{one} + v.partition({last}{pad})[{self.index()}]")
            case 16:
                one = self.choose.choice(sorted(self.tiles))
                flat = self.tiles[one]
                extra = ("One",) if self.choose.random() < 0.5 else ()
                back = f"tc.reshape({one}, ({', '.join((*extra, *flat))},))"
                self.let(flat, f"tc.reshape({back}, ({', '.join(flat)},))")
            case 17 if self.rank == 1 and not self.mapped:
                index = f"tc.arange(BM) + tc.block_id(0) * BM + {self.choose.choice(self.ints)}"
                place = self.name("i")
                self.put(f"{place} = {index}")
                self.let(("BM",), f"x.gather({place}, mask={place} < x.shape[0], pad=1.0)")

            case 18:
                first = next(iter(self.tiles))
                self.put(f"{first} = {self.pick(self.tiles[first])}")

    def places(self) -> tuple[str, ...]:
        """The block's own place."""
        if self.mapped:
            return tuple("j" if a == self.owned else f"at[{a}]" for a in range(self.rank))
        return tuple(f"tc.block_id({a})" for a in range(self.rank))

    def write(self) -> str:
        """The source of the kernel."""
        whole = ", ".join(["Dyn"] * self.rank)
        access = "Mapped" if self.mapped else "Mut"
        if self.mapped:
            # A tile that may pass from one round to the next.
            self.let(self.own, f"tc.zeros({', '.join(self.own)})")
            stream = (
                f"z.indices_with(w{self.within and ', '}{self.within})" if self.two else f"z.indices({self.within})"
            )
            self.put(f"for at in {stream}:")
            self.depth += 1
            if self.owned is not None:
                self.put(f"for j in range(z.num_tiles({self.owned})):")
                self.depth += 1
        self.ints += self.places()
        self.let(self.own, f"tc.load_like(x, z{f', {self.at}' if self.mapped else ''})")
        for _ in range(self.choose.randint(1, 6)):
            if self.depth < 4 and self.choose.random() < 0.25:
                array, axis = self.choose.choice("xy"), self.choose.randrange(self.rank)
                counter = self.name("k")
                extents = ", ".join(self.own)
                self.put(f"for {counter} in range({array}.partition({extents}).num_tiles({axis})):")
                self.depth += 1
                self.ints.append(counter)
                before = dict(self.tiles)
                acc = self.pick(self.own)
                self.step()
                made = self.pick(self.own)
                self.put(f"{acc} = {acc} + {made}")
                self.depth -= 1
                self.ints.remove(counter)
                self.tiles = before
            else:
                self.step()
        early = self.mapped and self.choose.random() < 0.3
        place = f", {self.at}" if self.mapped else ""
        # `t1` is the tile from before the loop, so an early store writes what the last round left in it.
        stored = f"{'    ' * self.depth}z.store({'t1' if early else self.pick(self.own)}{place})"
        self.lines.insert(2 + (self.owned is not None) if early else len(self.lines), stored)
        if self.two:
            self.put(f"w.store({self.pick(self.own)}{place})")
        named = ", ".join(self.declared[a] or "Dyn" for a in range(self.rank))
        params = f"z: Tensor[{access}, f32, {', '.join(self.own)}], x: Tensor[Shared, f32, {named}], y: Tensor[Shared, f32, {whole}]"
        params += ", v: Tensor[Shared, f32, Dyn]" + (
            f", w: Tensor[{access}, f32, {', '.join(self.own)}]" if self.two else ""
        )
        return f"{HEADER}\n@tc.kernel\ndef k({params}, n: int) -> None:\n" + "\n".join(self.lines) + "\n"


def outcome(seed: int) -> str:
    """What became of one random kernel; asserts that what was launched is right."""
    choose = random.Random(seed)
    rank = choose.choice((1, 2))
    mapped = choose.random() < 0.4
    owned = choose.randrange(2) if mapped and rank == 2 and choose.random() < 0.4 else None
    two = owned is None and choose.random() < 0.3
    ranges = [choose.choice(("(0, -1)", "(1, -1)", "(0, 1)", "(n, 1)", "(1, n)", "(n, n)")) for _ in range(rank)]
    pairs = ranges[0] if rank == 1 else f"({', '.join(ranges)})"
    within = f"within={pairs}" if mapped and owned is None and choose.random() < 0.4 else ""
    declared = tuple(choose.choice((None, None, None, d, "BK")) for d in ("BM", "BN")[:rank])
    text = Writer(choose, rank, mapped, two, owned, within, declared).write()
    kernels, faults = read_kernels(Source("random.py", text), lambda module, importer: None)
    if faults:
        return "unread"
    (kernel,) = kernels
    if check_kernel(kernel).faults:
        return "refused"
    dims = {key: choose.randint(1, 4) for key, decl in kernel.dims.items() if decl.size is None}
    named = {decl.name: dims.get(key, 1) for key, decl in kernel.dims.items()}
    report = check_kernel(kernel, dims)
    if report.faults:
        return "refused at build"
    tile = tuple(named[d] for d in ("BM", "BN")[:rank])
    shape = tuple(t * choose.randint(1, 3) - (choose.randrange(t) if choose.random() < 0.4 else 0) for t in tile)
    lengths = {"z": shape, "v": (shape[-1] + choose.choice((0, 0, 1, -1)),)}
    for name in "xy":
        lengths[name] = tuple(n + choose.choice((0, 0, 0, 0, 1, 3, -1)) for n in shape)
    lengths["x"] = tuple(named.get(d or "", n) for d, n in zip(declared, lengths["x"], strict=True))
    if two:
        lengths["w"] = tuple(-(-n // t) * t - choose.randrange(t) for n, t in zip(shape, tile, strict=True))
    if min(min(s) for s in lengths.values()) < 1:
        return "empty"
    n = choose.randint(0, 2)
    tiles = tuple(-(-e // t) for e, t in zip(shape, tile, strict=True))
    bands = choose.choice((1, 1, 2))
    streamed = tuple(0 if axis == owned else bands if axis == 0 else 1 for axis in range(rank))
    count = choose.randint(1, int(np.prod([n for axis, n in enumerate(tiles) if axis != owned])))
    grid = (count, 1, 1) if mapped else (*tiles, 1, 1)[:3]
    for condition in report.conditions:
        if condition.evaluate(lengths, {"n": n}, dims, grid) is not None:
            return "refused at launch"
    data = np.random.default_rng(seed)
    inputs = {name: data.normal(size=lengths[name]).astype(np.float32) for name in "xyv"}
    start = data.normal(size=shape).astype(np.float32)
    results = []
    order = list(blocks(grid))
    choose.shuffle(order)
    for void in ("zero", "poison"):
        z, w = start.copy(), np.zeros(lengths.get("w", (1,)), np.float32)
        walked = TileMap(streamed, count) if mapped else None
        cut = TensorArgument(z, tile, walked)
        recorder = Recorder()
        arguments: dict[str, Any] = {"z": cut, **{k: TensorArgument(a) for k, a in inputs.items()}, "n": n}
        if two:
            arguments["w"] = TensorArgument(w, tile, walked)
        try:
            run(report, arguments, grid, dims, order=order, recorder=recorder, void=void)
        except Trap as trap:
            assert trap.rule == "out-of-bounds" and any(a.rung in CHECKED for a in report.accesses), (str(trap), text)
            return "trapped"
        assert recorder.races == [], text
        results.append(z.tobytes() + w.tobytes())
    assert results[0] == results[1], f"a void lane shows\n{text}\n{lengths} {dims} n={n}"
    return "ran"


@pytest.mark.parametrize("block", range(4))
def test_what_is_launched_is_right(block: int) -> None:
    found = [outcome(1000 * block + seed) for seed in range(60)]
    assert found.count("ran") >= 15, {kind: found.count(kind) for kind in set(found)}
    assert found.count("unread") == 0
