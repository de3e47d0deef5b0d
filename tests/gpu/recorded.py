"""The tile launches of the examples and of the kernel library, recorded while they run on the CPU, with what they computed.

A launch is kept as the harness takes it: the checked kernel, copies of its arguments from before, and the written arrays
from after. Launches of one specialisation with equal extents and scalars are kept once. SIMT kernels have one compiler and are left out.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import library_cases
from tests.gpu.harness import Array, Call
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends import Launch, Operand, cpu, default

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Recorded:
    """One launch and the arrays it left."""

    name: str
    call: Call
    expected: dict[str, Array]


def programs() -> dict[str, Callable[[], None]]:
    """What is recorded, by name: every example, and every case of the kernel library."""
    found: dict[str, Callable[[], None]] = {}
    for path in sorted(EXAMPLES.glob("*.py")):
        if not path.name.startswith("__"):
            found[path.stem] = importlib.import_module(f"examples.{path.stem}").main
    for name, case in library_cases.CASES.items():
        found[f"library {name}"] = case.run
    return found


@contextmanager
def recording() -> Iterator[list[Recorded]]:
    """Every tile launch inside, in order. Needs the process to compute on the CPU."""
    assert default() is cpu.CPU, "recording needs TILECHECK_DEVICE=cpu"
    reports: dict[int, tuple[Any, TileReport]] = {}
    kept: dict[object, Recorded] = {}
    listed: list[Recorded] = []
    compile_, launch_ = cpu._CPU.compile, cpu._launch

    def compile(self: Any, report: TileReport, key: Any, dims: Any) -> Any:
        program = compile_(self, report, key, dims)
        reports[id(program)] = (program, report)
        return program

    def launch(work: Launch) -> None:
        found = reports.get(id(work.program))
        if found is None:
            launch_(work)
            return
        call = _call(found[1], work)
        launch_(work)
        shown = tuple(a.shape if isinstance(a, np.ndarray) else a for a in call.arguments.values())
        key = (id(work.program), work.grid, shown)
        if key not in kept:
            after = {n: a.array for n, a in work.arguments.items() if isinstance(a, Operand)}
            expected = {n: cpu.array(after[n]).copy() for n in call.written}
            kept[key] = Recorded(work.kernel, call, expected)
            listed.append(kept[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu._CPU, "compile", compile)
        patch.setattr(cpu, "_launch", launch)
        yield listed


def _call(report: TileReport, work: Launch) -> Call:
    arguments: dict[str, Any] = {}
    tiles, maps = {}, {}
    for name, value in work.arguments.items():
        if isinstance(value, Operand):
            arguments[name] = cpu.array(value.array).copy()
            if value.tile is not None:
                tiles[name] = value.tile
            if value.mapping is not None:
                maps[name] = value.mapping
        else:
            arguments[name] = value
    return Call(report, arguments, work.grid, tiles, maps)


def record(name: str) -> list[Recorded]:
    """The launches of one program. Kernels compiled by an earlier program of this process are compiled again."""
    from tilecheck_runtime import calls

    calls.forget()
    with recording() as listed:
        programs()[name]()
    return listed


def on_cpu() -> bool:
    """Whether this process computes on the CPU, which recording needs."""
    return os.environ.get("TILECHECK_DEVICE") == "cpu"
