"""Module variables that a plain kernel reads and that change after its first launch.

numba compiles a kernel at its first launch and keeps the numbers that module variables have then. Two changes are seen:
a function that sets the variable (`global GAIN`), whenever it runs, and a statement of the module after one that
launches the kernel. Only variables that the module itself gives a number count: others may be device functions or
arrays, which are not frozen in this way.

Worked example: with `GAIN = 1.0`, a kernel that reads `GAIN`, and `def louder(): global GAIN; GAIN = 2.0`, the read in
the kernel is the place: it will not see 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.borrow.contracts import KernelFacts
from tilecheck.borrow.program import Program
from tilecheck.borrow.survey import target_names
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.ir import host as ir


def frozen_globals(program: Program) -> Iterator[Fault]:
    """A fault at each read of a variable that changes later."""
    functions = [part for part in program.survey.units() if isinstance(part.unit, ir.Function)]
    setters: dict[str, tuple[Span, str]] = {}
    for part in functions:
        if isinstance(part.unit, ir.Function):
            for name in part.declared & part.assigned.keys():
                setters[name] = (part.unit.span, f"`{part.unit.name}` changes it later")
    for part in functions:
        function = part.unit
        facts = program.kernel(function) if isinstance(function, ir.Function) else None
        if facts is None or facts.body is None or facts.contract.track != "numba":
            continue
        for read in facts.body.frozen:
            if not _is_number(program, read.id):
                continue
            change = setters.get(read.id) or _set_after_launch(program, facts, read.id)
            if change is not None:
                yield _fault(facts, read, *change)


def _fault(facts: KernelFacts, read: ir.Name, at: Span, how: str) -> Fault:
    name = facts.contract.name
    return Fault(
        "frozen-global",
        f"`{name}` keeps the value that `{read.id}` has at its first launch, {how}",
        read.span,
        name,
        (Label(at, f"`{read.id}` is set here"),),
        f"pass `{read.id}` to the kernel as an argument",
    )


def _set_after_launch(program: Program, facts: KernelFacts, name: str) -> tuple[Span, str] | None:
    """The statement of the module that sets `name` after one that launches the kernel."""
    launched = False
    for statement in program.module.body:
        if isinstance(statement, ir.Function | ir.Class):
            continue
        if launched and isinstance(statement, ir.Assign) and name in _assigned(statement):
            return statement.span, "and it is set again after that"
        launched = launched or any(_launches(node, facts) for node in ir.walk(statement))
    return None


def _launches(node: ir.HostNode, facts: KernelFacts) -> bool:
    if not isinstance(node, ir.Call) or not isinstance(node.func, ir.Sub):
        return False
    base = node.func.base
    return isinstance(base, ir.Name) and base.id == facts.contract.name


def _assigned(statement: ir.Assign) -> set[str]:
    return {name for target in statement.targets for name in target_names(target)}


def _is_number(program: Program, name: str) -> bool:
    """Whether the module itself gives the variable `name` a number."""
    values = [
        statement.value
        for statement in program.module.body
        if isinstance(statement, ir.Assign) and name in _assigned(statement)
    ]
    return any(isinstance(value, ir.Const) and isinstance(value.value, int | float) for value in values)
