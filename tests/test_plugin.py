"""The mypy plugin: the same findings in every mode, contained failures, suppression, and no crash on broken programs."""

import os
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

import pytest
from mypy import api

from tests import fuzz_plugin
from tests.matrix import MODES, SINGLE, Run, difference, expected, project_in
from tilecheck.rules import RULES, rule_name
from tilecheck_mypy import analysis, kernels, plugin
from tilecheck_mypy.report import CODES

QUICK = {
    "cold",
    "warm",
    "workers",
    "old parser",
    "dependency edited",
    "daemon",
    "daemon, dependency edited",
    "shadow file",
}
OLDER = ("2.3.1", "2.2.0", "1.20.2")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in MODES])
def test_every_mode_finds_the_same(name: str, tmp_path: Path) -> None:
    run = project_in(tmp_path)
    wanted = expected(run.folder)
    for answer in MODES[name](run):
        assert difference(wanted, answer) == ""


def test_the_command_line_too(tmp_path: Path) -> None:
    run = project_in(tmp_path)
    wanted = Counter({key: n for key, n in expected(run.folder).items() if key[0] == "host.py"})
    (answer,) = SINGLE["command line"](run)
    assert difference(wanted, answer) == ""


@pytest.mark.slow
@pytest.mark.parametrize("version", OLDER)
def test_older_mypy_finds_the_same(version: str, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"mypy=={version}"], check=True)
    (site,) = home.glob("lib/*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")] + [str(Path(__file__).parent.parent)]
    (site / "tilecheck_dev.pth").write_text("\n".join(ours), "utf-8")
    run = Run(project_in(tmp_path / "project").folder, python)
    assert difference(expected(run.folder), run.mypy("--no-incremental")) == ""


def test_every_rule_has_a_code() -> None:
    assert set(CODES) == {rule_name(rule) for rule in RULES}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def checked(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> "Checked":
    monkeypatch.chdir(tmp_path)
    return Checked(tmp_path, cache)


class Checked:
    """mypy with the plugin, in this process; each has its own working directory, so its own configuration."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self.cache = str(cache)
        kernels.config.cache_clear()

    def __call__(self, text: str, config: str = "", *flags: str) -> tuple[str, int]:
        """What mypy prints about `text`, and its exit status."""
        (self.folder / "m.py").write_text(text, "utf-8")
        (self.folder / "mypy.ini").write_text(f"[mypy]\nplugins = tilecheck\n{config}\n", "utf-8")
        out, problem, status = api.run(
            ["m.py", "--config-file", "mypy.ini", "--cache-dir", self.cache, "--no-error-summary", *flags]
        )
        assert not problem
        return out, status


MOVED = """
import tilecheck as tc
from tilecheck import Dyn, Owned, Tensor, f32
def take(t: Tensor[Owned, f32, Dyn]) -> None: ...
def main() -> None:
    t = tc.zeros(8)
    take(t)
    print(t.size)
"""


def test_a_finding_has_its_code_and_notes_on_its_line(checked: Checked) -> None:
    out, status = checked(MOVED)
    lines = out.splitlines()
    assert status == 1 and lines[0].endswith("[use-after-move]")
    assert all(line.startswith("m.py:8: ") for line in lines)
    assert any("note: `t` is moved here" in line and "(line 7)" in line for line in lines)


@pytest.mark.parametrize(
    ("comment", "config"),
    [
        ("  # type: ignore[use-after-move]", ""),
        ("  # type: ignore[tilecheck]", ""),
        ("  # tilecheck: allow[use-after-move] shown on purpose", ""),
        ("", "disable_error_code = use-after-move"),
        ("", "[mypy-m]\ndisable_error_code = tilecheck"),
    ],
)
def test_suppression(checked: Checked, comment: str, config: str) -> None:
    assert checked(MOVED.replace("print(t.size)", f"print(t.size){comment}"), config) == ("", 0)


def test_a_failure_of_ours_is_one_message(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise ValueError("boom")

    monkeypatch.setattr(analysis, "findings", fail)
    out, status = checked(MOVED + "x: int = ''\n")
    assert status == 1 and len(out.splitlines()) == 2
    assert "m.py:1: error: tilecheck could not analyse this file (ValueError: boom)" in out
    assert "Incompatible types in assignment" in out


def test_the_configuration_counts(checked: Checked) -> None:
    assert checked(MOVED)[1] == 1
    (checked.folder / "pyproject.toml").write_text('[tool.tilecheck]\nignore = ["use-after-move"]\n', "utf-8")
    plugin.settings.cache_clear()
    kernels.config.cache_clear()
    assert checked(MOVED) == ("", 0)


def test_short_annotations_mean_any_rank(checked: Checked) -> None:
    text = """
import tilecheck as tc
from tilecheck import Mut, Tensor, f32, f16
def one(a: Tensor[Mut], b: Tensor[Mut, f32]) -> None:
    reveal_type(a)
    reveal_type(b)
one(tc.zeros(3), tc.zeros(3, 4))
one(tc.zeros(3), tc.zeros(3, dtype=f16))
"""
    out, _ = checked(text)
    assert out.count("*tuple[Any, ...]]") >= 2
    assert [line for line in out.splitlines() if "error" in line and "m.py:8:" in line]
    assert "m.py:7: error" not in out


def test_launches_have_precise_types(checked: Checked) -> None:
    text = """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
class B(Dim): ...
@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None: ...
z, x = tc.zeros(8).into_partition(8), tc.zeros(8)
reveal_type(copy(z, x).first().unpartition().sync())
"""
    out, _ = checked(text, "disable_error_code = tilecheck")
    assert 'note: Revealed type is "tilecheck.Tensor[tilecheck.surface.access.Owned' in out


def test_scalars_of_numpy_are_taken_as_the_run_time_takes_them(checked: Checked) -> None:
    text = """
import numpy as np
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
class B(Dim): ...
@tc.kernel
def add(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn], by: float, times: int) -> None:
    z.store(tc.load_like(x, z) + by * times)
