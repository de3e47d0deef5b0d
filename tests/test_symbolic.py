"""Index arithmetic, the grammar of conditions, and the small prover behind the bounds ladder."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilecheck.ir.types import ArrayExtent, DimExtent
from tilecheck.symbolic.contents import Bounded, ElementFact, Ordered
from tilecheck.symbolic.linear import (
    Atom,
    Fresh,
    LaunchAxis,
    Poly,
    Scalar,
    Size,
    Unresolved,
    bounds,
    ceil_div,
    divide,
    fits_int64,
    replace,
)
from tilecheck.symbolic.prove import implies
from tilecheck.symbolic.requires import Comparison, RequiresError, Vocabulary, parse

WORDS = Vocabulary(
    {"x": 1, "y": 2, "w": None},
    frozenset({"n", "i"}),
    {"BM": DimExtent("k::BM", "BM"), "D8": 8},
    frozenset({"gridDim", "blockDim"}),
)
X, Y0, Y1 = ArrayExtent("x", 0), ArrayExtent("y", 0), ArrayExtent("y", 1)
VALUES: dict[Atom, int] = {
    Scalar("n"): 7,
    Scalar("i"): -3,
    X: 100,
    Y0: 9,
    Y1: 11,
    Size("x"): 100,
    DimExtent("k::BM", "BM"): 16,
    LaunchAxis("gridDim", 0): 5,
    LaunchAxis("blockDim", 1): 64,
}


def value(atom: Atom) -> int:
    if atom not in VALUES:
        raise Unresolved(f"`{atom}` is not known")
    return VALUES[atom]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("x.size >= x.shape[0]", True),
        ("x.shape[0] % 16 == 4", True),
        ("i // 2 == -2 and i % 2 == 1", True),
        ("0 < n <= y.shape[0] < y.shape[1]", True),
        ("n * (y.shape[1] - 1) + 2 == 72", True),
        ("gridDim.x * BM > x.size", False),
        ("blockDim.y % 32 == 0", True),
        ("D8 != 8", False),
        ("-n < +n", True),
    ],
)
def test_conditions_mean_what_python_says(text: str, holds: bool) -> None:
    assert all(c.holds(value) for c in parse(text, WORDS) if isinstance(c, Comparison)) is holds


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("x < n", Bounded("x", "<", Poly.of(Scalar("n")), "x < n")),
        ("n > x", Bounded("x", "<", Poly.of(Scalar("n")), "n > x")),
        ("distinct(y)", Ordered("y", "distinct")),
        ("nondecreasing(w)", Ordered("w", "nondecreasing")),
    ],
)
def test_an_array_stands_for_its_elements(text: str, fact: ElementFact) -> None:
    assert parse(text, WORDS) == (fact,)
    assert fact.text == text


def test_a_chain_around_an_array_is_two_facts() -> None:
    assert [part.text for part in parse("n >= 2 and 0 <= x < y.size", WORDS)] == ["n >= 2", "0 <= x", "x < y.size"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("q.size > 0", "`q` is no array parameter"),
        ("m > 0", "`m` is no int parameter"),
        ("x + 1 > 0", "`x` is an array"),
        ("y.shape[2] > 0", "`y.shape[2]` is no axis of `y`, which has rank 2"),
        ("y.shape[-1] > 0", "no axis"),
        ("y.shape[n] > 0", "the axis is no number"),
        ("n % 0 == 0", "divides by zero"),
        ("n // (2 - 2) == 0", "divides by zero"),
        ("n / 2 == 0", "not part of the language"),
        ("n > 0 or i > 0", "not part of the language"),
        ("not n > 0", "not part of the language"),
        ("n", "not part of the language"),
        ("n > 0.5", "not part of the language"),
        ("x.dtype == 3", "`x.dtype` is no number"),
        ("threadIdx.x == 3", "`threadIdx` is no array parameter"),
        ("n ==", "does not parse"),
        ("__import__('os') == 1", "not part of the language"),
        ("(" * 5000, "does not parse"),
        ("x < y", "`x < y` compares two arrays"),
        ("sorted(x)", "`sorted(x)` is not part of the language"),
        ("distinct(n)", "`n` is no array parameter"),
        ("distinct(x, w)", "`distinct(x, w)` is of no array"),
        ("nondecreasing(y)", "`y` has rank 2"),
        ("distinct(x) > 0", "not part of the language"),
    ],
)
def test_what_conditions_cannot_say_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(RequiresError) as refused:
        parse(text, WORDS)
    assert words in refused.value.message


def test_block_extents_are_no_word_of_tile_kernels() -> None:
    with pytest.raises(RequiresError, match=r"`blockDim.x` is nothing"):
        parse("blockDim.x > 1", Vocabulary({}, frozenset()))


def test_a_missing_operand_is_never_true() -> None:
    (condition,) = parse("w.shape[0] >= 0", WORDS)
    with pytest.raises(Unresolved, match="w"):
        condition.holds(value)
    zero = Comparison(">=", divide("//", Poly.of(X), Poly.of(Scalar("n"))), Poly.of(0), "")
    with pytest.raises(Unresolved, match="divisor"):
        zero.holds(lambda atom: 0)


def test_equal_polynomials_are_equal_and_readable() -> None:
    i, n, tile = Poly.of(Scalar("i")), Poly.of(Scalar("n")), Poly.of(DimExtent("k", "BM"))
    assert (i + n - n) == i and (i + n) * (i - n) == i * i - n * n
    assert str(i * tile - Poly.of(2)) == "BM * i - 2"
    assert str(ceil_div(Poly.of(X), tile)) == "ceil(x.shape[0] / BM)"
    assert ceil_div(Poly.of(100), Poly.of(16)) == Poly.of(7) and ceil_div(i, Poly.of(1)) == i
    assert replace(ceil_div(Poly.of(X), tile), lambda a: Poly.of(32) if isinstance(a, DimExtent) else None) == ceil_div(
        Poly.of(X), Poly.of(32)
    )


def test_bounds_hold_at_every_launch() -> None:
    count = ceil_div(Poly.of(X), Poly.of(DimExtent("k", "BM")))
    low, high = bounds(count)
    assert low == 0 and high is not None and high <= 1 << 40
    assert fits_int64(count * Poly.of(1000))
    assert not fits_int64(Poly.of(Scalar("n")) + Poly.of(1))
    assert bounds(divide("%", Poly.of(Scalar("n")), Poly.of(8))) == (0, 7)


def says(text: str) -> Comparison:
    (found,) = parse(text, WORDS)
    return found


@pytest.mark.parametrize(
    ("facts", "goal", "follows"),
    [
        ("i >= 0 and i <= 7", "i * 16 < 128", True),
        ("i >= 0 and i <= 8", "i * 16 < 128", False),
        ("x.size >= y.shape[0] and i < y.shape[0]", "i < x.size", True),
        ("i < n // 4", "i * 4 < n", True),
        ("i <= n // 4", "i * 4 < n", False),
        ("n % 8 == 0", "n % 8 < 1", True),
        ("n == 3 and i == n + 1", "i == 4", True),
        ("n >= 1", "n != 0", True),
        ("n >= 0", "n != 0", False),
        ("n > i and n < i", "n < 0", True),
        ("x.size >= 3", "n < 0", False),
    ],
)
def test_implies(facts: str, goal: str, follows: bool) -> None:
    assert implies(parse(facts, WORDS), says(goal)) is follows


def test_implies_speaks_about_symbolic_tiles() -> None:
    tile = Poly.of(DimExtent("k::BM", "BM"))
    i = Poly.of(Fresh(1, "i", 0))
    count = ceil_div(Poly.of(Y0), tile)
    facts = [Comparison("<", i, count, ""), says("x.shape[0] >= y.shape[0]")]
    goal = Comparison("<", i * tile, Poly.of(X), "")
    assert implies(facts, goal, (tile,))
    assert not implies(facts[:1], goal, (tile,))


@pytest.mark.parametrize("others", [0, 20, 400])
def test_implies_does_not_depend_on_the_number_of_other_facts(others: int) -> None:
    i, n = Poly.of(Scalar("i")), Poly.of(Scalar("n"))
    facts = [Comparison(">=", i + Poly.of(Fresh(k, f"f{k}", 0)), n * Poly.of(2), "") for k in range(others)]
    facts += [Comparison(">=", i + Poly.of(Scalar("m")), Poly.of(k), "") for k in range(others)]
    facts += [says("i < n"), says("x.size >= n + 3")]
    assert implies(facts, says("i + 3 < x.size"))
    assert not implies(facts, says("i + 4 < x.size"))


numbers = st.integers(-4, 4)
atoms = st.sampled_from(["n", "i", "1"])
sums = st.lists(st.tuples(numbers, atoms), min_size=1, max_size=3).map(
    lambda parts: " + ".join(f"({c}) * {a}" for c, a in parts)
)
quotients = st.builds(lambda s, op, d: f"({s}) {op} {d}", sums, st.sampled_from(["//", "%"]), st.integers(1, 5))
relations = st.builds(
    lambda a, r, b: f"{a} {r} {b}",
    sums | quotients,
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    sums | quotients,
)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(relations, max_size=3), relations)
def test_implies_is_sound(facts: list[str], goal: str) -> None:
    """What is said to follow holds at every point where the facts do."""
    given_facts = [c for fact in facts for c in parse(fact, WORDS)]
    wanted = says(goal)
    if implies(given_facts, wanted):
        for n, i in product(range(-6, 7), repeat=2):
            here = {Scalar("n"): n, Scalar("i"): i}
            if all(c.holds(here.__getitem__) for c in given_facts):
                assert wanted.holds(here.__getitem__)
