"""What is found by bytes is what a look at everything finds."""

from __future__ import annotations

import weakref

from hypothesis import given, settings
from hypothesis import strategies as st

from tilecheck_runtime.spans import Spans


class Item:
    def __init__(self, start: int, length: int) -> None:
        self.start, self.end, self.over = start, start + length, False


steps = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 400), st.integers(0, 90), st.booleans()), max_size=120)


@given(steps)
@settings(deadline=None, derandomize=True, max_examples=60)
def test_what_is_near_is_found(steps: list[tuple[int, int, int, bool]]) -> None:
    spans: Spans[Item] = Spans()
    alive: list[Item] = []
    for what, start, length, long in steps:
        length = length * 8 if long else length
        if what == 0 and alive:
            alive.pop(start % len(alive))
        elif what == 1 and alive:
            alive[start % len(alive)].over = True
        elif what == 2:
            found = spans.near(start, start + length, lambda item: item.over)
            near = [i for i in alive if not i.over and i.start < start + length and i.end > start]
            assert sorted(map(id, found)) == sorted(map(id, near))
            del found
        else:
            item = Item(start, length)
            alive.append(item)
            spans.add(item.start, item.end, weakref.ref(item), lambda item: item.over)
            del item


def test_what_is_gone_is_let_go_of() -> None:
    spans: Spans[Item] = Spans()
    kept = Item(0, 8)
    spans.add(0, 8, weakref.ref(kept), lambda item: item.over)
    for start in range(10_000):
        spans.add(start, start + 8, weakref.ref(Item(start, 8)), lambda item: item.over)
    assert spans._count < 300 and spans.near(0, 1, lambda item: item.over) == [kept]
