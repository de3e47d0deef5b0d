"""Extents: `Dim`, a compile-time extent that is a type and a value at once, and `Dyn`, one known at run time.

`class BM(Dim): ...` gets one value per launch, bound by the partitions, the arguments or `where(BM=...)`. The class
object is its identity: two classes called `BM` are two extents. `class D64(Dim, size=64): ...` has its value from the
start. As types they make `Tile[f32, BM, BK]` differ from `Tile[f32, BK, BM]`; as values they are ints in kernels
(`BM * 2`, `range(BM)`), and on the host too when the size is fixed.

    >>> class D64(Dim, size=64): ...
    >>> D64 // 2
    32
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from tilecheck.surface.errors import UsageError

N = TypeVar("N", int, float)


class DimClass(type):
    """The metaclass of extents: arithmetic on the class is arithmetic on its value.

    Every operator needs the value and raises `UsageError` on the host for a `Dim` without `size=`. Equality between
    classes is identity, so that they stay usable as keys.
    """

    size: int | None

    def __repr__(cls) -> str:
        return cls.__name__ if cls.size is None else f"{cls.__name__}={cls.size}"

    def __index__(cls) -> int:
        if cls.size is None:
            raise UsageError(
                f"`{cls.__name__}` has no value outside a kernel",
                f"its value belongs to a launch; for a fixed one write `class {cls.__name__}(Dim, size=...)`",
            )
        return cls.size

    __int__ = __index__

    def __float__(cls) -> float:
        return float(cls.__index__())

    def __hash__(cls) -> int:
        return type.__hash__(cls)

    def __eq__(cls, other: object) -> bool:
        return cls is other or (isinstance(other, int) and cls.__index__() == other)

    def __lt__(cls, other: Any) -> bool:
        return bool(cls.__index__() < _value(other))

    def __le__(cls, other: Any) -> bool:
        return bool(cls.__index__() <= _value(other))

    def __gt__(cls, other: Any) -> bool:
        return bool(cls.__index__() > _value(other))

    def __ge__(cls, other: Any) -> bool:
        return bool(cls.__index__() >= _value(other))

    def __neg__(cls) -> int:
        return -cls.__index__()

    @overload
    def __add__(cls, other: int | DimClass) -> int: ...
    @overload
    def __add__(cls, other: float) -> float: ...
    def __add__(cls, other: Any) -> Any:
        return cls.__index__() + _value(other)

    @overload
    def __radd__(cls, other: int) -> int: ...
    @overload
    def __radd__(cls, other: float) -> float: ...
    def __radd__(cls, other: Any) -> Any:
        return other + cls.__index__()

    @overload
    def __sub__(cls, other: int | DimClass) -> int: ...
    @overload
    def __sub__(cls, other: float) -> float: ...
    def __sub__(cls, other: Any) -> Any:
        return cls.__index__() - _value(other)

    @overload
    def __rsub__(cls, other: int) -> int: ...
    @overload
    def __rsub__(cls, other: float) -> float: ...
    def __rsub__(cls, other: Any) -> Any:
        return other - cls.__index__()

    @overload
    def __mul__(cls, other: int | DimClass) -> int: ...
    @overload
    def __mul__(cls, other: float) -> float: ...
    def __mul__(cls, other: Any) -> Any:
        return cls.__index__() * _value(other)

    @overload
    def __rmul__(cls, other: int) -> int: ...
    @overload
    def __rmul__(cls, other: float) -> float: ...
    def __rmul__(cls, other: Any) -> Any:
        return other * cls.__index__()

    @overload
    def __floordiv__(cls, other: int | DimClass) -> int: ...
    @overload
    def __floordiv__(cls, other: float) -> float: ...
    def __floordiv__(cls, other: Any) -> Any:
        return cls.__index__() // _value(other)

    @overload
    def __rfloordiv__(cls, other: int) -> int: ...
    @overload
    def __rfloordiv__(cls, other: float) -> float: ...
    def __rfloordiv__(cls, other: Any) -> Any:
        return other // cls.__index__()

    @overload
    def __mod__(cls, other: int | DimClass) -> int: ...
    @overload
    def __mod__(cls, other: float) -> float: ...
    def __mod__(cls, other: Any) -> Any:
        return cls.__index__() % _value(other)

    @overload
    def __rmod__(cls, other: int) -> int: ...
    @overload
    def __rmod__(cls, other: float) -> float: ...
    def __rmod__(cls, other: Any) -> Any:
        return other % cls.__index__()

    def __truediv__(cls, other: float | DimClass) -> float:
        return float(cls.__index__() / _value(other))

    def __rtruediv__(cls, other: float) -> float:
        return other / cls.__index__()


def _value(other: N | DimClass) -> N | int:
    return other.__index__() if isinstance(other, DimClass) else other


class Dim(metaclass=DimClass):
    """Base of the compile-time extents. `size=` fixes one: an int of at least 1.

    Raises `UsageError` for a size that is no positive int, for an instance (`BM()`) and for a subclass of a named
    extent, which would be two extents in one.
    """

    size = None

    def __init_subclass__(cls, size: int | None = None) -> None:
        base = cls.__mro__[1]
        if base is not Dim:
            raise UsageError(
                f"`{cls.__name__}` derives from the extent `{base.__name__}`",
                f"an extent derives from `Dim` itself: `class {cls.__name__}(Dim): ...`",
            )
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 1):
            raise UsageError(f"`{cls.__name__}` has size {size!r}, which is no positive int")
        cls.size = size

    def __new__(cls, *given: object) -> Dim:
        if given:
            raise UsageError(
                f"`{cls.__name__}(...)` makes no extent", "declare it: `class BM(Dim): ...`, or with `size=128`"
            )
        raise UsageError(
            f"`{cls.__name__}()` makes an instance of an extent", f"use the class itself: `{cls.__name__}`"
        )


class _Dyn:
    """A run-time extent. Type checkers read `Any`; at run time it is this one object."""

    def __repr__(self) -> str:
        return "Dyn"


Dyn: Any = _Dyn()


class One(Dim, size=1):
    """The extent 1: what `keepdims=True` leaves of a reduced axis, and what stretches in elementwise ops."""
