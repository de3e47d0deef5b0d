"""The pre-commit hook as published, in real pre-commit runs on a scratch repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
BROKEN = "from numba import cuda\n\n@cuda.jit\ndef k(x:\n    pass\n"
REPAIRED = "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    pass\n"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """A git repository with one file, and a `tilecheck` command that is this checkout."""
    command = tmp_path / "bin" / "tilecheck"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tilecheck "$@"\n')
    command.chmod(0o755)
    repository = tmp_path / "repository"
    repository.mkdir()
    assert run("git", "init", "-q", ".", cwd=repository).returncode == 0
    (repository / ".gitignore").write_text(".tilecheck_cache/\n")
    (repository / "pyproject.toml").write_text("")
    write(repository, BROKEN)
    return repository


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "HOME": str(cwd.parent),
        "PRE_COMMIT_HOME": str(cwd.parent / "pre-commit"),
        "PATH": f"{cwd.parent / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime"), str(ROOT / "mypy_plugin")]),
        **{f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def write(repository: Path, text: str) -> None:
    (repository / "k.py").write_text(text)
    assert run("git", "add", "-A", cwd=repository).returncode == 0


def pre_commit(repository: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-m", "pre_commit", *args, cwd=repository)


def test_the_hook_refuses_and_accepts(scratch: Path) -> None:
    """The published hook with the installed command, so that no environment is made from the network."""
    (hook,) = yaml.safe_load(MANIFEST.read_text("utf-8"))
    local = {"repos": [{"repo": "local", "hooks": [{**hook, "language": "system"}]}]}
    (scratch / ".pre-commit-config.yaml").write_text(yaml.safe_dump(local))
    write(scratch, BROKEN)
    refused = pre_commit(scratch, "run", "--all-files")
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "error[unreadable]" in refused.stdout and "k.py:4" in refused.stdout
    write(scratch, REPAIRED)
    accepted = pre_commit(scratch, "run", "--all-files")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr


@pytest.mark.slow
def test_the_hook_installs_itself(scratch: Path) -> None:
    """The whole way: pre-commit clones the checkout and installs it from the package index."""
    refused = pre_commit(scratch, "try-repo", str(ROOT), "tilecheck", "--all-files")
    assert refused.returncode == 1 and "error[unreadable]" in refused.stdout, refused.stdout + refused.stderr


def test_the_manifest_is_valid(tmp_path: Path) -> None:
    valid = pre_commit(tmp_path, "validate-manifest", str(MANIFEST))
    assert valid.returncode == 0, valid.stdout + valid.stderr
