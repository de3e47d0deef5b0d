"""What the prover found out about one SIMT kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilecheck.ir.kernel import Kernel
from tilecheck.verify.verdict import Answer, Property


@dataclass(frozen=True, slots=True)
class SimtReport:
    """One SIMT kernel after proof: a verdict per property, and what was assumed."""

    kernel: Kernel
    assumptions: tuple[str, ...] = ()
    verdicts: Mapping[Property, Answer] = field(default_factory=dict)
