"""Barriers: does every thread of the scope meet the same barrier?

A barrier's guard must be the same for any two threads that share the scope. That is free of charge when the guard
mentions nothing above the shared level. A thread that has returned, or that a failing assert has ended, misses the
barrier. Warp operations are held to their masks: the lanes that arrive are the lanes that the mask names, and a full
mask wants full warps.

Worked example: `if i < n: cuda.syncthreads()` differs for two threads of the block that straddles n.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilecheck.symbolic.smt_nodes import Level
from tilecheck.symbolic.smt_terms import TRUE, ZERO, conj, div, eq, mod, ne, neg, num
from tilecheck.verify.masks import is_full, named, same
from tilecheck.verify.pairs import Mode, Pairing, Question, about_one
from tilecheck.verify.races import launch_symbols
from tilecheck.verify.run import WARP_LANES, BarrierPoint, Run
from tilecheck.verify.suspects import Excuses, Standing, Suspect, classify
from tilecheck.verify.verdict import Property

_MODES = {
    Level.GRID: (Mode.OTHER_BLOCK, Mode.SAME_BLOCK),
    Level.BLOCK: (Mode.SAME_BLOCK,),
}


def suspects(run: Run, excuses: Excuses) -> Iterator[Suspect]:
    """The barriers and warp operations that could not be cleared."""
    for point in _distinct(run.barriers):
        suspect = _of_lanes(run, point, excuses) if point.scope is Level.WARP else _divergence(run, point, excuses)
        if suspect is not None:
            yield suspect
    for point in _distinct(run.warp_ops):
        suspect = _of_lanes(run, point, excuses) or _short_warp(run, point, excuses)
        if suspect is not None:
            yield suspect


def _distinct(points: Sequence[BarrierPoint]) -> list[BarrierPoint]:
    seen: dict[tuple[object, ...], BarrierPoint] = {}
    for point in points:
        seen.setdefault((point.node, point.guard, point.mask), point)
    return list(seen.values())


def _varies(run: Run, mode: Mode) -> bool:
    dims = run.dims.at if mode is Mode.OTHER_BLOCK else run.dims.thread
    return any(t.kind != "const" for t in dims)


def _divergence(run: Run, point: BarrierPoint, excuses: Excuses) -> Suspect | None:
    """That one thread of the scope arrives and another does not."""
    for mode in _MODES[point.scope]:
        if _varies(run, mode) and point.guard.level > mode.shared:
            question = Pairing(run, mode).ask([*excuses.terms, point.guard], [neg(point.guard)])
            suspect = _suspect(run, point, question, mode, "divergent-barrier")
            if suspect is not None:
                return suspect
    return None


def _of_lanes(run: Run, point: BarrierPoint, excuses: Excuses) -> Suspect | None:
    """That a lane arrives which its own mask does not name, or that one which is named does not arrive with this mask."""
    own = named(run, point.mask, lambda term: term)
    if own is None:
        run.gap(f"the mask of this `{point.word}` could not be followed", point.node, Property.BARRIERS_UNIFORM)
        return None
    if own is not TRUE:
        question = about_one(run, [*excuses.terms, point.guard, neg(own)])
        suspect = _suspect(run, point, question, None, "warp-sync")
        if suspect is not None:
            return suspect
    if not _varies(run, Mode.SAME_WARP) or (own is TRUE and point.guard.level <= Mode.SAME_WARP.shared):
        return None
    pairing = Pairing(run, Mode.SAME_WARP, aligned=run.warp_counters)
    of = pairing.twin.of
    others = named(run, point.mask, of)
    assert others is not None
    meets = conj(of(point.guard), same(point.mask, of))
    mentions = [point.guard, run.dims.linear, *((point.mask,) if point.mask is not None else ())]
    if point.mask in run.ballots:
        mentions.append(run.ballots[point.mask])
    question = pairing.ask([*excuses.terms, point.guard], (), [others, neg(meets)], mentions)
    return _suspect(run, point, question, Mode.SAME_WARP, "warp-sync")


def _short_warp(run: Run, point: BarrierPoint, excuses: Excuses) -> Suspect | None:
    """A full mask names 32 lanes; the last warp of a block has fewer if the block is no multiple of 32."""
    if not is_full(point.mask):
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
