"""Creating tensors: what NumPy users expect, with f32 as the default element type.

`arange` counts in i32, or i64 where that does not fit; `asarray` keeps the dtype of a NumPy array and gives Python
numbers the defaults. Values arrive complete: the first kernel may read them.

A name that also exists in kernels (`zeros`) takes ints here and Dims there; a Dim without a size has no value on the
host and is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilecheck.surface.dtypes import DTypeClass, f32, i32, i64
from tilecheck_runtime import layout as lay
from tilecheck_runtime.backends import Array, default
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.layout import Layout
from tilecheck_runtime.tensor import Tensor, from_host, make

_random = np.random.default_rng()


def empty(*shape: Any, dtype: Any = f32) -> Tensor:
    """A tensor of undefined values."""
    return make(lay.extents("empty", shape), lay.as_dtype(dtype), default())


def zeros(*shape: Any, dtype: Any = f32) -> Tensor:
    """A tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`."""
    return _filled(lay.extents("zeros", shape), 0, dtype)


def ones(*shape: Any, dtype: Any = f32) -> Tensor:
    """A tensor of ones."""
    return _filled(lay.extents("ones", shape), 1, dtype)


def full(shape: Any, value: Any, dtype: Any = f32) -> Tensor:
    """A tensor of one value: `full(64, -1.0)`, `full((3, 10), -1, i32)`."""
    return _filled(lay.extents("full", (shape,)), value, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    """`arange(stop)` or `arange(start, stop, step)`, the stop excluded."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise UsageError("`arange` got step 0")
    return _default(_made("arange", lambda: np.arange(start, stop, step)), dtype)


def linspace(start: float, stop: float, num: int, *, dtype: Any = f32) -> Tensor:
    """`num` numbers from `start` to `stop`, both included."""
    (count,) = lay.extents("linspace", (num,))
    values = _made("linspace", lambda: np.linspace(start, stop, count))
    return from_host(values.astype(lay.as_dtype(dtype).numpy()), default())


def eye(rows: int, columns: int | None = None, *, dtype: Any = f32) -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    n, m = lay.extents("eye", (rows, rows if columns is None else columns))
    return from_host(_made("eye", lambda: np.eye(n, m)).astype(lay.as_dtype(dtype).numpy()), default())


def rand(*shape: Any, dtype: Any = f32, seed: int | None = None) -> Tensor:
    """Uniform numbers in [0, 1); the same ones for the same `seed`."""
    extents = lay.extents("rand", shape)
    values = _made("rand", lambda: _generator(seed).random(extents))
    return from_host(values.astype(lay.as_dtype(dtype).numpy()), default())


def randn(*shape: Any, dtype: Any = f32, seed: int | None = None) -> Tensor:
    """Normal numbers, mean 0 and variance 1; the same ones for the same `seed`."""
    extents = lay.extents("randn", shape)
    values = _made("randn", lambda: _generator(seed).standard_normal(extents))
    return from_host(values.astype(lay.as_dtype(dtype).numpy()), default())


def asarray(values: Any, dtype: Any = None) -> Tensor:
    """A tensor with a copy of a NumPy array, a nested list, a number or anything `np.asarray` takes.

    Raises UsageError for what has no element type of ours (strings, objects, complex numbers).
    """
    host = lay.array_of(values)
    if isinstance(values, np.ndarray | np.generic) or hasattr(values, "__array__"):
        wanted = lay.as_dtype(host.dtype if dtype is None else dtype)
        return from_host(host.astype(wanted.numpy(), copy=False), default())
    return _default(host, dtype)


def meta(*shape: Any, dtype: Any = f32) -> Tensor:
    """A shape without data, for warming up kernels: `kernel(meta(1024).partition(128), ...).compile()`."""
    element = lay.as_dtype(dtype)
    extents = lay.extents("meta", shape)
    return Tensor(Elements(None, Layout(0, extents, lay.dense(extents, element.numpy().itemsize)), element))


def _filled(shape: tuple[int, ...], value: Any, dtype: Any) -> Tensor:
    element = lay.as_dtype(dtype)
    values = lay.numbers(value, element)
    if values.shape:
        raise UsageError(f"one value was expected, not an array of shape {values.shape}", "copy it: `tc.asarray(...)`")
    tensor = make(shape, element, default())
    default().upload(tensor._elements.strided(), values)
    return tensor


def _default(host: Array, dtype: Any) -> Tensor:
    if dtype is not None:
        element = lay.as_dtype(dtype)
    elif host.dtype.kind == "f":
        element = f32
    elif host.dtype.kind in "iu":
        element = _integer(host)
    else:
        element = lay.as_dtype(host.dtype)
    return from_host(host.astype(element.numpy(), copy=False), default())


def _integer(host: Array) -> DTypeClass:
    fits = host.size == 0 or (int(host.min()) >= -(2**31) and int(host.max()) < 2**31)
    return i32 if fits else i64


def _made(what: str, make: Callable[[], Array]) -> Array:
    """What NumPy makes. Raises UsageError for arguments it refuses, and for more than the host holds."""
    try:
        return make()
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"`{what}` cannot make that: {error}", "give it numbers that NumPy's takes") from None
    except MemoryError:
        raise UsageError(f"the host cannot hold what `{what}` makes", "make the tensor smaller") from None


def _generator(seed: int | None) -> np.random.Generator:
    return _random if seed is None else np.random.default_rng(seed)
