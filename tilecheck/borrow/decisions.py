"""Tests of one function that ask the same come out alike, as long as nothing that they ask about is set in between.

A *condition* is a test in one spelling (`not a`, `a is not None` and `b > a` are the conditions `a`, `a is None` and
`a < b`, turned round where they must be). `decide` lowers the outcome of a test as a `instructions.Decide`, which ends the paths
on which the same condition came out the other way before; `rebound` forgets what was decided when a variable is set, and
decides anew what a constant decides.

Invariant: a condition asks only about variables that no other code sets and fields that no method but a constructor
sets, and whether a variable is true only if it is no container that fills and empties; no other test is decided.
A condition that the function asks once, and sets by no constant, is left out: it tells no pasts apart that matter.

Worked example. `ran = False` / `if c: r = op.run(); ran = True` / `if ran: r.wait()`: past the last test there are two
pasts, one in which nothing was run, and one in which it was waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilecheck.borrow.survey import Survey
from tilecheck.borrow.values import Number
from tilecheck.borrow.vocabulary import canonical
from tilecheck.diagnostic import Span
from tilecheck.ir import flow, instructions
from tilecheck.ir import host as ir

if TYPE_CHECKING:
    from tilecheck.borrow.lower_expr import Expressions


@dataclass(frozen=True, slots=True)
class Condition:
    """What `test` asks, in one spelling; `holds` says whether the test holds when the condition does."""

    key: str
    test: ir.Expr
    holds: bool
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions of a function that are worth deciding: their keys, and those that ask about a variable. `shifting`
    are the variables and, with a dot before them, the fields that no condition asks about. `reading` tells the calls of
    a function apart that is read where it is called.
    """

    keys: frozenset[str] = frozenset()
    about: dict[str, tuple[Condition, ...]] = field(default_factory=dict)
    shifting: frozenset[str] = frozenset()
    reading: str = ""


def conditions(part: Survey, elsewhere: Callable[[], frozenset[str]]) -> Conditions:
    """The conditions of the unit `part`; `elsewhere` says which variables and fields other functions of the file may set,
    and is asked only if there are any.
    """
    if not part.tests:
        return Conditions()
    shifting = frozenset(f"?{name}" for name in part.used - part.flags - part.counted)
    found = _conditions(part, shifting)
    return _conditions(part, shifting | elsewhere()) if found.keys else found


def _conditions(part: Survey, shifting: frozenset[str]) -> Conditions:
    asked: Counter[str] = Counter()
    first: dict[str, Condition] = {}
    for leaf in (leaf for test in part.tests for leaf in _leaves(test)):
        found = condition(leaf, shifting)
        if found is not None:
            asked[found.key] += 1
            first.setdefault(found.key, found)
    worth = {key: one for key, one in first.items() if asked[key] > 1 or one.names & (part.flags | part.counted)}
    about: dict[str, tuple[Condition, ...]] = {}
    for one in worth.values():
        for name in one.names:
            about[name] = (*about.get(name, ()), one)
    return Conditions(frozenset(worth), about, shifting)


def _leaves(test: ir.Expr) -> Iterator[ir.Expr]:
    match test:
        case ir.Operation(op="not", operands=(inner,)):
            yield from _leaves(inner)
        case ir.Logic(operands=operands):
            for operand in operands:
                yield from _leaves(operand)
        case _:
            yield test


def condition(test: ir.Expr, shifting: frozenset[str]) -> Condition | None:
    """The condition that `test` asks, None if its answer may change by itself."""
    names: set[str] = set()
    match test:
        case ir.Operation(op=op, operands=(left, right)) if op in _SPELLED:
            spelled, turned, holds = _SPELLED[op]
            texts = [_text(part, shifting, names) for part in ((right, left) if turned else (left, right))]
            if "" in texts:
                return None
            # Which side of an equality comes first does not matter.
            texts = sorted(texts) if spelled == "==" else texts
            return Condition(f"{texts[0]} {spelled} {texts[1]}", test, holds, frozenset(names))
        case ir.Name(id=name) if f"?{name}" in shifting:
            return None
        case _:
            text = _text(test, shifting, names)
            return Condition(text, test, True, frozenset(names)) if text and names else None


# The one spelling of a comparison, whether its sides change places, and whether it holds when the comparison does.
_SPELLED = {
    "is": ("is", False, True),
    "is not": ("is", False, False),
    "==": ("==", False, True),
    "!=": ("==", False, False),
    "<": ("<", False, True),
    ">=": ("<", False, False),
    ">": ("<", True, True),
    "<=": ("<", True, False),
}
_COMPUTED = ("+", "-", "*", "//", "%", "&", "|")
_EXTENTS = ("shape", "strides")


