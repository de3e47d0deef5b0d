"""Prover against executor on random kernels: what is proven never goes wrong, what is refuted was seen to.

    python -m tests.agreement --count 20000 --seed 0 [--keep FILE] [--hostile | --structured]

checks `count` kernels in chunks, one seed per chunk from `seed` on, so that a seed names the same kernels everywhere.
`--keep` notes the chunks that are done in a file and leaves them out the next time, so a run may be stopped and taken
up again. Every kernel has `BUDGET` processor seconds for the prover and a limit of steps per run. Kernels on which the
two disagree are printed; the exit status says whether there were any.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.random_simt import RandomLaunch, hostile_kernels, kernels, launches, structured_kernels
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.interp.simt import run
from tilecheck.ir.kernel import Kernel
from tilecheck.ir.types import ArrayExtent
from tilecheck.symbolic.linear import Atom, LaunchAxis, Scalar, Size
from tilecheck.symbolic.requires import Comparison, parse, vocabulary
from tilecheck.verify.simt import SimtReport, check_kernel
from tilecheck.verify.verdict import Property, Verdict

FAULT_OF = {
    Property.RACE_FREE: "race",
    Property.IN_BOUNDS: "out-of-bounds",
    Property.BARRIERS_UNIFORM: "divergent-barrier",
    Property.SHARED_INITIALISED: "uninitialised-shared",
}
PROVED = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)
BUDGET = 2.0
CHUNK = 50


def allowed(kernel: Kernel, report: SimtReport, conditions: tuple[str, ...], launch: RandomLaunch) -> bool:
    """Whether a launch keeps the standing assumptions and the conditions of a verdict."""

    def value(atom: Atom) -> int:
        match atom:
            case Scalar():
                return launch.n
            case Size(array) | ArrayExtent(array, 0):
                return launch.sizes["ab".index(array)]
            case LaunchAxis("gridDim", axis):
                return launch.grid if axis == 0 else 1
            case LaunchAxis("blockDim", axis):
                return launch.block if axis == 0 else 1
        raise AssertionError(atom)

    words = vocabulary(kernel)
    texts = [*conditions, *(a for a in report.assumptions if "=" in a)]
    parts = [part for text in texts for part in parse(text, words)]
    return all(part.holds(value) for part in parts if isinstance(part, Comparison))


def agrees(text: str, chosen: list[RandomLaunch], budget: float) -> None:
    """Assert that prover and executor agree on one kernel; `budget` is the prover's, in seconds."""
    (kernel,) = read_kernels(Source("random.py", text), lambda name: None)
    report = check_kernel(kernel, budget=budget)
    if any(answer.verdict is Verdict.REFUTED for answer in report.verdicts.values()):
        assert report.findings, "a refutation comes with its witness"
    proved = {name: answer for name, answer in report.verdicts.items() if answer.verdict in PROVED}
    for number, launch in enumerate(chosen):
        held = {name: a for name, a in proved.items() if allowed(kernel, report, a.conditions, launch)}
        if not held:
            continue
        arrays = [np.arange(size) % 5 for size in launch.sizes]
        outcome = run(
            kernel,
            {"a": arrays[0], "b": arrays[1], "n": launch.n},
            (launch.grid, 1, 1),
            (launch.block, 1, 1),
            seed=number,
            max_steps=50_000,  # a `continue` may skip the step of a `while`
        )
        strays = any(fault.kind == "out-of-bounds" for fault in outcome.faults)
        for name, answer in held.items():
            for fault in outcome.of(FAULT_OF[name]):
                if fault.kind == "race" and (fault.same_value or strays):
                    continue
                raise AssertionError(f"{name} is {answer}, yet {fault} at {launch}\n{text}")


def check_chunk(
    number: int, count: int, budget: float, hostile: bool = False, structured: bool = False
) -> tuple[list[str], float]:
    """The disagreements on the `count` kernels of seed `number`, and the longest time for one, in processor seconds."""
    found: list[str] = []
    longest = 0.0
    # Big scalars do harm only where much comes together.
    number_of = 8 if hostile else 3

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        hostile_kernels() if hostile else structured_kernels() if structured else kernels(),
        st.lists(launches(hostile), min_size=number_of, max_size=number_of),
    )
    def each(text: str, chosen: list[RandomLaunch]) -> None:
        nonlocal longest
        begun = time.process_time()
        try:
            agrees(text, chosen, budget)
        except AssertionError as disagreement:
            found.append(str(disagreement))
        longest = max(longest, time.process_time() - begun)

    each()
    return found, longest


def main(arguments: list[str]) -> int:
    """Check the chunks asked for; 1 if prover and executor disagree anywhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000, help="how many kernels")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first chunk")
    parser.add_argument("--budget", type=float, default=BUDGET, help="processor seconds of the prover per kernel")
    parser.add_argument("--hostile", action="store_true", help="big scalars and odd arithmetic")
    parser.add_argument("--structured", action="store_true", help="helpers that return early, chosen and cut arrays")
    parser.add_argument("--keep", type=Path, help="note finished chunks in this file, and skip those noted")
    chosen = parser.parse_args(arguments)
    done = set(chosen.keep.read_text().split()) if chosen.keep is not None and chosen.keep.exists() else set()
    checked, wrong, begun = 0, 0, time.monotonic()
    for start in range(0, chosen.count, CHUNK):
        number, count = chosen.seed + start // CHUNK, min(CHUNK, chosen.count - start)
        if str(number) not in done:
            found, longest = check_chunk(number, count, chosen.budget, chosen.hostile, chosen.structured)
            for text in found:
                print(f"seed {number}: {text}")
            wrong += len(found)
            note = f"longest {longest:.1f} s"
            if chosen.keep is not None and count == CHUNK and not found:
                with chosen.keep.open("a") as file:
                    file.write(f"{number}\n")
        else:
            note = "done before"
        checked += count
        seconds = time.monotonic() - begun
        print(f"{checked} of {chosen.count} kernels, {wrong} disagreements, {seconds:.0f} s; {note}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
