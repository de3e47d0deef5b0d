"""What is known of the elements of arrays that host code draws, sorts or adds up, without knowing the elements.

Invariant: what a `Drawn` says is true of every array that the call may return; NumPy's integers are 64-bit where no
dtype says otherwise, and sums that might not fit say nothing.

Worked example: `np.cumsum(np.random.randint(0, 9, 100))` is nondecreasing and lies between 0 and 800.
"""

from __future__ import annotations

from tilecheck.ir.host_array import Drawn, HostArray

_LARGEST = 2**63 - 1


def permuted(first: object) -> Drawn | None:
    """`permutation(first)`: the numbers below an int, or the elements of an array of one axis in another order."""
    if isinstance(first, int) and not isinstance(first, bool) and first > 0:
        return Drawn(0, first - 1, distinct=True)
    if isinstance(first, HostArray) and first.shape is not None and len(first.shape) == 1:
        return reordered(first)
    return None


def reordered(array: HostArray) -> Drawn | None:
    """The elements of `array` in an order that is not known."""
    known = array.drawn()
    return None if known is None else Drawn(known.low, known.high, known.distinct)


def integers(name: str, args: list[object], kwargs: dict[str, object]) -> Drawn | None:
    """`randint(low, high, size)` and `integers(low, high, size)`: the upper end is left out."""
    low = args[0] if args else kwargs.get("low")
    high = args[1] if len(args) > 1 else kwargs.get("high")
    if high is None:
        low, high = 0, low
    if kwargs.keys() - {"low", "high", "size", "dtype"} or len(args) > (4 if name == "randint" else 3):
        return None
    if not (isinstance(low, int) and isinstance(high, int)) or low >= high:
        return None
    return Drawn(low, high - 1)


def sorting(array: HostArray) -> Drawn | None:
    """The places that sort an array of one axis: each once."""
    if array.shape is None or len(array.shape) != 1 or not array.size:
        return None
    return Drawn(0, array.size - 1, distinct=True)


def in_order(array: HostArray) -> Drawn | None:
    """The sorted elements of an array of one axis."""
    known = reordered(array)
    if known is None or array.shape is None or len(array.shape) != 1:
        return None
    return Drawn(known.low, known.high, known.distinct, nondecreasing=True)


def added_up(array: HostArray) -> Drawn | None:
    """The running sums of an array of one axis, whose elements are not negative."""
    known, size = array.drawn(), array.size
    if known is None or known.low is None or known.high is None or known.low < 0 or not size:
        return None
    if array.shape is None or len(array.shape) != 1 or known.high * size > _LARGEST:
        return None
    return Drawn(known.low, known.high * size, distinct=known.low > 0, nondecreasing=True)
