"""Barrier intervals as open tags.

Every point of the walk carries, for each scope (grid, block, warp), the tags of the intervals it may be in, each with
its condition. A barrier closes the tags of its scope and of the narrower ones and opens a fresh one. Two accesses may
happen at the same time iff they share a tag whose two conditions can hold together.

Worked example: before `syncthreads()` the tags are {start}, after it {b1}; an access before and one after share no tag
in the block scope, but still share `start` in the grid scope, because other blocks do not wait.
"""

from __future__ import annotations

from tilecheck.ir.kernel import Node
from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_terms import FALSE, TRUE, conj, ite, neg
from tilecheck.verify import told
from tilecheck.verify.masks import is_full
from tilecheck.verify.run import BarrierPoint, Crossing, Run, State
from tilecheck.verify.values import Tags

SCOPES = (Level.GRID, Level.BLOCK, Level.WARP)


def cross(run: Run, state: State, scope: Level, node: Node, word: str, mask: Term | None = None) -> None:
    """A barrier of `scope` at `state`. A warp barrier of some lanes closes no interval: `races.py` knows whom it orders."""
    guard = state.guard
    if guard is FALSE:
        return
    recording = run.recording and run.only_tags is None
    if recording:
        run.barriers.append(BarrierPoint(scope, guard, node, word, mask))
    if node in run.missed:
        told.forget_all(state)
        state.version = run.new_version()
        return
    if scope is Level.WARP and not is_full(mask):
        state.version = run.new_version()
        if recording and run.generic_loops == 0:
            run.crossings.append(Crossing(len(run.accesses), guard, mask))
        return
    tag = run.new_tag(f"after {node.span.line} ")
    state.tags = {s: {tag: TRUE} if s >= scope else tags for s, tags in state.tags.items()}
    if scope <= Level.BLOCK:
        state.dirty = frozenset()
        told.publish(state)
    state.version = run.new_version()


def merged(cond: Term, first: Tags, second: Tags) -> Tags:
    """The tags after a branch: those of `first` where `cond` held, else those of `second`."""
    if first is second:
        return first
    result: Tags = {}
    for scope in SCOPES:
        one, two = first[scope], second[scope]
        if one is two:
            result[scope] = one
            continue
        both: dict[str, Term] = {}
        for tag in {**one, **two}:
            if tag in one and tag in two:
                both[tag] = ite(cond, one[tag], two[tag])
            elif tag in one:
                both[tag] = conj(one[tag], cond)
            else:
                both[tag] = conj(two[tag], neg(cond))
        result[scope] = {tag: term for tag, term in both.items() if term is not FALSE}
    return result


def under(tags: Tags, cond: Term, scope: Level) -> Tags:
    """The tags of `scope` and narrower ones, each under `cond` as well."""
    made: Tags = {}
    for s, inner in tags.items():
        if s < scope:
            made[s] = inner
        else:
            kept = {tag: conj(term, cond) for tag, term in inner.items()}
            made[s] = {tag: term for tag, term in kept.items() if term is not FALSE}
    return made


def joined(first: Tags, second: Tags, scope: Level) -> Tags:
    """Both sets of tags in `scope` and narrower; the wider scopes are those of `first`."""
    return {s: {**inner, **second[s]} if s >= scope else inner for s, inner in first.items()}
