"""`Dim` classes in kernels written for numba: which classes they are, and their keys.

Worked example: `class D8(Dim, size=8): ...` in `k.py` is `DimDecl("k.py::D8", "D8", 8)`.
"""

from __future__ import annotations

from tilecheck.frontend.fold import fold
from tilecheck.frontend.scopes import ClassValue, Ref
from tilecheck.ir.kernel import DimDecl


def dim_of(value: object) -> DimDecl | None:
    """The extent that a class value is; None for any other value."""
    if isinstance(value, DimDecl):
        return value
    if not isinstance(value, ClassValue) or not _is_dim(value):
        return None
    name = value.node.name.value
    return DimDecl(f"{value.scope.source.path}::{name}", name, _size(value))


def _is_dim(value: ClassValue) -> bool:
    for base in value.node.bases:
        found = fold(base.value, value.scope.lookup)
        if found == Ref("tilecheck.Dim"):
            return True
        if isinstance(found, ClassValue) and found.node is not value.node and _is_dim(found):
            return True
    return False


def _size(value: ClassValue) -> int | None:
    for keyword in value.node.keywords:
        if keyword.keyword is not None and keyword.keyword.value == "size":
            size = fold(keyword.value, value.scope.lookup)
            return size if isinstance(size, int) else None
    return None
