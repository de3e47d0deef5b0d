"""`tilecheck new NAME`: a project that passes mypy, the linter and its tests at once."""

from __future__ import annotations

import keyword
import sys
from importlib.util import find_spec
from pathlib import Path

import click

from tilecheck.cli import terminal
from tilecheck.cli.ending import CannotRun

_PYPROJECT = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["numpy", "tilecheck[mypy]"]

[project.optional-dependencies]
cuda = ["tilecheck[cuda]"]
dev = ["pytest"]

[tool.mypy]
strict = true
files = ["{module}", "tests"]
plugins = ["tilecheck"]

# With kernels in numba-cuda's own language; mypy reads an old `numba.cuda` without types otherwise.
# [[tool.mypy.overrides]]
# module = "numba.*"
# follow_imports = "skip"

[tool.tilecheck]
paths = ["{module}", "tests"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
"""

_KERNELS = '''\
"""The kernels of {name}."""

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim):
    """The extent of a block's tile."""


@tc.kernel
def scale_add(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], y: Tensor[Shared, f32, Dyn], a: float) -> None:
    """z = a * x + y, one block per tile of z."""
    z.store(a * tc.load_like(x, z) + tc.load_like(y, z))
'''

_TEST = """\
import numpy as np
import tilecheck as tc

from {module}.kernels import scale_add


def test_scale_add_agrees_with_numpy() -> None:
    a = np.arange(1000, dtype=np.float32)
    b = np.ones(1000, dtype=np.float32)
    x, y, z = tc.asarray(a), tc.asarray(b), tc.zeros(1000)
    scale_add(z.partition(128), x, y, 2.0).sync()
    np.testing.assert_allclose(z.numpy(), 2 * a + b)
"""

_README = """\
# {name}

    pip install -e ".[dev]"
    pytest
    mypy
    tilecheck check
    tilecheck explain {module}/kernels.py::scale_add
"""

_HOOK = """\
repos:
  - repo: local
    hooks:
      - id: tilecheck
        name: tilecheck
        entry: tilecheck check
        language: system
        types: [python]
"""


# The packages of this distribution, which a checkout need not have on its path.
_OWN = ("tilecheck", "tilecheck_mypy", "tilecheck_runtime")


def _taken(module: str) -> str | None:
    """What an import of `module` finds already; a mere folder here is no module."""
    if module in _OWN:
        return "tilecheck's own package"
    if module in sys.stdlib_module_names or module == "__main__":
        return "the standard library's module"
    spec = find_spec(module)
    if spec is None:
        return None
    here = spec.origin is None and all(
        Path(place).parent == Path.cwd() for place in spec.submodule_search_locations or ()
    )
    return None if here else "the installed module"


@click.command("new")
@click.argument("name")
def command(name: str) -> None:
    """Start a project in a new folder NAME: a kernel, its test, and the set-up of mypy, pytest and pre-commit."""
    folder = Path(name)
    title = folder.name
    module = title.replace("-", "_").lower()
    if not module.isidentifier() or keyword.iskeyword(module) or not module.isascii():
        raise click.UsageError(f"`{title}` is no name for a package: use letters, digits, `-` and `_`")
    if (taken := _taken(module)) is not None:
        raise CannotRun(f"a project `{title}` would hide {taken} `{module}`: take another name")
    if folder.exists():
        raise CannotRun(f"{folder} exists already")
    files = {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README,
        ".pre-commit-config.yaml": _HOOK,
        ".gitignore": "__pycache__/\n.venv/\n.mypy_cache/\n.tilecheck_cache/\n",
        f"{module}/__init__.py": "",
        f"{module}/py.typed": "",
        f"{module}/kernels.py": _KERNELS,
        "tests/test_kernels.py": _TEST,
    }
    try:
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.format(name=title, module=module), encoding="utf-8")
    except OSError as error:
        raise CannotRun(f"cannot write {error.filename}: {error.strerror}") from None
    terminal.write(f"{folder} is ready: cd {folder}, pip install -e '.[dev]', then pytest, mypy, tilecheck check")
