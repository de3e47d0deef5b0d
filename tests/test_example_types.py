"""The examples under the type checkers: clean in both, and the type errors among the rejected ones found without us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# numba ships no types for `numba.cuda`: type checkers find its names missing in examples that use it, ours or not.
EXAMPLES = sorted(
    str(path) for path in (ROOT / "examples").glob("*.py") if "from numba import" not in path.read_text("utf-8")
)
# What standard typing alone can tell: access, dtype, shape and index errors.
TYPED = ("dtype_mismatch", "foreign_index", "head_permutation", "shape_mismatch", "write_to_shared")
PATHS = os.pathsep.join([str(ROOT), str(ROOT / "runtime"), str(ROOT / "mypy_plugin")])


def test_basedpyright_reads_the_examples_as_we_do(tmp_path: Path) -> None:
    rejected = [ROOT / "examples" / "rejected" / f"{name}.py" for name in TYPED]
    config = {
        "include": [*EXAMPLES, *map(str, rejected)],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT), str(ROOT / "runtime")],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    found = {
        (Path(item["file"]).name, item["range"]["start"]["line"] + 1)
        for item in json.loads(done.stdout)["generalDiagnostics"]
        if item["severity"] == "error"
    }
    marked = {
        (path.name, number)
        for path in rejected
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1)
        if "# error" in line
    }
    assert found == marked


def test_mypy_with_the_plugin_is_clean_on_the_examples(tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\nplugins = tilecheck\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(tmp_path / "mypy.ini"), "--no-incremental", *EXAMPLES],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": PATHS, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
