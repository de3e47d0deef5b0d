"""One mistake is told once: which findings of a file only follow from others.

What a partition has ended, a launch with that partition cannot end again; a move that is refused moves nothing; a launch
that is refused gives no op that could be dropped. And what a function does wrong by itself is told in that function, not
again at each call that reads its body (`inline.py`), be it of this file or of another one.

Invariant: of the findings that follow from one another at least one is told, in the file that has the mistake.

Worked example: of `def begin(z): copy(z.partition(8), z).sync()` the launch is told, and no call `begin(x)`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tilecheck.borrow.expected import within
from tilecheck.borrow.findings import Break, Broken
from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir.instructions import Site


@dataclass(frozen=True, slots=True)
class ByItself:
    """What functions of other files do wrong by themselves: what breaks where, and where ops are dropped."""

    broken: frozenset[tuple[Break, Span]] = frozenset()
    dropped: frozenset[Span] = frozenset()


def broken_once(found: Collection[Broken], elsewhere: ByItself) -> tuple[Broken, ...]:
    """The findings that follow from no other."""
    twice = {(one.span.line, one.place) for one in found if one.kind is Break.ONE_CALL}
    cut = [one for one in found if one.kind is Break.IDLE and not one.verb]
    held = {one.span for one in found if one.kind in _HELD_MOVES}
    lent = {one.span for one in found if one.kind in (*_HELD_MOVES, Break.MOVED_IDLE)}
    refused = {one.span for one in found if one.kind in _REFUSED_MOVES}
    known = {*(mark for one in found for mark in marks(one)), *elsewhere.broken}

    def follows(one: Broken) -> bool:
        if one.inner is not None and any(kind is one.kind and _inside(at, one.inner) for kind, at in known):
            return True
        if one.kind is Break.IDLE:
            # What a partition has ended already, a launch with that partition cannot end again, nor can a launch with
            # what was ended.
            ended = one.verb == "use" and any(_ends(by, one) for by in cut)
            return ended or (one.span.line, one.place) in twice
        if one.kind in (Break.MOVED_IDLE, Break.MOVED_VIEW):
            return one.span in (held if one.kind is Break.MOVED_IDLE else lent)
        return one.kind is Break.MOVED and one.origin in refused

    return tuple(one for one in found if not follows(one))


def dropped_once(
    dropped: dict[tuple[Span, str], Site],
    ran: Collection[tuple[Span, str]],
    told: Iterable[Broken],
    faults: Iterable[Fault],
    elsewhere: ByItself,
) -> tuple[Site, ...]:
    """The ops that are built, never run, and not told to be so in the function that builds them."""
    left = {site.span for site in dropped.values()} | elsewhere.dropped
    # A launch that is refused gives no op, so that there is none to run.
    refusals = [one.span for one in told] + [fault.span for fault in faults if fault.rule not in _WARNINGS]
    unbuilt = {site.span for site in dropped.values() if any(within(at, (site.span,)) for at in refusals)}
    return tuple(
        site for at, site in dropped.items() if at not in ran and site.inner not in left and site.span not in unbuilt
    )


def marks(one: Broken) -> Iterator[tuple[Break, Span]]:
    """Where `one` tells what a call that reads its function would tell again: where it breaks, and of a view that outlives
    its owner where that is made, whatever uses it.
    """
    yield one.kind, one.span
    if one.kind is Break.OWNER and one.origin is not None:
        yield one.kind, one.origin


def _ends(cut: Broken, use: Broken) -> bool:
    """Whether the partition of `cut` has ended what the launch of `use` ends, or what that launch is given."""
    same = cut.origin == use.origin and cut.span < use.span
    given = cut.later is not None and _inside(use.span, cut.later)
    # What was ended before it had a name is used under one.
    unnamed = not cut.holder.isidentifier() and cut.span == use.origin
    return same or given or unnamed


def _inside(at: Span, place: Span) -> bool:
    return at.path == place.path and within(at, (place,))


# What a launch goes through with all the same.
_WARNINGS = frozenset({"partial-coverage", "host-array-copied", "dropped-op"})
_HELD_MOVES = (Break.MOVED_BUILT, Break.MOVED_RUNNING, Break.MOVED_CAPTURED)
_REFUSED_MOVES = (*_HELD_MOVES, Break.MOVED_IDLE, Break.MOVED_VIEW)
