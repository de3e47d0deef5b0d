"""The prover on kernels that call what cannot be read: only what such a call may touch becomes unknown."""

from __future__ import annotations

from tests.test_prover import report
from tilecheck.verify.verdict import Property, Verdict

ELEMENT_HANDED_OVER = """
bar = cuda.declare_device("bar", "int32(int32)")

@cuda.jit
def k(x, y):
    i = cuda.grid(1)
    if i < x.size and i < y.size:
        x[i] = bar(y[i])

k[2, 32](np.zeros(64, np.int32), np.zeros(64, np.int32))
"""


def test_a_call_that_is_not_read_leaves_the_arrays_of_its_values_alone() -> None:
    verdicts = report(ELEMENT_HANDED_OVER).verdicts
    assert verdicts[Property.RACE_FREE].verdict is verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN
    assert verdicts[Property.BARRIERS_UNIFORM].verdict is Verdict.UNKNOWN


def test_a_row_or_an_element_of_an_unknown_kind_may_be_written_by_it() -> None:
    row = ELEMENT_HANDED_OVER.replace("np.zeros(64, np.int32))", "np.zeros((64, 4), np.int32))")
    record = ELEMENT_HANDED_OVER.replace("np.zeros(64, np.int32))", "np.zeros(64, points))")
    for text in (row, record):
        assert report(text).verdicts[Property.RACE_FREE].verdict is Verdict.UNKNOWN


CAPTURED = """
table = make_table()

@cuda.jit
def k(x):
    i = cuda.grid(1)
    if i < x.size:
        {}
"""


def test_an_array_that_the_kernel_captures_is_one_more_array() -> None:
    read = report(CAPTURED.format("x[i] = table[i] + table[i + 1]"))
    assert read.verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN
    assert "captured arrays do not overlap array arguments" in read.assumptions
    assert read.verdicts[Property.IN_BOUNDS].verdict is not Verdict.PROVEN
    written = report(CAPTURED.format("table[i // 2] = x[i]")).verdicts
    assert written[Property.RACE_FREE].verdict not in (Verdict.PROVEN, Verdict.PROVEN_GIVEN)
