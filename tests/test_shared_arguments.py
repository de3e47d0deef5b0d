"""Arrays that a launch passes twice, under whatever names: never proved apart unless they are, and silent where they are.

`reverse` races if its two arguments share elements, `blur` too; `scale` does not if they are the same ones in one order.
"""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.result import FileResult

PRELUDE = """
import functools
from dataclasses import dataclass

import cupy
import numpy as np
import torch
from numba import cuda


@cuda.jit
def reverse(a, b):
    i = cuda.grid(1)
    if i < a.size and i < b.size:
        a[i] = b[b.size - 1 - i]


@cuda.jit
def blur(a, b):
    i = cuda.grid(1)
    if 0 < i < b.size - 1 and i < a.size:
        a[i] = b[i - 1] + b[i + 1]


@cuda.jit
def scale(a, b):
    i = cuda.grid(1)
    if i < a.size and i < b.size:
        a[i] = 2 * b[i]


@dataclass
class Box:
    data: object
    other: object = None

    @property
    def flat(self):
        return self.data.reshape(-1)


def both(x):
    yield x
    yield x


def overlapping(x):
    return x[:40], x[24:]

"""

ONE_ARRAY = (
    "x: reverse[1, 64](x, x)",
    "x: reverse[1, 64](x[1:], x[:-1])",
    "x: reverse[1, 64](x, x.ravel())",
    "x, n: reverse[1, 64](x[:n], x[n // 2 :])",
    "x: reverse[1, 64](x['a'], x['a'][:])",
    "x: reverse[1, 64](x.data, x.data[:32])",
    "box: reverse[1, 64](box.flat, box.view())",
    "x: reverse[1, 64](*both(x))",
    "x: reverse[1, 64](*overlapping(x))",
    "x: reverse[1, 64](*([x] * 2))",
    "x: reverse[1, 64](*((x,) + (x,)))",
    "x: reverse[1, 64](x, *(x[1:],))",
    "x: reverse[1, 64](*x, *x)",
    "x: [reverse[1, 64](x, x[i:]) for i in range(3)]",
    "x: any(reverse[1, 64](x, x[i:]) for i in x)",
    "x: (lambda y: reverse[1, 64](y, y))(x)",
    "x, flag: reverse[1, 64](x, x[1:]) if flag else None",
    "x, flag: flag and reverse[1, 64](x, x[1:])",
    "x: functools.partial(reverse[1, 64], x)(x[1:])",
    "x: reverse[1, 64](Box(x).flat, x)",
    "x: reverse[1, 64](x, torch.relu_(x))",
    "x: reverse[1, 64](cuda.to_device(x), cuda.as_cuda_array(x))",
    "x: reverse[1, 64](cupy.asarray(x), cupy.asarray(x))",
    "x: reverse[1, 64](x, cupy.flip(x)[::-1])",
    "*xs: reverse[1, 64](xs[0], xs[0])",
    "**named: reverse[1, 64](named['a'], named['a'][1:])",
    """x
    y = x
    while step():
        reverse[1, 64](x, y)
        y = x[1:]
    """,
    """xs
    before = None
    for x in xs:
        reverse[1, 64](x, x if before is None else before)
        before = x[1:]
        reverse[1, 64](x, before)
    """,
    """
    x = load()
    reverse[1, 64](x[:-1], x[1:])
    """,
    """
    x = cuda.device_array(64)
    reverse[1, 64](x, cuda.to_device(x))
    """,
    """
    x = cupy.zeros(64) + 1
    reverse[1, 64](x, x[:])
    """,
    """
    x = cupy.zeros(64).copy()
    reverse[1, 64](x, x[:])
    """,
    """
    x = cupy.zeros(64)
    reverse[1, 64](x, x.astype(np.float64, copy=False))
    """,
    """a, b, n
    for _ in range(n):
        reverse[1, 64](a, b)
        a, b = b, b
    """,
)

APART = (
    "x, y: blur[1, 64](x, y)",
    "x: blur[1, 64](cuda.device_array_like(x), x)",
    "x: blur[1, 64](torch.empty_like(x), x)",
    "x: blur[1, 64](x.copy(), x)",
    "x, y: blur[1, 64](cuda.to_device(x), cuda.to_device(y))",
    "x: blur[1, 64](cuda.to_device(np.zeros_like(x)), cuda.to_device(x))",
    "x, y: blur[1, 64](x.contiguous(), y.contiguous())",
    "pair: blur[1, 64](*pair)",
    "pair: blur[1, 64](pair[0], pair[1])",
    "x: blur[1, 64](x['a'], x['b'])",
    "**named: blur[1, 64](named['a'], named['b'])",
    """xs, ys
    for x, y in zip(xs, ys):
        blur[1, 64](x, y)
    """,
    """a, b, n
    for _ in range(n):
        blur[1, 64](a, b)
        a, b = b, a
    """,
    """a, b, n
    while n > 0:
        blur[1, 64](a, b)
        kept = a
        a = b
        b = kept
        n -= 1
    """,
    """a, n
    for _ in range(n):
        b = cuda.device_array(64)
        blur[1, 64](b, a)
        a = b
    """,
    """
    x = load()
    y = load()
    blur[1, 64](x, y)
    """,
    """
    rows = torch.zeros(2, 64, device="cuda")
    x, y = rows
    blur[1, 64](x, y)
    """,
    "x: scale[1, 64](x, x)",
    """
    x = cuda.device_array(64)
    scale[1, 64](x, x.ravel())
    """,
    """
    x = cuda.device_array((8, 8))
    scale[1, 64](x.reshape(64), x.reshape(-1))
    """,
    """
    x = cuda.device_array(64)
    reverse[1, 64](x[:64], x[63::-1])
    """,
    """
    x = cuda.device_array((2, 64))
    blur[1, 64](x[0], x[1])
    """,
)


def checked(program: str) -> FileResult:
    if "\n" in program:
        names, _, rest = program.partition("\n")
        body = textwrap.dedent(rest)
    else:
        names, _, body = program.partition(": ")
    text = PRELUDE + f"\ndef run({names}):\n" + textwrap.indent(body, "    ")
    return check_text("launches.py", text, Modules(), Options())


def race_freedom(result: FileResult, program: str) -> str:
    name = next(name for name in ("reverse", "blur", "scale") if f"{name}[" in program)
    return next(str(kernel.verdicts["race-free"].verdict) for kernel in result.kernels if kernel.name == name)


@pytest.mark.parametrize("program", ONE_ARRAY)
def test_two_arguments_on_one_array_are_not_proved_apart(program: str) -> None:
    assert not race_freedom(checked(program), program).startswith("proven")


@pytest.mark.parametrize("program", APART)
def test_arguments_that_get_along_are_proved_and_nothing_is_said(program: str) -> None:
    result = checked(program)
    assert race_freedom(result, program) == "proven"
    assert not [finding for finding in result.diagnostics if finding.rule == "borrow-conflict"]
