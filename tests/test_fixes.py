"""Fixes that rules offer: what they change, that nothing is left to report after them, and when they hold back."""

from __future__ import annotations

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.report.fixes import apply_fixes, fixers
from tilecheck.report.result import FileResult
from tilecheck.rules import RULES, rule_name

HEAD = """\
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32

class B(Dim): ...
class D8(Dim, size=8): ...

@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))

@tc.kernel
def eight(z: Tensor[Mut, f32, D8, D8]) -> None:
    z.store(tc.ones(D8, D8))

"""


def checked(text: str) -> FileResult:
    return check_text("program.py", text, Modules(), Options())


def fixed(text: str) -> str:
    return apply_fixes(text, checked(text).diagnostics)[0]


def program(*lines: str) -> str:
    return HEAD + "".join(f"{line}\n" for line in lines)


MAIN = ("def main() -> None:", "    z, x = tc.zeros(64), tc.ones(64)")
NUMBA = (
    "import numpy as np\nfrom numba import cuda\n\ndef main():\n    s = cuda.stream()\n    d = cuda.device_array(8)\n"
)
CHANGES = [
    ("an op of its own", (*MAIN, "    copy(z.partition(8), x)  # now", "    print(z.numpy())"), {2: "    copy(z.partition(8), x).sync()  # now"}),
    ("an op of a coroutine", ("async def main() -> None:", MAIN[1], "    copy(z.partition(8), x)"), {2: "    await copy(z.partition(8), x)"}),
    (
        "work in flight of a coroutine",
        ("async def main() -> None:", MAIN[1], "    r = copy(z.partition(8), x).run()", "    print(z.numpy())", "    await r"),
        {3: "    await r\n    print(z.numpy())"},
    ),
    ("a grid that is given", (*MAIN, "    copy(z.partition(8), x).with_grid(8)"), {2: "    copy(z.partition(8), x).with_grid(8).sync()"}),
    (
        "in a graph scope",
        (*MAIN, "    with tc.CudaGraph.scope() as g:", "        copy(z.partition(8), x)", "    g.graph.launch().sync()"),
        {3: "        g.record(copy(z.partition(8), x))"},
    ),
    (
        "run inside of then",
        (*MAIN, "    tc.dup(x).then(lambda y: copy(z.partition(8), y).sync()).sync()"),
        {2: "    tc.dup(x).then(lambda y: copy(z.partition(8), y)).sync()"},
    ),
    ("tiles of one size", ("def main() -> None:", "    z = tc.zeros(64, 64)", "    eight(z).sync()"), {2: "    eight(z.partition(8, 8)).sync()"}),
    (
        "read while it runs",
        (*MAIN, "    running = copy(z.partition(8), x).run()", "    print(z.numpy())"),
        {3: "    running.wait()\n    print(z.numpy())"},
    ),
    (
        "read further in than it was begun",
        (*MAIN, "    running = copy(z.partition(8), x).run()", "    try:", "        if len(x) > 3:", "            print(z.numpy())", "    finally:", "        running.wait()"),
        {5: "            running.wait()\n            print(z.numpy())"},
    ),
    (
        "read in a handler of what was begun before",
        (*MAIN, "    running = copy(z.partition(8), x).run()", "    try:", "        open('x')", "    except OSError:", "        print(z.numpy())", "    running.wait()"),
        {6: "        running.wait()\n        print(z.numpy())"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "changes"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_a_fix_changes_one_place_and_leaves_nothing_to_report(lines: tuple[str, ...], changes: dict[int, str]) -> None:
    wanted = program(*(changes.get(n, line) for n, line in enumerate(lines)))
    assert fixed(program(*lines)) == wanted
    assert checked(wanted).diagnostics == ()


def test_a_copy_in_flight_is_waited_for_with_the_lines_own_end() -> None:
    text = (NUMBA + "    host = d.copy_to_host(stream=s)\n    print(host.sum())\n").replace("\n", "\r\n")
    after = fixed(text)
    assert after == text.replace("    print", "    s.synchronize()\r\n    print")
    assert checked(after).diagnostics == ()


HELD_BACK = [
    ("an op with a name", (*MAIN, "    op = copy(z.partition(8), x)")),
    ("an op over two lines", (*MAIN, "    copy(", "        z.partition(8), x)")),
    ("an op behind another statement", (*MAIN, "    print(1); copy(z.partition(8), x)")),
    ("a sync that is not all of the lambda", (*MAIN, "    tc.dup(x).map(lambda y: (copy(z.partition(8), y).sync(), y)).sync()")),
    ("a tile of any size", (*MAIN, "    copy(z, x).sync()")),
    ("work without a name", (*MAIN, "    copy(z.partition(8), x).run()", "    print(z.numpy())")),
    ("work that a handler has not begun", (*MAIN, "    try:", "        r = copy(z.partition(8), x).run()", "        x.numpy()", "    except OSError:", "        print(z.numpy())", "        return", "    r.wait()")),
    ("work that `finally` may not find", (*MAIN, "    try:", "        r = copy(z.partition(8), x).run()", "        open('x')", "    finally:", "        z.numpy()")),
    ("work of one way only", (*MAIN, "    if len(x) > 3:", "        r = copy(z.partition(8), x).run()", "    z.numpy()")),
    ("work of the round before", (*MAIN, "    for _ in range(3):", "        z.numpy()", "        r = copy(z.partition(8), x).run()", "    r.wait()")),
    ("a name that is set again", (*MAIN, "    r = copy(z.partition(8), x).run()", "    if len(x) > 3:", "        r = None", "    z.numpy()")),
    ("work of a loop that may have no round", (*MAIN, "    for _ in x.shape:", "        r = copy(z.partition(8), x).run()", "    z.numpy()")),
    ("a use inside brackets", (*MAIN, "    running = copy(z.partition(8), x).run()", "    print(", "        z.numpy(),", "    )")),
]  # fmt: skip


@pytest.mark.parametrize("lines", [c[1] for c in HELD_BACK], ids=[c[0] for c in HELD_BACK])
def test_what_is_not_certain_is_left_alone(lines: tuple[str, ...]) -> None:
    text = program(*lines)
    assert checked(text).diagnostics != ()
    assert fixed(text) == text


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule_name(rule) in fixers()], ids=rule_name)
def test_a_fix_of_a_rules_example_repairs_it(rule: object) -> None:
    name = rule_name(rule)  # type: ignore[arg-type]
    changed = 0
    for text in rule.BAD:  # type: ignore[attr-defined]
        before = [found.rule for found in checked(text).diagnostics]
        after = fixed(text)
        changed += after != text
        left = [found.rule for found in checked(after).diagnostics]
        assert left.count(name) < before.count(name) or after == text
        assert len(left) <= len(before)
    assert changed or name == "unpartitioned-output"


def test_a_wait_never_comes_before_the_work_it_is_for() -> None:
    text = program(*MAIN, "    r = copy(z.partition(8), x).run(); print(z.numpy())", "    r.wait()")
    assert [d.rule for d in checked(text).diagnostics] == ["use-in-flight"]
    assert apply_fixes(text, checked(text).diagnostics) == (text, 0)
