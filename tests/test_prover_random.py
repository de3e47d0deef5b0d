"""The prover against the executor on random kernels: what is proven never goes wrong, what is refuted was seen to."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.random_simt import RandomLaunch, kernels, launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.interp.simt import run
from tilecheck.ir.kernel import Kernel
from tilecheck.ir.types import ArrayExtent
from tilecheck.symbolic.linear import Atom, LaunchAxis, Scalar, Size
from tilecheck.symbolic.requires import parse, vocabulary
from tilecheck.verify.simt import SimtReport, check_kernel
from tilecheck.verify.verdict import Property, Verdict

FAULT_OF = {
    Property.RACE_FREE: "race",
    Property.IN_BOUNDS: "out-of-bounds",
    Property.BARRIERS_UNIFORM: "divergent-barrier",
    Property.SHARED_INITIALISED: "uninitialised-shared",
}
PROVED = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)
LONG = int(os.environ.get("TILECHECK_RANDOM_KERNELS", "20000"))


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
    texts = [*conditions, *(a for a in report.assumptions if "==" in a)]
    return all(comparison.holds(value) for text in texts for comparison in parse(text, words))


def agrees(text: str, chosen: list[RandomLaunch], budget: float) -> None:
    """Assert that prover and executor agree on one kernel; `budget` is the prover's, in seconds."""
    (kernel,) = read_kernels(Source("random.py", text), lambda name: None)
    report = check_kernel(kernel, budget=budget)
    refuted = {finding.rule for finding in report.findings}
    for name, answer in report.verdicts.items():
        if answer.verdict is Verdict.REFUTED:
            assert refuted, "a refutation comes with its witness"
        if answer.verdict not in PROVED:
            continue
        for seed, launch in enumerate(chosen):
            if not allowed(kernel, report, answer.conditions, launch):
                continue
            arrays = [np.arange(size) % 5 for size in launch.sizes]
            outcome = run(
                kernel,
                {"a": arrays[0], "b": arrays[1], "n": launch.n},
                (launch.grid, 1, 1),
                (launch.block, 1, 1),
                seed=seed,
                max_steps=50_000,  # a `continue` may skip the step of a `while`
            )
            strays = any(fault.kind == "out-of-bounds" for fault in outcome.faults)
            for fault in outcome.faults:
                if fault.kind != FAULT_OF[name] or (fault.kind == "race" and (fault.same_value or strays)):
                    continue
                raise AssertionError(f"{name} is {answer}, yet {fault} at {launch}\n{text}")


common = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
common["phases"] = [Phase.generate]


@settings(max_examples=300, **common)
@given(kernels(), st.lists(launches(), min_size=3, max_size=3))
def test_verdicts_agree_with_the_executor(text: str, chosen: list[RandomLaunch]) -> None:
    agrees(text, chosen, 0.4)


@pytest.mark.slow
@settings(max_examples=LONG, **(common | {"derandomize": False}))
@given(kernels(), st.lists(launches(), min_size=3, max_size=3))
def test_verdicts_agree_on_very_many_kernels(text: str, chosen: list[RandomLaunch]) -> None:
    agrees(text, chosen, 4.0)
