"""Kernels of cuTile Python after well-known patterns: proved without a launch too, and found once one thing is wrong."""

from __future__ import annotations

import re

import pytest

from tests.literate import Case, read_cases
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.result import FileResult

CASES = [case for case in read_cases() if "cutile_models: " in case.name]
_MARKED = re.compile(r"^def (\w+)\(.*\):  # race-free$", re.MULTILINE)
_MAIN = "\ndef main():"


def checked(text: str) -> FileResult:
    return check_text("case.py", text, Modules(), Options())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_launch_is_needed(case: Case) -> None:
    result = checked(case.text.partition(_MAIN)[0])
    assert [d for d in result.diagnostics if d.severity == "error"] == []
    verdicts = {kernel.name: kernel.verdicts["race-free"].verdict for kernel in result.kernels}
    marked = _MARKED.findall(case.text)
    assert marked
    assert {name for name in marked if verdicts[name] not in ("proven", "proven-given")} == set()


# Kernel, what stands there, what stands there instead, what is found.
WRONG = [
    ("attention_delta", "ct.store(Delta, (h, i)", "ct.store(Delta, (h, 0)", "data-race"),
    ("merge_splits", "ct.store(Out, (b, h, 0)", "ct.store(Out, (b, 0, 0)", "data-race"),
    ("bias_gradient", "ct.atomic_add(DB, j * TN", "ct.scatter(DB, j * TN", "data-race"),
    ("bias_gradient", "(ceil(1000 / 32), 8), bias", "(1000 // 32 + 2, 8), bias", "out-of-bounds"),
    ("group_norm", "ct.store(Y, (n, g, j)", "ct.store(Y, (n, 0, j)", "data-race"),
    ("cross_entropy", "ct.store(loss, (row,)", "ct.store(loss, (0,)", "data-race"),
    ("dropout", "ct.store(y, (i,)", "ct.store(y, (i // 2,)", "data-race"),
    ("dropout", "(4,), dropout", "(5,), dropout", "out-of-bounds"),
    ("dropout", "(4,), dropout", "(3,), dropout", "partial-coverage"),
    ("top_k", "ct.store(values, (row, k)", "ct.store(values, (row, k + 1)", "out-of-bounds"),
    ("top_k", "ct.store(at, (row, k)", "ct.store(at, (0, k)", "data-race"),
    ("block_scan", "ct.store(sums, (i,)", "ct.store(sums, (0,)", "data-race"),
    ("add_offsets", "ct.load(offsets, (i,), (1,))", "ct.load(y, (i + 1,), (1,))", "data-race"),
    ("reduce_all", "ct.atomic_add(out, 0, ct.sum(acc))", "ct.store(out, (0,), ct.sum(acc))", "data-race"),
    ("reduce_rows", "(TM, TN), padding_mode=ZERO)\n    ct.store", "(TM, TN))\n    ct.store", "void-lanes"),
    ("conv1d_depthwise", "ct.store(y, (c, j)", "ct.store(y, (0, j)", "data-race"),
    ("conv1d_depthwise", "torch.empty_like(signal), 4, 128", "signal, 4, 128", "borrow-conflict"),
    ("quantise", "ct.store(scales, (row, j)", "ct.store(scales, (row, j + 1)", "out-of-bounds"),
    ("quantise", "(signal, q, scales, 128)", "(signal, q, scales, 100)", "shape-mismatch"),
    ("max_pool", "ct.store(y, (c, j)", "ct.store(y, (c, j // 2)", "data-race"),
    ("swap_halves", "n - 1 - j", "n - j", "out-of-bounds"),
    ("swap_halves", "ct.store(y, (row, n - 1 - j)", "ct.store(x, (row, n - 1 - j)", "data-race"),
    ("stream_k", "ct.atomic_add(C, (rows[:, None], columns[None, :]), acc)", "ct.store(C, (i, j), acc)", "data-race"),
    ("persistent_batched", "ct.num_blocks(0)):", "1):", "data-race"),
    ("adam_step", "ct.store(v, (i,)", "ct.store(v, (0,)", "data-race"),
    ("adam_step", "1e-3, 512))", "1e-3))", "launch-contract"),
]


@pytest.mark.parametrize(("kernel", "old", "new", "rule"), WRONG, ids=lambda value: value.splitlines()[0][:40])
def test_one_wrong_thing_is_found(kernel: str, old: str, new: str, rule: str) -> None:
    (case,) = [case for case in CASES if f"def {kernel}(" in case.text]
    text = alone(kernel, case.text)
    assert text.count(old) == 1
    assert rule in {finding.rule for finding in checked(text.replace(old, new)).diagnostics}


def alone(kernel: str, text: str) -> str:
    """The case with one of its kernels; launches of the others are of names that are not there."""
    parts = re.split(r"(?=^@ct\.kernel\n|^def \w+\(\):|^def banded)", text, flags=re.MULTILINE)
    kept = [p for p in parts if not p.startswith("@ct.kernel") or f"def {kernel}(" in p]
    lines = "".join(kept).split("\n")
    return "\n".join(line for line in lines if "ct.launch(" not in line or f", {kernel}, " in line)
