"""Which functions are read where they are called (`inline.py`).

Invariant: such a body has one way out, at its end, and nothing in it runs at another time.

Worked example: `def begin(z, x): return copy(z.partition(8), x).run()` is readable, one that yields, awaits, returns early
or makes a lambda is not.
"""

from __future__ import annotations

from tilecheck.ir import host as ir

_PLAIN = (ir.Do, ir.Assign, ir.Augment, ir.Assert, ir.If, ir.For, ir.While)
_LATER = (ir.Lambda, ir.Function, ir.Class, ir.Yield, ir.Await, ir.Return)


def is_readable(function: ir.Function) -> bool:
    """Whether the body of `function` is one that is read where it is called."""
    kinds = all(param.kind in ("plain", "keyword") for param in function.params)
    if function.is_async or not kinds or not function.body or any(map(_binds, function.decorators)):
        return False
    *body, last = function.body
    ends = [last.value] if isinstance(last, ir.Return) and last.value is not None else []
    rest = body if isinstance(last, ir.Return) else function.body
    return all(isinstance(part, _PLAIN) for part in rest) and not any(
        isinstance(part, _LATER)
        or (isinstance(part, ir.Stmt) and not isinstance(part, (*_PLAIN, ir.Break, ir.Continue)))
        for part in ir.walk(*rest, *ends)
    )


def _binds(decorator: ir.Expr) -> bool:
    """Whether the decorator makes something else of the function."""
    full = decorator.full if isinstance(decorator, ir.Name | ir.Attr) else None
    return full != "builtins.staticmethod"
