"""A lost barrier or guard of a safe kernel is noticed, or listed with the reason why it was redundant."""

from __future__ import annotations

import pytest

from tests.mutants import LIST, Mutant, clean_runs, mutants, noticed, read_list, write_list
from tests.test_prover import IDIOMS
from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import Kernel

CASES = [(kernel, launches, mutant) for kernel, launches, made in mutants(IDIOMS) for mutant in made]
LISTED = {one.key: one for one in read_list(LIST)}


@pytest.mark.parametrize(
    ("kernel", "launches", "mutant"), CASES, ids=lambda v: v.where if isinstance(v, Mutant) else ""
)
def test_the_list_of_survivors_is_current(kernel: Kernel, launches: tuple[Launch, ...], mutant: Mutant) -> None:
    listed = LISTED.get((mutant.where, mutant.line, mutant.deleted))
    assert noticed(kernel, mutant, launches) is (listed is None)
    if listed is not None:
        assert clean_runs(mutant.kernel, launches) == listed.runs > 0


def test_a_mutant_with_a_fault_has_no_clean_runs() -> None:
    (kernel, launches, mutant), *_ = [case for case in CASES if "doubling_scan" in case[2].where]
    assert clean_runs(kernel, launches) > 0
    assert clean_runs(mutant.kernel, launches) == 0


def test_every_survivor_is_explained_and_still_there() -> None:
    here = {(mutant.where, mutant.line, mutant.deleted) for _, _, mutant in CASES}
    for one in LISTED.values():
        assert len(one.why) > 20
        assert one.key in here or not one.where.startswith(f"{IDIOMS.stem}::")


def test_the_list_is_written_as_it_is_read(tmp_path) -> None:  # type: ignore[no-untyped-def]
    write_list(tmp_path / "list.toml", list(LISTED.values()))
    assert (tmp_path / "list.toml").read_text() == LIST.read_text()
