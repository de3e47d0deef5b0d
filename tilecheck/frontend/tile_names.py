"""Constants and names of tile kernels: locals, module constants, Dims, dtypes, functions as values.

A constant of a module or closure is folded into the kernel and noted in `Reader.constants`, because it belongs to the key
of a compiled kernel. A parameter of an enclosing function has no value that a checker could know: it is `Opaque`, and
nothing is said about what depends on it.
"""

from __future__ import annotations

import libcst as cst

from tilecheck.frontend.constants import NotConstant, literal
from tilecheck.frontend.names import Alias, Constant, DimClass, External, Function, Module, Unusable, meaning
from tilecheck.frontend.tile_reader import Reader
from tilecheck.ir.kernel import Const, DimRef, DTypeRef, Expr, Name, Node, Opaque, TupleExpr, TypeVariable
from tilecheck.surface.dtypes import DTYPES

_INT64 = 1 << 63


def literal_of(r: Reader, node: cst.BaseExpression) -> object:
    """The value of a literal; byte strings and the like are refused."""
    try:
        return literal(node)
    except NotConstant:
        raise r.refuse("this literal in a kernel", node, "kernels know ints, floats, bools and plain strings") from None


def constant(r: Reader, value: object, node: cst.CSTNode) -> Expr:
    """A Python value as a node. Ints must fit the kernel's 64 bits."""
    span = r.span(node)
    if isinstance(value, tuple):
        return TupleExpr(tuple(constant(r, item, node) for item in value), span=span)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise r.refuse(f"the int {_short(value)} does not fit the 64 bits of a kernel's int", node, None)
    if value is None or isinstance(value, int | float | str):
        return Const(value, span=span)
    raise r.refuse(f"a constant of type `{type(value).__name__}` in a kernel", node, "ints, floats, bools and tuples")


def _short(value: int) -> str:
    text = str(value)
    return text if len(text) < 30 else f"{text[:12]}... ({len(text)} digits)"


def named(r: Reader, node: cst.Name) -> Expr:
    """A local, a parameter, or what the name means outside of the function."""
    name, span = node.value, r.span(node)
    bound = r.frame.bound.get(name)
    if bound is not None:
        return bound if isinstance(bound, Node) else r.lift(r, bound, node)
    if name in r.frame.locals:
        return Name(r.cell(name), span=span)
    if name in r.frame.captured:
        raise r.refuse(
            f"`{name}` belongs to the function around this one",
            node,
            "a device function passed to an op sees its own parameters and module constants alone",
        )
    return outside(r, node, name)


def outside(r: Reader, node: cst.Name | cst.Attribute, text: str) -> Expr:
    """The value of a name, or of a dotted one, that means something outside of the kernel."""
    found = meaning(node, r.frame.names)
    match found:
        case Constant(value=value):
            r.constants[text] = value
            return constant(r, value, node)
        case DimClass(decl=decl):
            r.dims[decl.key] = decl
            return DimRef(decl.key, span=r.span(node))
        case External(path=path) if path.startswith("tilecheck.") and path[10:] in DTYPES:
            return DTypeRef(path[10:], span=r.span(node))
        case External(path=path) if path.startswith("tilecheck."):
            raise r.refuse(f"`{text}` is used without calling it", node, f"call it: `{text}(...)`", "usage")
        case External(path=path):
            raise r.refuse(
                f"`{text}` means `{path}`, which a kernel cannot use",
                node,
                "make it a module constant (an int, float or bool), or pass it as a scalar parameter",
            )
        case Function():
            return r.lift(r, found, node)
        case Module():
            raise r.refuse(f"`{text}` is a module, no value", node, None)
        case TypeVariable():
            raise r.refuse(
                f"`{text}` is a type variable, no value",
                node,
                "a tensor knows its dtype: `z.dtype`, as in `.astype(z.dtype)`",
            )
        case Alias():
            raise r.refuse(
                f"`{text}` is no constant that can be read here",
                node,
                "a kernel sees module constants that are ints, floats, bools or tuples of them; pass others as parameters",
            )
        case Unusable(reason=reason) if "enclosing function" in reason:
            return Opaque(f"`{text}` {reason}", span=r.span(node))
        case Unusable(reason=reason):
            raise r.refuse(f"`{text}` {reason}", node, "pass the value as a scalar parameter of the kernel")
        case None:
            raise r.refuse(f"`{text}` is not defined", node, None, "usage")


def local_root(r: Reader, node: cst.BaseExpression) -> bool:
    """Whether the object before the dot is a value of the kernel, rather than a module or class outside of it."""
    while isinstance(node, cst.Attribute):
        node = node.value
    if not isinstance(node, cst.Name):
        return True
    return node.value in r.frame.locals or node.value in r.frame.bound
