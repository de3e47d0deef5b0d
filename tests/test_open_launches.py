"""Values of host code that someone who is not seen may give: no fact of a launch, while what the file shows stays one."""

from __future__ import annotations

import pytest

from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Property, Verdict

KERNEL = (
    "import numpy as np\nfrom numba import cuda\n@cuda.jit\ndef fill(out):\n    at = cuda.grid(1)\n    out[at] = at\n"
)
RUN = "fill[4, 64](cuda.device_array({}, np.int32))\n"


def verdict(host: str) -> Verdict:
    """Whether `fill` stays inside its array, as far as `host` shows."""
    source = Source("h.py", KERNEL + host)
    launches = read_launches(source, lambda name: None)
    assert launches
    (kernel,) = read_kernels(source, lambda name: None)
    return check_kernel(kernel, launches).verdicts[Property.IN_BOUNDS].verdict


SIZED = "def host(n=256):\n    " + RUN.format("n")
RUNNER = "class Runner:\n    def __init__(self, n=256):\n        self.n = n\n    def go(self):\n        " + RUN.format(
    "self.n"
)

OPEN = {
    "a default that nobody overrules": SIZED,
    "a default of a keyword parameter": SIZED.replace("n=256", "*, n=256"),
    "a default that decides a branch": "def host(small=False):\n    n = 256\n    if small:\n        n = 9\n    "
    + RUN.format("n"),
    "a default of a class": RUNNER,
    "arguments from a dictionary": SIZED + "def main():\n    host()\n    host(**{'n': 9})\n",
    "arguments from a list": SIZED + "def main(args):\n    host(256)\n    host(*args)\n",
    "given to an executor": SIZED + "def main(pool):\n    host()\n    pool.map(host, [9])\n",
    "given to a thread": "import threading\n" + SIZED + "host()\nthreading.Thread(target=host, args=(9,)).start()\n",
    "a nested function given away": "def main(pool):\n    def host(n=256):\n        "
    + RUN.format("n")
    + "    host()\n    pool.map(host, [9])\n",
    "a nested function handed back": "def maker():\n    def host(n=256):\n        "
    + RUN.format("n")
    + "    host()\n    return host\ndef main(f):\n    f(maker())\n",
    "bound in part": "import functools\n" + SIZED + "host()\nfunctools.partial(host, n=9)()\n",
    "in a table": SIZED + "host()\nTABLE = {'host': host}\ndef main(name):\n    TABLE[name](9)\n",
    "found by its name": SIZED + "host()\nglobals()['host'](9)\n",
    "a method given away": RUNNER.replace("go(self)", "go(self, n=256)").replace("(self.n,", "(n,")
    + "r = Runner()\nr.go()\ndef main(pool):\n    pool.submit(r.go, 9)\n",
    "a parameter after the rest": "def host(*rest, n=256):\n    "
    + RUN.format("n")
    + "host(256, 256)\ndef main(f):\n    f(host)\n",
}
SHOWN = {
    "a default that a plain call keeps": SIZED + "host()\n",
    "a plain call that overrules it": SIZED.replace("256", "9") + "def main():\n    host(256)\n",
    "a keyword": SIZED.replace("256", "9") + "def main():\n    host(n=300)\n",
    "two calls": SIZED + "def main():\n    host()\n    host(512)\n",
    "a nested function that is only called": "def main():\n    def host(n=9):\n        "
    + RUN.format("n")
    + "    host(256)\nmain()\n",
    "an object": RUNNER + "def main():\n    Runner(300).go()\n",
    "an object made by default": RUNNER + "Runner().go()\n",
    "asked for its class": RUNNER + "def main():\n    r = Runner()\n    print(isinstance(r, Runner))\n    r.go()\n",
    "an annotation": RUNNER + "def run(r: Runner) -> None:\n    r.go()\nrun(Runner())\n",
    "keyword parameters take no place": "def host(*rest, n=256):\n    " + RUN.format("n") + "host(9, 9)\n",
}


@pytest.mark.parametrize("host", OPEN.values(), ids=OPEN)
def test_what_others_may_give_is_no_fact(host: str) -> None:
    assert verdict(host) is Verdict.PROVEN_GIVEN


@pytest.mark.parametrize("host", SHOWN.values(), ids=SHOWN)
def test_plain_calls_are_facts(host: str) -> None:
    assert verdict(host) is Verdict.PROVEN


