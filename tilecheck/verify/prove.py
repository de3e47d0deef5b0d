"""The prover on one page: walk, ask, excuse, replay.

    kernel, launch ── entry ── statements (walk) ── bounds, races, barriers, initialised ── suspects
                                                                                  │
                         conditions (excused) ── witness (replayed: refuted) ── unknown ── Answer per property

Invariant: `proven` means that no suspect was left, `refuted` that the executor saw it happen, and everything else is
unknown with a reason. A gap of the walk makes the properties it names unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tilecheck.checked import Fault
from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import Kernel, Node, TensorParam
from tilecheck.ir.simt import Barrier, BarrierValue
from tilecheck.symbolic.smt_nodes import Taint, Term
from tilecheck.symbolic.smt_read import evaluate
from tilecheck.symbolic.smt_solver import Model, OutOfBudget, Solver
from tilecheck.verify import barriers, bounds, initialised, narrowing, overflow, pools, races
from tilecheck.verify.condition import equalities
from tilecheck.verify.conditions import Conditions, full_block, leaves_room
from tilecheck.verify.counters import falling
from tilecheck.verify.entry import enter, made_for_lone_threads
from tilecheck.verify.leaning import lean
from tilecheck.verify.proof import SHOWN, Proof, Refuted, texts
from tilecheck.verify.rehearsal import settle
from tilecheck.verify.run import Run
from tilecheck.verify.statements import walk_kernel
from tilecheck.verify.suspects import Standing, Suspect
from tilecheck.verify.usage import Usage
from tilecheck.verify.verdict import OUT_OF_TIME, Answer, Property, Verdict
from tilecheck.verify.witness import Replayer

# The share of a kernel's budget that replays may take.
_REPLAY_SHARE = 0.2


def prove(kernel: Kernel, usage: Usage, launch: Launch | None, budget: float) -> Proof:
    """Analyse `kernel` for one launch within `budget` seconds."""
    begun = time.process_time()
    proof = _attempt(kernel, usage, launch, budget)
    missed = _missed(proof)
    if missed and proof.answers[Property.RACE_FREE].verdict in SHOWN:
        left = budget - (time.process_time() - begun)
        again = _attempt(kernel, usage, launch, left, missed).answers[Property.RACE_FREE]
        if again.verdict not in SHOWN:
            line = min(node.span.line for node in missed)
            again = Answer(Verdict.UNKNOWN, reason=f"line {line}: this barrier orders only the threads that meet it")
        proof.answers[Property.RACE_FREE] = again
    lean(proof)
    if launch is None and proof.answers[Property.RACE_FREE].verdict not in SHOWN:
        lone = _with_lone_threads(kernel, usage, budget - (time.process_time() - begun))
        proof = proof if lone is None else lone
    if launch is not None:
        proof.rehearsed = settle(proof.answers, kernel, launch, begun + budget)
    if launch is not None and _shows_elements(kernel, usage, launch):
        _look_at_elements(proof, usage, budget - (time.process_time() - begun), missed)
    return proof


def _with_lone_threads(kernel: Kernel, usage: Usage, budget: float) -> Proof | None:
    """The proof of a kernel that asks for its block only, for blocks of one thread; None if it is not free of races then,
    or made for others.
    """
    if budget <= 0 or kernel.track == "cutile" or not made_for_lone_threads(kernel, usage):
        return None
    proof = _attempt(kernel, usage, None, budget, lone_threads=True)
    race = proof.answers[Property.RACE_FREE]
    if race.verdict not in SHOWN:
        return None
    lean(proof)
    conditions = (*race.conditions, "blockDim.x == 1")
    proof.answers[Property.RACE_FREE] = Answer(Verdict.PROVEN_GIVEN, conditions, "no thread index is used")
    return proof


_ON_ELEMENTS = (Property.RACE_FREE, Property.IN_BOUNDS)


def _shows_elements(kernel: Kernel, usage: Usage, launch: Launch) -> bool:
    """Whether host code shows something of the elements of an array of integers that the kernel only reads."""
    read = {p.name for p in kernel.params if isinstance(p, TensorParam)} & usage.whole_numbers - usage.written
    return any(seen.drawn() is not None for name, seen in launch.arrays().items() if name in read)


def _look_at_elements(proof: Proof, usage: Usage, budget: float, missed: frozenset[Node]) -> None:
    """Say of an open property that the elements which this launch passes are safe, if they are.

    It stays unknown: the kernel depends on what its arrays hold, and the next call may pass others.
    """
    unknown = [name for name in _ON_ELEMENTS if proof.answers[name].verdict is Verdict.UNKNOWN]
    if not unknown or budget <= 0:
        return
    again = _attempt(proof.entry.run.kernel, usage, proof.launch, budget, missed, contents=True)
    lean(again)
    for name in unknown:
        if again.answers[name].verdict is Verdict.PROVEN:
            reason = f"{proof.answers[name].reason}; the elements that this launch passes are safe"
            proof.answers[name] = Answer(Verdict.UNKNOWN, reason=reason)


def _missed(proof: Proof) -> frozenset[Node]:
    """The barriers that some threads may miss."""
    suspects = proof.suspects.get(Property.BARRIERS_UNIFORM, [])
    return frozenset(
        s.node for s in suspects if s.standing > Standing.EXCUSED and isinstance(s.node, Barrier | BarrierValue)
    )


def _attempt(
    kernel: Kernel,
    usage: Usage,
    launch: Launch | None,
    budget: float,
    missed: frozenset[Node] = frozenset(),
    *,
    contents: bool = False,
    fallen: frozenset[Node] = frozenset(),
    lone_threads: bool = False,
) -> Proof:
    """Answers to all properties; the barriers in `missed` order nothing. `contents` and `lone_threads` as in `enter`; of
    the old values of the atomics in `fallen` nothing is said.
    """
    begun = time.process_time()
    solver = Solver(begun + budget * (1 - _REPLAY_SHARE))
    entry = enter(kernel, usage, solver, launch, contents, lone_threads)
    proof = Proof(launch, entry)
    run = entry.run
    run.missed, run.falling = missed, fallen
    try:
        walk_kernel(run, entry.state, kernel)
        more = falling(run, overflow.relevant(run)) if run.counted else frozenset()
        if more:
            left = budget - (time.process_time() - begun)
            again = fallen | more
            return _attempt(
                kernel, usage, launch, left, missed, contents=contents, fallen=again, lone_threads=lone_threads
            )
    except OutOfBudget:
        answer = Answer(Verdict.UNKNOWN, reason=OUT_OF_TIME)
        proof.answers = dict.fromkeys(Property, answer)
        return proof
    late = proof.late
    for name, room in _ROOMS:
        found = proof.suspects[name] = []
        try:
            # What was found before the time is up may still be refuted.
            found.extend(room(run, proof.conditions))
        except OutOfBudget:
            late.add(name)
    _retry(proof)
    try:
        for suspect in overflow.suspects(run, proof.conditions):
            proof.suspects[suspect.property].append(suspect)
    except OutOfBudget:
        late.update(Property)
    proof.faults = _side_findings(run, kernel)
    replayer = Replayer(kernel, entry, launch, begun + budget)
    for name in Property:
        proof.answers[name] = _judge(proof, name, replayer, name in late)
    return proof


def _side_findings(run: Run, kernel: Kernel) -> tuple[Fault, ...]:
    """What the walk shows besides the four properties."""
    try:
        return (*narrowing.faults(run, kernel), *pools.faults(run, kernel))
    except OutOfBudget:
        return ()


def _initialised(run: Run, excuses: Conditions) -> list[Suspect]:
    """Reads of shared memory that nothing covers; blocks that fill the arrays are asked for where that is enough."""
    found = initialised.suspects(run, excuses.terms)
    for suspect in found:
        conditions = full_block(run, suspect, excuses.found)
        terms = [*excuses.terms, *(c.term for c in conditions)]
        if not conditions or not leaves_room(run, suspect, excuses.terms, conditions):
            continue
        if all(still.array is not suspect.array for still in initialised.suspects(run, terms)):
            excuses.excuse(suspect, conditions)
    return found


_ROOMS: tuple[tuple[Property, Callable[[Run, Conditions], Iterable[Suspect]]], ...] = (
    (Property.IN_BOUNDS, bounds.suspects),
    (Property.RACE_FREE, races.suspects),
    (Property.BARRIERS_UNIFORM, barriers.suspects),
    (Property.SHARED_INITIALISED, _initialised),
)


def _retry(proof: Proof) -> None:
    """Conditions that the races brought may settle positions that were open before."""
    run, conditions = proof.entry.run, proof.conditions
    kept: list[Suspect] = []
    try:
        for suspect in proof.suspects.get(Property.IN_BOUNDS, []):
            if suspect.standing > Standing.EXCUSED and suspect.question is not None and conditions.terms:
                if run.solver.refutes([*suspect.question.formulas, *conditions.terms]):
                    conditions.settle(run, suspect, suspect.question.formulas)
                elif suspect.standing is not Standing.UNKNOWN:
                    conditions.try_on(run, suspect)
                    if suspect.conditions:
                        conditions.settle(run, suspect, suspect.question.formulas)
            kept.append(suspect)
    except OutOfBudget:
        return
    proof.suspects[Property.IN_BOUNDS] = kept


def _judge(proof: Proof, name: Property, replayer: Replayer, late: bool) -> Answer:
    found = sorted(proof.suspects.get(name, []), key=lambda s: -s.standing)
    open_ones = [s for s in found if s.standing > Standing.EXCUSED]
    sized = proof.entry.run.kernel.track == "cutile"
    for suspect in open_ones:
        if not _may_refute(suspect, kernel_sized=sized):
            continue
        seen = replayer.replay(suspect)
        if seen is not None:
            proof.refuted.append(Refuted(suspect, seen))
    if any(r.suspect.property is name for r in proof.refuted):
        return Answer(Verdict.REFUTED, reason=_refutation(proof, name))
    gap = next((g for g in proof.entry.run.gaps if name in g.properties), None)
    if gap is not None:
        return Answer(Verdict.UNKNOWN, reason=f"line {gap.node.span.line}: {gap.reason}")
    if open_ones:
        worst = open_ones[0]
        reason = worst.reason or _unsure(worst, may_refute=_may_refute(worst, kernel_sized=sized))
        return Answer(Verdict.UNKNOWN, reason=f"line {worst.node.span.line}: {reason}")
    if late:
        return Answer(Verdict.UNKNOWN, reason=OUT_OF_TIME)
    if any(s.standing is Standing.EXCUSED for s in found) or _leans(proof, name):
        alone = name in (Property.BARRIERS_UNIFORM, Property.SHARED_INITIALISED)
        return Answer(Verdict.PROVEN_GIVEN, _needed(proof, name) if alone else texts(proof, name, found))
    if name is Property.RACE_FREE and any(s.standing is Standing.SAME_VALUE for s in found):
        return Answer(Verdict.PROVEN, reason="same-value")
    return _alone(proof, name)


def _unsure(suspect: Suspect, *, may_refute: bool) -> str:
    """Why a suspect without a reason of its own is open."""
    if may_refute or suspect.array is None:
        return "a counterexample did not replay"
    return (
        f"this index of `{suspect.array.name}` may be outside, and no launch condition was found that keeps it inside"
    )


def _needed(proof: Proof, name: Property) -> tuple[str, ...]:
    """The conditions without which the room of barriers, or that of shared memory, finds something."""
    run, given = proof.entry.run, proof.conditions.given
    kept = list(proof.conditions.found)
    try:
        for condition in proof.conditions.found:
            rest = [other for other in kept if other is not condition]
            terms = [*given, *(other.term for other in rest)]
            if name is Property.SHARED_INITIALISED:
                clear = not initialised.suspects(run, terms)
            else:
                clear = all(s.standing <= Standing.SAME_VALUE for s in barriers.suspects(run, Conditions(terms)))
            if clear and rest:
                kept = rest
    except OutOfBudget:
        return texts(proof, name, ())
    return tuple(condition.text for condition in equalities(kept))


def _leans(proof: Proof, name: Property) -> bool:
    """Whether a room found nothing only because it assumed conditions that other properties brought."""
    if not proof.conditions.found or name not in (Property.BARRIERS_UNIFORM, Property.SHARED_INITIALISED):
        return False
    try:
        # A room finds one thing after the other, so its time may be up at any of them.
        without = list(dict(_ROOMS)[name](proof.entry.run, Conditions(proof.conditions.given)))
    except OutOfBudget:
        return True
    return any(s.standing > Standing.SAME_VALUE for s in without)


def _alone(proof: Proof, name: Property) -> Answer:
    """A kernel without thread indices is free of races if it has one thread."""
    entry = proof.entry
    writes = any(a.kind != "read" and a.array.space == "global" for a in entry.run.accesses)
    if name is Property.RACE_FREE and entry.single and writes and proof.launch is None:
        return Answer(Verdict.PROVEN_GIVEN, ("gridDim.x == 1", "blockDim.x == 1"), "no thread index is used")
    return Answer(Verdict.PROVEN)


def _may_refute(suspect: Suspect, *, kernel_sized: bool) -> bool:
    """Whether a replay may refute: not where a stray index wants a relation that a launch may well keep.

    A stray index is the kernel's fault if a launch shows all that it depends on, if the guard compares with this very
    extent, or if the index goes below zero without help from a scalar. The grid of a tile kernel fits its arrays
    (`kernel_sized`), so there the guard says nothing.
    """
    if not suspect.replayable:
        return False
    check, guard, question = suspect.check, suspect.guard, suspect.question
    if suspect.property is not Property.IN_BOUNDS or check is None or guard is None or question is None:
        return True
    if not any(s.taint is Taint.INPUT for s in question.first):
        return True
    if check.length.symbols & guard.symbols and not kernel_sized:
        return True
    scalars = {s for s in check.position.symbols if s.taint is Taint.INPUT and not s.name.startswith(("block", "grid"))}
    return not scalars and suspect.model is not None and _below_zero(check.position, suspect.model)


def _below_zero(position: Term, model: Model) -> bool:
    try:
        return evaluate(position, model) < 0
    except (KeyError, ZeroDivisionError):
        return False


def _refutation(proof: Proof, name: Property) -> str:
    first = next(r for r in proof.refuted if r.suspect.property is name)
    lines = ", ".join(str(line) for line in dict.fromkeys(first.seen.fault.lines))
    return f"lines {lines}" if "," in lines else f"line {lines}"
