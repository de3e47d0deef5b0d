"""The walk through expressions: values, and the loads that happen on the way.

Invariant: loads are recorded left to right and only under the conditions under which Python evaluates them (`and`, `or`
and the arms of a choice extend the path condition while they are walked).
"""

from __future__ import annotations

from collections.abc import Sequence

from tilecheck.ir.kernel import (
    Binary,
    Compare,
    Const,
    DimRef,
    Expr,
    Extent,
    Item,
    Logic,
    Name,
    Node,
    Opaque,
    OpCall,
    Select,
    TupleExpr,
    Unary,
)
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Atomic, BarrierValue, Load, SliceExpr, SubArray, ThreadVar, Warp
from tilecheck.symbolic.linear import INT64
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_terms import FALSE, TRUE, conj, disj, eq, mod, neg, num, truth, value_of
from tilecheck.verify import lanes, scalars
from tilecheck.verify.casts import WHOLE_CASTS, cast
from tilecheck.verify.locks import note_atomic
from tilecheck.verify.memory import Cut, FromEnd, Position, captured_array, load, place, record
from tilecheck.verify.overflow import observe, observe_shift
from tilecheck.verify.phases import cross
from tilecheck.verify.rearranged import rearranged
from tilecheck.verify.run import AXES, WARP_LANES, Run, State, Ticket
from tilecheck.verify.values import (
    UNREAD,
    Check,
    Items,
    Kind,
    Literal_,
    Scalar,
    Truth,
    Unknown,
    Value,
    View,
    as_int,
    merge,
    views,
    whole,
)
from tilecheck.verify.verdict import Property

# Operators that give the same modulo 2**64 for operands that are the same modulo 2**64.
_WRAPPING = frozenset({"+", "-", "*"})
_WHOLE_RESULTS = frozenset({"popc", "clz", "ffs", "brev", "round"})


def evaluate(run: Run, state: State, expr: Node) -> Value:
    """The value of `expr` at `state`."""
    run.solver.keep_time()
    match expr:
        case Const(value=value):
            return constant(run, value)
        case Name(id=name):
            return _name(run, state, name)
        case ThreadVar():
            return Scalar(thread_variable(run, expr))
        case Unary(op=op, operand=operand):
            inner = evaluate(run, state, operand)
            if op == "not":
                observe(run, state, expr, inner)
            return scalars.unary(run.symbols, op, inner)
        case Binary(op=op, left=left, right=right):
            first, second = evaluate(run, state, left), evaluate(run, state, right)
            if op not in _WRAPPING and not _takes_low_bits(op, first, second):
                observe(run, state, expr, first, second)
            if op in ("<<", ">>"):
                observe_shift(run, state, expr, second)
            return scalars.binary(run.symbols, op, first, second)
        case Compare(op=op, left=left, right=right):
            first, second = evaluate(run, state, left), evaluate(run, state, right)
            observe(run, state, expr, first, second)
            return Truth(scalars.compare(run.symbols, op, first, second))
        case Logic():
            return _logic(run, state, expr)
        case Select(cond=cond, then=then, other=other):
            return _select(run, state, cond, then, other)
        case TupleExpr(items=items):
            return Items(tuple(evaluate(run, state, item) for item in items))
        case Item(base=base, index=index):
            return _item(run, evaluate(run, state, base), evaluate(run, state, index))
        case Extent(array=array, axis=axis):
            return _extent(run, state, evaluate(run, state, array), axis)
        case SubArray(array=array, index=index):
            return _view(run, state, expr, evaluate(run, state, array), index)
        case Load(array=array, index=index, field=member):
            target = evaluate(run, state, array)
            positions = position_list(run, state, target, index)
            record(run, state, target, positions, "read", expr, member=member)
            return load(run, state, target, positions, member)
        case Atomic():
            return _atomic(run, state, expr)
        case Warp():
            mask = as_int(evaluate(run, state, expr.mask)) if expr.mask is not None else None
            return lanes.meet(run, state, expr, mask, [evaluate(run, state, operand) for operand in expr.operands])
        case BarrierValue(predicate=predicate):
            evaluate(run, state, predicate)
            cross(run, state, Level.BLOCK, expr, f"syncthreads_{expr.op}")
            return Scalar(run.symbols.fresh("vote", Level.BLOCK, Taint.DATA))
        case OpCall():
            return _call(run, state, expr)
        case DimRef():
            return Unknown("a Dim")
        case Opaque(reason=reason):
            return (
                Scalar(run.symbols.fresh(f"{UNREAD}{reason}", Level.THREAD, Taint.HAVOC)) if reason else Unknown(reason)
            )
    return Unknown("an expression that is not read")


