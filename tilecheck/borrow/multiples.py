"""Whether a number is a multiple of another however its variables turn out: `n_pad` after `n_pad = (n + 255) // 256 * 256`.

It is asked before something is said of a grid that is rounded down, so a doubt counts as yes. An expression is traced
to what computed it and tried out: its unknowns get a few numbers, the same wherever they are written the same, and if
the remainder is 0 in every trial then it is so by construction. The size of an array is traced to what it was made with
(`extents.py`). What cannot be traced, such as the result of a function that is given the divisor, is taken for a
multiple, and so is what is made of something whose remainder the function asks for. A variable that is set more than once
is a multiple if every statement that sets it makes one, given one: `size = 256`, then `size += 256` in a loop.

Worked example: `n + (-n) % 256` is 1024 for n = 1009 and 4352 for n = 4099, multiples of 256 both; `n // 2` is 504.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from tilecheck.borrow.extents import asked, factors, remainders_of
from tilecheck.borrow.launch import Launch
from tilecheck.borrow.numbers import applied
from tilecheck.borrow.plain_brackets import origin_of
from tilecheck.borrow.spell import spell
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir

# Primes, so that no remainder is 0 by chance; an exponent gets one that is large enough for a power to be a multiple.
_TRIALS = (1009, 4099, 65537, 1000003)
_EXPONENT = 20
_DEEPEST = 16
_ROUNDS = re.compile(r"round|pad|align|multiple|ceil", re.IGNORECASE)


class _Untraced(Exception):
    """A part of the expression cannot be tried out."""


def is_multiple(launch: Launch, extent: ir.Expr, divisor: ir.Expr) -> bool:
    """Whether `extent` is a multiple of `divisor` by construction, or may be in a way that cannot be traced."""
    for at in range(len(_TRIALS)):
        trial = _Trial(launch, at, divisor)
        try:
            size, by = trial.number(extent), trial.number(divisor)
        except _Untraced:
            return True
        if by < 1 or size % by:
            return any(remainders_of(launch.tested, trial.visited, spell(divisor)))
    return True


def sliced_to_multiple(launch: Launch, divisor: ir.Expr) -> bool:
    """Whether an argument of the launch is cut off at a multiple of `divisor`: `x[: n // 256 * 256]`."""
    return any(
        stop is not None and is_multiple(launch, stop, divisor)
        for given in launch.args.values()
        for stop in _stops(origin_of(launch, given.expr))
    )


def _stops(expr: ir.Expr) -> Iterator[ir.Expr | None]:
    if isinstance(expr, ir.Sub):
        for part in expr.index.items if isinstance(expr.index, ir.Display) else (expr.index,):
            if isinstance(part, ir.Slice):
                yield part.stop


class _Trial:
    """One assignment of numbers to what is unknown."""

    def __init__(self, launch: Launch, at: int, divisor: ir.Expr) -> None:
        self.launch = launch
        self.at = at
        self.divisor = divisor
        self.unknown: dict[str, int] = {}
        self.open: set[str] = set()
        self.supposed: dict[str, int] = {}
        self.visited: set[str] = set()

    def number(self, expr: ir.Expr) -> int | float:
        """What `expr` is in this trial."""
        known = self.launch.number(expr)
        if known is not None:
            return known
        if len(self.open) > _DEEPEST:
            raise _Untraced
        about = asked(expr)
        if about is not None:
            return self.extent(*about)
        match expr:
            case ir.Operation(op="<<" | "**" as op, operands=(base, by)):
                shift = self.launch.number(by)
                return self.applied(op, [self.number(base), _EXPONENT if shift is None else shift])
            case ir.Operation(op="&", operands=(left, right)):
                parts = self.number(left), self.number(right)
                if not isinstance(parts[0], int) or not isinstance(parts[1], int):
                    raise _Untraced
                return parts[0] & parts[1]
            case ir.Operation(op="~", operands=(only,)) if isinstance(whole := self.number(only), int):
                return ~whole
            case ir.Operation(op=op, operands=operands):
                return self.applied(op, [self.number(operand) for operand in operands])
            case ir.Call():
                return self.called(expr)
            case ir.Opaque() | ir.Choice():
                raise _Untraced
            case _:
                return self.named(expr)

    def applied(self, op: str, parts: list[int | float]) -> int | float:
        found = applied(op, parts)
        if found is None:
            raise _Untraced
        return found

    def named(self, expr: ir.Expr) -> int | float:
        """A variable: what computed it, or a number of its own."""
        text = spell(expr)
        if text in self.supposed:
            return self.supposed[text]
        origin = origin_of(self.launch, expr)
        if origin is not expr and text not in self.open:
            self.open.add(text)
            try:
                return self.number(origin)
            finally:
                self.open.discard(text)
        if isinstance(expr, ir.Attr) and not self.launch.is_given(expr):
            raise _Untraced
        grown = self.grown(expr.id) if isinstance(expr, ir.Name) else None
        if grown is not None:
            return grown
        self.visited.add(text)
        return self.own(text)

    def grown(self, name: str) -> int | None:
        """A multiple of the divisor for a variable that several statements set, if each makes one out of one."""
        values = self.launch.bindings(name)
        if len(values) < 2 or len(self.open) > _DEEPEST:
            return None
        by = self.number(self.divisor)
        self.supposed[name] = guess = int(by) * _TRIALS[self.at]
        try:
            made = [None if value is None else self.number(value) for value in values]
        finally:
            del self.supposed[name]
        return guess if by >= 1 and all(number is not None and number % by == 0 for number in made) else None

    def own(self, text: str) -> int:
        """The number of an unknown; different ones get different numbers."""
        return self.unknown.setdefault(text, _TRIALS[self.at] + 30 * len(self.unknown))

    def extent(self, array: ir.Expr, axis: int | None) -> int | float:
        """The size of an array, or one of its extents."""
        found = factors(self.launch, array, axis, self.visited)
        if found is None:
            raise _Untraced
        size: int | float = 1
        for part in found:
            size *= self.own(part) if isinstance(part, str) else self.number(part)
        return size

    def called(self, call: ir.Call) -> int | float:
        full = canonical(call.func) or ""
        if not full.startswith(("builtins.", "math.", "numpy.")):
            divisor, known = spell(self.divisor), self.launch.number(self.divisor)
            given = [arg.value for arg in call.args]
            rounds = _ROUNDS.search(spell(call.func)) is not None
            if rounds or any(spell(arg) == divisor or self.launch.number(arg) == (known or divisor) for arg in given):
                raise _Untraced
            return self.named_call(call)
        if any(arg.star or arg.name for arg in call.args) or full in _MAKES:
            return self.named_call(call)
        parts = [self.number(arg.value) for arg in call.args]
        whole = [part for part in parts if isinstance(part, int)]
        match full.rpartition(".")[2], parts:
            case "ceil", [only]:
                return math.ceil(only)
            case (("floor" | "trunc"), [only]):
                return math.floor(only)
            case (("int" | "int32" | "int64"), [only]):
                return int(only)
            case "gcd", _ if len(whole) == len(parts):
                return math.gcd(*whole)
            case "lcm", _ if len(whole) == len(parts):
                return math.lcm(*whole)
            case (("min" | "minimum"), [_, *_]):
                return min(parts)
            case (("max" | "maximum"), [_, *_]):
                return max(parts)
            case _:
                return self.named_call(call)

    def named_call(self, call: ir.Call) -> int:
        """The result of a call that is not computed: a number of its own."""
        return self.own(spell(call))


# Their arguments are no numbers.
_MAKES = frozenset({"builtins.input", "builtins.sum", "builtins.str", "builtins.float", "numpy.prod"})
