"""Hoisted asserts as expressions: from polynomials back to the kernel's own variables.

    for i in range(n): acc += xs[head]      before the loop: if 0 < n, assert 0 <= head < num_tiles

Interpreter and code generators evaluate `low`, `high` and `guards` where the loop stands; they never see a polynomial.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import Binary, Compare, Const, DimRef, Expr, Extent, Name, Node, OpCall, Unary
from tilecheck.ir.types import ArrayExtent, DimExtent, ScalarType, Type
from tilecheck.ir.types import Extent as TileExtent
from tilecheck.symbolic.linear import Atom, Fresh, LaunchAxis, Poly, Quotient, Scalar, Size
from tilecheck.symbolic.requires import Comparison
from tilecheck.verify.tile_path import Values, holder


@dataclass(frozen=True, slots=True)
class HoistedCheck:
    """An assert before a loop: if all `guards` hold, `0 <= low` and `high < ceil(extent / tile)`, for axis `axis` of the
    access `node`, which is axis `array_axis` of `array`. For sub-tiles (`local`) the extent is that of the block's own
    tile.
    """

    node: Node
    array: str
    axis: int
    array_axis: int
    tile: TileExtent
    low: Expr
    high: Expr
    guards: tuple[Expr, ...]
    local: bool = False


class Writer:
    """Writes polynomials as expressions at one place; `types` gains the type of every node written."""

    def __init__(self, values: Values, span: Span, types: dict[Node, Type]) -> None:
        self._values = values
        self._span = span
        self._types = types

    def comparison(self, comparison: Comparison) -> Expr:
        """A comparison of two polynomials."""
        node = Compare(comparison.relation, self.poly(comparison.left), self.poly(comparison.right), span=self._span)
        self._types[node] = ScalarType("bool")
        return node

    def poly(self, poly: Poly) -> Expr:
        """A polynomial; every atom must be available here."""
        total: Expr | None = None
        for monomial, coefficient in poly.terms:
            term: Expr | None = None
            for atom in monomial:
                term = (
                    self._atom(atom)
                    if term is None
                    else self._int(Binary("*", term, self._atom(atom), span=self._span))
                )
            if term is None or coefficient != 1:
                factor = self._constant(coefficient)
                term = factor if term is None else self._int(Binary("*", factor, term, span=self._span))
            total = term if total is None else self._int(Binary("+", total, term, span=self._span))
        return total if total is not None else self._constant(0)

    def _int(self, node: Expr) -> Expr:
        self._types[node] = ScalarType("int")
        return node

    def _constant(self, value: int) -> Expr:
        node = Const(value, span=self._span)
        self._types[node] = ScalarType("int", value)
        return node

    def _atom(self, atom: Atom) -> Expr:
        span = self._span
        match atom:
            case Scalar() | Fresh():
                name = holder(atom, self._values)
                assert name is not None, atom
                return self._int(Name(name, span=span))
            case DimExtent(key=key):
                return self._int(DimRef(key, span=span))
            case ArrayExtent(array=array, axis=axis):
                return self._int(Extent(Name(array, span=span), axis, span=span))
            case Size(array=array):
                return self._int(Extent(Name(array, span=span), None, span=span))
            case LaunchAxis(kind=kind, axis=axis):
                op = "block_id" if kind == "blockId" else "num_blocks"
                return self._int(OpCall(op, (self._constant(axis),), span=span))
            case Quotient(op="ceil", left=left, right=right):
                negative = self._int(Unary("-", self.poly(left), span=span))
                down = self._int(Binary("//", negative, self.poly(right), span=span))
                return self._int(Unary("-", down, span=span))
            case Quotient(op="//" | "%" as op, left=left, right=right):
                return self._int(Binary(op, self.poly(left), self.poly(right), span=span))
        raise AssertionError(atom)
