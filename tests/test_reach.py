"""Which files may launch the kernels of which."""

from __future__ import annotations

import pytest

from tilecheck.reach import imported, reachers


def test_imports_are_followed_through_packages_and_new_names() -> None:
    found = reachers(
        [
            ("pkg/kernels.py", b"@cuda.jit\ndef scale(x): ..."),
            ("pkg/__init__.py", b"from .kernels import scale as s"),
            ("main.py", b"from pkg import s\ns[1, 32](x)"),
            ("other.py", b"import numba"),
        ]
    )
    assert found["pkg/kernels.py"] == {"pkg/__init__.py", "main.py"}
    assert found["main.py"] == frozenset()
    assert found["other.py"] == frozenset()


def test_files_that_import_each_other() -> None:
    found = reachers([("a.py", b"import b"), ("b.py", b"import a")])
    assert found == {"a.py": {"b.py"}, "b.py": {"a.py"}}


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        (b"import a.b as c, d", {("a",), ("a", "b"), ("d",)}),
        (b"from . import (\n  x,  # no )\n  y as z,\n)", {("x",), ("y",)}),
        (b"from ..m import \\\n   k", {("m",), ("m", "k")}),
        (b"z = 1; import q", {("q",)}),
        (b"if t: from pkg.sub import w\r\nx = 2\r\n", {("pkg", "sub"), ("pkg", "sub", "w")}),
        (b"from a import (b, c); from d import *", {("a",), ("a", "b"), ("a", "c"), ("d",)}),
        ("import größe".encode(), {("größe",)}),
        (b"\xff\xfe import x", {("x",)}),
        (b"important = 1", set()),
    ],
)
def test_import_statements(text: bytes, modules: set[tuple[str, ...]]) -> None:
    assert imported(text) == modules


def test_modules_of_one_name_are_told_apart() -> None:
    found = reachers(
        [
            ("one/ops.py", b""),
            ("two/ops.py", b""),
            ("a.py", b"from one.ops import k"),
            ("b.py", b"import ops"),
            ("two/c.py", b"from .ops import k"),
        ]
    )
    assert found["one/ops.py"] == {"a.py", "b.py", "two/c.py"}
    assert found["two/ops.py"] == {"b.py", "two/c.py"}
