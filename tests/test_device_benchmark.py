"""The device benchmark without a device: its arguments, what it prints, and that it says why it measures nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tilecheck as tc
from benchmarks import calls, device
from benchmarks.device import checks
from benchmarks.device.measure import Against, Line, host_line
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import specialise
from tilecheck_runtime.backends import cuda_interop
from tilecheck_runtime.errors import KernelStopped


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


without_torch = pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")


@without_torch
def test_one_line_says_why_nothing_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    device.main([])
    assert capsys.readouterr().out == "torch is not installed: nothing measured\n"


def test_an_unknown_part_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        device.main(["rows", "sums"])
    assert "no part sums; there are launch, pointwise, rows" in capsys.readouterr().err


@pytest.mark.parametrize("part", device.PARTS)
def test_a_part_is_a_module_that_runs(part: str) -> None:
    assert callable(import_module(f"benchmarks.device.{part}").run)


def test_a_part_that_fails_is_an_answer(tmp_path: Path) -> None:
    answer = device.apart("no-such-part", None)
    assert answer["error"].startswith("ended with status") and answer["lines"] == []
    assert json.dumps(answer)


def test_the_target_stands_next_to_the_ratio() -> None:
    assert Against("copy", 90.0, 0.981, at_least=0.98).text == "0.981 of copy (90.0 us; must be >= 0.98: holds)"
    assert Against("copy", 90.0, 1.5, at_most=1.3).text == "1.500 of copy (90.0 us; must be <= 1.3: FAILS)"
    assert Against("torch", 90.0, 1.5).text == "1.500 of torch (90.0 us)"


def test_the_host_cost_is_ours_over_theirs() -> None:
    side = (lambda: sum(range(5000)), lambda: None)
    none = (lambda: None, lambda: None)
    line = host_line("sums", side, {"nothing": (none, 1.0)}, 20)
    assert isinstance(line, Line)
    assert line.against[0].ratio > 1


def test_every_way_of_launching_runs(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(cuda_interop, "borrowed_from", calls.borrowed)
    monkeypatch.setattr(calls, "ROWS", 16)
    sides = calls.ways(tc.Stream(), *(tc.ones(calls.COUNT) for _ in range(4)), calls.Foreign(8))
    alone = calls.handles(calls.Foreign(8))
    for call, wait in sides.values():
        before = len(paper.launched)
        for _ in range(4):
            call()
        wait()
        assert len(paper.launched) == before + 4
    assert calls.AT_ONCE in sides
    monkeypatch.setattr(calls, "LAUNCHES", 3)
    monkeypatch.setattr(calls, "TURNS", 2)
    calls.main()
    assert [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()][1:] == [
        *sides,
        *alone,
        calls.REPLAY,
    ]


def test_a_twin_is_compiled_without_checks_and_only_there() -> None:
    z, x = tc.zeros(64), tc.ones(128)
    with checks.unchecked(checks.shifted):
        checks.shifted(z.partition(32), x, 1).sync()
        assert specialise.checked.__name__ == "bare"
    assert specialise.checked.__name__ == "checked"
    with pytest.raises(KernelStopped):
        checks.shifted(z.partition(32), x, 9).sync()
