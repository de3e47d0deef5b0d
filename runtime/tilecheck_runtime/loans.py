"""Loans: borrows of byte regions, what state they are in, and which accesses they forbid.

`CONFLICTS` is the whole table of the run-time borrow rules; the states are told in `ledger.py`. A loan belongs to its holder
(view, partition, op, graph) and ends with it. Ancestors are kept as numbers, never as references, so that a dead owner keeps
nothing alive.

    loan = Loan(ledger, region, True, "a partition", here())
    CONFLICTS[(State.BUILT, True)][Access.READ]         # "borrow-conflict"
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from tilecheck_runtime.errors import BorrowError
from tilecheck_runtime.regions import Region
from tilecheck_runtime.sites import Site, subject

if TYPE_CHECKING:
    from tilecheck_runtime.backends import Event
    from tilecheck_runtime.ledger import Ledger

_numbers = itertools.count(1)
UNRELATED: frozenset[int] = frozenset()


class State(Enum):
    # Members are looked up at every access, and exist once.
    __hash__ = object.__hash__

    IDLE = "idle"
    BUILT = "built"
    RUNNING = "running"
    RECORDED = "recorded"
    CAPTURED = "captured"
    REPEATING = "repeating"
    LENT = "lent"
    ENDED = "ended"


class Access(Enum):
    """What somebody is about to do; the value completes `cannot ...` around the tensor's name."""

    __hash__ = object.__hash__

    READ = "read {}"  # by the host, now
    WRITE = "write {}"  # by the host, now
    SHARE = "share {}"  # a view, or an op that only reads
    EXCLUDE = "borrow {} exclusively"  # a partition, or an op that writes
    MOVE = "move {}"  # given away for good


# States in which a loan is no longer one of those that stand still.
PASSED = frozenset({State.RUNNING, State.ENDED})
# Ops may come after running work, by an event; only the host has to look at it.
BY_HOST = frozenset({Access.READ, Access.WRITE, Access.MOVE})

CONFLICT, IN_FLIGHT = "borrow-conflict", "use-in-flight"

# (state, exclusive) of somebody else's loan on the same bytes -> the rule that each access breaks.
CONFLICTS: dict[tuple[State, bool], dict[Access, str]] = {
    (State.BUILT, False): {Access.WRITE: CONFLICT, Access.EXCLUDE: CONFLICT, Access.MOVE: CONFLICT},
    (State.BUILT, True): dict.fromkeys(Access, CONFLICT),
    (State.LENT, False): {Access.WRITE: CONFLICT, Access.EXCLUDE: CONFLICT, Access.MOVE: CONFLICT},
    (State.LENT, True): dict.fromkeys(Access, CONFLICT),
    (State.RUNNING, False): {Access.WRITE: IN_FLIGHT, Access.MOVE: IN_FLIGHT},
    (State.RUNNING, True): {Access.READ: IN_FLIGHT, Access.WRITE: IN_FLIGHT, Access.MOVE: IN_FLIGHT},
    (State.REPEATING, False): {Access.WRITE: IN_FLIGHT, Access.EXCLUDE: IN_FLIGHT, Access.MOVE: IN_FLIGHT},
    (State.REPEATING, True): dict.fromkeys(Access, IN_FLIGHT),
    (State.RECORDED, False): {Access.MOVE: IN_FLIGHT},
    (State.RECORDED, True): {Access.MOVE: IN_FLIGHT},
    (State.CAPTURED, False): {Access.MOVE: IN_FLIGHT},
    (State.CAPTURED, True): {Access.WRITE: CONFLICT, Access.EXCLUDE: CONFLICT, Access.MOVE: IN_FLIGHT},
}
# The accesses that end idle loans on the same bytes, and how their message says it.
VERBS = {Access.EXCLUDE: "borrowed it exclusively", Access.MOVE: "took it over"}
ENDING = frozenset(VERBS)

