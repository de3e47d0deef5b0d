"""Where f32 code becomes f64: a Python float next to a float32, or a true division of two integers.

numba types a float literal as float64, so `0.5 * x[i]` on a float32 array computes and rounds in double precision, at a
small fraction of the speed on most devices. Only kernels whose float arrays are all known to be float32 are looked at.

Worked example: in `out[i] = 0.5 * x[i]` the literal promotes; `float32(0.5) * x[i]` does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import Assign, Binary, Const, Kernel, Name, Node, OpCall, Select, TensorParam, Unary
from tilecheck.ir.printer import show
from tilecheck.ir.simt import AllocArray, Load
from tilecheck.verify.entry import long_dtype
from tilecheck.verify.usage import Usage

Type = Literal["f32", "literal", "int", "other"]
_SAME = frozenset({"sqrt", "exp", "log", "sin", "cos", "tanh", "abs", "fabs", "floor", "ceil", "min", "max", "fma"})
_SHOWN = 3


def promotions(kernel: Kernel, usage: Usage, launches: Sequence[Launch]) -> tuple[Fault, ...]:
    """One fault for a kernel that promotes, with its first places; () for any other."""
    dtypes = _dtypes(kernel, usage, launches)
    floats = {name: dtype for name, dtype in dtypes.items() if dtype is None or dtype.startswith("float")}
    if not any(dtype == "float32" for dtype in floats.values()) or any(d != "float32" for d in floats.values()):
        return ()
    found = list(_places(usage, dtypes))
    if not found:
        return ()
    first, why = found[0]
    labels = tuple(Label(node.span, text) for node, text in found[1:_SHOWN])
    message = f"`{show(first)}` computes in float64, although the arrays of `{kernel.name}` are float32"
    return (Fault("implicit-float64", message, first.span, kernel.name, (Label(first.span, why), *labels), _HELP),)


_HELP = "write `float32(...)` around the literal, or cast the integers before they are divided"


def _dtypes(kernel: Kernel, usage: Usage, launches: Sequence[Launch]) -> dict[str, str | None]:
    made: dict[str, str | None] = {}
    for param in kernel.params:
        if isinstance(param, TensorParam):
            seen = {a.dtype for launch in launches if (a := launch.arrays().get(param.name)) is not None}
            made[param.name] = long_dtype(param.dtype) or (seen.pop() if len(seen) == 1 else None)
    for node in usage.nodes:
        if isinstance(node, AllocArray):
            made[node.name] = node.dtype
    return made


def _places(usage: Usage, dtypes: Mapping[str, str | None]) -> Iterator[tuple[Node, str]]:
    variables: dict[str, Type] = {}
    for node in usage.nodes:
        if isinstance(node, Assign):
            made = _type(node.value, usage, dtypes, variables)
            if variables.setdefault(node.target, made) != made:
                variables[node.target] = "other"
    for node in usage.nodes:
        if not isinstance(node, Binary):
            continue
        sides = (node.left, node.right)
        types = [_type(side, usage, dtypes, variables) for side in sides]
        if "f32" not in types:
            continue
        other = sides[1 - types.index("f32")]
        if isinstance(other, Const) and isinstance(other.value, float):
            yield node, f"the literal `{show(other)}` is float64"
        elif isinstance(other, Binary) and other.op == "/" and types[1 - types.index("f32")] == "literal":
            yield node, "the quotient of two integers is float64"


def _type(node: Node, usage: Usage, dtypes: Mapping[str, str | None], variables: Mapping[str, Type]) -> Type:
    match node:
        case Const(value=value):
            return "literal" if isinstance(value, float) else "int"
        case Name(id=name):
            return variables.get(name, "other")
        case Load(array=array):
            found = {dtypes.get(root) for root in usage.roots(array)}
            return "f32" if found == {"float32"} else "int" if _whole(found) else "other"
        case Unary(operand=operand):
            return _type(operand, usage, dtypes, variables)
        case Select(then=then, other=other):
            first, second = (_type(side, usage, dtypes, variables) for side in (then, other))
            return first if first == second else "other"
        case Binary(op=op, left=left, right=right):
            one, two = (_type(side, usage, dtypes, variables) for side in (left, right))
            if op == "/" and (one, two) == ("int", "int"):
                return "literal"
            return one if one == two else "other"
        case OpCall(op=op, args=args):
            if op == "float32":
                return "f32"
            kinds = {_type(arg, usage, dtypes, variables) for arg in args}
            return kinds.pop() if op in _SAME and len(kinds) == 1 else "other"
    return "other"


def _whole(found: set[str | None]) -> bool:
    return all(dtype is not None and dtype.startswith(("int", "uint")) for dtype in found)
