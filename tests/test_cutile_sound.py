"""cuTile kernels that look right and are not, and right ones that look wrong: what the reader must not take for granted."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.result import FileResult

HEAD = "import torch\nimport cuda.tile as ct\n\n"
PROVEN = ("proven", "proven-given")


def checked(body: str) -> FileResult:
    return check_text("k.py", HEAD + textwrap.dedent(body), Modules(), Options())


def race(result: FileResult, kernel: str = "k") -> str:
    (found,) = [each for each in result.kernels if each.name == kernel]
    return found.verdicts["race-free"].verdict


def rules(result: FileResult) -> set[str]:
    return {finding.rule for finding in result.diagnostics}


@pytest.mark.parametrize(
    "call",
    [
        "ct.store(a, (0,))",
        "ct.load(a)",
        "ct.gather(a)",
        "ct.scatter(a, 0)",
        "ct.atomic_add(a, 0)",
        "ct.num_tiles(a)",
        "a.tiled_view((8,)).store((0,))",
        "a.tiled_view((8,)).load()",
        "a.tiled_view((8,)).num_tiles()",
    ],
)
def test_a_call_without_an_argument_is_not_read_and_other_kernels_are(call: str) -> None:
    result = checked(f"""
        @ct.kernel
        def k(a):
            {call}

        @ct.kernel
        def whole(a):
            ct.store(a, (0,), ct.full((8,), ct.bid(0), ct.int32))
        """)
    shown = next(each for each in result.kernels if each.name == "k").verdicts["race-free"]
    assert shown.verdict == "unknown"
    assert shown.reason is not None
    assert "without its argument" in shown.reason
    assert race(result, "whole") == "refuted"


@pytest.mark.parametrize(
    "call", ["ct.reshape()", "ct.sum()", "ct.mma()", "ct.where()", "ct.cat()", "ct.mma_scaled(a, a)"]
)
def test_a_function_without_operands_has_a_value_that_is_not_known(call: str) -> None:
    assert (
        race(
            checked(f"""
        @ct.kernel
        def k(a):
            ct.store(a, (ct.bid(0),), {call})
        """)
        )
        == "unknown"
    )


MASKED = """
@ct.kernel
def k(a, out, T: ct.Constant[int]):
    i = ct.bid(0)
    lanes = i * T + ct.arange(T, dtype=ct.int32)
    t = {tile}
    ct.store(out, (i,), ct.sum(t, axis=0, keepdims=True))

def main():
    a = torch.rand(1000, device="cuda")
    ct.launch(torch.cuda.current_stream(), (8,), k, (a, torch.zeros(8, device="cuda"), 128))
"""


@pytest.mark.parametrize(
    ("tile", "found"),
    [
        ("ct.load(a, (i,), (T,))", {"void-lanes"}),
        ("ct.where(lanes < a.shape[0], ct.load(a, (i,), (T,)), 0.0)", set()),
    ],
    ids=["as loaded", "masked"],
)
def test_a_mask_drops_the_lanes_that_hang_over(tile: str, found: set[str]) -> None:
    assert rules(checked(MASKED.format(tile=tile))) == found


@pytest.mark.parametrize("axis", [0, 1])
def test_an_axis_that_only_the_value_depends_on_may_be_long(axis: int) -> None:
    result = checked(f"""
        @ct.kernel
        def k(c, T: ct.Constant[int]):
            ct.store(c, (ct.bid(0),), ct.full((T,), ct.bid({axis}), ct.int32))
        """)
    assert (race(result) in PROVEN) == (axis == 0)


CAST = """
@ct.kernel
def k(c, T: ct.Constant[int]):
    ct.store(c, ({place},), ct.full((T,), ct.bid(0), ct.int32))

def main():
    c = torch.zeros(2**20, dtype=torch.int32, device="cuda")
    ct.launch(torch.cuda.current_stream(), (300,), k, (c, 128))
