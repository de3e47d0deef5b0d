"""A row of the op table: one function says everything about an op.

The function's name and signature are the kernel API, its docstring the documentation, its body the NumPy meaning. The
decorator adds the type rule, the borrow effect and what happens to void lanes. Backends keep one lowering per row,
keyed by the name, and tests say that the key sets are equal and that lowering and meaning agree.

    @op("arithmetic", result=same_shape, lanes=Lanes.CARRY, operator="+", stub="def add(x: Tile[T, *S], ...")
    def add(x, y, /):
        '''Elementwise sum.'''
        return lift(np.add, x, y)

How the parts are used:

- **Types.** `Op.type_of(args, kwargs)` binds the arguments as a call would and asks the type rule. A rule raises
  `Refused` (wrong at every launch) or `NotYet` (depends on what only the launch says, such as an open dtype). It also
  moves the void axes: the result's `void` is right for every row, axes that the op mixes are gone from it, and it is
  for the caller to refuse or condition what `Op.mixed(...)` lists.
- **Values.** In a meaning a tile is a NumPy array of exactly the tile's dtype and shape, a scalar a Python int, float
  or bool, a `Dim` an int, a dtype its class, a tensor or view an object of the interpreter with the methods that the
  meaning uses.
- **Operators.** `operator` is the IR's token (`+`, `==`, `@`); unary ones are `unary -`, `unary ~`, `unary +` and
  `unary not`.
- **Stubs.** A line is `def NAME(...) -> ...` for a function of the package, or `CLASS: def NAME(...) -> ...` for a
  method of `Tile`, `Tensor`, `View`, `SubTiles` or `Index`. Several lines with one class and name are overloads, in
  order. They use the type variables `T U` (dtype), `A` (access), `B M N K L` (extents), `*S` and `*S2` (shapes; in
  methods `S` is the class's own); `One` is the extent 1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, ParamSpec, TypeVar

from tilecheck.ir.types import ArrayExtent, NoneType, TileType, TupleType, Type

# The type of an argument that is left out, or given as `None`.
NONE = NoneType()


class Refused(Exception):
    """A type rule says no. `rule` is the rule's name, `message` the first line in the user's words, `help` the way out;
    `argument` is the position of the argument at fault, for the span.
    """

    def __init__(self, rule: str, message: str, help: str | None = None, argument: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.help = help
        self.argument = argument


class NotYet(Exception):
    """The type depends on what only the launch says (an open dtype or rank): no verdict at check time."""


class Lanes(Enum):
    """What an op does with void lanes, the lanes of a ragged tile that lie outside the array."""

    FRESH = "fresh"  # makes a tile without void lanes
    CARRY = "carry"  # elementwise: a lane depends on the same lane, void stays void
    MOVE = "move"  # permutes or broadcasts whole axes: void axes move with them
    MIX = "mix"  # mixes lanes along `mixes(...)`: those axes must not be void


class Effect(Enum):
    """What an op does with the memory of its first argument."""

    NONE = "none"
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


ResultRule = Callable[..., Type]
# Given the argument types (and keyword argument types): pairs of argument position and axis whose lanes get mixed. A tuple
# argument stands for all tiles in it.
MixRule = Callable[..., Sequence[tuple[int, int]]]


@dataclass(frozen=True, slots=True)
class Op:
    """One row. `result(*types, **keyword_types)` gives the type of the value and raises `Refused`."""

    name: str
    family: str
    meaning: Callable[..., Any]
    result: ResultRule
    lanes: Lanes
    effect: Effect
    mixes: MixRule | None
    # Also callable as a method of these (`tile.astype`, `view.num_tiles`), the receiver first.
    method_of: tuple[Literal["tile", "tensor", "view", "subtiles", "index"], ...]
    # False for names that exist only as methods or operators.
    function: bool
    # The row's lines in the generated type stub: one signature, or several overloads; () hides it.
    stub: tuple[str, ...]
    operator: str | None

    @property
    def doc(self) -> str:
        """The documentation, as written above the meaning."""
        return inspect.cleandoc(self.meaning.__doc__ or "")

    @property
    def signature(self) -> inspect.Signature:
        """How a kernel calls it."""
        return inspect.signature(self.meaning)

    def type_of(self, args: Sequence[Type], kwargs: Mapping[str, Type] | None = None) -> Type:
        """The type of a call with these argument types; raises `Refused`, or `NotYet` where only the launch can tell."""
        named = dict(kwargs or {})
        try:
            self.signature.bind(*args, **named)
        except TypeError as error:
            raise Refused("usage", f"`{self.name}`: {error}", f"it is called as `{self.name}{self.shown}`") from None
        return self.result(*args, **named)

    def mixed(
        self, args: Sequence[Type], kwargs: Mapping[str, Type] | None = None
    ) -> tuple[tuple[int, int, ArrayExtent], ...]:
        """The void lanes that this call would mix into others: argument position, axis of that tile, and the edge
        beyond which they lie. Each must be refused, or excluded by the launch condition that the tile's extent
        divides the edge.
        """
        if self.mixes is None:
            return ()
        found: list[tuple[int, int, ArrayExtent]] = []
        for argument, axis in self.mixes(*args, **dict(kwargs or {})):
            given = args[argument]
            for tile in given.items if isinstance(given, TupleType) else (given,):
                if isinstance(tile, TileType):
                    found += [(argument, axis, edge) for at, edge in tile.void if at == axis]
        return tuple(dict.fromkeys(found))

    @property
    def shown(self) -> str:
        """The signature as documentation shows it: without annotations."""
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in self.signature.parameters.values()]
        return str(inspect.Signature(bare))


OPS: dict[str, Op] = {}


def operators() -> dict[str, Op]:
    """The rows behind operators, by `Op.operator`."""
    return {row.operator: row for row in OPS.values() if row.operator is not None}


P = ParamSpec("P")
R = TypeVar("R")


def op(
    family: str,
    *,
    result: ResultRule,
    lanes: Lanes,
    effect: Effect = Effect.NONE,
    mixes: MixRule | None = None,
    method_of: tuple[Literal["tile", "tensor", "view", "subtiles", "index"], ...] = (),
    function: bool = True,
    stub: str | tuple[str, ...] = (),
    operator: str | None = None,
    name: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Add the decorated function to the table as the row called like the function (or `name`)."""

    def add(meaning: Callable[P, R]) -> Callable[P, R]:
        key = name or meaning.__name__.rstrip("_")
        if key in OPS:
            raise ValueError(f"the op table already has a row `{key}`")
        if (lanes is Lanes.MIX) != (mixes is not None):
            raise ValueError(f"`{key}`: a row has `mixes` iff its lanes mix")
        stubs = (stub,) if isinstance(stub, str) else stub
        OPS[key] = Op(key, family, meaning, result, lanes, effect, mixes, method_of, function, stubs, operator)
        return meaning

    return add
