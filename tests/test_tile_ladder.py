"""The bounds ladder: which rung shows an access, what is left to the launch, and how a launch is refused."""

from __future__ import annotations

import pytest

from tests.tile_text import MAPPED, ONE, TWO, check, refusal, rungs
from tilecheck.ir.printer import show
from tilecheck.verify.verdict import Property, Verdict

N = f"{ONE}, n: int"
STRICT = 'checks="launch"'
LOOP = "xs = x.partition(B)\nacc = tc.zeros(B)\nfor k in {range}:\n    acc = acc + xs[{index}]\nz.store(acc)"

RUNGS = [
    ("its own tile count", LOOP.format(range="range(xs.num_tiles(0))", index="k"), ONE, "provenance"),
    ("a later start of it", LOOP.format(range="range(1, xs.num_tiles(0))", index="k"), ONE, "provenance"),
    ("a stepped loop over it", LOOP.format(range="range(0, xs.num_tiles(0), 2)", index="k"), ONE, "provenance"),
    ("a grid-stride loop", LOOP.format(range="range(tc.block_id(0), xs.num_tiles(0), tc.num_blocks(0))", index="k"), ONE, "provenance"),
    ("a copy of the index", LOOP.format(range="range(xs.num_tiles(0))", index="k + 1 - 1"), ONE, "provenance"),
    ("the last tile", "xs = x.partition(B)\nz.store(xs[xs.num_tiles(0) - 1])", ONE, "launch"),
    ("backwards", LOOP.format(range="range(xs.num_tiles(0) - 1, -1, -1)", index="k"), ONE, "static"),
    ("constants", "z.store(x.partition(D8)[1].sum() + tc.zeros(B))", ONE.replace("Dyn", "D16"), "static"),
    ("a guard", "xs = x.partition(B)\nif 0 <= n < xs.num_tiles(0):\n    z.store(xs[n])\nelse:\n    z.store(z.load())", N, "static"),
    ("an early return", "xs = x.partition(B)\nif n < 0 or n >= xs.num_tiles(0):\n    return\nz.store(z.load() + xs[n])", N, "static"),
    ("min and max", "xs = x.partition(B)\nt = z.load()\nif x.size > 0:\n    t = xs[max(0, min(n, xs.num_tiles(0) - 1))]\nz.store(t)", N, "static"),
    ("remainder", "xs = x.partition(B)\nif xs.num_tiles(0) > 0:\n    z.store(z.load() + xs[n % xs.num_tiles(0)])", N, "static"),
    ("a bare block id", "z.store(x.partition(B)[tc.block_id(0)])", ONE, "block-id"),
    ("a block id by another name", "i = tc.block_id(0)\nj = i + 0\nz.store(x.partition(B)[j])", ONE, "block-id"),
    ("twice a block id", "z.store(x.partition(B)[2 * tc.block_id(0)])", ONE, "in-place"),
    ("the first tile", "z.store(x.partition(B)[0])", ONE, "launch"),
    ("tiles of another tensor", "xs, ys = x.partition(B), y.partition(B)\nfor k in range(xs.num_tiles(0)):\n    z.store(ys[k] + z.load())", TWO.replace("x:", "y:", 0), "launch"),
    ("a scalar", "z.store(x.partition(B)[n])", N, "in-place"),
    ("a scalar in a loop", LOOP.format(range="range(4)", index="n"), N, "hoisted"),
    ("a counted scalar range", LOOP.format(range="range(n)", index="k"), N, "hoisted"),
    ("an affine index", LOOP.format(range="range(n)", index="3 * k"), N, "in-place"),
    ("a stepped scalar range", LOOP.format(range="range(0, n, 2)", index="k"), N, "in-place"),
    ("under a branch of the loop", "xs = x.partition(B)\nfor k in range(4):\n    if z.load().sum().item() > 0:\n        z.store(xs[n])", N, "in-place"),
    ("a loop that may break", "xs = x.partition(B)\nfor k in range(4):\n    if z.load().sum().item() > 0:\n        break\n    z.store(xs[n])", N, "in-place"),
    ("a while loop", "xs = x.partition(B)\nk = 0\nwhile k < n:\n    z.store(xs[n] + z.load())\n    k += 1", N, "in-place"),
    ("computed in the body", "xs = x.partition(B)\nfor k in range(4):\n    j = z.load().sum().astype(i32).item()\n    z.store(xs[j])", N, "in-place"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "params", "rung"), [c[1:] for c in RUNGS], ids=[c[0] for c in RUNGS])
