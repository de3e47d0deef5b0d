"""Context managers that are not read: whether they may wait for device work where their block ends.

`with timed(stream):` may well synchronise the stream before it says how long that took, and `with ExitStack() as stack:` runs
whatever was handed to it. Behind the block of such a manager nothing is sure to be in flight.

Invariant: what is called quiet waits for nothing: managers of the standard library and of ours that do other things,
locks, and generators of the checked files that only call such functions.

Worked example. Behind `with open(path) as file: d.copy_to_host(h, stream=q)` the copy is in flight, behind
`with profiler.region("copy"): ...` it may be over.
"""

from __future__ import annotations

import re
from typing import Final

from tilecheck.borrow.program import Program
from tilecheck.borrow.values import Nothing, Thing, Value
from tilecheck.borrow.vocabulary import HARMLESS, canonical
from tilecheck.ir import host as ir

_QUIET: Final = (
    *HARMLESS,
    *("tilecheck.", "numba.", "torch.", "cupy.", "threading.", "multiprocessing.", "tempfile.", "unittest.mock."),
    *("asyncio.Lock", "asyncio.Semaphore", "asyncio.BoundedSemaphore", "asyncio.Condition", "asyncio.timeout"),
    *(f"contextlib.{name}" for name in ("suppress", "nullcontext", "redirect_stdout", "redirect_stderr", "chdir")),
)
_LOCK: Final = re.compile(r"lock|mutex|sem(aphore)?$|cond(ition)?$", re.IGNORECASE)


def may_wait(program: Program, context: ir.Expr, value: Value) -> bool:
    """Whether the manager `context`, of which `value` is known, may wait for device work at the end of its block."""
    if not isinstance(value, Nothing):
        return isinstance(value, Thing)
    if isinstance(context, ir.Call):
        full = context.func.full if isinstance(context.func, ir.Name | ir.Attr) else None
        return full is None or not _is_quiet(program, full)
    name = context.id if isinstance(context, ir.Name) else context.name if isinstance(context, ir.Attr) else ""
    return _LOCK.search(name) is None


def _is_quiet(program: Program, full: str) -> bool:
    if (canonical(full) or "").startswith(_QUIET):
        return True
    found = program.find(full)
    if not isinstance(found, ir.Function) or not found.body:
        return False
    calls = [node for node in ir.walk(*found.body) if isinstance(node, ir.Call)]
    return all((canonical(call.func) or "").startswith(HARMLESS) for call in calls)
