"""What stands outside of a kernel decides what it means: nothing is shown by a definition that need not be the one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_prover import PROVED
from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import Kernel
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.verdict import Property, Verdict

SOURCE = Source("outside.py", (Path(__file__).parent / "kernels" / "outside.py").read_text())
LAUNCHES = read_launches(SOURCE, lambda name: None)
LABEL = re.compile(r"# (WRONG|RIGHT):? ?(.*)")


def cases() -> list[tuple[Kernel, str, str]]:
    found = [(k, LABEL.match(SOURCE.lines[k.lines[0] - 2])) for k in read_kernels(SOURCE, lambda name: None)]
    return [(kernel, label[1], label[2]) for kernel, label in found if label is not None]


def checked(kernel: Kernel) -> SimtReport:
    return check_kernel(kernel, launches_of(kernel, LAUNCHES), budget=3.0)


CASES = cases()


def test_every_label_has_its_kernel() -> None:
    assert len(CASES) == SOURCE.text.count("# WRONG") + SOURCE.text.count("# RIGHT")


@pytest.mark.parametrize(("kernel", "label", "names"), CASES, ids=[case[0].name for case in CASES])
def test_the_label_holds(kernel: Kernel, label: str, names: str) -> None:
    verdicts = checked(kernel).verdicts
    if label == "RIGHT":
        assert all(answer.verdict is Verdict.PROVEN for answer in verdicts.values())
    else:
        assert not [name for name in names.split() if verdicts[Property(name)].verdict in PROVED]
