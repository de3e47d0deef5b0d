"""Types of values in tile kernels: dtypes, extents, tiles, views, indices.

An extent of a tile is known at specialisation and symbolic at check time: two extents are equal iff they are the same
number or the same `Dim`. `Dim`s with a fixed size are numbers from the start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tilecheck.surface.dtypes import DTypeClass as DType


@dataclass(frozen=True, slots=True)
class DimExtent:
    """The value of a `Dim` that is not known yet; `key` as in `Kernel.dims`, `name` for messages."""

    key: str
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayExtent:
    """The whole extent of tensor parameter `array` along `axis`, known at the launch."""

    array: str
    axis: int

    def __str__(self) -> str:
        return f"{self.array}.shape[{self.axis}]"


Extent = int | DimExtent | ArrayExtent


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A kernel scalar: `int` is 64-bit two's complement. `value` is set when it is known at check time."""

    kind: Literal["int", "float", "bool"]
    value: int | float | bool | None = None

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True, slots=True)
class TileType:
    """An immutable tile in registers. `void` lists the axes along which lanes may hang over an array's edge; each
    entry names the array and axis whose edge it is.
    """

    dtype: DType
    shape: tuple[Extent, ...]
    void: tuple[tuple[int, ArrayExtent], ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(str(e) for e in self.shape)
        return f"Tile[{self.dtype.name}{', ' if inner else ''}{inner}]"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor parameter. For `Mut` and `Mapped` the shape is the tile of one block, for `Shared` the whole extents."""

    name: str
    access: Literal["Shared", "Mut", "Mapped", "Atomic"]
    dtype: DType | None
    shape: tuple[Extent, ...] | None


@dataclass(frozen=True, slots=True)
class ViewType:
    """`x.partition(BM, BK, pad=, permute=)` of a `Shared` parameter: reads in tiles.

    `shape` is the tile's, in the order of the tile's axes; axis `a` of the view walks axis `permute[a]` of the array.
    """

    array: str
    dtype: DType
    shape: tuple[Extent, ...]
    permute: tuple[int, ...]
    pad: Literal["zero", "neg_zero", "nan", "inf", "-inf"] | float | None = None


@dataclass(frozen=True, slots=True)
class SubTilesType:
    """`z.tiles(D, ...)`: the block's own tile, of extents `whole`, cut again; indices are local to the block."""

    array: str
    dtype: DType
    shape: tuple[Extent, ...]
    whole: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class IndexType:
    """An index minted by `indices` (of `arrays`); its items are ints, `rank` of them."""

    arrays: tuple[str, ...]
    rank: int


@dataclass(frozen=True, slots=True)
class TupleType:
    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class StrType:
    value: str


@dataclass(frozen=True, slots=True)
class NoneType:
    def __str__(self) -> str:
        return "None"


@dataclass(frozen=True, slots=True)
class DTypeType:
    """A dtype used as a value."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class DimType:
    """A `Dim` or an int used as an extent."""

    extent: Extent


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A device function passed to a generic `reduce` or `scan`: its parameters are rank-0 tiles."""

    params: tuple[TileType, ...]
    result: Type


Type = (
    ScalarType
    | TileType
    | TensorType
    | ViewType
    | SubTilesType
    | IndexType
    | TupleType
    | StrType
    | NoneType
    | DTypeType
    | DimType
    | FunctionType
)
