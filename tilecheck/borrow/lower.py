"""From the host IR to the flow IR: the functions of a file one by one.

Each function, lambda and module body becomes a flow of its own, checked against signatures only. A nested function may
run at any time, so the variables that it shares with the function around it count as captured: unknown calls may use
what they name, and rebind those that it declares `nonlocal`. A lambda that is called by a name is read where it is
called. Generators and coroutines hand control to unknown code at each `yield` and `await`.

Worked example: see `ir/instructions.py`. What a statement becomes is in `lower_stmt.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilecheck.borrow.contracts import takes_tiles
from tilecheck.borrow.launch import OpenLaunch, TileLaunch
from tilecheck.borrow.lower_stmt import Statements
from tilecheck.borrow.program import Program
from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir
from tilecheck.ir.flow import Flow


@dataclass(frozen=True, slots=True)
class Lowered:
    """A flow, where it begins, the faults of the launches in it, those of kernels with open dtypes, those of tile kernels
    whose numbers are shown, and whether its variables live on after it (a module's do). What stands in `expected` is there
    to be refused; `read` are the functions that were read at calls.
    """

    flow: Flow
    span: Span
    faults: tuple[Fault, ...]
    opened: tuple[OpenLaunch, ...] = ()
    shown: tuple[TileLaunch, ...] = ()
    is_module: bool = False
    expected: tuple[Span, ...] = ()
    read: frozenset[ir.Function] = frozenset()


def lower_module(program: Program) -> Iterator[Lowered]:
    """Every piece of host code of the file: the module's body, functions, methods, lambdas. Kernels and their helpers are not
    host code.
    """
    called_back: set[str] = set()
    raising: set[str] = set()
    lambdas: list[tuple[ir.Lambda, bool, list[Span]]] = []
    surveys = {id(part.unit): part for part in program.survey.units()}

    def run(
        piece: Statements, name: str, span: Span, statements: tuple[ir.Stmt, ...], is_module: bool = False
    ) -> Lowered:
        lowered = _lowered(piece, name, span, statements, is_module)
        called_back.update(part.id for part in piece.called_back if isinstance(part, ir.Name))
        own = piece.lambdas.keys() - piece.called
        raising.update(piece.raising)
        lambdas.extend((found, found in piece.called_back, piece.expected) for found in piece.lambdas if found in own)
        return lowered

    helpers = _helpers(program)
    pieces: list[tuple[ir.Function, Statements]] = []
    for part in program.survey.units():
        if not program.matters(part):
            continue
        match part.unit:
            case ir.HostModule(body=body):
                if body:
                    yield run(Statements(program, part), "<module>", body[0].span, body, is_module=True)
            case ir.Class(name=name, body=body):
                yield run(Statements(program, part), name, part.unit.span, body)
            case ir.Function() as function if not (_is_device(program, function) or function.full in helpers):
                pieces.append((function, Statements(program, part)))
            case _:
                pass
    # Functions that a running op calls are known only once all their callers are read.
    for node, piece in sorted(pieces, key=lambda pair: pair[0].name in called_back):
        piece.where = "then" if node.name in called_back else ""
        piece.enter()
        if node.full is None and node.name in raising:
            piece.expected += [statement.span for statement in node.body]
        yield run(piece, node.name, node.span, node.body)
    for found, inside, expected in lambdas:
        piece = Statements(program, surveys[id(found)])
        piece.where = "then" if inside else ""
        piece.expected = expected
        piece.enter()
        yield run(piece, "<lambda>", found.span, (ir.Return(found.body, span=found.span),))


def lower_function(program: Program, function: ir.Function) -> Lowered:
    """A function, of another file it may be, by itself."""
    piece = Statements(program, program.survey_of(function))
    piece.enter()
    return _lowered(piece, function.name, function.span, function.body)


def _lowered(
    piece: Statements, name: str, span: Span, statements: tuple[ir.Stmt, ...], is_module: bool = False
) -> Lowered:
    piece.body(statements)
    own_flow = Flow(name, tuple(piece.code), piece.outer, piece.captured, piece.in_async, piece.rebound)
    known = tuple(piece.faults), tuple(piece.opened), tuple(piece.shown)
    read = frozenset(part for part in piece.called if isinstance(part, ir.Function))
    return Lowered(own_flow, span, *known, is_module, tuple(piece.expected), read)


def _helpers(program: Program) -> set[str]:
    """The functions of the module that kernels call, or other helpers do, by their dotted names."""
    functions = {p.unit.full: p for p in program.survey.units() if isinstance(p.unit, ir.Function) and p.unit.full}
    left = [p for p in functions.values() if isinstance(p.unit, ir.Function) and _is_device(program, p.unit)]
    found: set[str] = set()
    while left:
        called = left.pop().full & functions.keys() - found
        found |= called
        left += [functions[name] for name in called]
    return found


def _is_device(program: Program, function: ir.Function) -> bool:
    """Whether the body of `function` is kernel code."""
    if program.kernel(function) is not None or function.name in program.survey.compiled or takes_tiles(function):
        return True
    for decorator in function.decorators:
        target = decorator.func if isinstance(decorator, ir.Call) else decorator
        full = target.full if isinstance(target, ir.Name | ir.Attr) else None
        if full is not None and full.startswith(("numba.", "numba_cuda.", "tilecheck.", "cuda.tile.")):
            return True
    return False
