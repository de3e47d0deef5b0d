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
    inside: dict[int, str] = {}

    def take(target: str, divisor: str, group: int = 1) -> None:
        """`target` is how often `divisor` goes into the number, in whole groups; what is left stays in the number."""
        if group == 1 and divisor == "1":
            lines.append(f"{target} = {number}")
            return
        whole = quotient(number, divisor) if group == 1 else f"{quotient(number, f'{group} * {divisor}')} * {group}"
        lines.append(f"{target} = {whole}")
        lines.append(f"{number} = {number} - {target} * {divisor}")

    for axis, group in enumerate(groups):
        take(f"{name}_f{axis}", " * ".join([*counts[axis + 1 :], *inside.values()]) or "1", group)
        # A group of one tile has one place inside, and needs no number for it.
        if group != 1:
            lines.append(f"{name}_i{axis} = min({group}, {counts[axis]} - {name}_f{axis})")
            inside[axis] = f"{name}_i{axis}"
    places: list[str] = []
    for axis in range(len(groups)):
        if axis in inside:
            take(f"{name}_o{axis}", " * ".join(i for other, i in inside.items() if other > axis) or "1")
            places.append(f"{name}_f{axis} + {name}_o{axis}")
        else:
            places.append(f"{name}_f{axis}")
    return lines, places
