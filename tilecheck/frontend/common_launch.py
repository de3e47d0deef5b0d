"""What many launches of one kernel have in common, as one launch.

A fact that they do not share is not known of it, so that what is proved of it is proved of each of them. Arguments that
are on one buffer in some launches, or at other places of it, may share memory in ways that are not known.

Worked example: `k[1, 32](a[:64])` and `k[2, 32](a[:128])` have block (32, 1, 1) and an array of rank 1 in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from tilecheck.frontend.launches import Argument, Extents3, Launch
from tilecheck.ir.host_array import HostArray

Pair = tuple[str, str]
T = TypeVar("T")


def common_launch(launches: Sequence[Launch]) -> Launch:
    """The facts that all of `launches`, one at least, agree on; it stands where the first one stands."""
    first = launches[0]
    pairs = list(dict.fromkeys(pair for launch in launches for pair in (*launch.sharing(), *launch.entangled)))
    firm = [pair for pair in pairs if all(_alike(pair, first, launch) for launch in launches)]
    kept = {name for pair in firm for name in pair}
    arguments: dict[str, Argument] = {}
    for name, value in first.arguments.items():
        common = _argument([launch.arguments.get(name) for launch in launches])
        # The buffer of an array tells with which others it is shared.
        arguments[name] = value if name in kept else common
    return replace(
        first,
        grid=_extents([launch.grid for launch in launches]),
        block=_extents([launch.block for launch in launches]),
        dynamic_shared=_agreed([launch.dynamic_shared for launch in launches]),
        arguments=arguments,
        forall=_agreed([launch.forall for launch in launches]),
        entangled=tuple(pair for pair in pairs if pair not in firm),
        twins=(),
        ragged=tuple(dict.fromkeys(name for launch in launches for name in launch.ragged)),
        counted={name: left for launch in launches for name, left in launch.counted.items()},
    )


def _alike(pair: Pair, first: Launch, other: Launch) -> bool:
    """Whether a pair is on one buffer in both launches, in the same windows of it."""
    if pair not in first.sharing() or pair not in other.sharing():
        return False
    for name in pair:
        one, two = first.arguments.get(name), other.arguments.get(name)
        if not (isinstance(one, HostArray) and isinstance(two, HostArray)):
            return False
        if replace(one, buffer=0, contents=None) != replace(two, buffer=0, contents=None):
            return False
        if one.contents != two.contents:
            return False
    return True


def _argument(values: Sequence[Argument]) -> Argument:
    first = values[0]
    arrays = [value for value in values if isinstance(value, HostArray)]
    if len(arrays) < len(values):
        same = all(type(value) is type(first) and repr(value) == repr(first) for value in values)
        return first if same and not arrays else None
    ranks = {len(array.shape) if array.shape is not None else None for array in arrays}
    shape = None
    if len(ranks) == 1 and None not in ranks:
        shape = tuple(_agreed(list(extents)) for extents in zip(*(array.shape or () for array in arrays), strict=True))
    contents = arrays[0].contents if all(array.contents == arrays[0].contents for array in arrays) else None
    host = all(array.host for array in arrays)
    return HostArray(shape, _agreed([array.dtype for array in arrays]), contents, host)


def _extents(all_of_them: Sequence[Extents3]) -> Extents3:
    x, y, z = (_agreed(list(extents)) for extents in zip(*all_of_them, strict=True))
    return (x, y, z)


def _agreed(values: Sequence[T | None]) -> T | None:
    return values[0] if all(value == values[0] for value in values) else None
