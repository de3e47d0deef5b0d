"""The public names: sorted, lazy, resolvable, the same in the stub, and nothing heavy behind the import."""

import ast
import subprocess
import sys

import pytest

import tilecheck as tc
from tilecheck.ops import OPS
from tilecheck.ops.stub import files, public

HEAVY = ("mypy", "numba", "cuda", "libcst", "z3", "numpy", "tilecheck_runtime")
LOADED = "import sys; print(sorted({m.partition('.')[0] for m in sys.modules} & set(sys.argv[1:])))"


def loaded_after(statement: str) -> str:
    """Which of the heavy packages a fresh interpreter has loaded after `statement`."""
    script = f"{statement}; {LOADED}"
    return subprocess.run(
        [sys.executable, "-c", script, *HEAVY], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import tilecheck; tilecheck.Dim, tilecheck.Tensor, tilecheck.kernel, tilecheck.f32") == "[]"


def test_a_heavy_import_would_be_seen() -> None:
    assert loaded_after("import tilecheck, libcst") == "['libcst']"


def test_all_is_sorted_and_resolves() -> None:
    assert tc.__all__ == sorted(set(tc.__all__))
    for name in sorted(set(tc.__all__) - {"DeviceOp", "Partition", "Running", "zeros"}):
        assert getattr(tc, name) is not None, name
    assert set(tc.__all__) <= set(dir(tc))


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module `tilecheck` has no attribute `nonsense`"):
        getattr(tc, "nonsense")  # noqa: B009 (the type checkers know it is not there)


def test_generated_files_are_current() -> None:
    for path, text in files(OPS).items():
        assert path.read_text("utf-8") == text, f"{path.name} is stale: run `python -m tilecheck.ops.stub`"


def test_stub_exports_the_same_names() -> None:
    (stub,) = (text for path, text in files(OPS).items() if path.name == "__init__.pyi")
    assert public(ast.parse(stub)) == set(tc.__all__)
