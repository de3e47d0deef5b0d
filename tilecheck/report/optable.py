"""The op table, read as documentation: how a kernel writes each op, and what it does.

A row that is a function is shown as a call (`tc.where(condition, x, y)`), one that exists only as a method by its receiver
(`view.num_tiles(axis)`), one behind an operator or a subscript by that.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass

from tilecheck.ops.row import Effect, Lanes, Op

_EFFECT = {
    Effect.NONE: "touches no memory",
    Effect.READ: "reads its first argument",
    Effect.WRITE: "writes its first argument",
    Effect.ATOMIC: "updates its first argument atomically",
}
_LANES = {
    Lanes.FRESH: "the result has no void lanes",
    Lanes.CARRY: "void lanes stay where they are",
    Lanes.MOVE: "void lanes move with their axes",
    Lanes.MIX: "mixes lanes: the axes it works along must have no void lanes",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One op in a table."""

    family: str
    name: str
    call: str
    summary: str


def entries(ops: Iterable[Op]) -> list[Entry]:
    """The ops by family, families in the order of their first op."""
    listed = list(ops)
    families = list(dict.fromkeys(op.family for op in listed))
    ordered = sorted(listed, key=lambda op: families.index(op.family))
    return [Entry(op.family, op.name, call(op), summary(op)) for op in ordered]


def summary(op: Op) -> str:
    """The first sentence of the documentation, on one line."""
    return " ".join(op.doc.partition("\n\n")[0].split())


def call(op: Op) -> str:
    """How a kernel writes the op."""
    names = [_parameter(parameter) for parameter in op.signature.parameters.values()]
    if op.name == "load_tile":
        return f"{names[0]}[{', '.join(names[1:])}]"
    if op.function:
        return f"tc.{op.name}({', '.join(names)})"
    if op.method_of:
        return f"{names[0]}.{op.name}({', '.join(names[1:])})"
    return f"{op.name}({', '.join(names)})"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    if parameter.default is not inspect.Parameter.empty:
        return f"{parameter.name}={parameter.default!r}"
    return parameter.name


def entry_page(op: Op) -> str:
    """All that the table says about one op."""
    lines = [call(op), "", op.doc, ""]
    if op.operator:
        lines.append(f"operator: {op.operator}")
    if op.method_of and op.function:
        lines.append(f"also a method of: {', '.join(op.method_of)}")
    lines += [f"memory: {_EFFECT[op.effect]}", f"ragged edges: {_LANES[op.lanes]}"]
    if op.stub:
        lines += ["", "types:", *(f"    {line}" for line in op.stub)]
    return "\n".join(lines)
