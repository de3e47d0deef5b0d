"""The tile checks: what is refused at every launch, each with the repaired kernel beside it."""

from __future__ import annotations

import pytest

from tests.tile_text import MAPPED, ONE, TWO, check
from tilecheck.verify.tile_report import TileReport
from tilecheck.verify.verdict import Property, Verdict

PAIR = "a: Tensor[Mapped, f32, B], b: Tensor[Mapped, f32, B], c: Tensor[Mapped, f32, B]"
MMA = "z: Tensor[Mut, f32, D16, D16], x: Tensor[Shared, f16, D16, D24], y: Tensor[Shared, f16, {}, D16]"


def faults(report: TileReport) -> list[tuple[int, str]]:
    return [(f.span.line - report.kernel.span.line, f.rule) for f in report.faults]


# (what is wrong, the body, parameters) -> (line, rule); the repaired body
CASES = [
    (
        "a store through Shared",
        "x.store(z.load())\nz.store(z.load())",
        ONE,
        (1, "write-to-shared"),
        "z.store(z.load())",
    ),
    (
        "a store through a read view",
        "x.partition(B).store(z.load(), 0)\nz.store(z.load())",
        ONE,
        (1, "write-to-shared"),
        "z.store(x.partition(B)[0])",
    ),
    (
        "a block id as store index",
        "for at in z.indices():\n    z.store(x.partition(B)[at[0]], tc.block_id(0))",
        MAPPED,
        (2, "foreign-index"),
        "for at in z.indices():\n    z.store(x.partition(B)[at[0]], at)",
    ),
    (
        "a number computed from an index",
        "for at in z.indices():\n    z.store(tc.ones(B), at[0] + 0)",
        MAPPED,
        (2, "foreign-index"),
        "for at in z.indices():\n    z.store(tc.ones(B), at)",
    ),
    (
        "a third output of a shared stream",
        "for at in a.indices_with(b):\n    t = tc.ones(B)\n    a.store(t, at)\n    b.store(t, at)\n    c.store(t, at)",
        PAIR,
        (5, "foreign-index"),
        (
            "for at in a.indices_with(b):\n    t = tc.ones(B)\n    a.store(t, at)\n    b.store(t, at)\n"
            "for at in c.indices():\n    c.store(tc.ones(B), at)"
        ),
    ),
    ("an index for a Mut store", "z.store(z.load(), 0)", ONE, (1, "foreign-index"), "z.store(z.load())"),
    (
        "no index for a Mapped store",
        "for at in z.indices():\n    z.store(tc.ones(B))",
        MAPPED,
        (2, "foreign-index"),
        "for at in z.indices():\n    z.store(tc.ones(B), at)",
    ),
    (
        "another shape than the tile's",
        "z.store(tc.ones(C))",
        ONE,
        (1, "shape-mismatch"),
        "z.store(tc.ones(B))",
    ),
    ("a scalar stored", "z.store(1.0)", ONE, (1, "shape-mismatch"), "z.store(tc.full(B, 1.0))"),
    (
        "shapes that differ between paths",
        "t = tc.ones(B)\nif x.size > 4:\n    t = tc.ones(C)\nz.store(t)",
        ONE,
        (4, "shape-mismatch"),
        "t = tc.ones(B)\nif x.size > 4:\n    t = tc.zeros(B)\nz.store(t)",
    ),
    (
        "an accumulator that changes its dtype in a loop",
        "t = tc.ones(B)\nfor k in range(4):\n    t = t.astype(f16)\nz.store(t)",
        ONE,
        (3, "dtype-mismatch"),
        "t = tc.ones(B)\nfor k in range(4):\n    t = t.astype(f16).astype(f32)\nz.store(t)",
    ),
    (
        "a float scalar on an int tile",
        "t = tc.arange(B) * 0.5\nz.store(z.load())",
        ONE,
        (1, "dtype-mismatch"),
        "z.store(z.load() * 2)",
    ),
    (
        "division of int tiles",
        "t = tc.arange(B) / 2\nz.store(z.load())",
        ONE,
        (1, "dtype-mismatch"),
        "t = tc.arange(B) // 2\nz.store(z.load())",
    ),
    (
        "a bare int extent",
        "z.store(tc.ones(16))",
        "z: Tensor[Mut, f32, D16]",
        (1, "unsupported"),
        "z.store(tc.ones(D16))",
    ),
    (
        "the whole of an array of unknown extent",
        "z.store(x.load())",
        ONE,
        (1, "unbound-dim"),
        "z.store(x.partition(B)[0])",
    ),
    (
        "a tile decides a branch",
        "t = z.load()\nif t > 0:\n    t = -t\nz.store(t)",
        ONE,
        (2, "unsupported"),
        "t = z.load()\nz.store(tc.where(t > 0, -t, t))",
    ),
    (
        "`and` of tiles",
        "t = z.load()\nz.store(tc.where(t > 0 and t < 1, t, 0))",
        ONE,
        (2, "unsupported"),
        "t = z.load()\nz.store(tc.where((t > 0) & (t < 1), t, 0))",
    ),
    (
        "a view of two arrays",
        "p = x.partition(B)\nif x.size > 3:\n    p = y.partition(B)\nz.store(p[0])",
        TWO,
        (4, "unsupported"),
        "t = x.partition(B)[0]\nif x.size > 3:\n    t = y.partition(B)[0]\nz.store(t)",
    ),
    (
        "a name that one path leaves unassigned",
        "if x.size > 3:\n    t = z.load()\nz.store(t)",
        ONE,
        (3, "usage"),
        "if x.size > 3:\n    t = z.load()\nelse:\n    t = tc.ones(B)\nz.store(t)",
    ),
    (
        "a name read before it is assigned",
        "z.store(t)\nt = z.load()",
        ONE,
        (1, "usage"),
        "t = z.load()\nz.store(t)",
    ),
    ("a host function", "t = tc.asarray(x)\nz.store(z.load())", ONE, (1, "usage"), "z.store(z.load())"),
    ("an op that is not there", "z.store(tc.expp(z.load()))", ONE, (1, "usage"), "z.store(tc.exp(z.load()))"),
    ("a float as tile index", "z.store(x.partition(B)[1.0])", ONE, (1, "usage"), "z.store(x.partition(B)[1])"),
    ("too many indices", "z.store(x.partition(B)[1, 2])", ONE, (1, "shape-mismatch"), "z.store(x.partition(B)[1])"),
    (
        "a negative tile index",
        "z.store(x.partition(B)[-1])",
        ONE,
        (1, "out-of-bounds"),
        "xs = x.partition(B)\nz.store(xs[xs.num_tiles(0) - 1])",
    ),
    (
        "a tile beyond fixed extents",
        "z.store(x.partition(D8)[2].sum() + tc.zeros(B))",
        "z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, D16]",
        (1, "out-of-bounds"),
        "z.store(x.partition(D8)[1].sum() + tc.zeros(B))",
    ),
    (
        "a sub-tile that does not exist",
        "part = z.tiles(D8)\npart.store(tc.ones(D8), 2)\nz.store(z.load())",
        "z: Tensor[Mut, f32, D16]",
        (2, "out-of-bounds"),
        "part = z.tiles(D8)\npart.store(tc.ones(D8), 1)\nz.store(z.load())",
    ),
    (
        "void lanes in a sum",
        "z.store(x.partition(D10)[0].sum() + tc.zeros(B))",
        "z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, D16]",
        (1, "void-lanes"),
        "z.store(x.partition(D10, pad=0)[0].sum() + tc.zeros(B))",
    ),
    (
        "inner extents of mma",
        "z.store(tc.mma(x.load(), y.load(), z.load()))",
        MMA.format("D16"),
        (1, "shape-mismatch"),
        None,
    ),
    ("an output never written", "t = z", ONE, (0, "partial-coverage"), "z.store(tc.ones(B))"),
    (
        "an output written on some paths",
        "if x.size > 3:\n    z.store(tc.ones(B))",
        ONE,
        (2, "partial-coverage"),
        "if x.size > 3:\n    z.store(tc.ones(B))\nelse:\n    z.store(tc.zeros(B))",
    ),
    (
        "an output written in a loop that may have no round",
        "for k in range(n):\n    z.store(tc.ones(B))",
        f"{ONE}, n: int",
        (2, "partial-coverage"),
        "z.store(tc.zeros(B))\nfor k in range(n):\n    z.store(tc.ones(B))",
    ),
    (
        "an early return",
        "if x.size > 3:\n    return\nz.store(tc.ones(B))",
        ONE,
        (3, "partial-coverage"),
        "if x.size > 3:\n    z.store(tc.zeros(B))\n    return\nz.store(tc.ones(B))",
    ),
]


