"""Which files may launch the kernels of which, told from their text alone.

A file can name a kernel of another only through an import, and an import spells the last part of the module's name. So
the files whose text mentions that word, the files that mention one of those, and so on, are all that may hold a launch.
More files than necessary (a module called `main`) cost time; a file too few would lose a fact, and cannot happen, except
for imports that no checker follows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

_WORD = re.compile(rb"[^\W\d]\w*")


def reachers(files: Sequence[tuple[str, bytes]]) -> Mapping[str, frozenset[str]]:
    """For each path the paths of the other files that may import it, directly or through others."""
    words = {path: frozenset(_WORD.findall(data)) for path, data in files}
    named = {path: _last_name(path).encode("utf-8", "surrogateescape") for path in words}
    direct = {path: [other for other in words if other != path and named[path] in words[other]] for path in words}
    return {path: _closure(path, direct) for path in words}


def _closure(path: str, direct: Mapping[str, Sequence[str]]) -> frozenset[str]:
    found: set[str] = set()
    pending = list(direct[path])
    while pending:
        other = pending.pop()
        if other not in found and other != path:
            found.add(other)
            pending.extend(direct[other])
    return frozenset(found)


def _last_name(path: str) -> str:
    """The word that an import of this file ends in: the module's name, for a package its folder's."""
    name = os.path.basename(path).removesuffix(".py")
    return os.path.basename(os.path.dirname(os.path.abspath(path))) if name == "__init__" else name
