"""Casts of index arithmetic to fewer bits than it needs.

numba computes indices in 64 bits, so `row * pitch` is safe until somebody writes `int32(row * pitch)`, which wraps
without a word. A cast is reported if a launch shows all that it depends on and some thread leaves its range.

Worked example: with rows of 70,000 elements, `int32(row * 70000)` wraps from row 30,679 on.
"""

from __future__ import annotations

from tilecheck.checked import Fault
from tilecheck.ir.kernel import Kernel, Node
from tilecheck.ir.printer import show
from tilecheck.symbolic.smt_nodes import Taint
from tilecheck.symbolic.smt_read import evaluate
from tilecheck.symbolic.smt_terms import conj, disj, gt, lt, num
from tilecheck.verify.pairs import about_one
from tilecheck.verify.races import launch_symbols
from tilecheck.verify.run import Run
from tilecheck.verify.widths import integer_range


def faults(run: Run, kernel: Kernel) -> tuple[Fault, ...]:
    """The casts that lose bits at the launch of this walk, each once."""
    found: dict[Node, Fault] = {}
    for cast in run.narrowings:
        low, high = integer_range(cast.dtype) or (None, None)
        if low is None or high is None or cast.node in found:
            continue
        outside = disj(lt(cast.term, num(low)), gt(cast.term, num(high)))
        question = about_one(run, [conj(cast.guard, outside)])
        if question.taints() - {Taint.NONE} or run.solver.refutes(question.formulas, 500):
            continue
        model = run.solver.model(question.formulas, launch_symbols(run), 500)
        if model is None:
            continue
        value = evaluate(cast.term, model)
        message = f"`{show(cast.node)}` reaches {value}, which {cast.dtype} cannot hold ({low} to {high})"
        help = "leave the cast out: indices are computed in 64 bits"
        found[cast.node] = Fault("index-overflow", message, cast.node.span, kernel.name, help=help)
    return tuple(found.values())
