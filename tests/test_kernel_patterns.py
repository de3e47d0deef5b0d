"""Kernels of well-known shapes: the safe ones are proved, and what the executor sees go wrong without a barrier or a guard
is refuted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import mutants, shown
from tests.score import Score, score_kernels
from tilecheck.interp.simt_compile import compile_kernel
from tilecheck.verify.replay import run_once
from tilecheck.verify.simt import check_kernel

FILES = sorted(
    path
    for path in (Path(__file__).parent / "kernels").glob("*.py")
    if path.stem not in ("hostile", "idioms", "edges", "outside")
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_kernel_gets_its_label(path: Path) -> None:
    score = Score()
    score_kernels(score, path, general=False)
    assert score.cases["safe"] > 9 and not score.wrong and not score.unsound


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_mutant_that_goes_wrong_in_its_launch_is_refuted(path: Path) -> None:
    """Other contents of the arrays may be needed to see it, so a mutant whose run is clean says nothing here."""
    wrong, missed = 0, []
    for _, launches, made in mutants(path):
        for mutant in made if launches else ():
            scenario = shown(launches[0])
            assert scenario is not None
            outcome = run_once(compile_kernel(mutant.kernel), scenario, 0)
            if any(not fault.same_value and fault.kind != "too-long" for fault in outcome.faults):
                wrong += 1
                if not check_kernel(mutant.kernel, launches).findings:
                    missed.append((mutant.where, mutant.line, mutant.deleted))
    assert wrong > 9 and not missed
