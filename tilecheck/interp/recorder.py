"""Real races: who read and wrote which byte, block by block.

Blocks of one launch are unordered, so two accesses of different blocks to one byte race unless both read or both are
atomic. The recorder keeps, per byte of every array's memory, the last writer, the last atomic, and up to two readers
(two suffice: one of them differs from any given writer). Arrays that share memory share the shadow, so aliasing
arguments are seen.

    recorder = Recorder()
    run(report, arguments, grid, dims, recorder=recorder)
    for race in recorder.races: print(race)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Access = Literal["read", "write", "atomic"]
Block = tuple[int, int, int]
Region = tuple[Any, ...]

_NONE = -1
_PAIRS: dict[Access, tuple[Access, ...]] = {
    "write": ("write", "atomic", "read"),
    "read": ("write", "atomic"),
    "atomic": ("write", "read"),
}


@dataclass(frozen=True, slots=True)
class Party:
    """One side of a race."""

    block: Block
    line: int
    array: str
    access: Access


@dataclass(frozen=True, slots=True)
class Race:
    """Two blocks on one element, one of them writing; `index` is the element of `second.array`."""

    first: Party
    second: Party
    index: tuple[int, ...]

    def __str__(self) -> str:
        one, two = self.first, self.second
        return (
            f"block {two.block} {_verb(two.access)} `{two.array}[{', '.join(map(str, self.index))}]` (line {two.line}), which "
            f"block {one.block} {_verb(one.access)} as `{one.array}` (line {one.line})"
        )


def _bounds(array: npt.NDArray[Any]) -> tuple[int, int]:
    """The first byte that `array` uses and the one after the last."""
    low = high = int(array.__array_interface__["data"][0])
    for extent, stride in zip(array.shape, array.strides, strict=True):
        reach = (extent - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize


def _verb(access: Access) -> str:
    return {"read": "reads", "write": "writes", "atomic": "updates"}[access]


@dataclass(slots=True)
class _Shadow:
    """Per byte of one allocation: the number of the party that last wrote, updated, read, and read before that."""

    slots: dict[str, npt.NDArray[np.int32]]

    @classmethod
    def of(cls, size: int) -> _Shadow:
        return cls({name: np.full(size, _NONE, np.int32) for name in ("write", "atomic", "read", "read2")})


@dataclass(slots=True)
class Recorder:
    """Collects the accesses of one launch; `races` holds the first race of each pair of lines."""

    races: list[Race] = field(default_factory=list)
    parties: list[Party] = field(default_factory=list)
    _numbers: dict[Party, int] = field(default_factory=dict)
    _shadows: dict[int, _Shadow] = field(default_factory=dict)
    _views: dict[str, dict[str, npt.NDArray[np.int32]]] = field(default_factory=dict)
    _roots: list[npt.NDArray[Any]] = field(default_factory=list)

    def attach(self, name: str, array: npt.NDArray[Any]) -> None:
        """Make `array` known under the parameter `name`; its accesses land in the shadow of the memory that it views."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        low, high = _bounds(root)
        shadow = self._shadows.get(low)
        if shadow is None:
            shadow = self._shadows[low] = _Shadow.of(high - low)
            self._roots.append(root)
        offset = array.__array_interface__["data"][0] - low
        self._views[name] = {
            slot: np.lib.stride_tricks.as_strided(
                bytes_[offset:], (*array.shape, array.itemsize), tuple(4 * s for s in (*array.strides, 1))
            )
            for slot, bytes_ in shadow.slots.items()
        }

    def record(self, name: str, region: Region, access: Access, block: Block, line: int) -> None:
        """Note an access to `region` (slices, or index arrays) of the array attached as `name`, and any race it
        makes.
        """
        party = Party(block, line, name, access)
        number = self._numbers.get(party)
        if number is None:
            number = self._numbers[party] = len(self.parties)
            self.parties.append(party)
        view = self._views[name]
        for other in _PAIRS[access]:
            for slot in ("read", "read2") if other == "read" else (other,):
                self._compare(view[slot][region], party, region)
        if access == "read":
            self._note_read(view, region, number)
        else:
            view[access][region] = number

    def _note_read(self, view: dict[str, npt.NDArray[np.int32]], region: Region, number: int) -> None:
        """Keep the last reader, and one of another block if there is one."""
        last = view["read"][region]
        blocks = self._blocks(last)
        other = np.any(blocks != np.array(self.parties[number].block, np.int64), axis=-1) & (last != _NONE)
        view["read2"][region] = np.where(other, last, view["read2"][region])
        view["read"][region] = number

    def _blocks(self, numbers: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        table = np.array([(*p.block,) for p in self.parties] or [(0, 0, 0)], np.int64)
        return np.asarray(table[numbers])

    def _compare(self, earlier: npt.NDArray[np.int32], party: Party, region: Region) -> None:
        if earlier.size == 0 or earlier.max() == _NONE:
            return
        differs = np.any(self._blocks(earlier) != np.array(party.block, np.int64), axis=-1) & (earlier != _NONE)
        if not differs.any():
            return
        where = tuple(int(i) for i in np.argwhere(differs)[0])
        first = self.parties[int(earlier[where])]
        if any(r.first.line == first.line and r.second.line == party.line for r in self.races):
            return
        self.races.append(Race(first, party, _element(region, where[:-1])))


def _element(region: Region, where: tuple[int, ...]) -> tuple[int, ...]:
    """The element of the array that position `where` of a region means."""
    if any(isinstance(part, slice) for part in region):
        return tuple(int(part.start or 0) + at for part, at in zip(region, where, strict=True))
    return tuple(
        int(np.broadcast_to(part, np.broadcast_shapes(*(np.shape(p) for p in region)))[where]) for part in region
    )
