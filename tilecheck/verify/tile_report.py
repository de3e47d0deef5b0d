"""What the tile checks found out about one kernel: the data that rules, `explain`, interpreter and backends read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import Kernel, Node
from tilecheck.ir.types import Type
from tilecheck.verify.tile_asserts import HoistedCheck
from tilecheck.verify.tile_conditions import LaunchCondition
from tilecheck.verify.verdict import Answer, Property

# How an access is known to be in bounds, from the strongest; see `tile_goals`.
Rung = Literal["provenance", "static", "block-id", "declared", "launch", "hoisted", "in-place"]
# The rungs that leave an assert in the kernel.
CHECKED: tuple[Rung, ...] = ("hoisted", "in-place")


@dataclass(frozen=True, slots=True)
class ArrayAccess:
    """One axis of one access. `reason` says why a check stays in the kernel, where it does."""

    node: Node
    # Where findings about it stand: the access, or the call of a helper of another file.
    span: Span
    array: str
    axis: int
    rung: Rung
    reason: str = ""

    @property
    def line(self) -> int:
        return self.span.line


@dataclass(frozen=True, slots=True)
class MapUse:
    """A store or load of a `Mapped` tensor at an index whose `owned` axes `z.at` has set: the launch's map must leave
    exactly these `OWNED`.
    """

    array: str
    owned: tuple[int, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class TileReport:
    """One tile kernel after all checks. `kernel` is settled: branches that cannot run are gone; `types` gives the type of
    every expression that is reached and known.
    """

    kernel: Kernel
    types: Mapping[Node, Type] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    verdicts: Mapping[Property, Answer] = field(default_factory=dict)
    accesses: tuple[ArrayAccess, ...] = ()
    conditions: tuple[LaunchCondition, ...] = ()
    hoisted: Mapping[Node, tuple[HoistedCheck, ...]] = field(default_factory=dict)
    maps: tuple[MapUse, ...] = ()
