"""Tensors: handles on device memory that know who owns them.

An owner (from a creation function, `copy`, `astype`, `unpartition`) has no loan; a view (`x[2:4]`, `reshape`, `view`)
has an idle loan that an exclusive borrow through any other handle ends. Every use first asks whether the handle was
moved, then whether its loan still stands, then whether anybody holds the bytes in a way that forbids the access.

Host access is immediate and complete when it returns: reading copies out (`numpy`, `item`), writing copies in
(`x[...] = value`). Slices are views and are not clamped; they may be written and partitioned, and disjoint ones do not
disturb each other, which is judged by bytes, strides included.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilecheck.ops.row import OPS
from tilecheck.surface import tensor as surface
from tilecheck.surface.dtypes import DTypeClass
from tilecheck.surface.elsewhere import ON_TENSORS, missing
from tilecheck_runtime import layout as lay
from tilecheck_runtime.backends import Array, Backend
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import BorrowError, UsageError
from tilecheck_runtime.grants import check, grant
from tilecheck_runtime.layout import Layout
from tilecheck_runtime.ledger import LOCK
from tilecheck_runtime.loans import Access, Loan, State
from tilecheck_runtime.memory import allocate
from tilecheck_runtime.partition import OwnedPartition, Partition, Slot, cut, cut_owned
from tilecheck_runtime.sites import Site, here, subject
from tilecheck_runtime.unique import Unique, serial
from tilecheck_runtime.views import Seen, asked_for, halves, known, spoil, take

HOST = "the host"


class Tensor(Unique, surface.Tensor):
    """Memory on a device. Made by the creation functions of `tilecheck`, never directly."""

    def __init__(self, elements: Elements, loan: Loan | None = None) -> None:
        self._serial = serial()
        self._elements = elements
        self._loan = loan
        self._moved: tuple[str, Site] | None = None
        # What its partitions share, and if it is a view that may come again, what its handles share.
        self._slot: Slot | None = None
        self._seen: Seen | None = None
        # Those of this one, by what they were asked for with.
        self._views: dict[Hashable, tuple[Seen, ...]] | None = None
        if elements.allocation is not None:
            elements.allocation.enter(self)

    # ---- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents. Like all that a tensor says of itself, refused by BorrowError once it was moved; `repr` is not."""
        self._usable()
        return self._elements.layout.shape

    @property
    def dtype(self) -> DTypeClass:
        """The element type, `tilecheck.f32` and so on."""
        self._usable()
        return self._elements.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.size * self._elements.width

    @property
    def device(self) -> str:
        """The backend's name, `meta` for a shape-only tensor."""
        self._usable()
        return "meta" if self._elements.meta else self._elements.memory.backend.name

    def __len__(self) -> int:
        if not self.shape:
            raise UsageError("a tensor without axes has no length", rule="shape-mismatch")
        return self.shape[0]

    def __repr__(self) -> str:
        extents = self._elements.layout.shape
        shape = ", ".join(map(str, extents)) + ("," if len(extents) == 1 else "")
        place = "meta" if self._elements.meta else self._elements.memory.backend.name
        return f"<Tensor {self._elements.dtype.name} ({shape}) on {place}: {self._state()}>"

    def _state(self) -> str:
        if self._moved is not None:
            return f"moved at {self._moved[1]}"
        if self._elements.meta:
            return "shape only"
        if self._loan is not None and self._loan.ended is not None:
            return f"view, ended at {self._loan.ended[1]}"
        kind = "view" if self._loan is not None else "owner" if self._elements.memory.own else "borrowed memory"
        held = [
            f"{'exclusive' if loan.exclusive else 'shared'}, {loan.state.value}: {loan.holder}"
            for loan in sorted(self._elements.memory.ledger.live(self._elements.region), key=lambda loan: loan.number)
            if loan is not self._loan and (loan.state is not State.IDLE or (loan.exclusive and not loan.vacant))
        ]
        return "; ".join([kind, *held])

    # ---- host access

    def numpy(self) -> Array:
        """A NumPy array with the values, a copy. Raises BorrowError while something writes them."""
        self._access(Access.READ)
        return self._elements.memory.backend.download(self._elements.strided())

    def item(self) -> Any:
        """The value of a tensor of one element, as a Python number."""
        if self.size != 1:
            raise UsageError(f"`item` wants one element, the shape is {self.shape}", rule="shape-mismatch")
        return self.numpy().reshape(()).item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise UsageError("a tensor becomes a NumPy array by copying", "borrow it with `np.from_dlpack(x)`")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        """`x[i, j]` with an int for every axis is a Python number, everything else a view."""
        asked = asked_for(key)
        view = known(self, asked)
        if view is not None:
            return view
        layout = self._elements.layout
        if key.__class__ is int and len(layout.shape) > 1 and 0 <= key < layout.shape[0]:
            row = Layout(layout.offset + key * layout.strides[0], layout.shape[1:], layout.strides[1:])
            return take(self, self._elements.at(row), asked)
        items = key if isinstance(key, tuple) else (key,)
        chosen = self._select(items)
        if not chosen.shape and Ellipsis not in items:
            self._access(Access.READ)
            return self._elements.memory.backend.download(self._elements.at(chosen).strided()).item()
        return take(self, self._elements.at(chosen), asked)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write from the host: a number, or anything NumPy can broadcast to the chosen elements."""
        if isinstance(value, Tensor):
            value = value.numpy()
        chosen = self._elements.at(self._select(key if isinstance(key, tuple) else (key,)))
        values = lay.numbers(value, self._elements.dtype)
        try:
            values = np.broadcast_to(values, chosen.layout.shape)
        except ValueError:
            raise UsageError(
                f"values of shape {values.shape} do not fit the shape {chosen.layout.shape}", rule="shape-mismatch"
            ) from None
        self._writable()
        self._access(Access.WRITE, chosen)
        chosen.memory.backend.upload(chosen.strided(), values)

    def __bool__(self) -> bool:
        if self.size != 1:
            raise UsageError(f"a tensor of shape {self.shape} is neither true nor false", "ask about its elements")
        return bool(self.item())

    def __eq__(self, other: object) -> bool:
        """Whether it is the same handle. Raises UsageError for a number, which would differ from any handle."""
        if isinstance(other, int | float):
            text = subject("x").strip("`")
            raise UsageError(
                "`==` of a tensor does not look at its elements", f"compare a copy: `{text}.numpy() == {other}`"
            )
        return NotImplemented

    __hash__ = object.__hash__

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __copy__(self) -> Tensor:
        return take(self, self._elements)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return self.copy()

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            raise kernel_language(self, name)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    # ---- views and copies

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements under another shape; one extent may be -1. A view, so contiguous tensors only."""
        wanted = lay.ints("reshape", shape)
        asked = ("reshape", wanted)
        elements = self._elements
        view = known(self, asked)
        if view is not None:
            return view
        return take(self, elements.at(lay.reshaped(elements.layout, elements.width, wanted)), asked)

    def view(self, dtype: Any) -> Tensor:
        """The same bytes read as another dtype of any width that divides the last axis. Contiguous tensors only."""
        new, old = lay.as_dtype(dtype), self._elements
        layout, wide = old.layout, lay.as_dtype(dtype).numpy().itemsize
        last = layout.shape[-1] * old.width if layout.shape else old.width
        if last % wide or not layout.contiguous(old.width) or (not layout.shape and wide != old.width):
            raise UsageError(
                f"{old} cannot be read as {new.name}: its last axis has {last} bytes in a row",
                "convert the values with `astype`",
                rule="dtype-mismatch",
            )
        start = layout.offset + (0 if old.meta else old.memory.buffer.address)
        if start % wide:
            raise UsageError(
                f"{old} cannot be read as {new.name}: it starts {start % wide} bytes behind a multiple of {wide}",
                "read a copy: `x.copy().view(...)`",
                rule="dtype-mismatch",
            )
        shape = (*layout.shape[:-1], last // wide) if layout.shape else ()
        seen = Layout(layout.offset, shape, lay.dense(shape, wide))
        return take(self, Elements(old.allocation, seen, new, old.writable))

    def copy(self) -> Tensor:
        """A new tensor with the same values, contiguous."""
        return self.astype(self.dtype)

    def astype(self, dtype: Any) -> Tensor:
        """A new tensor with the values converted."""
        new = lay.as_dtype(dtype)
        return from_host(self.numpy().astype(new.numpy(), copy=False), self._elements.memory.backend)

    def split(self, at: int, axis: int = 0) -> tuple[Tensor, Tensor]:
        """Two disjoint exclusive borrows: the elements before `at` along `axis`, and the others."""
        return halves(self, at, axis)

    # ---- partitions

    def partition(self, *tile: Any) -> Partition:
        """Borrow exclusively, cut into tiles of this shape, one block each. The last tile of an axis may hang over.

        Raises UsageError for a tile that does not fit the rank, BorrowError while an op holds the tensor.
        """
        return cut(self, tile)

    def into_partition(self, *tile: Any) -> OwnedPartition:
        """Give the tensor away to a partition; `unpartition()` gives it back.

        Raises BorrowError if another tensor on the same memory is alive, or anything holds it.
        """
        return cut_owned(self, tile)

    def try_into_partition(self, *tile: Any) -> OwnedPartition | BorrowError:
        """`into_partition` that returns the error instead of raising it; the tensor is then as before."""
        try:
            return self.into_partition(*tile)
        except BorrowError as error:
            return error

    # ---- interop

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's kind and number of the device. Raises UsageError for a meta tensor."""
        from tilecheck_runtime.interop import KDLCPU, KDLCUDA

        name = self._elements.memory.backend.name
        return (KDLCPU, 0) if name == "cpu" else (KDLCUDA, int(name.rpartition(":")[2]))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Lend the memory to another library; see `interop`."""
        from tilecheck_runtime.interop import dlpack

        return dlpack(self, stream, max_version, dl_device, copy)

    # ---- for the rest of the runtime

    def _select(self, key: tuple[Any, ...]) -> Layout:
        at = next((i for i, item in enumerate(key) if item is Ellipsis), None)
        if at is not None:
            rest = key[at + 1 :]
            key = (*key[:at], *[slice(None)] * (self.ndim - at - len(rest)), *rest)
        layout = self._elements.layout
        return lay.select(layout.shape, layout.strides, layout.offset, key)

    def _usable(self, name: str | None = None) -> None:
        """Raise BorrowError (use-after-move) if the tensor was given away; `name` as in `Request`."""
        if self._moved is not None:
            how, where = self._moved
            raise BorrowError(
                f"{name or subject()} was moved and cannot be used any more",
                "get it back with `unpartition()`, or borrow with `partition` instead of moving",
                rule="use-after-move",
                points=(f"{where}: {how} took it over",),
            )

    def _writable(self, name: str | None = None) -> None:
        if not self._elements.writable:
            raise BorrowError(
                f"{name or subject()} is memory that its library marked read-only",
                "write to a copy: `tc.asarray(...)`",
                rule="write-to-shared",
            )

    def _access(self, access: Access, elements: Elements | None = None) -> None:
        """Ask for an immediate access of the host."""
        self._usable()
        grant(((elements or self._elements).request(access, self._loan),), HOST)

    def _move(self, how: str, name: str | None = None, execution: object = None) -> Elements:
        """Give the elements away for good to `how` ("`into_partition`"): this handle is dead afterwards.

        Raises BorrowError if another tensor on these bytes is alive, or anything holds them.
        """
        self._usable(name)
        elements = self._elements
        if not elements.meta:
            with LOCK:
                request = elements.request(Access.MOVE, self._loan, name, execution)
                check((request,), how)
                self._check_alone(how, name)
                grant((request,), how)
        spoil(self)
        self._moved = (how, here())
        return elements

    def _check_alone(self, how: str, name: str | None) -> None:
        memory = self._elements.memory
        if not memory.own:
            raise BorrowError(
                f"cannot move {name or subject()}: its memory belongs to another library",
                "copy it with `tc.asarray(...)`, or borrow with `partition`",
            )
        if self._others():
            gc.collect()
        for other in self._others():
            story = "its owner is alive" if other._loan is None else f"{other._loan.site}: the other one was made here"
            raise BorrowError(
                f"cannot move {name or subject()}: another tensor shares its memory",
                f"let go of that one first (`del`), or use `partition` instead of {how}",
                points=(story,),
            )

    def _others(self) -> list[Tensor]:
        return [
            handle
            for handle in self._elements.memory.handles()
            if isinstance(handle, Tensor) and handle is not self and handle._moved is None
        ]


def kernel_language(handle: object, name: str) -> Exception:
    """The error for an attribute that a handle does not have: one of the kernel language is worth a better word."""
    row = OPS.get(name)
    kind = type(handle).__name__
    if row is None or not row.method_of:
        help = ON_TENSORS.get(name)
        if help is None and not isinstance(handle, Tensor) and name in vars(Tensor):
            help = f"its tensor has it: `{{x}}.{name}`"
        if help is not None:
            whole = "" if isinstance(handle, Tensor) else ".unpartition()"
            help = help.format(x=subject("x").strip("`") + whole)
        return missing(f"`{kind}`", name, help, handle)
    help = "call it inside a function decorated with `@tc.kernel`"
    if isinstance(handle, Tensor) and hasattr(np.ndarray, name):
        help = f"call it inside of a kernel, or on a copy: `{subject('x').strip('`')}.numpy().{name}(...)`"
    return UsageError(f"`{name}` belongs to the kernel language and was called on a `{kind}` of the host", help)


def from_host(values: Array, backend: Backend) -> Tensor:
    """A new tensor with a copy of `values`."""
    dtype = lay.as_dtype(values.dtype)
    tensor = make(values.shape, dtype, backend)
    backend.upload(tensor._elements.strided(), values)
    return tensor


def make(shape: tuple[int, ...], dtype: DTypeClass, backend: Backend) -> Tensor:
    """A new tensor of undefined values."""
    width = dtype.bits // 8
    memory = allocate(backend, prod(shape) * width)
    return Tensor(Elements(memory, Layout(0, shape, lay.dense(shape, width)), dtype))
