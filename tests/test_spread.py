"""A process that ends in the middle of its work takes nothing else with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilecheck import batch
from tilecheck.batch import Answer, Input
from tilecheck.cli import group
from tilecheck.frontend.launches import Launch
from tilecheck.spread import Processes

KERNEL = "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    x[0] = cuda.grid(1)\n"


def start(given: object) -> None:
    assert given == "given"


def tenfold(number: int, fatal: frozenset[int]) -> int:
    if number in fatal:
        os.kill(os.getpid(), signal.SIGKILL)
    return 10 * number


@pytest.mark.parametrize("fatal", [{0}, {4}, {9}, {3, 4}, {0, 9}, set()], ids=str)
def test_every_call_but_the_fatal_ones_is_answered_in_order(fatal: set[int]) -> None:
    with Processes(2, start, "given") as processes:
        answers = list(processes.spread(tenfold, [(n, frozenset(fatal)) for n in range(10)]))
    assert answers == [None if n in fatal else 10 * n for n in range(10)]


def check_or_die(item: Input, elsewhere: list[Launch], listed: frozenset[str]) -> Answer:
    if item.path.endswith("fatal.py"):
        os.kill(os.getpid(), signal.SIGSEGV)
    return batch._check_in_worker(item, elsewhere, listed)


def test_the_file_is_named_and_the_others_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_check_in_worker", check_or_die)
    for name in ("a", "b", "c", "d", "fatal", "g", "h", "i", "j"):
        (tmp_path / f"{name}.py").write_text(KERNEL)
    result = CliRunner().invoke(group, ["check", "--no-cache", "--jobs", "2", str(tmp_path)])
    assert result.exit_code == 2
    assert result.output.count("error[unreadable]: not checked: the process that checked it was ended") == 1
    assert f"{tmp_path}/fatal.py:1:1" in result.output
    assert result.output.count("error[data-race]") == 8


def test_a_folder_that_may_not_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    (tmp_path / "k.py").write_text("from numba import cuda\n")
    scan = os.scandir

    def scandir(path: str) -> object:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr("tilecheck.project.os.scandir", scandir)
    result = CliRunner().invoke(group, ["check", "--no-cache", str(tmp_path)])
    assert result.exit_code == 2
    assert "error[unreadable]: this folder may not be listed, so nothing in it was checked" in result.output
    assert f"{closed}:1:1" in result.output
    assert CliRunner().invoke(group, ["check", "--no-cache", "--exclude", "closed", str(tmp_path)]).exit_code == 0
