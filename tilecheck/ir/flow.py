"""The flow IR: in which order one function runs its instructions, and where it may leave them.

`borrow/lower.py` makes it from the host IR; `borrow/solver.py` runs every path through it. Control flow is structured. A
`Block` runs in order; `Branch` takes one arm; `Loop` evaluates `test`, then leaves through `orelse` or runs `body`;
`Guard` is `try`, where anything in `body` may raise; `Exit` leaves.

Invariant: the control nodes here hold blocks and touch no object; everything that does is in `ir/instructions.py`.

Worked example. `while more(): op.sync()`, in a function without other code, is

    Loop(test=(Clobber(),), body=(Finish("op"),))

which runs the test, and then leaves or runs the body and starts again; where `op.sync()` raises, the function is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tilecheck.ir.instructions import (
    Assume,
    Bind,
    Clobber,
    Decide,
    Escape,
    Finish,
    Forget,
    Instr,
    Keep,
    Leave,
    Make,
    Put,
    Seal,
    SyncEvent,
    SyncStream,
    Unbind,
    Var,
)


@dataclass(frozen=True, slots=True, eq=False)
class Exit(Instr):
    kind: Literal["return", "raise", "break", "continue"]


@dataclass(frozen=True, slots=True, eq=False)
class Branch(Instr):
    arms: tuple[Block, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Instr):
    """`once`: the body runs at least once; then `test` is empty. `endless`: only an `Exit` leaves."""

    test: Block
    body: Block
    orelse: Block = ()
    once: bool = False
    endless: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Guard(Instr):
    body: Block
    handlers: tuple[Block, ...] = ()
    orelse: Block = ()
    final: Block = ()


_QUIET = (Make, Bind, Unbind, Put, Assume, Decide, Forget, Seal, Keep, Leave, Exit, Branch, Loop, Guard)


def raises(instr: Instr) -> Literal["before", "after"] | None:
    """Where `instr` itself may raise: before it has done anything, for a call that is refused does nothing; after it, for
    a wait that fails is over, and of code that is not read nobody knows; or nowhere.
    """
    if isinstance(instr, Escape | Clobber | SyncStream | SyncEvent) or (isinstance(instr, Finish) and instr.waits):
        return "after"
    return None if isinstance(instr, _QUIET) else "before"


Block = tuple[Instr, ...]


def walk(block: Block) -> Iterator[Instr]:
    """Every instruction of a block, those inside of control nodes included."""
    for instr in block:
        match instr:
            case Branch(arms=arms):
                for arm in arms:
                    yield from walk(arm)
            case Loop(test=test, body=body, orelse=orelse):
                for part in (test, body, orelse):
                    yield from walk(part)
            case Guard(body=body, handlers=handlers, orelse=orelse, final=final):
                for part in (body, *handlers, orelse, final):
                    yield from walk(part)
            case _:
                yield instr


def may_raise(block: Block) -> bool:
    """Whether something in `block` may raise. If nothing may, the handlers around it are run for what was before it."""
    return any(raises(instr) is not None for instr in walk(block))


@dataclass(frozen=True, slots=True)
class Flow:
    """One function (or a module's body). `outer` are the variables that other code can rebind, `captured` those that it
    can only read: a nested function or a lambda may run, wait for or keep what they name. `rebound` are those that some
    function of the file declares `global` or `nonlocal`, so that they name something else after code that is not read.
    """

    name: str
    body: Block
    outer: frozenset[Var] = frozenset()
    captured: frozenset[Var] = frozenset()
    is_async: bool = False
    rebound: frozenset[Var] = frozenset()
