"""Barriers: does every thread of the scope meet the same barrier?

A barrier's guard must be the same for any two threads that share the scope. That is free of charge when the guard
mentions nothing above the shared level. A thread that has returned, or that a failing assert has ended, misses the
barrier. Warp operations are held to their masks: the lanes that arrive are the lanes that the mask names, and a full
mask wants full warps.

Worked example: `if i < n: cuda.syncthreads()` differs for two threads of the block that straddles n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_terms import TRUE, ZERO, conj, disj, div, eq, ge, lt, mod, ne, neg, num, value_of
from tilecheck.verify.pairs import Mode, Pairing, Question, about_one
from tilecheck.verify.races import launch_symbols
from tilecheck.verify.run import WARP_LANES, BarrierPoint, Run
from tilecheck.verify.suspects import Excuses, Standing, Suspect, classify
from tilecheck.verify.verdict import Property

_MODES = {
    Level.GRID: (Mode.OTHER_BLOCK, Mode.SAME_BLOCK),
    Level.BLOCK: (Mode.SAME_BLOCK,),
    Level.WARP: (Mode.SAME_WARP,),
}
FULL_MASK = 0xFFFFFFFF


def suspects(run: Run, excuses: Excuses) -> list[Suspect]:
    """The barriers and warp operations that could not be cleared."""
    found: list[Suspect] = []
    for point in _distinct(run.barriers):
        rule = "warp-sync" if point.scope is Level.WARP else "divergent-barrier"
        for first, second, mode in _divergence(run, point):
            suspect = _ask(run, point, mode, first, second, excuses, rule)
            if suspect is not None:
                found.append(suspect)
                break
    for point in _distinct(run.warp_ops):
        for first, second, mode in _divergence(run, point):
            suspect = _ask(run, point, mode, first, second, excuses, "warp-sync")
            if suspect is not None:
                found.append(suspect)
                break
        else:
            suspect = _short_warp(run, point, excuses)
            if suspect is not None:
                found.append(suspect)
    return found


def _distinct(points: Sequence[BarrierPoint]) -> list[BarrierPoint]:
    seen: dict[tuple[object, ...], BarrierPoint] = {}
    for point in points:
        seen.setdefault((point.node, point.guard, point.mask), point)
    return list(seen.values())


def _varies(run: Run, mode: Mode) -> bool:
    dims = run.dims.at if mode is Mode.OTHER_BLOCK else run.dims.thread
    return any(t.kind != "const" for t in dims)


def _divergence(run: Run, point: BarrierPoint) -> Iterator[tuple[Term, Term, Mode]]:
    """Pairs of conditions that must not hold for two threads: one arrives, the other does not."""
    modes = [mode for mode in _MODES[point.scope] if _varies(run, mode)]
    if point.scope is not Level.WARP:
        for mode in modes:
            if point.guard.level > mode.shared:
                yield point.guard, neg(point.guard), mode
        return
    named = named_lanes(run, point.mask)
    if named is None:
        return
    for mode in modes:
        if point.guard.level > mode.shared:
            yield point.guard, conj(named, neg(point.guard)), mode
        if named is not TRUE:
            yield conj(point.guard, neg(named)), TRUE, mode


def named_lanes(run: Run, mask: Term | None) -> Term | None:
    """Whether a constant mask names the thread's lane; None if the mask is not constant."""
    value = FULL_MASK if mask is None else value_of(mask)
    if value is None:
        return None
    value &= FULL_MASK
    if value == FULL_MASK:
        return TRUE
    lane = mod(run.dims.linear, num(WARP_LANES))
    stretches, start = [], None
    for bit in range(WARP_LANES + 1):
        inside = bit < WARP_LANES and value >> bit & 1
        if inside and start is None:
            start = bit
        elif not inside and start is not None:
            stretches.append(conj(ge(lane, num(start)), lt(lane, num(bit))))
            start = None
    return disj(*stretches)


def _ask(
    run: Run, point: BarrierPoint, mode: Mode, first: Term, second: Term, excuses: Excuses, rule: str
) -> Suspect | None:
    question = Pairing(run, mode, aligned=run.warp_counters).ask([*excuses.terms, first], [second])
    return _suspect(run, point, question, mode, rule)


def _short_warp(run: Run, point: BarrierPoint, excuses: Excuses) -> Suspect | None:
    """A full mask names 32 lanes; the last warp of a block has fewer if the block is no multiple of 32."""
    if named_lanes(run, point.mask) is not TRUE:
        return None
    threads = run.dims.threads
    short = ne(mod(threads, num(WARP_LANES)), ZERO)
    in_last_warp = eq(div(run.dims.linear, num(WARP_LANES)), div(threads, num(WARP_LANES)))
    question = about_one(run, [*excuses.terms, point.guard, short, in_last_warp])
    suspect = _suspect(run, point, question, None, "warp-sync")
    if suspect is not None and suspect.standing is Standing.LAUNCH:
        excuses.try_on(run, suspect)
    return suspect


def _suspect(run: Run, point: BarrierPoint, question: Question, mode: Mode | None, rule: str) -> Suspect | None:
    if run.solver.refutes(question.formulas):
        return None
    suspect = Suspect(Property.BARRIERS_UNIFORM, rule, Standing.UNKNOWN, point.node, "", mode=mode, question=question)
    suspect.guard = point.guard
    suspect.word = point.word
    suspect.model = run.solver.model(question.formulas, launch_symbols(run))
    if suspect.model is None:
        suspect.reason = "the solver gave up on this barrier"
        return suspect
    suspect.standing, suspect.reason = classify(run, (), question)
    return suspect
