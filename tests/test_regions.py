"""Overlap of strided regions, against the sets of bytes themselves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tilecheck_runtime import regions
from tilecheck_runtime.regions import Region, overlaps


def bytes_of(region: Region) -> set[int]:
    starts = {region.offset}
    for extent, stride in zip(region.shape, region.strides, strict=True):
        starts = {start + i * stride for start in starts for i in range(extent)}
    return {start + k for start in starts for k in range(region.width)}


axes = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 24)), max_size=3)
views = st.builds(
    lambda offset, axes, width: Region(offset, tuple(n for n, _ in axes), tuple(s for _, s in axes), width),
    st.integers(0, 60),
    axes,
    st.sampled_from([1, 2, 4, 8]),
)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(views, views)
def test_overlap_is_exact(a: Region, b: Region) -> None:
    assert overlaps(a, b) == bool(bytes_of(a) & bytes_of(b)) == overlaps(b, a)


def test_interleaved_columns_are_told_apart_at_any_size() -> None:
    huge = 1 << 40
    even, odd = Region(0, (huge,), (8,), 4), Region(4, (huge,), (8,), 4)
    assert not overlaps(even, odd)
    assert overlaps(even, Region(2, (huge,), (8,), 4))


def test_what_is_too_costly_to_decide_overlaps() -> None:
    rows, gaps = Region(0, (2,), (30,), 4), Region(6, (2,), (42,), 4)
    assert not overlaps(rows, gaps)
    before, regions.RUNS = regions.RUNS, 1
    try:
        assert overlaps(rows, gaps)
    finally:
        regions.RUNS = before
