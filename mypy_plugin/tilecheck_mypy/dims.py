"""The `size=` of extent classes, kept where mypy's cache keeps it, so that it is known of imported ones too."""

from __future__ import annotations

from mypy.nodes import IntExpr, TypeInfo
from mypy.plugin import ClassDefContext

KEY = "tilecheck"


def remember_size(ctx: ClassDefContext) -> None:
    """`class D64(Dim, size=64)`: note the 64 in the metadata of the class, which is stored as JSON."""
    size = ctx.cls.keywords.get("size")
    if isinstance(size, IntExpr):
        ctx.cls.info.metadata[KEY] = {"size": size.value}


def size_of(dim: TypeInfo) -> int | None:
    """The fixed size of an extent class, None for a free one or one whose size is no literal."""
    found = dim.metadata.get(KEY, {}).get("size")
    return found if isinstance(found, int) else None
