"""Which part of an allocation a handle covers, and whether two parts overlap.

A `Region` is what a slice, a split or a reshape selects of one allocation. `overlap` is the one place that decides
whether two of them share an element, and it answers in three ways: DISJOINT, OVERLAPS and UNKNOWN. On the host UNKNOWN
is left to the run time, which compares byte ranges; a caller must never read it as either of the other two.

Invariant: both regions lie in one allocation; which objects share an allocation is the solver's business (`loans.py`).

Worked example: `t[0:60]` and `t[40:100]` overlap, `t[:n]` and `t[8:]` are unknown, `t[:8]` and `t[8:]` disjoint; with
`lo, hi = z.split(n)`, `lo` and `hi` are disjoint.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from tilecheck.ir.instructions import ALL, END, Range, Region


class Overlap(Enum):
    DISJOINT = "disjoint"
    OVERLAPS = "overlaps"
    UNKNOWN = "unknown"


def sliced(region: Region, ranges: tuple[Range, ...]) -> Region:
    """The part `ranges` of `region`, axis by axis; axes that are not named stay whole."""
    width = max(len(ranges), len(region.axes))
    outer = region.axes + (ALL,) * (width - len(region.axes))
    inner = ranges + (ALL,) * (width - len(ranges))
    axes = tuple(_inside(x, y) for x, y in zip(inner, outer, strict=True))
    while axes and axes[-1] == ALL:
        axes = axes[:-1]
    return replace(region, axes=axes)


def cut(region: Region, at: int, side: int) -> Region:
    """One side (0 or 1) of `region` at the cut named `at`, in coordinates of its own."""
    return replace(reshaped(region, at), cuts=(*region.cuts, (at, side)))


def reshaped(region: Region, frame: int) -> Region:
    """The elements of `region` in the coordinates of the reshape named `frame`."""
    axes = (Range(None, None, None),) if region.axes else ()
    return Region(axes, frame, region.cuts)


def overlap(a: Region, b: Region) -> Overlap:
    """Whether two parts of one allocation share an element."""
    sides = dict(a.cuts)
    if any(sides.get(at, side) != side for at, side in b.cuts):
        return Overlap.DISJOINT
    # Behind different cuts, whose positions may be anywhere, two parts need not meet.
    depth = min(len(a.cuts), len(b.cuts))
    sure = a.cuts[:depth] == b.cuts[:depth]
    if _is_empty(a) or _is_empty(b):
        return Overlap.DISJOINT
    if not a.axes or not b.axes:
        return Overlap.OVERLAPS if sure else Overlap.UNKNOWN
    if a.frame != b.frame:
        return Overlap.UNKNOWN
    for x, y in zip(a.axes, b.axes, strict=False):
        along = _along(x, y)
        if along is Overlap.DISJOINT:
            return along
        sure = sure and along is Overlap.OVERLAPS
    return Overlap.OVERLAPS if sure else Overlap.UNKNOWN


def _is_empty(region: Region) -> bool:
    """Whether `region` has no element whatever the extents are: `x[:0]`, `x[8:4]`."""
    return any(
        axis.start is not None
        and axis.stop is not None
        and axis.stop <= axis.start
        and axis.step is not None
        and axis.step > 0
        # `[:-8]` and `[-4:2]` are empty in a short axis only: bounds from both ends are not compared.
        and _from_end(axis.start) == _from_end(axis.stop)
        for axis in region.axes
    )


def _inside(inner: Range, outer: Range) -> Range:
    """The range `inner` of the elements of `outer`, in the coordinates that `outer` uses."""
    if inner == ALL:
        return outer
    if outer.step != 1 or outer.start is None or outer.stop is None:
        return Range(None, None, None)
    start = None if inner.start is None else _place(inner.start, outer.start, outer.stop)
    stop = None if inner.stop is None else min(outer.stop, _place(inner.stop, outer.start, outer.stop))
    return Range(start, stop, inner.step)


def _place(bound: int, start: int, stop: int) -> int:
    """Where `bound` of the elements `start:stop` is."""
    return stop - (END - bound) if _from_end(bound) else start + bound


def _from_end(bound: int) -> bool:
    return bound > END // 2


def _along(x: Range, y: Range) -> Overlap:
    if ALL in (x, y):
        return Overlap.OVERLAPS
    for low, high in ((x, y), (y, x)):
        if low.stop is not None and high.start is not None and low.stop <= high.start:
            # `[:8]` and `[-4:]` meet in a short axis: bounds from both ends are not compared.
            return Overlap.DISJOINT if _from_end(low.stop) == _from_end(high.start) else Overlap.UNKNOWN
    known = None not in (x.start, x.stop, y.start, y.stop) and x.step == y.step == 1
    return Overlap.OVERLAPS if known or (x == y and None not in (x.start, x.stop)) else Overlap.UNKNOWN
