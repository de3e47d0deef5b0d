"""Launch hints: what a kernel may tell its compiler about speed.

A hint never changes a result, so a backend that has no use for one ignores it. The table is the only list of them: the
kernel object, the specialisation key, the tuner and the compiler read it.

    >>> refusal("num_ctas", 3)
    '`num_ctas=3` is not a power of two from 1 to 16: blocks per cluster'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Hint:
    """What a hint is, and the values it takes: `low` to `high`, powers of two if `doubling`."""

    meaning: str
    low: int
    high: int
    doubling: bool = False

    @property
    def range(self) -> str:
        """The allowed values in words."""
        return f"{'a power of two' if self.doubling else 'an int'} from {self.low} to {self.high}"

    def takes(self, value: object) -> bool:
        """Whether `value` is allowed."""
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            return False
        return not self.doubling or value & (value - 1) == 0


HINTS: Final = {
    "num_ctas": Hint("blocks per cluster", 1, 16, doubling=True),
    "occupancy": Hint("blocks that a multiprocessor is expected to hold at once", 1, 32),
    "num_worker_warps": Hint("warps that compute, beside those that move data", 1, 32, doubling=True),
    "num_warps": Hint("warps of a block, heeded by numba-cuda where nothing is multiplied", 1, 32, doubling=True),
    "latency": Hint("how far loads run ahead of their use, 1 for little memory traffic", 1, 10),
}


def refusal(name: str, value: object) -> str | None:
    """Why `name=value` is no hint, None if it is one."""
    hint = HINTS.get(name)
    if hint is None:
        return f"there is no hint `{name}`, the hints are {', '.join(f'`{n}`' for n in HINTS)}"
    return None if hint.takes(value) else f"`{name}={value!r}` is not {hint.range}: {hint.meaning}"