def test_rungs(body: str, params: str, rung: str) -> None:
    report = check(body, params)
    assert [f.rule for f in report.faults if f.rule != "partial-coverage"] == []
    array = "y" if "ys[" in body else "x"
    assert rungs(report, array) == [rung]


def test_a_permuted_view_walks_the_axis_that_it_names() -> None:
    params = "z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f32, Dyn, Dyn]"
    body = (
        "xs = x.partition(BM, BN, permute=(1, 0))\nacc = tc.zeros(BM, BN)\n"
        "for i in range(xs.num_tiles({})):\n    acc = acc + xs[i, 0]\nz.store(acc)"
    )
    assert rungs(check(body.format(0), params), "x") == ["provenance", "launch"]
    assert rungs(check(body.format(1), params), "x") == ["launch", "static"]


def test_proofs_end_at_joins_and_reassignment() -> None:
    loop = "xs = x.partition(B)\nacc = tc.zeros(B)\nfor k in range(xs.num_tiles(0)):\n    at = k\n{}    acc = acc + xs[at]\nz.store(acc)"
    assert rungs(check(loop.format("    if n > 0:\n        at = k + n\n"), N), "x") == ["in-place"]
    assert rungs(check(loop.format("    if n > 0:\n        at = k\n"), N), "x") == ["provenance"]
    assert rungs(check(loop.format("    k = k + 1\n    at = k\n"), N), "x") == ["launch"]


def test_a_counter_that_its_while_bounds_stays_above_its_start() -> None:
    body = "xs = x.partition(B)\nk = {start}\nwhile k < {stop}:\n    z.store(z.load() + xs[k])\n    {step}"
    tiles = "xs.num_tiles(0)"
    assert rungs(check(body.format(start="0", stop=tiles, step="k += 1")), "x") == ["static"]
    assert rungs(check(body.format(start="tc.block_id(0)", stop=tiles, step="k = k + 2")), "x") == ["static"]
    assert rungs(check(body.format(start="-1", stop=tiles, step="k += 1")), "x") == ["in-place"]
    assert rungs(check(body.format(start="0", stop=tiles, step="k -= 1")), "x") == ["in-place"]
    assert rungs(check(body.format(start="0", stop=tiles, step="k = k * 2")), "x") == ["in-place"]
    assert rungs(check(body.format(start="0", stop="n", step="k += 1"), N), "x") == ["in-place"]
    wrapping = "xs = x.partition(B)\nk = 0\nwhile True:\n    if k < xs.num_tiles(0):\n        z.store(z.load() + xs[k])\n    k += 2 ** 62"
    assert rungs(check(wrapping), "x") == ["in-place"]


def test_a_loop_variable_is_unknown_after_its_loop() -> None:
    body = "xs = x.partition(B)\nk = 0\nfor k in range({}):\n    z.store(z.load() * 2)\nz.store(xs[k])"
    assert rungs(check(body.format("n"), N), "x") == ["in-place"]
    assert rungs(check(body.format("n").replace("for k", "for j"), N), "x") == ["launch"]


def test_known_branches_keep_the_facts_of_the_side_that_runs() -> None:
    body = "p = tc.block_id(0)\nif not FAST:\n    p = n\nz.store(x.partition(B)[p])"
    fast = check(body, N, STRICT, "FAST = True")
    assert not fast.faults and rungs(fast, "x") == ["block-id"]
    slow = check(body, N, STRICT, "FAST = False")
    assert [f.rule for f in slow.faults] == ["check-in-kernel"]


def test_extents_of_whole_arrays_are_larger_than_tiles() -> None:
    """The product of two extents of arrays may leave 64 bits, that of a tile count and a tile may not."""
    whole = "z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, C]"
    body = "xs = x.partition(B)\nj = {} * xs.num_tiles(0)\nif 0 <= j < xs.num_tiles(0):\n    z.store(z.load() + xs[j - {}])"
    assert rungs(check(body.format("C * C", "0"), whole), "x") == ["static"]
    assert rungs(check(body.format("B", "B * xs.num_tiles(0)"), whole), "x") != ["in-place"]
    assert rungs(check(body.format("C * C", "C * C * xs.num_tiles(0)"), whole), "x") == ["in-place"]


