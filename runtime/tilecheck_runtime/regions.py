"""Which bytes a strided view touches, and whether two views share one.

A region is an offset with extents and byte strides, as in NumPy; all strides are positive or zero. `overlaps` answers
exactly for contiguous regions, for regions in different residue classes of their strides (`t[0::2]` against `t[1::2]`)
and for anything of up to `RUNS` contiguous runs; beyond that it answers yes, the sound side.

    >>> even, odd = Region(0, (4,), (8,), 4), Region(4, (4,), (8,), 4)
    >>> overlaps(even, odd), overlaps(even, Region(0, (8,), (4,), 4))
    (False, True)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import numpy as np
import numpy.typing as npt

# Above this many contiguous runs on either side, two regions that may overlap count as overlapping.
RUNS = 1 << 16


@dataclass(init=False, unsafe_hash=True, slots=True)
class Region:
    """The bytes `offset + sum(i_k * strides_k) + [0, width)` for all indices within `shape`.

    Never changed; frozen would take twice as long to make, and each new view makes one.
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    width: int
    # One past the last byte.
    end: int = field(compare=False, repr=False)

    def __init__(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], width: int) -> None:
        self.offset, self.shape, self.strides, self.width = offset, shape, strides, width
        end = offset + width
        for extent, stride in zip(shape, strides, strict=True):
            end += (extent - 1) * stride
        self.end = end

    @property
    def empty(self) -> bool:
        """Whether no byte belongs to it."""
        return 0 in self.shape


def overlaps(a: Region, b: Region) -> bool:
    """Whether some byte belongs to both; yes when that is too costly to decide."""
    if a == b:
        return not a.empty
    if a.empty or b.empty or a.end <= b.offset or b.end <= a.offset:
        return False
    a, b = _merged(a), _merged(b)
    if not a.shape and not b.shape:
        return True
    step = gcd(*a.strides, *b.strides)
    # All of `a` starts at `a.offset` modulo `step`, all of `b` at `b.offset`: they meet iff the gap is within a width.
    gap = (b.offset - a.offset) % step
    if gap >= a.width and step - gap >= b.width:
        return False
    if _runs(a) > RUNS or _runs(b) > RUNS:
        return True
    starts_a, starts_b = _starts(a), _starts(b)
    # The last run of `a` that starts before each run of `b` ends, reaches into it or not.
    before = np.searchsorted(starts_a, starts_b + b.width, side="left") - 1
    reached = before >= 0
    return bool(np.any(starts_a[before[reached]] + a.width > starts_b[reached]))


def _merged(region: Region) -> Region:
    """The same bytes with as few axes and as wide runs as possible."""
    axes = sorted(
        ((s, n) for n, s in zip(region.shape, region.strides, strict=True) if n > 1 and s > 0),
        key=lambda axis: axis[0],
    )
    width = region.width
    kept: list[tuple[int, int]] = []
    for stride, extent in axes:
        if not kept and stride <= width:
            width = (extent - 1) * stride + width
        elif kept and stride == kept[-1][0] * kept[-1][1]:
            kept[-1] = (kept[-1][0], kept[-1][1] * extent)
        else:
            kept.append((stride, extent))
    return Region(region.offset, tuple(n for _, n in kept), tuple(s for s, _ in kept), width)


def _runs(region: Region) -> int:
    count = 1
    for extent in region.shape:
        count *= extent
    return count


def _starts(region: Region) -> npt.NDArray[np.int64]:
    starts = np.array([region.offset], dtype=np.int64)
    for extent, stride in zip(region.shape, region.strides, strict=True):
        starts = (starts[:, None] + np.arange(extent, dtype=np.int64) * stride).reshape(-1)
    return np.sort(starts)
