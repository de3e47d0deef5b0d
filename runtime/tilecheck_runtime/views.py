"""Views: borrows of a part of a tensor, or of all of it in another shape.

A view has an idle shared loan. What is asked for again with the same words (`z[i]`, `z[:n]`, `z.reshape(-1)` in a loop) is
one borrow that its handles share, one after the other, from the second time on: a `Seen` keeps the elements, the loan and what
the partitions of the view share (`partition.Slot`), so that a launch on it is the launch that was there before. Only a handle that is gone
hands its borrow on; two that live side by side have a loan each, since an exclusive borrow through one ends the other.

As long as a `Seen` stands, a new handle would end nothing and be refused by nothing but ops that are pending, so it is made
without looking at the ledger. A borrow from which something else was derived than partitions is not handed on: what was
derived tells its ancestors from others by the loan.

    for i in range(n):
        step(z[i].partition(128), x).run(stream)         # from the third round over the rows on, one call of the driver
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from types import NoneType
from typing import TYPE_CHECKING, Any

from tilecheck_runtime import layout as lay
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.grants import borrow, grant, hold
from tilecheck_runtime.ledger import LOCK, OPEN, Standing
from tilecheck_runtime.loans import Access, Loan, State
from tilecheck_runtime.sites import Site, here
from tilecheck_runtime.unique import serial

if TYPE_CHECKING:
    from tilecheck_runtime.partition import Slot
    from tilecheck_runtime.tensor import Tensor

# Views that a tensor remembers, and how many handles of one view may live at once and still be remembered.
VIEWS, AT_ONCE = 256, 2


class Seen(Standing):
    """One borrow of a view. `slot` is what the partitions of its handles share; `spoiled` once something else was derived."""

    def __init__(self, elements: Elements, loan: Loan) -> None:
        super().__init__(None, loan)
        self._serial = serial()
        self.elements = elements
        self.loan = loan
        self.slot: Slot | None = None
        self.spoiled = False
        self._handles: list[Callable[[], object]] = []
        loan.holders = self._handles

    @property
    def again(self) -> bool:
        """Whether a new handle may have the borrow."""
        return (
            self.loan.ended is None
            and not self.spoiled
            and (self.slot is None or not self.slot.spoiled)
            and self.loan.vacant
        )

    def handle(self, kind: type[Tensor], site: Site | None = None) -> Tensor:
        """A new handle, a tensor, taken at `site` or, without one, here; the lock of the ledgers is held."""
        tensor = kind(self.elements, self.loan)
        tensor._seen = self
        tensor._slot = self.slot
        self._handles[:] = (weakref.ref(tensor),)
        self.loan.site = site or here()
        return tensor


def asked_for(key: Any) -> Hashable | None:
    """What tells a subscript of plain ints and slices from others; None for any other one."""
    kind = key.__class__
    if kind is int:
        return (key,)
    if kind is slice:
        words = (slice, key.start, key.stop, key.step)
        return words if all(word.__class__ in _PLAIN for word in words[1:]) else None
    if kind is tuple:
        parts = tuple(map(asked_for, key))
        return None if None in parts else parts
    return None


_PLAIN = frozenset({int, NoneType})


def known(tensor: Tensor, asked: Hashable | None) -> Tensor | None:
    """The view of `tensor` that was asked for with these words before, if it can be had without looking at the ledger."""
    views, loan = tensor._views, tensor._loan
    if asked is None or views is None or tensor._moved is not None or OPEN:
        return None
    # What ended this one may have left the bytes of the view alone.
    if loan is not None and loan.ended is not None:
        return None
    for seen in views.get(asked, ()):
        if seen.stands:
            with LOCK:
                if seen.stands and not OPEN and seen.again:
                    return seen.handle(tensor.__class__)
    return None


def take(tensor: Tensor, elements: Elements, asked: Hashable | None = None) -> Tensor:
    """A view of `tensor` that has `elements`. Raises BorrowError while something else has it exclusively."""
    tensor._usable()
    if elements.meta:
        return tensor.__class__(elements, None)
    spoil(tensor)
    if asked is None or not _asked_again(tensor, asked):
        return tensor.__class__(elements, borrow(elements, Access.SHARE, tensor._loan, "a view"))
    with LOCK:
        seen, site = _remembered(tensor, asked), None
        if seen is None:
            seen = Seen(elements, borrow(elements, Access.SHARE, tensor._loan, "a view"))
            site = seen.loan.site
            _remember(tensor, asked, seen)
        else:
            grant((elements.request(Access.SHARE, tensor._loan),), "a view")
        seen.stands = True
        elements.memory.ledger.stand(elements.region, seen)
        return seen.handle(tensor.__class__, site)


def halves(tensor: Tensor, at: int, axis: int) -> tuple[Tensor, Tensor]:
    """`tensor.split(at, axis)`."""
    (axis,) = lay.ints("split", (axis,))
    if not -tensor.ndim <= axis < tensor.ndim:
        raise UsageError(f"axis {axis} of a tensor with {tensor.ndim} axes", rule="shape-mismatch")
    axis %= tensor.ndim
    (place,) = lay.ints("split", (at,))
    if not 0 < place < tensor.shape[axis]:
        raise UsageError(
            f"`split({place}, axis={axis})` leaves one side empty, the extent is {tensor.shape[axis]}",
            f"split between 1 and {tensor.shape[axis] - 1}",
            rule="out-of-bounds",
        )
    tensor._writable()
    tensor._usable()
    before = (slice(None),) * axis
    ranges = (slice(0, place), slice(place, tensor.shape[axis]))
    low, high = (tensor._elements.at(tensor._select((*before, piece))) for piece in ranges)
    if tensor._elements.meta:
        return tensor.__class__(low, None), tensor.__class__(high, None)
    spoil(tensor)
    requests = [piece.request(Access.EXCLUDE, tensor._loan) for piece in (low, high)]
    loans = hold(requests, "a split", State.IDLE)
    return tensor.__class__(low, loans[0]), tensor.__class__(high, loans[1])


def spoil(tensor: Tensor) -> None:
    """Something else than a partition is derived from the borrow of this handle."""
    if tensor._seen is not None:
        tensor._seen.spoiled = True


def _asked_again(tensor: Tensor, asked: Hashable) -> bool:
    """Whether the view was asked for before; it has been now."""
    views = tensor._views
    if views is None:
        views = tensor._views = {}
    elif asked in views:
        return True
    with LOCK:
        while len(views) >= VIEWS:
            views.pop(next(iter(views)))
        views[asked] = ()
    return False


def _remembered(tensor: Tensor, asked: Hashable) -> Seen | None:
    return next((seen for seen in (tensor._views or {}).get(asked, ()) if seen.again), None)


def _remember(tensor: Tensor, asked: Hashable, seen: Seen) -> None:
    if tensor._views is None:
        tensor._views = {}
    views = tensor._views
    there = [other for other in views.pop(asked, ()) if other.loan.ended is None and not other.spoiled]
    while len(views) >= VIEWS:
        views.pop(next(iter(views)))
    views[asked] = (*there[1 - AT_ONCE :], seen)
