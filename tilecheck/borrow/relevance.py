"""What of a flow can matter to a finding: the rest is left out before any path is run.

A finding needs a borrow that somebody holds, a move, or work on a stream. Variables are joined into groups by the
instructions that can make one object lead to another; a group that no such instruction touches has no facts to break,
so its instructions go. Most functions have no such instruction at all, and are not run.

Invariant: `relevant(flow)` gives the findings of `flow`, by the same reasoning on every path (tested); a test of what goes
rules out no path. Where an exception
would be caught, what goes leaves an instruction without effect: it could still raise.

Worked example: in `n = len(x); k[n, 32](d); print(n)` the group of `d` stays, that of `n` goes.
"""

from __future__ import annotations

from dataclasses import replace

from tilecheck.borrow.liveness import binds, reads
from tilecheck.ir import flow, instructions
from tilecheck.ir.flow import Block, Flow
from tilecheck.ir.instructions import Instr, Kind, Var

_TRIGGERS = (
    instructions.Build,
    instructions.Lend,
    instructions.Move,
    instructions.Enqueue,
    instructions.Combine,
    instructions.Replay,
)


def relevant(function: Flow) -> Flow | None:
    """`function` without what cannot matter, None if nothing can."""
    # Most functions have nothing that can break: that is known before any variable is looked at.
    steps = list(flow.walk(function.body))
    if not any(map(_triggers, steps)):
        return None
    groups = _Groups()
    seeds: list[Var] = []
    for instr in steps:
        mentioned = [*reads(instr)]
        bound = binds(instr)
        if bound is not None:
            mentioned.append(bound)
        if not isinstance(instr, instructions.Access | instructions.Escape | instructions.Unbind):
            groups.join(mentioned)
        if _triggers(instr) or isinstance(instr, instructions.SyncStream):
            # Waiting for a stream may end what is on one of which nothing is known.
            seeds += mentioned
    kept = {groups.root(var) for var in seeds}
    return replace(function, body=_cut(function.body, groups, kept, guarded=False))


def _triggers(instr: Instr) -> bool:
    if isinstance(instr, instructions.Borrow):
        return instr.renews or instr.site.kind is Kind.RAW
    return isinstance(instr, _TRIGGERS)


class _Groups:
    """Variables joined into groups (union-find)."""

    def __init__(self) -> None:
        self.above: dict[Var, Var] = {}

    def root(self, var: Var) -> Var:
        while (above := self.above.get(var, var)) != var:
            self.above[var] = self.above.get(above, above)
            var = above
        return var

    def join(self, variables: list[Var]) -> None:
        for var in variables[1:]:
            self.above[self.root(var)] = self.root(variables[0])


def _cut(block: Block, groups: _Groups, kept: set[Var], guarded: bool) -> Block:
    found: list[Instr] = []
    for instr in block:
        rest = _rest(instr, groups, kept, guarded)
        if rest is not None:
            found.append(rest)
        elif guarded and flow.may_raise((instr,)) and not (found and isinstance(found[-1], instructions.Idle)):
            found.append(instructions.Idle(span=instr.span))
    return tuple(found)


def _matters(*blocks: Block) -> bool:
    return any(not isinstance(instr, instructions.Idle) for block in blocks for instr in block)


def _rest(instr: Instr, groups: _Groups, kept: set[Var], guarded: bool) -> Instr | None:
    """What is left of `instr`, None if nothing in it matters."""
    match instr:
        case flow.Branch(arms=arms):
            cut = tuple(_cut(arm, groups, kept, guarded) for arm in arms)
            return replace(instr, arms=cut) if _matters(*cut) else None
        case flow.Loop(test=test, body=body, orelse=orelse):
            parts = [_cut(part, groups, kept, guarded) for part in (test, body, orelse)]
            if not _matters(*parts) and not instr.endless:
                return None
            return replace(instr, test=parts[0], body=parts[1], orelse=parts[2])
        case flow.Guard():
            inner = guarded or bool(instr.final)
            body = _cut(instr.body, groups, kept, guarded=True)
            handlers = tuple(_cut(handler, groups, kept, inner) for handler in instr.handlers)
            orelse = _cut(instr.orelse, groups, kept, inner)
            final = _cut(instr.final, groups, kept, guarded)
            if not _matters(body, *handlers, orelse, final):
                return None
            return replace(instr, body=body, handlers=handlers, orelse=orelse, final=final)
        case instructions.Assume(src=src):
            return instr if groups.root(src) in kept else None
        case instructions.Decide() | instructions.Forget():
            return instr
        case instructions.Leave(value=str() as value) if groups.root(value) not in kept:
            return replace(instr, value=None)
        case _:
            bound = binds(instr)
            mentioned = [*reads(instr), *([bound] if bound is not None else [])]
            return instr if not mentioned or any(groups.root(var) in kept for var in mentioned) else None
