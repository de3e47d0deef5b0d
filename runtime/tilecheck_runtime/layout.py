"""Shapes, strides and subscripts: the arithmetic of views, on plain tuples.

Strides are in bytes and never negative. Nothing is clamped: a slice outside its axis is an error, unlike in NumPy, since
a shorter result than asked for is how wrong extents reach a kernel unseen.

    >>> select((8, 8), (32, 4), 4, (slice(2, 4),)).shape
    (2, 8)
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from tilecheck.surface.dims import DimClass
from tilecheck.surface.dtypes import DTYPES, DTypeClass
from tilecheck.surface.elsewhere import dtype_name
from tilecheck_runtime.backends import Array
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.regions import Region
from tilecheck_runtime.sites import subject

# Bytes of the widest element, and how many bytes an allocation may have at all.
WIDEST, REACH = 8, 2**63 - 1

_BY_NUMPY = {dtype.numpy(): dtype for dtype in DTYPES.values()}


@dataclass(unsafe_hash=True, slots=True)
class Layout:
    """Where the elements of a view lie, `offset` in bytes from the start of the allocation. Never changed, as regions."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def region(self, width: int, base: int = 0) -> Region:
        """The bytes of elements `width` bytes wide; `base` shifts the count."""
        return Region(self.offset + base, self.shape, self.strides, width)

    def distinct(self, width: int) -> bool:
        """Whether no two elements share a byte; no, too, for interleavings that are hard to decide."""
        reach = width
        axes = zip(self.strides, self.shape, strict=True)
        for stride, extent in sorted((s, n) for s, n in axes if n > 1):
            if stride < reach:
                return False
            reach += (extent - 1) * stride
        return True

    def contiguous(self, width: int) -> bool:
        """Whether the elements lie in C order without gaps."""
        return self.size <= 1 or all(
            n == 1 or s == c for n, s, c in zip(self.shape, self.strides, dense(self.shape, width), strict=True)
        )

    @property
    def size(self) -> int:
        """The number of elements."""
        return product(self.shape)


def product(shape: tuple[int, ...]) -> int:
    """The number of elements of `shape`."""
    count = 1
    for extent in shape:
        count *= extent
    return count