def _text(node: ir.Expr, shifting: frozenset[str], names: set[str]) -> str:
    """`node` as it is written, empty if its value may change while no variable of `names` is set."""

    def all_of(*parts: ir.Expr) -> list[str]:
        texts = [_text(part, shifting, names) for part in parts]
        return [] if "" in texts else texts

    match node:
        case ir.Const(value=value, known=True):
            return repr(value)
        case ir.Name(full=str() as full) | ir.Attr(full=str() as full):
            return full
        case ir.Name(id=name) if name not in shifting:
            names.add(name)
            return name
        case ir.Attr(base=base, name=name) if f".{name}" not in shifting:
            return f"{texts[0]}.{name}" if (texts := all_of(base)) else ""
        case ir.Sub(base=ir.Attr(name=name) as base, index=ir.Const() as index) if name in _EXTENTS:
            return f"{texts[0]}[{texts[1]}]" if (texts := all_of(base, index)) else ""
        case ir.Operation(op=op, operands=operands) if op in _COMPUTED:
            return f"({f' {op} '.join(texts)})" if (texts := all_of(*operands)) else ""
        case ir.Call(func=func, args=args) if canonical(func) == "builtins.isinstance" and len(args) == 2:
            return f"isinstance({', '.join(texts)})" if (texts := all_of(*(arg.value for arg in args))) else ""
        case _:
            return ""


def decide(low: Expressions, test: ir.Expr, holds: bool) -> None:
    """`test`, which is neither `not` nor a part of a longer one, came out as `holds`."""
    found = condition(test, low.conditions.shifting)
    if found is not None and found.key in low.conditions.keys:
        low.emit(instructions.Decide(low.conditions.reading + found.key, found.holds is holds, span=test.span))


def worth_deciding(low: Expressions, test: ir.Expr) -> bool:
    """Whether a part of `test` is a condition that is asked again."""
    keys, shifting = low.conditions.keys, low.conditions.shifting
    found = (condition(leaf, shifting) for leaf in _leaves(test)) if keys else ()
    return any(one is not None and one.key in keys for one in found)


def rebound(low: Expressions, name: str, value: ir.Expr, span: Span) -> None:
    """The variable `name` was set to `value`."""
    for one in low.conditions.about.get(name, ()):
        key = low.conditions.reading + one.key
        low.emit(instructions.Forget(key, span=span))
        # What a call returns is known only where its body is.
        outcome = _outcome(low, one.test) if not isinstance(value, ir.Call) else None
        if outcome is not None:
            low.emit(instructions.Decide(key, one.holds is outcome, span=span))


def count_rounds(low: Expressions, target: ir.Expr, source: ir.Expr) -> Callable[[], None] | None:
    """What to lower at the start of each round of `for target in source`, where the rounds are counted from 0 and some
    condition tells the first one from the others (`if i > 0: r.wait()`); None elsewhere.
    """
    counts = isinstance(source, ir.Call) and canonical(source.func) == "builtins.range" and len(source.args) == 1
    if not counts or not isinstance(target, ir.Name):
        return None
    about = low.conditions.about.get(target.id, ())
    first = {one: _counted(low, one.test, target, (0,)) for one in about}
    other = {one: _counted(low, one.test, target, (1, 2, 1 << 40)) for one in about}
    told = [one for one in about if first[one] is not None and other[one] is not None]
    if not told:
        return None
    marker, span = f"{low.temp()} first round", target.span
    low.emit(instructions.Forget(marker, span=span))
    low.emit(instructions.Decide(marker, True, span=span))

    def arm(is_first: bool) -> None:
        low.emit(instructions.Decide(marker, is_first, span=span))
        for one in told:
            outcome = (first if is_first else other)[one]
            low.emit(instructions.Decide(low.conditions.reading + one.key, one.holds is outcome, span=span))
        low.emit(instructions.Forget(marker, span=span))
        low.emit(instructions.Decide(marker, False, span=span))

    def begin() -> None:
        arms = low.block_of(lambda: arm(True)), low.block_of(lambda: arm(False))
        low.emit(flow.Branch(arms, span=span))

    return begin


def _counted(low: Expressions, test: ir.Expr, target: ir.Name, counts: tuple[int, ...]) -> bool | None:
    """How `test` comes out for each of `counts`, None if that differs or is unknown."""
    key = low.key(target) or target.id
    before = low.env.get(key)
    found: set[bool | None] = set()
    for at in counts:
        low.env[key] = Number(at)
        found.add(_outcome(low, test))
    del low.env[key]
    if before is not None:
        low.env[key] = before
    return found.pop() if len(found) == 1 else None


def _outcome(low: Expressions, test: ir.Expr) -> bool | None:
    """How `test` comes out, if constants decide it."""
    sides = test.operands if isinstance(test, ir.Operation) and test.op in _SPELLED else (test,)
    values = [low.known(side) for side in sides]
    found = [value.value for value in values if isinstance(value, Number)]
    if len(found) != len(sides):
        return None
    if not isinstance(test, ir.Operation):
        return bool(found[0])
    left, right = found
    if test.op in ("is", "is not", "==", "!="):
        return (left == right) is (test.op in ("is", "=="))
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return None
    less = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
    return less[test.op]
