"""Code that is there to be refused: what a run time would stop in it is what its writer waits for, and no finding.

That is the body of `with pytest.raises(...)`, the function that `self.assertRaises(error, function)` gets, and the one statement of a `try` whose handler names one of our errors and
does not raise again. A longer `try` is ordinary code with a net under it.

Worked example. In `with pytest.raises(tc.BorrowError): z.into_partition(8)` the move is no finding, and past it `z` is not
moved: the only path on is the one on which the block raised.
"""

from __future__ import annotations

from tilecheck.borrow.vocabulary import canonical
from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir import host as ir

_RAISES = ("pytest.raises",)
_ASSERTS = ("assertRaises", "assertRaisesRegex")
_REFUSALS = tuple(
    f"tilecheck.{name}"
    for name in (
        "TilecheckError",
        "BorrowError",
        "LaunchRefused",
        "KernelRejected",
        "OpError",
        "UsageError",
    )
)


def must_raise(context: ir.Expr) -> bool:
    """Whether `with context:` is a test that its body raises, or `context(error, function)` one that the function does."""
    if not isinstance(context, ir.Call):
        return False
    named = isinstance(context.func, ir.Attr) and context.func.name in _ASSERTS and len(context.args) > 0
    return named or canonical(context.func) in _RAISES


def expects_refusal(handler: ir.Handler) -> bool:
    """Whether `handler` is for one of our errors by name, and ends it there."""
    if handler.types is None or any(isinstance(node, ir.Raise) for node in ir.walk(*handler.body)):
        return False
    types = handler.types.items if isinstance(handler.types, ir.Display) else (handler.types,)
    return any(canonical(named) in _REFUSALS for named in types)


def never(span: Span) -> flow.Block:
    """A place that no path gets past."""
    return tuple(instructions.Decide("never", holds, span=span) for holds in (True, False))


def within(span: Span, expected: tuple[Span, ...]) -> bool:
    """Whether `span` stands in code that is there to be refused."""
    at = (span.line, span.column)
    return any((one.line, one.column) <= at < (one.end_line, one.end_column) for one in expected)
