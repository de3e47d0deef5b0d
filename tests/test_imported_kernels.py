"""A launch decides about its kernel also where the kernel's file is not checked; then the launch is the place."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilecheck.batch import read_inputs, run
from tilecheck.diagnostic import Diagnostic
from tilecheck.judge import Options

KERNELS = """
import tilecheck as tc
from numba import cuda, float32
from tilecheck import Mut, Shared, Tensor, f32


@cuda.jit
def shift(dst, src):
    i = cuda.grid(1)
    if i < dst.size:
        dst[i] = src[i + 1]


@cuda.jit
def neighbours(dst, src):
    i = cuda.grid(1)
    if 0 < i < dst.size:
        dst[i] = src[i - 1]


@cuda.jit
def turn(x):
    t = cuda.threadIdx.x
    part = cuda.shared.array(64, float32)
    part[t] = x[t]
    x[t] = part[cuda.blockDim.x - 1 - t]


# tilecheck: allow[out-of-bounds] the array is longer than it says
@cuda.jit
def odd(x):
    i = cuda.grid(1)
    x[i] = 0.0


@cuda.jit
def halved(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 0.5 * x[i]


@tc.simt(block=32, requires="x.size >= n * 2")
def pairs(x: Tensor[Mut, f32, int], n: int) -> None:
    i = cuda.grid(1)
    if i < n:
        x[2 * i] = x[2 * i + 1]
"""
HEAD = "import numpy as np\nimport kern\nfrom numba import cuda\nfrom kern import halved, neighbours, odd, pairs, shift, turn\n"
ROOM = "b, a = cuda.device_array(1024), cuda.to_device(np.ones(1025))\n"
FULL = "b, a = cuda.device_array(1024), cuda.to_device(np.ones(1024))\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(tmp_path)
    Path("kern.py").write_text(KERNELS)
    yield
    os.chdir(before)


def found(text: str, *paths: str, jobs: int = 1) -> list[Diagnostic]:
    Path("host.py").write_text(HEAD + text)
    results = run(list(read_inputs(paths or ("host.py",))), Options(), jobs=jobs)
    return [finding for result in results for finding in result.diagnostics if finding.severity != "note"]


WRONG = [
    ("out-of-bounds", FULL + "shift[4, 256](b, a)\n"),
    ("out-of-bounds", FULL + "kern.shift[4, 256](b, a)\n"),
    ("out-of-bounds", FULL + "for _ in range(3):\n    shift[4, 256](b, a)\n"),
    ("out-of-bounds", FULL + "def main(twice):\n    if twice:\n        shift[4, 256](b, a)\n"),
    ("out-of-bounds", FULL + "move = shift\nmove[4, 256](b, a)\n"),
    ("out-of-bounds", "class Job:\n    def run(self):\n        shift[1, 8](np.zeros(8), np.ones(8))\n"),
    ("data-race", "turn[1, 64](cuda.to_device(np.ones(64, np.float32)))\n"),
    ("implicit-float64", "halved[1, 64](cuda.to_device(np.ones(64, np.float32)))\n"),
]
RIGHT = [
    ROOM + "shift[4, 256](b, a)\n",
    ROOM + "kern.shift[4, 256](b, a)\n",
    ROOM + "def main(twice):\n    if twice:\n        shift[4, 256](b, a)\n",
    "def main(b, a):\n    shift[4, 256](b, a)\n",
    "turn[1, 1](cuda.to_device(np.ones(64, np.float32)))\n",
    "halved[1, 64](cuda.to_device(np.ones(64)))\n",
    "odd[1, 64](cuda.to_device(np.ones(32)))\n",
]


@pytest.mark.parametrize(("rule", "text"), WRONG)
def test_what_a_launch_breaks_is_told_at_the_launch(rule: str, text: str) -> None:
    (alone,) = found(text)
    assert (alone.rule, alone.span.path) == (rule, "host.py")
    assert "[" in (HEAD + text).split("\n")[alone.span.line - 1]
    assert any(label.span.path == "kern.py" for label in alone.labels)
    (together,) = (each for each in found(text, "host.py", "kern.py") if each.kernel == alone.kernel)
    assert (together.rule, together.span.path) == (rule, "kern.py")


@pytest.mark.parametrize("text", RIGHT)
def test_what_a_launch_keeps_is_silent(text: str) -> None:
    assert found(text) == []


def test_a_contract_is_told_at_the_launch_in_either_way() -> None:
    text = "import tilecheck as tc\npairs(tc.zeros(40).partition(32), 32).sync()\n"
    alone = found(text)
    assert alone == [each for each in found(text, "host.py", "kern.py") if each.kernel == "pairs"]
    assert [(finding.rule, finding.span.path) for finding in alone] == [("launch-contract", "host.py")]


def test_an_array_that_a_kernel_was_proved_to_cope_with_may_be_passed_twice() -> None:
    text = "def main():\n    x = cuda.to_device(np.ones(64))\n    neighbours[1, 64](x, x)\n"
    wrong = found(text)
    assert [finding.rule for finding in wrong] == ["borrow-conflict"]
    Path("kern.py").write_text(KERNELS.replace("src[i - 1]", "src[i]"))
    assert found(text) == []
    assert all(finding.kernel != "neighbours" for finding in found(text, "host.py", "kern.py"))


def test_the_path_may_be_written_in_any_way() -> None:
    for paths in (("host.py", os.path.abspath("kern.py")), (os.path.abspath("host.py"), "kern.py")):
        (wrong,) = (finding for finding in found(WRONG[0][1], *paths) if finding.kernel == "shift")
        assert os.path.relpath(wrong.span.path) == "kern.py"


SILENT = "import numpy as np\n{}\n\n\ndef step(x):\n    {}[n_of(x), 2048](x, x)\n\n\ndef n_of(x):\n    return 8\n"
"""A host file that names neither tilecheck nor numba."""


@pytest.mark.parametrize(
    ("how", "kernel"),
    [
        ("from kern import shift", "shift"),
        ("import kern", "kern.shift"),
        ("from kern import shift as move", "move"),
        ("import kern as k", "k.shift"),
        ("from gpu import shift", "shift"),
        ("import gpu", "gpu.shift"),
    ],
)
def test_a_file_that_imports_kernels_is_checked_whatever_else_it_says(how: str, kernel: str) -> None:
    Path("gpu").mkdir()
    Path("gpu/__init__.py").write_text("from gpu.parts import shift\n")
    Path("gpu/parts.py").write_text(KERNELS)
    Path("host.py").write_text(SILENT.format(how, kernel))
    listed = ("gpu/__init__.py", "gpu/parts.py", "host.py", "kern.py")
    for inputs in (read_inputs(listed), read_inputs(("host.py",), named=("host.py",))):
        (result,) = (each for each in run(list(inputs), Options()) if each.path == "host.py")
        assert {each.rule for each in result.diagnostics} >= {"borrow-conflict", "launch-contract"}


def test_a_file_that_imports_no_kernels_is_left_alone() -> None:
    Path("words.py").write_text('"""Nothing for cuda here."""\nimport math\n')
    Path("shared.py").write_text("from words import math\nimport kernel, kerns\n")
    listed = ("kern.py", "shared.py", "words.py")
    assert [each.path for each in read_inputs(listed)] == ["kern.py", "words.py"]
    assert not list(read_inputs(("shared.py",), named=("shared.py",)))
