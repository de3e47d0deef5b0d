"""Launch facts: what host code shows of each `kernel[grid, block](...)`.

A `Launch` holds grid, block, dynamic shared bytes and the arguments as far as `frontend.launch_run` could follow the host
code; what it could not follow is None. Facts are never guesses: an extent that depends on input is None.

Worked example: `d = cuda.to_device(np.zeros(60)); k[2, 32](d[1:], d[:-1], 5)` gives grid (2, 1, 1), block (32, 1, 1),
two arrays of 59 float64 on one buffer at offsets 1 and 0, whose `overlap` is True, and the scalar 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.kernel_counters import Left, left_by
from tilecheck.frontend.launch_effects import arrays_in
from tilecheck.frontend.launch_objects import Seen
from tilecheck.frontend.launch_run import HostRun
from tilecheck.frontend.numba import Found, decorated, find, lower
from tilecheck.frontend.scopes import UNKNOWN, FunctionValue, Resolve, parameters
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import Derived, HostArray, Stranger

Extents3 = tuple[int | None, int | None, int | None]
Argument = HostArray | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of the kernel whose name stands at `kernel`, made at `span` by the host function `host`.

    `grid` and `block` are in x, y, z; an entry, or all of it, is None where it is not known. An argument is a
    `HostArray`, a number, or None. `dynamic_shared` is in bytes. `forall` is the task count of `kernel.forall(n)`.
    `entangled` pairs arguments that may share memory in ways that are not known; a pair of one name with itself is an
    array whose elements may share memory with one another. `ragged` arguments hold several arrays, whose shapes are not
    known to be one. `twins` pairs those that are one and the same unknown thing.
    `exact` are outputs passed as partitions all of whose tiles the grid covers.
    `counted` are arrays that hold what earlier launches have counted in them.
    """

    kernel: Span
    span: Span
    host: str | None
    grid: Extents3
    block: Extents3
    dynamic_shared: int | None = 0
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    forall: int | None = None
    entangled: tuple[tuple[str, str], ...] = ()
    twins: tuple[tuple[str, str], ...] = ()
    exact: tuple[str, ...] = ()
    counted: Mapping[str, Left] = field(default_factory=dict)
    ragged: tuple[str, ...] = ()

    def arrays(self) -> dict[str, HostArray]:
        """The arguments that are arrays."""
        return {name: value for name, value in self.arguments.items() if isinstance(value, HostArray)}

    def sharing(self) -> tuple[tuple[str, str], ...]:
        """The pairs of arguments that are known to be on one buffer of the device."""
        listed = [(name, value.buffer) for name, value in self.arrays().items() if not value.host]
        pairs = [(a, b) for at, (a, one) in enumerate(listed) for b, two in listed[at + 1 :] if one == two]
        return (*pairs, *self.twins)


def read_launches(source: Source, resolve: Resolve) -> tuple[Launch, ...]:
    """The launches that `source` makes, of its own kernels and of imported ones, in the order of the text, equal ones
    once.
    """
    return launches_of(source, resolve, find(source, resolve))


def launches_of(source: Source, resolve: Resolve, found: tuple[Found, ...]) -> tuple[Launch, ...]:
    """As `read_launches`, for jitted functions already found in `source`."""
    own = {item.function.node: item for item in found if not item.device}
    known: dict[cst.FunctionDef, Mapping[str, Left]] = {}

    def found_of(function: FunctionValue) -> Found | None:
        if function.scope.source is source:
            return own.get(function.node)
        made = decorated(function.scope, function.node)
        return next((item for item in made if not item.device), None)

    def kernel_of(function: FunctionValue) -> Mapping[str, object] | None:
        item = found_of(function)
        return None if item is None else item.options

    def left(function: FunctionValue) -> Mapping[str, Left]:
        if function.node not in known:
            item = found_of(function)
            known[function.node] = {} if item is None else left_by(lower(item))
        return known[function.node]

    return seen_launches(HostRun(source, resolve, kernel_of, left), source)


def seen_launches(run: HostRun, source: Source) -> tuple[Launch, ...]:
    """What a run of the host code of `source` launches, equal launches once."""
    launches: dict[tuple[object, ...], Launch] = {}
    for seen in run.everything():
        launch = _launch(seen, source)
        launches.setdefault(_facts(launch), launch)
    return tuple(sorted(launches.values(), key=lambda launch: launch.span))


