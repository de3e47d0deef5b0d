"""What names of NumPy, torch, numba and Triton are called here: the way out of a message about a name that is not ours.

`ON_HOST` is for `tilecheck.NAME`, `ON_TENSORS` for an attribute of a tensor `{x}` or a partition, `ON_KERNELS`
for one of a kernel, `IN_KERNELS` for an op that a
kernel calls; `dtype_name` gives our name of an element type. Nothing here is an alias: the names stay refused.

    >>> ON_HOST["to_device"]
    'use `tc.asarray(a)`'
"""

from __future__ import annotations

from tilecheck.surface.dtypes import DTYPES
from tilecheck.surface.errors import NoSuchAttribute

_OWN = ("bf16", "f8e4m3", "f8e5m2")
_EXOTIC = {"bfloat16": "bf16", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2", "half": "f16", "double": "f64"}


def dtype_name(name: str) -> str | None:
    """Our name of the element type that others call `name` (`float32`, `torch.float32`, `f32`); None if there is none."""
    last = name.rpartition(".")[2]
    if last in DTYPES:
        return last
    if last in _EXOTIC:
        return _EXOTIC[last]
    plain = {
        ("bool" if d.kind == "bool" else f"{d.kind}{d.bits}"): d.name for d in DTYPES.values() if d.name not in _OWN
    }
    return plain.get(last)


def missing(owner: str, name: str, help: str | None, handle: object) -> AttributeError:
    """The error for the attribute `name`, which `owner` does not have. Without a help Python names the nearest one of
    `handle`, so it is no error of ours then.
    """
    message = f"{owner} has no attribute `{name}`"
    if help is None:
        return AttributeError(message, name=name, obj=handle)
    return NoSuchAttribute(message, help)


def on_host(name: str) -> str | None:
    """The way out for `tilecheck.NAME`."""
    known = dtype_name(name)
    return ON_HOST.get(name) if known is None else f"use `tc.{known}`"


def _like(make: str) -> str:
    return f"use `tc.{make}(*x.shape, dtype=x.dtype)`"


_COPY = "use `tc.asarray(a)`"
_WAIT = "an op is waited for by `op.sync()`, what a stream was given by `stream.synchronize()`"

ON_HOST = {
    **dict.fromkeys(("array", "tensor", "to_device", "as_tensor", "from_array"), _COPY),
    "from_numpy": "use `tc.asarray(a)` for a copy, `tc.from_dlpack(a)` to borrow",
    "as_cuda_array": "use `tc.from_dlpack(a)`",
    "zeros_like": _like("zeros"),
    "ones_like": _like("ones"),
    "empty_like": _like("empty"),
    "device_array": "use `tc.empty(n)`",
    "device_array_like": _like("empty"),
    "synchronize": _WAIT,
    "stream": "use `tc.Stream()`",
    "jit": "use `@tc.kernel`, or `@tc.simt(block=256)` for a kernel in numba's language",
    "launch": "call the kernel: `kernel(z.partition(128), x).sync()`",
    "softmax": "use `tc.kernels.softmax`",
}

_BACK = "use `{x}.numpy()`"
_NEW = "use `{x}.copy()`"
ON_TENSORS = {
    **dict.fromkeys(("cpu", "get", "copy_to_host", "tolist", "to_numpy"), _BACK),
    **dict.fromkeys(("clone", "contiguous", "detach"), _NEW),
    **dict.fromkeys(("to", "cuda"), "a tensor is where it was made: on the GPU if there is one, see `{x}.device`"),
    **dict.fromkeys(("fill", "fill_"), "use `{x}[...] = value`"),
    "zero_": "use `{x}[...] = 0`",
    "float": "use `{x}.astype(tc.f32)`",
    "half": "use `{x}.astype(tc.f16)`",
    "bfloat16": "use `{x}.astype(tc.bf16)`",
    "double": "use `{x}.astype(tc.f64)`",
    "int": "use `{x}.astype(tc.i32)`",
    "T": "use `tc.kernels.transpose`, or `tc.asarray({x}.numpy().T)`",
    "flatten": "use `{x}.reshape(-1)`",
    "ravel": "use `{x}.reshape(-1)`",
    "is_cuda": "use `{x}.device`",
}

_GRID = "the grid comes from the partition: `{x}(z.partition(256), ...).sync()`"
ON_KERNELS = {
    **dict.fromkeys(("forall", "configure", "run", "launch"), _GRID),
    "py_func": "use `{x}.fn`",
}

IN_KERNELS = {
    **dict.fromkeys(("program_id", "bid", "blockIdx"), "use `tc.block_id(axis)`"),
    **dict.fromkeys(("num_programs", "gridDim"), "use `tc.num_blocks(axis)`"),
    **dict.fromkeys(
        ("thread_id", "threadIdx", "grid", "syncthreads", "lane_id"),
        "a tile kernel has no threads: its ops are on whole tiles, and `tc.arange(BM)` numbers the lanes of one",
    ),
    "dot": "use `tc.mma(x, y, acc)`",
    "cdiv": "use `tc.ceil_div(x, y)`",
    **dict.fromkeys(("cat", "concatenate"), "use `tc.concat((x, y), axis)`"),
    **dict.fromkeys(("permute",), "use `tc.permute_dims(x, axes)`"),
    **dict.fromkeys(("absolute", "fabs"), "use `tc.abs(x)`"),
    "power": "use `tc.pow(x, y)`",
    "mod": "use `tc.remainder(x, y)`",
    "true_divide": "use `tc.divide(x, y)`",
    **dict.fromkeys(("sigmoid", "expit"), "write `1.0 / (1.0 + tc.exp(-x))`"),
    "softmax": "write `e = tc.exp(x - tc.max(x, axis=1, keepdims=True))`, then `e / tc.sum(e, axis=1, keepdims=True)`",
    "mean": "write `tc.sum(x) / n`",
    "zeros_like": "use `tc.zeros(BM, dtype=x.dtype)`",
    "atomicAdd": "use `tc.atomic_add(z, index, value)`",
    "arcsin": "use `tc.asin(x)`",
    "arccos": "use `tc.acos(x)`",
    "arctan": "use `tc.atan(x)`",
    "arctan2": "use `tc.atan2(y, x)`",
}
