"""What a room of the prover hands over: a suspect that the solver could not clear, and what came of it.

The rooms (races, bounds, barriers, initialised) find suspects. `conditions.py` may excuse one by a launch condition,
`witness.py` turns its model into a launch, and only the replay of that launch makes it a refutation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from tilecheck.ir.kernel import Node
from tilecheck.symbolic.smt_nodes import Symbol, Taint, Term
from tilecheck.symbolic.smt_solver import Model
from tilecheck.symbolic.smt_symbols import closure
from tilecheck.symbolic.smt_terms import conjuncts
from tilecheck.verify.condition import Condition
from tilecheck.verify.pairs import Mode, Question
from tilecheck.verify.run import Run
from tilecheck.verify.values import UNREAD, Access, Array, Check
from tilecheck.verify.verdict import Property

# Symbols that stand for no variable of the source.
_MADE_UP = frozenset({"alive", "element", "extent", "item", "old", "rounds", "stayed", "truth", "value", "vote"})


class Standing(IntEnum):
    """From best to worst; the worst suspect of a property decides its verdict."""

    SAME_VALUE = 1
    EXCUSED = 2
    UNKNOWN = 3
    DATA = 4
    LAUNCH = 5


@dataclass(slots=True)
class Suspect:
    """A violation that the solver thinks possible. LAUNCH: whatever the arrays hold; DATA: for some contents.

    `replayable` is off where it rests on a value that a replay would have to guess, such as a mask.
    """

    property: Property
    rule: str
    standing: Standing
    node: Node
    reason: str
    array: Array | None = None
    first: Access | None = None
    second: Access | None = None
    mode: Mode | None = None
    question: Question | None = None
    model: Model | None = None
    guard: Term | None = None
    check: Check | None = None
    word: str = ""
    replayable: bool = True
    conditions: tuple[str, ...] = ()


class Excuses(Protocol):
    """What excuses suspects: the launch conditions found so far, and the search for more."""

    @property
    def terms(self) -> list[Term]:
        """The conditions, to be assumed."""

    def try_on(self, run: Run, suspect: Suspect) -> None:
        """Look for a condition that excuses `suspect`; if there is one, assume it from now on and say so in it."""

    def excuse(self, suspect: Suspect, conditions: Sequence[Condition]) -> None:
        """Assume `conditions` from now on, because they excuse `suspect`; none excuse nothing."""

    def settle(self, run: Run, suspect: Suspect, formulas: Sequence[Term]) -> None:
        """Say in `suspect`, whose `formulas` have no solution under the conditions found, those that are needed."""


def data_symbols(terms: Sequence[Term], taint: Taint = Taint.DATA) -> set[Symbol]:
    """The symbols of `taint` that the terms depend on."""
    return {s for s in closure(terms) if s.taint is taint}


def positions(accesses: Sequence[Access]) -> list[Term]:
    """The indices of some accesses."""
    return [term for access in accesses for term in access.index]


def sources(terms: Sequence[Term]) -> tuple[str, ...]:
    """The arrays that the terms depend on, by name, the first met first."""
    loads = (symbol.applied.function for symbol in closure(terms) if symbol.applied is not None)
    names = (load.removeprefix("load ") for load in loads if load.startswith("load "))
    return tuple(dict.fromkeys(name.partition(" at ")[0].partition(".")[0] for name in names))


def own_name(name: str) -> str:
    """A variable as its source calls it: `i` for the `put#2.i` of an inlined helper, `TABLE` for a global `::TABLE`."""
    return name.rpartition(".")[2].removeprefix("::")


def named(arrays: Sequence[str]) -> str:
    """Arrays in words."""
    return " and ".join(f"`{own_name(name)}`" for name in arrays) or "an array"


def _lost(symbols: Iterable[Symbol]) -> str:
    """Which values the walk lost: why, if it is known, else their names in the source."""
    labels = sorted({symbol.name.split("!")[0] for symbol in symbols})
    for label in labels:
        if label.startswith(UNREAD):
            return f"it rests on what is not read: {label.removeprefix(UNREAD)}"
    names = list(dict.fromkeys(own_name(label) for label in labels if label not in _MADE_UP))
    if not names:
        return "the rounds of a loop could not be followed" if "rounds" in labels else "a value could not be followed"
    return f"the values of {', '.join(f'`{name}`' for name in names[:4])} could not be followed"


def classify(run: Run, accesses: Sequence[Access], question: Question) -> tuple[Standing, str]:
    """How far a possible violation depends on array contents or on what the walk lost."""
    taints = question.taints()
    if Taint.HAVOC in taints:
        return Standing.UNKNOWN, _lost(s for s in (*question.first, *question.second) if s.taint is Taint.HAVOC)
    if Taint.DATA not in taints:
        return Standing.LAUNCH, ""
    by_data = [bool(data_symbols(access.index)) for access in accesses]
    if any(by_data):
        if len(accesses) == 2 and by_data[0] != by_data[1]:
            return Standing.DATA, "a data-dependent index against a fixed one"
        if len(accesses) == 2 and any(access.update or _asks_itself(access) for access in accesses):
            return Standing.DATA, "a read-modify-write at a data-dependent index"
        reason = f"the index of `{accesses[0].array.name}` is taken from {named(sources(positions(accesses)))}"
        if all(_spoken_of(run, access.index) for access in accesses):
            return Standing.DATA, f"{reason}, and what is required of its elements allows it"
        return Standing.UNKNOWN, reason
    if any(_range_from_data(access) for access in accesses):
        where = named(sources([*positions(accesses), *(access.guard for access in accesses)]))
        return Standing.UNKNOWN, f"the range of the index is taken from {where}"
    if not any(_is_memory(symbol) for symbol in (*question.first, *question.second)):
        return Standing.DATA, "the condition depends on a floating-point value"
    return Standing.DATA, "the condition depends on array contents"


def _spoken_of(run: Run, index: Sequence[Term]) -> bool:
    """Whether `requires` says something of the elements of every array that an index is taken from: what they may be is
    stated then, and a launch with such elements would be accepted.
    """
    applied = [symbol.applied for symbol in data_symbols(index)]
    known = [run.known.get(load.function) if load is not None else None for load in applied]
    return all(each is not None and each.required for each in known)


def _asks_itself(access: Access) -> bool:
    """Whether a write depends on what stood there: `if d < a[k]: a[k] = d`, done by several threads, loses values."""
    if access.kind != "write":
        return False
    loads = (s.applied for s in closure([access.guard]) if s.applied is not None)
    start = f"load {access.array.name} at "
    return any(load.function.startswith(start) and load.arguments == access.index for load in loads)


def _is_memory(symbol: Symbol) -> bool:
    """Whether a symbol stands for what memory held or what other threads said, not for arithmetic alone."""
    if symbol.taint is not Taint.DATA or symbol.boolean:
        return False
    return symbol.applied is None or symbol.applied.function.startswith("load ")


def _range_from_data(access: Access) -> bool:
    """Whether an index variable is bounded by a loaded value, as in a loop over a row of a sparse matrix."""
    indices = {s for t in access.index for s in t.symbols if not s.name.startswith(("threadIdx", "block", "grid"))}
    for part in conjuncts(access.guard):
        data = {s for s in part.symbols if s.taint is Taint.DATA and not s.boolean}
        if data and part.symbols & indices:
            return True
    return any(s.taint is Taint.DATA for i in indices for fact in i.facts for s in fact.symbols)
