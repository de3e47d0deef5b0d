"""Facts about array elements: what they prove, that each is needed, that they are checked, and what they never excuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests import random_contents
from tests.contents_kernels import CASES, OUT, Case, X, ints
from tests.random_contents import agrees, scatters
from tests.test_prover import report, worst
from tilecheck.check import Options, check_text
from tilecheck.interp.contents import broken, kept, made
from tilecheck.modules import Modules
from tilecheck.symbolic.linear import Atom, Unresolved
from tilecheck.symbolic.requires import Comparison, Vocabulary, parse
from tilecheck.verify import known
from tilecheck.verify.simt import SimtReport
from tilecheck.verify.verdict import Property, Verdict

common = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": True, "database": None}
common["phases"] = [Phase.generate]


def nothing(atom: Atom) -> int:
    raise Unresolved(f"`{atom}` is not known")


# ---- what they prove


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_facts_prove_what_goes_through_arrays(case: Case) -> None:
    assert worst(report(case.text())) is Verdict.PROVEN


@pytest.mark.parametrize(
    ("case", "part"), [(case, part) for case in CASES for part in case.needed], ids=lambda value: str(value)[:40]
)
def test_each_fact_is_needed(case: Case, part: str) -> None:
    assert worst(report(case.without(part))) in (Verdict.UNKNOWN, Verdict.REFUTED)


def verdict(body: str, requires: str, params: str = f"{OUT}, {ints('p')}") -> SimtReport:
    return report(Case("one", params, body, requires, ()).text())


STRAY = [
    ("z[p[i]] = i", "0 <= p <= z.size and distinct(p)"),
    ("z[p[i]] = i", "-1 <= p < z.size and distinct(p)"),
    ("z[p[i] + 1] = i", "0 <= p < z.size and distinct(p)"),
    ("z[2 * p[i]] = i", "0 <= p < z.size and distinct(p)"),
]


@pytest.mark.parametrize(("store", "requires"), STRAY)
def test_bounds_that_are_off_by_one_are_no_proof(store: str, requires: str) -> None:
    found = verdict(f"i = cuda.grid(1)\nif i < p.size:\n    {store}", requires)
    assert found.verdicts[Property.IN_BOUNDS].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


RACY = [
    ("z[p[i] // 2] = i", "0 <= p < z.size and distinct(p)"),
    ("z[p[i // 2]] = i", "0 <= p < z.size and distinct(p)"),
    ("z[p[i] % 8] = i", "0 <= p and z.size >= 8 and distinct(p)"),
    ("z[p[i]] = i", "0 <= p < z.size and nondecreasing(p)"),
    ("z[p[i]] = z[i]", "0 <= p < z.size and z.size >= p.size and distinct(p)"),
]


@pytest.mark.parametrize(("store", "requires"), RACY)
def test_distinct_places_do_not_excuse_what_meets_behind_them(store: str, requires: str) -> None:
    found = verdict(f"i = cuda.grid(1)\nif i < p.size:\n    {store}", requires)
    assert found.verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


def test_segments_that_share_an_end_race() -> None:
    loop = "r = cuda.grid(1)\nif r < p.size - 1:\n    for k in range(p[r], p[r + 1]{}):\n        z[k] = r"
    facts = "nondecreasing(p) and 0 <= p < z.size"
    assert worst(verdict(loop.format(""), facts)) is Verdict.PROVEN
    assert worst(verdict(loop.format(" + 1"), facts)) in (Verdict.UNKNOWN, Verdict.REFUTED)


def test_facts_hold_only_inside_of_the_array() -> None:
    """Past its end there is somebody else's element, of which nothing is known."""
    body = "i = cuda.grid(1)\nz[p[i]] = i"
    found = verdict(body, "0 <= p < z.size and distinct(p)")
    assert found.verdicts[Property.IN_BOUNDS].verdict is not Verdict.PROVEN


