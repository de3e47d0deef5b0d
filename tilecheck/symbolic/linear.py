"""Index arithmetic on exact integers: polynomials over what a launch knows and what a kernel counts.

A `Poly` is a sum of products of atoms. Atoms are scalars, extents, grid and block numbers, values that only the kernel
knows (`Fresh`), and quotients of polynomials (`//`, `%`, `ceil`), which are kept whole. Equal polynomials are equal
objects, so `i + 1 - 1 == i` needs no solver:

    extent = Poly.of(ArrayExtent("x", 0))
    tiles = ceil_div(extent, Poly.of(DimExtent("k", "BM")))     # ceil(x.shape[0] / BM)

`evaluate` computes a polynomial from the values of a launch; it raises `Unresolved` for an atom without a value, so that
a check whose operands are missing is never taken for true. `bounds` gives constant bounds from the kinds of the atoms
alone: what it says holds at every launch.

Invariant: nothing here wraps. Whoever uses a polynomial for a kernel's 64-bit int has shown first that it does not
leave that range (`fits_int64`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tilecheck.ir.types import ArrayExtent, DimExtent

INT64 = (-(1 << 63), (1 << 63) - 1)
# What an axis and an array can hold on any device, by its memory, and a grid axis by its definition.
_EXTENT, _SIZE, _BLOCKS = 1 << 38, 1 << 38, (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar parameter of the kernel."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Size:
    """The number of elements of an array."""

    array: str

    def __str__(self) -> str:
        return f"{self.array}.size"


@dataclass(frozen=True, slots=True)
class LaunchAxis:
    """`gridDim` or `blockDim` along an axis, 0 for x; `blockId` is a number below `gridDim`."""

    kind: Literal["gridDim", "blockDim", "blockId"]
    axis: int

    def __str__(self) -> str:
        return f"block_id({self.axis})" if self.kind == "blockId" else f"{self.kind}.{'xyz'[self.axis]}"


@dataclass(frozen=True, slots=True)
class Fresh:
    """A value that only the running kernel has, between constant bounds where they are known."""

    number: int
    text: str
    low: int | None = None
    high: int | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Quotient:
    """`left // right`, `left % right` or `ceil(left / right)`; a divisor of zero makes it unresolved."""

    op: Literal["//", "%", "ceil"]
    left: Poly
    right: Poly

    def __str__(self) -> str:
        if self.op == "ceil":
            return f"ceil({self.left} / {self.right})"
        return f"{_bracketed(self.left)} {self.op} {_bracketed(self.right)}"


Atom = Scalar | DimExtent | ArrayExtent | Size | LaunchAxis | Fresh | Quotient
Monomial = tuple[Atom, ...]


class Unresolved(Exception):
    """An operand of a condition has no value at this launch; the message names it."""


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of `coefficient * product of atoms`, in one normal form; the constant is the empty product."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: int | Atom) -> Poly:
        """A constant or a single atom."""
        if isinstance(value, int):
            return Poly((((), value),) if value else ())
        return Poly((((value,), 1),))

    @property
    def constant(self) -> int | None:
        """The value, if it is a constant."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == () else None

    @property
    def atom(self) -> Atom | None:
        """The atom, if the polynomial is one bare atom."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def __add__(self, other: Poly) -> Poly:
        return _sum((*self.terms, *other.terms))

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        return _sum((tuple(sorted((*m, *n), key=_order)), c * d) for m, c in self.terms for n, d in other.terms)

    def atoms(self) -> Iterator[Atom]:
        """The atoms, those inside quotients included."""
        for monomial, _ in self.terms:
            for atom in monomial:
                yield atom
                if isinstance(atom, Quotient):
                    yield from atom.left.atoms()
                    yield from atom.right.atoms()

    def evaluate(self, value: Callable[[Atom], int]) -> int:
        """The number, given the value of each atom that is no quotient. Raises `Unresolved`."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom in monomial:
                product *= _divided(atom, value) if isinstance(atom, Quotient) else value(atom)
            total += product
        return total

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        parts: list[str] = []
        ordered = sorted(self.terms, key=lambda t: (t[0] == (), t[1] < 0))
        for monomial, coefficient in ordered:
            factors = [str(a) if not isinstance(a, Quotient) or a.op == "ceil" else f"({a})" for a in monomial]
            if len(monomial) == 1 and isinstance(monomial[0], Quotient) and len(ordered) == 1 and coefficient == 1:
                factors = [str(monomial[0])]
            size = abs(coefficient)
            text = " * ".join(([str(size)] if size != 1 or not factors else []) + factors)
            parts.append(f"{'- ' if coefficient < 0 else '+ '}{text}")
        joined = " ".join(parts)
        return joined[2:] if joined.startswith("+ ") else "-" + joined[2:]


ZERO, ONE = Poly.of(0), Poly.of(1)


