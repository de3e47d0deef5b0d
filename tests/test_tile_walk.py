"""The walk of a mapped partition, as generated text, visits what `schedule.position` says."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from tilecheck.interp.schedule import position
from tilecheck_runtime.backends.tile_walk import walk_lines


@pytest.mark.parametrize("counts", [(5,), (3, 2), (4, 7), (1, 1), (2, 3, 4), (3, 1, 5)], ids=str)
def test_the_text_computes_the_position_of_every_number(counts: tuple[int, ...]) -> None:
    names = [f"n{axis}" for axis in range(len(counts))]
    for groups in product((1, 2, 3, 8), repeat=len(counts)):
        lines, places = walk_lines("at", "q", names, groups)
        for number in range(prod(counts)):
            scope: dict[str, int] = {**dict(zip(names, counts, strict=True)), "q": number}
            exec("\n".join(lines), scope)
            assert tuple(eval(place, scope) for place in places) == position(number, counts, groups)


def test_a_group_of_one_tile_needs_no_number_inside() -> None:
    lines, places = walk_lines("at", "q", ["n0", "n1"], (8, 1))
    assert sum("//" in line for line in lines) == 2
    assert places == ["at_f0 + at_o0", "at_f1"]
