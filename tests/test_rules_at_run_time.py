"""The run time raises what the checker would have said, by the same name: the rules' own host examples, really run.

A bad example is run as it stands, with nothing having checked it; a good one runs to its end.
"""

import gc
import importlib.util
import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tilecheck as tc
from tilecheck.rules import RULES, rule_name

HOST_RULES = {
    "borrow-conflict",
    "capture",
    "reentrant-sync",
    "unpartitioned-output",
    "use-after-move",
    "use-in-flight",
}


def programs(which: str) -> Iterator[Any]:
    for rule in RULES:
        name = rule_name(rule)
        for number, text in enumerate(getattr(rule, which)):
            if name in HOST_RULES and "import tilecheck as tc" in text and "def main" in text:
                yield pytest.param(name, text, id=f"{name}-{number}")


def run(text: str, folder: Path) -> None:
    path = folder / "program.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = {"s": tc.Stream(), "x": tc.ones(64), "z": tc.zeros(64)}
    module.main(*(given[name] for name in inspect.signature(module.main).parameters))


def test_every_host_rule_is_run() -> None:
    assert {param.values[0] for param in programs("BAD")} == HOST_RULES


@pytest.mark.parametrize(("rule", "text"), list(programs("BAD")))
def test_a_bad_program_raises_its_rule(rule: str, text: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.DroppedOpWarning)
        with pytest.raises(tc.TilecheckError) as caught:
            run(text, tmp_path)
        assert caught.value.rule == rule
        # The ops of the program go here, not in a later test.
        del caught
        gc.collect()


@pytest.mark.parametrize(("rule", "text"), list(programs("GOOD")))
def test_a_good_program_runs(rule: str, text: str, tmp_path: Path) -> None:
    run(text, tmp_path)