# What the holder is doing, and the way out.
STORY: dict[State, tuple[str, str]] = {
    State.BUILT: ("built here and not run yet", "run the op first (`sync()`), or drop it"),
    State.LENT: ("made here from this memory and is alive", "drop that array first, or lend a copy"),
    State.RUNNING: ("started here, and nobody has waited for it", "`wait()` for it first"),
    State.REPEATING: ("prepared here, and rounds of it are in flight", "`wait()` for them first"),
    State.RECORDED: ("recorded here", "drop the graph first, or give it a tensor of its own"),
    State.CAPTURED: (
        "captured here, and the graph or the prepared launch is alive",
        "drop that (`del`) first, or give it a tensor of its own",
    ),
}


class Runner(Protocol):
    """An execution, as far as the ledger knows it. Those with one `flow` are on one stream, and cannot fail without the device."""

    @property
    def flow(self) -> object: ...
    @property
    def submitted(self) -> bool:
        """Whether all of its work has been queued."""
        ...

    def event(self) -> Event:
        """The end of all of it, once it was submitted."""
        ...

    def over(self) -> bool:
        """Whether all of it is over. An execution that nobody will wait for then ends its loans."""
        ...


@dataclass(eq=False, slots=True, weakref_slot=True)
class Loan:
    """A borrow of `region`, made at `site` for `holder` (words such as "a partition" or "`saxpy`").

    `lineage` holds the numbers of the loans it was derived from. `ended` says what invalidated it. `owner` is the
    execution or recording that has it once it runs.
    """

    ledger: Ledger
    region: Region
    exclusive: bool
    holder: str
    site: Site
    lineage: frozenset[int] = UNRELATED
    state: State = State.IDLE
    ended: tuple[str, Site] | None = None
    owner: Runner | None = None
    number: int = field(default_factory=_numbers.__next__)
    # Whether the ledger lists it among those that run.
    listed: bool = False
    # Of a loan that handles share one after the other: those that are alive.
    holders: Sequence[Callable[[], object]] | None = None

    @property
    def vacant(self) -> bool:
        """Whether nobody has it and somebody may get it again."""
        return self.holders is not None and all(ref() is None for ref in self.holders)

    @property
    def ancestry(self) -> frozenset[int]:
        """Itself and everything it was derived from."""
        return self.lineage | {self.number}

    def check(self, name: str | None) -> None:
        """Raise BorrowError (borrow-conflict) if something has invalidated it; `name` as in `Request`."""
        if self.ended is not None:
            what, where = self.ended
            raise BorrowError(
                f"{name or subject()} was borrowed at {self.site} and ended when {what} at {where}",
                "take it again after that line, or finish with it before",
                rule=CONFLICT,
                points=(f"{self.site}: borrowed here", f"{where}: {what}"),
            )


class Noted(Runner, Protocol):
    """A launch that was submitted and has no loans before somebody looks (`flights.Flight`)."""

    @property
    def flow(self) -> Numbered: ...
    @property
    def ended(self) -> bool:
        """Whether its borrows have."""
        ...

    def loans(self) -> Sequence[Loan]:
        """Those, running."""
        ...


class Numbered(Protocol):
    """What launches on one stream have in common."""

    @property
    def number(self) -> int:
        """That of the stream."""
        ...


class Request(NamedTuple):
    """One access that is about to happen: `actor` is the loan of the handle it goes through, `name` what to call it, in
    backticks; None is what the running line of the user calls it.

    `execution` exempts loans of the same execution (a chain on one stream is in order by itself); `exempt` names
    further loans, those of the graph that is being replayed, unless rounds of it are in flight.
    """

    ledger: Ledger
    region: Region
    access: Access
    name: str | None = None
    actor: Loan | None = None
    execution: object = None
    exempt: frozenset[int] = frozenset()


class Bytes(Protocol):
    """What an argument is about; `Elements` are."""

    @property
    def region(self) -> Region: ...


# One argument: its bytes, their ledger, whether they are written, and the number and the lineage of the loan of its handle, 0
# without one.
Use: TypeAlias = "tuple[Bytes, Ledger, bool, int, frozenset[int]]"
