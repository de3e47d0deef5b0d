"""The run-time borrow rules as a plain model: sets of elements, no regions, no weak references, no locks.

It answers one question per access, `refusal`: which rules the access breaks (none: it is granted). The sentences are
those of the borrow rules, written again from the rules and not from the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

Rules = frozenset[str]
FINE: Rules = frozenset()
CONFLICT: Rules = frozenset({"borrow-conflict"})
IN_FLIGHT: Rules = frozenset({"use-in-flight"})
MOVED: Rules = frozenset({"use-after-move"})

_numbers = count()


@dataclass(eq=False)
class Loan:
    """`elements` are borrowed; `parents` are the loans it was taken through."""

    allocation: int
    elements: frozenset[int]
    exclusive: bool
    parents: tuple[Loan, ...] = ()
    state: str = "idle"  # idle, built, lent, running, captured, over
    invalid: bool = False


@dataclass(eq=False)
class Handle:
    """A tensor or a partition. Alive while something refers to it."""

    allocation: int
    elements: frozenset[int]
    loan: Loan | None
    kind: str = "tensor"  # tensor, partition, owned
    moved: bool = False
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def through(self) -> tuple[Loan, ...]:
        """The loans that an access through this handle goes through."""
        return () if self.loan is None else (self.loan, *self.loan.parents)


@dataclass
class Model:
    """All loans and handles that exist."""

    loans: list[Loan] = field(default_factory=list)

    def refusal(
        self, handle: Handle, access: str, exempt: tuple[Loan, ...] = (), elements: frozenset[int] | None = None
    ) -> Rules:
        """The rules that `access` (read, write, share, exclude, move) to elements through `handle` breaks."""
        if handle.moved:
            return MOVED
        if handle.loan is not None and handle.loan.invalid:
            return CONFLICT
        broken = FINE
        for loan in self.loans:
            shares = loan.allocation == handle.allocation and loan.elements & (elements or handle.elements)
            if shares and loan not in exempt:
                broken |= _conflict(loan, access)
        return broken

    def exclude(self, handle: Handle) -> None:
        """An exclusive access through `handle`: other idle borrows of its elements are no longer valid."""
        for loan in self.loans:
            shares = loan.allocation == handle.allocation and loan.elements & handle.elements
            if loan.state == "idle" and shares and loan not in handle.through:
                loan.invalid = True

    def lend(self, handle: Handle, elements: frozenset[int], exclusive: bool, state: str = "idle") -> Loan:
        """Grant a borrow through `handle`."""
        loan = Loan(handle.allocation, elements, exclusive, handle.through, state)
        self.loans.append(loan)
        return loan


def _conflict(loan: Loan, access: str) -> Rules:
    writes = access in ("write", "exclude", "move")
    if loan.state in ("built", "lent"):
        # An op that has not run, or another library: exclusive and anything else, or shared and anything that writes.
        return CONFLICT if loan.exclusive or writes else FINE
    if loan.state == "running":
        # The host keeps off; ops are ordered behind it.
        host = access in ("read", "write", "move")
        return IN_FLIGHT if host and (loan.exclusive or writes) else FINE
    if loan.state == "captured":
        # Never moved; what the graph writes is not taken over.
        if access == "move":
            return IN_FLIGHT
        return CONFLICT if loan.exclusive and writes else FINE
    return FINE
