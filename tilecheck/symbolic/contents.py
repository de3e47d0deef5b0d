"""What a launch condition may say of the elements of an array.

    0 <= idx < x.size       every element of `idx` is in that range; read as two facts, one per comparison
    distinct(perm)          no value occurs twice: `perm` takes different places to different values
    nondecreasing(ptr)      `ptr[i] <= ptr[j]` for i <= j, so the segments [ptr[i], ptr[i + 1]) do not overlap

A fact is about the array as it is when the kernel starts, so it says something of what the kernel reads only if the
kernel does not write that array. `interp/contents.py` says what each fact means for given elements.

Worked example: `0 <= idx` is `Bounded("idx", ">=", 0)`: the relation is read from the element's side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilecheck.symbolic.linear import Poly

Relation = Literal["==", "!=", "<", "<=", ">", ">="]
Order = Literal["distinct", "nondecreasing"]
ORDERS: Mapping[str, Order] = {"distinct": "distinct", "nondecreasing": "nondecreasing"}
# `bound R element`, read from the element's side.
MIRRORED: Mapping[Relation, Relation] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Bounded:
    """`element relation bound` for every element of `array`; `written` is how the user wrote it."""

    array: str
    relation: Relation
    bound: Poly
    written: str = ""

    @property
    def text(self) -> str:
        """The fact in the grammar of conditions."""
        return self.written or f"{self.array} {self.relation} {self.bound}"


@dataclass(frozen=True, slots=True)
class Ordered:
    """How the elements of `array` stand to one another."""

    array: str
    order: Order

    @property
    def text(self) -> str:
        """The fact in the grammar of conditions."""
        return f"{self.order}({self.array})"


ElementFact = Bounded | Ordered
