"""Why a kernel is safe, in sentences for `tilecheck explain FILE::KERNEL`.

Only what was proved is said: an array is named here if none of its accesses was left suspect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.verify.condition import words
from tilecheck.verify.prove import Proof
from tilecheck.verify.run import Run
from tilecheck.verify.values import Access
from tilecheck.verify.verdict import Property, Verdict

_GOOD = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)


def reasons(proof: Proof) -> Iterator[str]:
    """The sentences of one proof."""
    run = proof.entry.run
    if proof.answers[Property.RACE_FREE].verdict in _GOOD:
        by_array: dict[str, list[Access]] = {}
        for access in run.accesses:
            if not access.again and access.array.space in ("global", "shared"):
                by_array.setdefault(access.array.name, []).append(access)
        met = {s.array.name for s in proof.suspects.get(Property.RACE_FREE, []) if s.array is not None}
        for name, accesses in by_array.items():
            if name in met:
                yield f"the threads that meet in `{name}` write one value, or a launch condition keeps them apart"
                continue
            yield from _why_free(run, name, accesses)
    if proof.answers[Property.BARRIERS_UNIFORM].verdict in _GOOD and run.barriers:
        lines = ", ".join(str(line) for line in dict.fromkeys(point.node.span.line for point in run.barriers))
        yield f"the conditions around the barriers (line {lines}) are the same for all threads that meet there"


def _why_free(run: Run, name: str, accesses: list[Access]) -> Iterator[str]:
    writes = [a for a in accesses if a.kind == "write"]
    if not writes:
        if any(a.kind == "atomic" for a in accesses):
            yield f"`{name}` is only changed by atomics"
        return
    places = list(dict.fromkeys(", ".join(words(t) for t in a.index) for a in writes))
    intervals = {tag for a in accesses for tag in a.tags[Level.BLOCK]}
    if len(places) > 1:
        yield f"the writes of `{name}` go to different elements for any two threads, or a barrier is between them"
        return
    because = _one_to_one(run, writes[0])
    yield f"`{name}` is written at [{places[0]}]; its indices are one-to-one {because}"
    if any(access.kind == "read" for access in accesses):
        order = (
            "are of the thread's own elements" if len(intervals) == 1 else "have a barrier between them and the writes"
        )
        yield f"the reads of `{name}` {order}, or are of elements that no thread writes"


def _one_to_one(run: Run, write: Access) -> str:
    """Why two threads that get to a write have different indices, as far as its form says."""
    dims = run.dims
    inside = closure(write.index)
    threads = [t for t in dims.thread if t.symbol in inside]
    blocks = [t for t in dims.at if t.symbol in inside]
    alone = [t for t in dims.thread if t.symbol is not None and t not in threads]
    if threads and blocks:
        return (
            f"because {_telling(threads)} the threads of a block apart, and blocks are further apart than their threads"
        )
    if threads:
        which = (
            "the threads of a block" if write.array.space == "shared" or not run.dims.at[0].symbol else "the threads"
        )
        return f"because {_telling(threads)} {which} apart"
    if blocks and alone:
        return f"because {_telling(blocks)} blocks apart, and one thread of each gets there"
    return "because one thread gets there"


def _telling(positions: Sequence[Term]) -> str:
    names = " and ".join(f"`{words(t)}`" for t in positions)
    return f"{names} {'tells' if len(positions) == 1 else 'tell'}"
