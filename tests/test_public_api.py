"""The public names: sorted, lazy, resolvable, the same in the stub, and nothing heavy behind the import."""

import ast
import builtins
import subprocess
import sys
from collections.abc import Iterator
from inspect import isfunction, signature
from typing import Any

import pytest

import tilecheck as tc
import tilecheck_runtime
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
    for name in sorted(tc._NAMES):
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
    assert public(ast.parse(stub)) == tc._NAMES
    assert f"__all__ = {tc.__all__!r}" in stub


def test_a_star_import_hides_no_builtin() -> None:
    scope: dict[str, Any] = {}
    exec("from tilecheck import *", scope)
    assert {"Tensor", "kernel", "load_like", "zeros"} <= scope.keys()
    assert not scope.keys() - {"__builtins__"} & vars(builtins).keys()
    assert callable(tc.print) and callable(tc.sum) and {"print", "sum"} <= set(dir(tc))


def test_runtime_names_are_the_public_ones() -> None:
    assert set(tilecheck_runtime.__all__) == set(tc._RUNTIME)


def stub_signatures() -> dict[str, set[str]]:
    """Parameter names by function, or by `Class.method`, as the stub has them; overloads add up."""
    (stub,) = (text for path, text in files(OPS).items() if path.name == "__init__.pyi")
    found: dict[str, set[str]] = {}
    for node in ast.parse(stub).body:
        for owner, inner in (
            [("", node)] if not isinstance(node, ast.ClassDef) else [(f"{node.name}.", n) for n in node.body]
        ):
            if isinstance(inner, ast.FunctionDef):
                names = {a.arg for a in (*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs)}
                names |= {a.arg for a in (inner.args.vararg, inner.args.kwarg) if a is not None}
                found.setdefault(f"{owner}{inner.name}", set()).update(names)
    return found


def public_callables() -> Iterator[tuple[str, Any]]:
    """The functions that the runtime exports, and the public methods of its classes."""
    for name in set(tilecheck_runtime.__all__):
        value = getattr(tilecheck_runtime, name)
        if isinstance(value, type):
            if not issubclass(value, BaseException):
                yield from ((f"{name}.{n}", f) for n, f in vars(value).items() if isfunction(f) and n[0] != "_")
        elif callable(value):
            yield name, value


def test_the_stub_has_every_function_and_parameter_of_the_runtime() -> None:
    known = stub_signatures()
    for name, function in public_callables():
        assert name in known, f"`{name}` is missing in tilecheck/surface/header.pyi"
        assert set(signature(function).parameters) <= known[name], name
