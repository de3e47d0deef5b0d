"""What lowering carries along the source of one function: instructions, variables, what is known of values.

Blocks nest: `gather` runs a part of the lowering into a block of its own. Values join where paths meet; a loop's body
is lowered twice, first to learn what a round changes, then for good, so that what it emits holds in every round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Literal

from tilecheck.borrow.contracts import adopted, is_device_function
from tilecheck.borrow.decisions import Conditions
from tilecheck.borrow.launch import OpenLaunch, TileLaunch
from tilecheck.borrow.numbers import Scalar, number, whole
from tilecheck.borrow.program import Program
from tilecheck.borrow.spell import spell
from tilecheck.borrow.types import value_of_type
from tilecheck.borrow.values import (
    NOTHING,
    Array,
    Items,
    KernelValue,
    Nothing,
    Number,
    Table,
    Thing,
    Value,
    item_of,
    join,
)
from tilecheck.borrow.vocabulary import canonical
from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir import host as ir
from tilecheck.ir import instructions
from tilecheck.ir.flow import Block
from tilecheck.ir.instructions import Instr, Kind, Site, Touch, Var


@dataclass(frozen=True, slots=True)
class Operand:
    """A lowered expression: the variable that names its object, None for a plain value, and what is known of it."""

    var: Var | None
    value: Value = NOTHING


@dataclass(frozen=True, slots=True)
class Reading:
    """The body of `called` as a part of the caller, `by` a call in it: see `Context`."""

    called: ir.Lambda | ir.Function
    at: Span
    renamed: dict[str, Var]
    called_as: tuple[str, str] | None = None
    by: Span | None = None


Where = Literal["", "then", "scope"]


_WAITS = (instructions.SyncStream, instructions.SyncEvent, instructions.Finish, instructions.Clobber)


@dataclass
class Context:
    """The state of lowering one function of `program`.

    `lambdas` are the lambdas met; `called_back` are expressions for functions that a running op calls (`then`);
    `scope` is what the graph scope around is called; `stream` is the current one of torch, None for the default; `policy`
    is the one that `tc.streams(...)` picks, any for all that is known;
    `attributes` are fields of `self` that the class makes; `opened` are launches of kernels with open dtypes,
    `shown` those of tile kernels whose numbers the file shows;
    `tested` are the remainders that the function asks for, as written; `mentions` counts how often it reads a
    variable, `aliased` are those that it gives a further name;
    inside of a function that is read where it is called, `renamed` are its own variables, `inlined` the
    functions around, and `at` is the call; `called_as` is what the user calls a result of it, and the call as written,
    None in a lambda; `inside` is the call in the outermost of them by which the ones further in are read; `called` are all functions that were read like that.
    `set_at` says how many loops are around the innermost place where a variable is set. `on_host`
    says that the function does what only the host can; any other may yet be compiled by somebody, and `is_of_host` asks
    whether it does so with what is ours. `conditions` are those
    that the function asks more than once; `is_given` and `bindings` are those of `Launch`;
    `evaluated` are the conditions under which each operand of an `and` or `or` but the first was evaluated, if one binds a name;
    `unread` is the expression being read if nobody uses what it gives, `asserting` says that it is what a test asserts. `waited` says that something has been waited for, or may have been.
    """

    program: Program
    env: dict[str, Value] = field(default_factory=dict)
    code: list[Instr] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    shown: list[TileLaunch] = field(default_factory=list)
    opened: list[OpenLaunch] = field(default_factory=list)
    tested: frozenset[str] = frozenset()
    mentions: Counter[str] = field(default_factory=Counter)
    lambdas: dict[ir.Lambda, None] = field(default_factory=dict)
    renamed: dict[str, Var] = field(default_factory=dict)
    inlined: tuple[ir.Lambda | ir.Function, ...] = ()
    at: Span | None = None
    called_as: tuple[str, str] | None = None
    inside: Span | None = None
    called: set[ir.Lambda | ir.Function] = field(default_factory=set)
    on_host: bool = False
    called_back: set[ir.Expr] = field(default_factory=set)
    where: Where = ""
    in_async: bool = False
    scope: str = ""
    loops: int = 0
    set_at: dict[Var, int] = field(default_factory=dict)
    trials: int = 0
    stream: Var | None = None
    policy: Var | None = None
    attributes: dict[str, tuple[Kind, Value]] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)
    is_of_host: Callable[[], bool] = lambda: False
    is_given: Callable[[ir.Attr], bool] = lambda _: True
    bindings: Callable[[str], tuple[ir.Expr | None, ...]] = lambda _: ()
    evaluated: dict[ir.Logic, tuple[str, ...]] = field(default_factory=dict)
    aliased: set[str] = field(default_factory=set)
    unread: ir.Expr | None = None
    asserting: bool = False
    waited: bool = False
    _temps: Iterator[int] = field(default_factory=count)

    # ---- instructions

    def emit(self, instr: Instr) -> None:
        self.waited = self.waited or isinstance(instr, _WAITS)
        self.code.append(instr if self.at is None else self._told(instr, self.at))

    def _told(self, instr: Instr, at: Span) -> Instr:
        """`instr` of a function that is read where it is called: it is told at the call."""
        if self.called_as is None:
            return replace(instr, span=at)
        result, call = self.called_as
        inner = instr.inner or self.inside or instr.span
        changed: dict[str, Any] = {"span": at, "inner": inner}
        site: Site | None = getattr(instr, "site", None)
        if site is not None:
            name = call if site.kind in (Kind.OP, Kind.SHARED_OP, Kind.RUNNING, Kind.JOB) else result
            changed["site"] = Site(
                site.kind, name, at, site.scope, site.in_async, site.inner or self.inside or site.span
            )
        if isinstance(instr, instructions.Build | instructions.Lend | instructions.Enqueue):
            changed["uses"] = tuple(replace(use, span=at) for use in instr.uses)
        if isinstance(instr, instructions.Lend):
            changed["given"] = tuple(replace(use, span=at) for use in instr.given)
        return replace(instr, **changed)

    @contextmanager
    def reading(self, part: Reading) -> Iterator[None]:
        """Read the body of a function at a call of it."""
        outer = (self.renamed, self.inlined, self.at, self.called_as, self.inside)
        asked = self.conditions
        self.conditions = Conditions()
        if isinstance(part.called, ir.Function):
            self.conditions = replace(self.program.conditions(part.called), reading=f"{self.temp()} ")
        if self.called_as is not None and self.inside is None:
            self.inside = part.by
        self.renamed, self.at, self.called_as = part.renamed, part.at, part.called_as
        self.inlined = (*self.inlined, part.called)
        self.called.add(part.called)
        yield
        self.renamed, self.inlined, self.at, self.called_as, self.inside = outer
        self.conditions = asked

    def temp(self) -> Var:
        return f"%{next(self._temps)}"

    def number_of_site(self) -> int:
        """A number of its own, for a reshape or a split."""
        return next(self._temps)

    def make(self, kind: Kind, name: str, span: Span) -> Var:
        """A variable that names a new object."""
        var = self.temp()
        self.emit(instructions.Make(var, Site(kind, name, span), span=span))
        return var

    def object_of(self, operand: Operand, node: ir.Expr) -> Var:
        """The variable of `operand`, a new object for a plain value."""
        counted = isinstance(operand.value, Items | Table)
        kind = Kind.NONE if operand.value == Number(None) else Kind.CONTAINER if counted else Kind.OTHER
        return operand.var if operand.var is not None else self.make(kind, spell(node), node.span)

    def look(self, operand: Operand, node: ir.Expr, touch: Touch = Touch.LOOK, by: str | None = None) -> None:
        """Host code uses `operand`, as `node` says."""
        if operand.var is not None:
            self.emit(instructions.Access(operand.var, touch, by or spell(node), span=node.span))

    def escape(self, operand: Operand, span: Span) -> None:
        if operand.var is not None:
            self.emit(instructions.Escape(operand.var, span=span))

    @contextmanager
    def asserted(self) -> Iterator[None]:
        """What is read inside is read to be tested."""
        outer, self.asserting = self.asserting, True
        yield
        self.asserting = outer

    @contextmanager
    def gather(self) -> Iterator[list[Instr]]:
        """Collect what is emitted inside into a block of its own."""
        outer, self.code = self.code, []
        try:
            yield self.code
        finally:
            self.code = outer

    # ---- values

    def key(self, node: ir.Expr) -> str | None:
        """Under which name the value of a variable, attribute or constant subscript is kept."""
        match node:
            case ir.Name(id=name):
                return self.renamed.get(name, name)
            case ir.Attr(base=base, name=name):
                base_key = self.key(base)
                return f"{base_key}.{name}" if base_key is not None else None
            case ir.Sub(base=base, index=ir.Const(value=index, known=True)):
                base_key = self.key(base)
                return f"{base_key}[{index!r}]" if base_key is not None else None
            case _:
                return None

    def known(self, node: ir.Expr) -> Value:
        """What is known of `node` without evaluating it."""
        if isinstance(node, ir.Const) and node.known:
            return Number(node.value)
        full = node.full if isinstance(node, ir.Name | ir.Attr) else None
        if full is not None:
            return self.program.value(full) or NOTHING
        key = self.key(node)
        if key is not None and key in self.env:
            return self.env[key]
        if isinstance(node, ir.Name) and (constant := self.program.constants.get(node.id)) is not None:
            survey = self.program.survey
            return self._constant(constant, node.id not in survey.lent | survey.renamed)
        if isinstance(node, ir.Sub) and isinstance(node.index, ir.Const) and node.index.known:
            whole = self.known(node.base)
            item = item_of(whole, node.index.value) if isinstance(whole, Items | Table) else NOTHING
            if isinstance(whole, Items) and not whole.loose:
                return item
            # A list or dict has numbers that are written down, unless it may be changed under another name.
            shared = isinstance(node.base, ir.Name) and node.base.id in self.aliased
            return item if isinstance(item, Number | Items | Table) and not shared else NOTHING
        if isinstance(node, ir.Attr) and node.name not in self.program.survey.stored:
            thing = self.known(node.base)
            made = dict(thing.fields).get(node.name) if isinstance(thing, Thing) else None
            return made if isinstance(made, Number) else NOTHING
        return NOTHING

    def device_function(self, node: ir.Expr) -> bool:
        """Whether `node` names a function that numba compiles for other kernels to call."""
        full = node.full if isinstance(node, ir.Name | ir.Attr) else None
        found = self.program.find(full) if full is not None else None
        return isinstance(found, ir.Function) and is_device_function(found)

    def made_kernel(self, node: ir.Call) -> Value:
        """The kernel that `tc.adopt(kernel)`, `kernel.where(...)` or `kernel.with_hints(...)` makes, else nothing."""
        if canonical(node.func) == "tilecheck.adopt" and node.args:
            kernel = self.known(node.args[0].value)
            return KernelValue(adopted(kernel.facts)) if isinstance(kernel, KernelValue) else NOTHING
        if not isinstance(node.func, ir.Attr) or node.func.name not in ("where", "with_hints"):
            return NOTHING
        base = node.func.base
        kernel = self.made_kernel(base) if isinstance(base, ir.Call) else self.known(base)
        if isinstance(kernel, Nothing) and base.type is not None:
            kernel = value_of_type(base.type) or kernel
        if node.func.name == "with_hints":
            return kernel if isinstance(kernel, KernelValue) else NOTHING
        if not isinstance(kernel, KernelValue) or any(arg.name is None for arg in node.args):
            return NOTHING
        bound = dict(kernel.bound)
        bound.update({arg.name: self.whole(arg.value) for arg in node.args if arg.name is not None})
        return KernelValue(kernel.facts, bound, kernel.config)

    def _constant(self, node: ir.Expr, unchanged: bool) -> Value:
        """What the module variable is that is set to `node` once; if `unchanged`, no item of it is set either."""
        if isinstance(node, ir.Call) and not isinstance(made := self.made_kernel(node), Nothing):
            return made
        found = number(node, self.known) if not isinstance(node, ir.Name) else None
        if found is not None:
            return Number(found)
        if isinstance(node, ir.Display):
            return self._display(node, unchanged)
        return Number(node.value) if isinstance(node, ir.Const) and node.known else NOTHING

    def _display(self, node: ir.Display, unchanged: bool) -> Value:
        """A tuple of numbers, or a tuple, list or dict of kernels: they hold nothing themselves. A list or dict of numbers is
        one that is `unchanged`.
        """
        values = tuple(self._item(item, unchanged) for item in node.items)
        if node.kind == "tuple" and values and all(isinstance(value, Number) for value in values):
            return Items(values)
        keys = tuple(key.value for key in node.keys if isinstance(key, ir.Const) and key.known)
        plain = unchanged and any(isinstance(value, Number | Items | Table) for value in values)
        if not values or not (plain or all(isinstance(value, KernelValue) for value in values)):
            return NOTHING
        if node.kind == "dict":
            return Table(keys, values) if len(keys) == len(values) else NOTHING
        return Items(values) if node.kind != "set" else NOTHING

    def _item(self, node: ir.Expr, unchanged: bool) -> Value:
        if isinstance(node, ir.Display):
            return self._display(node, unchanged)
        found = self.number(node) if isinstance(node, ir.Operation) else None
        return Number(found) if found is not None else self.known(node)

    def number(self, node: ir.Expr) -> int | float | None:
        return number(node, self.known)

    def whole(self, node: ir.Expr) -> int | None:
        return whole(node, self.known)

    def scalar(self, node: ir.Expr) -> Scalar:
        """A constant of any type, None if `node` is none."""
        value = self.known(node)
        return value.value if isinstance(value, Number) else None

    def set(self, node: ir.Expr, value: Value) -> None:
        """`node = value`: what was known of its attributes and items is not any more."""
        key = self.key(node)
        if key is None:
            return
        for other in [name for name in self.env if name.startswith((f"{key}.", f"{key}["))]:
            del self.env[other]
        self.env[key] = value

    def assume(self, found: dict[str, Value]) -> None:
        """Join the variables of another path into this one."""
        self.env = {
            key: join(self.env.get(key, NOTHING), found.get(key, NOTHING)) for key in self.env.keys() | found.keys()
        }

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Lower something only to learn what it does to values; nothing that it emits or reports is kept."""
        mark, opened, shown = len(self.faults), len(self.opened), len(self.shown)
        self.trials += 1
        with self.gather():
            yield
        self.trials -= 1
        del self.faults[mark:], self.opened[opened:], self.shown[shown:]

    def settle(self, once: Callable[[], object]) -> None:
        """Forget of the variables what does not hold at the start of each round of a loop whose body `once` lowers.

        In a trial one round is enough, and it is lowered anyway: nested loops cost the square of their depth.
        """
        if self.trials:
            return
        before = dict(self.env)
        with self.trial():
            once()
        self.assume(before)

    def set_anew(self) -> frozenset[str]:
        """The variables that were set in the loop in hand, or deeper: their values are those of one round."""
        return frozenset(name for name, depth in self.set_at.items() if depth >= self.loops)

    def fault(self, rule: str, message: str, span: Span, help: str | None = None) -> None:
        self.faults.append(Fault(rule, message, span, help=help))

    def block_of(self, lower: Callable[[], object]) -> Block:
        """What `lower` emits, as a block."""
        with self.gather() as code:
            lower()
        return tuple(code)


def is_ours(value: Value) -> bool:
    return isinstance(value, Array) and value.library == "tilecheck"