"""


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        ("ct.astype(ct.bid(0), ct.int32)", True),
        ("ct.astype(ct.astype(ct.bid(0), ct.int64), ct.int32)", True),
        ("ct.astype(ct.bid(0), ct.int8)", False),
        ("ct.bid(0).astype(ct.uint8)", False),
        ("ct.astype(ct.astype(ct.bid(0), ct.uint8), ct.int32)", False),
        ("ct.astype(ct.astype(ct.bid(0), ct.int64) * 4294967296, ct.int32)", False),
    ],
)
def test_a_cast_that_may_wrap_is_no_identity(place: str, fits: bool) -> None:
    assert (race(checked(CAST.format(place=place))) in PROVEN) == fits


def test_lanes_of_few_bits_are_not_followed() -> None:
    result = checked("""
        @ct.kernel
        def k(c, T: ct.Constant[int]):
            i = ct.bid(0) * T + ct.arange(T, dtype=ct.int32)
            ct.scatter(c, ct.astype(i, ct.int16), i)
        """)
    assert race(result) == "unknown"


BITS = """
@ct.kernel
def k(c{kind}):
    i = ct.bid(0){head}
    j = i * 65536
    {guard}ct.store(c, ({place},), ct.full((1,), i, ct.int32))

def main():
    c = torch.zeros(2**33, dtype=torch.int32, device="cuda")
    ct.launch(torch.cuda.current_stream(), ({blocks},), k, (c,))
"""


@pytest.mark.parametrize(
    ("place", "blocks", "found"),
    [
        ("i * 100000", 30000, True),
        ("i * 100000", 300, False),
        ("j * 65536", 2, True),
        ("i << 31", 2, True),
        ("i << 20", 2, False),
        ("i * 100000 % 7", 30000, True),
    ],
)
def test_index_arithmetic_is_held_against_the_launch(place: str, blocks: int, found: bool) -> None:
    result = checked(BITS.format(kind="", head="", guard="", place=place, blocks=blocks))
    assert ("index-overflow" in rules(result)) == found
    assert (race(result) in PROVEN) != found


def test_arithmetic_under_a_condition_is_in_doubt_only() -> None:
    result = checked(BITS.format(kind="", head="", guard="if i < 20000: ", place="i * 100000", blocks=30000))
    assert "index-overflow" not in rules(result)
    assert race(result) == "unknown"


def test_arithmetic_of_64_bits_has_room() -> None:
    text = BITS.format(kind=": ct.IndexedWithInt64", head=".astype(ct.int64)", guard="", place="j * 65536", blocks=2)
    result = checked(text)
    assert "index-overflow" not in rules(result)
    assert race(result) in PROVEN


LANES = """
@ct.kernel
def k(c, N: ct.Constant[int]):
    b = ct.bid(0)
    j = ct.arange(64, dtype=ct.int32)
    r, t = ct.arange(8, dtype=ct.int32)[:, None], ct.arange(8, dtype=ct.int32)[None, :]
    ct.scatter(c, (b, {place}), {value})
"""


@pytest.mark.parametrize(
    ("place", "value", "apart"),
    [
        ("j", "j", True),
        ("63 - j * 3", "j", True),
        ("j ^ 5", "j", True),
        ("j // 4 * 8 + j % 4", "j", True),
        ("j // 4 * 3 + j % 4", "j", False),
        ("j // 2", "j", False),
        ("j // 2", "1", True),
        ("j * 0", "j", False),
        ("j % 32", "j", False),
        ("r * 8 + t", "r + t", True),
        ("r * 7 + t", "r + t", False),
        ("r + t", "r - t", False),
    ],
)
def test_lanes_of_a_scatter_that_may_meet_are_not_proved(place: str, value: str, apart: bool) -> None:
    assert (race(checked(LANES.format(place=place, value=value))) in PROVEN) == apart


@pytest.mark.parametrize(("pitch", "apart"), [(8, True), (7, False)])
def test_a_launch_tells_the_pitch_of_rows(pitch: int, apart: bool) -> None:
    launch = f"""
def main():
    c = torch.zeros((4, 64), dtype=torch.int32, device="cuda")
    ct.launch(torch.cuda.current_stream(), (4,), k, (c, {pitch}))
"""
    assert (race(checked(LANES.format(place="r * N + t", value="r + t") + launch)) in PROVEN) == apart
