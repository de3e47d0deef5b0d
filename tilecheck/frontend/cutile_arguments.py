"""Arguments that functions of cuTile cannot do without; a call that lacks one is not read, and says which.

ct.store(a, (0,))   ->   calls `ct.store`, without its argument `tile`
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_REQUIRED: Final = {
    "load": ("array", "index"),
    "store": ("array", "index", "tile"),
    "num_tiles": ("array", "axis"),
    "arange": ("size",),
    "gather": ("array", "indices"),
    "scatter": ("array", "indices", "value"),
    "load_advanced_indexing": ("array", "indices"),
    "store_advanced_indexing": ("array", "indices", "value"),
    "atomic_cas": ("array", "indices", "expected", "value"),
}


def required(name: str) -> tuple[str, ...]:
    """The parameters of `ct.<name>`, in their order, that a call has to give."""
    other = ("array", "indices", "value") if name.startswith("atomic_") else ()
    return _REQUIRED.get(name, other)


def lacking(given: Collection[str], names: tuple[str, ...]) -> str | None:
    """The first of `names` that was not given."""
    return next((name for name in names if name not in given), None)
