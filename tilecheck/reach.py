"""Which files may launch the kernels of which, told from their import statements alone.

A file can name a kernel of another only through an import, and an import spells the module's name, or the end of it. So the
files whose imports end a file's path, the files that import one of those, and so on, are all that may hold a launch. More
files than necessary (an import in a docstring, two modules of one name) cost time; a file too few would lose a fact, and
cannot happen, except for imports that no checker follows.

Example: `from pkg.ops import scale` may read `src/pkg/ops.py`, `pkg/ops/__init__.py` and `pkg/ops/scale.py`, not `ops.py` of
another folder.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

_COMMENT = re.compile(r"#[^\n]*")
_CONTINUED = re.compile(r"\\\n")
_IMPORT = re.compile(r"\bimport\b[ \t\f]*(\([^)]*|[^\n;]*)")
_FROM = re.compile(r"\bfrom[ \t\f]*([.\w \t\f]+)$")
_NAME = re.compile(r"[^\W\d]\w*(?:[ \t\f]*\.[ \t\f]*\w+)*")

Parts = tuple[str, ...]


def reachers(files: Sequence[tuple[str, bytes]]) -> Mapping[str, frozenset[str]]:
    """For each path the paths of the other files that may import it, directly or through others."""
    modules: dict[str, list[tuple[str, Parts]]] = defaultdict(list)
    for path, _ in files:
        parts = _module(path)
        modules[parts[-1]].append((path, parts))
    direct: dict[str, set[str]] = {path: set() for path, _ in files}
    for path, data in files:
        for wanted in imported(data):
            for other, parts in modules.get(wanted[-1], ()):
                if other != path and parts[-len(wanted) :] == wanted:
                    direct[other].add(path)
    return {path: _closure(path, direct) for path in direct}


def imported(data: bytes) -> frozenset[Parts]:
    """The dotted names, relative ones without their dots, of the modules that a file may import; a few more do no harm."""
    text = data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    return frozenset(_statements(_CONTINUED.sub(" ", _COMMENT.sub("", text))))


def _statements(text: str) -> Iterator[Parts]:
    for found in _IMPORT.finditer(text):
        # Each item is a name, perhaps with `as` and another.
        items = [_NAME.search(item) for item in found[1].split(",")]
        names = [_parts(item[0]) for item in items if item is not None]
        source = _FROM.search(text, text.rfind("\n", 0, found.start()) + 1, found.start())
        if source is None:
            for name in names:
                # `import a.b` runs `a` as well.
                yield from (name[: end + 1] for end in range(len(name)))
            continue
        home = _parts(source[1])
        if home:
            yield home
        yield from ((*home, *name) for name in names)


def _parts(dotted: str) -> Parts:
    return tuple(part for part in re.split(r"[.\s]+", dotted) if part)


def _closure(path: str, direct: Mapping[str, set[str]]) -> frozenset[str]:
    found: set[str] = set()
    pending = list(direct[path])
    while pending:
        other = pending.pop()
        if other not in found and other != path:
            found.add(other)
            pending.extend(direct[other])
    return frozenset(found)


def _module(path: str) -> Parts:
    """The words that an import of this file may end in: its path, for a package that of its folder."""
    parts = tuple(os.path.abspath(path).removesuffix(".py").split(os.sep))
    return parts[:-1] if parts[-1] == "__init__" else parts
