"""The names of annotations at run time: `Tensor[Mut, f32, BM]`, `Tile[f32, BM]`, `View`, `Index`.

Their typing lives in `tilecheck/__init__.pyi`. At run time a subscript is a `types.GenericAlias`, which keeps the
arguments as given, so that the frontend reads `Tensor[Mut]`, `Tensor[Mut, f32]` and the full form alike. The runtime's
tensors derive from `Tensor`, so `isinstance(z, tc.Tensor)` is true of them.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any

from tilecheck.surface.access import ACCESSES, Shared
from tilecheck.surface.dims import DimClass, Dyn
from tilecheck.surface.dtypes import DTypeClass
from tilecheck.surface.errors import UsageError


class Tensor:
    """`Tensor[access, dtype, *extents]`: memory on a device, and what its holder may do with it."""

    def __class_getitem__(cls, args: Any) -> GenericAlias:
        """The annotation with `args`. Raises `UsageError` for what no type checker would read as meant."""
        parts = args if isinstance(args, tuple) else (args,)
        names = ", ".join(f"`{name}`" for name in ACCESSES)
        if isinstance(parts[0], type) and not issubclass(parts[0], Shared):
            raise UsageError(f"`Tensor[{_word(parts[0])}, ...]` does not start with an access", f"one of {names}")
        if len(parts) > 1 and isinstance(parts[1], DimClass | int):
            raise UsageError(
                f"`Tensor[..., {_word(parts[1])}]` has an extent where the dtype belongs",
                "write `Tensor[access, dtype, *extents]`",
            )
        for extent in parts[2:]:
            if isinstance(extent, int) and not isinstance(extent, bool):
                raise UsageError(
                    f"the extent {extent} in a `Tensor` annotation is a number, which type checkers refuse",
                    f"name it: `class D{abs(extent)}(Dim, size={abs(extent)}): ...`",
                )
        return GenericAlias(cls, parts)


class Tile:
    """`Tile[dtype, *extents]`: an immutable block of values in a kernel."""

    def __class_getitem__(cls, args: Any) -> GenericAlias:
        return GenericAlias(cls, args)


class View:
    """`View[dtype, *extents]`: a `Shared` tensor seen in tiles, inside a kernel."""

    def __class_getitem__(cls, args: Any) -> GenericAlias:
        return GenericAlias(cls, args)


class SubTiles:
    """`SubTiles[dtype, *extents]`: a block's own tile cut again by `z.tiles(...)`, inside a kernel."""

    def __class_getitem__(cls, args: Any) -> GenericAlias:
        return GenericAlias(cls, args)


class Index:
    """Where a block may store in a `Mapped` tensor: minted by `z.indices()`, never made by hand."""


def _word(part: object) -> str:
    if isinstance(part, DTypeClass):
        return part.name
    if part is Dyn:
        return "Dyn"
    return part.__name__ if isinstance(part, type) else repr(part)
