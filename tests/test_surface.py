"""The surface without a launch: extents, annotations, decorators, `where` and what they refuse."""

import math
from types import GenericAlias

import pytest

import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, UsageError, f32
from tilecheck.surface.kernel import Kernel, KernelOp


class BM(Dim): ...


class BK(Dim): ...


class D64(Dim, size=64): ...


def other_module() -> type[Dim]:
    class BK(Dim): ...

    return BK


def scaled(n: int) -> int:
    return n * BK


@tc.kernel
def gemm(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None:
    for k in range(scaled(2)):
        z.store(x.partition(BM)[k])


def test_a_fixed_dim_is_an_int() -> None:
    assert (D64 + 1, 1 + D64, D64 // 3, 130 // D64, D64 % 60, -D64) == (65, 65, 21, 2, 4, -64)
    assert (D64 / 128, 2.5 * D64) == (0.5, 160.0)
    assert D64 == 64 and D64 != 63 and D64 <= 64 < D64 + 1 and list(range(D64)) == list(range(64))
    assert math.sqrt(D64) == 8.0


def test_a_free_dim_has_no_value_on_the_host() -> None:
    with pytest.raises(UsageError, match="`BM` has no value outside a kernel"):
        range(BM)
    assert BM != BK and len({BM, BK, D64}) == 3


def test_dims_are_classes_of_their_own() -> None:
    with pytest.raises(UsageError, match="derives from the extent `BM`"):
        type("Sub", (BM,), {})
    with pytest.raises(UsageError, match="makes an instance"):
        BM()
    with pytest.raises(UsageError, match="no positive int"):

        class Empty(Dim, size=0): ...


def test_annotations_keep_their_arguments() -> None:
    full = Tensor[Mut, f32, BM]
    assert isinstance(full, GenericAlias) and full.__args__ == (Mut, f32, BM)
    assert Tensor[Mut].__args__ == (Mut,)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((Mut, f32, 16), "the extent 16 in a `Tensor` annotation is a number"),
        ((f32, BM), "does not start with an access"),
        ((Mut, BM), "an extent where the dtype belongs"),
    ],
)
def test_annotations_that_no_checker_reads_as_meant(args: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Tensor[args]  # type: ignore[misc, valid-type]


def test_kernel_keeps_the_function() -> None:
    assert isinstance(gemm, Kernel)
    assert (gemm.__name__, gemm.fn.__name__, gemm.options["checks"]) == ("gemm", "gemm", "auto")


def test_where_binds_a_name_of_the_body() -> None:
    bound = gemm.where(BK=64)
    assert bound is not gemm and dict(bound.bindings) == {"BK": 64}  # type: ignore[attr-defined]
    assert bound == gemm.where(BK=64) and bound != gemm and hash(bound) == hash(gemm.where(BK=64))


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        ({"BN": 8}, "`gemm` has no extent `BN`\nhelp: its extents are `BK`, `BM`"),
        ({"BK": 0}, "binds no positive int"),
        ({"BK": True}, "binds no positive int"),
        ({"BK": 32}, r"`BK` is bound twice: `where\(BK=64\)`, then `where\(BK=32\)`"),
    ],
)
def test_where_refuses(bindings: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        gemm.where(BK=64).where(**bindings) if "twice" in message else gemm.where(**bindings)
    assert caught.value.rule == "unbound-dim"


def test_hints_are_kept_and_replaced() -> None:
    tuned = gemm.where(BK=64).with_hints(num_ctas=2, occupancy=1).with_hints(occupancy=4)
    assert (dict(tuned.hints), dict(tuned.bindings)) == ({"num_ctas": 2, "occupancy": 4}, {"BK": 64})
    assert tuned == gemm.with_hints(occupancy=4, num_ctas=2).where(BK=64) and tuned != gemm.where(BK=64)
    assert repr(tuned) == "<tile kernel gemm where BK=64, num_ctas=2, occupancy=4>"


@pytest.mark.parametrize(
    ("hints", "message"),
    [
        ({"num_ctas": 3}, "`num_ctas=3` is not a power of two from 1 to 16: blocks per cluster"),
        ({"occupancy": 33}, "an int from 1 to 32"),
        ({"latency": True}, "`latency=True`"),
        ({"num_stages": 4}, "there is no hint `num_stages`, the hints are `num_ctas`, `occupancy`"),
    ],
    ids=str,
)
def test_what_is_no_hint(hints: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gemm.with_hints(**hints)


def test_a_simt_kernel_has_no_hints() -> None:
    @tc.simt(block=32)
    def fill(z: Tensor[Mut, f32, Dyn]) -> None: ...

    with pytest.raises(UsageError, match="hints are for tile kernels"):
        fill.with_hints(occupancy=2)


def test_where_against_a_fixed_size() -> None:
    @tc.kernel
    def fill(z: Tensor[Mut, f32, D64]) -> None: ...

    fill.where(D64=64)
    with pytest.raises(UsageError, match=r"`D64` is 64 by its definition \(`size=64`\), `where` says 32"):
        fill.where(D64=32)


def test_where_with_two_extents_of_one_name() -> None:
    inner = other_module()

    @tc.kernel
    def fill(z: Tensor[Mut, f32, BK]) -> None:
        z.store(tc.zeros(inner))  # type: ignore[attr-defined, unused-ignore]

    with pytest.raises(UsageError, match="names two extents of `fill`"):
        fill.where(BK=64)


def test_decorators_refuse_what_is_no_kernel() -> None:
    with pytest.raises(UsageError, match="is a kernel already"):
        tc.kernel(gemm)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="decorates a function"):
        tc.kernel(3)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match=r"64 x 32 = 2048 threads"):
        tc.simt(block=(64, 32))
    with pytest.raises(UsageError, match="is no block"):
        tc.simt(block=0)
    with pytest.raises(UsageError, match="`adopt` takes a numba-cuda kernel"):
        tc.adopt(scaled, block=64)


def test_unsafe_wants_a_reason() -> None:
    with pytest.raises(UsageError, match="`unsafe` has no reason"):
        tc.unsafe(" ")
    with tc.unsafe("rows are distinct by construction"):
        pass
    assert tc.unsafe("checked by hand")(gemm) is gemm


def test_a_kernel_op_refuses_the_host() -> None:
    with pytest.raises(UsageError, match="`mma` belongs to the kernel language and was called on the host"):
        KernelOp("mma")(1, 2)
