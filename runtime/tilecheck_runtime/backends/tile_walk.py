"""The walk of a mapped partition as text, for both code generators.

It is `tilecheck.interp.schedule.position`, spelled out with the map's groups as constants: the streamed tiles are numbered
group by group, and number `q` is the tile whose coordinates the lines compute. `//`, `*`, `-` and `min` alone, so any
backend can say it; one that has a cheaper quotient of such numbers says how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def _quotient(number: str, divisor: str) -> str:
    return f"{number} // ({divisor})"


def walk_lines(
    name: str,
    number: str,
    counts: Sequence[str],
    groups: Sequence[int],
    quotient: Callable[[str, str], str] = _quotient,
) -> tuple[list[str], list[str]]:
    """Lines that turn `number` (a variable, consumed) into coordinates, and the coordinates as text. `counts` are the
    tiles per streamed axis, `name` begins every variable.
    """
    lines: list[str] = []
    inside: list[str] = []
    for axis, group in enumerate(groups):
        rest = " * ".join([*counts[axis + 1 :], *inside]) or "1"
        lines.append(f"{name}_f{axis} = {quotient(number, f'{group} * {rest}')} * {group}")
        lines.append(f"{number} = {number} - {name}_f{axis} * {rest}")
        lines.append(f"{name}_i{axis} = min({group}, {counts[axis]} - {name}_f{axis})")
        inside.append(f"{name}_i{axis}")
    places: list[str] = []
    for axis in range(len(groups)):
        rest = " * ".join(inside[axis + 1 :]) or "1"
        lines.append(f"{name}_o{axis} = {quotient(number, rest)}")
        lines.append(f"{number} = {number} - {name}_o{axis} * ({rest})")
        places.append(f"{name}_f{axis} + {name}_o{axis}")
    return lines, places
