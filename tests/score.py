"""Scores the SIMT prover on a folder of labelled cases: `python -m tests.score FOLDER [--general] [--list]`.

Three kinds of input are told apart by their form:

- a Python file whose kernels carry `# EXPECT: safe | race array=a kind=k | divergence | oob array=a | unknown` in the
  line above the decorator (optionally ` given=...`): one case per kernel, verdicts asked of the prover;
- a Python file whose first line is `# EXPECT: <class> <where>`: one case per file, the whole linter is asked, and the
  line marked `# HERE` is the place;
- a Markdown file with `### ID · verdict · title` headings and a Python block each: one case per block.

Figures printed per kind: cases right, unsafe or unknown kernels called proven, findings on safe ones, and the time per
kernel (processor seconds, parsing excluded). `--numba FOLDER` counts the verdicts of unlabelled kernels instead.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tilecheck.check import Options, check_text
from tilecheck.diagnostic import Diagnostic
from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.modules import Modules
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.verdict import Property, Verdict

PROVED = (Verdict.PROVEN, Verdict.PROVEN_GIVEN)
RULE_OF = {"race": "data-race", "oob": "out-of-bounds", "divergence": "divergent-barrier"}
WORDS = {
    "race": {"data-race"},
    "race-global": {"data-race"},
    "race-shared": {"data-race"},
    "missing-barrier": {"data-race"},
    "oob": {"out-of-bounds"},
    "uninit": {"uninitialised-shared"},
    "divergent-barrier": {"divergent-barrier", "warp-sync"},
    "warp-sync": {"warp-sync", "divergent-barrier"},
    "alias": {"borrow-conflict", "data-race"},
    "aliasing": {"borrow-conflict", "data-race"},
    "contract": {"launch-contract"},
    "launch-config": {"launch-contract", "partial-coverage"},
    "moved": {"use-after-move"},
    "host-race": {"use-in-flight"},
    "in-flight-use": {"use-in-flight"},
    "lifetime": {"use-in-flight"},
    "dtype": {"index-overflow", "implicit-float64"},
    "unproven": {"unproven"},
}
PRELUDE = "import numpy as np\nfrom numba import cuda, float32, int32, int64, uint32\n\n"


@dataclass
class Score:
    """What was counted: right and all cases by label, and the names of the wrong ones."""

    right: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    unsound: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    def add(self, label: str, name: str, good: bool, said: str) -> None:
        self.cases[label] += 1
        self.right[label] += good
        if not good:
            self.wrong.append(f"{label:20} {name}: {said}")

    def show(self, listing: bool) -> None:
        for label in sorted(self.cases):
            print(f"  {label:20} {self.right[label]:4} of {self.cases[label]:4}")
        print(f"  {'all':20} {self.right.total():4} of {self.cases.total():4}")
        print(f"  unsafe or unknown called proven: {len(self.unsound)}")
        if self.times:
            ordered = sorted(self.times)
            at = [ordered[int(len(ordered) * share)] for share in (0.5, 0.95)]
            print(f"  seconds per kernel: median {at[0]:.3f}, 95 % {at[1]:.3f}, most {ordered[-1]:.2f}")
        for line in [*self.unsound, *self.wrong] if listing else ():
            print(f"    {line}")


def timed(score: Score, source: Source, general: bool) -> Iterator[tuple[SimtReport, str]]:
    """The report of every kernel of a file, and the comment line above it."""
    kernels = read_kernels(source, lambda name: None)
    launches = read_launches(source, lambda name: None)
    for kernel in kernels:
        shown = () if general else launches_of(kernel, launches)
        begun = time.process_time()
        report = check_kernel(kernel, shown)
        score.times.append(time.process_time() - begun)
        above = source.lines[max(0, kernel.lines[0] - 2)]
        yield report, above if "EXPECT" in above else ""


def verdict(report: SimtReport) -> Verdict:
    """The worst verdict of a kernel on what its label speaks of: races, barriers, bounds."""
    order = (Verdict.PROVEN, Verdict.PROVEN_GIVEN, Verdict.UNKNOWN, Verdict.REFUTED)
    asked = [answer.verdict for name, answer in report.verdicts.items() if name is not Property.SHARED_INITIALISED]
    return max(asked, key=order.index)


def score_kernels(score: Score, path: Path, general: bool) -> None:
    """A file with a label per kernel."""
    for report, above in timed(score, Source(str(path), path.read_text()), general):
        match = re.search(r"# EXPECT: (\w+)(?: array=(\w+))?", above)
        if match is None:
            continue
        label, array = match[1], match[2]
        worst = verdict(report)
        found = {(finding.rule, finding.array) for finding in report.findings}
        if label == "safe":
            good = worst in PROVED
        elif label == "unknown":
            good = worst is Verdict.UNKNOWN
        else:
            either = "alias(" in above or "overlap(" in above
            good = any(rule == RULE_OF[label] and (array in (None, name) or either) for rule, name in found)
        name = f"{path.stem}::{report.kernel.name}"
        said = "; ".join(f"{p.value} {a.verdict.value} {a.reason or ''}" for p, a in report.verdicts.items())
        score.add(label, name, good, said)
        if label != "safe" and worst in PROVED:
            score.unsound.append(f"{label:20} {name} called {worst}")


def errors_of(path: str, text: str) -> list[Diagnostic]:
    """The linter's findings of error or warning level."""
    result = check_text(path, text, Modules(), Options())
    return [finding for finding in result.diagnostics if finding.severity != "note"]


