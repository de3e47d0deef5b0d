"""Random kernels that go through arrays, with random facts about those, against the executor.

What is proven must not go wrong for any contents that keep the facts, which are drawn here by rejection: independent of
how the search for counterexamples makes its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.interp.contents import kept
from tilecheck.interp.simt import run
from tilecheck.symbolic.requires import comparisons, element_facts, parse, vocabulary
from tilecheck.symbolic.smt_terms import num
from tilecheck.verify.replay import Scenario, scenario_values
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Property, Verdict

ZERO, FOUR = num(0), num(4)
HEAD = """
import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32


@tc.simt(block={block}, requires="{requires}")
def k(z: Tensor[Mut, f32, Dyn], p: Tensor[Shared, i32, Dyn], q: Tensor[Shared, i32, Dyn]) -> None:
    i = cuda.grid(1)
    t = cuda.threadIdx.x
"""
FACTS = (
    "distinct(p)",
    "nondecreasing(p)",
    "0 <= p < z.size",
    "0 <= p < q.size",
    "0 <= p < p.size",
    "distinct(q)",
    "nondecreasing(q)",
    "0 <= q < z.size",
    "0 <= q <= z.size",
    "q >= 1",
    "p.size >= q.size",
    "q.size >= 3",
)
PLACES = (
    "p[i]",
    "q[i]",
    "q[p[i]]",
    "p[i] + 1",
    "p[i] // 2",
    "2 * p[i]",
    "q[i] - 1",
    "p[t]",
    "p[i] + q[i]",
    "i",
    "p[i ^ 1]",
)
GUARDS = (
    "i < p.size and i < q.size",
    "i < p.size and i < q.size and p[i] < q[i]",
    "i + 1 < p.size and i + 1 < q.size",
    "i < p.size and i + 1 < q.size and i % 2 == 0",
)
BODIES = (
    "z[{a}] = {v}",
    "z[{a}] = {v}\n        z[{b}] = {v}",
    "z[{a}] = z[{b}] + 1",
)
LOOPS = (
    "for k in range(q[i], q[i + 1]):\n            z[k] = {v}",
    "for k in range(p[i], p[i + 1]):\n            z[{a}] = k",
)
_TRIES = 60


@dataclass(frozen=True)
class Scatter:
    """One random kernel."""

    text: str


@st.composite
def scatters(draw: st.DrawFn, loops: bool = False) -> Scatter:
    """Kernels of one or two stores at places that are read from arrays."""
    requires = draw(st.lists(st.sampled_from(FACTS), min_size=1, max_size=5, unique=True))
    body = draw(st.sampled_from(LOOPS if loops else (*BODIES, *LOOPS))).format(
        a=draw(st.sampled_from(PLACES)),
        b=draw(st.sampled_from(PLACES)),
        v=draw(st.sampled_from(["i", "i", "t", "1.0"])),
    )
    head = HEAD.format(block=draw(st.sampled_from([2, 4, 8])), requires=" and ".join(requires))
    return Scatter(f"{head}    if {draw(st.sampled_from(GUARDS))}:\n        {body}\n")


def agrees(kernel: Scatter, number: int) -> None:
    """Assert that nothing which is proven goes wrong at launches that keep the facts."""
    (read,) = read_kernels(Source("random.py", kernel.text), lambda name: None)
    report = check_kernel(read, budget=1.0)
    proved = {n: a for n, a in report.verdicts.items() if a.verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN)}
    proved = {n: a for n, a in proved.items() if n in (Property.RACE_FREE, Property.IN_BOUNDS)}
    if not proved:
        return
    block = read.options["block"]
    size = block if isinstance(block, int) else block[0]  # type: ignore[index]
    random = np.random.default_rng(number)
    facts = element_facts(read)
    words = vocabulary(read)
    for _ in range(_TRIES):
        shapes = {
            "z": (int(random.integers(1, 12)),),
            "p": (int(random.integers(1, 5)),),
            "q": (int(random.integers(1, 5)),),
        }
        scenario = Scenario((int(random.integers(1, 3)), 1, 1), (int(size), 1, 1), shapes)
        value = scenario_values(scenario)
        if not all(part.holds(value) for part in comparisons(read)):
            continue
        arrays = {name: random.integers(-1, 7, shape).astype(np.int32) for name, shape in shapes.items()}
        for name in ("p", "q"):
            if any(f.array == name and f.text.startswith("nondecreasing") for f in facts):
                arrays[name].sort()
        if not all(kept([f], arrays[f.array], value) for f in facts):
            continue
        arguments = {**arrays, "z": np.zeros(shapes["z"], np.float32)}
        outcome = run(read, arguments, scenario.grid, scenario.block, seed=number)
        strays = any(fault.kind == "out-of-bounds" for fault in outcome.faults)
        for name, answer in proved.items():
            if not all(part.holds(value) for text in answer.conditions for part in parse(text, words)):  # type: ignore[union-attr]
                continue
            kind = "race" if name is Property.RACE_FREE else "out-of-bounds"
            wrong = [f for f in outcome.of(kind) if kind != "race" or not (f.same_value or strays)]
            assert not wrong, f"{name} is {answer}, yet {wrong[0]} with {arrays}\n{kernel.text}"


def disagreement(count: int, *, loops: bool = False) -> str | None:
    """The first thing that `agrees` has to complain of, in `count` random kernels; `loops` for those with loops alone."""
    found: list[str] = []

    @seed(0)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(scatters(loops), st.integers(0, 1000))
    def each(kernel: Scatter, number: int) -> None:
        if found:
            return
        try:
            agrees(kernel, number)
        except AssertionError as complaint:
            found.append(str(complaint))

    each()
    return found[0] if found else None
