"""Allocations: the bytes behind tensors, and how many of them are alive.

An allocation lives as long as something refers to it: a tensor, a queued kernel, a graph. It keeps the other library's
owner alive when the bytes are borrowed. Nothing counts up and down: `allocated()` looks at what is alive, so it cannot
drift, and it returns to zero when the program has let go of everything.

Borrowed bytes share one ledger, whose regions are absolute addresses, because two imports may overlap in any way. An
import of our own bytes (a tensor lent out and taken back) goes to the allocation it came from.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from tilecheck_runtime.backends import Backend, Buffer
from tilecheck_runtime.ledger import LOCK, Ledger
from tilecheck_runtime.phase import refuse_memory

FOREIGN = Ledger()

_alive: weakref.WeakSet[Allocation] = weakref.WeakSet()


class Allocation:
    """`nbytes` bytes of one device and the ledger over them.

    `base` is what offsets of regions count from: 0 for our own bytes, the address for borrowed ones. `owner` is the
    foreign object that keeps borrowed bytes alive; None for our own.
    """

    __slots__ = ("__weakref__", "backend", "base", "buffer", "handles", "ledger", "owner")

    def __init__(self, backend: Backend, buffer: Buffer, owner: object = None) -> None:
        self.backend = backend
        self.buffer = buffer
        self.owner = owner
        self.ledger = Ledger() if owner is None else FOREIGN
        self.base = 0 if owner is None else buffer.address
        # The live tensors on these bytes, for moves.
        self.handles: weakref.WeakSet[object] = weakref.WeakSet()
        with LOCK:
            _alive.add(self)

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
        for allocation in _alive:
            start = allocation.buffer.address
            if allocation.own and start <= address and address + nbytes <= start + allocation.buffer.nbytes:
                return allocation
    return None
