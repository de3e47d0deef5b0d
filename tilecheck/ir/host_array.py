"""Arrays as host code shows them: shape, dtype, buffer and, where it is trivial, contents.

A `HostArray` is a strided window on a numbered buffer, so that two arguments that share memory are seen to: `x[1:]` and
`x[:-1]` have one `buffer` and overlapping offsets. An extent that could not be read is None. Contents are kept only as
a recipe, or as what is known of elements that nobody wrote down; whatever else happened to the array makes them None.

Worked example: `cuda.to_device(np.arange(60.0))[1:]` has shape (59,), dtype float64, offset 1, and contents that start
at 1 in steps of 1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from math import isfinite

Extent = int | None
_buffers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Contents:
    """Element `i` (row-major) is `start + i * step`, or `values[i]` when `values` is given."""

    start: float = 0
    step: float = 0
    values: tuple[object, ...] | None = None


@dataclass(frozen=True, slots=True)
class Drawn:
    """Integers from `low` to `high`, both included (None: open); `distinct` if no value occurs twice, `nondecreasing` if
    none is less than the one before it, in an array of one axis.

    `np.random.permutation(60)` is `Drawn(0, 59, distinct=True)`.
    """

    low: int | None = None
    high: int | None = None
    distinct: bool = False
    nondecreasing: bool = False


@dataclass(frozen=True, slots=True)
class HostArray:
    """`shape` is None when even the rank is unknown. `offset` and `strides` count elements of `buffer`; None when they
    are unknown. `host` arrays are copied at each launch, so they never overlap on the device.
    """

    shape: tuple[Extent, ...] | None
    dtype: str | None = None
    contents: Contents | Drawn | None = None
    host: bool = True
    buffer: int = field(default_factory=lambda: next(_buffers))
    offset: int | None = 0
    strides: tuple[int | None, ...] | None = None

    @property
    def size(self) -> Extent:
        """The number of elements, None if an extent is unknown."""
        total = 1
        for extent in self.shape if self.shape is not None else (None,):
            if extent is None:
                return None
            total *= extent
        return total

    def drawn(self) -> Drawn | None:
        """What is known of the elements of an array of integers, None if nothing is or a conversion may have changed them."""
        limits = limits_of(self.dtype)
        made = self.contents if isinstance(self.contents, Drawn) else _summary(self.contents, self.size)
        if limits is None or made is None or made.low is None or made.high is None:
            return None
        return made if limits[0] <= made.low and made.high <= limits[1] else None

    def steps(self) -> tuple[int | None, ...]:
        """The strides in elements, row-major unless stated."""
        assert self.shape is not None
        if self.strides is not None:
            return self.strides
        result: list[int | None] = []
        step: int | None = 1
        for extent in reversed(self.shape):
            result.append(step)
            step = None if step is None or extent is None else step * extent
        return tuple(reversed(result))

    def fresh(self, *, host: bool | None = None) -> HostArray:
        """A copy in a buffer of its own, on the same side unless stated; whether it keeps the layout of what is not
        row-major is not known.
        """
        host = self.host if host is None else host
        if self.contiguous() or self.shape is None or len(self.shape) == 1:
            kept = self.contiguous() or self.shape is not None
            return HostArray(self.shape, self.dtype, self.contents if kept else None, host)
        return HostArray(self.shape, self.dtype, None, host, strides=(None,) * len(self.shape))

    def contiguous(self) -> bool:
        return self.strides is None

    def vague(self) -> HostArray:
        """The same array after something unknown was written to it."""
        return replace(self, contents=None)

    def window(self, index: list[object]) -> HostArray | None:
        """The view `array[index]` of positions and slices, None if it cannot be told (a slice bound that is no int
        makes that extent unknown). With a position for every axis the view has shape ().
        """
        if self.shape is None or len(index) > len(self.shape):
            return None
        shape: list[Extent] = []
        strides: list[int | None] = []
        offset = self.offset
        steps = self.steps()
        for axis, extent in enumerate(self.shape):
            part = index[axis] if axis < len(index) else slice(None)
            step = steps[axis]
            if isinstance(part, slice):
                if part == slice(None):
                    shape.append(extent)
                    strides.append(step)
                    continue
                if extent is None or not all(
                    b is None or isinstance(b, int) for b in (part.start, part.stop, part.step)
                ):
                    shape.append(None)
                    strides.append(step if part.step is None else None)
                    offset = None
                    continue
                start, stop, by = part.indices(extent)
                shape.append(len(range(start, stop, by)))
                strides.append(None if step is None else step * by)
                offset = None if offset is None or step is None else offset + start * step
            elif isinstance(part, int):
                at = part + extent if part < 0 and extent is not None else part
                offset = None if offset is None or step is None else offset + at * step
            else:
                return None
        view = replace(self, shape=tuple(shape), strides=tuple(strides), offset=offset)
        return replace(view, contents=self._window(view))

    def element(self, at: int | None) -> object:
        """The element at position `at` of the buffer, None if it is not known."""
        if not isinstance(self.contents, Contents) or at is None or self.offset is None or self.shape is None:
            return None
        if not self.contiguous() and len(self.shape) != 1:
            return None
        step = self.steps()[0] if len(self.shape) == 1 else 1
        if not step or (at - self.offset) % step:
            return None
        place = (at - self.offset) // step
        if self.contents.values is not None:
            inside = 0 <= place < len(self.contents.values)
            return self.contents.values[place] if inside else None
        return self.contents.start + place * self.contents.step

    def _window(self, view: HostArray) -> Contents | Drawn | None:
        if isinstance(self.contents, Drawn):
            line = len(self.shape or ()) == len(view.shape or ()) == 1
            step, new = (self.steps()[0], view.steps()[0]) if line else (None, None)
            forward = step is not None and new is not None and step > 0 and new > 0
            return replace(self.contents, nondecreasing=self.contents.nondecreasing and forward)
        if self.contents is None or self.contents.values is not None:
            return None
        if self.contents.step == 0:
            return self.contents
        one_axis = len(self.shape or ()) == 1 and len(view.shape or ()) == 1
        if not one_axis or view.offset is None or self.offset is None:
            return None
        own, new = self.steps()[0], view.steps()[0]
        if not own or new is None:
            return None
        first = (view.offset - self.offset) // own
        return Contents(self.contents.start + first * self.contents.step, self.contents.step * (new // own))


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """Something made of `values` in a way that is not known: a view, a copy, a container of them, or a number.

    `folded` says that elements of it may share memory with one another. `turn` is set for one of several names that hold
    the same arrays in an order that is not known: the object is common to them, the number tells them apart.
    """

    values: tuple[object, ...]
    folded: bool = False
    turn: tuple[object, int] | None = None


@dataclass(frozen=True, slots=True)
class Unseen(HostArray):
    """The memory of a stranger, if it has any."""


@dataclass(frozen=True, slots=True, eq=False)
class Stranger:
    """Something of which only its source is known: a parameter, or what an unknown call gives.

    `parts` are its attributes and items by constant names; different ones are taken for different things.
    """

    array: Unseen = field(default_factory=lambda: Unseen(None, host=False))
    parts: dict[object, Stranger] = field(default_factory=dict)

    def part(self, kind: str, key: object) -> Stranger:
        """The attribute or item `key`, the same one each time."""
        return self.parts.setdefault((kind, key), Stranger())


def overlap(a: HostArray, b: HostArray) -> bool | None:
    """Whether two arguments of one launch share an element on the device; None if it cannot be told.

    Host arrays are copied per argument, and different buffers never overlap.
    """
    if a.buffer != b.buffer or a.host or b.host:
        return False
    if a.shape is None or b.shape is None or a.offset is None or b.offset is None:
        return None
    if a.shape == b.shape and a.offset == b.offset and a.steps() == b.steps():
        return None if a.size is None else a.size > 0
    cells_a, cells_b = _cells(a), _cells(b)
    if cells_a is None or cells_b is None:
        return None
    return not cells_a.isdisjoint(cells_b)


_MAX_CELLS = 1 << 16


def _cells(array: HostArray) -> set[int] | None:
    """The positions in its buffer that `array` covers; None if unknown or too many to list."""
    if array.shape is None or array.offset is None or array.size is None or array.size > _MAX_CELLS:
        return None
    found = {array.offset}
    for extent, step in zip(array.shape, array.steps(), strict=True):
        if extent is None or step is None:
            return None
        found = {at + k * step for at in found for k in range(extent)}
    return found


DTYPES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}


def limits_of(dtype: str | None) -> tuple[int, int] | None:
    """The least and the largest value of an integer dtype, None for any other."""
    if dtype is None or not dtype.startswith(("int", "uint")) or dtype not in DTYPES:
        return None
    bits = 8 * DTYPES[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _summary(contents: Contents | None, size: Extent) -> Drawn | None:
    """What a recipe shows of `size` elements that it makes, None if they are no integers."""
    if contents is None or not size:
        return None
    if contents.values is not None:
        whole = [v for v in contents.values if isinstance(v, int) and not isinstance(v, bool)]
        if len(whole) != len(contents.values):
            return None
        return Drawn(min(whole), max(whole), len(set(whole)) == len(whole), sorted(whole) == whole)
    first, step = contents.start, contents.step
    if not (isfinite(first) and isfinite(step)) or int(first) != first or int(step) != step:
        return None
    ends = (int(first), int(first) + (size - 1) * int(step))
    return Drawn(min(ends), max(ends), step != 0, step >= 0)


def itemsize(dtype: str) -> int | None:
    """Bytes of one element, None for a dtype that is not a plain number."""
    return DTYPES.get(dtype)
