"""Which arguments NumPy's functions write: an output, given by name or by its place.

Worked example: `np.copyto(h, x)`, `np.add(a, b, h)`, `np.exp(a, out=h)` and `np.add.at(h, at, x)` write `h`.
"""

from __future__ import annotations

from tilecheck.ir import host as ir

_TARGETS = {
    "copyto": "dst",
    "put": "a",
    "place": "arr",
    "putmask": "a",
    "fill_diagonal": "a",
    "put_along_axis": "arr",
    "random.shuffle": "x",
}
"""Functions that write their first parameter, which has this name."""

_OF_ONE = frozenset(
    [
        "abs",
        "absolute",
        "cbrt",
        "ceil",
        "conj",
        "conjugate",
        "cos",
        "cosh",
        "deg2rad",
        "exp",
        "exp2",
        "expm1",
        "fabs",
        "floor",
        "invert",
        "isfinite",
        "isinf",
        "isnan",
        "log",
        "log10",
        "log1p",
        "log2",
        "logical_not",
        "negative",
        "positive",
        "rad2deg",
        "reciprocal",
        "rint",
        "sign",
        "signbit",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "tan",
        "tanh",
        "trunc",
    ]
)
_OF_TWO = frozenset(
    [
        "add",
        "arctan2",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "copysign",
        "divide",
        "equal",
        "floor_divide",
        "fmax",
        "fmin",
        "fmod",
        "greater",
        "greater_equal",
        "hypot",
        "left_shift",
        "less",
        "less_equal",
        "logaddexp",
        "logical_and",
        "logical_or",
        "logical_xor",
        "matmul",
        "maximum",
        "minimum",
        "mod",
        "multiply",
        "not_equal",
        "power",
        "remainder",
        "right_shift",
        "subtract",
        "true_divide",
        "dot",
    ]
)
"""Functions whose output may stand behind their one or two inputs."""


def written(node: ir.Call, full: str) -> list[ir.Expr]:
    """The arguments of the NumPy function or array method `full` that it writes."""
    found: list[ir.Expr] = []
    for arg in node.args:
        if arg.name == "out":
            found += arg.value.items if isinstance(arg.value, ir.Display) else (arg.value,)
    places = [arg.value for arg in node.args if arg.name is None and not arg.star]
    name = full.removeprefix("numpy.")
    if name == full:
        return found
    if name in _TARGETS:
        found += places[:1] or [arg.value for arg in node.args if arg.name == _TARGETS[name]]
    elif name.endswith(".at") and name.removesuffix(".at") in _OF_ONE | _OF_TWO:
        found += places[:1]
    elif name in _OF_ONE:
        found += places[1:2]
    elif name in _OF_TWO:
        found += places[2:3]
    return found
