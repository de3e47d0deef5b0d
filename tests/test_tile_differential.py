"""The ladder against the interpreter, which checks every access in place.

Random kernels, random launches. If no launch condition refuses a launch, then the interpreter may stop only at an access
whose assert stays in the kernel; where the ladder says proven, static, block-id, declared or launch, it never does. And
void lanes that the conditions let through never reach a result: poison in them changes nothing.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tile_text import check, refusal
from tilecheck.interp.arguments import TensorArgument, Trap
from tilecheck.interp.tile import run
from tilecheck.ir.kernel import Assert, Binary, Compare, Const, Expr, Extent, If, Logic, Name, Stmt
from tilecheck.ir.types import ScalarType
from tilecheck.verify.tile_asserts import HoistedCheck
from tilecheck.verify.tile_report import CHECKED, TileReport

RANDOM = settings(max_examples=60, deadline=None, derandomize=True)
PARAMS = "z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn], n: int, m: int"
REQUIRES = ("", "n >= 0", "0 <= n and n < x.size // B", "x.size == y.size", "x.size >= z.size and m >= 1", "n % 2 == 0")


class Kernels:
    """Draws the statements of a kernel over two views, two scalars and the names in scope."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose
        self.ints = ["n", "m", "tc.block_id(0)"]
        self.names = 0

    def integer(self, depth: int) -> str:
        pick = self.choose.randrange(14 if depth else 5)
        if pick < 3:
            return self.choose.choice(self.ints)
        if pick == 3:
            return str(self.choose.randint(-1, 3))
        if pick == 4:
            return self.choose.choice(["xs.num_tiles(0)", "ys.num_tiles(0)", "x.size // B", "tc.num_blocks(0)"])
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        if pick < 9:
            return f"({a} {self.choose.choice('+-*')} {b})"
        if pick == 9:
            return f"({a} // {self.choose.choice([2, 3])})"
        if pick == 10:
            return f"({a} % {self.choose.choice(['2', '3', 'B'])})"
        return f"{self.choose.choice(['min', 'max'])}({a}, {b})"

    def condition(self) -> str:
        relation = self.choose.choice(["<", "<=", ">", ">=", "==", "!="])
        one = f"{self.integer(1)} {relation} {self.integer(1)}"
        if self.choose.random() < 0.4:
            view = self.choose.choice(["xs", "ys"])
            one = f"0 <= {self.choose.choice(self.ints)} < {view}.num_tiles(0)"
        if self.choose.random() < 0.2:
            return f"{one} {self.choose.choice(['and', 'or'])} {self.integer(0)} > 0"
        return f"not {one}" if self.choose.random() < 0.1 else one

    def range(self) -> str:
        view = self.choose.choice(["xs", "ys"])
        return self.choose.choice(
            [
                f"range({view}.num_tiles(0))",
                f"range({view}.num_tiles(0))",
                f"range(1, {view}.num_tiles(0), 2)",
                f"range({view}.num_tiles(0) - 1, -1, -1)",
                "range(n)",
                f"range(tc.block_id(0), {view}.num_tiles(0), tc.num_blocks(0))",
                f"range({view}.num_tiles(0), m, -tc.num_blocks(0))",
                f"range({self.integer(0)}, {self.integer(1)})",
                "range(3)",
            ]
        )

    def block(self, depth: int, indent: str, looping: bool) -> list[str]:
        lines: list[str] = []
        scope = list(self.ints)
        for _ in range(self.choose.randint(1, 3)):
            pick = self.choose.random()
            if pick < 0.4 or depth == 0:
                view = self.choose.choice(["xs", "ys"])
                index = self.choose.choice(self.ints) if self.choose.random() < 0.6 else self.integer(2)
                lines.append(f"{indent}acc = acc + {view}[{index}]")
            elif pick < 0.55:
                name = self.choose.choice([f"v{self.names}", *(s for s in scope if s.isidentifier() and s[0] != "w")])
                lines.append(f"{indent}{name} = {self.integer(2)}")
                self.names += 1
                if name not in self.ints:
                    self.ints.append(name)
                    scope.append(name)
            elif pick < 0.75:
                lines.append(f"{indent}if {self.condition()}:")
                outer = list(self.ints)
                lines += self.block(depth - 1, indent + "    ", looping)
                self.ints = outer
                if self.choose.random() < 0.3:
                    lines.append(f"{indent}else:")
                    lines += self.block(depth - 1, indent + "    ", looping)
                    self.ints = outer
                elif self.choose.random() < 0.2:
                    lines.append(f"{indent}    {'continue' if looping else 'return'}")
            elif pick < 0.8:
                name = f"w{self.names}"
                self.names += 1
                view, step = self.choose.choice(["xs", "ys"]), self.choose.choice(["+ 1", "+ 2", "+ 1", "+ n * n + 1"])
                lines.append(f"{indent}{name} = {self.integer(1)}")
                lines.append(f"{indent}while {name} < {view}.num_tiles(0):")
                outer = list(self.ints)
                self.ints.append(name)
                lines += [f"{indent}    {name} = {name} {step}"] if self.choose.random() < 0.3 else []
                lines += self.block(depth - 1, indent + "    ", False)
                self.ints = outer
                lines.append(
                    f"{indent}    {name} = max({name}, 0) + 1"
                    if self.choose.random() < 0.3
                    else f"{indent}    {name} = {name} {step}"
                )
            else:
                name = f"k{self.names}"
                if self.choose.random() < 0.3:
                    name = self.choose.choice([name, "n", *(s for s in self.ints if s.isidentifier() and s[0] != "w")])
                self.names += 1
                lines.append(f"{indent}for {name} in {self.range()}:")
                outer = list(self.ints)
                self.ints.append(name)
                lines += self.block(depth - 1, indent + "    ", True)
                self.ints = outer
                if self.choose.random() < 0.1:
                    lines.append(f"{indent}    break")
        return lines

    def kernel(self) -> str:
        head = [
            "xs, ys = x.partition(B), y.partition(C)"
            if self.choose.random() < 0.3
            else "xs, ys = x.partition(B), y.partition(B)"
        ]
        lines = [*head, "acc = z.load()", *self.block(3, "", False), "z.store(acc)"]
        return "\n".join(lines).replace("y.partition(C)", "y.partition(B)")