def _takes_low_bits(op: str, first: Value, second: Value) -> bool:
    """Whether `first op second` is the same for a value that has wrapped: it takes bits below the 64th."""
    if op == "%":
        divisor = as_int(second)
        power = value_of(divisor) if divisor is not None else None
        return power is not None and 0 < power < 2**63 and power & (power - 1) == 0
    masks = [value_of(term) for value in (first, second) if (term := as_int(value)) is not None]
    return op == "&" and any(mask is not None and 0 <= mask < 2**63 for mask in masks)


def constant(run: Run, value: object) -> Value:
    if isinstance(value, bool):
        return Truth(truth(value))
    if isinstance(value, int):
        return Scalar(num(value))
    if isinstance(value, float):
        term = run.symbols.apply(f"number {value!r}", Level.GRID, (), Taint.NONE)
        return Scalar(term, Kind.FLOAT)
    if value is None or isinstance(value, str):
        return Literal_(value)
    return Unknown("a constant")


def _name(run: Run, state: State, name: str) -> Value:
    found = state.env.get(name)
    if found is not None:
        return found
    if run.is_assigned(name):
        return Unknown(f"`{name}` may be unbound")
    if name in run.usage.captured:
        return whole(captured_array(run, name))
    if name not in run.constants:
        run.constants[name] = run.symbols.fresh(name, Level.GRID, Taint.HAVOC, *INT64)
    return Scalar(run.constants[name])


def thread_variable(run: Run, node: ThreadVar) -> Term:
    """The term of `threadIdx.x` and its kin."""
    dims = run.dims
    if node.kind == "laneid":
        return mod(dims.linear, num(WARP_LANES))
    if node.kind == "warpsize":
        return num(WARP_LANES)
    axis = AXES.index(node.axis or "x")
    table = {"threadIdx": dims.thread, "blockIdx": dims.at, "blockDim": dims.block, "gridDim": dims.grid}
    return table[node.kind][axis]


def truth_at(run: Run, state: State, cond: Node) -> Term:
    """The truth value of `cond` at `state`."""
    value = evaluate(run, state, cond)
    observe(run, state, cond, value)
    return scalars.truth_of(run.symbols, value)


def _logic(run: Run, state: State, expr: Logic) -> Value:
    path, made = state.path, []
    both = expr.op == "and"
    for operand in expr.operands:
        term = truth_at(run, state, operand)
        made.append(term)
        if term is (FALSE if both else TRUE):
            break
        state.path = (*state.path, term if both else neg(term))
    state.path = path
    return Truth((conj if both else disj)(*made))


def _select(run: Run, state: State, cond: Expr, then: Expr, other: Expr) -> Value:
    term = truth_at(run, state, cond)
    if term is TRUE or term is FALSE:
        return evaluate(run, state, then if term is TRUE else other)
    path = state.path
    state.path = (*path, term)
    first = evaluate(run, state, then)
    state.path = (*path, neg(term))
    second = evaluate(run, state, other)
    state.path = path
    merged = merge(term, first, second)
    assert merged is not None
    return merged


def _item(run: Run, base: Value, index: Value) -> Value:
    at = as_int(index)
    if isinstance(base, Items) and at is not None and base.items:
        place_ = value_of(at)
        if place_ is not None:
            if -len(base.items) <= place_ < len(base.items):
                return base.items[place_]
            return Unknown("a tuple item that does not exist")
        result: Value = base.items[-1]
        for k, item in enumerate(base.items[:-1]):
            merged = merge(eq(at, num(k)), item, result)
            assert merged is not None
            result = merged
        return result
    return Scalar(run.symbols.fresh("item", Level.THREAD, Taint.HAVOC))


