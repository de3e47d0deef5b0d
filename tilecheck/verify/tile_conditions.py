"""Launch conditions: what the checks left to the host, as data that is evaluated at every launch.

A condition is a comparison of polynomials over extents, scalars, Dims and the grid, with guards (conditions of the
branches and loops around the access) that say when it matters, and words with the values to fill in. It fails closed: an
operand without a value refuses the launch.

    LaunchCondition("out-of-bounds", goal=gridDim.x <= ceil(x.shape[0] / BM), ...)
        .evaluate({"x": (56,)}, {}, {"BM": 8}, (8, 1, 1))
    -> Refusal("out-of-bounds", "the grid has 8 blocks on axis 0, `x` has 7 tiles of 8 there", ...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilecheck.ir.types import ArrayExtent, DimExtent
from tilecheck.symbolic.linear import Atom, LaunchAxis, Poly, Scalar, Size, Unresolved
from tilecheck.symbolic.requires import Comparison


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a launch is refused: the rule, the message and the way out."""

    rule: str
    message: str
    help: str | None = None


@dataclass(frozen=True, slots=True)
class LaunchCondition:
    """`goal` must hold at a launch where all `guards` do. `message` and `help` have `{0}`, `{1}`, ... for `values`."""

    rule: str
    kernel: str
    line: int
    goal: Comparison
    message: str
    help: str | None = None
    values: tuple[Poly, ...] = ()
    guards: tuple[Comparison, ...] = ()

    @property
    def text(self) -> str:
        """The condition in the grammar of `requires`, as reports list it."""
        return self.goal.text

    def evaluate(
        self,
        shapes: Mapping[str, Sequence[int]],
        scalars: Mapping[str, object],
        dims: Mapping[str, int],
        grid: Sequence[int],
    ) -> Refusal | None:
        """None if the launch may go on. `dims` are by key, `grid` has up to three extents."""
        value = resolver(shapes, scalars, dims, grid)
        if not all(_may_hold(guard, value) for guard in self.guards):
            return None
        try:
            if self.goal.holds(value):
                return None
            numbers = [poly.evaluate(value) for poly in self.values]
        except Unresolved as missing:
            message = f"a condition of `{self.kernel}` cannot be checked, `{self.text}`: {missing}"
            return Refusal("launch-contract", message, "pass every argument that the kernel declares")
        return self._refusal(numbers)

    def surely_broken(self, value: Callable[[Atom], int]) -> Refusal | None:
        """The refusal if all that it takes is known and the launch breaks the condition: a launch that a file shows."""
        try:
            if not all(guard.holds(value) for guard in self.guards) or self.goal.holds(value):
                return None
            return self._refusal([poly.evaluate(value) for poly in self.values])
        except Unresolved:
            return None

    def _refusal(self, numbers: Sequence[int]) -> Refusal:
        help = None if self.help is None else self.help.format(*numbers)
        return Refusal(self.rule, f"`{self.kernel}`: {self.message.format(*numbers)}", help)


def _may_hold(guard: Comparison, value: Callable[[Atom], int]) -> bool:
    """Whether a guard holds, or might."""
    try:
        return guard.holds(value)
    except Unresolved:
        return True


def resolver(
    shapes: Mapping[str, Sequence[int]],
    scalars: Mapping[str, object],
    dims: Mapping[str, int],
    grid: Sequence[int],
) -> Callable[[Atom], int]:
    """The values of a launch, by atom; `Unresolved` for one that it does not give."""

    def value(atom: Atom) -> int:
        match atom:
            case Scalar(name=name) if isinstance(given := scalars.get(name), int):
                return int(given)
            case DimExtent(key=key) if key in dims:
                return dims[key]
            case ArrayExtent(array=array, axis=axis) if array in shapes and axis < len(shapes[array]):
                return shapes[array][axis]
            case Size(array=array) if array in shapes:
                return prod(shapes[array])
            case LaunchAxis(kind="gridDim", axis=axis):
                return grid[axis] if axis < len(grid) else 1
        raise Unresolved(f"`{atom}` is not known at this launch")

    return value


def host_known(poly: Poly) -> bool:
    """Whether the launch knows every operand: scalars, extents, Dims and the grid."""
    return all(
        isinstance(a, Scalar | DimExtent | ArrayExtent | Size)
        or (isinstance(a, LaunchAxis) and a.kind == "gridDim")
        or not _leaf(a)
        for a in poly.atoms()
    )


def _leaf(atom: Atom) -> bool:
    return not hasattr(atom, "left")


def host_comparisons(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Those that a launch can decide, each once."""
    return tuple(dict.fromkeys(c for c in comparisons if host_known(c.left) and host_known(c.right)))
