"""Element accesses of the walk: positions through views, recorded accesses, and what a load may return.

numba wraps a negative index once and checks nothing else, so the address of `a[i]` is `i + n` for negative `i`; the
bounds check still asks for `0 <= i < n`, except for a literal negative index, which means "from the end".

What a load returns: from an array that the kernel never writes, a function of the index that all threads share; from a
written array that this thread has not touched since its last barrier, a function of the index that the block shares
(true if the array is free of races, which is why barrier uniformity then leans on that proof); else anything, and so
under a lock, where others wrote before and will write after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilecheck.ir.kernel import For, Node, While
from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_symbols import bound_by, give_fact
from tilecheck.symbolic.smt_terms import FALSE, ONE, ZERO, add, conj, div, ge0, ite, lt, mod, mul, num, sub
from tilecheck.verify import told
from tilecheck.verify.known import loads_of
from tilecheck.verify.run import LARGEST_ARRAY, Run, State
from tilecheck.verify.values import (
    Access,
    Array,
    Axis,
    Check,
    Fixed,
    Kind,
    Scalar,
    Stretch,
    Unknown,
    Value,
    View,
    as_int,
    merge,
    views,
)
from tilecheck.verify.widths import integer_range


@dataclass(frozen=True, slots=True)
class Cut:
    """An evaluated slice of an index."""

    start: Term | None
    stop: Term | None
    step: int


@dataclass(frozen=True, slots=True)
class FromEnd:
    """A position written as a negative literal, `x[-1]`: it is meant to count from the end."""

    at: Term


Position = Value | Cut | FromEnd


def place(view: View, positions: Sequence[Position], *, wraps: bool = True) -> tuple[View, tuple[Check, ...]] | None:
    """`view[positions]` and the checks it needs; None if there are more positions than axes or one is no integer.

    `wraps` is off for cuTile, which counts nothing from the end.
    """
    if len(positions) > len(view.free):
        return None
    if view.folded is not None:
        return _unfolded(view, view.folded, positions)
    axes = list(view.axes)
    checks: list[Check] = []
    stretches = [at for at, axis in enumerate(axes) if isinstance(axis, Stretch)]
    for at, position in zip(reversed(stretches) if view.turned else stretches, positions, strict=False):
        axis = axes[at]
        assert isinstance(axis, Stretch)
        if isinstance(position, Cut):
            axes[at] = _cut(axis, position)
            continue
        found = _counted(position, axis.length, checks, wraps=wraps)
        if found is None:
            return None
        axes[at] = Fixed(add(axis.start, mul(axis.step, found)))
    return View(view.array, tuple(axes), view.turned), tuple(checks)


def _counted(position: Value | FromEnd, length: Term, checks: list[Check], *, wraps: bool) -> Term | None:
    """A position counted from the start, after the check that it needs; None if it is no integer."""
    if isinstance(position, FromEnd):
        at = add(length, position.at)
        checks.append(Check(at, length, True))
        return at
    wanted = as_int(position)
    if wanted is None:
        return None
    checks.append(Check(wanted, length))
    return ite(ge0(wanted), wanted, add(wanted, length)) if wraps and (wanted.low is None or wanted.low < 0) else wanted


def _unfolded(
    view: View, extents: Sequence[Term], positions: Sequence[Position]
) -> tuple[View, tuple[Check, ...]] | None:
    """One element of a folded view, by its place in the order of the array's elements."""
    if len(positions) != len(extents):
        return None
    checks: list[Check] = []
    place = ZERO
    for position, extent in zip(positions, extents, strict=True):
        found = None if isinstance(position, Cut) else _counted(position, extent, checks, wraps=True)
        if found is None:
            return None
        place = add(mul(place, extent), found)
    axes: list[Axis] = []
    for extent in reversed(view.array.extents[1:]):
        axes.insert(0, Fixed(mod(place, extent)))
        place = div(place, extent)
    return View(view.array, (Fixed(place), *axes)), tuple(checks)


def _cut(axis: Stretch, cut: Cut) -> Stretch:
    start = cut.start if cut.start is not None else (ZERO if cut.step > 0 else sub(axis.length, ONE))
    stop = cut.stop if cut.stop is not None else (axis.length if cut.step > 0 else num(-1))
    if cut.start is not None:
        start = _clamped(start, axis.length, down=cut.step < 0)
    if cut.stop is not None:
        stop = _clamped(stop, axis.length, down=cut.step < 0)
    span = sub(stop, start) if cut.step > 0 else sub(start, stop)
    length = div(add(span, num(abs(cut.step) - 1)), num(abs(cut.step)))
    if length.low is None or length.low < 0:
        length = ite(ge0(length), length, ZERO)
    return Stretch(add(axis.start, mul(axis.step, start)), mul(axis.step, num(cut.step)), length)


def _clamped(bound: Term, length: Term, *, down: bool) -> Term:
    """A slice bound as Python reads it: counted from the end if negative, then kept in [0, length], or in
    [-1, length - 1] where the step goes down.
    """
    least, most = (num(-1), sub(length, ONE)) if down else (ZERO, length)
    at = bound if bound.low is not None and bound.low >= 0 else ite(ge0(bound), bound, add(bound, length))
    if at.low is None or at.low < 0:
        at = ite(ge0(at), at, least)
    if at.high is not None and most.low is not None and at.high <= most.low:
        return at
    return ite(lt(most, at), most, at)


