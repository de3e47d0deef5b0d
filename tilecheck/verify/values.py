"""What a variable of a kernel may hold while the prover walks through it.

Scalars are terms; a float is an opaque term that only equality and uniformity care about. Array variables are views:
a base array and, for every axis of the base, a fixed position or a stretch (start, step, length).

Invariant: `full_index` of a view and positions is an index into the base array, so that aliasing views meet there.
Worked example: `pool[8:16]` is axis Stretch(8, 1, 8); its element 3 is base element 11, checked against length 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from tilecheck.ir.kernel import Node
from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_terms import ONE, ZERO, conj, ite, mul, neg


class Kind(Enum):
    """Integers are reasoned about; floats, and what may be one, are opaque."""

    INT = "int"
    FLOAT = "float"


@dataclass(frozen=True, slots=True)
class Scalar:
    term: Term
    kind: Kind = Kind.INT


@dataclass(frozen=True, slots=True)
class Truth:
    term: Term


@dataclass(frozen=True, slots=True)
class Items:
    """A tuple."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Ratio:
    """`over / under` of two integers, until `int`, `ceil` or `floor` makes an integer of it again."""

    over: Term
    under: Term


@dataclass(frozen=True, slots=True)
class Literal_:
    """None or a string."""

    value: str | None


# What the name of a symbol begins with that stands for an expression which is not read; the reason follows.
UNREAD = "unread: "


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of which not even the kind is known."""

    reason: str


@dataclass(frozen=True, slots=True)
class Fixed:
    at: Term


@dataclass(frozen=True, slots=True)
class Stretch:
    start: Term
    step: Term
    length: Term


Axis = Fixed | Stretch
Space = Literal["global", "shared", "local", "const"]


@dataclass(eq=False, slots=True)
class Array:
    """One piece of memory. `extents` are terms, `written` says whether the kernel may write it, `dtype` is NumPy's name;
    `whole_numbers` says that its elements are integers, whatever the dtype."""

    name: str
    space: Space
    extents: tuple[Term, ...]
    dtype: str | None = None
    written: bool = True
    whole_numbers: bool = False
    node: Node | None = None
    dynamic: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """A part of an array: an axis of the array is fixed or a stretch of it.

    `turned` views take positions along the last stretch first (`a.T`). `folded` are the extents by which a whole array is
    looked at in the order of its elements (`a.reshape(...)`, `a.ravel()`).
    """

    array: Array
    axes: tuple[Axis, ...]
    turned: bool = False
    folded: tuple[Term, ...] | None = None

    @property
    def free(self) -> tuple[Stretch, ...]:
        if self.folded is not None:
            return tuple(Stretch(ZERO, ONE, extent) for extent in self.folded)
        found = tuple(axis for axis in self.axes if isinstance(axis, Stretch))
        return found[::-1] if self.turned else found

    @property
    def size(self) -> Term:
        result = ONE
        for axis in self.free:
            result = mul(result, axis.length)
        return result


@dataclass(frozen=True, slots=True)
class Choice:
    """A view that depends on conditions, such as the buffers of a ping-pong."""

    options: tuple[tuple[Term, View], ...]


Value = Scalar | Truth | Items | Ratio | Literal_ | Unknown | View | Choice


def whole(array: Array) -> View:
    return View(array, tuple(Stretch(ZERO, ONE, extent) for extent in array.extents))


def views(value: Value) -> tuple[tuple[Term | None, View], ...]:
    """The views that `value` may be, each under its condition (None: always)."""
    if isinstance(value, View):
        return ((None, value),)
    if isinstance(value, Choice):
        return value.options
    return ()


def terms_of(value: Value | None) -> tuple[Term, ...]:
    """The terms in a value, for levels and taint."""
    match value:
        case Scalar(term, _) | Truth(term):
            return (term,)
        case Items(items):
            return tuple(t for item in items for t in terms_of(item))
        case Ratio(over, under):
            return (over, under)
        case Choice(options):
            return tuple(c for c, _ in options) + tuple(t for _, v in options for t in terms_of(v))
        case View():
            made: list[Term] = []
            for axis in value.axes:
                made.extend((axis.at,) if isinstance(axis, Fixed) else (axis.start, axis.step, axis.length))
            return (*made, *(value.folded or ()))
    return ()


def level_of(terms: Sequence[Term]) -> Level:
    return max((t.level for t in terms), default=Level.GRID)


def as_int(value: Value) -> Term | None:
    """The integer that `value` is, None if it is none."""
    match value:
        case Scalar(term, _):
            return term
        case Truth(term):
            return ite(term, ONE, ZERO)
    return None


def merge(cond: Term, first: Value | None, second: Value | None) -> Value | None:
    """`first` where `cond` holds, else `second`; a value missing on one side was unbound there."""
    if first is None or second is None or first is second or first == second:
        return first if first is not None else second
    if isinstance(first, Truth) and isinstance(second, Truth):
        return Truth(ite(cond, first.term, second.term))
    if isinstance(first, Scalar | Truth) and isinstance(second, Scalar | Truth):
        one, two = as_int(first), as_int(second)
        assert one is not None and two is not None
        floats = any(isinstance(v, Scalar) and v.kind is Kind.FLOAT for v in (first, second))
        return Scalar(ite(cond, one, two), Kind.FLOAT if floats else Kind.INT)
    if isinstance(first, Items) and isinstance(second, Items) and len(first.items) == len(second.items):
        merged = tuple(merge(cond, a, b) for a, b in zip(first.items, second.items, strict=True))
        return Items(tuple(m for m in merged if m is not None))
    if isinstance(first, View | Choice) and isinstance(second, View | Choice):
        options = [(conj(cond, c) if c is not None else cond, v) for c, v in views(first)]
        options += [(conj(neg(cond), c) if c is not None else neg(cond), v) for c, v in views(second)]
        if len(options) <= 6:
            return Choice(tuple(options))
        return Unknown("one of many arrays")
    return Unknown("a value of different kinds on different paths")


@dataclass(frozen=True, slots=True)
class Check:
    """`0 <= position < length` must hold; `from_end` marks a literal negative index, already counted from the end."""

    position: Term
    length: Term
    from_end: bool = False


Tags = dict[Level, dict[str, Term]]


@dataclass(frozen=True, slots=True)
class Held:
    """A lock that a thread holds since access number `at`; `fenced` once a fence came after its taking; `unlike` if the
    lock was found not to hold what its takers write, rather than to hold 0.
    """

    array: Array
    index: tuple[Term, ...]
    at: int
    fenced: bool = False
    unlike: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """A shared element that one thread of the block wrote if `when`: what it keeps of `value`, in the writer's terms."""

    array: Array
    index: tuple[Term, ...]
    value: Term
    when: Term


@dataclass(eq=False, slots=True)
class Access:
    """One access of one thread. `guard` says when it happens, `tags` which barrier intervals it may be in.

    `again` marks the copy of a loop body at the next round, there only to meet the accesses at the end of this round.
    `rounds` says that it stands for all rounds of a loop, `operands` are those of an atomic.
    """

    array: Array
    index: tuple[Term, ...]
    kind: Literal["read", "write", "atomic"]
    guard: Term
    node: Node
    tags: Tags
    order: int
    value: Value | None = None
    checks: tuple[Check, ...] = ()
    member: str | None = None
    update: bool = False
    again: bool = False
    loops: int = 0
    op: str = ""
    fenced: bool = False
    locks: frozenset[Held] = frozenset()
    operands: tuple[Value, ...] = ()
    rounds: bool = False
