"""Definitions of other files, by dotted name: how a kernel imported from a sibling module is found.

A dotted name is split at every dot, longest module first; re-exports (`from .kernels import scale` in an `__init__`) are
followed. Modules that the project does not hold, and files that do not parse, define nothing. Of a file that mentions no
kernels only the numbers are read, from its text, unless that hands on what it imports.

Worked example: in `shop/main.py`, `from shop import scale` makes `scale` stand for `shop.scale`; `shop/__init__.py`
imports it from `.kernels`, so the definition is the function `scale` of `shop/kernels.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tilecheck.diagnostic import Span
from tilecheck.frontend.gate import mentions_kernels
from tilecheck.frontend.host import read_exports, read_host
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.ir import host as ir

ResolveFrom = Callable[[str, str], Source | None]
"""`resolve(module, importer)`: the source of a module as imported by the file `importer`."""

Definition = ir.Function | ir.Class | ir.Expr

_DEEPEST = 8
"""Re-exports are followed this far."""


class HostModules:
    """Reads the modules that host code imports, each at most once."""

    def __init__(self, resolve: ResolveFrom) -> None:
        self.resolve = resolve
        self._read: dict[str, tuple[dict[str, Definition], dict[str, str]] | None] = {}
        self._plain: dict[str, dict[str, Definition]] = {}

    def outside(self, importer: str) -> Callable[[str], Definition | None]:
        """The definition behind a dotted name, as seen from the file `importer`."""
        return lambda full: self.find(full, importer)

    def find(self, full: str, importer: str, depth: int = 0) -> Definition | None:
        """The definition behind `full`, None if the project has none."""
        parts = full.split(".")
        for at in range(len(parts) - 1, 0, -1):
            module, rest = ".".join(parts[:at]), ".".join(parts[at:])
            source = self.resolve(module, importer)
            if source is None:
                continue
            head, _, tail = rest.partition(".")
            read = self._module(module, source, head)
            if read is None:
                return None
            definitions, exports = read
            if rest in definitions:
                return definitions[rest]
            if head in exports and depth < _DEEPEST:
                target = f"{exports[head]}.{tail}" if tail else exports[head]
                return self.find(target, source.path, depth + 1) if target != full else None
            return None
        return None

    def _module(self, name: str, source: Source, asked: str) -> tuple[dict[str, Definition], dict[str, str]] | None:
        """What the module defines and hands on; of one without kernels the numbers, if `asked` is no name of another."""
        mentions = mentions_kernels(source.text.encode("utf-8", "surrogatepass"))
        if not mentions and not source.path.endswith("__init__.py") and not _hands_on(source.text, asked):
            if source.path not in self._plain:
                self._plain[source.path] = _numbers(source)
            return self._plain[source.path], {}
        if source.path not in self._read:
            self._read[source.path] = self._definitions(name, source)
        return self._read[source.path]

    def _definitions(self, name: str, source: Source) -> tuple[dict[str, Definition], dict[str, str]] | None:
        def resolve(module: str) -> Source | None:
            return self.resolve(module, source.path)

        try:
            module = read_host(source, name, resolve)
            exports = read_exports(source, name, resolve)
        except Unreadable:
            return None
        found: dict[str, Definition] = {}
        for statement in module.body:
            match statement:
                case ir.Function(name=local) | ir.Class(name=local):
                    found[local] = statement
                case ir.Assign(targets=(ir.Name(id=local),), value=ir.Expr() as value):
                    # A name that is assigned twice stands for nothing.
                    found[local] = ir.Opaque(span=statement.span) if local in found else value
                case _:
                    pass
        return found, exports


def _hands_on(text: str, name: str) -> bool:
    """Whether `name` may be bound by an import, or be another name for something: `fast = kernels.scale`."""
    named = re.compile(rf"\*|\b{re.escape(name)}\b")
    if any(named.search(found[1]) for found in _IMPORTED.finditer(text)):
        return True
    return re.search(rf"^{re.escape(name)}[ \t]*=[ \t]*[A-Za-z_][\w.]*[ \t]*(?:#.*)?$", text, re.MULTILINE) is not None


def _numbers(source: Source) -> dict[str, Definition]:
    """The names that a file gives an integer, once, at its top level."""
    found: dict[str, Definition] = {}
    for number, line in enumerate(source.lines, 1):
        assigned = _ASSIGNED.match(line)
        if assigned is None:
            continue
        name, value = assigned.groups()
        span = Span(source.path, number, 1, number, len(line) + 1)
        literal = _INTEGER.fullmatch(value)
        once = literal is not None and name not in found
        found[name] = ir.Const(int(literal[1]), span=span) if once and literal is not None else ir.Opaque(span=span)
    return found


_IMPORTED = re.compile(r"^[ \t]*(?:from[ \t.]+[\w.]*[ \t]*)?import\b[ \t]*(\([^)]*\)|[^\n]*)", re.MULTILINE)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)(.*)")
_INTEGER = re.compile(r"\s*(\d+)\s*(?:#.*)?")
