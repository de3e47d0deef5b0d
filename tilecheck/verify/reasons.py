"""Why a kernel is safe, in sentences for `tilecheck explain FILE::KERNEL`.

Only what was proved is said: an array is named here if none of its accesses was left suspect. A sentence about indices
names what they are made of, for the proof itself is the solver's: thread and block numbers, elements of which a contract
says something, old values of counters.

Worked example: for `z[perm[i]] = x[i]` under `distinct(perm)` it is "`z[perm[i]]` (line 12): its indices are one-to-one
because no value occurs twice in `perm`, `threadIdx.x` tells the threads of a block apart, and blocks are further apart
than their threads".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.symbolic.smt_nodes import Level, Symbol, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.verify.condition import words
from tilecheck.verify.findings import place_of, temporaries
from tilecheck.verify.known import Known
from tilecheck.verify.proof import Proof
from tilecheck.verify.run import Run
from tilecheck.verify.suspects import Standing, Suspect, named, sources
from tilecheck.verify.values import Access
from tilecheck.verify.verdict import Property, Verdict

_GOOD = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)


def reasons(proof: Proof) -> Iterator[str]:
    """The sentences of one proof."""
    run = proof.entry.run
    if proof.rehearsed:
        yield (
            f"all {proof.rehearsed} threads of a launch that the file shows were run: indices, guards and barriers depend "
            "on nothing that arrays hold, so that one run stands for all"
        )
    if proof.answers[Property.RACE_FREE].verdict in _GOOD:
        yield from _races(proof)
    if proof.answers[Property.IN_BOUNDS].verdict in _GOOD:
        yield from _bounds(proof)
    if proof.answers[Property.BARRIERS_UNIFORM].verdict in _GOOD and run.barriers:
        yield _barriers(run)
    shared = any(array.space == "shared" for array in run.arrays.values())
    missing = [
        word for word, there in (("barriers", run.barriers or run.warp_ops), ("shared memory", shared)) if not there
    ]
    if missing:
        yield f"there {'are' if missing[0] == 'barriers' else 'is'} no {' and no '.join(missing)}"


def lines_of(numbers: Sequence[int]) -> str:
    """`line 4`, or `lines 4 and 9`."""
    shown = [str(number) for number in dict.fromkeys(numbers)]
    return f"line {shown[0]}" if len(shown) == 1 else f"lines {', '.join(shown[:-1])} and {shown[-1]}"


# ---- races


def _races(proof: Proof) -> Iterator[str]:
    run = proof.entry.run
    by_array: dict[str, list[Access]] = {}
    for access in run.accesses:
        if not access.again and access.array.space in ("global", "shared"):
            by_array.setdefault(access.array.name, []).append(access)
    met: dict[str, list[Suspect]] = {}
    for suspect in proof.suspects.get(Property.RACE_FREE, []):
        if suspect.array is not None:
            met.setdefault(suspect.array.name, []).append(suspect)
    # The run of a whole launch settles what the solver left open, gaps of the walk included.
    left = {
        s.array.name for s in proof.suspects.get(Property.RACE_FREE, []) if s.standing > Standing.EXCUSED and s.array
    }
    open_ones = left | {gap.array.name for gap in run.gaps if gap.array is not None} if proof.rehearsed else set()
    for name, accesses in by_array.items():
        if name in open_ones:
            yield f"no two threads meet in `{name}`, in a run of all threads of this launch"
        elif name in met:
            yield _met(name, met[name])
        else:
            yield from _why_free(run, name, accesses)


def _met(name: str, suspects: Sequence[Suspect]) -> str:
    """What keeps threads apart that could otherwise meet."""
    if all(s.standing is Standing.SAME_VALUE for s in suspects):
        return f"all threads that meet in `{name}` write the same value"
    needed = list(dict.fromkeys(text for s in suspects for text in s.conditions))
    kept = f"no two threads meet in `{name}` where {_listed(needed)} {'holds' if len(needed) == 1 else 'hold'}"
    if any(s.standing is Standing.SAME_VALUE for s in suspects):
        return f"{kept}, or they write the same value"
    return kept


def _listed(texts: Sequence[str]) -> str:
    quoted = [f"`{text}`" for text in texts]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _why_free(run: Run, name: str, accesses: list[Access]) -> Iterator[str]:
    writes = [a for a in accesses if a.kind == "write"]
    if not writes:
        if any(a.kind == "atomic" for a in accesses):
            yield f"`{name}` is only changed by atomics"
        return
    spelled = temporaries(run.kernel)
    places = {place_of(a.node, spelled).text: a.node.span.line for a in writes}
    intervals = {tag for a in accesses for tag in a.tags[Level.BLOCK]}
    if len({a.index for a in writes}) > 1:
        where = f"{_listed(list(places))} ({lines_of(list(places.values()))})"
        between = " without a barrier between them" if len(intervals) > 1 else ""
        yield f"no two threads come to one element of `{name}` by {where}{between}"
        return
    (text, line), *_ = places.items()
    yield f"`{text}` (line {line}): its indices are one-to-one {_one_to_one(run, writes[0])}"
    if any(access.kind == "read" for access in accesses):
        if len(intervals) == 1:
            yield f"where `{name}` is read, it is the thread's own element, or one that no other thread writes"
        else:
            yield f"where `{name}` is read, a barrier stands between that and the writes of other threads"


def _one_to_one(run: Run, write: Access) -> str:
    """Why two threads that get to a write have different indices, as far as its form says."""
    if write.locks:
        return "for those who hold the lock: there is one at a time"
    inside = closure(write.index)
    drawn = [t.array.name for t in run.tickets if t.old.symbol in inside]
    if drawn:
        return f"because the counter in `{drawn[0]}` gives every thread a value of its own"
    parts = [*_elements(run, inside), *_positions(run, write, inside)]
    if not parts:
        return "because one thread gets there" if not sources(write.index) else "by what was loaded and compared"
    return f"because {', '.join(parts[:-1])}{', and ' if len(parts) > 1 else ''}{parts[-1]}"


def _elements(run: Run, inside: dict[Symbol, None]) -> Iterator[str]:
    """What a contract says of the arrays that an index is taken from."""
    seen: dict[str, Known] = {}
    for symbol in inside:
        known = run.known.get(symbol.applied.function) if symbol.applied is not None else None
        if known is not None and symbol.applied is not None:
            seen[symbol.applied.function.removeprefix("load ")] = known
    for name, known in seen.items():
        if known.nondecreasing:
            yield f"`{name}` never falls, so that the ranges between its elements do not overlap"
        elif known.distinct:
            yield f"no value occurs twice in `{name}`"


def _positions(run: Run, write: Access, inside: dict[Symbol, None]) -> Iterator[str]:
    """How thread and block numbers in an index tell threads apart."""
    dims = run.dims
    threads = [t for t in dims.thread if t.symbol in inside]
    blocks = [t for t in dims.at if t.symbol in inside]
    alone = [t for t in dims.thread if t.symbol is not None and t not in threads]
    shared = write.array.space == "shared" or not any(t.symbol for t in dims.at)
    if threads and blocks:
        mixed = any(_has(closure([at]), threads) and _has(closure([at]), blocks) for at in write.index)
        if not mixed:
            yield f"{_telling(blocks)} blocks apart"
        yield f"{_telling(threads)} the threads of a block apart"
        if mixed:
            yield "blocks are further apart than their threads"
    elif threads:
        yield f"{_telling(threads)} {'the threads of a block' if shared else 'the threads'} apart"
    elif blocks:
        yield f"{_telling(blocks)} blocks apart"
        if alone:
            yield "one thread of each gets there"


def _has(inside: dict[Symbol, None], terms: Sequence[Term]) -> bool:
    return any(t.symbol in inside for t in terms)


def _telling(numbers: Sequence[Term]) -> str:
    names = " and ".join(f"`{words(t)}`" for t in numbers)
    return f"{names} {'tells' if len(numbers) == 1 else 'tell'}"


# ---- bounds and barriers


def _bounds(proof: Proof) -> Iterator[str]:
    """What keeps the indices of each array inside."""
    run = proof.entry.run
    kept = proof.answers[Property.IN_BOUNDS].conditions
    compared: dict[str, dict[str, None]] = {}
    required: dict[str, dict[str, None]] = {}
    conditions: dict[str, dict[str, None]] = {}
    for access in run.accesses:
        name = access.array.name
        for check in access.checks:
            by = sorted(s.name for s in check.length.symbols & access.guard.symbols)
            compared.setdefault(name, {}).update(dict.fromkeys(by))
            loads = (s.applied.function for s in closure([check.position]) if s.applied is not None)
            read = [f.removeprefix("load ") for f in loads if f in run.known and run.known[f].bounds]
            required.setdefault(name, {}).update(dict.fromkeys(read))
    for suspect in proof.suspects.get(Property.IN_BOUNDS, []):
        if suspect.array is not None:
            needed = (text for text in suspect.conditions if text in kept)
            conditions.setdefault(suspect.array.name, {}).update(dict.fromkeys(needed))
    for name in compared:
        parts = []
        if compared[name]:
            parts.append(f"the code compares with {_listed(list(compared[name]))}")
        if required[name]:
            parts.append(f"`requires` says so of the elements of {named(list(required[name]))}")
        if conditions.get(name):
            parts.append(f"a launch must keep {_listed(list(conditions[name]))}")
        if parts:
            yield f"the indices of `{name}` are inside because {', and '.join(parts)}"


def _barriers(run: Run) -> str:
    lines = lines_of([point.node.span.line for point in run.barriers])
    many = len({point.node.span.line for point in run.barriers}) > 1
    if all(point.guard.kind == "true" for point in run.barriers):
        stands = "no barrier stands" if many else "the barrier does not stand"
        return f"{stands} under a condition ({lines}), so all threads meet it"
    return f"the conditions and loops around the barriers ({lines}) come out the same for all threads that meet there"