def dense(shape: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Strides of C order in bytes."""
    if len(shape) == 1:
        return (width,)
    strides: list[int] = []
    step = width
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def ints(what: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """`f(2, 3)` and `f((2, 3))` alike. Raises UsageError for anything but ints; `what` names the call.

    A `Dim` with a fixed size counts as its size; one without has no value on the host.
    """
    flat = tuple(values[0]) if len(values) == 1 and isinstance(values[0], tuple | list) else values
    result = []
    for value in flat:
        if value.__class__ is int:
            result.append(value)
            continue
        if isinstance(value, DimClass) and value.size is None:
            raise UsageError(
                f"`{value.__name__}` has no value on the host, `{what}` wants ints here",
                f"write a number, or inside a kernel `{what}({value.__name__})`",
            )
        number = None if isinstance(value, bool) else index_of(value)
        if number is None:
            help = f"round it: `{what}({int(value)})`" if isinstance(value, float) and isfinite(value) else None
            raise UsageError(f"`{what}` wants ints, not {value!r}", help, rule="shape-mismatch")
        result.append(number)
    return tuple(result)


def index_of(value: Any) -> int | None:
    """An int of Python or NumPy as such; None for anything else, arrays included."""
    try:
        return operator.index(value)
    except TypeError:
        return None


def extents(what: str, values: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape. Raises UsageError for a negative extent, and for more elements than 64-bit indices reach."""
    shape = ints(what, values)
    if len(shape) == 1 and 0 <= shape[0] <= REACH // WIDEST:
        return shape
    for axis, extent in enumerate(shape):
        if extent < 0:
            raise UsageError(f"`{what}` got the extent {extent} on axis {axis}", rule="shape-mismatch")
    if product(tuple(n for n in shape if n)) * WIDEST > REACH:
        raise UsageError(
            f"`{what}` got the shape {shape}, whose bytes 64 bits do not count", "split it", rule="index-overflow"
        )
    return shape


def as_dtype(dtype: Any) -> DTypeClass:
    """One of our element types, given as such or as NumPy's. Raises UsageError (dtype-mismatch)."""
    if isinstance(dtype, DTypeClass) and dtype.name in DTYPES:
        return dtype
    try:
        # NumPy takes None for float64.
        found = None if dtype is None else _BY_NUMPY.get(np.dtype(dtype))
    except (TypeError, ValueError):
        found = None
    if found is None:
        if isinstance(dtype, np.dtype) and dtype.newbyteorder("=") in _BY_NUMPY:
            raise UsageError(
                f"{dtype!r} has its bytes in the order of another machine",
                'turn them: `a.astype(a.dtype.newbyteorder("="))`',
                rule="dtype-mismatch",
            )
        ours = dtype_name(str(dtype))
        help = f"one of {', '.join(DTYPES)}" if ours is None else f"write `tc.{ours}`"
        raise UsageError(f"{dtype!r} is no dtype of tensors", help, rule="dtype-mismatch")
    return found


def array_of(values: Any) -> Array:
    """A host value as a NumPy array. Raises UsageError for what is none, and for one with a mask, which would be lost."""
    if isinstance(values, np.ma.MaskedArray):
        raise UsageError(
            "an array with a mask is not a plain array", "say what stands for masked elements: `a.filled(0)`"
        )
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        help = foreign_help(values, "asarray") or "give every row the same length"
        raise UsageError(f"these values are no array: {error}", help) from None


def foreign_help(owner: Any, function: str) -> str | None:
    """The way out for an array of torch that it does not hand over by itself."""
    if getattr(owner, "requires_grad", False):
        return f"leave its gradient behind: `tc.{function}(a.detach())`"
    if str(getattr(owner, "dtype", "")) == "torch.bfloat16":
        return f"hand over its bits: `tc.{function}(a.view(torch.int16)).view(tc.bf16)`"
    return None


def numbers(values: Any, dtype: DTypeClass | None = None) -> Array:
    """A host value as a NumPy array, which fits into elements of `dtype`.

    Raises UsageError (dtype-mismatch) for strings, objects and complex numbers, and for ints that would wrap around.
    """
    array = array_of(values)
    as_dtype(array.dtype)
    wanted = None if dtype is None else dtype.numpy()
    if wanted is not None and wanted.kind in "iu" and wanted != array.dtype and array.size:
        low, high = array.min(), array.max()
        # A nan compares with nothing.
        if not (low >= np.iinfo(wanted).min and high <= np.iinfo(wanted).max):
            outside = high if low >= np.iinfo(wanted).min else low
            raise UsageError(
                f"{outside} is no {dtype.name if dtype else wanted}",
                "write what fits, or convert as you mean it: `a.astype(...)`",
                rule="dtype-mismatch",
            )
    return array


def reshaped(layout: Layout, width: int, wanted: tuple[int, ...]) -> Layout:
    """The same elements in C order under another shape, one extent of which may be -1.

    Raises UsageError (shape-mismatch) for another number of elements or elements with gaps.
    """
    shape = wanted
    if wanted.count(-1) == 1:
        rest = product(tuple(n for n in wanted if n != -1))
        if rest <= 0 or layout.size % rest:
            raise _no_fit(layout, wanted)
        shape = tuple(layout.size // rest if n == -1 else n for n in wanted)
    if min(shape, default=0) < 0 or product(shape) != layout.size:
        raise _no_fit(layout, wanted)
    if not layout.contiguous(width):
        raise UsageError(
            f"a view with gaps (shape {layout.shape}, strides {layout.strides}) cannot be reshaped in place",
            "reshape a copy: `x.copy().reshape(...)`",
            rule="shape-mismatch",
        )
    return Layout(layout.offset, shape, dense(shape, width))


def select(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, key: tuple[Any, ...]) -> Layout:
    """The view that a subscript names; an int takes its axis away, a slice keeps it.

    Raises UsageError (out-of-bounds) for what lies outside, and for steps below 1.
    """
    if len(key) > len(shape):
        raise UsageError(
            f"{len(key)} subscripts for a tensor of {len(shape)} axes, shape {shape}",
            "one slice or int per axis, fewer are fine",
            rule="out-of-bounds",
        )
    kept_shape: list[int] = []
    kept_strides: list[int] = []
    for axis, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        item = key[axis] if axis < len(key) else slice(None)
        if isinstance(item, slice):
            start, stop, step = _range(item, axis, extent)
            offset += start * stride
            kept_shape.append(-(-(stop - start) // step))
            kept_strides.append(stride * step)
        else:
            index = None if isinstance(item, bool) else index_of(item)
            if index is None:
                raise UsageError(
                    f"the subscript on axis {axis} is {_shown(item)}, neither an int nor a slice",
                    f"gather in a kernel, or index a copy: `{subject('x').strip('`')}.numpy()[...]`",
                )
            offset += _place(index, axis, extent) * stride
    return Layout(offset, tuple(kept_shape), tuple(kept_strides))


def _shown(item: object) -> str:
    """A subscript in a message: an array by its shape, anything else as it prints, cut where that is long."""
    shape = getattr(item, "shape", None)
    if shape is not None:
        return f"an array of shape {tuple(shape)}"
    text = repr(item)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _place(index: int, axis: int, extent: int) -> int:
    if not -extent <= index < extent:
        raise UsageError(f"index {index} is outside axis {axis}, whose extent is {extent}", rule="out-of-bounds")
    return index % extent


def _range(item: slice, axis: int, extent: int) -> tuple[int, int, int]:
    given = (item.start, item.stop, item.step)
    start, stop, step = (
        otherwise if n is None else index_of(n) for n, otherwise in zip(given, (0, extent, 1), strict=True)
    )
    if start is None or stop is None or step is None:
        raise UsageError(f"the slice on axis {axis} has something else than ints: {item}")
    if step < 1:
        raise UsageError(
            f"step {step} on axis {axis}, views only step forward",
            f"reverse a copy: `{subject('x').strip('`')}.numpy()[::{step}]`",
        )
    start, stop = (n + extent if n < 0 else n for n in (start, stop))
    if not 0 <= start <= stop <= extent:
        text = f"{item.start if item.start is not None else ''}:{item.stop if item.stop is not None else ''}"
        raise UsageError(
            f"slice {text} is outside axis {axis}, whose extent is {extent}",
            "slices are not clamped: start <= stop <= extent",
            rule="out-of-bounds",
        )
    return start, stop, step


def _no_fit(layout: Layout, wanted: tuple[int, ...]) -> UsageError:
    return UsageError(
        f"{layout.size} elements of shape {layout.shape} do not fit the shape {wanted}", rule="shape-mismatch"
    )
