"""Partitions: a tensor cut into tiles, so that two blocks can never write one element.

The grid follows from the partition: axis k has ceil(extent / tile) tiles, and the last one may hang over. How a launch
covers the tiles is part of the partition:

- exact (the default): one block per tile, all of them;
- `prefix()`: the grid may be smaller on any axis, the rest stays as it was; it never defines a grid;
- `map(shape, blocks=n)`: n blocks walk over all tiles, each visited exactly once, in bands of `shape`; an axis marked
  `OWNED` is not streamed, each visited place owns it whole.

`partition` borrows exclusively, `into_partition` takes the tensor over. A partition may be launched again and again;
it ends when somebody else borrows the same bytes exclusively, and says so at its next use.

    >>> import tilecheck as tc
    >>> tc.zeros(192, 134).partition(64, 64).grid
    (3, 3, 1)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tilecheck.interp.arguments import TileMap
from tilecheck_runtime import layout as lay
from tilecheck_runtime.backends import Grid
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.grants import borrow
from tilecheck_runtime.ledger import Access, Loan
from tilecheck_runtime.sites import subject
from tilecheck_runtime.tensor import Tensor, kernel_language
from tilecheck_runtime.unique import Unique

MAX_RANK = 3


class _Owned:
    """The mark of an axis that a block owns whole."""

    def __repr__(self) -> str:
        return "OWNED"


OWNED: Final = _Owned()


class Partition(Unique):
    """An exclusive borrow of a tensor in tiles; `tile` is the shape of one."""

    def __init__(
        self,
        elements: Elements,
        loan: Loan | None,
        tile: tuple[int, ...],
        *,
        exact: bool = True,
        mapping: TileMap | None = None,
    ) -> None:
        self._elements = elements
        self._loan = loan
        self.tile = tile
        self.exact = exact
        self.mapping = mapping

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the whole tensor."""
        return self._elements.layout.shape

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._elements.dtype

    @property
    def tiles(self) -> tuple[int, ...]:
        """The number of tiles per axis."""
        return tuple(-(-n // t) for n, t in zip(self.shape, self.tile, strict=True))

    @property
    def grid(self) -> Grid:
        """The grid that covers all tiles, or the blocks of a mapped partition."""
        if self.mapping is not None:
            return (self.mapping.blocks, 1, 1)
        x, y, z = (*self.tiles, 1, 1)[:3]
        return (x, y, z)

    def prefix(self) -> Partition:
        """The same partition for launches whose grid covers a part; give the grid with `op.with_grid(...)`."""
        if self.mapping is not None:
            raise UsageError("a mapped partition has no prefix", "walk a part of it with `z.indices(within=...)`")
        return self._again(exact=False)

    def map(self, *shape: Any, blocks: int) -> Partition:
        """Let `blocks` blocks walk over all tiles, for a kernel's `Mapped` parameter.

        `shape` has an int per axis, the band that is walked together ((1, 1) is row by row), or `OWNED`. Raises
        UsageError for another rank, no streamed axis, and fewer than 1 or more blocks than streamed tiles.
        """
        if not self.exact:
            raise UsageError("a prefix cannot be mapped", "walk a part of it with `z.indices(within=...)`")
        flat = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        bands = tuple(0 if axis is OWNED else lay.ints("map", (axis,))[0] for axis in flat)
        if len(bands) != len(self.tile):
            raise UsageError(
                f"`map` got {len(bands)} extents for a partition of {len(self.tile)} axes, tiles {self.tiles}",
                "one int or `tc.OWNED` per axis",
            )
        for axis, (given, band) in enumerate(zip(flat, bands, strict=True)):
            if given is not OWNED and band < 1:
                raise UsageError(f"`map` got {band} on axis {axis}", "at least 1, or `tc.OWNED`")
        streamed = lay.product(tuple(n for n, band in zip(self.tiles, bands, strict=True) if band))
        if not any(bands):
            raise UsageError("`map` has only owned axes, nothing is left to walk over", "stream at least one axis")
        (count,) = lay.ints("map", (blocks,))
        if not 1 <= count <= streamed:
            raise UsageError(
                f"`map` got blocks={count} for {streamed} streamed tiles",
                f"between 1 and {streamed}",
            )
        return self._again(mapping=TileMap(bands, count))

    def unpartition(self) -> Tensor:
        """The whole tensor again, as a view; this partition ends at the next exclusive use of it."""
        return self._unpartition(None)

    def _unpartition(self, execution: object) -> Tensor:
        if self._loan is None:
            return Tensor(self._elements)
        request = self._elements.request(Access.SHARE, self._loan, execution=execution)
        return Tensor(self._elements, borrow(request, "a view"))

    def _again(self, *, exact: bool = True, mapping: TileMap | None = None) -> Partition:
        return Partition(self._elements, self._loan, self.tile, exact=exact, mapping=mapping)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise kernel_language(self, name)

    def _usable(self, name: str | None = None) -> None:
        """Raise BorrowError if the partition was given back."""

    def __repr__(self) -> str:
        how = "" if self.exact else ", prefix"
        how = how if self.mapping is None else f", mapped {self.mapping.shape} over {self.mapping.blocks} blocks"
        state = "ended" if self._loan is not None and self._loan.ended is not None else "borrowed"
        return f"<Partition of {self._elements} into {self.tile}{how}: {state}>"


class OwnedPartition(Partition):
    """A partition that owns its tensor. Launching uses it, `unpartition` turns it into a tensor again."""

    def __init__(
        self,
        tensor: Tensor,
        tile: tuple[int, ...],
        *,
        exact: bool = True,
        mapping: TileMap | None = None,
    ) -> None:
        super().__init__(tensor._elements, tensor._loan, tile, exact=exact, mapping=mapping)
        self._tensor = tensor

    def _unpartition(self, execution: object) -> Tensor:
        return Tensor(self._tensor._move("`unpartition`", execution=execution), self._tensor._loan)

    def _again(self, *, exact: bool = True, mapping: TileMap | None = None) -> OwnedPartition:
        return OwnedPartition(self._tensor, self.tile, exact=exact, mapping=mapping)

    def _usable(self, name: str | None = None) -> None:
        self._tensor._usable(name)

    def __repr__(self) -> str:
        text = super().__repr__()
        return text.replace("borrowed>", "owned>" if self._tensor._moved is None else "given back>")


def cut(tensor: Tensor, tile: tuple[Any, ...]) -> Partition:
    """`tensor.partition(*tile)`."""
    tensor._usable()
    shape = _tile(tensor, tile)
    tensor._writable()
    return Partition(tensor._elements, tensor._lend(Access.EXCLUDE, "a partition"), shape)


def cut_owned(tensor: Tensor, tile: tuple[Any, ...]) -> OwnedPartition:
    """`tensor.into_partition(*tile)`."""
    tensor._usable()
    shape = _tile(tensor, tile)
    tensor._writable()
    return OwnedPartition(Tensor(tensor._move("`into_partition`"), tensor._loan), shape)


def _tile(tensor: Tensor, given: tuple[Any, ...]) -> tuple[int, ...]:
    tile = lay.ints("partition", given)
    if len(tile) != tensor.ndim:
        raise UsageError(
            f"a tile of {len(tile)} axes for {subject()}, which has {tensor.ndim}, shape {tensor.shape}",
            "one extent per axis",
            rule="shape-mismatch",
        )
    if not 1 <= len(tile) <= MAX_RANK:
        raise UsageError(
            f"{subject()} has {tensor.ndim} axes, a grid has 1 to {MAX_RANK}",
            "merge axes with `reshape` before `partition`",
            rule="shape-mismatch",
        )
    for axis, (extent, size) in enumerate(zip(tile, tensor.shape, strict=True)):
        if extent < 1:
            raise UsageError(
                f"the tile of {subject()} has extent {extent} on axis {axis}", "at least 1", rule="shape-mismatch"
            )
        if size < 1:
            raise UsageError(
                f"{subject()} has no elements to partition: its extent on axis {axis} is 0", rule="shape-mismatch"
            )
    return tile