def main() -> None:
    z, x, half = tc.zeros(64), tc.ones(64), np.float32(0.5)
    add(z.partition(8), x, half, np.int64(2)).sync()
    add(z.partition(8), x, by=np.int32(3), times=np.uint8(2)).sync()
    add(z.partition(8), x, np.float16(1) * 2, 2).sync()
    add(z.partition(8), x, 0.5, half).sync()
    add(z.partition(8), x, str(half), 2).sync()
"""
    found = [line for line in checked(text)[0].splitlines() if "[arg-type]" in line]
    assert [line.partition("incompatible type ")[2].partition("[")[0].strip() for line in found] == [
        '"floating',
        '"str"; expected "float"',
    ]


def test_who_may_write_alone_may_let_many_write(checked: Checked) -> None:
    text = """
import tilecheck as tc
from tilecheck import Atomic, Dim, Dyn, Mut, Owned, Shared, Tensor, f32, i32
class B(Dim): ...
@tc.kernel
def count(h: Tensor[Atomic, i32, Dyn], x: Tensor[Shared, i32, B]) -> None:
    h.atomic_add(x.partition(B)[0], 1)
def given(h: Tensor[Mut, i32, Dyn], loose: Tensor[Mut], own: Tensor[Owned, i32, Dyn], x: Tensor[Shared, i32, Dyn]) -> None:
    count(h, x).with_grid(1).sync()
    count(h=loose, x=x).with_grid(1).sync()
    count(own, x).with_grid(1).sync()
def shared(h: Tensor[Shared, i32, Dyn], x: Tensor[Shared, i32, Dyn]) -> None:
    count(h, x).with_grid(1).sync()
@tc.kernel
def alone(h: Tensor[Mut, i32, B]) -> None:
    h.atomic_add(tc.arange(B), 1)
"""
    found = [int(line.split(":")[1]) for line in checked(text)[0].splitlines() if ": error: " in line]
    assert set(found) == {13, 16}


def test_random_edits_never_crash_mypy(tmp_path: Path) -> None:
    assert fuzz_plugin.run(60, 7, tmp_path) == []


def test_one_mistake_is_told_once(checked: Checked) -> None:
    source = """\
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32
class B(Dim): ...
@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))
def cut(x: Tensor[Shared, f32, Dyn]) -> None:
    x.partition(8)
def launch() -> None:
    z, x, y = tc.zeros(64), tc.ones(64, dtype=f16), tc.ones(8, 8)
    copy(z.partition(8), x).sync()
    copy(z.partition(8), y).sync()
"""
    told = [
        (line.split(":")[1], line.rpartition("[")[2]) for line in checked(source)[0].splitlines() if ": error:" in line
    ]
    assert told == [("8", "write-to-shared]"), ("11", "dtype-mismatch]"), ("12", "shape-mismatch]")]
    # What is ignored in our words is still said in mypy's.
    assert "[call-overload]" in checked(source.replace("(8)\ndef", "(8)  # type: ignore[write-to-shared]\ndef"))[0]
