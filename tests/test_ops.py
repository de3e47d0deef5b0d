"""Type rules against meanings: what a rule predicts is what the meaning returns, for every row, dtype and kind of
shape.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tests.op_values import COMPUTED, Ext, check, operands, tile, type_of
from tilecheck.ir.types import (
    ArrayExtent,
    DimExtent,
    DimType,
    DTypeType,
    FunctionType,
    ScalarType,
    TileType,
    TupleType,
    Type,
)
from tilecheck.ops import FAMILIES, OPS, Effect, Lanes, NotYet, Op, Refused, operators
from tilecheck.surface.dtypes import (
    DTYPES,
    bf16,
    bool_,
    f8e4m3,
    f16,
    f32,
    f64,
    i8,
    i32,
    i64,
    u8,
    u32,
)

BM, BN, BK = (DimExtent(f"m.{name}", name) for name in ("BM", "BN", "BK"))
INT, FLOAT = ScalarType("int"), ScalarType("float")

ELEMENTWISE = {
    row.name: sum(p.kind is p.POSITIONAL_ONLY for p in row.signature.parameters.values())
    for row in OPS.values()
    if row.family in ("arithmetic", "bitwise", "comparison", "logic", "math")
}
# The kinds of dtype each family computes with, said once more and independently of the rows.
KINDS = {
    "arithmetic": {"float", "int", "uint"},
    "bitwise": {"int", "uint", "bool"},
    "comparison": {"float", "int", "uint"},
    "logic": {"bool"},
    "math": {"float"},
}
EXCEPT = (
    (("divide", "fma", "isnan", "isinf", "isfinite"), {"float"}),
    (("ceil_div", "mul_hi", "bitwise_left_shift", "bitwise_right_shift"), {"int", "uint"}),
    (("equal", "not_equal"), {"float", "int", "uint", "bool"}),
)


def run(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Type:
    """Predict, compute, compare; returns the prediction."""
    named = kwargs or {}
    predicted = op.type_of([type_of(a) for a in args], {k: type_of(v) for k, v in named.items()})
    with np.errstate(all="ignore"):
        check(op.meaning(*args, **named), predicted)
    return predicted


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_rows_give_what_their_rule_says(name: str) -> None:
    row = OPS[name]
    kinds = next((kinds for names, kinds in EXCEPT if name in names), KINDS[row.family])
    for dtype in COMPUTED:
        if dtype.kind in kinds:
            for args in operands(ELEMENTWISE[name], dtype):
                run(row, args)
        else:
            with pytest.raises(Refused) as refused:
                row.type_of([type_of(tile(dtype, (4,)))] * ELEMENTWISE[name])
            assert refused.value.rule == "dtype-mismatch" and dtype.name in refused.value.message


def test_where_takes_every_dtype() -> None:
    for dtype in COMPUTED:
        for args in operands(2, dtype):
            run(OPS["where"], (tile(bool_, (7,) if np.shape(args[0]) == (7,) else ()), *args))
            run(OPS["where"], (True, *args))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"])
def test_reductions_give_what_their_rule_says(name: str) -> None:
    for dtype in COMPUTED:
        if (dtype.kind == "bool") != (name in ("any", "all")):
            with pytest.raises(Refused, match=name):
                OPS[name].type_of([type_of(tile(dtype, (4,)))])
            continue
        for shape in ((), (1,), (7,), (3, 5), (2, 3, 5)):
            axes: list[Any] = [None, *range(-len(shape), len(shape))]
            if len(shape) == 3 and not name.startswith("arg"):
                axes.append((0, 2))
            for axis in axes:
                for keep in (False, True):
                    run(OPS[name], (tile(dtype, shape),), {"axis": axis, "keepdims": keep})


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans_give_what_their_rule_says(name: str) -> None:
    for dtype in COMPUTED:
        for shape in ((1,), (7,), (3, 5), (2, 3, 5)):
            if dtype.kind != "bool":
                for axis in range(-len(shape), len(shape)):
                    run(OPS[name], (tile(dtype, shape),), {"axis": axis, "reverse": axis % 2 == 0})


def test_generic_scan_and_reduce_match_the_named_ones() -> None:
    x = tile(i32, (3, 5))
    scalar = TileType(i32, ())
    add = FunctionType((scalar, scalar), scalar)
    for name, like in (("scan", "cumsum"), ("reduce", "sum")):
        for axis in (0, 1):
            predicted = OPS[name].type_of([type_of(x), add], {"axis": ScalarType("int", axis)})
            with np.errstate(all="ignore"):
                result = OPS[name].meaning(x, lambda a, b: a + b, axis=axis)
                np.testing.assert_array_equal(result, OPS[like].meaning(x, axis=axis))
            check(result, predicted)
    with pytest.raises(Refused, match="returns `Tile"):
        OPS["reduce"].type_of([type_of(x), FunctionType((scalar, scalar), TileType(f32, ()))])


def test_matrix_products() -> None:
    wanted = {f16: f32, bf16: f32, f32: f32, f64: f64, i8: i32, u8: i32}
    for dtype in COMPUTED:
        for lead in ((), (2,)):
            x, y = tile(dtype, (*lead, 3, 5)), tile(dtype, (*lead, 5, 4))
            if dtype not in wanted:
                with pytest.raises(Refused, match="mma"):
                    OPS["mma"].type_of([type_of(x), type_of(y), type_of(tile(f32, (*lead, 3, 4)))])
                continue
            run(OPS["mma"], (x, y, tile(wanted[dtype], (*lead, 3, 4))))
            if dtype.kind == "float":
                run(OPS["matmul"], (x, y))


def test_shape_rows_give_what_their_rule_says() -> None:
    for dtype in DTYPES.values():
        x = tile(dtype, (2, 3, 5)) if not dtype.storage_only else tile(f32, (2, 3, 5)).astype(dtype.numpy())
        run(OPS["reshape"], (x, Ext(5), Ext(6)))
        run(OPS["reshape"], (x, (Ext(30),)))
        run(OPS["permute_dims"], (x, (2, 0, -2)))
        run(OPS["transpose"], (x[0],))
        run(OPS["broadcast_to"], (x[:, :1], Ext(4), Ext(2), Ext(3), Ext(5)))
        run(OPS["expand_dims"], (x, -1))
        run(OPS["squeeze"], (x[:, :1], 1))
        run(OPS["concat"], ((x, x[:1]),), {"axis": 0})
        run(OPS["extract"], (x, (1, 0, 0), (Ext(1), Ext(3), Ext(5))))


def test_casts_between_every_two_dtypes() -> None:
    for source in DTYPES.values():
        x = tile(f32 if source.storage_only else source, (3, 5)).astype(source.numpy())
        for target in DTYPES.values():
            run(OPS["astype"], (x, target))
            if source.bits == target.bits and "bool" not in (source.kind, target.kind):
                run(OPS["bitcast"], (x, target))
        if not source.storage_only:
            one = x[:1, :1].reshape(())
            for name in ("item", "int", "float", "bool"):
                run(OPS[name], (one,))


def test_creation() -> None:
    for dtype in DTYPES.values():
        run(OPS["zeros"], (Ext(3), Ext(5)), {"dtype": dtype})
        run(OPS["ones"], ((Ext(3),),), {"dtype": dtype})
        value: Any = {"float": 1.5, "bool": True}.get(dtype.kind, 7)
        run(OPS["full"], ((Ext(3), Ext(5)), value), {"dtype": dtype})
        if not dtype.storage_only and dtype.kind != "bool":
            run(OPS["arange"], (Ext(9),), {"dtype": dtype, "start": 2, "step": 3})
    assert run(OPS["zeros"], (Ext(3),)) == TileType(f32, (3,))
    assert run(OPS["full"], (Ext(3), 1)) == TileType(f32, (3,))
    assert run(OPS["arange"], (Ext(9),)) == TileType(i32, (9,))
    assert run(OPS["arange"], (Ext(9),), {"start": 2**31}) == TileType(i64, (9,))


def test_random_rows() -> None:
    run(OPS["random_bits"], (Ext(3), Ext(5)), {"seed": 1, "offset": 2})
    for name in ("rand", "randn"):
        for dtype in (f16, bf16, f32, f64):
            run(OPS[name], (Ext(3), Ext(5)), {"seed": -1, "offset": 2, "dtype": dtype})
    for dtype in (i32, u32, i64):
        run(OPS["philox"], (tile(dtype, (7,)), 3))


def test_storage_dtypes_do_not_compute() -> None:
    x = TileType(f8e4m3, (4,))
    for name, arity in ELEMENTWISE.items():
        with pytest.raises(Refused, match="stores values and does not compute"):
            OPS[name].type_of([x] * arity)
    for name in ("sum", "argmax", "cumsum"):
        with pytest.raises(Refused, match="stores values and does not compute"):
            OPS[name].type_of([x])


@pytest.mark.parametrize(
    ("op", "args", "message"),
    [
        ("+", (TileType(f32, (4,)), TileType(f16, (4,))), "`+` of a `f32` tile and a `f16` tile"),
        ("*", (TileType(i32, (4,)), FLOAT), "`*` of a float scalar and a `i32` tile"),
        ("/", (TileType(i32, (4,)), TileType(i32, (4,))), "`/` of a `i32` tile"),
        ("/", (TileType(i32, (4,)), INT), "`/` of a `i32` tile"),
        ("+", (TileType(u8, (4,)), ScalarType("int", 300)), "`+`: 300 does not fit the tile's dtype `u8` (0 to 255)"),
        ("-", (TileType(u8, (4,)), ScalarType("int", -1)), "`-`: -1 does not fit the tile's dtype `u8` (0 to 255)"),
        ("+", (TileType(bool_, (4,)), TileType(bool_, (4,))), "`+` takes number tiles, this one is `bool_`"),
        ("&", (TileType(f32, (4,)), TileType(f32, (4,))), "`&` takes int or bool tiles, this one is `f32`"),
        ("<", (TileType(f32, (4,)), ScalarType("bool")), "`<` of a bool scalar and a `f32` tile"),
    ],
)
def test_number_rules_refuse(op: str, args: tuple[Type, ...], message: str) -> None:
    with pytest.raises(Refused) as refused:
        operators()[op].type_of(args)
    assert (refused.value.rule, refused.value.message) == ("dtype-mismatch", message)
    assert op in ("&", "<", "+") or refused.value.help


def test_scalars_take_the_dtype_of_the_tile() -> None:
    for dtype in (f16, bf16, f32, f64):
        for scalar in (INT, FLOAT, DimType(BM)):
            assert operators()["*"].type_of([scalar, TileType(dtype, (BM,))]) == TileType(dtype, (BM,))
    assert operators()["+"].type_of([INT, FLOAT]) == FLOAT
    assert operators()["/"].type_of([INT, INT]) == FLOAT
    assert operators()["//"].type_of([INT, INT]) == INT


def test_shapes_agree_by_dim() -> None:
    square, swapped = TileType(f32, (BM, BN)), TileType(f32, (BN, BM))
    with pytest.raises(Refused) as refused:
        operators()["+"].type_of([square, swapped])
    assert refused.value.rule == "shape-mismatch"
    assert "`BM` and `BN` differ on axis 0" in refused.value.message
    column = OPS["max"].type_of([square], {"axis": ScalarType("int", 1), "keepdims": ScalarType("bool", True)})
    assert column == TileType(f32, (BM, 1))
    assert operators()["-"].type_of([square, column]) == square
    with pytest.raises(Refused, match="inner extents `BM` and `BN` differ"):
        OPS["mma"].type_of([swapped, swapped, square])
    with pytest.raises(Refused, match="numbers of elements differ"):
        OPS["reshape"].type_of([TileType(f32, (BM, 6)), TupleType((DimType(7), DimType(BM)))])
    with pytest.raises(NotYet):
        OPS["concat"].type_of([TupleType((square, square))])
    with pytest.raises(Refused) as bare:
        OPS["zeros"].type_of([ScalarType("int", 16)])
    assert bare.value.rule == "unsupported" and "class D16(Dim, size=16)" in str(bare.value.help)


def test_arguments_are_bound_as_in_a_call() -> None:
    with pytest.raises(Refused) as refused:
        OPS["sum"].type_of([TileType(f32, (4,))], {"axes": INT})
    assert refused.value.rule == "usage" and "axes" in refused.value.message
    with pytest.raises(Refused, match="the axis is computed in the kernel"):
        OPS["sum"].type_of([TileType(f32, (4,)), INT])
    with pytest.raises(Refused, match="the axis must be a constant int, not `float`"):
        OPS["sum"].type_of([TileType(f32, (4,)), FLOAT])
    for args in ((TileType(f32, (4,)), FLOAT), (TileType(f32, (4,)), TileType(f32, (4,))), (INT, INT)):
        with pytest.raises(Refused, match="`max` of two values") as two:
            OPS["max"].type_of(args)
        assert "maximum" in str(two.value.help)
    with pytest.raises(Refused, match="along axis 2 of a value of rank 2"):
        OPS["sum"].type_of([TileType(f32, (4, 4)), ScalarType("int", 2)])


# ---- void lanes

X0, X1 = ArrayExtent("x", 0), ArrayExtent("x", 1)
RAGGED = TileType(f32, (BM, BN), ((0, X0), (1, X1)))


def void(op: str, *args: Type, **kwargs: Type) -> tuple[object, object]:
    """What a call mixes, and the void axes of its result."""
    result = OPS[op].type_of(args, kwargs)
    assert isinstance(result, TileType)
    return OPS[op].mixed(args, kwargs), result.void


def test_void_lanes_are_carried_moved_or_mixed() -> None:
    zero, one = ScalarType("int", 0), ScalarType("int", 1)
    assert void("add", RAGGED, TileType(f32, (BN,), ((0, X1),))) == ((), RAGGED.void)
    assert void("where", TileType(bool_, (BM, BN)), RAGGED, FLOAT) == ((), RAGGED.void)
    assert void("sum", RAGGED, one) == (((0, 1, X1),), ((0, X0),))
    assert void("sum", RAGGED, axis=zero, keepdims=ScalarType("bool", True)) == (((0, 0, X0),), ((1, X1),))
    assert void("max", RAGGED) == (((0, 0, X0), (0, 1, X1)), ())
    assert void("cumsum", RAGGED, one) == (((0, 1, X1),), ((0, X0),))
    assert void("permute_dims", RAGGED, TupleType((one, zero))) == ((), ((0, X1), (1, X0)))
    assert void("expand_dims", RAGGED, zero) == ((), ((1, X0), (2, X1)))
    assert void("broadcast_to", RAGGED, DimType(BK), DimType(BM), DimType(BN)) == ((), ((1, X0), (2, X1)))
    other = TileType(f32, (BN, BK), ((0, ArrayExtent("y", 0)), (1, ArrayExtent("y", 1))))
    mixed, left = void("mma", RAGGED, other, TileType(f32, (BM, BK)))
    assert mixed == ((0, 1, X1), (1, 0, ArrayExtent("y", 0)))
    assert left == ((0, X0), (1, ArrayExtent("y", 1)))
    fixed = TileType(f32, (4, 6), ((0, X0), (1, X1)))
    assert void("reshape", fixed, DimType(4), DimType(2), DimType(3)) == (((0, 1, X1),), ((0, X0),))
    assert void("reshape", fixed, DimType(1), DimType(4), DimType(6)) == ((), ((1, X0), (2, X1)))
    assert void("concat", TupleType((fixed, fixed)), zero) == (((0, 0, X0),), ((1, X1),))
    parts = (TupleType((zero, one)), TupleType((DimType(4), DimType(3))))
    assert void("extract", fixed, *parts) == (((0, 1, X1),), ((0, X0),))
    assert void("astype", RAGGED, DTypeType(f16)) == ((), RAGGED.void)


# ---- the table


def test_every_row_is_documented_and_its_rule_takes_its_arguments() -> None:
    for row in OPS.values():
        assert (row.doc and row.doc[0].isupper()) or row.doc.startswith("`"), row.name
        assert row.stub or not row.function, row.name
        assert (row.lanes is Lanes.MIX) == (row.mixes is not None)
        meaning, rule = inspect.signature(row.meaning), inspect.signature(row.result)
        positional = [p for p in meaning.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        placeholders: list[Any] = [object()] * len(positional)
        named = {
            p.name: object() for p in meaning.parameters.values() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        }
        rule.bind(*placeholders, **named)
    assert {row.effect for row in OPS.values()} == set(Effect)


def test_every_family_module_adds_rows() -> None:
    homes = {row.meaning.__module__ for row in OPS.values()}
    assert homes == {module.__name__ for module in FAMILIES}


def test_a_row_is_added_once() -> None:
    from tilecheck.ops.row import op

    with pytest.raises(ValueError, match="already has a row `add`"):
        op("x", result=lambda: INT, lanes=Lanes.CARRY)(OPS["add"].meaning)
    with pytest.raises(ValueError, match="iff its lanes mix"):
        op("x", result=lambda: INT, lanes=Lanes.MIX, name="unheard of")(OPS["add"].meaning)


def test_methods_are_typed_where_the_table_says() -> None:
    classes = {"Tile": "tile", "Tensor": "tensor", "View": "view", "SubTiles": "subtiles", "Index": "index"}
    for row in OPS.values():
        typed = {classes[line.split(":")[0]] for line in row.stub if f": def {row.name}(" in line.split("(")[0] + "("}
        # `load` of a view is spelled `xs[i]` in types.
        assert typed == set(row.method_of) - ({"view", "subtiles"} if row.name == "load" else set()), row.name
        functions = [line for line in row.stub if line.startswith("def ")]
        assert bool(functions) == row.function, row.name
