"""Scores the executor on a folder of labelled kernels: `python tests/score_executor.py FOLDER [SEEDS]`.

Every `run_<kernel>()` of every file runs on the CPU under some schedules. A kernel labelled safe must show no fault; a
labelled race, divergence or out-of-bounds index must show, on the named array. The labels stand above the kernels
(`# EXPECT: race array=x kind=shared given=...`). Exit status 1 if any label is missed.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from pathlib import Path

from tilecheck.frontend.numba import find
from tilecheck.frontend.source import Source
from tilecheck.interp.simt import SimtFault
from tilecheck.verify.stand_in import cuda_on_cpu

LABEL = re.compile(r"#\s*EXPECT:\s*(\w+)(.*)")
KINDS = {"race": "race", "oob": "out-of-bounds", "divergence": "divergent-barrier"}


def labels(source: Source) -> dict[str, tuple[str, dict[str, str]]]:
    """Kernel name to label and its terms."""
    found = {}
    for item in find(source, lambda name: None):
        node = item.function.node
        first = min((source.span(d).line for d in node.decorators), default=source.span(node).line)
        match = LABEL.match(source.lines[first - 2]) if first > 1 else None
        if match is not None:
            terms = dict(part.split("=", 1) for part in match[2].split() if "=" in part)
            found[item.function.name] = (match[1], terms)
    return found


def matches(fault: SimtFault, label: str, terms: dict[str, str]) -> bool:
    if fault.kind != KINDS.get(label):
        return False
    given = terms.get("given", "")
    if "array" in terms and fault.array != terms["array"]:
        aliased = re.findall(r"(?:alias|overlap)\((\w+),(\w+)\)", given)
        return any(fault.array in pair for pair in aliased)
    return not (fault.kind == "out-of-bounds" and fault.wrapped and "negative_index_wraps" in given)


def main(folder: str, seeds: int) -> int:
    tally: Counter[str] = Counter()
    missed: list[str] = []
    spent: list[float] = []
    for path in sorted(Path(folder).glob("*.py")):
        source = Source(str(path), path.read_text())
        for name, (label, terms) in labels(source).items():
            faults: list[SimtFault] = []
            inexact: set[str] = set()
            error = ""
            for seed in range(seeds):
                with cuda_on_cpu(seed) as session:
                    module = session.load(path)
                    started = time.perf_counter()
                    try:
                        getattr(module, f"run_{name}")()
                    except AssertionError as failure:
                        error = f"its own assertion failed {failure}"
                    spent.append(time.perf_counter() - started)
                    for ran in session.runs:
                        if ran.kernel == name:
                            faults.extend(ran.result.faults)
                            inexact.update(ran.result.inexact)
            real = [f for f in faults if not f.same_value]
            if label == "safe":
                good = not real and not error
            elif label == "unknown":
                good = True
            else:
                good = any(matches(f, label, terms) for f in faults)
            tally[f"{label}: {'right' if good else 'WRONG'}"] += 1
            if not good:
                seen = sorted({f"{f.kind} {f.array or ''} lines {f.lines} ({f.detail})" for f in real})
                missed.append(f"{path.name}: {name}: {label} {terms}: {error} {seen[:3]} {sorted(inexact)}")
    for line in missed:
        print(line)
    for key in sorted(tally):
        print(f"{key:20} {tally[key]}")
    spent.sort()
    print(f"time per launch: median {spent[len(spent) // 2] * 1e3:.1f} ms, max {spent[-1] * 1e3:.0f} ms")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2))
