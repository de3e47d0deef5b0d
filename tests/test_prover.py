"""The prover on kernels with labels: verdicts, witnesses, conditions, mutants, and what it must not claim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.score import Score, score_kernels
from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.symbolic.smt_solver import OutOfBudget
from tilecheck.verify import prove
from tilecheck.verify.necessity import barrier_notes
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.suspects import Suspect
from tilecheck.verify.verdict import Property, Verdict

IDIOMS = Path(__file__).parent / "kernels" / "idioms.py"
PROVED = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)
SOURCE = Source("idioms.py", IDIOMS.read_text())
KERNELS = {kernel.name: kernel for kernel in read_kernels(SOURCE, lambda name: None)}
LAUNCHES = read_launches(SOURCE, lambda name: None)


def report(text: str, name: str | None = None) -> SimtReport:
    """The report of one kernel of a module text, under the launches that the text shows."""
    source = Source("kernel.py", "import numpy as np\nfrom numba import cuda, float32, int32\n" + text)
    found = read_kernels(source, lambda module: None)
    kernel = next(k for k in found if name in (None, k.name))
    return check_kernel(kernel, launches_of(kernel, read_launches(source, lambda module: None)))


def worst(found: SimtReport) -> Verdict:
    order = (Verdict.PROVEN, Verdict.PROVEN_GIVEN, Verdict.UNKNOWN, Verdict.REFUTED)
    return max((answer.verdict for answer in found.verdicts.values()), key=order.index)


def test_every_idiom_gets_its_label() -> None:
    score = Score()
    score_kernels(score, IDIOMS, general=False)
    assert score.cases.total() == len(KERNELS)
    assert not score.wrong and not score.unsound


def test_conditions_are_minimal_and_readable() -> None:
    def given(name: str) -> tuple[str, ...]:
        return check_kernel(KERNELS[name]).conditions()

    assert given("guarded_map") == ("x.size >= y.size",)
    assert given("early_return_map") == ()
    assert given("matrix_rows") == ("a.shape[0] >= out.shape[0]", "a.shape[1] >= out.shape[1]")
    assert given("leader_of_each_block") == ("out.size >= gridDim.x",)
    # It reads `s[63 - t]`: a smaller block would leave that unwritten.
    full = ("blockDim.x <= 64", "blockDim.x >= 64")
    assert given("block_reverse") == ("x.size >= blockDim.x * gridDim.x", *full)


TILED = """
@cuda.jit
def k(a, b, c):
    sa = cuda.shared.array((16, 16), float32)
    sb = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for i in range(cuda.gridDim.x):
        sa[ty, tx] = 0
        sb[ty, tx] = 0
        if y < a.shape[0] and tx + i * 16 < a.shape[1]:
            sa[ty, tx] = a[y, tx + i * 16]
        if x < b.shape[1] and ty + i * 16 < b.shape[0]:
            sb[ty, tx] = b[ty + i * 16, x]
        cuda.syncthreads()
        for j in range(16):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total
