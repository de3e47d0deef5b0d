"""What names mean, lexically."""

from __future__ import annotations

import libcst as cst
import pytest

from tilecheck.frontend.names import (
    Alias,
    Constant,
    DimClass,
    External,
    Function,
    Meaning,
    Module,
    Scope,
    Unusable,
    functions,
    meaning,
    module_scope,
    path_of,
)
from tilecheck.frontend.source import Source, Unreadable

FILES = {
    "dims.py": "from tilecheck import Dim\nimport tilecheck as tc\nclass BM(Dim): ...\nclass D64(tc.Dim, size=4 * 16): ...\nTWO = 2\n",
    "reexport.py": "from dims import BM as ROWS\nfrom dims import *\nfrom loops import LOOP\n",
    "loops.py": "from reexport import LOOP\n",
    "broken.py": "def (:\n",
}


def resolve(module: str, importer: str) -> Source | None:
    path = module.lstrip(".") + ".py"
    return Source(path, FILES[path]) if path in FILES else None


def scope(text: str) -> Scope:
    return module_scope(Source("main.py", text), resolve)


def look(text: str, expression: str) -> Meaning | None:
    return meaning(cst.parse_expression(expression), scope(text))


@pytest.mark.parametrize(
    ("text", "expression", "path"),
    [
        ("import tilecheck as tc", "tc.kernel", "tilecheck.kernel"),
        ("import tilecheck", "tilecheck.kernel", "tilecheck.kernel"),
        ("from tilecheck import kernel as k", "k", "tilecheck.kernel"),
        ("from tilecheck import *", "kernel", "tilecheck.kernel"),
        ("import numba.cuda", "numba.cuda.jit", "numba.cuda.jit"),
        ("from numba import cuda as c", "c.jit", "numba.cuda.jit"),
        ("import tilecheck as tc\njit = tc.kernel", "jit", "tilecheck.kernel"),
        ("from statistics import mean as avg", "avg", "statistics.mean"),
        ("try:\n    import tilecheck as tc\nexcept ImportError:\n    tc = None", "tc.f32", "tilecheck.f32"),
        ("from unknown.place import thing", "thing", "unknown.place.thing"),
    ],
)
def test_imports_and_aliases(text: str, expression: str, path: str) -> None:
    assert path_of(cst.parse_expression(expression), scope(text)) == path


def test_dims_are_identified_by_the_file_that_defines_them() -> None:
    for text, expression in [
        ("from dims import BM", "BM"),
        ("from .dims import BM", "BM"),
        ("from reexport import ROWS", "ROWS"),
        ("import dims", "dims.BM"),
        ("import reexport as r", "r.BM"),
    ]:
        found = look(text, expression)
        assert isinstance(found, DimClass), (text, found)
        assert (found.decl.key, found.decl.name, found.decl.size) == ("dims.py::BM", "BM", None)
    fixed = look("from dims import D64", "D64")
    assert isinstance(fixed, DimClass) and fixed.decl.size == 64


@pytest.mark.parametrize(
    ("text", "expression", "value"),
    [
        ("N = 4\nM = N * 2 - 1", "M", 7),
        ("SCALE: float = 1 / 8", "SCALE", 0.125),
        ("A, (B, C) = 1, (2, 3)", "C", 3),
        ("from dims import TWO, D64\nX = D64 // TWO", "X", 32),
        ("import math\nX = -math.inf", "X", float("-inf")),
        ("X = float('inf') if False else 1", "X", None),
        ("X = (1, 2)", "X", (1, 2)),
        ("X = 2 ** 100000", "X", None),
        ("X = 1 // 0", "X", None),
    ],
)
def test_constants(text: str, expression: str, value: object) -> None:
    found = look(text, expression)
    if value is None:
        assert isinstance(found, Alias)
    else:
        assert found == Constant(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("COUNT = 0\ndef f():\n    global COUNT\n    COUNT += 1", "more than once"),
        ("COUNT = 0\nCOUNT += 1", "more than once"),
        ("if True:\n    COUNT = 1\nelse:\n    COUNT = 2", "more than once"),
        ("for COUNT in range(3): pass", "bound by a loop"),
        ("class COUNT: ...", "is a class"),
        ("from reexport import LOOP as COUNT", "circle"),
        ("from broken import COUNT", "does not parse"),
    ],
)
def test_what_is_no_constant_says_why(text: str, words: str) -> None:
    found = look(text, "COUNT")
    assert isinstance(found, Unusable) and words in found.reason


def test_enclosing_functions_are_closures() -> None:
    text = "N = 1\ndef make(n):\n    N = 2\n    def kernel(): ...\nclass C:\n    def method(self): ..."
    inner = {node.name.value: names for node, names in functions(Source("main.py", text), resolve)}
    assert inner["kernel"].name("N") == Constant(2)
    assert inner["make"].name("N") == Constant(1)
    assert inner["method"].name("N") == Constant(1)
    parameter = inner["kernel"].name("n")
    assert isinstance(parameter, Unusable) and "enclosing function `make`" in parameter.reason
    assert isinstance(inner["kernel"].name("make"), Function)
    assert inner["kernel"].name("nowhere") is None


def test_modules_that_do_not_parse_or_do_not_exist() -> None:
    with pytest.raises(Unreadable):
        module_scope(Source("broken.py", FILES["broken.py"]), resolve)
    assert look("import dims", "dims.NOPE") == Unusable("is not defined in `dims`")
    assert isinstance(look("import dims", "dims"), Module)
    assert look("import nowhere", "nowhere.f") == External("nowhere.f")
