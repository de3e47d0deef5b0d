"""What a variable of a tile kernel may hold, and what happens where paths meet.

A variable holds a `Type`, or `UNKNOWN` (an earlier fault, or something that only the run knows), or a `Conflict`: paths
that meet here left different things. A conflict is no fault until somebody reads the variable, so a name that is reused
for something else on two branches, and not read afterwards, costs nothing.

    if far:                     acc: Tile[f32, BM]    join of Tile[f32, BM] and Tile[f16, BM]:
        acc = acc.astype(f16)                          Conflict("dtype-mismatch", ...), reported at the next read of `acc`

Invariant: `join` is commutative up to words, idempotent, and only moves up: UNKNOWN -> Type -> Type with fewer facts
(constant value forgotten, void axes added) -> Conflict. So the passes over loops end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilecheck.ir.types import IndexType, ScalarType, SubTilesType, TensorType, TileType, TupleType, Type, ViewType
from tilecheck.ops.extents import show, voids


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known, and nothing more is to be said."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Paths that meet left different things; the words are those of the fault at the next read."""

    rule: str
    message: str
    help: str | None = None


UNKNOWN = Unknown()
# What an expression gives; what a variable holds.
Known = Type | Unknown
Held = Known | Conflict
Env = dict[str, Held]


def unassigned(name: str) -> Conflict:
    """A variable that some path leaves without a value."""
    shown = spoken(name)
    return Conflict(
        "usage", f"`{shown}` is not assigned on every path to here", f"assign `{shown}` before the branch or loop"
    )


def spoken(name: str) -> str:
    """A cell as its user knows it: without the prefixes of inlined helpers."""
    return name.rpartition(".")[2].partition("$")[0]


def join_envs(a: Env | None, b: Env | None) -> Env | None:
    """What holds where two paths meet; None is a path that does not get there."""
    if a is None or b is None:
        return b if a is None else a
    if a is b:
        return a
    joined: Env = {}
    for name in {**a, **b}:
        joined[name] = join(name, a[name], b[name]) if name in a and name in b else unassigned(name)
    return joined


def join(name: str, a: Held, b: Held) -> Held:
    """What a variable holds after either of two paths."""
    if a == b:
        return a
    if isinstance(a, Unknown) or isinstance(b, Unknown):
        known = b if isinstance(a, Unknown) else a
        # The fault behind an unknown value is reported already; what the other path says is the best guess, constants apart.
        return ScalarType(known.kind) if isinstance(known, ScalarType) else known
    if isinstance(a, Conflict):
        return a
    if isinstance(b, Conflict):
        return b
    shown = spoken(name)
    match a, b:
        case ScalarType(), ScalarType() if a.kind == b.kind:
            return ScalarType(a.kind)
        case ScalarType(), ScalarType():
            return Conflict(
                "dtype-mismatch",
                f"`{shown}` is {_article(a.kind)} on one path and {_article(b.kind)} on another",
                "convert one with `int`, `float` or `bool`",
            )
        case TileType(), TileType() if a.dtype is not b.dtype:
            return Conflict(
                "dtype-mismatch",
                f"`{shown}` is a `{a.dtype.name}` tile on one path and a `{b.dtype.name}` tile on another",
                f"convert one with `.astype(tc.{a.dtype.name})`",
            )
        case TileType(), TileType() if a.shape != b.shape:
            return Conflict(
                "shape-mismatch",
                f"`{shown}` has shape {show(a.shape)} on one path and {show(b.shape)} on another",
                "give the tiles one shape",
            )
        case TileType(), TileType():
            return replace(a, void=voids(*a.void, *b.void))
        case TupleType(), TupleType() if len(a.items) == len(b.items):
            items = tuple(join(name, x, y) for x, y in zip(a.items, b.items, strict=True))
            broken = next((i for i in items if isinstance(i, Conflict | Unknown)), None)
            return broken if broken is not None else TupleType(items)  # type: ignore[arg-type]
        case ViewType(), ViewType() if a.array != b.array:
            message = f"`{shown}` is a view of `{a.array}` on one path and of `{b.array}` on another"
            return Conflict("unsupported", message, "load the tile in each branch, and join the tiles")
        case ((ViewType() | SubTilesType() | TensorType() | IndexType()), _):
            message = f"`{shown}` means different views, tensors or indices on two paths"
            return Conflict("unsupported", message, "use two names, or load the tile in each branch")
        case _:
            message = f"`{shown}` holds different kinds of values on two paths"
            return Conflict("unsupported", message, "use two names")


def _article(kind: str) -> str:
    return "an int" if kind == "int" else f"a {kind}"
