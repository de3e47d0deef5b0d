"""Allocations: the bytes behind tensors, and how many of them are alive.

An allocation lives as long as something refers to it: a tensor, a queued kernel, a graph. It keeps the other library's
owner alive when the bytes are borrowed. Nothing counts up and down: `allocated()` looks at what is alive, so it cannot
drift, and it returns to zero when the program has let go of everything.

Borrowed bytes share one ledger, whose regions are absolute addresses, because two imports may overlap in any way. An
import of our own bytes (a tensor lent out and taken back) goes to the allocation it came from.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right, insort
from dataclasses import dataclass

from tilecheck_runtime.backends import Backend, Buffer
from tilecheck_runtime.ledger import LOCK, Ledger
from tilecheck_runtime.phase import refuse_memory

FOREIGN = Ledger()

_alive: weakref.WeakSet[Allocation] = weakref.WeakSet()
# What is gone is looked for when there is this much more than twice what was found.
SWEEP = 16


class _Own:
    """Our own allocations by address. Those that are alive never overlap, so the one that has an address is the last one that
    begins before it. The lock of the ledgers is held.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._there: dict[int, weakref.ref[Allocation]] = {}
        self._sweep_at = SWEEP

    def add(self, allocation: Allocation) -> None:
        """Enter one."""
        start = allocation.buffer.address
        if start not in self._there:
            if len(self._starts) >= self._sweep_at:
                self._there = {at: ref for at, ref in self._there.items() if ref() is not None}
                self._starts = sorted(self._there)
                self._sweep_at = 2 * len(self._starts) + SWEEP
            insort(self._starts, start)
        self._there[start] = weakref.ref(allocation)

    def before(self, address: int) -> Allocation | None:
        """The last one that begins at `address` or before it."""
        at = bisect_right(self._starts, address)
        while at:
            at -= 1
            found = self._there[self._starts[at]]()
            if found is not None:
                return found
        return None


_own = _Own()


class Allocation:
    """`nbytes` bytes of one device and the ledger over them.

    `base` is what offsets of regions count from: 0 for our own bytes, the address for borrowed ones. `owner` is the
    foreign object that keeps borrowed bytes alive; None for our own.
    """

    __slots__ = ("__weakref__", "_handles", "_sweep_at", "backend", "base", "buffer", "ledger", "owner")

    def __init__(self, backend: Backend, buffer: Buffer, owner: object = None) -> None:
        self.backend = backend
        self.buffer = buffer
        self.owner = owner
        self.ledger = Ledger() if owner is None else FOREIGN
        self.base = 0 if owner is None else buffer.address
        # The tensors on these bytes, for moves; those that are gone are missed now and then.
        self._handles: list[weakref.ref[object]] = []
        self._sweep_at = SWEEP
        with LOCK:
            _alive.add(self)
            if owner is None:
                _own.add(self)

    def enter(self, handle: object) -> None:
        """Know of a tensor on these bytes for as long as it lives."""
        with LOCK:
            self._handles.append(weakref.ref(handle))
            if len(self._handles) > self._sweep_at:
                self._handles = [ref for ref in self._handles if ref() is not None]
                self._sweep_at = 2 * len(self._handles) + SWEEP

    def handles(self) -> list[object]:
        """The live tensors on these bytes."""
        with LOCK:
            return [handle for ref in self._handles if (handle := ref()) is not None]

    @property
    def own(self) -> bool:
        """Whether the bytes are ours to free."""
        return self.owner is None

    def __del__(self) -> None:
        if self.own:
            self.backend.free(self.buffer)


@dataclass(frozen=True, slots=True)
class Allocated:
    """What is alive now: our own allocations and their bytes, and borrowed ones."""

    count: int
    nbytes: int
    borrowed: int


def allocated() -> Allocated:
    """How much device memory the program still holds; bytes as asked for, before alignment."""
    with LOCK:
        alive = list(_alive)
    own = [a for a in alive if a.own]
    return Allocated(len(own), sum(a.buffer.nbytes for a in own), len(alive) - len(own))


def allocate(backend: Backend, nbytes: int) -> Allocation:
    """Fresh bytes, not initialised. Raises OpError (capture) inside a graph scope."""
    refuse_memory()
    return Allocation(backend, backend.allocate(nbytes))


def covering(address: int, nbytes: int) -> Allocation | None:
    """The allocation of our own that these bytes lie in, if any."""
    with LOCK:
        found = _own.before(address)
    if found is not None and address + nbytes <= found.buffer.address + found.buffer.nbytes:
        return found
    return None