"""

HALO = """
@cuda.jit
def k(x, out):
    s = cuda.shared.array(66, float32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    if t < 64 and i < x.size:
        s[t + 1] = x[i]
    cuda.syncthreads()
    if t < 64 and i < out.size:
        out[i] = s[t] + s[t + 2]
"""


def test_a_tile_without_a_launch_asks_for_a_full_block() -> None:
    answer = report(TILED).verdicts[Property.SHARED_INITIALISED]
    assert answer.verdict is Verdict.PROVEN_GIVEN
    assert {"blockDim.x >= 16", "blockDim.y >= 16"} <= set(answer.conditions)


def test_a_halo_that_nobody_writes_stays_wrong() -> None:
    assert report(HALO).verdicts[Property.SHARED_INITIALISED].verdict is Verdict.REFUTED


LEANING = """
@cuda.jit
def k(b):
    s = cuda.shared.array(16, int32)
    few = cuda.shared.array(4, int32)
    t = cuda.threadIdx.x
    few[t] = t
    s[t % 16] = t
    if t < b.size:
        b[t] = s[t & 3] + few[t]
"""


def test_what_leans_on_conditions_of_others_says_so() -> None:
    answer = report(LEANING).verdicts[Property.SHARED_INITIALISED]
    assert answer.verdict is Verdict.PROVEN_GIVEN
    assert "blockDim.x <= 4" in answer.conditions


def test_a_refutation_shows_both_threads_and_the_launch() -> None:
    found = report(
        """
@cuda.jit
def k(y):
    i = cuda.grid(1)
    if i + 1 < y.size:
        y[i] = 1.0
        y[i + 1] = 2.0

k[1, 4](np.zeros(9))
"""
    )
    (finding,) = found.findings
    assert finding.rule == "data-race" and finding.array == "y"
    assert [place.span.line for place in finding.places] == [8, 9]
    assert len(finding.witness.threads) == 2 and finding.witness.launch["grid"] == (1, 1, 1)
    assert finding.launch is not None and finding.launch.line == 11


def test_what_cannot_be_read_is_never_proven() -> None:
    found = report(
        """
@cuda.jit
def k(x):
    i = cuda.grid(1)
    if i < x.size:
        mystery(x, i)
        x[i] = 0
"""
    )
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.UNKNOWN
    assert "mystery" in (found.verdicts[Property.RACE_FREE].reason or "")
    assert not found.findings


def test_float_guards_are_no_integer_facts() -> None:
    """No integer lies between 0 and 1, but floats do: the store is reached."""
    found = report(
        """
@cuda.jit
def k(x, out):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0 and x[i] < 1:
        out[0] = i

k[1, 8](np.full(8, 0.5), np.zeros(1))
"""
    )
    assert found.verdicts[Property.RACE_FREE].verdict is not Verdict.PROVEN


def test_one_value_written_by_all_is_proven_with_a_reason() -> None:
    found = report(
        """
@cuda.jit
def k(flag):
    flag[0] = 1

k[2, 32](np.zeros(1))
"""
    )
    answer = found.verdicts[Property.RACE_FREE]
    assert (answer.verdict, answer.reason) == (Verdict.PROVEN, "same-value")
    assert [place.text for place in found.same_value] == ["flag[0]"]


def test_a_barrier_reached_through_a_racy_flag_is_not_proven() -> None:
    found = report(
        """
@cuda.jit
def k(x, n):
    flag = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == n:
        flag[0] = t
    if t == n + 1:
        flag[0] = t
    if flag[0] > 3:
        cuda.syncthreads()
    x[t] = 0
"""
    )
    assert found.verdicts[Property.BARRIERS_UNIFORM].verdict is not Verdict.PROVEN


def test_the_same_array_twice_is_seen() -> None:
    text = """
@cuda.jit
def k(src, dst):
    i = cuda.grid(1)
    if i + 1 < src.size and i < dst.size:
        dst[i] = src[i + 1]

"""
    shared = text + "d = cuda.to_device(np.arange(20.0))\nk[1, 16](d, d)\n"
    apart = text + "d, e = cuda.to_device(np.arange(20.0)), cuda.to_device(np.zeros(20))\nk[1, 16](d, e)\n"
    assert worst(report(shared)) is Verdict.REFUTED
    assert worst(report(apart)) is Verdict.PROVEN


def test_the_budget_is_kept() -> None:
    import time

    begun = time.process_time()
    found = check_kernel(KERNELS["tiled_product"], budget=0.05)
    assert time.process_time() - begun < 2.0
    assert any(answer.verdict is Verdict.UNKNOWN for answer in found.verdicts.values())


def test_reports_do_not_depend_on_what_was_checked_before() -> None:
    first = check_kernel(KERNELS["halving_sum"], launches_of(KERNELS["halving_sum"], LAUNCHES))
    for name in ("tiled_product", "pairs_by_xor"):
        check_kernel(KERNELS[name])
    again = check_kernel(KERNELS["halving_sum"], launches_of(KERNELS["halving_sum"], LAUNCHES))
    assert (first.verdicts, first.findings, first.notes) == (again.verdicts, again.findings, again.notes)


def test_what_leans_on_freedom_from_races_keeps_its_conditions() -> None:
    found = report(
        """
@cuda.jit
def k(x):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    s[t % 16] = t
    x[t] = s[t % 8]
"""
    )
    race = found.verdicts[Property.RACE_FREE]
    initial = found.verdicts[Property.SHARED_INITIALISED]
    assert race.verdict is not Verdict.PROVEN and initial.verdict is not Verdict.PROVEN
    if race.verdict is Verdict.PROVEN_GIVEN:
        assert set(race.conditions) <= set(initial.conditions)


def test_only_a_literal_negative_index_is_meant() -> None:
    text = """
@cuda.jit
def f(a):
    for k in range(8, 0, -1):
        a[{index}] = 1
        cuda.syncthreads()
"""
    assert report(text.format(index="-1")).verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN
    assert report(text.format(index="7 - k")).verdicts[Property.IN_BOUNDS].verdict is Verdict.REFUTED


@pytest.mark.parametrize("barrier", ["syncthreads", "syncwarp"])
def test_a_barrier_that_threads_miss_orders_only_those_that_meet(barrier: str) -> None:
    text = f"""
@cuda.jit
def f(n):
    s = cuda.shared.array(32, int32)
    t = cuda.threadIdx.x
    s[t] = t
    if t % 2 == 0:
        return
    cuda.{barrier}()
    s[(n + t) % 32] = n

def main():
    f[1, 32](5)
"""
    found = report(text)
    assert found.verdicts[Property.BARRIERS_UNIFORM].verdict is Verdict.REFUTED
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.UNKNOWN


def test_initialised_memory_leans_on_the_order_of_writes_and_reads() -> None:
    found = report(
        """
@cuda.jit
def f(a):
    s = cuda.shared.array(0, float32)
    b = cuda.shared.array(0, np.uint8)
    t = cuda.threadIdx.x
    s[t] = a[t]
    b[t] = 1
    cuda.syncthreads()
    a[t] = s[t]
"""
    )
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.UNKNOWN
    assert found.verdicts[Property.SHARED_INITIALISED].verdict is Verdict.UNKNOWN


def test_needed_barriers_are_told_from_others() -> None:
    text = """
@cuda.jit
def k(x):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    x[t] = s[31 - t]
    cuda.syncthreads()

k[1, 32](np.zeros(32, np.float32))
"""
    source = Source("kernel.py", "import numpy as np\nfrom numba import cuda, float32\n" + text)
    launches = read_launches(source, lambda module: None)
    (kernel,) = read_kernels(source, lambda module: None)
    notes = list(barrier_notes(check_kernel(kernel, launches), launches, 5.0))
    assert notes == [
        "the barrier on line 9 is needed: without it line 8 and line 10 race on `s`",
        "the barrier on line 11 is not needed to be free of races",
    ]


def test_bit_operations_are_exact_where_it_matters() -> None:
    gray = """
@cuda.jit
def k(out):
    i = cuda.threadIdx.x
    out[i ^ (i >> 1)] = i

k[1, 64](np.zeros(64))
"""
    assert worst(report(gray)) is Verdict.PROVEN
    assert worst(report(gray.replace("i ^ (i >> 1)", "i | (i >> 1)"))) is Verdict.REFUTED


# ---- annotated kernels

ANNOTATED = """
import tilecheck as tc
from tilecheck import Dyn, Mut, Shared, Tensor, f32


@tc.simt(block=64, requires="x.size >= z.size")
def scale(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn], by: float) -> None:
    i = cuda.grid(1)
    if i < z.size:
        z[i] = by * x[i]
