"""Arithmetic of host code on arrays: shapes and dtypes, and the contents where they are known and few.

Contents only ever serve to show that a launch goes wrong; no proof rests on them.

Worked example: `np.arange(60) % 11` has shape (60,), dtype int64 and the values 0 to 10, again and again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace

from tilecheck.ir.host_array import Contents, HostArray


def combined(left: object, right: object) -> HostArray:
    """The result of an elementwise operation: shape if it is plain, contents unknown."""
    arrays = [side for side in (left, right) if isinstance(side, HostArray)]
    shapes = {array.shape for array in arrays}
    same = len(shapes) == 1 and (len(arrays) == 2 or isinstance(left if arrays[0] is right else right, int | float))
    dtypes = {array.dtype for array in arrays}
    dtype = next(iter(dtypes)) if len(dtypes) == 1 and len(arrays) == 2 else None
    return HostArray(arrays[0].shape if same else None, dtype, None, all(array.host for array in arrays))


def computed(function: Callable[..., object], left: object, right: object) -> HostArray:
    """`function` of an array and a number or of two arrays, element by element where the contents are known and few."""
    made = combined(left, right)
    array, other = (left, right) if isinstance(left, HostArray) else (right, left)
    if not isinstance(array, HostArray) or isinstance(other, bool) or not isinstance(other, int | float):
        return made
    whole = (array.dtype or "").startswith(("int", "uint"))
    if function is operator.truediv or (whole and isinstance(other, float)):
        dtype: str | None = "float64" if whole else array.dtype
    else:
        dtype = array.dtype
    made = replace(made, dtype=dtype)
    size = array.size
    if (
        not isinstance(array.contents, Contents)
        or size is None
        or size > _FEW
        or made.shape is None
        or dtype not in _COMPUTED
    ):
        return made
    if function in (operator.pow, operator.lshift) and abs(other) > _LARGEST_POWER:
        return made
    given = array.contents.values or [array.contents.start + i * array.contents.step for i in range(size)]
    try:
        items = [function(item, other) if array is left else function(other, item) for item in given]
    except (ArithmeticError, TypeError, ValueError):
        return made
    if not all(isinstance(item, int | float) for item in items):
        return made
    return replace(made, contents=Contents(values=tuple(items)))


# Arrays of more elements are not computed, nor those whose arithmetic wraps early.
_FEW = 4096
_COMPUTED = ("int32", "int64", "float32", "float64")
_LARGEST_POWER = 16
