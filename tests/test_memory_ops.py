"""Rows that touch memory: what their rules predict, against the interpreter's objects, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.op_values import Ext, check, tile, type_of
from tilecheck.interp.arguments import TensorArgument, TileMap
from tilecheck.interp.machine import Machine
from tilecheck.interp.tensors import bind
from tilecheck.ir.types import (
    ArrayExtent,
    DimExtent,
    DimType,
    IndexType,
    NoneType,
    ScalarType,
    StrType,
    SubTilesType,
    TensorType,
    TileType,
    TupleType,
    Type,
    ViewType,
)
from tilecheck.ops import OPS, NotYet, Refused
from tilecheck.surface.dtypes import DTYPES, DTypeClass, bool_, f16, f32, i32, i64

BM, BN = DimExtent("m.BM", "BM"), DimExtent("m.BN", "BN")
INT, FLOAT = ScalarType("int"), ScalarType("float")
ALL = (ArrayExtent("x", 0), ArrayExtent("x", 1))


def machine() -> Machine:
    return Machine("k", "k.py", (9, 9, 9))


def param(name: str, access: Any, dtype: DTypeClass | None, *shape: Any) -> TensorType:
    return TensorType(name, access, dtype, shape)


def refused(op: str, *args: Type, **kwargs: Type) -> Refused:
    with pytest.raises(Refused) as error:
        OPS[op].type_of(args, kwargs)
    assert error.value.message[0] in "`aint" and not error.value.message.endswith(".")
    return error.value


@pytest.mark.parametrize("dtype", list(DTYPES.values()), ids=list(DTYPES))
def test_loads_and_stores_of_every_dtype_on_ragged_and_tiny_arrays(dtype: DTypeClass) -> None:
    computed = f32 if dtype.storage_only else dtype
    for shape, extents in (((5, 7), (2, 3)), ((1, 1), (4, 4)), ((4, 6), (4, 6))):
        data = tile(computed, shape).astype(dtype.numpy())
        z = bind("z", "Mut", TensorArgument(data.copy(), extents), machine())
        x = bind("x", "Shared", TensorArgument(data), machine())
        own, whole = param("z", "Mut", dtype, *extents), param("x", "Shared", dtype, *ALL)
        check(OPS["load"].meaning(z), OPS["load"].type_of([own]))
        like = OPS["load_like"].meaning(x, z)
        check(like, OPS["load_like"].type_of([whole, own]))
        check(OPS["store"].meaning(z, like), OPS["store"].type_of([own, type_of(like)]))
        kept = tuple(slice(0, min(a, b)) for a, b in zip(shape, extents, strict=True))
        assert z.memory.array[kept].tobytes() == data[kept].tobytes()
        view_type = OPS["partition"].type_of([whole, DimType(3), DimType(2)], {"permute": type_of((1, 0))})
        view = OPS["partition"].meaning(x, Ext(3), Ext(2), permute=(1, 0))
        assert isinstance(view_type, ViewType)
        check(OPS["load_tile"].meaning(view, 0, 0), OPS["load_tile"].type_of([view_type, INT, INT]))
        check(OPS["num_tiles"].meaning(view, 1), OPS["num_tiles"].type_of([view_type, ScalarType("int", 1)]))
        inner_type = OPS["tiles"].type_of([own, DimType(1), DimType(extents[1])])
        inner = OPS["tiles"].meaning(z, Ext(1), Ext(extents[1]))
        check(OPS["load"].meaning(inner, 0, 0), OPS["load"].type_of([inner_type, INT, INT]))
        index = np.zeros((3,), np.int32)
        gathered = OPS["gather"].type_of([whole, TupleType((type_of(index), INT))])
        check(OPS["gather"].meaning(x, (index, 0)), gathered)


def test_scatter_sets_elements_of_every_dtype() -> None:
    for dtype in DTYPES.values():
        z_type = param("z", "Atomic", dtype, ArrayExtent("z", 0))
        index, value = np.array([3, 99, 0]), tile(f32, (3,)).astype(dtype.numpy())
        if dtype.name.startswith("f8"):
            assert refused("scatter", z_type, type_of(index), type_of(value)).rule == "dtype-mismatch"
            continue
        z = bind("z", "Atomic", TensorArgument(np.zeros(4, dtype.numpy())), machine())
        assert OPS["scatter"].type_of([z_type, type_of(index), type_of(value)]) == NoneType()
        assert OPS["scatter"].meaning(z, index, value, mask=np.array([True, False, True])) is None
        assert z.memory.array.tolist() == [value[2], 0, 0, value[0]]


def test_atomics_of_every_dtype_they_take() -> None:
    wide = {"f32", "f64", "i32", "i64", "u32", "u64"}
    ints = {"i32", "i64", "u32", "u64"}
    takes = {
        "atomic_add": wide | {"f16", "bf16"},
        "atomic_exchange": wide,
        **{f"atomic_{name}": ints for name in ("max", "min", "and", "or", "xor")},
    }
    for name, accepted in takes.items():
        for dtype in DTYPES.values():
            z_type = param("z", "Atomic", dtype, ArrayExtent("z", 0))
            index, value = np.arange(4), tile(f32, (4,)).astype(dtype.numpy())
            if dtype.name not in accepted:
                assert refused(name, z_type, type_of(index), type_of(value)).rule == "dtype-mismatch"
                continue
            z = bind("z", "Atomic", TensorArgument(np.ones(4, dtype.numpy())), machine())
            predicted = OPS[name].type_of([z_type, type_of(index), type_of(value)])
            with np.errstate(all="ignore"):
                check(OPS[name].meaning(z, index, value), predicted)
                check(OPS[name].meaning(z, 0, 1), OPS[name].type_of([z_type, INT, INT]))


def test_masked_lanes_are_not_touched() -> None:
    z = bind("z", "Atomic", TensorArgument(np.zeros(3, np.int32)), machine())
    index = np.array([0, 99, 2])
    old = OPS["atomic_add"].meaning(z, index, 5, mask=np.array([True, False, True]))
    assert old.tolist() == [0, 0, 0] and z.memory.array.tolist() == [5, 0, 5]


def test_mapped_rows() -> None:
    argument = TensorArgument(np.zeros((4, 6), np.float32), (2, 3), TileMap((1, 1), 1))
    z = bind("z", "Mapped", argument, machine())
    own = param("z", "Mapped", f32, 2, 3)
    at_type = OPS["indices"].type_of([own])
    assert at_type == IndexType(("z",), 2)
    for at in OPS["indices"].meaning(z):
        check(OPS["load"].meaning(z, at), OPS["load"].type_of([own, at_type]))
        check(OPS["store"].meaning(z, np.ones((2, 3), np.float32), at), NoneType())
    assert (argument.array == 1).all()
    other = param("y", "Mapped", f16, 2, 3)
    assert OPS["indices_with"].type_of([own, other]) == IndexType(("z", "y"), 2)
    assert OPS["at"].type_of([own, at_type, INT]) == IndexType(("z",), 2)


def test_void_axes_of_loads() -> None:
    z, x = param("z", "Mut", f32, BM, BN), param("x", "Shared", f32, *ALL)
    z0, z1, x0, x1 = (ArrayExtent(n, a) for n in "zx" for a in (0, 1))

    def void(op: str, *args: Type, **kwargs: Type) -> object:
        result = OPS[op].type_of(args, kwargs)
        assert isinstance(result, TileType)
        return result.void

    assert void("load", z) == ((0, z0), (1, z1))
    assert void("load_like", x, z) == ((0, z0), (1, z1))
    assert void("load_like", param("x", "Shared", f32, x0, BN), z) == ((0, z0),)
    assert void("load_like", param("x", "Shared", f32, 64, 60), param("z", "Mut", f32, 16, 16)) == ((1, z1),)
    assert void("load", z, pad=ScalarType("float", 0.0)) == void("load_like", x, z, pad=StrType("-inf")) == ()
    assert void("load", param("z", "Mut", f32, 1, BN)) == ((1, z1),)
    assert void("load", param("x", "Shared", f32, BM, BN)) == ()
    view = OPS["partition"].type_of([x, DimType(BM), DimType(BN)], {"permute": type_of((1, 0))})
    assert void("load_tile", view, INT, INT) == ((0, x1), (1, x0))
    padded = OPS["partition"].type_of([x, DimType(BM), DimType(BN)], {"pad": ScalarType("float", 0.0)})
    assert void("load_tile", padded, INT, INT) == ()
    assert void("load_tile", SubTilesType("z", f32, (BM,), (BN,)), INT) == ((0, z0),)
    halves = SubTilesType("z", f32, (4,), (10,))
    assert refused("load_tile", halves, INT).rule == "void-lanes"
    assert OPS["store"].type_of([halves, TileType(f32, (4,)), INT]) == NoneType()
    ragged = TileType(i32, (BM,), ((0, z0),))
    assert OPS["gather"].mixed([param("x", "Shared", f32, x0), ragged]) == ((1, 0, z0),)
    assert OPS["gather"].mixed([x, TupleType((ragged, INT))]) == ((1, 0, z0),)


def test_writes_need_an_exclusive_tensor() -> None:
    t, x = TileType(f32, (BM,)), param("x", "Shared", f32, ArrayExtent("x", 0))
    error = refused("store", x, t)
    assert (error.rule, error.message) == ("write-to-shared", "`store` through `x`, which is `Shared`")
    assert refused("store", param("a", "Atomic", f32, BM), t).rule == "write-to-shared"
    assert refused("store", ViewType("x", f32, (BM,), (0,)), t).rule == "write-to-shared"
    assert refused("tiles", x, DimType(BN)).rule == "write-to-shared"
    assert refused("atomic_add", x, INT, FLOAT).rule == "write-to-shared"
    assert refused("atomic_add", param("z", "Mut", f32, BM), INT, FLOAT).rule == "usage"


def test_indices_must_be_minted() -> None:
    t = TileType(f32, (BM,))
    mut, mapped = param("z", "Mut", f32, BM), param("m", "Mapped", f32, BM)
    assert refused("store", mut, t, INT).rule == "foreign-index"
    for index in ((), (INT,), (TupleType((INT,)),), (IndexType(("y",), 1),)):
        assert refused("store", mapped, t, *index).rule == "foreign-index"
    assert refused("load", mapped, INT).rule == "foreign-index"
    error = refused("store", mapped, t, IndexType(("y", "w"), 1))
    assert error.message == "`store` of `m` at an index minted by `y` and `w`"
    assert refused("indices", mut).rule == "foreign-index"
    assert OPS["store"].type_of([mapped, t, IndexType(("y", "m"), 1)]) == NoneType()
    assert refused("indices_with", mapped, param("n", "Mapped", f32, BM, BN)).rule == "shape-mismatch"
    assert refused("at", mapped, IndexType(("m",), 1), INT).rule == "shape-mismatch"


def test_stores_need_the_shape_and_dtype_of_the_target() -> None:
    z = param("z", "Mut", f32, BM, BN)
    error = refused("store", z, TileType(f32, (BN, BM)))
    assert error.rule == "shape-mismatch"
    assert error.message == "`store` of a tile of shape (BN, BM) to `z`, whose tile has shape (BM, BN)"
    assert refused("store", z, TileType(f16, (BM, BN))).rule == "dtype-mismatch"
    assert refused("store", z, TileType(f32, (BM, 1))).rule == "shape-mismatch"
    assert "full((BM, BN)," in str(refused("store", z, FLOAT).help)


def test_sub_ranges_are_pairs_in_tiles() -> None:
    one, two = param("z", "Mapped", f32, BM), param("y", "Mapped", f32, BM, BN)
    pair = TupleType((INT, ScalarType("int", -1)))
    for z, within in ((one, pair), (one, TupleType((pair,))), (two, TupleType((pair, pair)))):
        assert isinstance(OPS["indices"].type_of([z], {"within": within}), IndexType)
    assert refused("indices", two, within=pair).rule == "shape-mismatch"
    assert refused("indices", one, within=INT).rule == "usage"
    assert refused("indices", one, within=TupleType((ScalarType("int", -1), INT))).rule == "out-of-bounds"
    assert refused("indices", one, within=TupleType((INT, ScalarType("int", -2)))).rule == "out-of-bounds"


def test_views_check_rank_permutation_and_padding() -> None:
    x, n = param("x", "Shared", f32, *ALL), param("n", "Shared", i32, ArrayExtent("n", 0))
    assert refused("partition", x, DimType(BM)).rule == "shape-mismatch"
    assert refused("partition", x, ScalarType("int", 8), ScalarType("int", 8)).rule == "unsupported"
    assert refused("partition", x, DimType(BM), DimType(BN), permute=type_of((0, 0))).rule == "shape-mismatch"
    assert refused("partition", n, DimType(BM), pad=StrType("nan")).rule == "dtype-mismatch"
    assert refused("partition", n, DimType(BM), pad=ScalarType("float", 0.5)).rule == "dtype-mismatch"
    assert refused("partition", x, DimType(BM), DimType(BN), pad=StrType("edge")).rule == "usage"
    assert refused("partition", param("z", "Mut", f32, BM), DimType(BN)).rule == "usage"
    view = ViewType("x", f32, (BM, BN), (0, 1))
    assert refused("load_tile", view, INT).rule == "shape-mismatch"
    assert refused("load_tile", view, INT, FLOAT).rule == "usage"
    assert refused("load_tile", x, INT, INT).rule == "usage"
    assert refused("num_tiles", view, ScalarType("int", 2)).rule == "shape-mismatch"
    assert refused("num_tiles", x, ScalarType("int", 0)).rule == "usage"
    assert refused("block_id", ScalarType("int", 3)).rule == "shape-mismatch"


def test_whole_loads_need_named_extents() -> None:
    assert refused("load", param("x", "Shared", f32, BM, ArrayExtent("x", 1))).rule == "unbound-dim"
    assert refused("load", param("a", "Atomic", i32, BM)).rule == "unsupported"
    assert refused("load_like", param("z", "Mut", f32, BM), param("z", "Mut", f32, BM)).rule == "usage"
    assert refused("load_like", param("x", "Shared", f32, BM), param("z", "Mut", f32, BM, BN)).rule == "shape-mismatch"


def test_open_annotations_wait_for_the_launch() -> None:
    open_dtype, open_shape = TensorType("x", "Shared", None, ALL), TensorType("z", "Mut", f32, None)
    for op, args in (
        ("load_like", (open_dtype, param("z", "Mut", f32, BM, BN))),
        ("load", (open_shape,)),
        ("store", (open_shape, TileType(f32, (BM,)))),
        ("partition", (open_dtype, DimType(BM), DimType(BN))),
        ("gather", (open_dtype, TupleType((INT, INT)))),
        ("tiles", (open_shape, DimType(BM))),
    ):
        with pytest.raises(NotYet):
            OPS[op].type_of(args)


def test_gather_and_atomics_check_indices() -> None:
    x, z = param("x", "Shared", f32, *ALL), param("z", "Atomic", i32, ArrayExtent("z", 0))
    index = TileType(i32, (BM,))
    assert refused("gather", x, index).rule == "shape-mismatch"
    assert refused("gather", x, TupleType((TileType(f32, (BM,)), INT))).rule == "dtype-mismatch"
    assert refused("gather", x, TupleType((index, index)), mask=TileType(i32, (BM,))).rule == "dtype-mismatch"
    assert refused("gather", param("m", "Mut", f32, BM), index).rule == "usage"
    assert refused("atomic_add", z, index, TileType(i64, (BM,))).rule == "dtype-mismatch"
    assert refused("atomic_add", z, index, FLOAT).rule == "dtype-mismatch"
    assert refused("atomic_add", z, INT, TileType(i32, (BM,))).rule == "shape-mismatch"
    assert refused("atomic_cas", param("z", "Atomic", f32, BM), INT, FLOAT, FLOAT).rule == "dtype-mismatch"
    assert refused("scatter", x, INT, FLOAT).rule == "write-to-shared"
    assert refused("scatter", z, index, FLOAT).rule == "dtype-mismatch"
    assert refused("scatter", z, INT, TileType(i32, (BM,))).rule == "shape-mismatch"
    masked = OPS["gather"].type_of([x, TupleType((index, INT))], {"mask": TileType(bool_, (BM,)), "pad": INT})
    assert masked == TileType(f32, (BM,))