def test_overflow_ends_facts() -> None:
    """`k + n` may wrap for a 64-bit `n`; a bounded `n` may not."""
    body = "xs = x.partition(B)\nfor k in range(xs.num_tiles(0)):\n    j = k + n\n    if 0 <= j < xs.num_tiles(0):\n        z.store(z.load() + xs[j - n])"
    assert rungs(check(body, N), "x") == ["in-place"]
    assert rungs(check(body, N, 'requires="0 <= n and n < 1000"'), "x") == ["provenance"]


# ---- declared facts


def test_declared_facts_show_an_access_and_are_checked_at_each_launch() -> None:
    body = "z.store(x.partition(B)[n])"
    report = check(body, N, f'{STRICT}, requires="0 <= n and n < x.size // B"')
    assert not report.faults and rungs(report, "x") == ["declared"]
    assert refusal(report, {"x": (64,), "z": (8,)}, dims={"B": 8}, n=7) is None
    refused = refusal(report, {"x": (64,), "z": (8,)}, dims={"B": 8}, n=8)
    assert refused is not None and refused.rule == "launch-contract"
    assert "`n < x.size // B` does not hold: 8 against 8" in refused.message


def test_a_true_but_irrelevant_declaration_shows_nothing() -> None:
    assert rungs(check("z.store(x.partition(B)[n])", N, 'requires="z.size >= 1 and n >= 0"'), "x") == ["in-place"]


def test_declared_extents_replace_launch_checks() -> None:
    body = (
        "xs, ys = x.partition(B), y.partition(B, pad=0.0)\nacc = tc.zeros(B)\n"
        "for k in range(xs.num_tiles(0)):\n    acc = acc + ys[k]\nz.store(acc)"
    )
    plain = check(body, TWO)
    assert rungs(plain, "y") == ["launch"] and len(plain.conditions) == 1
    for condition in ("x.size == y.size", "y.shape[0] >= x.shape[0]"):
        report = check(body, TWO, f'requires="{condition}"')
        assert rungs(report, "y") == ["declared"]
        assert [c.rule for c in report.conditions] == ["launch-contract"]
    same = "z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, C], y: Tensor[Shared, f32, C]"
    assert rungs(check(body, same), "y") == ["provenance"] and not check(body, same).conditions


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        ("q.shape[0] == z.shape[0]", "`q` is no array parameter"),
        ("z.shape[3] % 8 == 0", "`z.shape[3]` is no axis of `z`"),
        ("z.shape[0] % 0 == 0", "divides by zero"),
        ("z.size", "compares two numbers"),
    ],
)
def test_declarations_that_mean_nothing_are_refused_when_checked(requires: str, words: str) -> None:
    (fault,) = check("z.store(z.load())", ONE, f'requires="{requires}"').faults
    assert fault.rule == "usage" and words in f"{fault.message} {fault.help}"


# ---- launch conditions


def test_a_block_id_on_another_tensor_compares_the_grid_with_its_tiles() -> None:
    report = check("z.store(x.partition(B)[tc.block_id(0)])", ONE, STRICT)
    assert not report.faults
    assert refusal(report, {"x": (60,), "z": (60,)}, (8, 1, 1), {"B": 8}) is None
    refused = refusal(report, {"x": (56,), "z": (64,)}, (8, 1, 1), {"B": 8})
    assert refused is not None and refused.rule == "out-of-bounds"
    assert refused.message == "`k`: the grid has 8 blocks on axis 0, `x` has 7 tiles of 8 on its axis 0"
    assert refused.help == "`x` needs at least 57 elements on axis 0, or the launch fewer blocks"


def test_what_a_launch_was_checked_for_holds_for_later_accesses() -> None:
    body = "xs, i = x.partition(B), tc.block_id(0)\nt = xs[i]\nif i > 0:\n    t = t + xs[i - 1]\nz.store(t)"
    assert rungs(check(body, ONE, STRICT), "x") == ["block-id", "static"]


def test_a_short_input_of_load_like_is_refused_with_both_extents() -> None:
    report = check("z.store(tc.load_like(x, z))")
    assert refusal(report, {"x": (1024,), "z": (1024,)}, (8, 1, 1), {"B": 128}) is None
    assert refusal(report, {"x": (2000,), "z": (1024,)}, (8, 1, 1), {"B": 128}) is None
    refused = refusal(report, {"x": (512,), "z": (1024,)}, (8, 1, 1), {"B": 128})
    assert refused is not None and refused.rule == "shape-mismatch"
    assert "`x` has 512 elements on axis 0, `z` has 1024" in refused.message
    prefix = refusal(report, {"x": (512,), "z": (1024,)}, (4, 1, 1), {"B": 128})
    assert prefix is None, "a grid that covers a prefix reads no further than that"


