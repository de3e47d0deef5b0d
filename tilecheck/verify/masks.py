"""Which lanes the mask of a warp operation names.

A mask is read if it is a constant, a choice between such, the votes of a ballot of the whole warp, or what `activemask`
said. An active mask names at most the lanes that got there: lanes that came apart before need not have met again. It is
good enough to meet at, if the lanes that took it use it, but it orders nothing that a proof may rest on.

Worked example: with `mask = 0xFFFF if t < 16 else 0xFFFF0000` the mask of thread 3 names lanes 0 to 15.
"""

from __future__ import annotations

from collections.abc import Callable

from tilecheck.symbolic.smt_nodes import Term
from tilecheck.symbolic.smt_terms import FALSE, TRUE, conj, disj, eq, ge, ite, lt, mod, num, value_of
from tilecheck.verify.run import WARP_LANES, Run

FULL_MASK = 0xFFFFFFFF


def is_full(mask: Term | None) -> bool:
    """Whether a mask names all lanes."""
    value = FULL_MASK if mask is None else value_of(mask)
    return value is not None and value & FULL_MASK == FULL_MASK


def named(run: Run, mask: Term | None, of: Callable[[Term], Term]) -> Term | None:
    """That a first thread's `mask` names the lane of a second thread, which sees `of(term)` where the first sees `term`;
    None if the mask cannot be read.
    """
    if is_full(mask) or mask is None:
        return TRUE
    if mask.kind == "const":
        return _stretches(mask.const & FULL_MASK, of(mod(run.dims.linear, num(WARP_LANES))))
    if mask.kind == "ite":
        cond, then, other = mask.parts
        one, two = named(run, then, of), named(run, other, of)
        return ite(cond, one, two) if one is not None and two is not None else None
    voted = run.ballots.get(mask, run.active_masks.get(mask))
    return of(voted) if voted is not None else None


def ordered(run: Run, mask: Term | None, of: Callable[[Term], Term]) -> Term | None:
    """As `named`, for lanes that a barrier with `mask` is sure to hold up; None for active masks too."""
    return None if _active(run, mask) else named(run, mask, of)


def why_unordered(run: Run, mask: Term | None) -> str:
    """Why `ordered` gave None."""
    if _active(run, mask):
        return "`activemask` need not name all lanes that get to the warp barrier in between"
    return "the mask of a warp barrier in between could not be followed"


def _active(run: Run, mask: Term | None) -> bool:
    return mask is not None and any(active.symbol in mask.symbols for active in run.active_masks)


def same(mask: Term | None, of: Callable[[Term], Term]) -> Term:
    """That a second thread uses the same mask; the lanes that took an active mask together have one."""
    return TRUE if mask is None or mask.symbol is not None else eq(mask, of(mask))


def _stretches(value: int, lane: Term) -> Term:
    """That `lane` is the number of a bit of `value`."""
    stretches: list[Term] = []
    start = None
    for bit in range(WARP_LANES + 1):
        inside = bit < WARP_LANES and value >> bit & 1
        if inside and start is None:
            start = bit
        elif not inside and start is not None:
            stretches.append(conj(ge(lane, num(start)), lt(lane, num(bit))))
            start = None
    return disj(*stretches) if stretches else FALSE
