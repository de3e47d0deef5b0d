"""Overlap against sets of numbers: what it calls disjoint or overlapping is so, on arrays of any length."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tilecheck.borrow.places import Overlap, cut, overlap, reshaped, sliced
from tilecheck.ir.instructions import END, WHOLE, Range, Region

Bounds = tuple[int | None, int | None, int]
bound = st.one_of(st.none(), st.integers(-9, 9))
bounds = st.tuples(bound, bound, st.sampled_from([1, 1, 1, 2]))


def region(chain: list[Bounds]) -> Region:
    part = WHOLE
    for start, stop, step in chain:
        low = 0 if start is None else start + END if start < 0 else start
        high = END if stop is None else stop + END if stop < 0 else stop
        part = sliced(part, (Range(low, high, step),))
    return part


def elements(chain: list[Bounds], size: int) -> set[int]:
    values = np.arange(size)
    for start, stop, step in chain:
        values = values[start:stop:step]
    return set(values.tolist())


@settings(max_examples=600, deadline=None, derandomize=True)
@given(st.lists(bounds, max_size=2), st.lists(bounds, max_size=2))
def test_overlap_is_right_when_it_answers(one: list[Bounds], other: list[Bounds]) -> None:
    answer = overlap(region(one), region(other))
    if elements(one, 200) and elements(other, 200):
        assert overlap(region(other), region(one)) is answer
    for size in (5, 12, 40, 200):
        a, b = elements(one, size), elements(other, size)
        if answer is Overlap.DISJOINT:
            assert not a & b
    # Long arrays: no slice of the two is empty by accident of the length.
    a, b = elements(one, 200), elements(other, 200)
    if answer is Overlap.OVERLAPS and a and b:
        assert a & b


def test_halves_of_a_split_are_disjoint_and_other_coordinates_unknown() -> None:
    low, high = cut(WHOLE, 1, 0), cut(WHOLE, 1, 1)
    assert overlap(low, high) is Overlap.DISJOINT
    assert overlap(low, WHOLE) is Overlap.OVERLAPS
    assert overlap(cut(low, 2, 0), cut(low, 2, 1)) is Overlap.DISJOINT
    assert overlap(low, cut(WHOLE, 3, 0)) is Overlap.UNKNOWN
    first = (Range(0, 4),)
    assert overlap(sliced(high, first), sliced(WHOLE, first)) is Overlap.UNKNOWN
    assert overlap(sliced(reshaped(WHOLE, 5), first), sliced(WHOLE, first)) is Overlap.UNKNOWN
    assert overlap(reshaped(WHOLE, 5), sliced(WHOLE, first)) is Overlap.OVERLAPS


def test_unknown_bounds_are_unknown() -> None:
    assert overlap(sliced(WHOLE, (Range(0, None),)), sliced(WHOLE, (Range(8, END),))) is Overlap.UNKNOWN
    assert overlap(sliced(WHOLE, (Range(0, 8),)), sliced(WHOLE, (Range(8, END),))) is Overlap.DISJOINT
    two = sliced(WHOLE, (Range(None, None), Range(0, 4)))
    assert overlap(two, sliced(WHOLE, (Range(None, None), Range(4, 8)))) is Overlap.DISJOINT