@pytest.mark.parametrize(("body", "params", "expected", "repaired"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_faults_and_their_repairs(body: str, params: str, expected: tuple[int, str], repaired: str | None) -> None:
    report = check(body, params)
    assert faults(report) == [expected]
    (fault,) = report.faults
    assert fault.message[0] in "`abcdefghijklmnopqrstuvwxyz" and not fault.message.endswith(".")
    assert fault.kernel == "k"
    if repaired is not None:
        assert faults(check(repaired, params)) == []


def test_a_number_and_its_name_are_one_extent() -> None:
    assert faults(check("z.store(tc.mma(x.load(), y.load(), z.load()))", MMA.format("D24"))) == []
    assert faults(check("z.store(tc.ones(B))", "z: Tensor[Mut, f32, D16]", dims={"B": 16})) == []
    assert faults(check("z.store(tc.ones(B))", "z: Tensor[Mut, f32, D16]", dims={"B": 8})) == [(1, "shape-mismatch")]


def test_an_update_in_place_may_leave_tiles_alone() -> None:
    assert faults(check("t = z.load()\nif x.size > 3:\n    z.store(t + 1)")) == []


def test_one_fault_in_a_loop_is_said_once_and_once_only() -> None:
    body = "acc = tc.zeros(B)\nfor k in range(3):\n    for j in range(3):\n        acc = acc + tc.ones(C)\nz.store(acc)"
    assert faults(check(body)) == [(4, "shape-mismatch")]


def test_branches_that_cannot_run_are_silent_and_gone() -> None:
    body = "t = tc.ones(B)\nif B > 32:\n    t = tc.ones(C)\nz.store(t)"
    assert faults(check(body)) == [(4, "shape-mismatch")]
    report = check(body, dims={"B": 16, "C": 8})
    assert faults(report) == []
    assert len(report.kernel.body) == 2


def test_questions_about_types_are_answered_in_the_settled_kernel() -> None:
    from tilecheck.ir.printer import show_kernel

    report = check("t = z.load()\nu = t.astype(t.dtype) * t.ndim\nz.store(u if t.ndim == 1 else t)")
    assert faults(report) == []
    text = show_kernel(report.kernel)
    assert "u = t * 1" in text and "store(z, u)" in text


def test_faults_in_helpers_stand_in_the_helper() -> None:
    before = "def twice(t):\n    return t + tc.ones(C)\n"
    report = check("z.store(twice(z.load()))", before=before)
    (fault,) = report.faults
    assert fault.rule == "shape-mismatch" and fault.span.line == report.kernel.span.line - 2


def test_values_of_an_enclosing_function_are_open_at_check_time() -> None:
    from tilecheck.frontend.source import Source
    from tilecheck.frontend.tile import read_kernels
    from tilecheck.verify.tile import check_kernel

    text = (
        "import tilecheck as tc\nfrom tilecheck import Dim, Mut, Tensor, f32\nclass B(Dim): ...\n"
        "def make(n, f):\n    @tc.kernel\n    def k(z: Tensor[Mut, f32, B]) -> None:\n"
        "        t = f(z.load()) * n\n        if n > 3:\n            t = t + 1\n        z.store(t)\n    return k\n"
    )
    (kernel,), read = read_kernels(Source("k.py", text), lambda module, importer: None)
    report = check_kernel(kernel)
    assert not read and not report.faults
    assert report.verdicts[Property.IN_BOUNDS].verdict is Verdict.UNKNOWN
    assert report.verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


def test_generic_reductions_type_their_function() -> None:
    before = "def larger(a, b):\n    return tc.maximum(a, b)\ndef wide(a, b):\n    return (a + b).astype(f16)\n"
    params = "z: Tensor[Mut, f32, D16], x: Tensor[Shared, f32, D16, D24]"
    assert faults(check("z.store(tc.reduce(x.load(), larger, axis=1))", params, before=before)) == []
    assert faults(check("z.store(tc.reduce(x.load(), lambda a, b: a + b, axis=1))", params)) == []
    assert faults(check("z.store(tc.reduce(x.load(), wide, axis=1))", params, before=before)) == [(1, "dtype-mismatch")]


def test_long_and_deep_kernels_are_checked_in_time() -> None:
    long = "n = 0\n" + "\n".join(f"n = n + {i % 7} * tc.block_id(0)" for i in range(3000)) + "\nz.store(tc.full(B, n))"
    assert faults(check(long)) == []
    loads = "xs = x.partition(B)\nt = z.load()\n" + "\n".join(f"t = t + xs[{i}]" for i in range(150)) + "\nz.store(t)"
    assert faults(check(loads)) == []
    deep = "acc = tc.zeros(B)\n"
    for depth in range(18):
        deep += "    " * depth + f"for k{depth} in range(2):\n"
    deep += "    " * 18 + "acc = acc + 1\nz.store(acc)"
    assert faults(check(deep)) == []
