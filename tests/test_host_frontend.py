"""Names resolve by Python's scoping rules, and nothing that the source evaluates is lost on the way to the host IR."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.frontend.host import read_host
from tilecheck.frontend.source import Source
from tilecheck.ir import host as ir


def names(text: str, module: str = "pkg.m", path: str = "pkg/m.py", **others: str) -> dict[str, list[str | None]]:
    """What each name of `text` stands for, in source order."""
    sources = {name.replace("__", "."): Source(name + ".py", body) for name, body in others.items()}
    read = read_host(Source(path, textwrap.dedent(text)), module, sources.get)
    found: dict[str, list[str | None]] = {}
    for node in ir.walk(*read.body):
        if isinstance(node, ir.Name):
            found.setdefault(node.id, []).append(node.full)
    return found


def test_imports_definitions_and_builtins_have_full_names() -> None:
    found = names(
        """
        import tilecheck as tc
        import numba.cuda
        from numba import cuda as cu
        from .kernels import scale
        from .. import other
        def local(): ...
        tc, numba, cu, scale, other, local, print
        """
    )
    assert found == {
        "tc": ["tilecheck"],
        "numba": ["numba"],
        "cu": ["numba.cuda"],
        "scale": ["pkg.kernels.scale"],
        "other": ["other"],
        "local": ["pkg.m.local"],
        "print": ["builtins.print"],
    }


@pytest.mark.parametrize(
    "rebinding",
    [
        "def f(cuda): cuda",
        "def f():\n    for cuda in (): cuda",
        "def f():\n    cuda\n    if (cuda := 1): cuda",
        "def f():\n    with g() as cuda: cuda",
        "def f():\n    try: g()\n    except E as cuda: cuda",
        "def f(x):\n    match x:\n        case [cuda, *_]: cuda",
        "lambda cuda: cuda",
        "[cuda for cuda in ()]",
    ],
)
def test_a_rebound_name_stands_for_nothing(rebinding: str) -> None:
    assert set(names("from numba import cuda\n" + rebinding)["cuda"]) == {None}


def test_an_import_with_a_fallback_and_an_alias_bound_once_are_read() -> None:
    found = names(
        """
        try:
            from numba import cuda
        except ImportError:
            cuda = None
        jit = cuda.jit
        @jit
        def k(): ...
        """
    )
    assert found["jit"][-1] == "numba.cuda.jit"


def test_star_imports_are_read_from_the_other_module() -> None:
    found = names("from kernels import *\nscale, _hidden", kernels="def scale(): ...\ndef _hidden(): ...\n")
    assert found == {"scale": ["kernels.scale"], "_hidden": [None]}


def test_class_scope_is_invisible_to_methods() -> None:
    found = names(
        """
        from numba import cuda
        class C:
            cuda = 1
            def f(self): cuda
        """
    )
    assert found["cuda"] == [None, "numba.cuda"]


def test_what_has_no_form_of_its_own_keeps_its_children() -> None:
    text = 'f"{a!r:>{b}}" "x" f"{c}"; d[e:g, ...]; {**h, 1: i}; [*j]; k if l else m; n < o < p\n'
    assert {name for name in names(text) if len(name) == 1} == set("abcdeghijklmnop")
