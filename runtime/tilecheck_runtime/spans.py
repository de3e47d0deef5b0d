"""What is about bytes, found by the bytes: a look at one row of a tensor does not cost the other thousand rows.

Items are referred to weakly. A few are one list; more are kept in classes by length, each class sorted by the first byte: what
meets the bytes from `start` to `end` begins before `end`, and not earlier than one length of its class before `start`. A
tensor and its rows are in two classes, so that the long one does not make every short one a candidate. Not safe by itself:
the lock of the ledgers is held.

    >>> spans, row = Spans[set[str]](), {"row 3"}
    >>> spans.add(12, 16, weakref.ref(row), lambda item: False)      # doctest: +SKIP
    >>> spans.near(0, 13, lambda item: False)                        # doctest: +SKIP
    [{'row 3'}]
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

# All items are looked through for those that are gone when there are this many more than twice what was found.
SWEEP = 64
# So many are one list.
FEW = 8


class Spans(Generic[T]):
    """Items by the bytes from `start` to `end`. Methods let go of what is dead and of what `drop` says yes to."""

    __slots__ = ("_classes", "_count", "_few", "_sweep_at")

    def __init__(self) -> None:
        # First bytes, last bytes and items; None once there are more.
        self._few: list[tuple[int, int, weakref.ref[T]]] | None = []
        # By the longest length of a class: first bytes, last bytes and items, in the order of the first bytes.
        self._classes: dict[int, tuple[list[int], list[int], list[weakref.ref[T]]]] = {}
        self._count = 0
        self._sweep_at = SWEEP

    def add(self, start: int, end: int, item: weakref.ref[T], drop: Callable[[T], bool]) -> None:
        """Enter an item."""
        few = self._few
        if few is not None:
            if len(few) >= FEW:
                few[:] = [there for there in few if (found := there[2]()) is not None and not drop(found)]
            if len(few) < FEW:
                few.append((start, end, item))
                self._count = len(few)
                return
            self._few, self._count = None, 0
            for there in few:
                self._insert(*there)
        elif self._count >= self._sweep_at:
            self._sweep(drop)
        self._insert(start, end, item)

    def _insert(self, start: int, end: int, item: weakref.ref[T]) -> None:
        longest = 1 << max(end - start - 1, 0).bit_length()
        starts, ends, items = self._classes.setdefault(longest, ([], [], []))
        at = bisect_right(starts, start)
        starts.insert(at, start)
        ends.insert(at, end)
        items.insert(at, item)
        self._count += 1

    def put(self, start: int, end: int, item: weakref.ref[T], drop: Callable[[T], bool]) -> None:
        """Enter an item after a look at those near it, of which one with the same bytes makes place."""
        if self._few is not None:
            self.near(start, end, drop)
            self.add(start, end, item, drop)
            return
        free: tuple[list[weakref.ref[T]], int] | None = None
        for longest, (starts, ends, items) in self._classes.items():
            at = bisect_right(starts, start - longest) if len(starts) > 1 else 0
            while at < len(starts) and starts[at] < end:
                if ends[at] > start:
                    there = items[at]()
                    if there is None or drop(there):
                        if free is None and starts[at] == start and ends[at] == end:
                            free = items, at
                        else:
                            del starts[at], ends[at], items[at]
                            self._count -= 1
                            if free is not None and free[0] is items and at < free[1]:
                                free = items, free[1] - 1
                            continue
                at += 1
        if free is not None:
            free[0][free[1]] = item
            return
        self.add(start, end, item, drop)

    def near(self, start: int, end: int, drop: Callable[[T], bool]) -> list[T]:
        """The items that have a byte between their first and last one in this range."""
        found: list[T] = []
        few = self._few
        if few is not None:
            gone = False
            for first, last, ref in few:
                if first < end and start < last:
                    item = ref()
                    if item is None or drop(item):
                        gone = True
                    else:
                        found.append(item)
            if gone:
                few[:] = [there for there in few if there[2]() in found or there[0] >= end or start >= there[1]]
                self._count = len(few)
            return found
        for longest, (starts, ends, items) in self._classes.items():
            at = bisect_right(starts, start - longest) if len(starts) > 1 else 0
            while at < len(starts) and starts[at] < end:
                if ends[at] > start:
                    item = items[at]()
                    if item is None or drop(item):
                        del starts[at], ends[at], items[at]
                        self._count -= 1
                        continue
                    found.append(item)
                at += 1
        return found

    def _sweep(self, drop: Callable[[T], bool]) -> None:
        for longest, (starts, ends, items) in list(self._classes.items()):
            kept = [at for at, ref in enumerate(items) if (item := ref()) is not None and not drop(item)]
            if kept:
                self._classes[longest] = ([starts[i] for i in kept], [ends[i] for i in kept], [items[i] for i in kept])
            else:
                del self._classes[longest]
        self._count = sum(len(items) for _, _, items in self._classes.values())
        if self._count <= FEW // 2:
            self._few = [there for each in self._classes.values() for there in zip(*each, strict=True)]
            self._classes = {}
        self._sweep_at = 2 * self._count + SWEEP
