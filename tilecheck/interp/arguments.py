"""What a launch hands to the interpreter: arrays and how they are cut.

    arguments = {"z": TensorArgument(z, tile=(128,)), "x": TensorArgument(x), "a": 2.0}
    run(report, arguments, grid=(8, 1, 1), dims={"m.BM": 128})

An argument of a `Mut` or `Mapped` parameter says its tile; a `Mapped` one also how blocks walk the tiles. The arrays
are written in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

# In a map's shape: the axis is not streamed, a block owns all of it for each index that it visits.
OWNED = 0


@dataclass(frozen=True, slots=True)
class TileMap:
    """How `blocks` blocks walk the tiles of a mapped partition.

    `shape` has one entry per axis: the extent, in tiles, of the groups that are walked one after the other (1
    everywhere is row-major order, `(4, 1)` walks bands of 4 along axis 0), or `OWNED`.
    """

    shape: tuple[int, ...]
    blocks: int


@dataclass(frozen=True, slots=True, eq=False)
class TensorArgument:
    """An array for a tensor parameter; `tile` is the extent of one block's tile, in elements, for what is written."""

    array: npt.NDArray[Any]
    tile: tuple[int, ...] | None = None
    map: TileMap | None = None


Argument = TensorArgument | int | float | bool


class Trap(Exception):
    """A check stopped the kernel: nothing of the access happened.

    `rule` is the rule broken, `message` the first line, in the user's words; `line` the line of the kernel's source.
    """

    def __init__(
        self,
        rule: str,
        message: str,
        *,
        kernel: str | None = None,
        path: str | None = None,
        line: int | None = None,
        array: str | None = None,
        index: tuple[int, ...] | None = None,
        block: tuple[int, int, int] | None = None,
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.kernel = kernel
        self.path = path
        self.line = line
        self.array = array
        self.index = index
        self.block = block
        self.help = help

    def __str__(self) -> str:
        where = (
            f" ({self.path}:{self.line}, kernel `{self.kernel}`, block {self.block})" if self.line is not None else ""
        )
        return f"{self.message}{where}"
