"""`tilecheck new NAME` makes a project that passes its tests, mypy and the linter at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*module: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    ours = os.pathsep.join([str(ROOT), str(ROOT / "runtime"), str(ROOT / "mypy_plugin")])
    env = {**os.environ, "PYTHONPATH": ours, "MYPYPATH": ours}
    return subprocess.run([sys.executable, "-m", *module], cwd=cwd, env=env, capture_output=True, text=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("new")
    made = run("tilecheck", "new", "my-project", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder / "my-project"


@pytest.mark.parametrize("command", ["pytest", "mypy", "tilecheck check"])
def test_a_new_project_passes(command: str, project: Path) -> None:
    done = run(*command.split(), cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_fault_in_it_is_found(project: Path) -> None:
    kernels = project / "my_project" / "kernels.py"
    kernels.write_text(kernels.read_text("utf-8").replace("z.store(", "x.store("), "utf-8")
    done = run("tilecheck", "check", cwd=project)
    assert done.returncode == 1 and "error[write-to-shared]" in done.stdout, done.stdout + done.stderr
