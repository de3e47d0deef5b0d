"""Where checks were switched off: allow comments and `tc.unsafe("reason")`.

`unsafe` is found by its name in any spelling that ends in `unsafe("...")` with tilecheck imported; a reason that is not a
literal is shown as its source text.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from tilecheck.frontend.gate import Undecodable, read_text
from tilecheck.report.result import Waiver
from tilecheck.report.suppressions import read_allows


def waivers(path: str, data: bytes) -> list[Waiver] | None:
    """The waivers of one file in the order of its lines; None for a file that does not parse."""
    try:
        text = read_text(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (Undecodable, SyntaxError, RecursionError, MemoryError):
        return None
    found = [Waiver(path, allow.span.line, "allow", allow.rule, allow.reason) for allow in read_allows(path, text)]
    return sorted([*found, *_unsafe(path, tree)], key=lambda waiver: (waiver.line, waiver.what))


def _unsafe(path: str, tree: ast.Module) -> Iterator[Waiver]:
    modules, names = _imports(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute):
            ours = isinstance(called.value, ast.Name) and called.value.id in modules and called.attr == "unsafe"
        else:
            ours = isinstance(called, ast.Name) and called.id in names
        if ours:
            reason = node.args[0] if node.args else None
            if isinstance(reason, ast.Constant) and isinstance(reason.value, str):
                words = reason.value
            else:
                words = "" if reason is None else ast.unparse(reason)
            yield Waiver(path, node.lineno, "unsafe", "", words)


def _imports(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names under which the file knows the module tilecheck, and `unsafe` itself."""
    modules: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.asname or alias.name for alias in node.names if alias.name == "tilecheck")
        elif isinstance(node, ast.ImportFrom) and node.module == "tilecheck" and not node.level:
            names.update(alias.asname or alias.name for alias in node.names if alias.name == "unsafe")
    return modules, names
