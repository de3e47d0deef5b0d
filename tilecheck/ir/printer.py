"""The kernel IR as text that reads like Python, for `tilecheck explain FILE::KERNEL --ir`.

    kernel saxpy [tile]
      z: Mut f32 (BM)
      x: Shared f32 (?)
      a: float
       9 | store(z, a * load_like(x, z))

The number in front is the line of the user's source. Operators are fully bracketed below the top, so that the tree can
be read off; a node this file has no notation for is shown as its class with its fields, never left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from tilecheck.ir import kernel as ir
from tilecheck.ir import simt


def show_kernel(kernel: ir.Kernel) -> str:
    """The whole kernel: parameters, extents, options, statements."""
    lines = [f"kernel {kernel.name} [{kernel.track}]"]
    lines += [f"  {_param(param, kernel)}" for param in kernel.params]
    lines += [f"  extent {dim.name}{'' if dim.size is None else f' = {dim.size}'}" for dim in kernel.dims.values()]
    lines += [f"  option {name} = {value!r}" for name, value in kernel.options.items()]
    lines += [f"  constant {name} = {_short(value)}" for name, value in kernel.constants.items()]
    lines += [f"{line:>5} | {'  ' * depth}{text}" for line, depth, text in _block(kernel.body, 0)]
    return "\n".join(lines)


def show(node: ir.Node) -> str:
    """One expression or statement on one line."""
    return _expr(node, top=True)


def _param(param: ir.Param, kernel: ir.Kernel) -> str:
    if isinstance(param, ir.ScalarParam):
        return f"{param.name}: {param.kind or 'scalar'}"
    if param.extents is None:
        extents = "..."
    else:
        extents = ", ".join("?" if key is None else kernel.dims[key].name for key in param.extents)
    words = [str(param.access) if param.access else "array", param.dtype or "any dtype", f"({extents})"]
    return f"{param.name}: {' '.join(words)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _block(body: Iterable[ir.Node], depth: int) -> Iterator[tuple[int, int, str]]:
    for statement in body:
        yield from _statement(statement, depth)


def _statement(node: ir.Node, depth: int) -> Iterator[tuple[int, int, str]]:
    line = node.span.line
    match node:
        case ir.If(cond=cond, then=then, other=other):
            yield line, depth, f"if {show(cond)}:"
            yield from _block(then, depth + 1)
            if other:
                yield line, depth, "else:"
                yield from _block(other, depth + 1)
        case ir.For(target=target, start=start, stop=stop, step=step, body=body):
            yield line, depth, f"for {target} in range({show(start)}, {show(stop)}, {show(step)}):"
            yield from _block(body, depth + 1)
        case ir.ForIndices(target=target, source=source, body=body):
            yield line, depth, f"for {target} in {show(source)}:"
            yield from _block(body, depth + 1)
        case ir.While(cond=cond, body=body):
            yield line, depth, f"while {show(cond)}:"
            yield from _block(body, depth + 1)
        case ir.Inline(callee=callee, body=body, result=result):
            yield line, depth, f"inline {callee}{f' -> {result}' if result else ''}:"
            yield from _block(body, depth + 1)
        case _:
            yield line, depth, show(node)


def _expr(node: ir.Node, top: bool = False) -> str:
    match node:
        case ir.Const(value=value):
            return repr(value)
        case ir.Name(id=name):
            return name
        case ir.DimRef(key=key):
            return key.rpartition("::")[2].rpartition(".")[2]
        case ir.DTypeRef(name=name):
            return name
        case ir.Unary(op=op, operand=operand):
            return f"{op}{' ' if op == 'not' else ''}{_expr(operand)}"
        case ir.Binary(op=op, left=left, right=right) | ir.Compare(op=op, left=left, right=right):
            return _grouped(f"{_expr(left)} {op} {_expr(right)}", top)
        case ir.Logic(op=op, operands=operands):
            return _grouped(f" {op} ".join(map(_expr, operands)), top)
        case ir.Select(cond=cond, then=then, other=other):
            return _grouped(f"{_expr(then)} if {_expr(cond)} else {_expr(other)}", top)
        case ir.TupleExpr(items=items):
            return f"({_listed(items)}{',' if len(items) == 1 else ''})"
        case ir.Item(base=base, index=index):
            return f"{_expr(base)}[{show(index)}]"
        case ir.Extent(array=array, axis=axis):
            return f"{_expr(array)}.size" if axis is None else f"{_expr(array)}.shape[{axis}]"
        case ir.OpCall(op=op, args=args, kwargs=kwargs):
            named = [f"{name}={show(value)}" for name, value in kwargs]
            return f"{op}({', '.join([*map(show, args), *named])})"
        case ir.Function(callee=callee, params=params, body=body):
            return f"<{callee}({', '.join(params)}): {'; '.join(show(statement) for statement in body)}>"
        case ir.Assign(target=target, value=value):
            return f"{target} = {show(value)}"
        case ir.Do(value=value):
            return show(value)
        case ir.Return(value=value):
            return "return" if value is None else f"return {show(value)}"
        case ir.Break():
            return "break"
        case ir.Continue():
            return "continue"
        case ir.Assert(cond=cond, message=message):
            return f"assert {show(cond)}" + (f", {message!r}" if message else "")
        case ir.Opaque(reason=reason) | simt.Unread(reason=reason):
            return f"<not read: {reason}>"
        case _:
            return _thread(node)


def _thread(node: ir.Node) -> str:
    """The nodes of `ir/simt.py`, and whatever has no notation here."""
    match node:
        case simt.ThreadVar(kind=kind, axis=axis):
            return kind if axis is None else f"{kind}.{axis}"
        case simt.SliceExpr(start=start, stop=stop, step=step):
            parts = ["" if part is None else show(part) for part in (start, stop)]
            return ":".join(parts) + ("" if step is None else f":{show(step)}")
        case simt.SubArray(array=array, index=index) | simt.Load(array=array, index=index, field=None):
            return f"{_expr(array)}[{_listed(index)}]"
        case simt.Load(array=array, index=index, field=field):
            return f"{_expr(array)}[{_listed(index)}].{field}"
        case simt.Store(array=array, index=index, value=value, field=field):
            return f"{_expr(array)}[{_listed(index)}]{f'.{field}' if field else ''} = {show(value)}"
        case simt.FillSlice(array=array, index=index, value=value):
            return f"{_expr(array)}[{_listed(index)}] = {show(value)}"
        case simt.Atomic(op=op, array=array, index=index, operands=operands):
            return f"atomic.{op}({_expr(array)}, ({_listed(index)}), {_listed(operands)})"
        case simt.AllocArray(name=name, space=space, shape=shape, dtype=dtype):
            return f"{name} = {space}.array(({_listed(shape)}), {dtype or 'any dtype'})"
        case simt.Barrier(scope=scope, mask=mask):
            return f"barrier {scope}" + ("" if mask is None else f" of {show(mask)}")
        case simt.Fence(scope=scope):
            return f"fence {scope}"
        case _:
            shown = [f"{f.name}={_field(getattr(node, f.name))}" for f in fields(node) if f.name != "span"]
            return f"{type(node).__name__}({', '.join(shown)})"


def _field(value: object) -> str:
    if isinstance(value, ir.Node):
        return show(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_field, value))})"
    return _short(value)


def _listed(nodes: Iterable[ir.Node]) -> str:
    return ", ".join(map(show, nodes))


def _grouped(text: str, top: bool) -> str:
    return text if top else f"({text})"
