"""Why a kernel is safe, in sentences for `tilecheck explain FILE::KERNEL`.

Only what was proved is said: an array is named here if none of its accesses was left suspect.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.symbolic.smt_nodes import Level
from tilecheck.verify.condition import words
from tilecheck.verify.prove import Proof
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
        for name, accesses in by_array.items():
            yield from _why_free(name, accesses)
    if proof.answers[Property.BARRIERS_UNIFORM].verdict in _GOOD and run.barriers:
        lines = ", ".join(str(line) for line in dict.fromkeys(point.node.span.line for point in run.barriers))
        yield f"the conditions around the barriers (line {lines}) are the same for all threads that meet there"


def _why_free(name: str, accesses: list[Access]) -> Iterator[str]:
    writes = [a for a in accesses if a.kind == "write"]
    if not writes:
        if any(a.kind == "atomic" for a in accesses):
            yield f"`{name}` is only changed by atomics"
        return
    places = list(dict.fromkeys(", ".join(words(t) for t in a.index) for a in writes))
    intervals = {tag for a in accesses for tag in a.tags[Level.BLOCK]}
    where = f"`{name}` is written at [{places[0]}]" if len(places) == 1 else f"the writes of `{name}`"
    if len(places) == 1 and len(intervals) == 1:
        yield f"{where}, which is one-to-one: no two threads that get there have the same index"
    elif len(intervals) > 1:
        yield f"{where} and its other accesses are apart: different elements, or a barrier between them"
    else:
        yield f"{where} go to different elements for any two threads"
