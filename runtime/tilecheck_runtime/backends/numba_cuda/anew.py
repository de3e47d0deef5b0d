"""Values that are made anew after a reduction instead of being kept over it.

A row of f16 takes half the registers of the same row in f32. A kernel that needs the f32 values again after a reduction
has two ways: keep them in registers while the block waits, or keep the f16 row and convert it once more. Here the second
is chosen, for values that come from tiles of two-byte elements through conversions, sums and products; registers decide
how many blocks stand on a multiprocessor, and thereby how well memory is kept busy.

    centred__t = t_1                        # to_f32_0(t_0), t_0 holds f16
    t_2 = sum_0(centred__t)
    ...
    t_6 = again_0(t_0)                      # the same registers, opaque to the compiler, which would join the conversions
    t_7 = to_f32_0(t_6)
    t_8 = subtract_0(t_7, t_5)

Invariant: a value made anew has the same bits as the one kept, since the same ops run on the same elements. Only
straight code is followed: a loop, a branch and a helper that returns early forget everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.registers import SIZE, Value, call_asm, pack, unpack

if TYPE_CHECKING:
    from tilecheck_runtime.backends.numba_cuda.lowering import Lowering
    from tilecheck_runtime.backends.numba_cuda.tiles import Held

# Fewer elements a thread are no burden.
_FEWEST: Final = 32
# What costs about as much as a move.
CHEAP: Final = frozenset({"add", "subtract", "multiply", "negative"})


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a tile was made: an intrinsic, and its arguments as they stand in the text."""

    function: str
    arguments: tuple[Held | str, ...]
    made: Held
    reductions: int


class Recipes:
    """How the tiles of straight code were made, and after how many reductions."""

    def __init__(self) -> None:
        self._made: dict[str, _Recipe] = {}
        self._same: dict[str, str] = {}
        self._light: set[str] = set()
        self._reductions = 0
        self._inside = 0

    def note(self, function: str, arguments: Sequence[Held | str], made: Held) -> None:
        """`made` is `function(*arguments)`, a cheap op lane by lane."""
        if not self._inside:
            fixed = tuple(one if isinstance(one, str) else self._resolved(one) for one in arguments)
            self._made[made.name] = _Recipe(function, fixed, made, self._reductions)

    def _resolved(self, held: Held) -> Held:
        """`held` by the name that no assignment changes."""
        return replace(held, name=self._same.get(held.name, held.name))

    def note_light(self, made: Held) -> None:
        """`made` repeats a few registers under many names."""
        self._light.add(made.name)

    def note_name(self, variable: str, name: str) -> None:
        """The variable stands for the tile `name` from here on."""
        if not self._inside:
            self._same[variable] = self._same.get(name, name)

    def note_reduction(self) -> None:
        self._reductions += 1

    @property
    def straight(self) -> bool:
        """Whether the text so far is in no loop, branch or helper that returns early."""
        return not self._inside

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """Control flow: what was known before is not used in it or after it."""
        self._forget()
        self._inside += 1
        yield
        self._inside -= 1
        self._forget()

    def _forget(self) -> None:
        self._made.clear()
        self._same.clear()

    def current(self, low: Lowering, held: Held) -> Held:
        """`held`, or the same tile made anew if that is better than to have kept it. To be asked just before the use."""
        recipe = self._made.get(self._resolved(held).name)
        if recipe is None or recipe.reductions == self._reductions or not self._worth(recipe):
            return held
        made = self._remake(low, recipe, {})
        self._same[held.name] = made.name
        return made

    def _worth(self, recipe: _Recipe) -> bool:
        """Whether all that is large in the recipe is narrow at its root."""
        if recipe.made.layout.registers < _FEWEST or SIZE[recipe.made.dtype] != 4:
            return False
        for argument in recipe.arguments:
            if isinstance(argument, str) or argument.name in self._light:
                continue
            inner = self._made.get(argument.name)
            if SIZE[argument.dtype] != 2 and (inner is None or not self._worth(inner)):
                return False
        return True

    def _remake(self, low: Lowering, recipe: _Recipe, opened: dict[str, str]) -> Held:
        names: list[str] = []
        for argument in recipe.arguments:
            if isinstance(argument, str):
                names.append(argument)
            elif argument.name in self._light:
                names.append(argument.name)
            elif SIZE[argument.dtype] == 2:
                if argument.name not in opened:
                    opened[argument.name] = _opaque(low, argument)
                names.append(opened[argument.name])
            else:
                names.append(self._remake(low, self._made[argument.name], opened).name)
        made = low.bind("t", f"{recipe.function}({', '.join(names)})", recipe.made.layout, recipe.made.dtype)
        self.note(recipe.function, recipe.arguments, made)
        return made


def _opaque(low: Lowering, held: Held) -> str:
    """The registers of a narrow tile by a way that no compiler sees through."""
    count = held.layout.registers

    def build(builder: ir.IRBuilder, args: Sequence[Sequence[Value]]) -> Sequence[Value]:
        values: list[Value] = []
        for first in range(0, count, 2):
            pair = pack(builder, args[0][first : first + 2])
            kept = call_asm(builder, "mov.b32 $0, $1;", pair.type, "=r,r", pair, effects=True)
            values += unpack(builder, kept, args[0][0].type, 2)
        return values

    name = low.out.intrinsic("again", (held.dtype, count), 1, (held.dtype, count), build)
    return low.bind("t", f"{name}({held.name})", held.layout, held.dtype).name
