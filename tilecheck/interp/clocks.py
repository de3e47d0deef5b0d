"""Happens-before by vector clocks, cheap for the shape of a GPU launch.

A thread knows, for every other thread, up to which time that thread's accesses come before its own. Inside a block
this is one list, shared by all threads that met at a barrier; knowledge of other blocks is a list per block, and empty
until a grid barrier or a fence passed something on. A thread's own time steps at every point where it may publish.

Fences with atomics: a fence records what the thread knew (`released`); an atomic leaves that record at its cell and
picks up what it finds there (`pending`); the next fence turns what was picked up into knowledge. A device or system
fence crosses blocks, a block fence does not. A record that another one of its block covers is dropped wherever both would be
picked up, so a lock that went round many threads keeps one record per block.

Invariant: two accesses are ordered iff one thread made both, or the later thread's clock covers the earlier time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import ge

Clock = list[int]
# Letters that a thread carries before it looks for those that others cover.
_FEW_LETTERS = 2


@dataclass(slots=True, eq=False)
class Snapshot:
    """What a thread knew at some point: times of its block, and of other blocks by number."""

    block: int
    own: Clock
    far: dict[int, Clock]
    device: bool

    def covers(self, other: Snapshot) -> bool:
        """Whether whoever picks up this one learns nothing from `other`."""
        if self.block != other.block or (other.device and not self.device):
            return False
        if not all(map(ge, self.own, other.own)):
            return False
        return self.far is other.far or all(
            block in self.far and all(map(ge, self.far[block], clock)) for block, clock in other.far.items()
        )


@dataclass(slots=True, eq=False)
class Mailbox:
    """What atomics have left at one cell, each letter with its number."""

    letters: dict[int, Snapshot] = field(default_factory=dict)
    known: set[Snapshot] = field(default_factory=set)
    count: int = 0

    def add(self, letters: Sequence[Snapshot]) -> None:
        """Leave those of `letters` that were not left here, in place of those that they cover."""
        for letter in letters:
            if letter not in self.known:
                self.known.add(letter)
                self.letters = {at: old for at, old in self.letters.items() if not letter.covers(old)}
                self.count += 1
                self.letters[self.count] = letter


def joined(a: Clock, b: Clock) -> Clock:
    """The later of two clocks, thread by thread."""
    return a if a is b else list(map(max, a, b))


def joined_far(parts: Sequence[dict[int, Clock]]) -> dict[int, Clock]:
    """The join of knowledge about other blocks."""
    distinct: list[dict[int, Clock]] = []
    for part in parts:
        if part and not any(part is seen for seen in distinct):
            distinct.append(part)
    if not distinct:
        return {}
    if len(distinct) == 1:
        return distinct[0]
    result = dict(distinct[0])
    for part in distinct[1:]:
        for block, clock in part.items():
            result[block] = joined(result[block], clock) if block in result else clock
    return result


def merged(letters: Sequence[Snapshot]) -> list[Snapshot]:
    """Letters of one block that are always left together, as one for either reach."""
    result: list[Snapshot] = []
    for device in (True, False):
        alike = [letter for letter in letters if letter.device is device]
        if len(alike) > 1:
            own = [max(times) for times in zip(*(letter.own for letter in alike), strict=True)]
            alike = [Snapshot(alike[0].block, own, joined_far([letter.far for letter in alike]), device)]
        result += alike
    return result


class Timed:
    """A thread's clock. `lane` is its place in the block of `width` threads, `block` its block's number."""

    __slots__ = ("block", "far", "lane", "own", "pending", "picked", "released", "time", "yields")

    def __init__(self, block: int, lane: int, own: Clock) -> None:
        self.block = block
        self.lane = lane
        self.time = 1
        self.own = own
        self.far: dict[int, Clock] = {}
        self.released: list[Snapshot] = []
        self.pending: list[Snapshot] = []
        # The number of the last letter of each box that was picked up.
        self.picked: dict[Mailbox, int] = {}
        # How often it let others go first since an atomic of its own last changed something.
        self.yields = 0

    def knows(self, block: int, lane: int, time: int) -> bool:
        """Whether what thread `lane` of `block` did at `time` comes before what this thread does now."""
        if block == self.block:
            return lane == self.lane or self.own[lane] >= time
        clock = self.far.get(block)
        return clock is not None and clock[lane] >= time

    def fence(self, *, device: bool) -> None:
        """A memory fence: take over what atomics picked up, and record what may be published from now on."""
        for letter in self.pending:
            if letter.block == self.block:
                self.own = joined(self.own, letter.own)
                self.far = joined_far([self.far, letter.far])
            elif letter.device and device:
                self.far = joined_far([self.far, letter.far, {letter.block: letter.own}])
                if self.block in letter.far:
                    self.own = joined(self.own, letter.far[self.block])
        self.pending = []
        own = list(self.own)
        own[self.lane] = self.time
        self.released = [Snapshot(self.block, own, self.far, device)]
        self.time += 1

    def publish(self, box: Mailbox) -> None:
        """An atomic on the cell of `box`: leave what was released, pick up what others left."""
        seen = self.picked.get(box, 0)
        if seen < box.count:
            fresh = [letter for at, letter in box.letters.items() if at > seen]
            if len(self.pending) > _FEW_LETTERS:
                self.pending = [old for old in self.pending if not any(new.covers(old) for new in fresh)]
            self.pending += fresh
        box.add(self.released)
        self.picked[box] = box.count


def meet(threads: Sequence[Timed]) -> None:
    """A barrier among `threads` of one block: all they did before comes before all they do after."""
    own = threads[0].own
    seen = {id(own)}
    for thread in threads:
        if id(thread.own) not in seen:
            seen.add(id(thread.own))
            own = list(map(max, own, thread.own))
    own = list(own)
    far = joined_far([thread.far for thread in threads])
    for thread in threads:
        own[thread.lane] = thread.time
    # Threads that met before have the same letters.
    released = merged(list({id(letter): letter for thread in threads for letter in thread.released}.values()))
    pending = list({id(letter): letter for thread in threads for letter in thread.pending}.values())
    for thread in threads:
        thread.own = own
        thread.far = far
        thread.time += 1
        thread.released = released
        thread.pending = list(pending)


def meet_all(blocks: Sequence[Sequence[Timed]]) -> None:
    """A grid barrier: every thread of every block takes part."""
    for threads in blocks:
        meet(threads)
    clocks = {threads[0].block: threads[0].own for threads in blocks}
    far = joined_far([threads[0].far for threads in blocks])
    everything = {**far, **clocks}
    for threads in blocks:
        for thread in threads:
            thread.far = everything
