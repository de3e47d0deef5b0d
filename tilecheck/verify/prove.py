"""The prover on one page: walk, ask, excuse, replay.

    kernel, launch ── entry ── statements (walk) ── bounds, races, barriers, initialised ── suspects
                                                                                  │
                         conditions (excused) ── witness (replayed: refuted) ── unknown ── Answer per property

Invariant: `proven` means that no suspect was left, `refuted` that the executor saw it happen, and everything else is
unknown with a reason. A gap of the walk makes the properties it names unknown.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tilecheck.checked import Fault
from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import Kernel, Node, TensorParam
from tilecheck.ir.simt import Barrier, BarrierValue
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_read import evaluate
from tilecheck.symbolic.smt_solver import Model, OutOfBudget, Solver
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.verify import barriers, bounds, initialised, narrowing, overflow, pools, races
from tilecheck.verify.condition import equalities
from tilecheck.verify.conditions import Conditions, full_block, leaves_room, strongest
from tilecheck.verify.counters import falling
from tilecheck.verify.entry import Entry, enter
from tilecheck.verify.rehearsal import settle
from tilecheck.verify.run import Run
from tilecheck.verify.statements import walk_kernel
from tilecheck.verify.suspects import Standing, Suspect
from tilecheck.verify.usage import Usage
from tilecheck.verify.verdict import OUT_OF_TIME, Answer, Property, Verdict
from tilecheck.verify.witness import Replayer, Seen

# The share of a kernel's budget that replays may take.
_REPLAY_SHARE = 0.2


@dataclass(frozen=True)
class Refuted:
    """A suspect that the executor saw happen."""

    suspect: Suspect
    seen: Seen


@dataclass
class Proof:
    """What is known of one kernel under one launch (None: any); the rooms of the properties in `late` saw not all."""

    launch: Launch | None
    entry: Entry
    answers: dict[Property, Answer] = field(default_factory=dict)
    refuted: list[Refuted] = field(default_factory=list)
    suspects: dict[Property, list[Suspect]] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)
    faults: tuple[Fault, ...] = ()
    late: set[Property] = field(default_factory=set)
    # The threads of a run that settled what the solver left open, 0 if there was none.
    rehearsed: int = 0


def prove(kernel: Kernel, usage: Usage, launch: Launch | None, budget: float) -> Proof:
    """Analyse `kernel` for one launch within `budget` seconds."""
    begun = time.process_time()
    proof = _attempt(kernel, usage, launch, budget)
    missed = _missed(proof)
    if missed and proof.answers[Property.RACE_FREE].verdict in _SHOWN:
        left = budget - (time.process_time() - begun)
        again = _attempt(kernel, usage, launch, left, missed).answers[Property.RACE_FREE]
        if again.verdict not in _SHOWN:
            line = min(node.span.line for node in missed)
            again = Answer(Verdict.UNKNOWN, reason=f"line {line}: this barrier orders only the threads that meet it")
        proof.answers[Property.RACE_FREE] = again
    _lean(proof)
    if launch is not None:
        proof.rehearsed = settle(proof.answers, kernel, launch, begun + budget)
    if launch is not None and _shows_elements(kernel, usage, launch):
        _look_at_elements(proof, usage, budget - (time.process_time() - begun), missed)
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
    _lean(again)
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
) -> Proof:
    """Answers to all properties; the barriers in `missed` order nothing. `contents` as in `enter`; of the old values of
    the atomics in `fallen` nothing is said.
    """
    begun = time.process_time()
    solver = Solver(begun + budget * (1 - _REPLAY_SHARE))
    entry = enter(kernel, usage, solver, launch, contents)
    proof = Proof(launch, entry)
    run = entry.run
    run.missed, run.falling = missed, fallen
    try:
        walk_kernel(run, entry.state, kernel)
        more = falling(run, overflow.relevant(run)) if run.counted else frozenset()
        if more:
            left = budget - (time.process_time() - begun)
            return _attempt(kernel, usage, launch, left, missed, contents=contents, fallen=fallen | more)
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
        return Answer(Verdict.PROVEN_GIVEN, _needed(proof, name) if alone else _texts(proof, name, found))
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


def _texts(proof: Proof, name: Property, found: Sequence[Suspect]) -> tuple[str, ...]:
    """The conditions that a property needs, without those that follow from the others."""
    conditions = list(proof.conditions.found)
    if name in (Property.IN_BOUNDS, Property.RACE_FREE):
        wanted = {text for suspect in found for text in suspect.conditions}
        conditions = [condition for condition in conditions if condition.text in wanted]
    with contextlib.suppress(OutOfBudget):
        conditions = list(strongest(proof.entry.run, conditions))
    return tuple(condition.text for condition in equalities(conditions))


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
        return _texts(proof, name, ())
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


_SHOWN = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)


def _lean(proof: Proof) -> None:
    """What leans on freedom from races: withdrawn where that is not shown, given its conditions where it has some."""
    race = proof.answers[Property.RACE_FREE]
    if proof.entry.run.leaned and proof.answers[Property.IN_BOUNDS].verdict in _SHOWN:
        _rest_on_told(proof, race)
    if race.verdict is Verdict.PROVEN_GIVEN:
        for name in (Property.BARRIERS_UNIFORM, Property.SHARED_INITIALISED):
            _inherit(proof, name, race)
    if race.verdict in _SHOWN:
        return
    suspects = proof.suspects.get(Property.RACE_FREE, [])
    excused = {s.array.name for s in suspects if s.standing is Standing.EXCUSED and s.array is not None}
    doubtful = {s.array for s in suspects if s.standing > Standing.EXCUSED}
    doubtful |= {g.array for g in proof.entry.run.gaps if Property.RACE_FREE in g.properties}
    names = {array.name for array in doubtful if array is not None}
    # A room that ran out of time leaves no suspects, and says nothing of any array.
    everything = None in doubtful or not doubtful
    given = Answer(Verdict.PROVEN_GIVEN, _texts(proof, Property.SHARED_INITIALISED, ()))
    barrier = proof.answers[Property.BARRIERS_UNIFORM].verdict
    meets = bool(proof.entry.run.barriers or proof.entry.run.warp_ops)
    if barrier in _SHOWN and meets and (everything or _reads(proof, names)):
        reason = "a barrier's condition reads an array that may be raced on"
        proof.answers[Property.BARRIERS_UNIFORM] = Answer(Verdict.UNKNOWN, reason=reason)
    elif barrier is Verdict.PROVEN and _reads(proof, excused):
        proof.answers[Property.BARRIERS_UNIFORM] = given
    initial = proof.answers[Property.SHARED_INITIALISED].verdict
    shared = {a.name for a in proof.entry.run.arrays.values() if a.space == "shared"}
    if initial in _SHOWN and ((everything and shared) or shared & names):
        reason = "the order of writes and reads is not shown while there may be a race"
        proof.answers[Property.SHARED_INITIALISED] = Answer(Verdict.UNKNOWN, reason=reason)
    elif initial is Verdict.PROVEN and shared & excused:
        proof.answers[Property.SHARED_INITIALISED] = given


def _rest_on_told(proof: Proof, race: Answer) -> None:
    """Indices that come from what one thread told its block are as good as the order of telling and reading."""
    shown = race.verdict in _SHOWN and proof.answers[Property.BARRIERS_UNIFORM].verdict in _SHOWN
    if not shown:
        reason = "an index is read from shared memory that may be raced on"
        proof.answers[Property.IN_BOUNDS] = Answer(Verdict.UNKNOWN, reason=reason)
    elif race.conditions:
        answer = proof.answers[Property.IN_BOUNDS]
        conditions = tuple(dict.fromkeys((*answer.conditions, *race.conditions)))
        proof.answers[Property.IN_BOUNDS] = Answer(Verdict.PROVEN_GIVEN, conditions, answer.reason)


def _inherit(proof: Proof, name: Property, race: Answer) -> None:
    """What leans on freedom from races holds under the conditions of that proof."""
    shared = {a.name for a in proof.entry.run.arrays.values() if a.space == "shared"}
    everything = {a.name for a in proof.entry.run.arrays.values()}
    leans = bool(shared) if name is Property.SHARED_INITIALISED else _reads(proof, everything)
    answer = proof.answers[name]
    if leans and answer.verdict in _SHOWN:
        conditions = tuple(dict.fromkeys((*answer.conditions, *race.conditions)))
        proof.answers[name] = Answer(Verdict.PROVEN_GIVEN, conditions, answer.reason)


def _reads(proof: Proof, names: set[str]) -> bool:
    """Whether a barrier's condition reads one of the arrays as if the block agreed on it.

    What a loop carries, and who is still in it, no longer shows where it comes from: it may come from any array read.
    """
    run = proof.entry.run
    symbols = {s for point in run.barriers for s in closure([point.guard])}
    carried = any(s.applied is None and s.taint in (Taint.DATA, Taint.HAVOC) for s in symbols)
    if carried and any(a.kind != "write" and a.array.name in names for a in run.accesses):
        return True
    for applied in (s.applied for s in symbols):
        if applied is not None and applied.level is Level.BLOCK and applied.function.startswith("load "):
            name = applied.function.removeprefix("load ").partition(" at ")[0].partition(".")[0]
            if name in names:
                return True
    return False
