"""Blocks that find their tile in bands: proved apart without a launch, and what is proved holds for small launches."""

from __future__ import annotations

import textwrap
from itertools import product
from types import SimpleNamespace

import pytest

from tilecheck.frontend.cutile import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.symbolic.smt_bands import banded, lemmas_of
from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_read import evaluate, subterms
from tilecheck.symbolic.smt_symbols import Symbols
from tilecheck.symbolic.smt_terms import add, div, ite, lt, mod, mul, sub
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Answer, Property, Verdict

KERNEL = """
import cuda.tile as ct


@ct.kernel
def number(c, TM: ct.Constant[int], TN: ct.Constant[int], G: ct.Constant[int]):
    rows, columns = ct.cdiv(c.shape[0], TM), ct.cdiv(c.shape[1], TN)
    {head}
        wide = G * columns
        band = p // wide
        first = band * G
        size = min(rows - first, G)
        i, j = {place}
        ct.store(c, (i, j), ct.zeros((TM, TN), ct.float32))
"""
ONE_TILE = "p = ct.bid(0)\n    if True:"
WALK = "for p in range(ct.bid(0), rows * columns, ct.num_blocks(0)):"
RIGHT = {
    "rotated rows": "first + p % size, p % wide // size",
    "plain rows": "first + p % wide % size, p % wide // size",
    "columns backwards": "first + p % size, columns - 1 - p % wide // size",
}
WRONG = {
    "two rows of a band": "first + p % 2, p % wide // size",
    "columns of a whole band": "first + p % wide % size, p % wide // G",
    "band left out": "p % size, p % wide // size",
    "band halved": "first // 2 + p % size, p % wide // size",
    "columns shared": "first + p % size, p % wide // size // 2",
}


def verdict(head: str, place: str) -> Answer:
    text = KERNEL.format(head=head, place=place)
    (kernel,) = read_kernels(Source("k.py", textwrap.dedent(text)), lambda name: None)
    return check_kernel(kernel, budget=4).verdicts[Property.RACE_FREE]


def meets(head: str, place: str, answer: Answer) -> bool:
    """Whether two blocks of a small launch that satisfies the conditions of `answer` store one tile."""
    for height, width, band, blocks in product((3, 8, 20), (2, 9), (1, 2, 3, 8), (1, 4, 7, 24)):
        scope = {
            "c": SimpleNamespace(shape=(height, width)),
            "TM": 2,
            "TN": 2,
            "G": band,
            "gridDim": SimpleNamespace(x=blocks),
        }
        if not all(eval(condition, {}, scope) for condition in answer.conditions):
            continue
        rows, columns = -(-height // 2), -(-width // 2)
        owner: dict[tuple[int, int], int] = {}
        for block in range(blocks):
            for p in [block] if head == ONE_TILE else range(block, rows * columns, blocks):
                wide = band * columns
                first = p // wide * band
                size = min(rows - first, band)
                names = {"p": p, "columns": columns, "wide": wide, "first": first, "size": size, "G": band}
                tile = eval(place, {}, names)
                inside = all(0 <= at < count for at, count in zip(tile, (rows, columns), strict=True))
                if inside and owner.setdefault(tile, block) != block:
                    return True
    return False


@pytest.mark.parametrize("head", [ONE_TILE, WALK], ids=["a block a tile", "persistent"])
@pytest.mark.parametrize("place", RIGHT.values(), ids=RIGHT)
def test_bands_are_proved_without_a_launch(head: str, place: str) -> None:
    answer = verdict(head, place)
    assert answer.verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN), answer
    assert not meets(head, place, answer)
    if head == ONE_TILE:
        assert any(text.startswith("gridDim.x <=") for text in answer.conditions)


@pytest.mark.parametrize("place", WRONG.values(), ids=WRONG)
def test_wrong_bands_are_not_proved(place: str) -> None:
    answer = verdict(WALK, place)
    assert meets(WALK, place, Answer(Verdict.PROVEN))
    assert answer.verdict not in (Verdict.PROVEN, Verdict.PROVEN_GIVEN) or not meets(WALK, place, answer)


def numbering(rows: Term, columns: Term, band: Term, number: Term) -> tuple[Term, Term]:
    which = div(number, mul(band, columns))
    left = sub(rows, mul(band, which))
    size = ite(lt(left, band), left, band)
    return add(mul(band, which), mod(number, size)), div(mod(number, mul(band, columns)), size)


def test_the_lemma_is_true_of_small_numbers() -> None:
    symbols = Symbols()
    rows, columns, band, number = (symbols.fresh(name, Level.GRID, low=-3) for name in ("m", "n", "g", "p"))
    place = numbering(rows, columns, band, number)
    (found,) = banded(subterms(place))
    assert (found.rows, found.columns, found.band) == (rows, columns, band)
    (lemma,) = lemmas_of(subterms(place))
    shown = 0
    for values in product(range(-1, 6), range(-1, 5), range(-1, 5), range(-2, 22)):
        names = dict(zip((t.symbol for t in (rows, columns, band, number)), values, strict=True))
        try:
            assert evaluate(lemma, {s: v for s, v in names.items() if s is not None}), values
            shown += 1
        except ZeroDivisionError:
            # The term has no value there, and neither has the kernel.
            continue
    assert shown > 1000
