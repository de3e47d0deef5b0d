"""A stream of another library under our queue.

Libraries say which stream of the driver theirs is in different ways; each is tried, the common protocol first:
`__cuda_stream__()` (CUDA Python, numba, newer torch) gives a version and the handle, torch has `cuda_stream`, CuPy `ptr`.
A plain int is the handle itself; 0 is the driver's default stream.

    handle_of(torch.cuda.current_stream())      # 94283765232, say
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilecheck_runtime.backends.cuda_streams import CUDAStream
from tilecheck_runtime.errors import DriverError, UsageError

if TYPE_CHECKING:
    from tilecheck_runtime.backends.cuda import CUDADevice

# The version of `__cuda_stream__` that is read here.
_PROTOCOL = 0


def handle_of(foreign: object) -> int | None:
    """The driver's handle of another library's stream; None if `foreign` is no stream."""
    if isinstance(foreign, int) and not isinstance(foreign, bool) and foreign >= 0:
        return foreign
    told = getattr(foreign, "__cuda_stream__", None)
    pair = told() if callable(told) else told
    if isinstance(pair, tuple) and len(pair) == 2 and pair[0] == _PROTOCOL:
        return int(pair[1])
    for name in ("cuda_stream", "ptr"):
        handle = getattr(foreign, name, None)
        if isinstance(handle, int):
            return handle
    return None


def wrapped(device: CUDADevice, foreign: object) -> CUDAStream:
    """Our queue on the stream `foreign`, which is kept alive. Raises UsageError for what is no stream of `device`."""
    handle = handle_of(foreign)
    if handle is None:
        raise UsageError(
            f"a `{type(foreign).__name__}` is no stream of another library",
            "pass what has `__cuda_stream__`, such as `torch.cuda.current_stream()`, or the handle as an int",
        )
    try:
        ours = device.device.owns_stream(handle)
    except DriverError as error:
        raise UsageError(f"the driver knows no stream {handle}: {error}") from None
    if not ours:
        raise UsageError(f"the stream {handle} is not one of {device.name}, where this process computes")
    return CUDAStream(device, handle, owner=(foreign,))
