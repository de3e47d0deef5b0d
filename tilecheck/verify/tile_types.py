"""The type pass over a tile kernel: abstract interpretation with the type rules of the op table.

Statements are walked in order; branches join (`tile_values`). The whole kernel is walked again until no loop head
changes, so nested loops cost a pass each at most, and only the last pass speaks. A branch on a known condition is not
walked on the side that cannot run, so its faults are silent and its facts are not forgotten.

Results: the type of every expression reached, the faults, and the void lanes that an op would mix into valid ones
(`Mixed`), which the ladder turns into a condition or a fault.

    acc = tc.zeros(BM, BN)                        Tile[f32, BM, BN]
    for k in range(xs.num_tiles(1)):
        acc = tc.mma(xs[i, k], ys[k, j], acc)     Tile[f32, BM, BN], void at the edges of x (rows) and y (columns);
                                                  mixed: x.shape[1] and y.shape[0], by tiles of BK
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Break,
    Continue,
    Do,
    Expr,
    For,
    ForIndices,
    Function,
    If,
    Inline,
    Kernel,
    Node,
    Return,
    Stmt,
    While,
    assigned,
)
from tilecheck.ir.types import IndexType, NoneType, ScalarType, TensorType
from tilecheck.verify.tile_expressions import condition, expression, whole
from tilecheck.verify.tile_inference import Call, Loop, TypePass
from tilecheck.verify.tile_values import UNKNOWN, Env, Held, join, join_envs, spoken

_PASSES = 24


def infer(kernel: Kernel, params: Mapping[str, TensorType | ScalarType]) -> TypePass:
    """The types of a kernel whose parameters have these types."""
    p = TypePass(kernel, params, block, assigned(kernel.body))
    for _ in range(_PASSES):
        p.changed = False
        for collected in (p.types, p.faults, p.mixed, p.open, p.said):
            collected.clear()
        p.env = dict(params)
        block(p, kernel.body)
        if not p.changed:
            break
    return p


def block(p: TypePass, body: Sequence[Stmt]) -> None:
    """Statements in order, up to the first that cannot be reached."""
    for one in body:
        if p.env is None:
            return
        statement(p, one)


def statement(p: TypePass, node: Stmt) -> None:
    assert p.env is not None
    match node:
        case Assign(target=target, value=value):
            held = expression(p, value)
            if isinstance(held, NoneType) and not isinstance(value, Function):
                p.fault("usage", f"`{spoken(target)}` would hold what has no value", value.span)
                held = UNKNOWN
            p.env[target] = held
        case Do(value=value):
            expression(p, value)
        case Assert(cond=cond):
            condition(p, cond, "an assertion")
        case If():
            branch(p, node)
        case For(target=target):
            for bound in (node.start, node.stop, node.step):
                whole(p, bound, "`range`")
            loop(p, node, node.body, {target: ScalarType("int")})
        case ForIndices(target=target, source=source):
            held = expression(p, source)
            minted = held if isinstance(held, IndexType) else UNKNOWN
            loop(p, node, node.body, {target: minted})
        case While(cond=cond):
            loop(p, node, node.body, {}, cond)
        case Break():
            p.loops[-1].breaks = join_envs(p.loops[-1].breaks, p.env)
            p.env = None
        case Continue():
            p.loops[-1].continues = join_envs(p.loops[-1].continues, p.env)
            p.env = None
        case Return(value=value):
            leave(p, value)
        case Inline():
            inline(p, node)
        case _:
            raise TypeError(f"a tile kernel has no statement {type(node).__name__}")


def branch(p: TypePass, node: If) -> None:
    known = condition(p, node.cond, "a branch")
    before = p.env
    assert before is not None
    then: Env | None = None
    other: Env | None = None
    if known is not False:
        p.env = dict(before)
        block(p, node.then)
        then = p.env
    if known is not True:
        p.env = dict(before)
        block(p, node.other)
        other = p.env
    p.env = join_envs(then, other)


def loop(p: TypePass, node: Stmt, body: Sequence[Stmt], targets: Mapping[str, Held], cond: Expr | None = None) -> None:
    """A loop from its head, which holds what any round may start with."""
    before = p.env
    assert before is not None
    start = join_envs(p.heads.get(node), before)
    assert start is not None
    remember(p, node, start)
    p.env = dict(start)
    known = condition(p, cond, "a loop") if cond is not None else None
    frame = Loop()
    p.loops.append(frame)
    if known is not False:
        assert p.env is not None
        p.env.update(targets)
        block(p, body)
    p.loops.pop()
    again = join_envs(p.env, frame.continues)
    joined = join_envs(start, again)
    assert joined is not None
    remember(p, node, joined)
    # A `while` on a true constant ends by `break` alone; others after any round, and before the first if that may be.
    ended = None if known is True else again if _runs(p, node) else joined
    p.env = join_envs(ended, frame.breaks)


def _runs(p: TypePass, node: Stmt) -> bool:
    """Whether a loop has a first round at every launch."""
    if not isinstance(node, For):
        return False
    ends = [p.types.get(bound) for bound in (node.start, node.stop, node.step)]
    start, stop, step = (t.value if isinstance(t, ScalarType) else None for t in ends)
    if not isinstance(start, int) or not isinstance(stop, int) or not isinstance(step, int):
        return False
    return start < stop if step > 0 else start > stop


def remember(p: TypePass, node: Node, env: Env) -> None:
    """Note what the head of a loop holds."""
    if p.heads.get(node) != env:
        p.heads[node] = env
        p.changed = True


def inline(p: TypePass, node: Inline) -> None:
    frame = Call(node.result)
    p.calls.append(frame)
    loops, p.loops = p.loops, []
    with _foreign(p, node):
        block(p, node.body)
    p.loops = loops
    p.calls.pop()
    if p.env is not None and node.result is not None:
        # A path that ends without `return` returns None.
        frame.given = join(node.result, frame.given, NoneType()) if frame.given is not None else NoneType()
    p.env = join_envs(p.env, frame.leaving)
    if p.env is not None and node.result is not None:
        p.env[node.result] = frame.given if frame.given is not None else UNKNOWN


@contextmanager
def _foreign(p: TypePass, node: Inline) -> Iterator[None]:
    if node.foreign or p.foreign:
        p.foreign.append((node.span, node.callee))
        yield
        p.foreign.pop()
    else:
        yield


def leave(p: TypePass, value: Expr | None) -> None:
    """`return` from an inlined function, or from the kernel."""
    given: Held = NoneType() if value is None else expression(p, value)
    if p.calls:
        frame = p.calls[-1]
        if frame.result is not None:
            frame.given = given if frame.given is None else join(frame.result, frame.given, given)
        frame.leaving = join_envs(frame.leaving, p.env)
    p.env = None
