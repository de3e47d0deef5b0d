"""Whether the lanes of a scatter go to different elements: which lanes can be told from the index.

Two lanes that meet have the same index, so what is computed from the index is the same too. From a sum follows the part
whose coefficient is larger than all that the others can differ by, from `x // d` and `x % d` follows x, and from a lane its
axis. If every axis follows, two lanes that meet are one. Invariant: every step is a theorem of the integers.

    rows * 64 + columns   with columns below 64   ->   the lanes of both
    j // 2                                        ->   nothing: lanes 0 and 1 meet
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tilecheck.frontend.cutile_values import axes_of
from tilecheck.ir.kernel import Binary, Const, Expr, Extent, OpCall, Unary, walk
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Load

# What an expression without lanes is worth, None if that is not known.
Worth = Callable[[Expr], int | None]
# A term of a sum with its coefficient: a number, or the text of one that is not known.
Term = tuple[int | str, Expr]


def literal(value: Expr) -> int | None:
    """What a constant is worth."""
    known = value.value if isinstance(value, Const) else None
    return known if isinstance(known, int) and not isinstance(known, bool) else None


def told_apart(items: Sequence[Expr], worth: Worth = literal) -> bool:
    """Whether no two lanes have the same index `items`."""
    if any(isinstance(node, Load) for node in walk(*items)):
        return False
    wanted: dict[int, Expr] = {}
    for item in items:
        wanted |= axes_of(item)
    positive = {show(size) for size in wanted.values()} | {show(n) for n in walk(*items) if isinstance(n, Extent)}
    known = {show(item): item for item in items}
    axes: set[int] = set()
    while True:
        found = [part for item in known.values() for part in _implied(item, known, axes, positive, worth)]
        found += _joined(list(known.values()))
        lanes = {axis for part in found if _is_lane(part) for axis in axes_of(part)}
        new = {show(part): part for part in found if show(part) not in known}
        if not new and lanes <= axes:
            return axes >= set(wanted)
        known |= new
        axes |= lanes


def _implied(item: Expr, known: dict[str, Expr], axes: set[int], positive: set[str], worth: Worth) -> Iterator[Expr]:
    """What follows from `item`, beside what is known already."""
    terms = [(c, t) for c, t in _terms(item, 1, worth) if not set(axes_of(t)) <= axes]
    open_ones = [(c, t) for c, t in terms if show(t) not in known or t is item]
    for k, (coefficient, term) in enumerate(open_ones):
        others = open_ones[:k] + open_ones[k + 1 :]
        if isinstance(coefficient, str):
            # `rows * n + columns`, the columns below n.
            row_major = len(others) == 1 and others[0][0] in (1, -1) and _size(others[0][1]) == coefficient
            if coefficient in positive and (not others or row_major):
                yield _core(term)
            continue
        widths = [_width(c, t, worth) for c, t in others]
        if coefficient and all(w is not None for w in widths) and sum(w or 0 for w in widths) < abs(coefficient):
            yield _core(term)


def _terms(value: Expr, scale: int | str, worth: Worth) -> Iterator[Term]:
    """The terms of a sum that have lanes."""
    if not axes_of(value):
        return
    match value:
        case Binary(op="+", left=left, right=right):
            yield from _terms(left, scale, worth)
            yield from _terms(right, scale, worth)
        case Binary(op="-", left=left, right=right):
            yield from _terms(left, scale, worth)
            yield from _terms(right, -scale if isinstance(scale, int) else f"-{scale}", worth)
        case Binary(op="*", left=left, right=right) if not (axes_of(left) and axes_of(right)):
            inner, factor = (left, right) if axes_of(left) else (right, left)
            number = worth(factor)
            if isinstance(scale, int) and number is not None:
                yield from _terms(inner, scale * number, worth)
            elif scale == 1:
                yield from _terms(inner, show(factor), worth)
            else:
                yield scale, value
        case Unary(op="-", operand=operand) if isinstance(scale, int):
            yield from _terms(operand, -scale, worth)
        case OpCall(op="int64", args=(inner,)):
            yield from _terms(inner, scale, worth)
        case _:
            yield scale, value


def _core(term: Expr) -> Expr:
    """What a term tells as much as: the one side of `x ^ c`."""
    if isinstance(term, Binary) and term.op == "^" and not (axes_of(term.left) and axes_of(term.right)):
        return term.left if axes_of(term.left) else term.right
    return term


def _joined(known: Sequence[Expr]) -> list[Expr]:
    """x, for every `x // d` and `x % d` that are known."""
    pairs = [e for e in known if isinstance(e, Binary) and e.op in ("//", "%") and not axes_of(e.right)]
    rests = {(show(e.left), show(e.right)) for e in pairs if e.op == "%"}
    return [e.left for e in pairs if e.op == "//" and (show(e.left), show(e.right)) in rests]


def _width(coefficient: int | str, term: Expr, worth: Worth) -> int | None:
    """By how much two values of a term differ at most."""
    size: int | None = None
    match term:
        case OpCall(op="lane" | "lane64", args=(_, extent)):
            size = worth(extent)
        case Binary(op="%", right=right) if not axes_of(right):
            size = worth(right)
    if size is None or size < 1 or isinstance(coefficient, str):
        return None
    return abs(coefficient) * (size - 1)


def _size(term: Expr) -> str | None:
    return show(term.args[1]) if _is_lane(term) and isinstance(term, OpCall) else None


def _is_lane(value: Expr) -> bool:
    return isinstance(value, OpCall) and value.op in ("lane", "lane64")
