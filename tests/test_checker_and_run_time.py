"""Two independent answers: the checker reads a program, the run time runs it, and they say the same.

Random host programs without branches (views, partitions, launches, ops built and run, waits, moves, host reads and
writes, loops over tensors, lambdas). Where control flow and values are plain, "always wrong" and "wrong today" are one
thing: what the run time refuses has been reported under that rule, and what was reported is refused. One difference is by
design: taking a view of what an op holds is refused at run time, while the checker speaks at the view's first use.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import random
import re
import traceback
from pathlib import Path

import pytest

import tilecheck as tc
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules

pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")

HEAD = """\
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32

class B(Dim): ...

@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))

def main() -> None:
    a, b, c = tc.ones(8), tc.zeros(8), tc.zeros(8)
"""
STEPS = (
    *("view", "cut", "read", "write", "sync", "use", "build", "start", "run", "finish", "wait", "move", "back"),
    *("each", "define", "call"),
)


def program(r: random.Random) -> str:
    """A program; every op is run and every running one waited for at its end."""
    tensors, partitions, built, running, lambdas = ["a", "b", "c"], [], [], [], []  # type: ignore[var-annotated]
    lines: list[str] = []
    for n in range(r.randrange(3, 10)):
        launch = f"copy({r.choice(tensors)}.partition(4), {r.choice(tensors)})"
        match r.choice(STEPS):
            case "view":
                lines.append(f"v{n} = {r.choice(tensors)}.reshape(8)")
                tensors.append(f"v{n}")
            case "cut":
                lines.append(f"p{n} = {r.choice(tensors)}.partition(4)")
                partitions.append(f"p{n}")
            case "read":
                lines.append(f"print({r.choice(tensors)}.numpy())")
            case "write":
                lines.append(f"{r.choice(tensors)}[0] = 1.0")
            case "sync":
                lines.append(f"{launch}.sync()")
            case "use" if partitions:
                lines.append(f"copy({r.choice(partitions)}, {r.choice(tensors)}).sync()")
            case "build":
                lines.append(f"o{n} = {launch}")
                built.append(f"o{n}")
            case "start":
                lines.append(f"r{n} = {launch}.run()")
                running.append(f"r{n}")
            case "run" if built:
                lines.append(f"r{n} = {built.pop(r.randrange(len(built)))}.run()")
                running.append(f"r{n}")
            case "finish" if built:
                lines.append(f"{built.pop(r.randrange(len(built)))}.sync()")
            case "wait" if running:
                lines.append(f"{running.pop(r.randrange(len(running)))}.wait()")
            case "move":
                lines.append(f"w{n} = {r.choice(tensors)}.into_partition(4)")
                partitions.append(f"w{n}")
            case "each":
                does = r.choice(
                    ("print(t.numpy())", f"copy(t.partition(4), {r.choice('abc')}).sync()", "t.into_partition(4)")
                )
                lines += [f"for t in ({r.choice(tensors)}, {r.choice(tensors)}):", f"    {does}"]
            case "define":
                what = r.choice((f"print({r.choice(tensors)}.numpy())", f"{r.choice(tensors)}.into_partition(4)"))
                lines.append(f"f{n} = lambda: {what}")
                lambdas.append(f"f{n}")
            case "call" if lambdas:
                lines.append(f"{r.choice(lambdas)}()")
            case "back" if partitions:
                lines.append(f"u{n} = {r.choice(partitions)}.unpartition()")
                tensors.append(f"u{n}")
    lines += [f"{op}.sync()" for op in built] + [f"{op}.wait()" for op in running]
    return HEAD + "".join(f"    {line}\n" for line in lines)


def reported(path: Path, text: str) -> set[str]:
    """The rules that the checker reports."""
    return {d.rule for d in check_text(str(path), text, Modules(), Options()).diagnostics}


def refused(path: Path) -> tuple[str, str] | None:
    """The rule that the run time refuses, and the line of the program; None if it runs to its end."""
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            spec.loader.exec_module(module)
            module.main()
    except tc.TilecheckError as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        return error.rule, frames[-1].line or ""
    return None


def test_the_checker_and_the_run_time_agree(tmp_path: Path) -> None:
    differing: list[str] = []
    outcomes = {"refused": 0, "fine": 0}
    for seed in range(150):
        text = program(random.Random(seed))
        path = tmp_path / f"program{seed}.py"
        path.write_text(text, "utf-8")
        rules, outcome = reported(path, text), refused(path)
        outcomes["fine" if outcome is None else "refused"] += 1
        only_a_view = outcome is not None and re.match(r"[uv]\d+ = ", outcome[1]) is not None
        agree = not rules if outcome is None else outcome[0] in rules or only_a_view
        if not agree:
            differing.append(f"checker: {rules or 'silent'}, run time: {outcome or 'fine'}\n{text}")
    assert not differing, "\n".join(differing)
    # Both kinds of program must be common, or the test shows little.
    assert min(outcomes.values()) > 30, outcomes
