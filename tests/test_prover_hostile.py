"""Kernels that are wrong in some launch: none is shown right, and what is refuted was seen to happen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_prover import PROVED
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import Kernel
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Property, Verdict

SOURCE = Source("hostile.py", (Path(__file__).parent / "kernels" / "hostile.py").read_text())
LABEL = re.compile(r"# WRONG: (.+)")


def labelled() -> list[tuple[Kernel, frozenset[Property]]]:
    """Every kernel with the properties that do not hold."""
    made = []
    for kernel in read_kernels(SOURCE, lambda name: None):
        label = LABEL.match(SOURCE.lines[kernel.lines[0] - 2])
        if label is not None:
            made.append((kernel, frozenset(Property(name) for name in label[1].split())))
    return made


CASES = labelled()


def test_every_kernel_is_labelled() -> None:
    assert len(CASES) == SOURCE.text.count("# WRONG: ") > 100


@pytest.mark.parametrize(("kernel", "wrong"), CASES, ids=[kernel.name for kernel, _ in CASES])
def test_what_is_wrong_is_not_shown(kernel: Kernel, wrong: frozenset[Property]) -> None:
    found = check_kernel(kernel, budget=3.0)
    assert not {name for name in wrong if found.verdicts[name].verdict in PROVED}
    if any(found.verdicts[name].verdict is Verdict.REFUTED for name in wrong):
        assert all(finding.witness.launch for finding in found.findings)
