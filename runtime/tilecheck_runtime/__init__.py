"""The runtime: tensors, ownership at run time, lazy operations, streams and graphs.

Users import `tilecheck`, which loads this on first use. Reading order: `loans` and `ledger` (the borrow rules as a table,
and who holds what), `tensor` and `partition` (handles), `op`, `launch` and `calls` (lazy operations and how a kernel call
becomes one), `seat` (what comes again), `moulds` and `flights` (what comes again on other memory), `backends` (what a device must offer).
"""

from tilecheck_runtime import forks
from tilecheck_runtime.cpp import cuda_cpp
from tilecheck_runtime.create import (
    arange,
    asarray,
    empty,
    eye,
    full,
    linspace,
    meta,
    ones,
    rand,
    randn,
    zeros,
)
from tilecheck_runtime.errors import (
    BorrowError,
    DroppedOpWarning,
    KernelRejected,
    KernelStopped,
    LaunchRefused,
    OpError,
)
from tilecheck_runtime.graph import CudaGraph
from tilecheck_runtime.interop import from_dlpack, lend
from tilecheck_runtime.memory import allocated
from tilecheck_runtime.op import DeviceOp, dup, memcpy, value, zip
from tilecheck_runtime.partition import OWNED, OwnedPartition, Partition
from tilecheck_runtime.running import Running
from tilecheck_runtime.stream import RoundRobin, Single, Stream, streams

forks.register()

__all__ = [
    "OWNED",
    "BorrowError",
    "CudaGraph",
    "DeviceOp",
    "DroppedOpWarning",
    "KernelRejected",
    "KernelStopped",
    "LaunchRefused",
    "OpError",
    "OwnedPartition",
    "Partition",
    "RoundRobin",
    "Running",
    "Single",
    "Stream",
    "allocated",
    "arange",
    "asarray",
    "cuda_cpp",
    "dup",
    "empty",
    "eye",
    "from_dlpack",
    "full",
    "lend",
    "linspace",
    "memcpy",
    "meta",
    "ones",
    "rand",
    "randn",
    "streams",
    "value",
    "zeros",
    "zip",
]
