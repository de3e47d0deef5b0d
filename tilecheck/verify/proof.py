"""What is known of one kernel under one launch, while it is proved and after.

Invariant: an answer of a property is final only once `leaning.lean` has seen it: what leans on freedom from races is
withdrawn there if that is not shown.

Worked example: `a[i] = b[i + 1]` under `i < a.size` leaves one suspect in bounds, which the condition
`b.size >= a.size + 1` excuses, so that the answer for bounds is proven-given.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tilecheck.checked import Fault
from tilecheck.frontend.launches import Launch
from tilecheck.symbolic.smt_solver import OutOfBudget
from tilecheck.verify.condition import equalities
from tilecheck.verify.conditions import Conditions, strongest
from tilecheck.verify.entry import Entry
from tilecheck.verify.suspects import Suspect
from tilecheck.verify.verdict import Answer, Property, Verdict
from tilecheck.verify.witness import Seen

SHOWN = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)


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


def texts(proof: Proof, name: Property, found: Sequence[Suspect]) -> tuple[str, ...]:
    """The conditions that a property needs, without those that follow from the others."""
    conditions = list(proof.conditions.found)
    if name in (Property.IN_BOUNDS, Property.RACE_FREE):
        wanted = {text for suspect in found for text in suspect.conditions}
        conditions = [condition for condition in conditions if condition.text in wanted]
    with contextlib.suppress(OutOfBudget):
        conditions = list(strongest(proof.entry.run, conditions))
    return tuple(condition.text for condition in equalities(conditions))
