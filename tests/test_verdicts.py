"""The store of proofs: what is kept comes back whole, what is damaged or different is proved again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tilecheck import verdicts
from tilecheck.frontend.launches import Launch, read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import Kernel
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.verdict import Verdict

TEXT = """
import numpy as np
from numba import cuda

@cuda.jit
def f(x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = 0.5 * x[i + 1]
        y[0] = 1

f[2, 32](cuda.to_device(np.ones(64, np.float32)), cuda.to_device(np.ones(64, np.float32)))
"""


def read(text: str, path: str = "k.py") -> tuple[Kernel, tuple[Launch, ...]]:
    source = Source(path, text)
    (kernel,) = read_kernels(source, lambda name: None)
    return kernel, launches_of(kernel, read_launches(source, lambda name: None))


@pytest.fixture
def proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Kernel]]:
    """An empty store; the kernels that are really proved."""
    made: list[Kernel] = []

    def counted(kernel: Kernel, launches: tuple[Launch, ...], *, budget: float) -> SimtReport:
        made.append(kernel)
        return check_kernel(kernel, launches, budget=budget)

    monkeypatch.setenv(verdicts.SWITCH, str(tmp_path))
    monkeypatch.setattr(verdicts, "check_kernel", counted)
    yield made


def entries(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("*.json"))


def test_a_proof_comes_back_as_it_was(proofs: list[Kernel]) -> None:
    kernel, launches = read(TEXT)
    first, second = (verdicts.prove(kernel, launches) for _ in range(2))
    assert len(proofs) == 1
    assert second == first == check_kernel(kernel, launches)
    assert first.findings and first.faults


def test_another_place_of_the_file_changes_nothing(proofs: list[Kernel]) -> None:
    verdicts.prove(*read(TEXT))
    found = verdicts.prove(*read(TEXT + "\n\ndef other():\n    pass\n", "/elsewhere/k.py"))
    assert len(proofs) == 1
    assert {finding.places[0].span.path for finding in found.findings} == {"/elsewhere/k.py"}


MOVED = [
    TEXT,
    # A barrier that is needed, one that is not, a race and an unknown: lines in words.
    """
import numpy as np
from numba import cuda, int32

@cuda.jit
def g(x, n):
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    s[t] = t
    cuda.syncthreads()
    if s[t ^ 1] < n:
        x[t] = s[63 - t]
    cuda.syncthreads()
    x[x[t]] = 1
    if t < n:
        cuda.syncthreads()

g[2, 64](cuda.to_device(np.ones(64, np.int32)), 3)
""",
]


@pytest.mark.parametrize("text", MOVED)
def test_a_kernel_that_moves_in_its_file_is_not_proved_again(proofs: list[Kernel], text: str) -> None:
    first, at = read(text)
    before = verdicts.prove(first, at)
    kernel, launches = read("# one line\n\nx = 'line 3'\n" + text)
    found = verdicts.prove(kernel, launches)
    assert len(proofs) == 1
    assert found == check_kernel(kernel, launches) != before
    assert verdicts.prove(first, at) == before


def test_a_kernel_that_moves_away_from_its_launch_is_proved(proofs: list[Kernel]) -> None:
    verdicts.prove(*read(TEXT))
    kernel, launches = read(TEXT.replace("\nf[2", "\n\nf[2"))
    assert verdicts.prove(kernel, launches).findings[0].launch == launches[0].span
    assert len(proofs) == 2


def test_source_in_words_is_not_renumbered() -> None:
    assert (
        verdicts._moved("line 3: `line 3` meets lines 4, 15 and line 6", 2)
        == "line 5: `line 3` meets lines 6, 17 and line 8"
    )


@pytest.mark.parametrize(("old", "new"), [("i + 1", "i + 2"), ("[2, 32]", "[3, 32]"), ("np.float32", "np.float64")])
def test_another_kernel_or_launch_is_proved(proofs: list[Kernel], old: str, new: str) -> None:
    verdicts.prove(*read(TEXT))
    verdicts.prove(*read(TEXT.replace(old, new)))
    assert len(proofs) == 2


def test_another_budget_or_build_is_proved(proofs: list[Kernel], monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, launches = read(TEXT)
    verdicts.prove(kernel, launches)
    verdicts.prove(kernel, launches, budget=3.0)
    monkeypatch.setattr(verdicts, "build", lambda: "another")
    verdicts.prove(kernel, launches)
    assert len(proofs) == 3


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"check": 1}'])
def test_a_damaged_entry_is_a_miss(proofs: list[Kernel], tmp_path: Path, damage: str) -> None:
    kernel, launches = read(TEXT)
    first = verdicts.prove(kernel, launches)
    (entry,) = entries(tmp_path)
    entry.write_text(damage)
    assert verdicts.prove(kernel, launches) == first
    assert len(proofs) == 2


def test_a_changed_verdict_is_a_miss(proofs: list[Kernel], tmp_path: Path) -> None:
    kernel, launches = read(TEXT)
    first = verdicts.prove(kernel, launches)
    (entry,) = entries(tmp_path)
    kept = json.loads(entry.read_text())
    kept["report"] = kept["report"].replace("refuted", "proven")
    entry.write_text(json.dumps(kept))
    assert verdicts.prove(kernel, launches) == first


def test_what_ran_out_of_time_is_not_kept(proofs: list[Kernel], tmp_path: Path) -> None:
    kernel, launches = read(TEXT)
    found = verdicts.prove(kernel, launches, budget=0.0)
    assert Verdict.UNKNOWN in {answer.verdict for answer in found.verdicts.values()}
    assert not entries(tmp_path)


def test_the_switch_turns_it_off(proofs: list[Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(verdicts.SWITCH, "off")
    for _ in range(2):
        verdicts.prove(*read(TEXT))
    assert len(proofs) == 2
    assert not entries(tmp_path)


def test_writers_at_once_agree(proofs: list[Kernel], tmp_path: Path) -> None:
    kernel, launches = read(TEXT)
    found = check_kernel(kernel, launches)
    path = tmp_path / "at once" / "entry.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: verdicts._write(path, found), range(40)))
    assert verdicts._read(path, kernel) == found
    assert [other.name for other in path.parent.iterdir()] == ["entry.json"]
