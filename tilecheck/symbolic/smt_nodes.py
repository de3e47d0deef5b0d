"""The nodes of the prover's terms: symbols, hash-consed terms, constant ranges.

`smt_terms.py` builds terms in normal form; nothing else calls `intern`.

Invariant: equal structure means the same object, so terms are compared with `is` and used as dictionary keys.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal
from weakref import WeakValueDictionary

Kind = Literal["const", "sym", "lin", "mul", "div", "mod", "ite", "true", "false", "ge", "eq", "and", "or", "not"]


class Level(IntEnum):
    """Who agrees on a value: all threads of the launch, a block, a warp, or nobody."""

    GRID = 0
    BLOCK = 1
    WARP = 2
    THREAD = 3


class Taint(IntEnum):
    """Where a symbol comes from: the engine's own (ids, counters), the launch, array contents, or lost precision."""

    NONE = 0
    INPUT = 1
    DATA = 2
    HAVOC = 3


class Symbol:
    """An unknown. `low`/`high` are constant bounds (None: open). `facts` hold wherever the symbol is used;
    `applied` makes it the value of a function (`name`, the level at which it is one function, arguments).
    """

    __slots__ = ("applied", "boolean", "facts", "high", "level", "low", "name", "order", "taint")

    def __init__(
        self,
        name: str,
        order: int,
        level: Level,
        taint: Taint,
        low: int | None = None,
        high: int | None = None,
        boolean: bool = False,
    ) -> None:
        self.boolean = boolean
        self.name = name
        self.order = order
        self.level = level
        self.taint = taint
        self.low = low
        self.high = high
        self.facts: list[Term] = []
        self.applied: Applied | None = None

    def __repr__(self) -> str:
        return self.name


class Applied:
    """`symbol == function(arguments)` for every thread that agrees on `level`."""

    __slots__ = ("arguments", "function", "level")

    def __init__(self, function: str, level: Level, arguments: tuple[Term, ...]) -> None:
        self.function = function
        self.level = level
        self.arguments = arguments


class Term:
    """One node. `parts` are the children; `const` the constant of a sum or number; `weights` a sum's coefficients."""

    __slots__ = (
        "__weakref__",
        "_symbols",
        "boolean",
        "const",
        "high",
        "kind",
        "low",
        "parts",
        "serial",
        "symbol",
        "weights",
    )

    kind: Kind
    parts: tuple[Term, ...]
    const: int
    weights: tuple[int, ...]
    symbol: Symbol | None
    boolean: bool
    low: int | None
    high: int | None
    serial: int
    _symbols: frozenset[Symbol] | None

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols in the term (those of their facts not counted)."""
        if self._symbols is None:
            if self.symbol is not None:
                self._symbols = frozenset((self.symbol,))
            elif len(self.parts) == 1:
                self._symbols = self.parts[0].symbols
            else:
                self._symbols = frozenset().union(*(part.symbols for part in self.parts))
        return self._symbols

    @property
    def level(self) -> Level:
        return max((s.level for s in self.symbols), default=Level.GRID)

    def __repr__(self) -> str:
        from tilecheck.symbolic.smt_read import show

        return show(self)


_table: WeakValueDictionary[tuple[object, ...], Term] = WeakValueDictionary()
_serial = 0


def intern(
    kind: Kind,
    parts: tuple[Term, ...] = (),
    const: int = 0,
    weights: tuple[int, ...] = (),
    symbol: Symbol | None = None,
    boolean: bool = False,
) -> Term:
    global _serial
    key = (kind, parts, const, weights, symbol, boolean)
    found = _table.get(key)
    if found is not None:
        return found
    term = Term()
    term.kind, term.parts, term.const, term.weights, term.symbol = kind, parts, const, weights, symbol
    term.boolean = boolean
    term._symbols = None
    term.low, term.high = _range(term)
    _serial += 1
    term.serial = _serial
    _table[key] = term
    return term


def _range(term: Term) -> tuple[int | None, int | None]:
    """Constant bounds of an integer term; (0, 1) for truth values."""
    match term.kind:
        case "const":
            return term.const, term.const
        case "sym" if term.symbol is not None and not term.boolean:
            return term.symbol.low, term.symbol.high
        case "lin":
            low: int | None = term.const
            high: int | None = term.const
            for part, weight in zip(term.parts, term.weights, strict=True):
                small, large = (part.low, part.high) if weight > 0 else (part.high, part.low)
                low = None if low is None or small is None else low + weight * small
                high = None if high is None or large is None else high + weight * large
            return low, high
        case "mul":
            if all(p.low is not None and p.low >= 0 for p in term.parts):
                low_product, high_product = 1, 1
                open_end = False
                for part in term.parts:
                    low_product *= part.low or 0
                    if part.high is None:
                        open_end = True
                    else:
                        high_product *= part.high
                return low_product, None if open_end else high_product
            return None, None
        case "mod":
            divisor = term.parts[1]
            top = (
                divisor.high - 1 if divisor.high is not None and divisor.low is not None and divisor.low >= 1 else None
            )
            if divisor.low is not None and divisor.low >= 1:
                value = term.parts[0]
                if value.low is not None and value.low >= 0 and value.high is not None:
                    top = value.high if top is None else min(top, value.high)
                return 0, top
            return None, None
        case "div":
            value, divisor = term.parts
            if divisor.low is not None and divisor.low >= 1:
                low = None if value.low is None else min(value.low // divisor.low, 0 if value.low >= 0 else value.low)
                if value.low is not None and value.low >= 0:
                    low = 0 if divisor.high is None else value.low // divisor.high
                high = None if value.high is None else (value.high // divisor.low if value.high >= 0 else -1)
                return low, high
            return None, None
        case "ite":
            then, other = term.parts[1], term.parts[2]
            low = None if then.low is None or other.low is None else min(then.low, other.low)
            high = None if then.high is None or other.high is None else max(then.high, other.high)
            return low, high
    return 0, 1