def _extent(run: Run, state: State, target: Value, axis: int | None) -> Value:
    made: Value | None = None
    for cond, view in views(target):
        free = view.free
        if axis is None:
            value: Value = Scalar(view.size)
        elif -len(free) <= axis < len(free):
            value = Scalar(free[axis].length)
        else:
            value = Unknown("an axis that the array has not")
        made = value if made is None or cond is None else merge(cond, value, made)
    if isinstance(target, Items) and axis in (None, 0):
        return Scalar(num(len(target.items)))
    return made if made is not None else Scalar(run.symbols.fresh("extent", Level.GRID, Taint.HAVOC))


def position_list(run: Run, state: State, target: Value, index: Sequence[Node]) -> list[Position]:
    """Evaluated positions of `target[index]`; an ellipsis stands for the axes left over."""
    made: list[Position] = []
    for part in index:
        if isinstance(part, SliceExpr):
            made.append(_cut(run, state, part))
        elif isinstance(part, Const) and part.value == "...":
            rank = max((len(view.free) for _, view in views(target)), default=0)
            made.extend(Cut(None, None, 1) for _ in range(rank - (len(index) - 1)))
        else:
            value = evaluate(run, state, part)
            if any(view.array.written for _, view in views(target)):
                observe(run, state, part, *(value.items if isinstance(value, Items) else (value,)), index=True)
            at = as_int(value)
            if _is_literal(part) and at is not None and at.kind == "const" and at.const < 0:
                made.append(FromEnd(at))
            else:
                made.extend(value.items if isinstance(value, Items) else (value,))
    return made


def _is_literal(node: Node) -> bool:
    return isinstance(node.operand if isinstance(node, Unary) else node, Const)


def _cut(run: Run, state: State, part: SliceExpr) -> Position:
    bounds = []
    for bound in (part.start, part.stop):
        value = evaluate(run, state, bound) if bound is not None else None
        if bound is not None and value is not None:
            observe(run, state, bound, value)
        given = value is not None and not isinstance(value, Literal_)
        bounds.append(scalars.integer(run.symbols, value) if given and value is not None else None)
    step = 1
    if part.step is not None:
        given_step = as_int(evaluate(run, state, part.step))
        if given_step is None or not value_of(given_step):
            return Unknown("a slice with a step that is not constant")
        step = given_step.const
    return Cut(bounds[0], bounds[1], step)


def _view(run: Run, state: State, node: Node, target: Value, index: Sequence[Node]) -> Value:
    positions = position_list(run, state, target, index)
    made: Value | None = None
    for cond, view in views(target):
        placed = place(view, positions)
        value: Value = placed[0] if placed is not None else Unknown("a view that could not be followed")
        if placed is not None:
            _check_view(run, state, node, view, placed[1])
        made = value if made is None or cond is None else merge(cond, value, made)
    return made if made is not None else Unknown("a view of something that is no array")


def _check_view(run: Run, state: State, node: Node, view: View, checks: tuple[Check, ...]) -> None:
    """Fixed positions of a view must be in bounds too; they are noted as accesses of no element."""
    if checks and run.recording and run.only_tags is None and state.guard is not FALSE:
        run.view_checks.append((view.array, checks, state.guard, node))


