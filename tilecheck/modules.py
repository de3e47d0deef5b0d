"""Which file an import means, answered by path alone: user code is read, never run.

modules = Modules()
modules.resolve("shop.kernels", importer="src/shop/main.py")   # the Source of src/shop/kernels.py
modules.resolve("numba", importer="src/shop/main.py")          # None: not part of the project
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tilecheck.frontend.gate import Undecodable, read_text

if TYPE_CHECKING:
    from tilecheck.frontend.source import Source

# Modules that frontends know by name; a file of the project that is called so is not looked at for them.
_KNOWN = frozenset({"tilecheck", "numba", "numpy", "math", "cuda", "cupy", "torch"})

# The kernel library is read where it is installed, so that its kernels have contracts as the project's own have.
_LIBRARY, _LIBRARY_HOME = "tilecheck.kernels", "tilecheck_runtime.kernels"


class Modules:
    """Finds the file of an imported module, each read at most once per instance.

    A name is looked up from the root of the importing file's own package, then from the folder of the file, then from
    the extra roots; a leading dot is relative to the importing file. Modules outside of those folders (installed
    packages, but for our kernel library) are None: the frontends then treat the import as opaque. `asked` records every question with the digest
    of its answer, which is what a cached result depends on.
    """

    def __init__(self, extra_roots: Sequence[str] = ()) -> None:
        self._extra = [os.path.abspath(root) for root in extra_roots]
        self._texts: dict[str, str | None] = {}
        self._sources: dict[str, Source] = {}
        self._origins: dict[tuple[str, str], str | None] = {}
        self.asked: dict[tuple[str, str], str] = {}

    def resolve(self, module: str, importer: str) -> Source | None:
        """The source of `module` as imported by the file `importer`, None if it is not part of the project."""
        from tilecheck.frontend.source import Source  # libcst, which asking `still` does not need

        origin, text = self._look_up(module, importer)
        self.asked[module, importer] = digest(text)
        if origin is None or text is None:
            return None
        if origin not in self._sources:
            self._sources[origin] = Source(os.path.relpath(origin), text)
        return self._sources[origin]

    def found(self, path: str) -> Source | None:
        """The file at `path` (as its `Source` calls it) if it was imported before, else None."""
        return next((source for source in self._sources.values() if source.path == path), None)

    def importer(self, path: str) -> Callable[[str], Source | None]:
        """`resolve` as seen from the file at `path`."""
        return lambda module: self.resolve(module, path)

    def still(self, name: str, importer: str, expected: str) -> bool:
        """Whether the import gives what it gave when `expected` was recorded."""
        return digest(self._look_up(name, importer)[1]) == expected

    def _look_up(self, name: str, importer: str) -> tuple[str | None, str | None]:
        """The file of a module and its text."""
        key = (name, os.path.dirname(os.path.abspath(importer)))
        if key not in self._origins:
            self._origins[key] = self._find(name, importer)
        origin = self._origins[key]
        if origin is None:
            return None, None
        if origin not in self._texts:
            self._texts[origin] = _read(origin)
        return origin, self._texts[origin]

    def _find(self, name: str, importer: str) -> str | None:
        folder = os.path.dirname(os.path.abspath(importer))
        stripped = name.lstrip(".")
        dots = len(name) - len(stripped)
        if dots:
            for _ in range(dots - 1):
                folder = os.path.dirname(folder)
            return _module_file(folder, stripped)
        if name == _LIBRARY or name.startswith(f"{_LIBRARY}."):
            name = f"{_LIBRARY_HOME}{name[len(_LIBRARY) :]}"
        if name.partition(".")[0] in _KNOWN:
            return None
        if name == _LIBRARY_HOME or name.startswith(f"{_LIBRARY_HOME}."):
            root = _library_root()
            return _module_file(root, name) if root else None
        for root in dict.fromkeys((package_root(importer), folder, *self._extra)):
            if found := _module_file(root, name):
                return found
        return None


def digest(text: str | None) -> str:
    """A fingerprint of an import's answer."""
    return "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def package_root(path: str) -> str:
    """The folder from which the file at `path` is imported: the first one above it without an `__init__.py`."""
    folder = os.path.dirname(os.path.abspath(path))
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    return folder


def module_name(path: str) -> str:
    """The dotted name under which the file at `path` is imported."""
    absolute = os.path.abspath(path)
    relative = os.path.relpath(absolute, package_root(path)).removesuffix(".py")
    return relative.replace(os.sep, ".").removesuffix(".__init__")


@cache
def _library_root() -> str:
    """The folder that the runtime is imported from; finding it imports nothing."""
    spec = find_spec(_LIBRARY_HOME.partition(".")[0])
    places = spec.submodule_search_locations if spec is not None else None
    return os.path.dirname(places[0]) if places else ""


def _module_file(root: str, name: str) -> str | None:
    stem = os.path.join(root, *name.split(".")) if name else root
    candidates = (os.path.join(stem, "__init__.py"),) + ((stem + ".py",) if name else ())
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), None)


def _read(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return read_text(file.read())
    except (OSError, Undecodable, ValueError):
        return None