def score_file(score: Score, path: Path) -> None:
    """A file with one label on its first line."""
    text = path.read_text()
    match = re.match(r"# EXPECT: ([\w-]+)", text)
    assert match is not None
    label = match[1]
    found = errors_of(str(path), text)
    said = ", ".join(f"{finding.rule}:{finding.span.line}" for finding in found) or "nothing"
    if label == "clean":
        score.add(label, path.stem, not any(finding.severity == "error" for finding in found), said)
    else:
        score.add(label, path.stem, bool({f.rule for f in found} & WORDS.get(label, {f.rule for f in found})), said)


def respelled(code: str) -> str:
    """A block in our spelling: `ref(x)` and `mut(x)` around the arguments of a plain kernel are what its body does."""
    return re.sub(r"\b(?:ref|mut)\(([^()]*)\)", r"\1", code)


def score_markdown(score: Score, path: Path) -> None:
    """A file of headings and blocks."""
    parts = re.split(r"^### ", path.read_text(), flags=re.MULTILINE)[1:]
    for part in parts:
        heading = part.partition("\n")[0].split("·")
        code = re.search(r"```python\n(.*?)```", part, re.DOTALL)
        if len(heading) < 2 or code is None:
            continue
        label = heading[1].strip()
        found = errors_of(f"{heading[0].strip()}.py", PRELUDE + respelled(code[1]))
        said = ", ".join(f"{finding.rule}:{finding.span.line}" for finding in found) or "nothing"
        wanted = {rule for word in label.split("|") for rule in WORDS.get(word, ())}
        if label == "safe":
            good = not any(finding.severity == "error" for finding in found)
        else:
            good = bool({finding.rule for finding in found} & wanted)
        score.add(label, f"{heading[0].strip()} {heading[-1].strip()}", good, said)


def count_unlabelled(folder: Path, listing: bool, store: Path | None) -> None:
    """The verdicts of all kernels below a folder; `store` is a file that keeps them as JSON."""
    score = Score()
    counts: dict[Property, Counter[Verdict]] = {name: Counter() for name in Property}
    refuted: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        for report, _ in timed(score, Source(str(path), path.read_text(encoding="utf-8")), False):
            for name, answer in report.verdicts.items():
                counts[name][answer.verdict] += 1
            where = f"{path.name}:{report.kernel.lines[0]} {report.kernel.name}"
            refuted += [f"{where}: {f.rule} {f.array or ''} line {f.places[-1].span.line}" for f in report.findings]
    print(f"{len(score.times)} kernels below {folder.name}")
    for name, counter in counts.items():
        print(f"  {name.value:20} " + "  ".join(f"{v.value} {counter[v]}" for v in Verdict if counter[v]))
    score.show(False)
    for line in refuted if listing else ():
        print(f"    {line}")
    if store is not None:
        kept = {name.value: {str(v): counter[v] for v in Verdict if counter[v]} for name, counter in counts.items()}
        store.write_text(
            json.dumps({"kernels": len(score.times), "verdicts": kept, "refuted": refuted}, indent=1) + "\n"
        )


def main(arguments: list[str]) -> int:
    """Score every path given; the exit status says whether an unsafe kernel was called proven."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--numba", type=Path, help="count the verdicts of all kernels below this folder")
    parser.add_argument("--store", type=Path, help="write those counts to this file")
    parser.add_argument("--general", action="store_true", help="forget the launches of labelled kernels")
    parser.add_argument("--list", action="store_true", help="list the cases that were not met")
    chosen = parser.parse_args(arguments)
    if chosen.numba is not None:
        count_unlabelled(chosen.numba, chosen.list, chosen.store)
    unsound = 0
    for top in chosen.paths:
        score = Score()
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.suffix == ".md":
                score_markdown(score, path)
            elif path.suffix == ".py" and path.read_text().startswith("# EXPECT"):
                score_file(score, path)
            elif path.suffix == ".py" and "# EXPECT" in path.read_text():
                score_kernels(score, path, chosen.general)
        print(top)
        score.show(chosen.list)
        unsound += len(score.unsound)
    return int(unsound > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
