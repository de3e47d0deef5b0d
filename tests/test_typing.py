"""mypy without the plugin and basedpyright, on files whose lines say where an error belongs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

HERE = Path(__file__).parent / "typing"


def expected(path: Path) -> set[int]:
    """The lines that end in `# error: ...`."""
    return {n for n, line in enumerate(path.read_text("utf-8").splitlines(), 1) if "# error:" in line}


@pytest.fixture(scope="session")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("mypy_cache"))


def mypy_errors(path: Path, cache: str, *flags: str) -> set[int]:
    """The lines on which mypy reports an error."""
    out, problem, _ = api.run([str(path), "--config-file=", "--strict", "--cache-dir", cache, *flags])
    assert not problem
    return {int(line) for line in re.findall(r"^[^\n:]+:(\d+): error:", out, re.MULTILINE)}


def pyright_errors(path: Path, folder: Path) -> set[int]:
    """The lines on which basedpyright reports an error in its `standard` mode; `folder` takes its configuration."""
    project = folder / "pyrightconfig.json"
    project.write_text(json.dumps({"typeCheckingMode": "standard", "include": [str(path)], "pythonVersion": "3.11"}))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--project", str(project)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = json.loads(answer)["generalDiagnostics"]
    return {item["range"]["start"]["line"] + 1 for item in found if item["severity"] == "error"}


@pytest.mark.parametrize("name", ["surface.py", "ops.py"])
def test_mypy_reports_exactly_the_marked_lines(name: str, mypy_cache: str) -> None:
    assert mypy_errors(HERE / name, mypy_cache) == expected(HERE / name)


@pytest.mark.parametrize("name", ["surface.py", "ops.py"])
def test_basedpyright_reports_exactly_the_marked_lines(name: str, tmp_path: Path) -> None:
    assert pyright_errors(HERE / name, tmp_path) == expected(HERE / name)