def _facts(launch: Launch) -> tuple[object, ...]:
    """What makes two launches the same: all but the numbers of the buffers, whose sharing counts."""
    order: dict[int, int] = {}
    arguments: list[object] = []
    for name, value in launch.arguments.items():
        if isinstance(value, HostArray):
            place = order.setdefault(value.buffer, len(order))
            arguments.append(
                (name, value.shape, value.dtype, value.contents, value.host, place, value.offset, value.strides)
            )
        else:
            arguments.append((name, type(value), repr(value)))
    extents = (launch.grid, launch.block, launch.dynamic_shared)
    return (
        launch.kernel,
        launch.span,
        *extents,
        tuple(arguments),
        launch.entangled,
        launch.twins,
        launch.exact,
        (*launch.counted.items(),),
        launch.ragged,
    )


def _launch(seen: Seen, source: Source) -> Launch:
    function = seen.kernel
    names = [param.name.value for param in parameters(function.node)]
    arguments: dict[str, Argument] = dict.fromkeys(names)
    for name, value in zip(names, seen.arguments, strict=False):
        arguments[name] = value if isinstance(value, HostArray | int | float) else _stacked(value)
    grid, block = extents(seen.grid), extents(seen.block)
    if seen.forall is not UNKNOWN:
        grid, block = (None, 1, 1), (None, 1, 1)
    return Launch(
        kernel=function.scope.source.span(function.node.name),
        span=source.span(seen.call),
        host=seen.host,
        grid=grid,
        block=block,
        dynamic_shared=seen.dynamic if isinstance(seen.dynamic, int) else None,
        arguments=arguments,
        forall=seen.forall if isinstance(seen.forall, int) else None,
        entangled=_entangled(dict(zip(names, seen.arguments, strict=False))),
        twins=_twins(list(zip(names, seen.arguments, strict=False))),
        exact=tuple(name for at, name in enumerate(names) if at in seen.exact),
        counted=seen.counted,
        ragged=tuple(name for name, value in zip(names, seen.arguments, strict=False) if _is_ragged(value)),
    )


def _twins(arguments: list[tuple[str, object]]) -> tuple[tuple[str, str], ...]:
    """The pairs of arguments that are one value, of which it is not known what it is."""
    loose = [(name, value) for name, value in arguments if isinstance(value, Derived | Stranger)]
    return tuple((a, b) for at, (a, one) in enumerate(loose) for b, two in loose[at + 1 :] if one is two)


def _entangled(arguments: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """The pairs of arguments that may meet in memory by a way that was not followed."""
    reach = {name: {a.buffer for a in arrays_in(value) if not a.host} for name, value in arguments.items()}
    found = [(name, name) for name, value in arguments.items() if _meets_itself(value)]
    listed = list(arguments.items())
    for place, (name, value) in enumerate(listed):
        for other, with_value in listed[place + 1 :]:
            loose = isinstance(value, _LOOSE) or isinstance(with_value, _LOOSE)
            if (
                loose
                and value is not with_value
                and not _trade_places(value, with_value)
                and not reach[name].isdisjoint(reach[other])
            ):
                found.append((name, other))
    return tuple(found)


# What may hold several arrays.
_LOOSE = (Derived, Stranger, tuple, list)


def _stacked(value: object) -> HostArray | None:
    """A tuple of numbers, or of arrays of one shape, as the array that a kernel may take it for."""
    items = list(value) if isinstance(value, tuple | list) else []
    if items and all(isinstance(item, int | float) for item in items):
        return HostArray((len(items),))
    arrays = [item for item in items if isinstance(item, HostArray)]
    shape = arrays[0].shape if arrays else None
    if shape is None or len(arrays) < len(items) or any(array.shape != shape for array in arrays):
        return None
    dtype = arrays[0].dtype if all(array.dtype == arrays[0].dtype for array in arrays) else None
    return HostArray((len(items), *shape), dtype)


def _is_ragged(value: object) -> bool:
    return isinstance(value, tuple | list) and _stacked(value) is None and any(arrays_in(value))


def _meets_itself(value: object) -> bool:
    """Whether elements of one argument may share memory: those of a folded view, of a tuple that holds an array twice."""
    if isinstance(value, tuple | list):
        buffers = [array.buffer for item in value for array in arrays_in(item) if not array.host]
        return len(buffers) > len(set(buffers)) or any(_meets_itself(item) for item in value)
    return isinstance(value, Derived) and value.folded


def _trade_places(value: object, other: object) -> bool:
    """Whether the two hold different ones of the same arrays."""
    turns = [at.turn for at in (value, other) if isinstance(at, Derived) and at.turn is not None]
    return len(turns) == 2 and turns[0][0] is turns[1][0] and turns[0][1] != turns[1][1]


def extents(value: object) -> Extents3:
    """A grid or block argument as three extents; missing axes are 1."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (int(value), 1, 1)
    if isinstance(value, tuple | list) and 1 <= len(value) <= 3:
        read = [int(v) if isinstance(v, int | float) else None for v in value]
        x, y, z = [*read, 1, 1][:3]
        return (x, y, z)
    return (None, None, None)
