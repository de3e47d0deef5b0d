"""From a kernel and a launch to the start of a walk: what is known, what is assumed.

With a launch that host code shows, its grid, block, extents, scalars and shared buffers are constants of the walk. For
the rest, and without a launch, the standing assumptions hold: axes that the kernel does not use have extent 1, a kernel
that asks for no block index has one block, array parameters are distinct and not empty. They are listed, and enforced by
launches through us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilecheck.frontend.kernel_counters import Left
from tilecheck.frontend.launches import Launch
from tilecheck.ir.host_array import HostArray, overlap
from tilecheck.ir.kernel import Kernel, ScalarParam, TensorParam
from tilecheck.ir.simt import Barrier, BarrierValue, Warp
from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.requires import element_facts
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_solver import Solver
from tilecheck.symbolic.smt_symbols import Symbols, give_fact
from tilecheck.symbolic.smt_terms import TRUE, add, le, lt, mul, num
from tilecheck.verify.contract import Contract
from tilecheck.verify.expressions import constant
from tilecheck.verify.known import loads_of, shown
from tilecheck.verify.memory import array_parameter
from tilecheck.verify.run import AXES, Dims, Run, State, start_tags
from tilecheck.verify.usage import Usage
from tilecheck.verify.values import Array, Kind, Scalar, Stretch, Truth, Value, View, whole
from tilecheck.verify.verdict import NOT_EMPTY, Property
from tilecheck.verify.widths import integer_range

_LONG = {"f": "float", "i": "int", "u": "uint", "bf": "bfloat"}


@dataclass(frozen=True)
class Entry:
    """A walk about to start: `assumptions` in words, `arguments` the parameters' values, `scalars` the terms of scalar
    parameters, `single` a kernel that uses no thread or block index, `required` what the contract says of a launch.
    """

    run: Run
    state: State
    assumptions: tuple[str, ...]
    arguments: Mapping[str, Value]
    scalars: Mapping[str, Term] = field(default_factory=dict)
    single: bool = False
    required: tuple[Term, ...] = ()


def enter(
    kernel: Kernel,
    usage: Usage,
    solver: Solver,
    launch: Launch | None,
    contents: bool = False,
    lone_threads: bool = False,
) -> Entry:
    """Set up the walk of `kernel` under `launch` (None: any launch that the kernel is made for); with `contents` what the
    launch shows of array elements counts too, with `lone_threads` blocks are one thread where nothing says otherwise.
    """
    symbols = Symbols()
    grid, block, assumptions, single = _extents(kernel, usage, launch)
    if lone_threads:
        block = [1 if extent is None else extent for extent in block]
    dims = Dims(symbols, tuple(grid), tuple(block))
    shared = kernel.options.get("shared")
    dynamic = launch.dynamic_shared if launch is not None else shared if isinstance(shared, int) else None
    run = Run(kernel, usage, dims, symbols, solver, dynamic)
    if launch is not None and launch.forall is not None:
        _cover(dims, launch.forall)
    env: dict[str, Value] = {}
    scalars: dict[str, Term] = {}
    given = dict(launch.arguments) if launch is not None else {}
    arrays = [p for p in kernel.params if isinstance(p, TensorParam)]
    for param in arrays:
        value = given.get(param.name)
        env[param.name] = _array(run, usage, param, value if isinstance(value, HostArray) else None)
    if launch is not None:
        _share_buffers(run, env, launch)
        _show_starts(run, launch)
    if len(arrays) > 1 and (launch is None or any(given.get(p.name) is None for p in arrays)):
        assumptions.append("array arguments do not overlap")
    if arrays and any(t.kind != "const" for p in arrays for t in run.arrays[p.name].extents):
        assumptions.append(NOT_EMPTY)
    if kernel.track == "cutile":
        assumptions.append("index arithmetic stays within the bits that cuTile gives it")
    if arrays and usage.captured:
        assumptions.append("captured arrays do not overlap array arguments")
    for scalar in kernel.params:
        if isinstance(scalar, ScalarParam):
            env[scalar.name] = _scalar(run, usage, scalar, given.get(scalar.name), scalars)
    if launch is not None and contents:
        _show_contents(run, env, launch)
    contract = Contract(symbols, dims, env, scalars)
    stated = (*contract.impose(kernel), *contract.contents(run, element_facts(kernel)))
    assumptions += [f"{text} (the kernel's contract)" for text in stated]
    return Entry(
        run, State(env, (), TRUE, start_tags()), tuple(assumptions), dict(env), scalars, single, tuple(contract.facts)
    )


def _extents(
    kernel: Kernel, usage: Usage, launch: Launch | None
) -> tuple[list[int | None], list[int | None], list[str], bool]:
    grid: list[int | None] = [None, None, None]
    block: list[int | None] = [None, None, None]
    if launch is not None:
        grid, block = list(launch.grid), list(launch.block)
    contract = kernel.options.get("block")
    if isinstance(contract, int):
        block = [contract, 1, 1]
    elif isinstance(contract, tuple) and all(isinstance(extent, int) for extent in contract):
        block = [*contract, 1, 1][:3]
    assumptions: list[str] = []
    used = usage.axes
    asks = any(kind in ("threadIdx", "blockIdx", "laneid", "gridDim", "blockDim") for kind, _ in used)
    single = not asks and not any(isinstance(node, Barrier | BarrierValue | Warp) for node in usage.nodes)
    any_block = any(kind in ("blockIdx", "gridDim") for kind, _ in used)
    # `laneid` goes along x first.
    threads = {axis for kind, axis in used if kind in ("threadIdx", "blockDim")} | {"x"}
    blocks = {axis for kind, axis in used if kind in ("blockIdx", "gridDim")} or {"x"}
    for i, axis in enumerate(AXES):
        if block[i] is None and (single or axis not in threads):
            block[i] = 1
            assumptions.append(f"blockDim.{axis} == 1")
        if grid[i] is None and (single or axis not in blocks or not any_block):
            grid[i] = 1
            assumptions.append(f"gridDim.{axis} == 1")
    return grid, block, assumptions, single


def made_for_lone_threads(kernel: Kernel, usage: Usage) -> bool:
    """Whether a kernel tells blocks apart and not their threads, so that it is made for blocks of one thread."""
    kinds = {kind for kind, _ in usage.axes}
    apart = bool(kinds & {"blockIdx", "gridDim"}) and not kinds & {"threadIdx", "blockDim", "laneid"}
    meets = any(isinstance(node, Barrier | BarrierValue | Warp) for node in usage.nodes)
    return apart and not meets and kernel.options.get("block") is None


def _cover(dims: Dims, tasks: int) -> None:
    """`kernel.forall(tasks)` takes the fewest blocks that cover all tasks."""
    threads = mul(dims.grid[0], dims.block[0])
    for extent in (dims.grid[0], dims.block[0]):
        if extent.symbol is not None:
            give_fact(extent, le(num(tasks), threads))
            give_fact(extent, lt(add(threads, mul(num(-1), dims.block[0])), num(tasks)))


def long_dtype(name: str | None) -> str | None:
    """`float32` of `f32`; long names stay."""
    if name is None:
        return None
    letters = name.rstrip("0123456789")
    return f"{_LONG[letters]}{name[len(letters) :]}" if letters in _LONG and letters != name else name


def _array(run: Run, usage: Usage, param: TensorParam, seen: HostArray | None) -> View:
    rank = usage.ranks.get(param.name, 1)
    shape = seen.shape if seen is not None else None
    if shape is not None:
        rank = len(shape)
    array = array_parameter(run, param.name, rank, shape)
    array.dtype = seen.dtype if seen is not None and seen.dtype is not None else long_dtype(param.dtype)
    array.written = param.name in usage.written
    array.whole_numbers = param.name in usage.whole_numbers
    run.arrays[param.name] = array
    return whole(array)


def _scalar(run: Run, usage: Usage, param: ScalarParam, value: object, scalars: dict[str, Term]) -> Value:
    if isinstance(value, bool):
        return Truth(TRUE) if value else constant(run, False)
    if isinstance(value, int | float):
        return constant(run, value)
    if param.kind == "bool":
        term = run.symbols.fresh(param.name, Level.GRID, Taint.INPUT, boolean=True)
        return Truth(term)
    if param.kind == "float" or (param.kind is None and param.name not in usage.whole_numbers):
        return Scalar(run.symbols.fresh(param.name, Level.GRID, Taint.INPUT), Kind.FLOAT)
    positive = run.kernel.options.get("positive", ())
    low, high = integer_range(param.dtype) or INT64
    least = INT64[0] if low is None else low
    if isinstance(positive, tuple) and param.name in positive:
        least = 1
    most = INT64[1] if high is None else high
    term = run.symbols.fresh(param.name, Level.GRID, Taint.INPUT, least, most)
    scalars[param.name] = term
    return Scalar(term)


def _show_starts(run: Run, launch: Launch) -> None:
    """Which arrays of integers do not start with what counters are taken to start with."""
    for name, seen in launch.arrays().items():
        drawn, array = seen.drawn(), run.arrays.get(name)
        if drawn is not None and array is not None and (drawn.low, drawn.high) != (0, 0):
            run.not_zero.add(array.name)
            if drawn.low is not None and drawn.low < 0:
                run.below_zero.add(array.name)
    for name, left in launch.counted.items():
        if name in run.arrays:
            run.not_zero.add(run.arrays[name].name)
            if left is Left.LOWERED:
                run.below_zero.add(run.arrays[name].name)


def _show_contents(run: Run, env: Mapping[str, Value], launch: Launch) -> None:
    """What host code shows of the elements of arrays that the kernel never writes, and that share memory with no other."""
    unsure = {name for pair in launch.entangled for name in pair}
    for name, seen in launch.arrays().items():
        array = run.arrays.get(name)
        if array is None or array.written or name in unsure or env.get(name) != whole(array):
            continue
        known = shown(array, seen)
        if known is not None:
            run.known.setdefault(loads_of(array), known)


# ---- shared buffers


def _share_buffers(run: Run, env: dict[str, Value], launch: Launch) -> None:
    """Let arguments that overlap on the device meet in one array of the walk."""
    arrays = [(name, value) for name, value in launch.arrays().items() if isinstance(env.get(name), View)]
    for i, (name, one) in enumerate(arrays):
        for other, two in arrays[i + 1 :]:
            if one.host or two.host or one.buffer != two.buffer:
                continue
            if _same(one, two):
                env[other] = env[name]
                run.arrays[other] = run.arrays[name]
                _either(run, name, other)
            elif overlap(one, two) is not False:
                _windows(run, env, (name, one), (other, two))
    for name, other in launch.twins:
        one_view, two_view = env.get(name), env.get(other)
        if isinstance(one_view, View) and isinstance(two_view, View):
            if len(one_view.axes) == len(two_view.axes):
                env[other] = one_view
                run.arrays[other] = run.arrays[name]
                _either(run, name, other)
            else:
                for array in (run.arrays[name], run.arrays[other]):
                    why = f"`{name}` and `{other}` are one array"
                    run.gap(why, run.kernel.body[0], Property.RACE_FREE, array=array)
    for name in launch.ragged:
        if name in run.arrays:
            why = f"`{name}` holds several arrays, which are not followed"
            run.gap(why, run.kernel.body[0], Property.RACE_FREE, Property.IN_BOUNDS, array=run.arrays[name])
    for name, other in launch.entangled:
        if not (isinstance(env.get(name), View) and isinstance(env.get(other), View)):
            continue
        what = f"`{name}` and `{other}` may" if name != other else f"two elements of `{name}` may"
        for array in dict.fromkeys((run.arrays[name], run.arrays[other])):
            run.gap(f"{what} share memory", run.kernel.body[0], Property.RACE_FREE, array=array)


def _same(one: HostArray, two: HostArray) -> bool:
    if one.shape is None or one.offset is None or one.shape != two.shape or one.offset != two.offset:
        return False
    return one.steps() == two.steps() and None not in one.steps()


def _either(run: Run, name: str, other: str) -> None:
    array = run.arrays[name]
    array.written |= other in run.usage.written or name in run.usage.written
    array.whole_numbers |= other in run.usage.whole_numbers


def _windows(run: Run, env: dict[str, Value], first: tuple[str, HostArray], second: tuple[str, HostArray]) -> None:
    """Two different windows on one buffer: views of one array, if their strides let them be."""
    (name, one), (other, two) = first, second
    starts = _starts(one), _starts(two)
    whole_one, whole_two = run.arrays[name], run.arrays[other]
    askew = one.shape is None or two.shape is None or (len(one.shape) > 1 and one.steps() != two.steps())
    if askew or starts[0] is None or starts[1] is None or len(starts[0]) != len(starts[1]):
        node = run.kernel.body[0]
        for array in (whole_one, whole_two):
            run.gap(f"`{name}` and `{other}` share memory", node, Property.RACE_FREE, array=array)
        return
    base = Array(name, "global", whole_one.extents, one.dtype, whole_one.written or whole_two.written)
    base.whole_numbers = whole_one.whole_numbers or whole_two.whole_numbers
    for key, array, places in ((name, whole_one, starts[0]), (other, whole_two, starts[1])):
        axes = tuple(
            Stretch(num(start), num(step), extent) for (start, step), extent in zip(places, array.extents, strict=True)
        )
        env[key] = View(base, axes)
        run.arrays[key] = base


def _starts(array: HostArray) -> list[tuple[int, int]] | None:
    """Start and step per axis of a one-dimensional window, or of a window with the steps of its rows."""
    if array.shape is None or array.offset is None:
        return None
    steps = array.steps()
    if len(steps) == 1 and steps[0] is not None:
        return [(array.offset, steps[0])]
    left, made = array.offset, []
    for step in steps:
        if not step or step < 0:
            return None
        made.append((left // step, 1))
        left %= step
    return made if left == 0 else None
