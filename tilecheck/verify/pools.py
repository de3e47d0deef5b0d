"""Dynamic shared memory is one buffer: every `shared.array(0, ...)` starts at its first byte.

Two such arrays that are both written in one barrier interval overwrite each other, even where each thread keeps to its
own element and no race is left. Slices of one array are the way to have two.

Worked example: `w = shared.array(0, float32)` and `k = shared.array(0, int32)` with `w[t] = a[t]; k[t] = b[t]`.
"""

from __future__ import annotations

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir.kernel import Kernel
from tilecheck.ir.simt import AllocArray, FillSlice, Store
from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_terms import add, conj, lt, num, scale
from tilecheck.verify.pairs import Mode, Pairing, about_one
from tilecheck.verify.run import Run, itemsize
from tilecheck.verify.values import Access


def faults(run: Run, kernel: Kernel) -> tuple[Fault, ...]:
    """Two names of the dynamic buffer that overwrite each other."""
    allocations = [n for n in run.usage.nodes if isinstance(n, AllocArray) and n.dynamic]
    if len(allocations) < 2:
        return ()
    for i, first in enumerate(allocations):
        for second in allocations[i + 1 :]:
            for one in _writes(run, first):
                for two in _writes(run, second):
                    if _clobber(run, one, two, itemsize(first.dtype) or 8, itemsize(second.dtype) or 8):
                        message = (
                            f"`{second.name}` is the same dynamic shared memory as `{first.name}`, and both are written"
                        )
                        labels = (Label(first.span, f"`{first.name}` starts at the first byte"),)
                        help = "allocate one array and take slices of it: `pool[:n]`, `pool[n:]`"
                        return (Fault("borrow-conflict", message, second.span, kernel.name, labels, help),)
    return ()


def _writes(run: Run, allocation: AllocArray) -> list[Access]:
    made = []
    for access in run.accesses:
        node = access.node
        if (
            isinstance(node, Store | FillSlice)
            and run.usage.roots(node.array) == {allocation.name}
            and not access.again
        ):
            made.append(access)
    return made


def _clobber(run: Run, one: Access, two: Access, width: int, other: int) -> bool:
    if not one.tags[Level.BLOCK].keys() & two.tags[Level.BLOCK].keys() or len(one.index) != 1 or len(two.index) != 1:
        return False
    meet = _overlap(one.index[0], width, two.index[0], other)
    if not run.solver.refutes(about_one(run, [one.guard, two.guard, meet]).formulas, 500):
        return True
    pairing = Pairing(run, Mode.SAME_BLOCK)
    of = pairing.twin.of
    apart = _overlap(one.index[0], width, of(two.index[0]), other)
    question = pairing.ask([one.guard], [two.guard], [apart], [one.index[0], two.index[0]])
    return not run.solver.refutes(question.formulas, 500)


def _overlap(one: Term, width: int, two: Term, other: int) -> Term:
    """That element `one` of `width` bytes and element `two` of `other` bytes share a byte."""
    start, begin = scale(one, width), scale(two, other)
    return conj(lt(start, add(begin, num(other))), lt(begin, add(start, num(width))))
