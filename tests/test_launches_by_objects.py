"""Launches that objects, callbacks and decorators make: a size that another call may change is not taken for granted."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.check import Options, check_text
from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.modules import Modules
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.verdict import Property, Verdict

HEAD = """
import numpy as np
from numba import cuda

@cuda.jit
def k(a):
    a[cuda.grid(1)] = 1

@cuda.jit
def pair(arrays):
    i = cuda.grid(1)
    arrays[0][i] = arrays[1][i + 1]

@cuda.jit
def sides(arrays):
    i = cuda.grid(1)
    if i < arrays[0].size:
        arrays[1][i] = i

@cuda.jit
def scaled(pair, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = pair[0] * i + pair[1]

def room(n):
    return cuda.device_array(n, np.float32)

"""


def checked(host: str, name: str = "k") -> SimtReport:
    source = Source("objects.py", HEAD + textwrap.dedent(host))
    found = {kernel.name: kernel for kernel in read_kernels(source, lambda name: None)}
    launches = launches_of(found[name], read_launches(source, lambda name: None))
    assert launches
    return check_kernel(found[name], launches)


BASE = """
class Base:
    n = 64
    def size(self):
        return self.n
    def go(self):
        k[2, 32](room(self.size()))
"""
# The last line says what is launched; each has a twin that is launched with 64 elements.
OTHER_SIZES = {
    "an attribute of a subclass": BASE + "class Sub(Base):\n    n = 10\nSub().go()\n",
    "an attribute that a subclass sets": BASE
    + "class Sub(Base):\n    def __init__(self):\n        self.n = 10\nSub().go()\n",
    "a method of a subclass": BASE + "class Sub(Base):\n    def size(self):\n        return 10\nSub().go()\n",
    "a subclass of a subclass": BASE + "class Mid(Base):\n    pass\nclass Sub(Mid):\n    n = 10\nSub().go()\n",
    "after the constructor of the base": """
        class Base:
            def __init__(self, n):
                self.n = n
            def go(self):
                k[2, 32](room(self.n))
        class Sub(Base):
            def __init__(self):
                super().__init__(64)
                self.n = 10
        Sub().go()
        """,
    "by the constructor of the base": """
        class Base:
            def __init__(self, n):
                self.n = n
        class Sub(Base):
            n = 64
            def __init__(self):
                super().__init__(10)
            def go(self):
                k[2, 32](room(self.n))
        Sub().go()
        """,
    "by a property": """
        class Box:
            def __init__(self):
                self.n = 64
            @property
            def m(self):
                return self.n
            @m.setter
            def m(self, value):
                self.n = value
        def host():
            box = Box()
            box.m = 10
            k[2, 32](room(box.n))
        """,
    "of a context": """
        class Context:
            def __init__(self):
                self.x = room(64)
            def __enter__(self):
                self.x = self.x[:10]
                return self
            def __exit__(self, *rest):
                pass
        with Context() as c:
            k[2, 32](c.x)
        """,
    "a call of an object": """
        class Go:
            def __call__(self, n):
                k[2, 32](room(n))
        Go()(10)
        """,
    "an object that is made otherwise": """
        class Small:
            n = 10
        class Big:
            def __new__(cls, n):
                return Small()
            def __init__(self, n):
                self.n = n
        k[2, 32](room(Big(64).n))
        """,
    "attributes that are computed": """
        class Half:
            def __init__(self, n):
                self.n = n
            def __getattribute__(self, name):
                return object.__getattribute__(self, name) // 2
        k[2, 32](room(Half(64).n))
        """,
    "attributes that are set otherwise": """
        class Half:
            def __init__(self, n):
                self.n = n
            def __setattr__(self, name, value):
                object.__setattr__(self, name, value // 2)
            def go(self):
                k[2, 32](room(self.n))
        Half(64).go()
        """,
    "a call with a star": "def go(n=64):\n    k[2, 32](room(n))\ndef host(*rest):\n    go(*rest)\n",
    "a call with two stars": "def go(n=64):\n    k[2, 32](room(n))\ndef host():\n    go()\n    go(**{'n': 10})\n",
    "a callback": "def go(n=64):\n    k[2, 32](room(n))\ndef host(pool):\n    go()\n    pool.map(go, [10])\n",
    "a partial": "from functools import partial\ndef go(n=64):\n    k[2, 32](room(n))\ndef host():\n    partial(go, n=10)()\n",
    "a callback in a list": "def go(n=64):\n    k[2, 32](room(n))\njobs = [go]\ndef host():\n    go()\n    jobs[0](10)\n",
    "an alias": "def go(n=64):\n    k[2, 32](room(n))\nrun = go\n",
    "a command": "import click\n@click.command()\n@click.option('--n')\ndef go(n=64):\n    k[2, 32](room(n))\n",
    "nobody calls it": "def go(n=64):\n    k[2, 32](room(n))\n",
    "a decorator": """
        def halved(function):
            def inner(n):
                return function(n // 2)
            return inner
        @halved
        def go(n):
            k[2, 32](room(n))
        go(64)
        """,
}


@pytest.mark.parametrize("host", OTHER_SIZES.values(), ids=OTHER_SIZES.keys())
def test_another_size_is_possible(host: str) -> None:
    assert checked(host).verdicts[Property.IN_BOUNDS].verdict is not Verdict.PROVEN


ONE_SIZE = {
    "an inherited attribute": BASE + "class Sub(Base):\n    pass\nSub().go()\n",
    "an attribute of a subclass": BASE + "class Sub(Base):\n    n = 128\nSub().go()\nBase().go()\n",
    "the constructor of the base": """
        class Base:
            def __init__(self, n):
                self.n = n
            def go(self):
                k[2, 32](room(self.n))
        class Sub(Base):
            def __init__(self):
                super().__init__(64)
        Sub().go()
        """,
    "a context": """
        class Context:
            def __enter__(self):
                return room(64)
            def __exit__(self, *rest):
                pass
        with Context() as x:
            k[2, 32](x)
        """,
    "a call of an object": "class Go:\n    def __call__(self, n):\n        k[2, 32](room(n))\nGo()(64)\n",
    "a default that is called": "def go(n=64):\n    k[2, 32](room(n))\ngo()\n",
    "a test": "def test_go(n=64):\n    k[2, 32](room(n))\n",
}


@pytest.mark.parametrize("host", ONE_SIZE.values(), ids=ONE_SIZE.keys())
def test_a_size_that_is_shown(host: str) -> None:
    assert checked(host).verdicts[Property.IN_BOUNDS].verdict is Verdict.PROVEN


@pytest.mark.parametrize(
    ("arguments", "name", "safe"),
    [
        ("(x, x)", "pair", False),
        ("(x, x[:])", "pair", False),
        ("[x, x]", "pair", False),
        ("(x[:64], x[1:65])", "pair", False),
        ("(x, y)", "pair", True),
        ("(x, room(40))", "sides", False),
        ("(x, room(99))", "sides", False),
        ("(x, y)", "sides", True),
        ("(3, 4), x", "scaled", True),
        ("(3,), x", "scaled", False),
        ("(y, y[1:]), x", "scaled", False),
    ],
)
def test_tuples_of_arrays_and_of_numbers(arguments: str, name: str, safe: bool) -> None:
    report = checked(f"x, y = room(65), room(65)\n{name}[2, 32]({arguments})\n", name)
    answers = {report.verdicts[name].verdict for name in (Property.RACE_FREE, Property.IN_BOUNDS)}
    assert (answers == {Verdict.PROVEN}) is safe


@pytest.mark.parametrize("text", ["lanemask_lt()", "popc(cuda.lanemask_lt())", "ffs(cuda.lanemask_lt() + 1)"])
@pytest.mark.parametrize("barrier", ["syncthreads()", "syncwarp()", "cg.this_grid().sync()"])
def test_the_lanes_below_are_others_in_each_lane(text: str, barrier: str) -> None:
    body = f"@cuda.jit\ndef meet(a):\n    if cuda.{text} < 2:\n        cuda.{barrier}\n    a[cuda.grid(1)] = 1\n"
    answer = checked(f"{body}meet[1, 64](room(64))\n", "meet").verdicts[Property.BARRIERS_UNIFORM]
    assert answer.verdict is not Verdict.PROVEN


@pytest.mark.parametrize(
    ("made", "called", "right"),
    [
        ("partial(k2[2, 32], x)", "f(1)", True),
        ("partial(k2[2, 32], x, 1)", "f()", True),
        ("partial(k2[2, 32])", "f(x, 1)", True),
        ("partial(k2[2, 32], x)", "f()", False),
        ("partial(k2[2, 32], x, 1)", "f(2)", False),
        ("k2[2, 32]", "f(x)", False),
    ],
)
def test_arguments_of_a_partial_count(made: str, called: str, right: bool) -> None:
    text = (
        f"{HEAD}from functools import partial\n@cuda.jit\ndef k2(a, s):\n    a[cuda.grid(1)] = s\n"
        f"def host():\n    x = room(64)\n    f = {made}\n    {called}\n    {called}\n"
    )
    found = [fault.rule for fault in check_text("partial.py", text, Modules(), Options()).diagnostics]
    assert ("launch-contract" not in found) is right
