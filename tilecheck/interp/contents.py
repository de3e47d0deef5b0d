"""What the facts about the elements of an array mean: which element breaks one, and elements that keep them all.

The launch asks `broken` of the arrays it is about to hand over; the search for counterexamples asks `made` for contents
that a launch would accept. A check reads every element: it takes time in proportion to the size of the array, and
`distinct` sorts, unless the elements are integers that lie close together, as those of a permutation do.

Worked example: `broken(Ordered("perm", "distinct"), np.array([2, 0, 2]), value)` is
"elements 0 and 2 of `perm` are both 2".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilecheck.symbolic.contents import Bounded, ElementFact, Relation
from tilecheck.symbolic.linear import Atom, Unresolved

Array = np.ndarray[Any, Any]
_COMPARE: dict[Relation, Callable[[Any, Any], Any]] = {
    "==": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
# Where nothing bounds the elements from one side, made ones stay this close to the other.
_SPREAD = 64
# As many places for each element are looked at to see which are taken.
_DENSE = 8


def broken(fact: ElementFact, elements: Array, value: Callable[[Atom], int]) -> str | None:
    """Which elements break `fact`, in words; None if none does. Raises `Unresolved` for a bound without a value."""
    if isinstance(fact, Bounded):
        bound = fact.bound.evaluate(value)
        wrong = np.flatnonzero(~_COMPARE[fact.relation](elements, bound))
        if not wrong.size:
            return None
        shown = "" if fact.bound.constant is not None else f", and `{fact.bound}` is {bound}"
        return f"element {_at(int(wrong[0]), elements)} of `{fact.array}` is {_shown(elements, int(wrong[0]))}{shown}"
    if fact.order == "distinct":
        return _twice(fact.array, elements)
    if elements.ndim != 1:
        return f"`{fact.array}` has rank {elements.ndim}, and one order for rank 1 only"
    falls = np.flatnonzero(~(elements[:-1] <= elements[1:]))
    if not falls.size:
        return None
    at = int(falls[0])
    first, second = _shown(elements, at), _shown(elements, at + 1)
    return f"element {at} of `{fact.array}` is {first}, element {at + 1} is {second}"


def _twice(name: str, elements: Array) -> str | None:
    flat = elements.ravel()
    if _all_apart(flat):
        return None
    order = np.argsort(flat, kind="stable")
    equal = np.flatnonzero(flat[order[:-1]] == flat[order[1:]])
    if not equal.size:
        return None
    first, second = (int(order[equal[0] + k]) for k in (0, 1))
    return f"elements {_at(first, elements)} and {_at(second, elements)} of `{name}` are both {_shown(elements, first)}"


def _all_apart(flat: Array) -> bool:
    """Whether integers that lie close together are distinct, without sorting them; False says nothing."""
    if flat.dtype.kind not in "iu" or not flat.size:
        return False
    low, high = int(flat.min()), int(flat.max())
    if high - low >= _DENSE * flat.size or high >= 1 << 63:
        return False
    seen = np.zeros(high - low + 1, np.bool_)
    seen[flat.astype(np.int64) - low] = True
    return int(np.count_nonzero(seen)) == flat.size


def _at(position: int, elements: Array) -> str:
    if elements.ndim == 1:
        return str(position)
    return str(tuple(int(k) for k in np.unravel_index(position, elements.shape)))


def _shown(elements: Array, position: int) -> str:
    return str(elements.ravel()[position].item())


def kept(facts: Sequence[ElementFact], elements: Array, value: Callable[[Atom], int]) -> bool:
    """Whether `elements` keep all facts; a bound without a value is not kept."""
    try:
        return all(broken(fact, elements, value) is None for fact in facts)
    except Unresolved:
        return False


def made(facts: Sequence[ElementFact], elements: Array, value: Callable[[Atom], int], seed: int) -> Array:
    """Elements like `elements` that keep the facts where that is possible: those of integers are made anew.

    Even seeds use the low end of the range, odd ones are spread over it. Raises `Unresolved` for a bound without a value.
    """
    if elements.dtype.kind not in "iu" or not facts:
        return elements
    limits = np.iinfo(elements.dtype)
    low, high = max(limits.min, -(1 << 62)), min(limits.max, 1 << 62)
    bounded = {True: False, False: False}
    for fact in facts:
        if isinstance(fact, Bounded) and fact.relation != "!=":
            bound = fact.bound.evaluate(value)
            if fact.relation in (">=", ">", "=="):
                low, bounded[True] = max(low, bound + (fact.relation == ">")), True
            if fact.relation in ("<=", "<", "=="):
                high, bounded[False] = min(high, bound - (fact.relation == "<")), True
    spread = max(_SPREAD, 2 * elements.size)
    if not bounded[True]:
        low = max(low, min(0, high) - (spread if high < 0 else 0))
    if not bounded[False] or high - low > spread:
        high = min(high, low + spread)
    if high < low:
        return elements
    random = np.random.default_rng(seed)
    orders = {fact.order for fact in facts if not isinstance(fact, Bounded)}
    if "distinct" in orders:
        if high - low + 1 < elements.size:
            return elements
        top = low + elements.size if seed % 2 == 0 else high + 1
        chosen = random.permutation(np.arange(low, top))[: elements.size]
    else:
        chosen = random.integers(low, high + 1, elements.size)
    if "nondecreasing" in orders:
        chosen = np.sort(chosen)
    return chosen.astype(elements.dtype).reshape(elements.shape)


def put(facts: Sequence[ElementFact], elements: Array, place: tuple[int, ...], element: float) -> None:
    """Set one element, and change others so that an order among them stays."""
    orders = {fact.order for fact in facts if not isinstance(fact, Bounded)}
    if "nondecreasing" in orders and elements.ndim == 1:
        (at,) = place
        elements[:at] = np.minimum(elements[:at], element)
        elements[at + 1 :] = np.maximum(elements[at + 1 :], element)
    elif "distinct" in orders:
        elements[elements == element] = elements[place]
    elements[place] = element