def test_facts_are_void_for_what_the_kernel_writes() -> None:
    body = "i = cuda.grid(1)\nif i < p.size:\n    z[p[i]] = i\n    p[i] = 0"
    params = f"{OUT}, p: Tensor[Mut, i32, Dyn]"
    found = verdict(body, "0 <= p < z.size and distinct(p)", params)
    assert found.verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


def test_facts_of_floats_say_nothing_of_indices() -> None:
    """`0 <= x < 1` leaves many floats, and their integer parts are not distinct."""
    body = "i = cuda.grid(1)\nif i < x.size and x.size <= z.size:\n    z[int(4 * x[i])] = i"
    found = verdict(body, "0 <= x < 1 and distinct(x)", f"{OUT}, {X}")
    assert found.verdicts[Property.RACE_FREE].verdict in (Verdict.UNKNOWN, Verdict.REFUTED)


@pytest.mark.parametrize("cast", ["tc.i8", "tc.u8", "tc.i16"])
def test_facts_end_where_a_cast_drops_bits(cast: str) -> None:
    found = verdict(f"i = cuda.grid(1)\nif i < p.size:\n    z[{cast}(p[i])] = i", "0 <= p < z.size and distinct(p)")
    assert found.verdicts[Property.RACE_FREE].verdict is not Verdict.PROVEN


def test_a_refutation_keeps_what_is_required() -> None:
    """The scatter races with itself and with what comes after it; the witness is a launch that would be accepted."""
    body = "i = cuda.grid(1)\nif i < p.size:\n    z[p[i]] = i\n    z[0] = i"
    found = verdict(body, "0 <= p < z.size and distinct(p) and p.size >= 40 and z.size >= 70")
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED
    assert all(finding.witness.launch["p.shape"] >= (40,) for finding in found.findings)
    assert all(finding.witness.launch["z.shape"] >= (70,) for finding in found.findings)


def test_what_cannot_be_is_never_refuted() -> None:
    """Only elements below 0 would stray, and a launch with those is refused."""
    body = "i = cuda.grid(1)\nif i < p.size and p[i] < z.size:\n    cuda.atomic.add(z, p[i], 1.0)"
    assert worst(verdict(body, "p >= 0", f"z: Tensor[tc.Atomic, f32, Dyn], {ints('p')}")) is Verdict.PROVEN
    below = verdict(body, "p >= -1", f"z: Tensor[tc.Atomic, f32, Dyn], {ints('p')}")
    assert below.verdicts[Property.IN_BOUNDS].verdict is Verdict.REFUTED


# ---- what they mean

FACTS = Vocabulary({"a": None}, frozenset())
TEXTS = ("0 <= a", "a < 6", "a != 2", "distinct(a)", "nondecreasing(a)", "a == 3")
SHORT = st.lists(st.integers(-2, 7), max_size=6)


def plainly(text: str, elements: list[int]) -> bool:
    """What a fact means, said once more."""
    match text:
        case "distinct(a)":
            return len(set(elements)) == len(elements)
        case "nondecreasing(a)":
            return sorted(elements) == elements
    return all(eval(text, {"a": element}) for element in elements)


@settings(max_examples=300, **common)
@given(st.sampled_from(TEXTS), SHORT, st.sampled_from(["int32", "int64", "float32"]))
def test_facts_mean_what_python_says(text: str, elements: list[int], dtype: str) -> None:
    (fact,) = parse(text, FACTS)
    assert not isinstance(fact, Comparison)
    assert (broken(fact, np.array(elements, dtype), nothing) is None) is plainly(text, elements)


@settings(max_examples=200, **common)
@given(st.sets(st.sampled_from(TEXTS[:5])), st.integers(0, 6), st.integers(0, 5))
def test_made_elements_keep_the_facts(texts: set[str], size: int, seed: int) -> None:
    facts = [part for text in sorted(texts) for part in parse(text, FACTS) if not isinstance(part, Comparison)]
    elements = made(facts, np.full(size, -1), nothing, seed)
    assert kept(facts, elements, nothing) or "a != 2" in texts or (size > 6 and "distinct(a)" in texts)


