"""Random trees of ops against plain Python: the same value, every leaf run exactly once, whatever is shared by whom."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilecheck as tc
from tilecheck_runtime import DeviceOp

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


@pytest.fixture(autouse=True)
def _collected() -> Iterator[None]:
    """A tree that hypothesis gave up while it was drawn is a cycle; its unrun ops must not warn in another test."""
    yield
    gc.collect()


@dataclass
class Builder:
    """Builds an op and, next to it, the value that it must have."""

    draw: st.DrawFn
    hits: list[int] = field(default_factory=list)
    leaves: int = 0
    shared: list[tuple[DeviceOp[Any], Any]] = field(default_factory=list)

    def leaf(self) -> tuple[DeviceOp[Any], Any]:
        number, self.leaves = self.leaves, self.leaves + 1

        def hit(value: int) -> int:
            self.hits.append(number)
            return value

        return tc.value(number).map(hit), number

    def tree(self, depth: int) -> tuple[DeviceOp[Any], Any]:
        kind = self.draw(st.sampled_from(["leaf", "map", "then", "zip", "first", "last", "unzip", "share", "reuse"]))
        if depth == 0 or kind == "leaf" or (kind == "reuse" and not self.shared):
            return self.leaf()
        if kind == "reuse":
            return self.draw(st.sampled_from(self.shared))
        op, value = self.tree(depth - 1)
        match kind:
            case "map":
                return op.map(lambda v: ("map", v)), ("map", value)
            case "then":
                inner, result = self.tree(depth - 1)
                return op.then(lambda v: inner.map(lambda w: (v, w))), (value, result)
            case "share":
                self.shared.append((op.shared(), value))
                return self.shared[-1]
        other, second = self.tree(depth - 1)
        both = tc.zip(op, other)
        match kind:
            case "zip":
                return both, (value, second)
            case "first":
                return both.first(), value
            case "last":
                return both.last(), second
        left, right = both.unzip()
        return tc.zip(right, left), (second, value)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.data())
def test_a_tree_of_ops_is_its_value_and_each_leaf_runs_once(data: st.DataObject) -> None:
    builder = Builder(data.draw)  # type: ignore[arg-type]
    op, value = builder.tree(4)
    assert op.sync() == value
    assert len(builder.hits) == len(set(builder.hits))
    for shared, expected in builder.shared:
        assert shared.sync() == expected
    assert sorted(builder.hits) == list(range(builder.leaves))
