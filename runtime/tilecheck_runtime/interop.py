"""Other libraries' arrays, both ways, without a copy.

In: `from_dlpack(x)` borrows the memory of anything with `__dlpack__`, `__array_interface__` or, on a GPU,
`__cuda_array_interface__` and keeps its owner alive. Two imports that overlap know of each other, and our own memory comes back as a view of it. What the other library does with its own array stays its business:
it must not write while a kernel reads.

Out: `np.from_dlpack(z)`, `torch.from_dlpack(z)` lend the memory until the last array on it is gone. A consumer that can
be told "read only" (DLPack 1.0 and later) gets a shared loan, an older one an exclusive loan, because it may write.
`lend(z)` is for who knows the array interfaces only, such as `numba.cuda.as_cuda_array(tc.lend(z))`; what has the interface
is an object of its own, since the tensor itself could not tell how long it is lent.
The loan is held, not idle: nobody tells us when the other library reads, so conflicting accesses raise.

Copies need none of this: `x.numpy()`, `np.asarray(x)` and `tc.asarray(a)` copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilecheck.surface.dtypes import DTypeClass
from tilecheck_runtime.backends import Array, Backend, Buffer, Strided, default
from tilecheck_runtime.backends.cpu import CPUBuffer, array
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.grants import borrow, hold, release
from tilecheck_runtime.layout import Layout, as_dtype, foreign_help
from tilecheck_runtime.loans import Access, Loan, State
from tilecheck_runtime.memory import Allocation, covering
from tilecheck_runtime.sites import subject
from tilecheck_runtime.tensor import Tensor
from tilecheck_runtime.views import spoil, take

KDLCPU, KDLCUDA = 1, 2
# The first version that can say "read only".
READ_ONLY = (1, 0)


class _Lent:
    """Keeps the loan and the memory of a lent array; dies with the last array of the other library."""

    def __init__(self, loan: Loan, memory: Allocation) -> None:
        self.loan = loan
        self.memory = memory

    def __del__(self) -> None:
        release((self.loan,))


class _LentOnHost(_Lent):
    """As NumPy takes it."""

    def __init__(self, values: Array, loan: Loan, memory: Allocation, read_only: bool) -> None:
        super().__init__(loan, memory)
        interface = dict(values.__array_interface__)
        interface["data"] = (interface["data"][0], read_only)
        interface["strides"] = values.strides
        self.__array_interface__ = interface


class _LentOnDevice(_Lent):
    """As numba, torch and CuPy take it: version 3 of the CUDA array interface, whose strides are in bytes."""

    def __init__(self, source: Strided, loan: Loan, memory: Allocation, read_only: bool) -> None:
        super().__init__(loan, memory)
        self.__cuda_array_interface__ = {
            "shape": source.shape,
            "typestr": source.dtype.numpy().str,
            "data": (source.address if all(source.shape) else 0, read_only),
            "strides": source.strides,
            "version": 3,
            # Nothing is in flight: the ledger let us lend it.
            "stream": None,
        }


def lend(tensor: Tensor, *, read_only: bool = False) -> Any:
    """What another library makes an array of without a copy: it has `__cuda_array_interface__` on a GPU, on the CPU
    `__array_interface__`. The memory is lent, exclusively or, if it is only read, shared, until the last array on it is gone.

    Raises BorrowError for a conflict, UsageError for what is no tensor and for dtypes that NumPy has not.
    """
    if not isinstance(tensor, Tensor):
        raise UsageError(f"`lend` takes a tensor, this is a `{type(tensor).__name__}`")
    _lendable(tensor.dtype)
    source = tensor._elements.strided()
    loan = _loan(tensor, read_only)
    if tensor.device == "cpu":
        return _LentOnHost(array(source), loan, tensor._elements.memory, read_only)
    return _LentOnDevice(source, loan, tensor._elements.memory, read_only)


def _loan(tensor: Tensor, read_only: bool) -> Loan:
    """Lend the tensor's memory. Raises BorrowError for a conflict.

    A host access as far as running ops are concerned, a borrow as far as the time after it is: what was in flight is over, so
    there is nothing for the other library's stream to wait for.
    """
    if not read_only:
        tensor._writable()
    tensor._access(Access.READ if read_only else Access.WRITE)
    request = tensor._elements.request(Access.SHARE if read_only else Access.EXCLUDE, tensor._loan)
    spoil(tensor)
    (loan,) = hold((request,), "another library's array", State.LENT)
    return loan


def dlpack(
    tensor: Tensor,
    stream: Any,
    max_version: tuple[int, int] | None,
    device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """`tensor.__dlpack__(...)`: a capsule. Raises BorrowError for a conflict, UsageError for what cannot be lent."""
    on_host = tensor.device == "cpu"
    if on_host or device == (KDLCPU, 0):
        _lendable(tensor.dtype)
    own = tensor.__dlpack_device__()
    if copy and (on_host or device == (KDLCPU, 0)):
        return _capsule(tensor.numpy(), max_version)
    if copy:
        raise UsageError(f"a copy on {tensor.device} is not made by DLPack", "make it first: `x.copy()`")
    if device not in (None, own):
        raise UsageError(f"{subject()} is on {tensor.device}, DLPack device {device} was asked for")
    if on_host and stream not in (None, -1):
        raise UsageError(f"a tensor of the cpu has no stream, DLPack stream {stream} was asked for")
    told = max_version is not None and max_version >= READ_ONLY
    elements, loan = tensor._elements, _loan(tensor, read_only=told)
    if on_host:
        return _capsule(np.asarray(_LentOnHost(array(elements.strided()), loan, elements.memory, told)), max_version)
    from tilecheck_runtime.backends.cuda_interop import lent_to

    return lent_to(elements.strided(), _Lent(loan, elements.memory), read_only=told, max_version=max_version)


def _capsule(values: Array, max_version: tuple[int, int] | None) -> Any:
    options: dict[str, Any] = {} if max_version is None else {"max_version": max_version}
    return values.__dlpack__(**options)


def _lendable(dtype: DTypeClass) -> None:
    """Raise UsageError for a dtype that NumPy, which names it or lends host memory, has not."""
    if not dtype.numpy().isbuiltin == 1:
        raise UsageError(
            f"NumPy, by which it would be lent, has no {dtype.name}",
            "lend a copy in another dtype, `x.astype(tc.f32)`, or the bits, `x.view(tc.u8)` and `x.view(tc.u16)`",
            rule="dtype-mismatch",
        )


def from_dlpack(owner: Any) -> Tensor:
    """Borrow the array `owner` of another library, which stays alive as long as the tensor.

    Raises UsageError for an object without `__dlpack__` or `__array_interface__`, memory of another device, an unknown
    dtype, negative strides and writable elements that share memory.
    """
    if isinstance(owner, Tensor):
        return take(owner, owner._elements)
    here = default()
    if here.name != "cpu":
        from tilecheck_runtime.backends.cuda_interop import borrowed_from

        return _borrowed_on_device(here, *borrowed_from(owner))
    if isinstance(owner, np.ma.MaskedArray):
        raise UsageError("an array with a mask is not a plain array", "borrow its values: `tc.from_dlpack(a.data)`")
    device = owner.__dlpack_device__() if hasattr(owner, "__dlpack_device__") else (KDLCPU, 0)
    if device[0] != KDLCPU:
        raise UsageError(
            f"the array is on DLPack device {tuple(int(n) for n in device)}, this process computes on the cpu",
            "copy it to the host first",
        )
    if hasattr(owner, "__array_interface__"):
        values = np.asarray(owner)
    elif hasattr(owner, "__dlpack__"):
        try:
            values = np.from_dlpack(owner)
        except (BufferError, RuntimeError, TypeError) as error:
            help = foreign_help(owner, "from_dlpack") or "copy it with `tc.asarray(...)`"
            raise UsageError(f"this array cannot be borrowed: {error}", help) from None
    else:
        raise UsageError(
            f"a `{type(owner).__name__}` has neither `__dlpack__` nor `__array_interface__`",
            "copy it with `tc.asarray(...)`",
        )
    return _borrowed(values)


def _borrowed_on_device(
    here: Backend, buffer: Buffer, layout: Layout, dtype: Any, writable: bool, owner: Any
) -> Tensor:
    _aligned(buffer.address, layout, dtype)
    known = covering(buffer.address, buffer.nbytes)
    if known is not None:
        inside = Layout(buffer.address - known.buffer.address, layout.shape, layout.strides)
        elements = Elements(known, inside, dtype, writable)
        return Tensor(elements, borrow(elements, Access.SHARE, None, "a view"))
    return Tensor(Elements(Allocation(here, buffer, owner=owner), layout, dtype, writable))


def _aligned(address: int, layout: Layout, dtype: DTypeClass) -> None:
    """Raise UsageError for elements across the boundaries that a GPU reads them at."""
    width = dtype.numpy().itemsize
    if layout.size and any(n % width for n in (address, *layout.strides)):
        raise UsageError(
            f"the {dtype.name} elements do not all lie at multiples of {width} bytes: address {address}, strides "
            f"{layout.strides}",
            "copy it with `tc.asarray(...)`",
        )


def _borrowed(values: Array) -> Tensor:
    dtype = as_dtype(values.dtype)
    if min(values.strides, default=0) < 0:
        raise UsageError("an array with negative strides cannot be borrowed", "copy it with `tc.asarray(...)`")
    address = int(values.__array_interface__["data"][0])
    layout = Layout(0, values.shape, values.strides)
    if values.size and values.flags.writeable and not layout.distinct(values.dtype.itemsize):
        raise UsageError(
            f"elements of an array with shape {values.shape} and strides {values.strides} share memory",
            "copy it with `tc.asarray(...)`",
        )
    _aligned(address, layout, dtype)
    extent = layout.region(values.dtype.itemsize).end if values.size else 0
    known = covering(address, extent)
    if known is not None:
        inside = Layout(address - known.buffer.address, values.shape, values.strides)
        elements = Elements(known, inside, dtype, values.flags.writeable)
        return Tensor(elements, borrow(elements, Access.SHARE, None, "a view"))
    memory = Allocation(default(), CPUBuffer(address, extent), owner=values)
    return Tensor(Elements(memory, layout, dtype, values.flags.writeable))
