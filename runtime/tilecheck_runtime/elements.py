"""A view on an allocation as plain data: which elements, of which dtype, in which memory.

Tensors, partitions and launch arguments all speak about elements; only they know about ownership. A shape-only (meta)
tensor has elements without an allocation: every shape rule applies to it, and nothing can touch its data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilecheck.surface.dtypes import DTypeClass
from tilecheck_runtime.backends import Strided
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.layout import Layout
from tilecheck_runtime.ledger import LOCK
from tilecheck_runtime.loans import Access, Loan, Request
from tilecheck_runtime.memory import Allocation
from tilecheck_runtime.regions import Region
from tilecheck_runtime.unique import serial

# Of an address no more matters to a kernel than what it leaves divided by this.
ALIGNED = 16
# Numbers of kinds that are remembered, since they are quicker to compare than what they stand for.
KINDS = 1 << 14
_kinds: dict[tuple[object, ...], int] = {}


@dataclass(unsafe_hash=True, slots=True)
class Elements:
    """`layout` in `allocation`, elements of `dtype`. `writable` is False for read-only memory of another library.

    Never changed but for what is worked out at the first use, since every launch asks; frozen would take twice as long to
    make.
    """

    allocation: Allocation | None
    layout: Layout
    dtype: DTypeClass
    writable: bool = True
    _address: int | None = field(default=None, init=False, compare=False, repr=False)
    _region: Region | None = field(default=None, init=False, compare=False, repr=False)
    _strided: Strided | None = field(default=None, init=False, compare=False, repr=False)
    _kind: int | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def kind(self) -> int:
        """A number for what a launch is decided by: whether there is data, how its address is aligned, shape, strides and dtype.
        The same number is the same to every launch.
        """
        if self._kind is None:
            layout = self.layout
            said = (self.allocation is None, self.address % ALIGNED, layout.shape, layout.strides, self.dtype.name)
            kind = _kinds.get(said)
            if kind is None:
                with LOCK:
                    if len(_kinds) >= KINDS:
                        _kinds.clear()
                    kind = _kinds.setdefault(said, serial())
            self._kind = kind
        return self._kind

    @property
    def address(self) -> int:
        """Of the first element; of a meta tensor its offset."""
        if self._address is None:
            self._address = self.layout.offset + (0 if self.allocation is None else self.allocation.buffer.address)
        return self._address

    @property
    def meta(self) -> bool:
        """Whether there is a shape only."""
        return self.allocation is None

    @property
    def width(self) -> int:
        """Bytes of one element."""
        return self.dtype.bits // 8

    @property
    def memory(self) -> Allocation:
        """The allocation. Raises UsageError for a meta tensor."""
        if self.allocation is None:
            raise UsageError(
                "a meta tensor has a shape and no data",
                "use it to warm up a kernel (`kernel(meta, ...).compile()`), or make a real tensor",
            )
        return self.allocation

    @property
    def region(self) -> Region:
        """The bytes, in the count of the allocation's ledger."""
        if self._region is None:
            self._region = self.layout.region(self.width, self.memory.base)
        return self._region

    def strided(self) -> Strided:
        """As backends take it."""
        if self._strided is None:
            layout = self.layout
            self._strided = Strided(self.memory.buffer, layout.offset, layout.shape, layout.strides, self.dtype)
        return self._strided

    def at(self, layout: Layout) -> Elements:
        """Other elements of the same memory."""
        return Elements(self.allocation, layout, self.dtype, self.writable)

    def request(self, access: Access, actor: Loan | None, name: str | None = None, execution: object = None) -> Request:
        """An access to these elements through the handle with the loan `actor`."""
        return Request(self.memory.ledger, self.region, access, name, actor, execution)

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.layout.shape)}"
