"""What the host borrow checker found out about one file."""

from __future__ import annotations

from dataclasses import dataclass

from tilecheck.checked import Fault


@dataclass(frozen=True, slots=True)
class HostReport:
    """The broken loans and contracts of one file's host code."""

    faults: tuple[Fault, ...] = ()
