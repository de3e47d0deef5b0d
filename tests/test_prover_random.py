"""The prover against the executor on random kernels: what is proven never goes wrong, what is refuted was seen to."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests import agreement
from tests.agreement import agrees
from tests.random_simt import RandomLaunch, hostile_kernels, kernels, launches, structured_kernels
from tilecheck.verify import overflow
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.verdict import Answer, Property, Verdict

common = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
common["phases"] = [Phase.generate]


@settings(max_examples=300, **common)
@given(kernels(), st.lists(launches(), min_size=3, max_size=3))
def test_verdicts_agree_with_the_executor(text: str, chosen: list[RandomLaunch]) -> None:
    agrees(text, chosen, 0.4)


@settings(max_examples=60, **common)
@given(hostile_kernels(), st.lists(launches(hostile=True), min_size=8, max_size=8))
def test_verdicts_agree_with_the_executor_on_big_scalars(text: str, chosen: list[RandomLaunch]) -> None:
    agrees(text, chosen, 0.4)


@settings(max_examples=40, **common)
@given(structured_kernels(), st.lists(launches(), min_size=3, max_size=3))
def test_verdicts_agree_with_the_executor_on_helpers_and_chosen_arrays(text: str, chosen: list[RandomLaunch]) -> None:
    agrees(text, chosen, 0.4)


def test_a_prover_that_forgets_the_width_of_integers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overflow, "suspects", lambda run, excuses: ())
    found, _ = agreement.check_chunk(7, 50, 0.4, hostile=True)
    assert found


def test_a_prover_that_claims_too_much_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(kernel: object, *, budget: float) -> SimtReport:
        return SimtReport(kernel, verdicts=dict.fromkeys(Property, Answer(Verdict.PROVEN)))  # type: ignore[arg-type]

    monkeypatch.setattr(agreement, "check_kernel", careless)
    found, _ = agreement.check_chunk(0, 20, 0.1)
    assert found