def replace(poly: Poly, by: Callable[[Atom], Poly | None]) -> Poly:
    """`poly` with atoms replaced, inside quotients too; `by` gives None for an atom that stays."""
    total = ZERO
    for monomial, coefficient in poly.terms:
        product = Poly.of(coefficient)
        for atom in monomial:
            other = by(atom)
            if other is None and isinstance(atom, Quotient):
                other = divide(atom.op, replace(atom.left, by), replace(atom.right, by))
            product = product * (other if other is not None else Poly.of(atom))
        total = total + product
    return total


@lru_cache(maxsize=1 << 14)
def _order(atom: Atom) -> tuple[str, str]:
    return type(atom).__name__, str(atom) if not isinstance(atom, Fresh) else f"{atom.number:09}"


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Poly:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    return Poly(tuple(sorted(kept, key=lambda t: (len(t[0]), [_order(a) for a in t[0]]))))


def _bracketed(poly: Poly) -> str:
    return str(poly) if (len(poly.terms) <= 1 and poly.atom is not None) or poly.constant is not None else f"({poly})"


def divide(op: Literal["//", "%", "ceil"], left: Poly, right: Poly) -> Poly:
    """A quotient, computed where it is known."""
    a, b = left.constant, right.constant
    if b == 1:
        return ZERO if op == "%" else left
    if a is not None and b:
        return Poly.of(_quotient(op, a, b))
    return Poly.of(Quotient(op, left, right))


def ceil_div(left: Poly, right: Poly) -> Poly:
    """`ceil(left / right)`: how many tiles of `right` cover `left`."""
    return divide("ceil", left, right)


def _quotient(op: str, a: int, b: int) -> int:
    if b == 0:
        raise Unresolved("a divisor is 0")
    return -(-a // b) if op == "ceil" else a // b if op == "//" else a % b


def _divided(atom: Quotient, value: Callable[[Atom], int]) -> int:
    return _quotient(atom.op, atom.left.evaluate(value), atom.right.evaluate(value))


# ---- constant bounds

Bounds = tuple[int | None, int | None]


def bounds(poly: Poly, known: Callable[[Atom], Bounds] | None = None) -> Bounds:
    """Constant bounds that hold at every launch; None where there is none. `known` adds what is known of an atom."""
    low: int | None = 0
    high: int | None = 0
    for monomial, coefficient in poly.terms:
        part: Bounds = (coefficient, coefficient)
        for atom in monomial:
            part = _product(part, _meet(atom_bounds(atom, known), known(atom) if known is not None else (None, None)))
        low = None if low is None or part[0] is None else low + part[0]
        high = None if high is None or part[1] is None else high + part[1]
    return low, high


def _meet(a: Bounds, b: Bounds) -> Bounds:
    lows = [v for v in (a[0], b[0]) if v is not None]
    highs = [v for v in (a[1], b[1]) if v is not None]
    return max(lows, default=None), min(highs, default=None)


def _product(a: Bounds, b: Bounds) -> Bounds:
    if a == (0, 0) or b == (0, 0):
        return (0, 0)
    corners: list[int] = []
    for x in a:
        for y in b:
            if x is None or y is None:
                break
            corners.append(x * y)
        else:
            continue
        break
    else:
        return min(corners), max(corners)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] >= 0:
        return a[0] * b[0], None
    return None, None


def atom_bounds(atom: Atom, known: Callable[[Atom], Bounds] | None = None) -> Bounds:
    """What the kind of an atom says about its value."""
    match atom:
        case Scalar():
            return INT64
        case DimExtent():
            return 1, _EXTENT
        case ArrayExtent():
            return 0, _EXTENT
        case Size():
            return 0, _SIZE
        case LaunchAxis(kind="blockId"):
            return 0, _BLOCKS - 1
        case LaunchAxis(kind="blockDim"):
            return 1, 1024
        case LaunchAxis():
            return 1, _BLOCKS
        case Fresh(low=low, high=high):
            return low, high
        case Quotient(op=op, left=left, right=right):
            return _quotient_bounds(op, bounds(left, known), bounds(right, known))


def _quotient_bounds(op: str, a: Bounds, b: Bounds) -> Bounds:
    if b[0] is None or b[0] < 1:
        return None, None
    if op == "%":
        return 0, None if b[1] is None else b[1] - 1
    low = None if a[0] is None else min(_quotient(op, a[0], b[0]), _quotient(op, a[0], b[1]) if b[1] else 0)
    high = None if a[1] is None else max(_quotient(op, a[1], b[0]), _quotient(op, a[1], b[1]) if b[1] else 0)
    return low, high


def fits_int64(poly: Poly, known: Callable[[Atom], Bounds] | None = None) -> bool:
    """Whether the value stays within 64 bits at every launch."""
    low, high = bounds(poly, known)
    return low is not None and high is not None and low >= INT64[0] and high <= INT64[1]