def test_tiles_must_divide_what_an_op_mixes() -> None:
    params = "z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], y: Tensor[Shared, f16, Dyn, Dyn]"
    body = (
        "i, j = tc.block_id(0), tc.block_id(1)\nxs, ys = x.partition(BM, BK{0}), y.partition(BK, BN{0})\n"
        "acc = tc.zeros(BM, BN)\nfor k in range(xs.num_tiles(1)):\n    acc = tc.mma(xs[i, k], ys[k, j], acc)\nz.store(acc)"
    )
    report = check(body.format(""), params)
    dims, shapes = {"BM": 16, "BN": 16, "BK": 32}, {"x": (100, 64), "y": (64, 100), "z": (100, 100)}
    assert refusal(report, shapes, (7, 7, 1), dims) is None, "ragged rows and columns only reach the store"
    refused = refusal(report, {**shapes, "x": (100, 70), "y": (70, 100)}, (7, 7, 1), dims)
    assert refused is not None and refused.rule == "void-lanes"
    assert "tiles of 32 do not divide `x.shape[1]`, which is 70" in refused.message and "pad=" in (refused.help or "")
    padded = check(body.format(", pad=0"), params)
    assert refusal(padded, {**shapes, "x": (100, 70), "y": (70, 100)}, (7, 7, 1), dims) is None
    declared = check(body.format(""), params, 'requires="x.shape[1] % BK == 0 and y.shape[0] % BK == 0"')
    assert {c.rule for c in declared.conditions} == {"launch-contract", "out-of-bounds", "void-lanes"}
    # What remains is that ragged rows and columns end where those of `z` do, or later.
    assert [c.text for c in declared.conditions if c.rule == "void-lanes"] == [
        "x.shape[0] >= z.shape[0]",
        "y.shape[1] >= z.shape[1]",
    ]


def test_a_shared_stream_needs_equal_tile_grids() -> None:
    params = "a: Tensor[Mapped, f32, B], b: Tensor[Mapped, f32, C]"
    report = check("for at in a.indices_with(b):\n    a.store(tc.ones(B), at)\n    b.store(tc.ones(C), at)", params)
    dims = {"B": 8, "C": 4}
    assert refusal(report, {"a": (60,), "b": (32,)}, (3, 1, 1), dims) is None
    refused = refusal(report, {"a": (60,), "b": (40,)}, (3, 1, 1), dims)
    assert refused is not None and "`a` has 8 tiles on axis 0, `b` has 10" in refused.message


def test_a_condition_with_a_missing_operand_refuses() -> None:
    report = check("z.store(tc.load_like(x, z))", dims={"B": 8})
    refused = refusal(report, {"z": (64,)}, (8, 1, 1))
    assert refused is not None and refused.rule == "launch-contract"
    assert "cannot be checked" in refused.message and "`x.shape[0]` is not known" in refused.message


def test_conditions_of_a_branch_that_the_launch_can_read_count_only_there() -> None:
    """The choice for accesses under a run-time `if`: guarded by what the launch can read, else unconditional."""
    body = (
        "xs, ys = x.partition(B), y.partition(B)\nacc = tc.zeros(B)\nfor k in range(xs.num_tiles(0)):\n"
        "    if {}:\n        acc = acc + ys[k]\nz.store(acc)"
    )
    params = f"{TWO}, flag: int"
    shapes = {"x": (64,), "y": (8,), "z": (8,)}
    readable = check(body.format("flag > 0"), params)
    assert refusal(readable, shapes, dims={"B": 8}, flag=0) is None
    assert refusal(readable, shapes, dims={"B": 8}, flag=1) is not None
    hidden = check(body.format("acc.sum().item() > 0"), params)
    assert refusal(hidden, shapes, dims={"B": 8}, flag=0) is not None