def launched(report: TileReport, choose: random.Random) -> None:
    """One random launch: refused, or free of traps but where an assert stays."""
    tile = choose.choice([1, 2, 4])
    length = choose.randint(1, 9)
    shapes = {"z": (length,), "x": (choose.randint(1, 12),), "y": (choose.randint(1, 12),)}
    scalars = {"n": choose.randint(-2, 6), "m": choose.randint(-2, 6)}
    grid = (-(-length // tile), 1, 1)
    if refusal(report, shapes, grid, {"B": tile}, **scalars) is not None:
        return
    arrays: dict[str, Any] = {name: np.arange(shape[0], dtype=np.float32) for name, shape in shapes.items()}
    arguments: dict[str, Any] = {
        "z": TensorArgument(arrays["z"], tile=(tile,)),
        "x": TensorArgument(arrays["x"]),
        "y": TensorArgument(arrays["y"]),
        **scalars,
    }
    try:
        run(report, arguments, grid, {"k.py::B": tile, "k.py::C": tile})
    except Trap as trap:
        kept = {(a.line, a.array) for a in report.accesses if a.rung in CHECKED}
        assert (trap.line, trap.array) in kept, (trap, report.accesses, shapes, scalars, grid, tile)


@RANDOM
@given(st.integers(0, 2**32))
def test_proven_accesses_never_stop_the_interpreter(seed: int) -> None:
    choose = random.Random(seed)
    requires = choose.choice(REQUIRES)
    report = check(Kernels(choose).kernel(), PARAMS, f'requires="{requires}"' if requires else "")
    if any(f.rule != "partial-coverage" for f in report.faults):
        return
    for _ in range(6):
        launched(report, choose)


def with_hoisted_asserts(report: TileReport) -> TileReport:
    """The kernel as a code generator writes it: each hoisted check as an assertion before its loop."""
    types = dict(report.types)

    def scalar(node: Expr, kind: Literal["int", "bool"]) -> Expr:
        types[node] = ScalarType(kind)
        return node

    def assertion(check: HoistedCheck) -> Stmt:
        span = check.node.span
        zero = scalar(Const(0, span=span), "int")
        extent = scalar(Extent(Name(check.array, span=span), check.array_axis, span=span), "int")
        assert isinstance(check.tile, int) and not check.local
        tile = scalar(Const(check.tile, span=span), "int")
        first = scalar(Binary("*", check.high, tile, span=span), "int")
        within = [
            scalar(Compare(">=", check.low, zero, span=span), "bool"),
            scalar(Compare("<", first, extent, span=span), "bool"),
        ]
        wanted: Stmt = Assert(Logic("and", tuple(within), span=span), span=span)
        for guard in reversed(check.guards):
            wanted = If(guard, (wanted,), span=span)
        return wanted

    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        for node in body:
            out += [assertion(check) for check in report.hoisted.get(node, ())]
            inner = {f: block(getattr(node, f)) for f in ("then", "other", "body") if hasattr(node, f)}
            out.append(replace(node, **inner) if inner else node)
        return tuple(out)

    return replace(report, kernel=replace(report.kernel, body=block(report.kernel.body)), types=types)


def stops(report: TileReport, shapes: dict[str, tuple[int, ...]], scalars: dict[str, int], tile: int) -> bool:
    """Whether a launch of one block stops at a check."""
    arguments: dict[str, Any] = {
        name: TensorArgument(np.ones(shape, np.float32), tile=(tile,) if name == "z" else None)
        for name, shape in shapes.items()
    }
    try:
        run(report, {**arguments, **scalars}, (1, 1, 1), {"k.py::B": tile, "k.py::C": tile})
    except Trap:
        return True
    return False


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_hoisted_asserts_stop_exactly_the_launches_that_asserts_in_place_stop(seed: int) -> None:
    choose = random.Random(seed)
    loops = [
        f"for {v} in range({a}, {b}):"
        for v, a, b in zip(
            "ij", ("0", choose.choice(["0", "1", "i", "m"])), ("n", choose.choice(["m", "3", "n"])), strict=True
        )
    ]
    index = choose.choice(["i", "j", "m", "i + j", "j - i", "i + 1", "m - j", "2 - i", "h", "j + h", "i + m"])
    place = choose.choice(
        [
            "{l0}\n    {l1}\n        {a}",
            "{l0}\n    {l1}\n        pass\n    {b}",
            "{l0}\n    h = m\n    {l1}\n        {a}",
        ]
    )
    text = place.format(
        l0=loops[0], l1=loops[1], a=f"acc = acc + xs[{index}]", b=f"acc = acc + xs[{index.replace('j', 'i')}]"
    )
    body = f"xs = x.partition(B)\nacc = z.load()\nh = n - m\n{text}\nz.store(acc)"
    requires = choose.choice(["-9 <= n and n <= 9 and -9 <= m and m <= 9", "n >= 0", "n % 2 == 0"])
    tile = choose.choice([1, 2])
    report = check(body, PARAMS, f'requires="{requires}"', dims={"B": tile, "C": tile})
    assert not report.faults
    written = with_hoisted_asserts(report)
    for _ in range(8):
        shapes = {"z": (tile,), "x": (choose.randint(1, 9),), "y": (1,)}
        scalars = {"n": choose.randint(-2, 5), "m": choose.randint(-2, 5)}
        assert stops(report, shapes, scalars, tile) == stops(written, shapes, scalars, tile), (body, shapes, scalars)


MIXERS = (
    "t.sum(axis={a})",
    "t.max(axis={a})",
    "tc.cumsum(t, axis={a}).sum(axis={b})",
    "tc.permute_dims(t, (1, 0)).sum(axis={b})",
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 2**32))
def test_void_lanes_that_pass_the_conditions_reach_no_result(seed: int) -> None:
    """Reductions of ragged tiles: refused, or equal with zeros and with poison in the void lanes."""
    choose = random.Random(seed)
    axis = choose.randint(0, 1)
    mix = choose.choice(MIXERS).format(a=axis, b=1 - axis)
    load = choose.choice(["xs[0, 0]", "xs[0, 0] * 2 + xs[0, 0]", "tc.exp(xs[0, 0])"])
    pad = choose.choice(["", ", pad=0.0"])
    body = f"xs = x.partition(BM, BN{pad})\nt = {load}\nz.store(tc.zeros(B) + ({mix}).sum())"
    report = check(body, "z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn, Dyn]")
    assert not report.faults
    bm, bn = choose.choice([2, 3, 4]), choose.choice([2, 3, 4])
    x = np.random.default_rng(seed).random((choose.randint(1, 8), choose.randint(1, 8)), dtype=np.float32)
    dims = {"BM": bm, "BN": bn, "B": 2}
    if refusal(report, {"x": x.shape, "z": (4,)}, (2, 1, 1), dims) is not None:
        assert pad == "" and (x.shape[0] % bm or x.shape[1] % bn)
        return
    results = []
    for void in ("zero", "poison"):
        z = np.zeros(4, np.float32)
        arguments: dict[str, Any] = {"z": TensorArgument(z, tile=(2,)), "x": TensorArgument(x)}
        run(report, arguments, (2, 1, 1), {f"k.py::{k}": v for k, v in dims.items()}, void=void)  # type: ignore[arg-type]
        results.append(z)
    np.testing.assert_array_equal(results[0], results[1])
