"""What the tile checks found out about one kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilecheck.checked import Fault
from tilecheck.ir.kernel import Kernel, Node
from tilecheck.ir.types import Type
from tilecheck.verify.verdict import Answer, Property


@dataclass(frozen=True, slots=True)
class TileReport:
    """One tile kernel after type pass, borrow checks and bounds ladder; `types` gives the type of every expression."""

    kernel: Kernel
    types: Mapping[Node, Type] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()
    verdicts: Mapping[Property, Answer] = field(default_factory=dict)