SELF = "def go(self):\n        " + RUN.format("self.n")
EXTENDED = {
    "an attribute of the class": f"class A:\n    n = 256\n    {SELF}class B(A):\n    n = 9\nB().go()\n",
    "an attribute of the object": f"class A:\n    n = 256\n    {SELF}class B(A):\n    def __init__(self):\n        self.n = 9\nB().go()\n",
    "a method": f"class A:\n    def size(self):\n        return 256\n    {SELF.replace('.n', '.size()')}class B(A):\n    def size(self):\n        return 9\nB().go()\n",
    "a method of the class": f"class A:\n    @staticmethod\n    def size():\n        return 256\n    @classmethod\n    {SELF.replace('self.n', 'cls.size()').replace('self', 'cls')}class B(A):\n    @staticmethod\n    def size():\n        return 9\nB.go()\n",
    "after the first one": f"class A:\n    def __init__(self):\n        self.n = 256\n    {SELF}class B(A):\n    def __init__(self):\n        super().__init__()\n        self.n = 9\nB().go()\n",
    "through another method": f"class A:\n    n = 256\n    {SELF}\n    def run(self):\n        self.go()\nclass B(A):\n    n = 9\nB().run()\n",
    "under another name": f"class A:\n    n = 256\n    {SELF}Base = A\nclass B(Base):\n    n = 9\nB().go()\n",
    "by another method of its own": f"class A:\n    def __init__(self):\n        self.n = 256\n    def shrink(self):\n        self.n = 9\n    {SELF}",
    "a field": f"from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int = 256\n    {SELF}",
}
ALONE = {
    "an attribute of the class": f"class A:\n    n = 256\n    {SELF}A().go()\n",
    "not called": f"class A:\n    n = 256\n    {SELF}",
    "an attribute of the object": f"class A:\n    def __init__(self):\n        self.n = 256\n    {SELF}",
    "a method": f"class A:\n    def size(self):\n        return 256\n    {SELF.replace('.n', '.size()')}A().go()\n",
    "a library behind it": f"import unittest\nclass A(unittest.TestCase):\n    def setUp(self):\n        self.n = 256\n    {SELF.replace('go', 'test')}",
    "another class": f"class A:\n    n = 256\n    {SELF}class B:\n    n = 9\nA().go()\n",
    "a field": f"from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int = 9\n    {SELF}A(256).go()\n",
}


@pytest.mark.parametrize("host", EXTENDED.values(), ids=EXTENDED)
def test_objects_of_other_classes_may_stand_behind_self(host: str) -> None:
    assert verdict(host) in (Verdict.PROVEN_GIVEN, Verdict.REFUTED)


@pytest.mark.parametrize("host", ALONE.values(), ids=ALONE)
def test_objects_of_plain_classes_are_what_their_class_says(host: str) -> None:
    assert verdict(host) is Verdict.PROVEN


HOLDER = "class Holder:\n    def __init__(self, n):\n        self.n = n\n"
LAUNCH = "def main():\n    " + RUN.format("Holder(256).n")
HOOKED = {
    "every attribute": HOLDER + "    def __getattribute__(self, name):\n        return 9\n" + LAUNCH,
    "what is set": HOLDER
    + "    def __setattr__(self, name, value):\n        object.__setattr__(self, name, 9)\n"
    + LAUNCH,
    "what is made": HOLDER + "    def __new__(cls, n):\n        return Other()\n" + LAUNCH,
    "its own class": HOLDER.replace("Holder", "Holder(metaclass=Meta)") + LAUNCH,
    "a decorator of the class": "def halve(cls):\n    return Other\n@halve\n" + HOLDER + LAUNCH,
    "another class of the file": "class Base:\n    def __setattr__(self, name, value):\n        pass\n"
    + HOLDER.replace("Holder", "Holder(Base)")
    + LAUNCH,
    "a decorator": "def halve(f):\n    def run(n):\n        return f(n // 2)\n    return run\n@halve\n"
    + SIZED
    + "host(256)\n",
    "a decorator that calls twice": "def twice(f):\n    def run(*args):\n        f(*args)\n        f(9)\n    return run\n@twice\n"
    + SIZED
    + "host(256)\n",
    "a decorator with arguments": "import click\n@click.command()\n@click.option('--n')\n" + SIZED + "host()\n",
    "a decorator of a method": "def halve(f):\n    def run(self, n):\n        return f(self, n // 2)\n    return run\nclass A:\n    @halve\n    def go(self, n):\n        "
    + RUN.format("n")
    + "A().go(256)\n",
    "an operator": HOLDER
    + "    def __iadd__(self, n):\n        self.n = 9\n        return self\ndef main():\n    h = Holder(256)\n    h += 1\n    "
    + RUN.format("h.n"),
}
ENTERED = (
    "    def __enter__(self):\n        self.n = {}\n        return self\n    def __exit__(self, *error):\n        pass\ndef main():\n    with Holder({}) as h:\n        "
    + RUN.format("h.n")
)
FOLLOWED = {
    "an object that is entered": (HOLDER + ENTERED.format(256, 9), HOLDER + ENTERED.format(9, 256)),
    "a field changed after it is made": tuple(
        f"from dataclasses import dataclass\n@dataclass\nclass Holder:\n    n: int\n    def __post_init__(self):\n        self.n = self.n {op} 2\n"
        + LAUNCH
        for op in "*-"
    ),
    "a decorator of a library": tuple(
        "import functools\n@functools.cache\n" + SIZED + f"host({n})\n" for n in (256, 9)
    ),
    "a context of a library": tuple(
        "def main():\n    with cuda.defer_cleanup():\n        " + RUN.format(n) for n in (256, 9)
    ),
    "an attribute that is set": tuple(
        HOLDER + f"def main():\n    h = Holder({m})\n    h.n = {n}\n    " + RUN.format("h.n")
        for m, n in ((9, 256), (256, 9))
    ),
}


@pytest.mark.parametrize("host", HOOKED.values(), ids=HOOKED)
def test_what_stands_between_host_code_and_its_values_leaves_no_fact(host: str) -> None:
    assert verdict(host) is Verdict.PROVEN_GIVEN


@pytest.mark.parametrize(("right", "wrong"), FOLLOWED.values(), ids=FOLLOWED)
def test_what_is_followed_is_a_fact(right: str, wrong: str) -> None:
    assert (verdict(right), verdict(wrong)) == (Verdict.PROVEN, Verdict.REFUTED)