def _atomic(run: Run, state: State, expr: Atomic) -> Value:
    target = evaluate(run, state, expr.array)
    positions = position_list(run, state, target, expr.index)
    operands = [evaluate(run, state, operand) for operand in expr.operands]
    observe(run, state, expr, *operands)
    access = record(run, state, target, positions, "atomic", expr, op=expr.op, operands=operands)
    if expr.op in ("cas", "compare_and_swap", "exch"):
        run.uses_lock = True
    found = views(target)
    if len(found) != 1:
        return Scalar(run.symbols.fresh("old", Level.THREAD, Taint.DATA))
    array = found[0][1].array
    whole = array.whole_numbers or (array.dtype or "int").startswith(("int", "uint"))
    increment = as_int(operands[0]) if operands and expr.op == "add" else None
    counts = whole and increment is not None and increment.low is not None and increment.low >= 0
    counts = counts and expr not in run.falling and array.name not in run.below_zero
    old = run.symbols.fresh(f"old {array.name}", Level.THREAD, Taint.DATA, 0 if counts else None)
    if access is not None:
        note_atomic(run, state, access, old, operands)
    if counts:
        run.counters.add(array.name)
        if access is not None:
            run.counted[old] = access
    if access is not None and increment is not None and whole:
        level = Level.GRID if array.space == "global" else Level.BLOCK
        if all(t.level <= level for t in access.index):
            drawn = Ticket(old, array, level, increment, access, run.generic_loops == 0)
            if run.barrier_loops == 0:
                run.tickets.append(drawn)
            if level is Level.GRID:
                run.draws[old] = drawn
    return Scalar(old, Kind.INT if whole else Kind.FLOAT)


def _call(run: Run, state: State, expr: OpCall) -> Value:
    name = expr.op.rpartition(".")[2]
    args = [evaluate(run, state, arg) for arg in expr.args]
    if name not in WHOLE_CASTS:
        observe(run, state, expr, *args)
    if name == "shape" and args:
        found = views(args[0])
        if len(found) == 1:
            return Items(tuple(Scalar(axis.length) for axis in found[0][1].free))
        return Unknown("the shape of an unknown array")
    if name == "ndim" and len(views(args[0])) == 1:
        return Scalar(num(len(views(args[0])[0][1].free)))
    if name in ("T", "transpose", "flat", "real", "imag", "view", "reshape", "ravel") and views(args[0]):
        return rearranged(name, args[0], args[1:])
    if name == "len" and len(args) == 1:
        return _extent(run, state, args[0], 0)
    if name in ("min", "max") and len(args) >= 2:
        return scalars.extreme(run.symbols, name == "min", args)
    if name == "lanemask_lt":
        return lanes.below(run)
    if name in ("abs", "fabs") and len(args) == 1:
        return scalars.absolute(run.symbols, args[0])
    if name in WHOLE_CASTS and len(args) == 1:
        return cast(run, state, expr, name, args[0])
    if name in ("ceil", "floor") and len(args) == 1:
        return scalars.rounded(run.symbols, args[0], name == "ceil")
    if name in ("bool", "bool_", "boolean") and len(args) == 1:
        return Truth(scalars.truth_of(run.symbols, args[0]))
    if name == "selp" and len(args) == 3:
        chosen = merge(scalars.truth_of(run.symbols, args[0]), args[1], args[2])
        assert chosen is not None
        return chosen
    if name == "divmod" and len(args) == 2:
        return Items(tuple(scalars.binary(run.symbols, op, args[0], args[1]) for op in ("//", "%")))
    if name == "pow" and len(args) == 2:
        return scalars.binary(run.symbols, "**", args[0], args[1])
    if name == "popc" and len(args) == 1:
        rank = lanes.rank_of(run, args[0])
        if rank is not None:
            return rank
    for arg in args:
        if views(arg):
            return _opaque_call(run, expr, name, args)
    if not args:
        # What depends on nothing that is written down may be another in every thread.
        return Scalar(run.symbols.fresh(name, Level.THREAD, Taint.HAVOC))
    result = scalars.opaque(run.symbols, f"call {expr.op}", *args)
    if name in _WHOLE_RESULTS and isinstance(result, Scalar):
        return Scalar(result.term)
    return result


def _opaque_call(run: Run, expr: OpCall, name: str, args: Sequence[Value]) -> Value:
    if name == "getattr" and all(not view.array.written for arg in args for _, view in views(arg)):
        return scalars.opaque(run.symbols, show(expr))
    if name in ("strides", "nbytes", "itemsize", "dtype"):
        return Scalar(run.symbols.fresh(name, Level.GRID, Taint.HAVOC))
    run.gap(f"`{name}` of an array", expr, Property.RACE_FREE, Property.IN_BOUNDS, Property.SHARED_INITIALISED)
    return Unknown(f"`{name}` of an array")