def record(
    run: Run,
    state: State,
    target: Value,
    positions: Sequence[Position],
    kind: str,
    node: Node,
    value: Value | None = None,
    member: str | None = None,
    update: bool = False,
    op: str = "",
    operands: Sequence[Value] = (),
) -> Access | None:
    """Note an access of every element that `target[positions]` names; the last one noted is returned."""
    made: Access | None = None
    options = views(target)
    if not options:
        run.gap("the array of this access is not known", node, *run.usage.at_stake)
        return None
    for cond, view in options:
        if kind != "read":
            state.dirty = state.dirty | {view.array}
            told.written(state, view.array)
        guard = conj(state.guard, cond) if cond is not None else state.guard
        if guard is FALSE or not run.recording:
            continue
        placed = place(view, positions, wraps=run.wraps)
        if placed is None:
            run.gap(f"the index of `{view.array.name}` could not be followed", node, array=view.array)
            continue
        if run.only_tags is not None and not any(run.only_tags & tags.keys() for tags in state.tags.values()):
            continue
        index, checks = [], placed[1]
        for axis in placed[0].axes:
            if isinstance(axis, Fixed):
                index.append(axis.at)
            else:
                element = run.symbols.fresh("element", Level.THREAD, low=0)
                give_fact(element, lt(element, axis.length))
                index.append(add(axis.start, mul(axis.step, element)))
        made = Access(
            view.array,
            tuple(index),
            "read" if kind == "read" else "atomic" if kind == "atomic" else "write",
            guard,
            node,
            {level: dict(tags) for level, tags in state.tags.items()},
            len(run.accesses),
            value,
            checks,
            member,
            update,
            run.only_tags is not None,
            run.barrier_loops,
            op,
            run.uses_fence,
            state.locks,
            tuple(operands),
            run.generic_loops > 0,
        )
        run.accesses.append(made)
    return made


def load(run: Run, state: State, target: Value, positions: Sequence[Position], member: str | None = None) -> Value:
    """What `target[positions]` may be."""
    result: Value | None = None
    for cond, view in views(target):
        value = _load(run, state, view, positions, member)
        result = value if result is None or cond is None else merge(cond, value, result)
    return result if result is not None else Unknown("a load from an unknown array")


def _load(run: Run, state: State, view: View, positions: Sequence[Position], member: str | None) -> Value:
    array = view.array
    placed = place(view, positions, wraps=run.wraps)
    if placed is None:
        return Unknown("a load at an unknown index")
    if placed[0].free:
        return placed[0]
    index = tuple(axis.at for axis in placed[0].axes if isinstance(axis, Fixed))
    bounds = integer_range(array.dtype) if member is None else None
    kind = Kind.INT if bounds is not None or array.whole_numbers else Kind.FLOAT
    low, high = bounds or (None, None)
    if bounds is not None and high is None:
        low, high = INT64 if low is None else (0, 2**64 - 1)
    name = f"{array.name}.{member}" if member is not None else array.name
    if array.space != "local" and (not array.written or array.space == "const"):
        term = run.symbols.apply(f"load {name}", Level.GRID, index, Taint.DATA, low, high, label=f"{name}[..]")
        known = run.known.get(loads_of(array)) if kind is Kind.INT and member is None else None
        if known is not None:
            known.say(term, index)
    elif array.space != "local" and array not in state.dirty and not state.locks:
        function = f"load {name} at {state.version}"
        term = run.symbols.apply(function, Level.BLOCK, index, Taint.DATA, low, high, label=f"{name}[..]")
        if member is None and kind is Kind.INT:
            term = told.read(run, state, array, index, term)
    else:
        term = run.symbols.fresh(f"{name}[..]", Level.THREAD, Taint.DATA, low, high)
    return Scalar(term, kind)


def written_arrays(run: Run, loop: For | While) -> frozenset[Array]:
    """The arrays that a loop may write."""
    names = run.usage.writes(loop.body)
    return frozenset(array for name, array in run.arrays.items() if name in names or array.name in names)


def array_parameter(run: Run, name: str, rank: int, shape: tuple[int | None, ...] | None) -> Array:
    """A parameter's array: extents as far as the launch shows them, else symbols of at least one."""
    extents: list[Term] = []
    for axis in range(rank):
        known = shape[axis] if shape is not None and axis < len(shape) else None
        if known is not None:
            extents.append(num(known))
        else:
            label = f"{name}.size" if rank == 1 else f"{name}.shape[{axis}]"
            extents.append(run.symbols.fresh(label, Level.GRID, Taint.INPUT, 1, LARGEST_ARRAY))
    return Array(name, "global", tuple(extents))


def captured_array(run: Run, name: str) -> Array:
    """An array of the enclosing Python scope that the kernel captures: of its extents nothing is known."""
    known = run.arrays.get(name)
    if known is not None:
        return known
    rank = run.usage.local_rank(name)
    labels = [f"{name}.size"] if rank == 1 else [f"{name}.shape[{axis}]" for axis in range(rank)]
    extents = [run.symbols.fresh(label, Level.GRID, Taint.HAVOC, 0) for label in labels]
    made = Array(name, "global", tuple(extents), written=name in run.usage.written)
    made.whole_numbers = name in run.usage.whole_numbers
    run.arrays[name] = made
    return made


def counter(run: Run, label: str, level: Level, low: Term, high: Term) -> Term:
    """A symbol in [low, high)."""
    made = run.symbols.fresh(label, level, Taint.NONE, low.low)
    bound_by(made, low=low, high=sub(high, ONE))
    return made
