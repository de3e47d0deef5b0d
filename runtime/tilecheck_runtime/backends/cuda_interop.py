"""Arrays of other libraries on the GPU, both ways without a copy: DLPack and `__cuda_array_interface__` through cuda.core."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilecheck_runtime.backends import Strided
from tilecheck_runtime.backends.cuda import CUDABuffer, device
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.layout import Layout, as_dtype, dense


def borrowed_from(owner: Any) -> tuple[CUDABuffer, Layout, Any, bool, Any]:
    """Another library's device array: its bytes, layout, dtype, whether it may be written, and what keeps it alive.

    Waits for what the library queued on the array. Raises UsageError for what is no array of this GPU.
    """
    from cuda.core.utils import StridedMemoryView

    here = device()
    try:
        if hasattr(owner, "__dlpack__"):
            # The library makes our stream wait for its own.
            view = StridedMemoryView.from_dlpack(owner, stream_ptr=here.memory)
        else:
            view = StridedMemoryView.from_cuda_array_interface(owner, stream_ptr=here.memory)
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise UsageError(
            f"a `{type(owner).__name__}` is no array of the GPU that can be borrowed: {error}",
            "copy it with `tc.asarray(...)`",
        ) from None
    if not view.is_device_accessible or view.device_id != here.device.ordinal:
        raise UsageError(
            f"the array is not on {here.name}, where this process computes", "copy it with `tc.asarray(...)`"
        )
    here.device.wait_stream(here.memory)
    dtype = np.dtype(view.dtype)
    shape = tuple(int(n) for n in view.shape)
    strides = dense(shape, dtype.itemsize)
    if view.strides is not None:
        strides = tuple(int(n) * dtype.itemsize for n in view.strides)
    layout = Layout(0, shape, strides)
    if min(layout.strides, default=0) < 0:
        raise UsageError("an array with negative strides cannot be borrowed", "copy it with `tc.asarray(...)`")
    nbytes = layout.region(dtype.itemsize).end if all(shape) else 0
    return CUDABuffer(int(view.ptr), nbytes), layout, as_dtype(dtype), not view.readonly, (view, owner)


def lent_to(source: Strided, lent: object, *, read_only: bool, max_version: tuple[int, int] | None) -> Any:
    """A DLPack capsule of device memory; `lent` lives until the last array on it is gone.

    Raises UsageError for a dtype that DLPack lacks.
    """
    from cuda.core import Buffer
    from cuda.core.utils import StridedMemoryView

    dtype = source.dtype.numpy()
    steps = tuple(s // dtype.itemsize for s in source.strides)
    nbytes = Layout(0, source.shape, source.strides).region(dtype.itemsize).end if all(source.shape) else 0
    try:
        buffer = Buffer.from_handle(source.address, nbytes, owner=lent)
        view = StridedMemoryView.from_buffer(buffer, source.shape, steps, dtype=dtype, is_readonly=read_only)
        # Nothing is in flight: the ledger let us lend it.
        return view.__dlpack__(stream=-1, max_version=max_version)
    except (BufferError, TypeError, NotImplementedError) as error:
        raise UsageError(
            f"{source.dtype.name} elements cannot be lent through DLPack: {error}",
            "lend a copy in another dtype: `x.astype(...)`",
            rule="dtype-mismatch",
        ) from None
