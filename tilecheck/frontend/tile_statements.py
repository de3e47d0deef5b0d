"""Statements of tile kernels: libcst -> IR.

A literal tuple on the right of an unpacking is taken apart, so tuples rarely exist as values: `i, j = j, i` goes through
cells, `m, n = x.shape` becomes two extents. `if` on a condition known here keeps the branch that runs. A `while` whose
condition inlines a helper becomes a `while True` that leaves by `break`.

`for` runs over `range(...)` and over `z.indices(...)` / `z.indices_with(other)`; nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from tilecheck.frontend.constants import AUGMENTED
from tilecheck.frontend.tile_expressions import arguments, binary, expression, operands
from tilecheck.frontend.tile_reader import Reader
from tilecheck.frontend.tile_words import construct
from tilecheck.ir.kernel import (
    Access,
    Assert,
    Break,
    Const,
    Continue,
    Do,
    Expr,
    Extent,
    For,
    ForIndices,
    If,
    Item,
    Name,
    Opaque,
    OpCall,
    Return,
    Stmt,
    TensorParam,
    TupleExpr,
    Unary,
    Unsupported,
    While,
    walk,
)

_MINTS = ("indices", "indices_with")


def body(r: Reader, block: cst.BaseSuite) -> None:
    """Every statement of a block, in order; a refused one leaves a fault and `Opaque`."""
    for statement in block.body:
        lines: Sequence[cst.CSTNode] = (
            statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
        )
        for line in lines:
            with r.recovering(line):
                one(r, line)


def nested(r: Reader, block: cst.BaseSuite) -> tuple[Stmt, ...]:
    """A block as a value."""
    with r.block() as out:
        body(r, block)
    return tuple(out)


def one(r: Reader, node: cst.CSTNode) -> None:
    """One statement. Raises `Unsupported`."""
    span = r.span(node)
    match node:
        case cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString() | cst.Ellipsis()) | cst.Pass():
            return
        case cst.Expr(value=value):
            done = expression(r, value)
            # The name of an inlined helper's result is no effect; its statements are written already.
            if not isinstance(done, Name | Const):
                r.emit(Do(done, span=span))
        case cst.Assign(targets=targets, value=value):
            assignment(r, [t.target for t in targets], value)
        case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
            assignment(r, [target], value)
        case cst.AnnAssign():
            return
        case cst.AugAssign(target=target, operator=op, value=value):
            augmented(r, target, AUGMENTED[type(op)], value, node)
        case cst.If():
            branch(r, node)
        case cst.For():
            loop(r, node)
        case cst.While():
            while_loop(r, node)
        case cst.Break():
            r.emit(Break(span=span))
        case cst.Continue():
            r.emit(Continue(span=span))
        case cst.Return(value=value):
            give_back(r, value, node)
        case cst.Assert(test=test, msg=msg):
            text = expression(r, msg) if msg is not None else Const(None, span=span)
            if not isinstance(text, Const) or not isinstance(text.value, str | None):
                raise r.refuse("an assertion message that is no string", node, "write a plain string")
            r.emit(Assert(expression(r, test), text.value, span=span))
        case cst.Global(names=names) | cst.Nonlocal(names=names):
            what, help = construct(node)
            for item in names:
                r.assign(item.name.value, Opaque("is declared global", span=span), span)
            raise r.refuse(f"{what} in a kernel", node, help)
        case _:
            what, help = construct(node)
            raise r.refuse(f"{what} in a kernel", node, help)


# ---- assignments


def assignment(r: Reader, targets: Sequence[cst.BaseExpression], value: cst.BaseExpression) -> None:
    """`a = b = value`, unpackings included."""
    if len(targets) == 1 and isinstance(value, cst.Tuple) and isinstance(targets[0], cst.Tuple | cst.List):
        parts, names = [e.value for e in value.elements], [e.value for e in targets[0].elements]
        if len(parts) == len(names) and not any(isinstance(e, cst.StarredElement) for e in value.elements):
            paired(r, names, parts)
            return
    if isinstance(value, cst.Attribute) and value.attr.value == "shape" and len(targets) == 1:
        whole = targets[0]
        if isinstance(whole, cst.Tuple | cst.List):
            shaped(r, whole, value)
            return
    one_value = expression(r, value)
    if len(targets) > 1:
        one_value = r.spill(one_value)
    for target in targets:
        assign(r, target, one_value)


def paired(r: Reader, names: list[cst.BaseExpression], parts: list[cst.BaseExpression]) -> None:
    """`a, b = x, y`: all values first, then all names; through cells only where a name is also read."""
    values = operands(r, *parts)
    written = {r.cell(n.value) for n in names if isinstance(n, cst.Name)}
    read = {n.id for v in values for n in walk(v) if isinstance(n, Name)}
    if len(written) < len(names) or written & read:
        held: list[Expr] = []
        for value in values:
            cell = r.fresh("t")
            r.put(cell, value, value.span)
            held.append(Name(cell, span=value.span))
        values = held
    for name, value in zip(names, values, strict=True):
        assign(r, name, value)


def shaped(r: Reader, whole: cst.Tuple | cst.List, value: cst.Attribute) -> None:
    """`m, n = x.shape`: the number of names says the rank."""
    base = r.spill(expression(r, value.value))
    known = r.tensor(base)
    if known is not None and known.extents is not None and len(known.extents) != len(whole.elements):
        raise r.refuse(
            f"`{known.name}.shape` has {len(known.extents)} extents, {len(whole.elements)} names take them",
            value,
            None,
            "shape-mismatch",
        )
    for axis, element in enumerate(whole.elements):
        assign(r, element.value, Extent(base, axis, span=r.span(value)))


def assign(r: Reader, target: cst.BaseExpression, value: Expr) -> None:
    """One target; a tuple takes the items of the value."""
    span = r.span(target)
    match target:
        case cst.Name(value=name):
            r.assign(name, value, span)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            if any(isinstance(e, cst.StarredElement) for e in elements):
                raise r.refuse("a starred name in an unpacking", target, "name each item")
            base = r.spill(value)
            for position, element in enumerate(elements):
                if isinstance(value, TupleExpr) and len(value.items) == len(elements):
                    assign(r, element.value, value.items[position])
                else:
                    assign(r, element.value, Item(base, Const(position, span=span), span=span))
        case cst.Subscript():
            raise element_store(r, target)
        case _:
            raise r.refuse("an assignment to an attribute in a kernel", target, "assign to a plain name")


def element_store(r: Reader, target: cst.Subscript) -> Unsupported:
    """The refusal of `x[i] = v`: writes go through `store`, and only where the parameter allows it."""
    param = _tensor(r, target.value)
    if param is not None:
        if param.access is Access.SHARED:
            return r.refuse(
                f"`{param.name}` is `Shared` and is written here",
                target,
                f"declare it `Tensor[Mut, ...]` and write its tile: `{param.name}.store(tile)`",
                "write-to-shared",
            )
        return r.refuse(
            f"`{param.name}` is written element by element",
            target,
            f"a block writes its whole tile: `{param.name}.store(tile)`",
        )
    return r.refuse(
        "an assignment to an element", target, "tiles never change: build a new one, with `where` for a part"
    )


def _tensor(r: Reader, node: cst.BaseExpression) -> TensorParam | None:
    """The tensor parameter that a plain name means here."""
    if isinstance(node, cst.Name) and node.value in r.frame.locals:
        return r.tensor(Name(r.cell(node.value), span=r.span(node)))
    return None


def augmented(r: Reader, target: cst.BaseExpression, op: str, value: cst.BaseExpression, node: cst.AugAssign) -> None:
    """`acc += tile` on a name; on a tensor it would write in place."""
    if isinstance(target, cst.Subscript):
        raise element_store(r, target)
    if not isinstance(target, cst.Name):
        raise r.refuse("an assignment to an attribute in a kernel", target, "assign to a plain name")
    param = _tensor(r, target)
    if param is not None:
        if param.access is Access.SHARED:
            raise r.refuse(
                f"`{param.name}` is `Shared` and is written in place by `{op}=`",
                node,
                f"declare it `Tensor[Mut, ...]` and store: `{param.name}.store({param.name}.load() {op} ...)`",
                "write-to-shared",
            )
        raise r.refuse(
            f"`{op}=` on the tensor `{param.name}`",
            node,
            f"load, compute, store: `{param.name}.store({param.name}.load() {op} ...)`",
        )
    left, right = operands(r, target, value)
    r.assign(target.value, binary(r, op, left, right, node), r.span(node))


# ---- control flow


def branch(r: Reader, node: cst.If) -> None:
    """`if`, `elif`, `else`; a condition known here keeps one branch."""
    cond = expression(r, node.test)
    if isinstance(cond, Const):
        if cond.value:
            body(r, node.body)
        elif isinstance(node.orelse, cst.If):
            branch(r, node.orelse)
        elif node.orelse is not None:
            body(r, node.orelse.body)
        return
    then = nested(r, node.body)
    other: tuple[Stmt, ...] = ()
    if isinstance(node.orelse, cst.If):
        with r.block() as out, r.recovering(node.orelse):
            branch(r, node.orelse)
        other = tuple(out)
    elif node.orelse is not None:
        other = nested(r, node.orelse.body)
    r.emit(If(cond, then, other, span=r.span(node.test)))


def loop(r: Reader, node: cst.For) -> None:
    """`for` over a range or over minted indices."""
    if node.orelse is not None:
        raise r.refuse("`else` after a loop", node.orelse, "set a flag in the loop and test it afterwards")
    if node.asynchronous is not None:
        raise r.refuse("`async for` in a kernel", node, "use a plain `for`")
    source = node.iter
    if not isinstance(source, cst.Call):
        raise r.refuse("a loop over something else than a range", source, _over(r, source))
    func = source.func
    if isinstance(func, cst.Attribute) and func.attr.value in _MINTS:
        args, kwargs = arguments(r, source, func.value)
        mint = OpCall(func.attr.value, args, kwargs, span=r.span(source))
        target, head = _target(r, node.target, "index")
        r.emit(ForIndices(target, mint, (*head, *nested(r, node.body)), span=r.span(node)))
        return
    if not (isinstance(func, cst.Name) and func.value == "range" and r.frame.names.name("range") is None):
        raise r.refuse("a loop over something else than a range", source, _over(r, source))
    args, kwargs = arguments(r, source)
    if kwargs or not 1 <= len(args) <= 3:
        raise r.refuse("`range` called this way", source, "`range(stop)`, `range(start, stop)` or with a step", "usage")
    zero, unit = Const(0, span=r.span(source)), Const(1, span=r.span(source))
    start, stop, step = (
        (zero, args[0], unit) if len(args) == 1 else (args[0], args[1], args[2] if len(args) > 2 else unit)
    )
    if isinstance(step, Const) and step.value == 0:
        raise r.refuse("a range with step 0", source, None, "usage")
    target, head = _target(r, node.target, "value")
    r.emit(For(target, start, stop, step, (*head, *nested(r, node.body)), span=r.span(node)))


def _over(r: Reader, source: cst.BaseExpression) -> str:
    if (
        isinstance(source, cst.Call)
        and isinstance(source.func, cst.Attribute)
        and source.func.attr.value == "num_tiles"
    ):
        return "count through it: `for k in range(xs.num_tiles(0)):`"
    return "loops run over `range(...)`, `z.indices()` or `z.indices_with(other)`"


def _target(r: Reader, target: cst.BaseExpression, kind: str) -> tuple[str, tuple[Stmt, ...]]:
    """The cell of a loop target, and what takes a minted index apart (`for i, j in z.indices():`)."""
    span = r.span(target)
    if isinstance(target, cst.Name):
        cell = r.cell(target.value)
        r.kinds[cell] = "index" if kind == "index" else "value"
        return cell, ()
    if (
        kind == "index"
        and isinstance(target, cst.Tuple)
        and all(isinstance(e.value, cst.Name) for e in target.elements)
    ):
        cell = r.fresh("at")
        r.kinds[cell] = "index"
        with r.block() as head:
            assign(r, target, Name(cell, span=span))
        return cell, tuple(head)
    raise r.refuse("a loop target that is no name", target, "use one name")


def while_loop(r: Reader, node: cst.While) -> None:
    """`while`; a condition that writes statements moves into the loop."""
    if node.orelse is not None:
        raise r.refuse("`else` after a loop", node.orelse, "set a flag in the loop and test it afterwards")
    span = r.span(node)
    with r.block() as before:
        cond = expression(r, node.test)
    if isinstance(cond, Const) and not cond.value:
        return
    inner = nested(r, node.body)
    if not before:
        r.emit(While(cond, inner, span=span))
        return
    leave = If(Unary("not", cond, span=cond.span), (Break(span=span),), span=span)
    r.emit(While(Const(True, span=span), (*before, leave, *inner), span=span))


def give_back(r: Reader, value: cst.BaseExpression | None, node: cst.Return) -> None:
    """`return`: a kernel returns nothing, a device function its value."""
    given = expression(r, value) if value is not None else None
    if not r.frame.prefix and given is not None and not (isinstance(given, Const) and given.value is None):
        raise r.refuse("a kernel returns a value", node, "store it in an output tensor: `z.store(tile)`", "usage")
    if not r.frame.prefix:
        given = None
    r.emit(Return(given, span=r.span(node)))