def test_a_scalar_that_is_wrong_is_refused_before_the_launch_where_that_is_certain() -> None:
    report = check("z.store(x.partition(B)[n])", N)
    assert rungs(report, "x") == ["in-place"]
    shapes, dims = {"x": (64,), "z": (8,)}, {"B": 8}
    assert refusal(report, shapes, dims=dims, n=7) is None
    assert "reaches tile 8 of `x` on axis 0, which has 8 tiles of 8" in str(refusal(report, shapes, dims=dims, n=8))
    assert "a negative tile index does not wrap" in str(refusal(report, shapes, dims=dims, n=-1))
    loop = check(LOOP.format(range="range(m)", index="n"), f"{N}, m: int")
    assert refusal(loop, shapes, dims=dims, n=999, m=0) is None
    assert refusal(loop, shapes, dims=dims, n=999, m=1) is not None
    hidden = check("if z.load().sum().item() > 0:\n    z.store(x.partition(B)[n])", N)
    assert refusal(hidden, shapes, dims=dims, n=999) is None


# ---- asserts that stay


def test_a_hoisted_assert_is_written_in_variables_that_exist_before_the_loop() -> None:
    body = (
        "xs = x.partition(B)\nacc = tc.zeros(B)\nfor i in range(n):\n    for j in range(i, n):\n"
        "        acc = acc + xs[j + 2]\nz.store(acc)"
    )
    report = check(body, N, 'requires="0 <= n and n < 1000"')
    ((loop, (hoisted,)),) = report.hoisted.items()
    assert loop.span.line == report.kernel.span.line + 4
    assert [show(e) for e in (hoisted.low, hoisted.high, *hoisted.guards)] == ["2 + i", "1 + n", "i < n"]
    assert all(node in report.types for node in (hoisted.low, hoisted.high, *hoisted.guards))


def test_sub_ranges_known_at_the_launch_alone_keep_a_check() -> None:
    body = "for at in z.indices(within=({}, {})):\n    z.store(tc.ones(B), at)"
    params = "z: Tensor[Mapped, f32, B], s: int, n: int"
    report = check(body.format("s", "n"), params, STRICT)
    assert [f.rule for f in report.faults] == ["check-in-kernel"]
    constant = check(body.format(2, 3), params, STRICT)
    assert not constant.faults
    assert refusal(constant, {"z": (40,)}, (2, 1, 1), {"B": 8}) is None
    assert refusal(constant, {"z": (30,)}, (2, 1, 1), {"B": 8}) is not None
    rest = check(body.format(2, -1), params, STRICT)
    assert not rest.faults and refusal(rest, {"z": (40,)}, (2, 1, 1), {"B": 8}) is None
    negative = check(body.format(-1, 3), params)
    assert [f.rule for f in negative.faults] == ["out-of-bounds"]


def test_a_source_is_measured_against_the_sub_range() -> None:
    body = "ys = x.partition(B)\nfor at in z.indices(within=(2, 3)):\n    z.store(ys[at[0] - 2], at)"
    report = check(body, MAPPED, STRICT)
    assert not report.faults
    assert refusal(report, {"z": (4096,), "x": (24,)}, (4, 1, 1), {"B": 8}) is None
    assert refusal(report, {"z": (4096,), "x": (16,)}, (4, 1, 1), {"B": 8}) is not None


def test_owned_axes_are_walked_by_their_own_count() -> None:
    body = "for at in z.indices():\n    for j in range(z.num_tiles(1)):\n        z.store(tc.ones(B, B), z.at(at, j))"
    report = check(body, "z: Tensor[Mapped, f32, B, B]", STRICT)
    assert not report.faults and not report.conditions
    assert report.verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN


def test_user_assertions_are_no_checks_of_ours() -> None:
    report = check("assert n > 0, 'n'\ntc.device_assert(n > 1)\nz.store(z.load())", N, STRICT)
    assert not report.faults


# ---- verdicts


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("z.store(z.load())", Verdict.PROVEN),
        ("z.store(tc.load_like(x, z))", Verdict.PROVEN_GIVEN),
        ("z.store(x.partition(B)[n])", Verdict.CHECKED),
        ("z.store(x.partition(B)[-1])", Verdict.REFUTED),
        ("z.store(tc.ones(C))", Verdict.UNKNOWN),
    ],
)
def test_verdicts(body: str, verdict: Verdict) -> None:
    report = check(body, N)
    assert report.verdicts[Property.IN_BOUNDS].verdict is verdict
    for each in (Property.RACE_FREE, Property.BARRIERS_UNIFORM):
        assert (report.verdicts[each].verdict, report.verdicts[each].reason) == (Verdict.PROVEN, "by construction")