"""


def test_a_contract_is_taken_for_granted() -> None:
    found = report(ANNOTATED)
    assert worst(found) is Verdict.PROVEN
    assert "x.size >= z.size (the kernel's contract)" in found.assumptions
    without = report(ANNOTATED.replace(', requires="x.size >= z.size"', ""))
    assert without.conditions() == ("x.size >= z.size",)


def test_a_contract_that_cannot_be_read_is_refused() -> None:
    found = report(ANNOTATED.replace("x.size >= z.size", "x.length >= z.size"))
    assert [fault.rule for fault in found.faults] == ["launch-contract"]


def test_a_shared_tensor_is_not_written() -> None:
    found = report(ANNOTATED.replace("Tensor[Mut, f32, Dyn]", "Tensor[Shared, f32, Dyn]"))
    assert [fault.rule for fault in found.faults] == ["write-to-shared"]


@pytest.mark.parametrize(
    "index", ["uint8(i)", "np.uint8(i)", "np.int16(i)", "(i << 62) >> 62", "i << 60", "i * 4611686018427387904"]
)
def test_indices_that_wrap_are_not_shown_apart(index: str) -> None:
    found = report(
        f"""
from numba import uint8

@cuda.jit
def f(a):
    i = cuda.grid(1)
    k = {index}
    if 0 <= k < a.size:
        a[k] = i

def main():
    f[1024, 256](cuda.to_device(np.zeros(262144, np.float32)))
"""
    )
    assert found.verdicts[Property.RACE_FREE].verdict not in PROVED


def test_a_cast_that_holds_its_value_changes_nothing() -> None:
    found = report(
        """
@cuda.jit
def f(a):
    t = np.uint8(cuda.threadIdx.x)
    if t < a.size:
        a[t] = t

def main():
    f[1, 256](cuda.to_device(np.zeros(256, np.float32)))
"""
    )
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN


def test_a_room_that_runs_out_of_time_on_the_way_leaves_its_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    def room(run: object, conditions: object) -> Iterator[Suspect]:
        yield from ()
        raise OutOfBudget

    monkeypatch.setattr(prove, "_ROOMS", ((Property.BARRIERS_UNIFORM, room),))
    proof: Any = SimpleNamespace(
        conditions=SimpleNamespace(found=["n >= 1"], given=[]), entry=SimpleNamespace(run=SimpleNamespace())
    )
    assert prove._leans(proof, Property.BARRIERS_UNIFORM)
