"""The pre-commit hook in a real run: a scratch repository with a hook that calls this installation's `tilecheck`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# The hook as published, with the entry of this installation instead of an environment made from the network.
CONFIG = """
repos:
  - repo: local
    hooks:
      - id: tilecheck
        name: tilecheck
        entry: {python} -m tilecheck check --no-cache
        language: system
        types: [python]
        require_serial: true
"""

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "HOME": str(cwd),
        "PRE_COMMIT_HOME": str(cwd / ".pre-commit"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime"), str(ROOT / "mypy_plugin")]),
        **{f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)


def test_the_hook_refuses_and_accepts(tmp_path: Path) -> None:
    assert run("git", "init", "-q", ".", cwd=tmp_path).returncode == 0
    (tmp_path / ".gitignore").write_text(".pre-commit/\n.cache/\n")
    (tmp_path / ".pre-commit-config.yaml").write_text(CONFIG.format(python=sys.executable))
    (tmp_path / "k.py").write_text("from numba import cuda\n\n@cuda.jit\ndef k(x:\n    pass\n")
    assert run("git", "add", "-A", cwd=tmp_path).returncode == 0
    refused = run(sys.executable, "-m", "pre_commit", "run", "--all-files", cwd=tmp_path)
    assert refused.returncode == 1, refused.stdout + refused.stderr
    assert "error[unreadable]" in refused.stdout and "k.py:4" in refused.stdout
    (tmp_path / "k.py").write_text("from numba import cuda\n\n@cuda.jit\ndef k(x):\n    pass\n")
    accepted = run(sys.executable, "-m", "pre_commit", "run", "--all-files", cwd=tmp_path)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr


def test_the_published_hook_has_the_same_command(tmp_path: Path) -> None:
    manifest = ROOT / ".pre-commit-hooks.yaml"
    valid = run(sys.executable, "-m", "pre_commit", "validate-manifest", str(manifest), cwd=tmp_path)
    assert valid.returncode == 0, valid.stdout + valid.stderr
    assert "entry: tilecheck check" in manifest.read_text("utf-8")
