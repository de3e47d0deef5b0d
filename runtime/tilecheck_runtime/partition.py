"""Partitions: a tensor cut into tiles, so that two blocks can never write one element.

The grid follows from the partition: axis k has ceil(extent / tile) tiles, and the last one may hang over. How a launch
covers the tiles is part of the partition:

- exact (the default): one block per tile, all of them;
- `prefix()`: the grid may be smaller on any axis, the rest stays as it was; it never defines a grid;
- `map(shape, blocks=n)`: n blocks walk over all tiles, each visited exactly once, in bands of `shape`; an axis marked
  `OWNED` is not streamed, each visited place owns it whole.

`partition` borrows exclusively, `into_partition` takes the tensor over. A partition may be launched again and again;
it ends when somebody else borrows the same bytes exclusively, and says so at its next use.

    >>> import tilecheck as tc
    >>> tc.zeros(192, 134).partition(64, 64).grid
    (3, 3, 1)
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from tilecheck.interp.arguments import TileMap
from tilecheck_runtime import layout as lay
from tilecheck_runtime import phase
from tilecheck_runtime.backends import Grid
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.grants import borrow, renew
from tilecheck_runtime.ledger import LOCK, OPEN, Standing
from tilecheck_runtime.loans import Access, Loan
from tilecheck_runtime.sites import here, subject
from tilecheck_runtime.unique import Unique, serial

if TYPE_CHECKING:
    from tilecheck_runtime.tensor import Tensor

MAX_RANK = 3
# Forms that the slot of a tensor remembers; it looks for handles that are gone when there are this many more than twice
# what it found alive.
FORMS, SWEEP = 64, 16


class _Owned:
    """The mark of an axis that a block owns whole."""

    def __repr__(self) -> str:
        return "OWNED"


OWNED: Final = _Owned()


@dataclass(eq=False, slots=True, weakref_slot=True)
class Form:
    """What a partition is, apart from the handle: partitions of one form through one loan are one for a launch.

    Never changed; frozen would take as long as the rest of making it.
    """

    elements: Elements
    loan: Loan | None
    tile: tuple[int, ...]
    exact: bool = True
    mapping: TileMap | None = None
    serial: int = field(default_factory=serial, init=False)
    # Worked out at the first use: every launch asks.
    _kind: Hashable | None = field(default=None, init=False)

    @property
    def kind(self) -> Hashable:
        """What a launch is decided by."""
        kind = self._kind
        if kind is None:
            kind = self._kind = (self.elements.kind, self.tile, self.exact, self.mapping)
        return kind


class Slot(Standing):
    """The exclusive borrow that all partitions of one tensor share, one after the other: the handles of the one before have
    ended (`retire`) before those of the next are made.

    As long as it `stands`, a new partition would end nothing and be refused by nothing but ops that are pending, so it is
    made without looking at the ledger. `forms` are those that were asked for, by what they were asked for with.
    """

    def __init__(self, loan: Loan) -> None:
        super().__init__(None)
        self.loan = loan
        # Whether a tensor was derived from it: the borrow of a view is not handed on then.
        self.spoiled = False
        self.forms: dict[Any, Form] = {}
        self.live: list[weakref.ref[Partition]] = []
        self._sweep_at = SWEEP
        loan.holders = self.live

    def enter(self, handle: Partition) -> None:
        """Know of a handle for as long as it lives."""
        self.live.append(weakref.ref(handle))
        if len(self.live) > self._sweep_at:
            self.live[:] = [ref for ref in self.live if ref() is not None]
            self._sweep_at = 2 * len(self.live) + SWEEP

    def form(self, asked: Any, form: Form) -> Form:
        """Remember `form` under what it was asked for with."""
        while len(self.forms) >= FORMS:
            self.forms.pop(next(iter(self.forms)))
        return self.forms.setdefault(asked, form)

    def retire(self) -> None:
        """End the handles that are alive. The lock of the ledgers is held."""
        handles = [handle for ref in self.live if (handle := ref()) is not None]
        self.live.clear()
        if not handles:
            return
        loan = self.loan
        ended = ("a partition borrowed it exclusively", here())
        past = Loan(loan.ledger, loan.region, True, loan.holder, loan.site, loan.lineage, ended=ended)
        for handle in handles:
            form = handle._form
            handle._form = Form(form.elements, past, form.tile, form.exact, form.mapping)
            handle._slot = None


class Partition(Unique):
    """An exclusive borrow of a tensor in tiles; `tile` is the shape of one."""

    def __init__(self, form: Form, slot: Slot | None) -> None:
        self._form = form
        self._slot = slot
        if slot is not None:
            slot.enter(self)

    @property
    def tile(self) -> tuple[int, ...]:
        """The shape of one tile."""
        return self._form.tile

    @property
    def exact(self) -> bool:
        """Whether a launch covers all tiles; False for a prefix."""
        return self._form.exact

    @property
    def mapping(self) -> TileMap | None:
        """How blocks walk over the tiles of a mapped partition."""
        return self._form.mapping

    @property
    def _elements(self) -> Elements:
        return self._form.elements

    @property
    def _loan(self) -> Loan | None:
        return self._form.loan

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the whole tensor."""
        return self._elements.layout.shape

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._elements.dtype

    @property
    def tiles(self) -> tuple[int, ...]:
        """The number of tiles per axis."""
        return tuple(-(-n // t) for n, t in zip(self.shape, self.tile, strict=True))

    @property
    def grid(self) -> Grid:
        """The grid that covers all tiles, or the blocks of a mapped partition."""
        if self.mapping is not None:
            return (self.mapping.blocks, 1, 1)
        x, y, z = (*self.tiles, 1, 1)[:3]
        return (x, y, z)

    def prefix(self) -> Partition:
        """The same partition for launches whose grid covers a part; give the grid with `op.with_grid(...)`."""
        if self.mapping is not None:
            raise UsageError("a mapped partition has no prefix", "walk a part of it with `z.indices(within=...)`")
        return self._again(exact=False)

    def map(self, *shape: Any, blocks: int) -> Partition:
        """Let `blocks` blocks walk over all tiles, for a kernel's `Mapped` parameter.

        `shape` has an int per axis, the band that is walked together ((1, 1) is row by row), or `OWNED`. Raises
        UsageError for another rank, no streamed axis, and fewer than 1 or more blocks than streamed tiles.
        """
        if not self.exact:
            raise UsageError("a prefix cannot be mapped", "walk a part of it with `z.indices(within=...)`")
        flat = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        bands = tuple(0 if axis is OWNED else lay.ints("map", (axis,))[0] for axis in flat)
        if len(bands) != len(self.tile):
            raise UsageError(
                f"`map` got {len(bands)} extents for a partition of {len(self.tile)} axes, tiles {self.tiles}",
                "one int or `tc.OWNED` per axis",
            )
        for axis, (given, band) in enumerate(zip(flat, bands, strict=True)):
            if given is not OWNED and band < 1:
                raise UsageError(f"`map` got {band} on axis {axis}", "at least 1, or `tc.OWNED`")
        streamed = lay.product(tuple(n for n, band in zip(self.tiles, bands, strict=True) if band))
        if not any(bands):
            raise UsageError("`map` has only owned axes, nothing is left to walk over", "stream at least one axis")
        (count,) = lay.ints("map", (blocks,))
        if not 1 <= count <= streamed:
            raise UsageError(
                f"`map` got blocks={count} for {streamed} streamed tiles",
                f"between 1 and {streamed}",
            )
        return self._again(mapping=TileMap(bands, count))

    def unpartition(self) -> Tensor:
        """The whole tensor again, as a view; this partition ends at the next exclusive use of it."""
        return self._unpartition(None)

    def _unpartition(self, execution: object) -> Tensor:
        from tilecheck_runtime.tensor import Tensor

        if self._loan is None:
            return Tensor(self._elements)
        if self._slot is not None:
            self._slot.spoiled = True
        return Tensor(self._elements, borrow(self._elements, Access.SHARE, self._loan, "a view", execution))

    def _again(self, *, exact: bool = True, mapping: TileMap | None = None) -> Partition:
        with LOCK:
            form, slot = self._form, self._slot
            other = Form(form.elements, form.loan, form.tile, exact, mapping)
            if slot is not None:
                other = slot.form((form.tile, exact, mapping), other)
            return Partition(other, slot)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            from tilecheck_runtime.tensor import kernel_language

            raise kernel_language(self, name)

    def _usable(self, name: str | None = None) -> None:
        """Raise BorrowError if the partition was given back."""

    def __repr__(self) -> str:
        how = "" if self.exact else ", prefix"
        how = how if self.mapping is None else f", mapped {self.mapping.shape} over {self.mapping.blocks} blocks"
        state = "ended" if self._loan is not None and self._loan.ended is not None else "borrowed"
        return f"<Partition of {self._elements} into {self.tile}{how}: {state}>"


class OwnedPartition(Partition):
    """A partition that owns its tensor. Launching uses it, `unpartition` turns it into a tensor again."""

    def __init__(
        self,
        tensor: Tensor,
        tile: tuple[int, ...],
        *,
        exact: bool = True,
        mapping: TileMap | None = None,
    ) -> None:
        super().__init__(Form(tensor._elements, tensor._loan, tile, exact, mapping), None)
        self._tensor = tensor

    def _unpartition(self, execution: object) -> Tensor:
        from tilecheck_runtime.tensor import Tensor

        return Tensor(self._tensor._move("`unpartition`", execution=execution), self._tensor._loan)

    def _again(self, *, exact: bool = True, mapping: TileMap | None = None) -> OwnedPartition:
        return OwnedPartition(self._tensor, self.tile, exact=exact, mapping=mapping)

    def _usable(self, name: str | None = None) -> None:
        self._tensor._usable(name)

    def __repr__(self) -> str:
        text = super().__repr__()
        return text.replace("borrowed>", "owned>" if self._tensor._moved is None else "given back>")


def cut(tensor: Tensor, tile: tuple[Any, ...]) -> Partition:
    """`tensor.partition(*tile)`."""
    slot = tensor._slot
    if slot is not None:
        form = _known(slot, tile)
        if form is not None:
            with LOCK:
                if slot.stands and not OPEN:
                    if slot.live:
                        slot.retire()
                    return Partition(form, slot)
    tensor._usable()
    shape = _tile(tensor, tile)
    tensor._writable()
    elements = tensor._elements
    if elements.meta:
        return Partition(Form(elements, None, shape), None)
    with LOCK:
        slot = tensor._slot
        seen = tensor._seen
        again = slot is not None and renew(
            elements.request(Access.EXCLUDE, tensor._loan), "a partition", slot.loan, seen
        )
        if slot is None or not again:
            slot = tensor._slot = Slot(borrow(elements, Access.EXCLUDE, tensor._loan, "a partition"))
            if seen is not None:
                seen.slot = slot
        if slot.live:
            slot.retire()
        slot.stands = True
        elements.memory.ledger.stand(elements.region, slot)
        asked = tile if _ints(tile) else (shape, True, None)
        return Partition(slot.form(asked, Form(elements, slot.loan, shape)), slot)


def _known(slot: Slot, asked: tuple[Any, ...]) -> Form | None:
    """The form that was asked for with these ints."""
    try:
        form = slot.forms.get(asked)
    except TypeError:  # a list
        return None
    return form if form is not None and (all(map(is_, asked, form.tile)) or _ints(asked)) else None


def _ints(asked: tuple[Any, ...]) -> bool:
    """Whether these are plain ints, of which equal ones are the same to everybody."""
    return set(map(type, asked)) == {int}


def cut_owned(tensor: Tensor, tile: tuple[Any, ...]) -> OwnedPartition:
    """`tensor.into_partition(*tile)`."""
    from tilecheck_runtime.tensor import Tensor

    tensor._usable()
    shape = _tile(tensor, tile)
    tensor._writable()
    return OwnedPartition(Tensor(tensor._move("`into_partition`", execution=phase.execution()), tensor._loan), shape)


def _tile(tensor: Tensor, given: tuple[Any, ...]) -> tuple[int, ...]:
    shape = tensor._elements.layout.shape
    if len(given) == len(shape) <= MAX_RANK and given and _ints(given) and min(given) > 0 and min(shape) > 0:
        return given
    tile = lay.ints("partition", given)
    if len(tile) != tensor.ndim:
        raise UsageError(
            f"a tile of {len(tile)} axes for {subject()}, which has {tensor.ndim}, shape {tensor.shape}",
            "one extent per axis",
            rule="shape-mismatch",
        )
    if not 1 <= len(tile) <= MAX_RANK:
        raise UsageError(
            f"{subject()} has {tensor.ndim} axes, a grid has 1 to {MAX_RANK}",
            "merge axes with `reshape` before `partition`",
            rule="shape-mismatch",
        )
    for axis, (extent, size) in enumerate(zip(tile, tensor.shape, strict=True)):
        if extent < 1:
            raise UsageError(
                f"the tile of {subject()} has extent {extent} on axis {axis}", "at least 1", rule="shape-mismatch"
            )
        if size < 1:
            raise UsageError(
                f"{subject()} has no elements to partition: its extent on axis {axis} is 0",
                f"nothing is to be done then: launch only `if {subject('z').strip('`')}.size:`",
                rule="shape-mismatch",
            )
    return tile