def test_broken_facts_name_their_elements() -> None:
    def words(text: str, elements: object) -> str | None:
        (fact,) = parse(text, FACTS)
        assert not isinstance(fact, Comparison)
        return broken(fact, np.asarray(elements), nothing)

    assert words("a < 6", [1, 9, 7]) == "element 1 of `a` is 9"
    assert words("distinct(a)", [[4, 2], [5, 2]]) == "elements (0, 1) and (1, 1) of `a` are both 2"
    assert words("nondecreasing(a)", [0, 3, 2]) == "element 1 of `a` is 3, element 2 is 2"
    assert words("nondecreasing(a)", [[0, 3]]) == "`a` has rank 2, and one order for rank 1 only"
    assert words("a < 6", [np.nan]) == "element 0 of `a` is nan"
    assert words("distinct(a)", []) is None
    assert words("distinct(a)", np.array([2**63 + 1, 2**63 + 1], np.uint64)) is not None
    assert words("distinct(a)", np.array([-128, 127], np.int8)) is None


# ---- against the executor


@settings(max_examples=100, **common)
@given(scatters(), st.integers(0, 1000))
def test_proofs_from_facts_agree_with_the_executor(kernel: random_contents.Scatter, seed: int) -> None:
    agrees(kernel, seed)


@pytest.mark.parametrize("fact", ["distinct", "nondecreasing", "bounds"])
def test_a_prover_that_takes_more_for_granted_is_caught(fact: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say, between = known.Known.say, known.Known.between

    def believing(method: Callable[..., object]) -> Callable[..., object]:
        def call(self: known.Known, *arguments: object) -> object:
            if fact == "bounds":
                self.bounds += [(">=", random_contents.ZERO), ("<", random_contents.FOUR)]
            else:
                setattr(self, fact, True)
            return method(self, *arguments)

        return call

    monkeypatch.setattr(known.Known, "say", believing(say))
    monkeypatch.setattr(known.Known, "between", believing(between))
    assert random_contents.disagreement(200, loops=fact == "nondecreasing") is not None


# ---- in words


def test_an_open_scatter_is_told_what_to_say(tmp_path: Path) -> None:
    def found(requires: str) -> list[tuple[str, str]]:
        text = Case(
            "one", f"{OUT}, {ints('p')}", "i = cuda.grid(1)\nif i < p.size:\n    z[p[i]] = i", requires, ()
        ).text()
        result = check_text(str(tmp_path / "k.py"), text, Modules(), Options())
        return [(d.rule, f"{d.help} {d.notes} {d.witness}") for d in result.diagnostics]

    open_ones = found("")
    assert [rule for rule, _ in open_ones] == ["unproven", "unproven"]
    assert "the index of `z` is taken from `p`" in open_ones[0][1] and '`requires="distinct(p)"`' in open_ones[0][1]
    assert '`requires="0 <= p < z.size"`' in open_ones[1][1]
    ((rule, words),) = found("0 <= p < z.size")
    assert rule == "data-race" and 'say so: `requires="distinct(p)"`' in words and "'p': '[0, 0]'" in words
    assert found("0 <= p < z.size and distinct(p)") == []


def test_a_call_that_writes_its_elements_down_is_checked(tmp_path: Path) -> None:
    kernel = next(case for case in CASES if case.name == "scatter").text()
    calls = "import numpy as np\nz, x = tc.zeros(8), tc.ones(4)\n"
    for elements in ("[1, 2, 7, 2]", "[1, 2, 8, 3]", "[1, 2, 7, 3]"):
        calls += f"k(z.partition(64), x, tc.asarray(np.array({elements}, np.int32))).sync()\n"
    result = check_text(str(tmp_path / "k.py"), f"{kernel}\n{calls}", Modules(), Options())
    assert [(d.rule, d.message) for d in result.diagnostics] == [
        ("launch-contract", "`k` needs `distinct(perm)`: elements 1 and 3 of `perm` are both 2"),
        ("launch-contract", "`k` needs `perm < z.size`: element 2 of `perm` is 8, and `z.size` is 8"),
    ]
