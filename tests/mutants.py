"""Mutants of safe kernels: does the prover notice a lost barrier or guard?

    python -m tests.mutants PATH... [--list FILE]            report what is noticed
    python -m tests.mutants PATH... --list FILE --write      bring the survivors in FILE up to date
    python -m tests.mutants PATH... --list FILE --check      fail if FILE is not up to date

A mutant is a kernel labelled `# EXPECT: safe` with one barrier deleted, or with one guard (an `if` without `else`, an
assert) taken away: what it guarded is then done always, a jump that it guarded never. It is noticed if any verdict or
launch condition differs. A survivor goes to the executor, under the launches that its file shows, with many schedules and
contents: if one run has a fault, the mutant was missed; if none has, the deleted line is redundant for the properties
that are proved, and no checker could notice its loss. Survivors are kept in `mutants.toml` with the number of clean
runs and the reason, written by hand, why the line is redundant; `--write` keeps the reasons of survivors that it meets
again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilecheck.frontend.launches import Launch, read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.interp.simt_compile import compile_kernel
from tilecheck.ir.kernel import Assert, Break, Continue, For, If, Inline, Kernel, Return, Stmt, While
from tilecheck.ir.simt import Barrier
from tilecheck.verify.replay import FILLS, Scenario, run_once
from tilecheck.verify.simt import check_kernel, launches_of
from tilecheck.verify.verdict import Verdict

LIST = Path(__file__).parent / "mutants.toml"
BUDGET = 10.0
# Runs of the executor per launch of a survivor: four schedules for each way to fill the arrays.
RUNS = 4 * FILLS
HEAD = """\
# Mutants of safe kernels that the prover finds as safe as the kernel itself, and why that is right: the deleted line is
# redundant. `runs` of the executor, each with a schedule and contents of its own, showed no fault of the mutant.
# Written by `python -m tests.mutants PATH... --write`; the reasons are written by hand.
"""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A kernel without one of its lines; `where` is file and kernel, `deleted` the text of the line."""

    where: str
    line: int
    deleted: str
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that goes unnoticed, and why it may; `runs` counts those of the executor that showed no fault, 0 if one
    did: then it was missed.
    """

    where: str
    line: int
    deleted: str
    why: str = ""
    runs: int = 0

    @property
    def key(self) -> tuple[str, int, str]:
        return self.where, self.line, self.deleted


def mutants(path: Path) -> Iterator[tuple[Kernel, tuple[Launch, ...], list[Mutant]]]:
    """The safe kernels of a file, with the launches that it shows and their mutants."""
    source = Source(str(path), path.read_text())
    launches = read_launches(source, lambda name: None)
    for kernel in read_kernels(source, lambda name: None):
        if "EXPECT: safe" not in source.lines[max(0, kernel.lines[0] - 2)]:
            continue
        made = []
        for node in _statements(kernel.body):
            if isinstance(node, Barrier | Assert) or (isinstance(node, If) and not node.other):
                line = node.span.line
                shown = source.lines[line - 1].strip()
                mutant = replace(kernel, body=_without(kernel.body, node))
                made.append(Mutant(f"{path.stem}::{kernel.name}", line, shown, mutant))
        yield kernel, launches_of(kernel, launches), made


def noticed(kernel: Kernel, mutant: Mutant, launches: Sequence[Launch]) -> bool:
    """Whether the verdicts or the conditions of a mutant differ from those of its kernel, for the launches that the file
    shows or for any launch.
    """
    return _differs(kernel, mutant.kernel, launches) or (bool(launches) and _differs(kernel, mutant.kernel, ()))


def _differs(kernel: Kernel, mutant: Kernel, launches: Sequence[Launch]) -> bool:
    before, after = (check_kernel(k, launches, budget=BUDGET) for k in (kernel, mutant))
    return before.verdicts != after.verdicts


def clean_runs(kernel: Kernel, launches: Sequence[Launch]) -> int:
    """How many runs of the executor, under launches whose grid, block and shapes are known, show no fault; 0 as soon as
    one does. Races of threads that write one value count as none, as for the prover, and neither does a loop without end.
    """
    program, count = compile_kernel(kernel), 0
    for launch in launches:
        scenario = shown(launch)
        for attempt in range(RUNS) if scenario is not None and scenario.replayable else ():
            assert scenario is not None
            outcome = run_once(program, scenario, attempt)
            if any(not fault.same_value and fault.kind != "too-long" for fault in outcome.faults):
                return 0
            count += 1
    return count


def shown(launch: Launch) -> Scenario | None:
    """The launch as the executor takes it, None if the file does not show its grid, block or shapes."""
    shapes = {name: array.shape for name, array in launch.arrays().items()}
    extents = [*launch.grid, *launch.block, *(e for shape in shapes.values() for e in (shape or (None,)))]
    if None in extents:
        return None
    scalars = {name: value for name, value in launch.arguments.items() if isinstance(value, int | float)}
    known = {name: tuple(int(e or 0) for e in shape or ()) for name, shape in shapes.items()}
    (gx, gy, gz), (bx, by, bz) = (tuple(int(e or 0) for e in extent) for extent in (launch.grid, launch.block))
    arrays = launch.arrays()
    return Scenario((gx, gy, gz), (bx, by, bz), known, scalars, arrays, dynamic_shared=launch.dynamic_shared or 0)


def proved(kernel: Kernel, launches: Sequence[Launch]) -> bool:
    """Whether all properties of a kernel are proven."""
    answers = check_kernel(kernel, launches, budget=BUDGET).verdicts.values()
    return all(answer.verdict in (Verdict.PROVEN, Verdict.PROVEN_GIVEN) for answer in answers)


def _without(body: tuple[Stmt, ...], doomed: Stmt) -> tuple[Stmt, ...]:
    """`body` with one barrier or assert deleted, or one guard replaced by its branch (by nothing if it jumps)."""
    made: list[Stmt] = []
    for node in body:
        if node is doomed:
            leaves = isinstance(node, If) and isinstance(node.then[-1], Return | Break | Continue)
            made.extend(node.then if isinstance(node, If) and not leaves else ())
        elif isinstance(node, If):
            made.append(replace(node, then=_without(node.then, doomed), other=_without(node.other, doomed)))
        elif isinstance(node, For | While | Inline):
            made.append(replace(node, body=_without(node.body, doomed)))
        else:
            made.append(node)
    return tuple(made)


def _statements(body: tuple[Stmt, ...]) -> list[Stmt]:
    found: list[Stmt] = []
    for node in body:
        found.append(node)
        if isinstance(node, If):
            found += _statements(node.then) + _statements(node.other)
        elif isinstance(node, For | While | Inline):
            found += _statements(node.body)
    return found


# ---- the list of survivors


def read_list(path: Path) -> list[Survivor]:
    """The survivors of a list; none if there is no such file."""
    if not path.exists():
        return []
    return [Survivor(**entry) for entry in tomllib.loads(path.read_text()).get("survivor", [])]


def write_list(path: Path, survivors: Sequence[Survivor]) -> None:
    """Write a list of survivors."""
    blocks = [
        "[[survivor]]\n"
        + "".join(
            f"{name} = {json.dumps(getattr(one, name))}\n" for name in ("where", "line", "deleted", "runs", "why")
        )
        for one in sorted(survivors, key=lambda one: one.key)
    ]
    path.write_text("\n".join([HEAD, *blocks]))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def main(arguments: list[str]) -> int:
    """Report the mutants of all files given; the exit status says whether a list asked for is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--list", type=Path, default=LIST, help="the file of survivors")
    parser.add_argument("--write", action="store_true", help="bring the list up to date")
    parser.add_argument("--check", action="store_true", help="fail if the list is not up to date")
    chosen = parser.parse_args(arguments)
    files = [f for top in chosen.paths for f in (sorted(top.rglob("*.py")) if top.is_dir() else [top])]
    known = {one.key: one for one in read_list(chosen.list)}
    survivors: list[Survivor] = []
    total = 0
    for path in files:
        if "# EXPECT: safe" not in path.read_text():
            continue
        for kernel, launches, made in mutants(path):
            if not made or not proved(kernel, launches):
                continue
            for mutant in made:
                total += 1
                if not noticed(kernel, mutant, launches):
                    found = Survivor(mutant.where, mutant.line, mutant.deleted)
                    runs = clean_runs(mutant.kernel, launches)
                    survivors.append(replace(known.get(found.key, found), runs=runs))
                    what = (
                        f"redundant: {runs} runs without a fault"
                        if runs
                        else "missed: no evidence that it is redundant"
                    )
                    print(f"  {mutant.where}:{mutant.line}: `{mutant.deleted}` is {what}")
    stems = {path.stem for path in files}
    mine = [one for one in known.values() if one.where.partition("::")[0] in stems]
    redundant = sum(one.runs > 0 and bool(one.why) for one in survivors)
    seen, able = total - len(survivors), total - redundant
    print(
        f"{seen} of {total} mutants noticed ({_share(seen, total)}); {redundant} of the rest are redundant lines, that is,"
    )
    print(f"{seen} of {able} that can be noticed ({_share(seen, able)}); {able - seen} missed")
    if chosen.write:
        write_list(chosen.list, [*(one for one in known.values() if one not in mine), *survivors])
    stale = {one.key for one in mine} != {one.key for one in survivors}
    stale |= any(not one.why or not one.runs for one in survivors)
    if chosen.check and stale:
        print(f"{chosen.list.name} is not up to date: run with --write, then give each new survivor a reason")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
