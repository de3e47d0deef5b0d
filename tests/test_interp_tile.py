"""The tile interpreter: values, edges, order, traps, races. Kernels are built by hand, see `tile_builder`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.tile_builder import (
    atomic,
    binary,
    build,
    call,
    compare,
    do,
    each,
    expr,
    item,
    let,
    loop,
    mapped,
    mut,
    scalar,
    shared,
    span,
    text,
    when,
)
from tilecheck.interp.arguments import OWNED, TensorArgument, TileMap, Trap
from tilecheck.interp.coarse import coarsened, is_coarse
from tilecheck.interp.compile import compile_kernel
from tilecheck.interp.recorder import Recorder
from tilecheck.interp.tile import blocks, run
from tilecheck.ir.kernel import Assert, Function, Inline, Logic, Return, Select, Unary, While
from tilecheck.surface.dtypes import f32, i32
from tilecheck.verify.tile import TileReport

A = TensorArgument


def launch(report: TileReport, arguments: dict[str, Any], grid: tuple[int, int, int], **options: Any) -> Recorder:
    """Run in natural order with a recorder; returns it."""
    recorder = Recorder()
    run(report, arguments, grid, options.pop("dims", {}), recorder=recorder, **options)
    return recorder


def trapped(report: TileReport, arguments: dict[str, Any], grid: tuple[int, int, int], **options: Any) -> Trap:
    with pytest.raises(Trap) as trap:
        launch(report, arguments, grid, **options)
    return trap.value


SAXPY = build(
    "saxpy",
    [mut("z"), shared("x"), shared("y"), scalar("a")],
    [do("store", "z", binary("+", binary("*", "a", call("load_like", "x", "z")), call("load_like", "y", "z")))],
)
GEMM = build(
    "gemm",
    [mut("z"), shared("x"), shared("y")],
    [
        let("xs", call("partition", "x", "BM", "BK", pad=0.0)),
        let("ys", call("partition", "y", "BK", "BN", pad=0.0)),
        let("acc", call("zeros", "BM", "BN", dtype=f32)),
        loop(
            "k",
            call("num_tiles", "xs", 1),
            [
                let(
                    "acc",
                    call(
                        "mma",
                        call("load_tile", "xs", call("block_id", 0), "k"),
                        call("load_tile", "ys", "k", call("block_id", 1)),
                        "acc",
                    ),
                )
            ],
        ),
        do("store", "z", "acc"),
    ],
)


def test_ragged_edges_clip() -> None:
    x, y = np.arange(7 * 9, dtype=np.float32).reshape(7, 9), np.ones((7, 9), np.float32)
    z = np.full((7, 9), -1, np.float32)
    recorder = launch(SAXPY, {"z": A(z, (4, 4)), "x": A(x), "y": A(y), "a": 2.0}, (2, 3, 1))
    np.testing.assert_array_equal(z, 2 * x + 1)
    assert recorder.races == []


def test_gemm_with_ragged_extents() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 13)).astype(np.float16), rng.normal(size=(13, 11)).astype(np.float16)
    z = np.zeros((10, 11), np.float32)
    launch(GEMM, {"z": A(z, (4, 4)), "x": A(x), "y": A(y)}, (3, 3, 1), dims={"BM": 4, "BN": 4, "BK": 4})
    np.testing.assert_allclose(z, x.astype(np.float32) @ y.astype(np.float32), rtol=1e-5, atol=1e-5)


def test_strided_and_sliced_arguments() -> None:
    base = np.zeros((8, 20), np.float32)
    x = np.arange(60, dtype=np.float32).reshape(6, 10)
    launch(SAXPY, {"z": A(base[1:7, ::2], (4, 4)), "x": A(x), "y": A(x.T.copy().T), "a": 1.0}, (2, 3, 1))
    np.testing.assert_array_equal(base[1:7, ::2], 2 * x)
    assert base[:, 1::2].sum() == 0 and base[[0, 7]].sum() == 0


def test_too_short_an_input_traps_before_anything_is_written() -> None:
    z = np.full(10, -1, np.float32)
    arguments = {"z": A(z, (4,)), "x": A(np.ones(9, np.float32)), "y": A(np.ones(10, np.float32)), "a": 2.0}
    trap = trapped(SAXPY, arguments, (3, 1, 1), order=[(2, 0, 0)])
    assert (trap.rule, trap.array, trap.block, trap.kernel) == ("out-of-bounds", "x", (2, 0, 0), "saxpy")
    assert trap.message == "`x` has 9 elements on axis 0, the tile of `z` needs 10"
    assert (z == -1).all()


PICK = build(
    "pick",
    [mut("z"), shared("x"), scalar("i")],
    [do("store", "z", call("load_tile", call("partition", "x", "B"), "i"))],
)


@pytest.mark.parametrize("index", [8, -1, 2**40])
def test_a_tile_index_outside_traps(index: int) -> None:
    z = np.zeros(8, np.float32)
    x = np.arange(62, dtype=np.float32)
    launch(PICK, {"z": A(z, (8,)), "x": A(x), "i": 7}, (1, 1, 1), dims={"B": 8})
    assert z.tolist() == [56, 57, 58, 59, 60, 61, 0, 0]
    trap = trapped(PICK, {"z": A(z, (8,)), "x": A(x), "i": index}, (1, 1, 1), dims={"B": 8})
    assert trap.rule == "out-of-bounds" and trap.index == (index,)
    assert trap.message == f"tile {index} of `x` is out of bounds on axis 0: 62 elements are 8 tiles of 8"
    assert trap.line == PICK.kernel.body[0].value.args[1].span.line  # type: ignore[attr-defined]


def test_padding_and_permutation_of_views() -> None:
    kernel = build(
        "pads",
        [mut("z"), shared("x")],
        [do("store", "z", call("load_tile", call("partition", "x", "BM", "BN", pad=7.0, permute=(1, 0)), 1, 0))],
    )
    x, z = np.arange(15, dtype=np.float32).reshape(3, 5), np.zeros((4, 2), np.float32)
    launch(kernel, {"z": A(z, (4, 2)), "x": A(x)}, (1, 1, 1), dims={"BM": 4, "BN": 2})
    # Axis 0 of the view walks axis 1 of x: tile 1 holds column 4, rows 0 and 1, then padding.
    assert z.tolist() == [[4, 9], [7, 7], [7, 7], [7, 7]]


def test_padding_of_loads() -> None:
    kernel = build("pads", [mut("z"), shared("x")], [
        let("low", call("min", call("load_like", "x", "z", pad=-3.0))),
        do("store", "z", binary("+", call("full", "B", call("max", call("load", "z", pad=text("inf")))), "low")),
    ])  # fmt: skip
    z, x = np.zeros(6, np.float32), np.ones(6, np.float32)
    launch(kernel, {"z": A(z, (4,)), "x": A(x)}, (2, 1, 1), dims={"B": 4})
    assert z.tolist() == [1] * 4 + [np.inf] * 2


def test_a_void_lane_that_reaches_a_result_shows_under_poison() -> None:
    leaky = build("leaky", [mut("z"), shared("x")], [
        let("t", call("load_tile", call("partition", "x", "B"), 1)),
        do("store", "z", call("reshape", call("sum", "t"), "One")),
    ])  # fmt: skip
    careful = build("careful", [mut("z"), shared("x")], [
        let("t", call("load_tile", call("partition", "x", "B", pad=0.0), 1)),
        do("store", "z", call("reshape", call("sum", "t"), "One")),
    ])  # fmt: skip
    x = np.ones(6, np.float32)
    results = {}
    for kernel, void in itertools.product((leaky, careful), ("zero", "poison")):
        z = np.zeros(1, np.float32)
        launch(kernel, {"z": A(z, (1,)), "x": A(x)}, (1, 1, 1), dims={"B": 4, "One": 1}, void=void)
        results[kernel.kernel.name, void] = float(z[0])
    assert results["leaky", "zero"] == 2 and np.isnan(results["leaky", "poison"])
    assert results["careful", "zero"] == results["careful", "poison"] == 2


# ---- control flow and scalars


def test_loops_branches_and_scalars() -> None:
    kernel = build(
        "control",
        [mut("z"), scalar("n"), scalar("big")],
        [
            let("total", 0),
            loop("i", "n", [
                when(compare("==", binary("%", "i", 3), 0), [let("total", binary("+", "total", "i"))],
                     [let("total", binary("-", "total", 1))]),
            ], start=1, step=2),
            let("k", 0),
            While(cond=Logic(op="and", operands=(compare("<", "k", 5), compare("<", "total", 1000)), span=span()), body=(
                let("k", binary("+", "k", 1)),
                let("total", binary("*", "total", 2)),
            ), span=span()),
            let("total", binary("+", "total", binary("*", "big", "big"))),
            let("total", Select(cond=Unary(op="not", operand=compare(">", "n", 100), span=span()), then=expr("total"),
                                other=expr(0), span=span())),
            do("store", "z", call("full", "One", "total", dtype=i32)),
        ],
    )  # fmt: skip
    total = 0
    for i in range(1, 10, 2):
        total = total + i if i % 3 == 0 else total - 1
    k = 0
    while k < 5 and total < 1000:
        k, total = k + 1, total * 2
    z = np.zeros(1, np.int32)
    launch(kernel, {"z": A(z, (1,)), "n": 10, "big": 2**32}, (1, 1, 1), dims={"One": 1})
    assert z[0] == total  # 2**64 wraps to 0


def test_a_helper_with_early_returns() -> None:
    def body(prefix: str) -> tuple[Any, ...]:
        return (
            let(f"{prefix}.x", call("block_id", 0)),
            when(compare("<", f"{prefix}.x", 1), [Return(value=expr(10), span=span())]),
            loop("i", 5, [when(compare("==", "i", f"{prefix}.x"), [Return(value=expr("i"), span=span())])]),
            Return(value=expr(-1), span=span()),
        )

    plain = (let("scale.v", 3), Return(value=binary("*", "scale.v", 2), span=span()))
    kernel = build(
        "helpers",
        [mut("z")],
        [
            Inline(callee="pick", body=body("pick"), result="picked", span=span()),
            Inline(callee="scale", body=plain, result="scaled", span=span()),
            do("store", "z", call("full", "One", binary("+", "picked", "scaled"))),
        ],
    )
    z = np.zeros(7, np.float32)
    launch(kernel, {"z": A(z, (1,))}, (7, 1, 1), dims={"One": 1})
    assert z.tolist() == [16, 7, 8, 9, 10, 5, 5]


def test_a_device_function_reduces() -> None:
    function = Function(
        callee="longer",
        params=("a", "b"),
        body=(Return(value=call("where", compare(">", call("abs", "a"), call("abs", "b")), "a", "b"), span=span()),),
        result="longer.result",
        span=span(),
    )
    kernel = build("reduces", [mut("z"), shared("x")], [
        do("store", "z", call("reduce", call("load_tile", call("partition", "x", "BM", "BN"), 0, 0), function, axis=1)),
    ])  # fmt: skip
    x, z = np.array([[1, -5, 3], [2, 2, -1]], np.float32), np.zeros(2, np.float32)
    launch(kernel, {"z": A(z, (2,)), "x": A(x)}, (1, 1, 1), dims={"BM": 2, "BN": 3})
    assert z.tolist() == [-5, 2]


def test_a_helper_that_reduces_with_a_device_function() -> None:
    function = Function(callee="f", params=("a", "b"), body=(Return(value=binary("+", "a", "b"), span=span()),), result="r",
                        span=span())  # fmt: skip
    body = (let("total.x", call("load_like", "x", "z")), let("total", call("scan", "total.x", function)))
    kernel = build("nested", [mut("z"), shared("x")], [
        Inline(callee="total", body=body, result="total", span=span()),
        do("store", "z", binary("+", "total", call("zeros", "B", dtype=call("dtype", "x")))),
    ])  # fmt: skip
    z = np.zeros(4, np.float32)
    launch(kernel, {"z": A(z, (4,)), "x": A(np.arange(4, dtype=np.float32))}, (1, 1, 1), dims={"B": 4})
    assert z.tolist() == [0, 1, 3, 6]


def test_asserts_and_prints(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = build("asserts", [shared("x"), scalar("n")], [
        do("print", text("n ="), "n"),
        Assert(cond=compare(">", "n", 0), message="n is positive", span=span()),
        do("device_assert", compare("<", call("load", "x"), 5.0)),
    ])  # fmt: skip
    launch(kernel, {"x": A(np.arange(4, dtype=np.float32)), "n": 3}, (1, 1, 1))
    assert capsys.readouterr().out == "n = 3\n"
    trap = trapped(kernel, {"x": A(np.arange(4, dtype=np.float32)), "n": 0}, (2, 1, 1))
    assert (trap.rule, trap.message) == ("device-assert", "assertion failed: n is positive")
    assert trap.line == kernel.kernel.body[1].span.line
    trap = trapped(kernel, {"x": A(np.arange(9, dtype=np.float32)), "n": 1}, (2, 1, 1))
    assert trap.message == "assertion failed"


# ---- the block's own tile


def test_a_tile_is_a_value() -> None:
    kernel = build("values", [mut("z")], [
        let("before", call("load", "z")),
        do("store", "z", call("zeros", "B")),
        do("store", "z", binary("+", "before", call("load", "z"))),
    ])  # fmt: skip
    z = np.arange(8, dtype=np.float32)
    launch(kernel, {"z": A(z, (4,))}, (2, 1, 1), dims={"B": 4})
    assert z.tolist() == list(range(8))


def test_nested_tiles_are_local_clipped_and_disjoint() -> None:
    kernel = build("nested", [mut("z")], [
        let("inner", call("tiles", "z", "One", "D")),
        loop("j", call("num_tiles", "inner", 1), [
            do("store", "inner", call("full", ("One", "D"), binary("+", binary("*", call("block_id", 0), 10), "j"), dtype=i32),
               0, "j"),
        ]),
    ])  # fmt: skip
    z = np.full((3, 10), -1, np.int32)
    recorder = launch(kernel, {"z": A(z, (1, 10))}, (3, 1, 1), dims={"One": 1, "D": 4})
    np.testing.assert_array_equal(z, np.arange(3)[:, None] * 10 + np.arange(10) // 4)
    assert recorder.races == []
    # Sub-tiles that do not divide stay inside the block's own tile, also at the ragged end of the array.
    z = np.full((2, 17), -1, np.int32)
    recorder = launch(kernel, {"z": A(z, (1, 10))}, (2, 2, 1), dims={"One": 1, "D": 4})
    np.testing.assert_array_equal(z, np.arange(2)[:, None] * 10 + np.arange(17) % 10 // 4)
    assert recorder.races == []
    two = build("two", [mut("z")], [
        do("store", call("tiles", "z", "D"), call("zeros", "D"), 0),
        do("store", call("tiles", "z", "E"), call("ones", "E"), 1),
    ])  # fmt: skip
    w = np.full(100, -1, np.float32)
    recorder = launch(two, {"z": A(w, (50,))}, (2, 1, 1), dims={"D": 16, "E": 30})
    assert recorder.races == []
    assert w.tolist() == ([0.0] * 16 + [-1.0] * 14 + [1.0] * 20) * 2
    trap = trapped(two, {"z": A(w, (50,))}, (2, 1, 1), dims={"D": 16, "E": 50})
    assert trap.message == "sub-tile 1 of `z` is out of bounds on axis 0: a tile of 50 has 1 sub-tiles of 50"


def test_stores_of_one_block_are_in_order() -> None:
    kernel = build("ordered", [mut("z"), scalar("n")], [
        let("a", call("tiles", "z", "D16")),
        loop("i", "n", [do("store", "a", call("full", "D16", "i", dtype=i32), 0)]),
        let("b", call("tiles", "z", "D32")),
        do("store", "b", call("full", "D32", -1, dtype=i32), 1),
        do("store", "a", call("full", "D16", "n", dtype=i32), 1),
    ])  # fmt: skip
    z = np.zeros(64, np.int32)
    launch(kernel, {"z": A(z, (64,)), "n": 5}, (1, 1, 1), dims={"D16": 16, "D32": 32})
    assert z.tolist() == [4] * 16 + [5] * 16 + [-1] * 32


def test_a_block_without_a_tile_traps() -> None:
    arguments = {
        "z": A(np.zeros(8, np.float32), (4,)),
        "x": A(np.zeros(9, np.float32)),
        "y": A(np.zeros(9, np.float32)),
        "a": 1.0,
    }
    trap = trapped(SAXPY, arguments, (3, 1, 1))
    assert (trap.rule, trap.message) == ("launch-contract", "block (2, 0, 0) has no tile of `z`: axis 0 has 2 tiles")


# ---- mapped partitions

COUNT = build("count", [mapped("z")], [
    each("at", call("indices", "z"), [do("store", "z", binary("+", call("load", "z", "at"), 1.0), "at")]),
])  # fmt: skip


@pytest.mark.parametrize("extents", [(7,), (3, 5), (5, 2, 3), (1, 1, 1)])
def test_each_tile_of_a_mapped_partition_is_visited_once(extents: tuple[int, ...]) -> None:
    tile = (2,) * len(extents)
    total = int(np.prod(extents))
    for group in itertools.product((1, 2, 4), repeat=len(extents)):
        for count in {1, 2, total}:
            z = np.zeros([2 * e - 1 for e in extents], np.float32)
            recorder = launch(COUNT, {"z": A(z, tile, TileMap(group, count))}, (count, 1, 1))
            assert (z == 1).all() and recorder.races == []


def test_grouped_order_walks_bands() -> None:
    kernel = build("walk", [mapped("z")], [
        let("step", 0),
        each("at", call("indices", "z"), [
            let("step", binary("+", "step", 1)),
            do("store", "z", call("full", ("One", "One"), "step"), "at"),
        ]),
    ])  # fmt: skip
    z = np.zeros((3, 2), np.float32)
    launch(kernel, {"z": A(z, (1, 1), TileMap((2, 1), 1))}, (1, 1, 1), dims={"One": 1})
    assert z.tolist() == [[1, 3], [2, 4], [5, 6]]
    launch(kernel, {"z": A(z, (1, 1), TileMap((1, 1), 1))}, (1, 1, 1), dims={"One": 1})
    assert z.tolist() == [[1, 2], [3, 4], [5, 6]]


OWNED_AXIS = build("owned", [mapped("z")], [
    each("at", call("indices", "z"), [
        loop("j", call("num_tiles", "z", 1), [
            do("store", "z", binary("+", call("load", "z", call("at", "z", "at", "j")), 1.0), call("at", "z", "at", "j")),
        ]),
    ]),
])  # fmt: skip


def test_owned_axes_belong_to_the_block() -> None:
    for count in (1, 2, 3):
        z = np.zeros((5, 7), np.float32)
        recorder = launch(OWNED_AXIS, {"z": A(z, (2, 2), TileMap((1, OWNED), count))}, (count, 1, 1))
        assert (z == 1).all() and recorder.races == []
    z = np.zeros((5, 7), np.float32)
    trap = trapped(COUNT, {"z": A(z, (2, 2), TileMap((1, OWNED), 1))}, (1, 1, 1))
    assert trap.rule == "foreign-index" and "axis 1 of this index is `OWNED`" in trap.message
    trap = trapped(OWNED_AXIS, {"z": A(z, (2, 2), TileMap((1, 1), 1))}, (1, 1, 1))
    assert trap.message == "the map of `z` leaves 0 axes `OWNED`, `at` sets 1"


def test_two_partitions_share_a_stream() -> None:
    kernel = build("both", [mapped("a"), mapped("b")], [
        each("at", call("indices_with", "a", "b"), [
            do("store", "a", binary("+", call("load", "a", "at"), 1.0), "at"),
            do("store", "b", binary("+", call("load", "b", "at"), 2.0), "at"),
        ]),
    ])  # fmt: skip
    a, b = np.zeros(21, np.float32), np.zeros(41, np.float32)
    launch(kernel, {"a": A(a, (4,), TileMap((1,), 2)), "b": A(b, (8,), TileMap((1,), 2))}, (2, 1, 1))
    assert (a == 1).all() and (b == 2).all()
    trap = trapped(kernel, {"a": A(a, (4,), TileMap((1,), 2)), "b": A(b, (4,), TileMap((1,), 2))}, (2, 1, 1))
    assert trap.rule == "launch-contract" and "`a` and `b` do not share their tiles" in trap.message


@pytest.mark.parametrize(("start", "count"), [(0, 0), (0, 8), (3, 1), (7, 1), (2, -1)])
def test_sub_ranges_write_exactly_the_range(start: int, count: int) -> None:
    kernel = build("part", [mapped("z"), scalar("s"), scalar("n")], [
        each("at", call("indices", "z", within=("s", "n")), [do("store", "z", call("ones", "B"), "at")]),
    ])  # fmt: skip
    z = np.zeros(62, np.float32)
    launch(kernel, {"z": A(z, (8,), TileMap((1,), 3)), "s": start, "n": count}, (3, 1, 1), dims={"B": 8})
    stop = 8 if count == -1 else start + count
    assert np.flatnonzero(z).tolist() == list(range(start * 8, min(62, stop * 8)))
    for bad in ((-1, 2), (7, 2), (0, -2), (9, -1)):
        trap = trapped(kernel, {"z": A(z, (8,), TileMap((1,), 3)), "s": bad[0], "n": bad[1]}, (3, 1, 1), dims={"B": 8})
        assert trap.rule == "out-of-bounds" and "of `z`, which has 8" in trap.message


def test_an_index_of_another_partition_traps() -> None:
    kernel = build("foreign", [mapped("a"), mapped("b")], [
        each("at", call("indices", "a"), [do("store", "b", call("ones", "B"), "at")]),
    ])  # fmt: skip
    z = np.zeros(8, np.float32)
    both = {name: A(z.copy(), (4,), TileMap((1,), 1)) for name in "ab"}
    trap = trapped(kernel, both, (1, 1, 1), dims={"B": 4})
    assert (trap.rule, trap.message) == ("foreign-index", "`b` did not mint this index")


def test_minted_coordinates_are_ints() -> None:
    kernel = build("scale", [mapped("z"), shared("x")], [
        let("xs", call("partition", "x", "B", "B")),
        each("at", call("indices", "z"), [
            do("store", "z", binary("*", 2.0, call("load_tile", "xs", item("at", 0), item("at", 1))), "at"),
        ]),
    ])  # fmt: skip
    x, z = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32), np.zeros((9, 6), np.float32)
    launch(kernel, {"z": A(z, (4, 4), TileMap((2, 1), 4)), "x": A(x)}, (4, 1, 1), dims={"B": 4})
    np.testing.assert_array_equal(z, 2 * x)


# ---- elements and atomics


def test_gather_reads_elements_and_traps_outside() -> None:
    kernel = build("rows", [mut("z"), shared("table"), shared("ids"), scalar("n")], [
        let("i", call("load_like", "ids", "z")),
        let("ok", compare("<", "i", "n")),
        do("store", "z", call("gather", "table", ("i", 1), mask="ok", pad=-1.0)),
    ])  # fmt: skip
    table, z = np.arange(12, dtype=np.float32).reshape(6, 2), np.zeros(4, np.float32)
    ids = np.array([5, 0, 9, 2], np.int32)
    launch(kernel, {"z": A(z, (4,)), "table": A(table), "ids": A(ids), "n": 6}, (1, 1, 1))
    assert z.tolist() == [11, 1, -1, 5]
    trap = trapped(kernel, {"z": A(z, (4,)), "table": A(table), "ids": A(ids), "n": 10}, (1, 1, 1))
    assert trap.message == "index 9 of `table` is out of bounds on axis 0 of extent 6" and trap.index == (9, 1)
    trap = trapped(kernel, {"z": A(z, (4,)), "table": A(table), "ids": A(ids - 1), "n": 6}, (1, 1, 1))
    assert trap.message == "index -1 of `table` is out of bounds on axis 0 of extent 6"


def test_atomics_count_every_update() -> None:
    kernel = build("histogram", [atomic("bins"), atomic("top"), shared("x")], [
        let("i", call("load_tile", call("partition", "x", "B"), call("block_id", 0))),
        do("atomic_add", "bins", "i", 1, mask=compare(">=", "i", 0)),
        do("atomic_max", "top", 0, call("max", "i")),
        let("old", call("atomic_cas", "top", 1, 0, call("block_id", 0))),
    ])  # fmt: skip
    x = np.random.default_rng(0).integers(-1, 5, 64).astype(np.int32)
    for order in (None, reversed(list(blocks((8, 1, 1))))):
        bins, top = np.zeros(5, np.int32), np.full(2, -9, np.int32)
        recorder = launch(kernel, {"bins": A(bins), "top": A(top), "x": A(x)}, (8, 1, 1), dims={"B": 8}, order=order)
        assert bins.tolist() == [int((x == v).sum()) for v in range(5)]
        assert top[0] == x.max() and recorder.races == []


def test_each_atomic() -> None:
    cases: dict[str, Any] = {
        "add": lambda a, b: a + b, "max": max, "min": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b, "exchange": lambda a, b: b,
    }  # fmt: skip
    for name, f in cases.items():
        kernel = build("one", [atomic("z"), mut("old")], [
            do("store", "old", call(f"atomic_{name}", "z", call("arange", "B"), call("full", "B", 6, dtype=i32))),
        ])  # fmt: skip
        z, old = np.array([3, 12], np.int32), np.zeros(2, np.int32)
        launch(kernel, {"z": A(z), "old": A(old, (2,))}, (1, 1, 1), dims={"B": 2})
        assert old.tolist() == [3, 12] and z.tolist() == [f(3, 6), f(12, 6)], name


def test_scattered_rows_and_what_reads_them_races() -> None:
    rows = build("rows", [atomic("z"), shared("i")], [
        let("at", call("load", "i")),
        do("scatter", "z", "at", binary("+", "at", 10), mask=compare("<", "at", 3)),
    ])  # fmt: skip
    z = np.zeros(4, np.int32)
    launch(rows, {"z": A(z), "i": A(np.array([2, 9, 0], np.int32))}, (1, 1, 1))
    assert z.tolist() == [10, 0, 12, 0]
    with pytest.raises(Trap) as caught:
        launch(rows, {"z": A(z[:2]), "i": A(np.array([2, 0], np.int32))}, (1, 1, 1))
    assert (caught.value.rule, caught.value.array) == ("out-of-bounds", "z")


# ---- races


def test_aliasing_arguments_race_and_both_lines_are_named() -> None:
    z = np.arange(10, dtype=np.float32)
    recorder = launch(SAXPY, {"z": A(z[2:], (4,)), "x": A(z), "y": A(np.ones(10, np.float32)), "a": 2.0}, (2, 1, 1))
    race = recorder.races[0]
    store, read = SAXPY.kernel.body[0].value, SAXPY.kernel.body[0].value.args[1].left.right  # type: ignore[attr-defined]
    assert (race.first.access, race.first.array, race.first.line) == ("write", "z", store.span.line)
    assert (race.second.access, race.second.array, race.second.line) == ("read", "x", read.span.line)
    assert (race.first.block, race.second.block, race.index) == ((0, 0, 0), (1, 0, 0), (4,))
    assert str(race) == (
        f"block (1, 0, 0) reads `x[4]` (line {read.span.line}), which block (0, 0, 0) writes as `z` (line {store.span.line})"
    )


def test_a_race_is_seen_in_every_order() -> None:
    for order in ([(0, 0, 0), (1, 0, 0)], [(1, 0, 0), (0, 0, 0)]):
        z = np.arange(10, dtype=np.float32)
        arguments = {"z": A(z[2:], (4,)), "x": A(z), "y": A(np.ones(10, np.float32)), "a": 2.0}
        assert launch(SAXPY, arguments, (2, 1, 1), order=order).races


def test_overlapping_outputs_race() -> None:
    kernel = build(
        "pair", [mut("a"), mut("b")], [do("store", "a", call("ones", "B")), do("store", "b", call("zeros", "B"))]
    )
    t = np.zeros(12, np.float32)
    recorder = launch(kernel, {"a": A(t[:8], (4,)), "b": A(t[2:10], (4,))}, (2, 1, 1), dims={"B": 4})
    assert {(r.first.access, r.second.access) for r in recorder.races} == {("write", "write")}
    disjoint = launch(kernel, {"a": A(t[0::2], (4,)), "b": A(t[1::2], (4,))}, (2, 1, 1), dims={"B": 4})
    assert disjoint.races == []


def test_atomics_race_with_plain_reads() -> None:
    kernel = build("mixed", [atomic("z"), shared("x"), mut("w")], [
        do("atomic_add", "z", call("block_id", 0), 1.0),
        do("store", "w", call("load_like", "x", "w")),
    ])  # fmt: skip
    z, w = np.zeros(4, np.float32), np.zeros(4, np.float32)
    recorder = launch(kernel, {"z": A(z), "x": A(z[::-1]), "w": A(w, (2,))}, (2, 1, 1))
    assert {r.first.access for r in recorder.races} | {r.second.access for r in recorder.races} == {"atomic", "read"}


def test_deep_expressions_compile() -> None:
    deep: Any = "x0"
    for _ in range(250):
        deep = binary("-", 1.0, deep)
    chosen = Select(cond=compare(">", "n", 0), then=expr("n"), other=expr(1), span=span())
    kernel = build("deep", [mut("z"), scalar("n")], [
        let("x0", call("load", "z")), do("store", "z", binary("+", deep, chosen)),
    ])  # fmt: skip
    z = np.zeros(4, np.float32)
    launch(kernel, {"z": A(z, (4,)), "n": 3}, (1, 1, 1))
    assert z.tolist() == [3] * 4


def test_larger_tiles_stand_in_where_no_kernel_can_tell() -> None:
    assert is_coarse(SAXPY.kernel) and not any(is_coarse(k.kernel) for k in (GEMM, PICK, COUNT))
    counted = build("counted", [mut("z")], [do("store", "z", binary("+", call("load", "z"), call("block_id", 0)))])
    whole = build("whole", [mut("z"), shared("x")], [do("store", "z", call("load", "x"))])
    assert not is_coarse(counted.kernel) and not is_coarse(whole.kernel)
    x = np.random.default_rng(0).normal(size=(37, 1001)).astype(np.float32)
    for tile, grid in (((1, 7), (37, 143, 1)), ((8, 1001), (5, 1, 1)), ((40, 2000), (1, 1, 1))):
        z = np.zeros_like(x)
        arguments = {"z": A(z, tile), "x": A(x), "y": A(x), "a": 2.0}
        run(SAXPY, arguments, grid, {})
        np.testing.assert_array_equal(z, 2 * x + x)
        assert coarsened(arguments, grid)[1] == (1, 1, 1)
    # A grid that covers a prefix alone stays as it is.
    z = np.zeros(64, np.float32)
    ones = A(np.ones(64, np.float32))
    run(SAXPY, {"z": A(z, (8,)), "x": ones, "y": ones, "a": 1.0}, (3, 1, 1), {})
    assert z.tolist() == [2.0] * 24 + [0.0] * 40


def test_the_program_reads_like_the_kernel() -> None:
    program = compile_kernel(SAXPY.kernel, {}, {})
    assert program.source.splitlines()[0] == "def block(machine, v0_z, v1_x, v2_y, v3_a):"
    assert "op_store" in program.source and len(program.source.splitlines()) == 2
