"""Counters: what the kernel's own writes allow to say of the old values that atomic adds return.

An old value is taken to be zero or above if the counter is (which is listed), and if no write of the kernel to the same
element can bring it below: adds of what is negative, stores, minima and exchanges are looked at under their guards. Old
values of two threads are apart only while the counter does not wrap in its type: what all threads together add must fit,
or may be assumed to (which is listed) where loops, loaded steps or the counter's start leave that open. A step by which a
launch of ordinary size wraps is no step of a counter.

Invariant: `falling` names every atomic whose old value was taken to be zero or above and may not be. The walk is made
again without that (`prove.py`).

Worked example: after `atomic.sub(c, 0, 5)` the old value of `atomic.add(c, 0, 1)` may be -5, so `t < a.size` alone does
not keep `t` inside of `a`. With `atomic.add(s, 0, 1 << 24)` on 32 bits, threads 0 and 256 of a block draw one ticket.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from math import prod

from tilecheck.ir.kernel import Node
from tilecheck.symbolic.smt_nodes import Symbol, Taint, Term
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import ZERO, conj, eq, le, neg, num, scale
from tilecheck.verify.pairs import about_one
from tilecheck.verify.run import LARGEST_BLOCK, Run
from tilecheck.verify.values import Access, Array, Kind, Scalar, as_int
from tilecheck.verify.verdict import Property
from tilecheck.verify.widths import integer_range

_QUERY_MS = 500
# Few launches have more threads.
_ORDINARY = 2**20


class Room(Enum):
    """Whether a counter holds what all threads add to it: it does, it is assumed to, or an ordinary launch wraps it."""

    FITS = "fits"
    ASSUMED = "assumed"
    WRAPS = "wraps"


def falling(run: Run, relevant: set[Symbol]) -> frozenset[Node]:
    """The atomics whose old values were taken to be zero or above, although the kernel itself may see to less.

    What is assumed of the others, where an access or a barrier depends on them, is noted in `run.unwrapped`.
    """
    made: set[Node] = set()
    for old, access in run.counted.items():
        room = room_of(run, access)
        if room is Room.WRAPS or not _stays(run, access):
            made.add(access.node)
        elif room is Room.ASSUMED and old.symbol in relevant:
            run.unwrapped.add(access.array.name)
    return frozenset(made)


def room_of(run: Run, access: Access) -> Room:
    """Whether the counter of `access` can hold what is added to it in a launch."""
    limit = _largest(access.array)
    threads = _threads(run, access.array)
    total, certain, assumed = 0, 0, access.array.space == "global"
    for write in _writes(run, access):
        step = added(write)
        if step is None:
            start = as_int(write.value) if write.kind == "write" and write.value is not None else None
            assumed |= start is None or start.high is None
            total += start.high if start is not None and start.high is not None else 0
            continue
        if step.high is None:
            assumed = True
            continue
        assumed |= write.rounds
        total += step.high * threads
        if all(s.taint is Taint.NONE or s.name.startswith(("blockDim", "gridDim")) for s in closure([step])):
            certain += step.high * min(threads, _ORDINARY)
        else:
            assumed |= total > limit
    if certain > limit:
        return Room.WRAPS
    return Room.ASSUMED if assumed or total > limit else Room.FITS


def added(access: Access) -> Term | None:
    """What an atomic access adds, None if it does something else."""
    if access.kind != "atomic" or access.op not in ("add", "sub") or not access.operands:
        return None
    step = as_int(access.operands[0])
    return scale(step, -1) if step is not None and access.op == "sub" else step


def _stays(run: Run, access: Access) -> bool:
    """Whether no write of the kernel takes the counter of `access` below zero, if it does not wrap."""
    array = access.array
    if any(g.array in (None, array) and Property.RACE_FREE in g.properties for g in run.gaps):
        return False
    return all(_keeps_sign(run, write) for write in _writes(run, access))


def _keeps_sign(run: Run, write: Access) -> bool:
    step = added(write)
    if step is not None:
        return _holds(run, write, le(ZERO, step))
    if write.member is not None:
        return False
    if write.kind == "atomic" and write.op in ("max", "and", "and_"):
        return write.op != "max" or _within(run, write, as_int(write.operands[0]), below=True)
    if write.kind == "atomic":
        given = write.operands[-1] if write.operands else None
        if write.op not in ("min", "exch", "or", "or_", "xor", "cas", "compare_and_swap"):
            return False
    else:
        given = write.value
    whole = given is not None and not (isinstance(given, Scalar) and given.kind is Kind.FLOAT)
    return whole and given is not None and _within(run, write, as_int(given))


def _within(run: Run, write: Access, value: Term | None, *, below: bool = False) -> bool:
    """Whether `value` is from zero (from any number if `below`) up to the largest of the array's type."""
    if value is None:
        return False
    above = le(value, num(_largest(write.array)))
    return _holds(run, write, above if below else conj(le(ZERO, value), above))


def _holds(run: Run, write: Access, claim: Term) -> bool:
    if claim.kind == "true":
        return True
    question = about_one(run, [write.guard, neg(claim)])
    return run.solver.refutes(question.formulas, _QUERY_MS)


def _writes(run: Run, access: Access) -> Iterator[Access]:
    """What may write the element that `access` counts in, itself included."""
    for other in run.accesses:
        if other.array is not access.array or other.kind == "read" or other.again:
            continue
        pairs = zip(other.index, access.index, strict=False)
        if not any(eq(x, y).kind == "false" for x, y in pairs if x.kind == y.kind == "const"):
            yield other


def _largest(array: Array) -> int:
    """The largest value of an element; 32 bits where the dtype is not known."""
    high = (integer_range(array.dtype) or (None, 2**31 - 1))[1]
    return high if high is not None else 2**63 - 1


def _threads(run: Run, array: Array) -> int:
    """The most threads that share an element of `array`."""
    block = min(prod(extent.high or LARGEST_BLOCK["x"] for extent in run.dims.block), LARGEST_BLOCK["x"])
    if array.space != "global":
        return block
    return block * prod(extent.high or 1 for extent in run.dims.grid)
