"""What leans on freedom from races, and on barriers that all threads meet: other properties, where those are not shown or
have conditions.

A barrier that all threads meet because they read one flag, shared memory that was written before it is read, an index
that one thread told its block: each is as good as the order of those writes and reads.

Invariant: only answers that are proven or proven-given change, and only to less.

Worked example: `if s[0] > 0: cuda.syncthreads()` is uniform if every thread reads one `s[0]`; with a race on `s` open the
barrier is unknown, whatever the room of barriers found.
"""

from __future__ import annotations

from tilecheck.symbolic.smt_nodes import Level, Taint
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.verify.proof import SHOWN, Proof, texts
from tilecheck.verify.suspects import Standing
from tilecheck.verify.verdict import Answer, Property, Verdict


def lean(proof: Proof) -> None:
    """What leans on freedom from races: withdrawn where that is not shown, given its conditions where it has some."""
    race = proof.answers[Property.RACE_FREE]
    if proof.entry.run.leaned and proof.answers[Property.IN_BOUNDS].verdict in SHOWN:
        _rest_on_told(proof, race)
    _rest_on_barriers(proof)
    if race.verdict is Verdict.PROVEN_GIVEN:
        for name in (Property.BARRIERS_UNIFORM, Property.SHARED_INITIALISED):
            _inherit(proof, name, race)
    if race.verdict in SHOWN:
        return
    suspects = proof.suspects.get(Property.RACE_FREE, [])
    excused = {s.array.name for s in suspects if s.standing is Standing.EXCUSED and s.array is not None}
    doubtful = {s.array for s in suspects if s.standing > Standing.EXCUSED}
    doubtful |= {g.array for g in proof.entry.run.gaps if Property.RACE_FREE in g.properties}
    names = {array.name for array in doubtful if array is not None}
    # A room that ran out of time leaves no suspects, and says nothing of any array.
    everything = None in doubtful or not doubtful
    given = Answer(Verdict.PROVEN_GIVEN, texts(proof, Property.SHARED_INITIALISED, ()))
    barrier = proof.answers[Property.BARRIERS_UNIFORM].verdict
    meets = bool(proof.entry.run.barriers or proof.entry.run.warp_ops)
    if barrier in SHOWN and meets and (everything or _reads(proof, names)):
        reason = "a barrier's condition reads an array that may be raced on"
        proof.answers[Property.BARRIERS_UNIFORM] = Answer(Verdict.UNKNOWN, reason=reason)
    elif barrier is Verdict.PROVEN and _reads(proof, excused):
        proof.answers[Property.BARRIERS_UNIFORM] = given
    initial = proof.answers[Property.SHARED_INITIALISED].verdict
    shared = {a.name for a in proof.entry.run.arrays.values() if a.space == "shared"}
    if initial in SHOWN and ((everything and shared) or shared & names):
        reason = "the order of writes and reads is not shown while there may be a race"
        proof.answers[Property.SHARED_INITIALISED] = Answer(Verdict.UNKNOWN, reason=reason)
    elif initial is Verdict.PROVEN and shared & excused:
        proof.answers[Property.SHARED_INITIALISED] = given


def _rest_on_barriers(proof: Proof) -> None:
    """What is written before a barrier is there behind it only if all threads meet."""
    barrier, initial = proof.answers[Property.BARRIERS_UNIFORM], proof.answers[Property.SHARED_INITIALISED]
    if initial.verdict not in SHOWN or not any(a.space == "shared" for a in proof.entry.run.arrays.values()):
        return
    if barrier.verdict not in SHOWN:
        reason = "the order of writes and reads is not shown while some threads may miss a barrier"
        proof.answers[Property.SHARED_INITIALISED] = Answer(Verdict.UNKNOWN, reason=reason)
    elif barrier.conditions:
        conditions = tuple(dict.fromkeys((*initial.conditions, *barrier.conditions)))
        proof.answers[Property.SHARED_INITIALISED] = Answer(Verdict.PROVEN_GIVEN, conditions, initial.reason)


def _rest_on_told(proof: Proof, race: Answer) -> None:
    """Indices that come from what one thread told its block are as good as the order of telling and reading."""
    shown = race.verdict in SHOWN and proof.answers[Property.BARRIERS_UNIFORM].verdict in SHOWN
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
    if leans and answer.verdict in SHOWN:
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
