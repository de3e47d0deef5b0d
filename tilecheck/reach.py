"""Which files may launch the kernels of which, and so are worth checking, told from their import statements alone.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence

_COMMENT = re.compile(r"#[^\n]*")
_CONTINUED = re.compile(r"\\\n")
_IMPORT = re.compile(r"\bimport\b[ \t\f]*(\([^)]*|[^\n;]*)")
_FROM = re.compile(r"\bfrom[ \t\f]*([.\w \t\f]+)$")
_NAME = re.compile(r"[^\W\d]\w*(?:[ \t\f]*\.[ \t\f]*\w+)*")

_LANGUAGES = frozenset({"tilecheck", "tilecheck_runtime", "numba", "cuda"})

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


class Importers:
    """The files that import one of those that may hold kernels, by its own name or through a package's `__init__.py`;
    such a file launches kernels without a word of its own that says so.
    """

    def __init__(self, kernels: Iterable[tuple[str, bytes]]) -> None:
        self._modules: dict[str, set[Parts]] = defaultdict(set)
        for path, data in kernels:
            if has_language(data):
                self.add(path)

    def add(self, path: str) -> None:
        """Count the file at `path` among those that may hold kernels."""
        parts = _module(path)
        self._modules[parts[-1]].add(parts)

    def holds(self, data: bytes) -> bool:
        """Whether the file with these bytes imports one of them."""
        if not any(name.encode("utf-8", "surrogateescape") in data for name in self._modules):
            return False
        return any(
            parts[-len(wanted) :] == wanted for wanted in imported(data) for parts in self._modules.get(wanted[-1], ())
        )


def has_language(data: bytes) -> bool:
    """Whether the file with these bytes imports what kernels are written in, and does not just mention it."""
    return any(wanted[0] in _LANGUAGES for wanted in imported(data))


def neighbours(path: str, data: bytes) -> Iterator[str]:
    """The files next to, above and below the one at `path` that it may import, for when the others are not listed."""
    here = os.path.dirname(os.path.abspath(path))
    folders = [here]
    while os.path.isfile(os.path.join(folders[-1], "__init__.py")) and os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    for folder in dict.fromkeys((*folders, os.path.abspath(os.curdir))):
        for wanted in sorted(imported(data)):
            stem = os.path.join(folder, *wanted)
            yield from filter(os.path.isfile, (f"{stem}.py", os.path.join(stem, "__init__.py")))


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
