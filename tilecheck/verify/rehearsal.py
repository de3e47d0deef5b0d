"""A launch that the file shows whole, run whole: what one run says of all of them.

Where indices, guards, loop bounds and masks come from nothing but thread and block numbers, extents, numbers of the
launch and constants, every run makes the same accesses and meets the same barriers, whatever the arrays hold and however
threads are scheduled. Vector clocks then order the accesses of one run as those of any other, so a run of all threads
without a fault settles every property of that launch. It is asked last, for what the solver left open: packed triangles,
products of two variables, tiles filled by way of quotients.

Invariant: `fixed` kernels read nothing from memory, from other lanes, from atomics or from floating-point arithmetic into
a decision or an index; there is no fence in them, so only barriers order threads.

Worked example: `if j <= i and i < n: packed[i * (i + 1) // 2 + j] = full[i, j]` launched as `k[(4, 4), (16, 16)]` with
n = 60 and two arrays of known shape: 4096 threads run, and no two of them write one element.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from tilecheck.frontend.launches import Launch
from tilecheck.interp.simt_compile import compile_kernel
from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Binary,
    Break,
    Compare,
    Const,
    Continue,
    Extent,
    For,
    If,
    Inline,
    Item,
    Kernel,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Return,
    ScalarParam,
    Select,
    Stmt,
    TensorParam,
    TupleExpr,
    Unary,
    While,
    walk,
)
from tilecheck.ir.simt import (
    AllocArray,
    Atomic,
    Barrier,
    BarrierValue,
    Fence,
    FillSlice,
    Load,
    SliceExpr,
    Store,
    SubArray,
    ThreadVar,
    Unread,
    Warp,
)
from tilecheck.verify.replay import Scenario, run_once
from tilecheck.verify.verdict import Answer, Property, Verdict

_MOST_THREADS = 20_000
_MOST_ELEMENTS = 1 << 22
_WHOLE_OPS = frozenset({"min", "max", "abs", "int", "int32", "int64", "selp", "popc", "shape"})
_ACCESSES = (Load, Store, Atomic, FillSlice, SubArray)
# What may not depend on a decision that is not fixed.
_WEIGHTY = (*_ACCESSES, AllocArray, Barrier, BarrierValue, Warp, Return, Break, Continue, Assert, For, While, Inline)


def settle(answers: dict[Property, Answer], kernel: Kernel, launch: Launch, deadline: float) -> int:
    """Prove what is open in `answers` by a run of the whole launch, where one run stands for all; the number of threads
    that ran, 0 if nothing was settled.
    """
    open_ones = [name for name, answer in answers.items() if answer.verdict is Verdict.UNKNOWN]
    refuted = any(answer.verdict is Verdict.REFUTED for answer in answers.values())
    threads = rehearsed(kernel, launch, deadline) if open_ones and not refuted and kernel.track == "numba" else 0
    if threads:
        answers.update(dict.fromkeys(open_ones, Answer(Verdict.PROVEN)))
    return threads


def rehearsed(kernel: Kernel, launch: Launch, deadline: float) -> int:
    """The number of threads that ran without a fault if that settles this launch, 0 if it does not."""
    scenario = _scenario(kernel, launch)
    if scenario is None or scenario.sample() is not None or time.process_time() >= deadline:
        return 0
    if not fixed(kernel, scenario):
        return 0
    outcome = run_once(compile_kernel(kernel), scenario, 0, deadline)
    return scenario.threads if not outcome.faults and not outcome.inexact else 0


def _scenario(kernel: Kernel, launch: Launch) -> Scenario | None:
    """The launch as the executor takes it; None if something that places its accesses is not known."""
    (gx, gy, gz), (bx, by, bz) = launch.grid, launch.block
    if gx is None or gy is None or gz is None or bx is None or by is None or bz is None:
        return None
    if launch.dynamic_shared is None or launch.entangled or launch.twins or not 0 < bx * by * bz <= 1024:
        return None
    arrays = launch.arrays()
    shapes: dict[str, tuple[int, ...]] = {}
    for name, array in arrays.items():
        if array.size is None or array.shape is None or (not array.host and None in (array.offset, *array.steps())):
            return None
        shapes[name] = tuple(extent for extent in array.shape if extent is not None)
    for name, other in launch.sharing():
        one, two = arrays[name], arrays[other]
        if one.dtype is None or one.dtype != two.dtype or any((n or 0) <= 0 for n in (*one.steps(), *two.steps())):
            return None
    if any(isinstance(param, TensorParam) and param.name not in shapes for param in kernel.params):
        return None
    threads = gx * gy * gz * bx * by * bz
    if not 0 < threads <= _MOST_THREADS or sum(array.size or 0 for array in arrays.values()) > _MOST_ELEMENTS:
        return None
    scalars = {name: value for name, value in launch.arguments.items() if isinstance(value, int | float)}
    return Scenario((gx, gy, gz), (bx, by, bz), shapes, scalars, arrays, dynamic_shared=launch.dynamic_shared)


def fixed(kernel: Kernel, scenario: Scenario) -> bool:
    """Whether accesses, branches and barriers of `kernel` are the same in all runs of `scenario`."""
    if any(isinstance(node, Unread | Opaque | Fence) for node in walk(*kernel.body)):
        return False
    known = {name for name, value in scenario.scalars.items() if isinstance(value, int)} | set(scenario.shapes)
    wide = {
        p.name for p in kernel.params if isinstance(p, ScalarParam) and (p.dtype or "").startswith(("uint", "float"))
    }
    names = _Names(kernel, known - wide)
    return names.decided(kernel.body)


class _Names:
    """The variables of a kernel whose values differ between runs (`loose`), as a fixed point over its assignments."""

    def __init__(self, kernel: Kernel, known: set[str]) -> None:
        self.loose: set[str] = set()
        nodes = tuple(walk(*kernel.body))
        bound = {n.target for n in nodes if isinstance(n, Assign | For)} | {
            n.name for n in nodes if isinstance(n, AllocArray)
        }
        bound |= {n.result for n in nodes if isinstance(n, Inline) and n.result is not None}
        self.known = known | bound
        params = {p.name for p in kernel.params}
        self.loose |= params - known
        before = -1
        while before != len(self.loose):
            before = len(self.loose)
            self._spread(kernel.body)

    def _spread(self, body: Iterable[Node]) -> None:
        for node in walk(*body):
            match node:
                case Assign(target=target, value=value) if not self.sure(value):
                    self.loose.add(target)
                case For(target=target, start=start, stop=stop, step=step):
                    if not (self.sure(start) and self.sure(stop) and self.sure(step)):
                        self.loose.add(target)
                case Inline(body=inner, result=str(result)):
                    values = [n.value for n in walk(*inner) if isinstance(n, Return)]
                    if any(value is not None and not self.sure(value) for value in values):
                        self.loose.add(result)
                case If(cond=cond) if not self.sure(cond):
                    self.loose |= {n.target for n in walk(*node.then, *node.other) if isinstance(n, Assign)}

    def sure(self, node: Node) -> bool:
        """Whether an expression has the same value in all runs."""
        match node:
            case Const(value=value):
                return not isinstance(value, float)
            case Name(id=name):
                return name in self.known and name not in self.loose
            case ThreadVar():
                return True
            case Unary(operand=operand):
                return self.sure(operand)
            case Binary(op=op, left=left, right=right):
                return op not in ("/", "**", "@") and self.sure(left) and self.sure(right)
            case Compare(left=left, right=right):
                return self.sure(left) and self.sure(right)
            case Logic(operands=parts) | TupleExpr(items=parts):
                return all(self.sure(part) for part in parts)
            case Select(cond=cond, then=then, other=other):
                return self.sure(cond) and self.sure(then) and self.sure(other)
            case Item(base=base, index=index):
                return self.sure(base) and self.sure(index)
            case Extent(array=array):
                return self.sure(array)
            case OpCall(op=op, args=args):
                return op in _WHOLE_OPS and all(self.sure(arg) for arg in args)
            case SubArray(array=array, index=parts):
                return self.sure(array) and all(self.sure(part) for part in parts)
            case SliceExpr(start=start, stop=stop, step=step):
                return all(part is None or self.sure(part) for part in (start, stop, step))
            case _:
                return False

    def decided(self, body: tuple[Stmt, ...]) -> bool:
        """Whether all accesses and barriers of statements, and who gets to them, are the same in all runs."""
        return all(self._decided(node) for node in walk(*body))

    def _decided(self, node: Node) -> bool:
        match node:
            case Load(array=array, index=parts) | Store(array=array, index=parts) | Atomic(array=array, index=parts):
                return self.sure(array) and all(self.sure(part) for part in parts)
            case FillSlice(array=array, index=parts):
                return self.sure(array) and all(self.sure(part) for part in parts)
            case SubArray():
                return self.sure(node)
            case While(cond=cond) | Assert(cond=cond):
                return self.sure(cond)
            case For(start=start, stop=stop, step=step):
                return self.sure(start) and self.sure(stop) and self.sure(step)
            case If(cond=cond, then=then, other=other):
                return self.sure(cond) or not _weighty(*then, *other)
            case Select(cond=cond, then=then, other=other):
                return self.sure(cond) or not _weighty(then, other)
            case Logic(operands=parts):
                return all(self.sure(part) or not _weighty(*parts[at + 1 :]) for at, part in enumerate(parts))
            case AllocArray(shape=parts):
                return all(self.sure(part) for part in parts)
            case Barrier(mask=mask) | Warp(mask=mask):
                return mask is None or self.sure(mask)
            case _:
                return True


def _weighty(*nodes: Node) -> bool:
    return any(isinstance(node, _WEIGHTY) for node in walk(*nodes))
