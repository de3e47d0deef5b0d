"""A counter that an earlier launch has counted in is no new one, until somebody sets it back."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.verdict import Property, Verdict

HEAD = """
import numpy as np
from numba import cuda

@cuda.jit(device=True)
def draw(c):
    return cuda.atomic.add(c, 0, 1)

@cuda.jit
def last(part, count, out):
    if cuda.threadIdx.x == 0:
        part[cuda.blockIdx.x] = cuda.blockIdx.x
        cuda.threadfence()
        turn = draw(count)
        cuda.threadfence()
        if turn == cuda.gridDim.x - 1:
            out[0] = part[0] + part[1]

@cuda.jit
def cleared(part, count, out):
    if cuda.threadIdx.x == 0:
        part[cuda.blockIdx.x] = cuda.blockIdx.x
        cuda.threadfence()
        turn = draw(count)
        cuda.threadfence()
        if turn == cuda.gridDim.x - 1:
            out[0] = part[0] + part[1]
            count[0] = 0

@cuda.jit
def zero(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 0

@cuda.jit
def wrapped(x):
    cuda.atomic.inc(x, 0, cuda.gridDim.x - 1)

@cuda.jit
def another(x):
    cuda.atomic.add(x, 0, 1)
    x[1] = 0

@cuda.jit
def look(x, out):
    out[0] = cuda.atomic.add(x, 0, 0)

part = cuda.device_array(4)
out = cuda.device_array(1)
"""


def checked(host: str, name: str = "last") -> SimtReport:
    source = Source("used.py", HEAD + textwrap.dedent(host))
    found = {kernel.name: kernel for kernel in read_kernels(source, lambda name: None)}
    launches = launches_of(found[name], read_launches(source, lambda name: None))
    assert launches
    return check_kernel(found[name], launches)


NEW = "count = cuda.to_device(np.zeros(1, np.int32))\n"
RUN = "last[4, 32](part, count, out)\n"
AGAIN = {
    "one after the other": NEW + RUN + RUN,
    "an array of the host": "count = np.zeros(1, np.int32)\n" + RUN + RUN,
    "in a function": "def host():\n    count = cuda.to_device(np.zeros(1, np.int32))\n    for _ in range(3):\n        "
    + RUN,
    "in a loop of unknown length": "def host(n):\n    count = cuda.to_device(np.zeros(1, np.int32))\n    for _ in range(n):\n        "
    + RUN,
    "in a loop until something": "def host(f):\n    count = cuda.to_device(np.zeros(1, np.int32))\n    while f():\n        "
    + RUN,
    "given by a caller": "def host(count):\n    " + RUN + "    " + RUN,
    "by a helper": "def once(c):\n    last[4, 32](part, c, out)\ndef host(count):\n    once(count)\n    once(count)\n",
    "by a helper that leaves early": """
        def once(c, kind):
            if kind:
                last[4, 32](part, c, out)
                return
            cuda.synchronize()
        def host(count, kind):
            once(count, kind)
            last[4, 32](part, count, out)
        """,
    "on one path": "def host(count, x):\n    if x:\n        " + RUN + "    " + RUN,
    "set back on one path": NEW + RUN + "def host(x):\n    if x:\n        count[0] = 0\n    " + RUN,
    "by another name": NEW + "other = count\nlast[4, 32](part, other, out)\n" + RUN,
    "through a view": NEW + "last[4, 32](part, count[:1], out)\n" + RUN,
    "of an object": """
        class Sum:
            def __init__(self):
                self.count = cuda.to_device(np.zeros(1, np.int32))
            def add(self):
                last[4, 32](part, self.count, out)
        def host():
            total = Sum()
            total.add()
            total.add()
        """,
    "of an object whose method may be called again": """
        class Sum:
            def __init__(self):
                self.count = cuda.to_device(np.zeros(1, np.int32))
            def add(self):
                last[4, 32](part, self.count, out)
        """,
    "of a module, by a function": NEW + "def host():\n    " + RUN,
    "by another kernel, which clears another place": NEW + "another[1, 1](count)\n" + RUN,
    "a kernel that only looks": NEW + RUN + "look[1, 1](count, out)\n" + RUN,
    "a reading of the host": NEW + RUN + "print(count.copy_to_host()[0])\ncuda.synchronize()\n" + RUN,
    "set to something else": NEW + "count[0] = 3\n" + RUN,
    "filled with something else": NEW + "count[:] = -1\n" + RUN,
    "one of many launches": NEW + "for g in (4, 5, 6, 7, 8, 9):\n    last[g, 32](cuda.device_array(g), count, out)\n",
}


@pytest.mark.parametrize("host", AGAIN.values(), ids=AGAIN.keys())
def test_a_used_counter_does_not_start_at_zero(host: str) -> None:
    answer = checked(host).verdicts[Property.RACE_FREE]
    assert answer.verdict in (Verdict.UNKNOWN, Verdict.REFUTED), answer


SET_BACK = {
    "once": NEW + RUN,
    "a new one each time": "def host(n):\n    for _ in range(n):\n        count = cuda.to_device(np.zeros(1, np.int32))\n        "
    + RUN,
    "by the host": NEW + RUN + "count[:] = 0\n" + RUN,
    "by the host, an element": NEW + RUN + "count[0] = 0\n" + RUN,
    "before each round": "def host(count, n):\n    for _ in range(n):\n        count[0] = 0\n        " + RUN,
    "after each round": "def host(count, n):\n    for _ in range(n):\n        " + RUN + "        count[0] = 0\n",
    "by a copy": NEW + RUN + "count.copy_to_device(np.zeros(1, np.int32))\n" + RUN,
    "by a copy into it": NEW + RUN + "cuda.to_device(np.zeros(1, np.int32), to=count)\n" + RUN,
    "by a function that is not known": "from memory import memset\ndef host(count):\n    "
    + RUN
    + "    memset(count, 0)\n    "
    + RUN,
    "by a fill": "import cupy as cp\ncount = cp.zeros(1, cp.int32)\n" + RUN + "count.fill(0)\n" + RUN,
    "by a kernel": NEW + RUN + "zero[1, 32](count)\n" + RUN,
    "by a helper": "def clear(c):\n    c[:] = 0\ndef host(count):\n    " + RUN + "    clear(count)\n    " + RUN,
    "by a method": """
        class Sum:
            def __init__(self):
                self.count = cuda.to_device(np.zeros(1, np.int32))
            def add(self):
                self.count[0] = 0
                last[4, 32](part, self.count, out)
        """,
    "by a method of its own": """
        class Sum:
            def __init__(self):
                self.count = cuda.to_device(np.zeros(1, np.int32))
            def clear(self):
                self.count[0] = 0
            def add(self):
                last[4, 32](part, self.count, out)
        """,
    "by both paths": NEW
    + RUN
    + "def host(x):\n    if x:\n        count[0] = 0\n    else:\n        zero[1, 1](count)\n    "
    + RUN,
    "by a kernel that wraps": NEW + RUN + "wrapped[4, 1](count)\n" + RUN,
    "another counter": NEW + RUN + "other = cuda.to_device(np.zeros(1, np.int32))\nlast[4, 32](part, other, out)\n",
    "another place of one array": "many = cuda.to_device(np.zeros(2, np.int32))\nlast[4, 32](part, many[:1], out)\n"
    "last[4, 32](part, many[1:], out)\n",
    "a counter for each round": "many = cuda.to_device(np.zeros(4, np.int32))\nfor at in range(4):\n"
    "    last[4, 32](part, many[at:at + 1], out)\n",
    "not by the one that looks": NEW + "look[1, 1](count, out)\n" + RUN,
    "never written": NEW + "zero[1, 1](part)\n" + RUN,
}


@pytest.mark.parametrize("host", SET_BACK.values(), ids=SET_BACK.keys())
def test_a_counter_that_is_set_back_is_new(host: str) -> None:
    answer = checked(host).verdicts[Property.RACE_FREE]
    assert answer.verdict is Verdict.PROVEN, answer


def test_a_kernel_that_sets_its_counter_back_may_be_launched_again() -> None:
    run = RUN.replace("last", "cleared")
    assert checked(NEW + run + run, "cleared").verdicts[Property.RACE_FREE].verdict is Verdict.PROVEN
