"""What each function of a file mentions: names, assignments, callees, in one pass over the tree.

Everything that lowering asks about a whole body is answered from here, so that no body is walked twice. A survey
includes the functions nested in it.

Worked example: of `def f(n):  global g;  g = n % 4;  return k(n)` the survey reads `n` twice, assigns and declares `g`,
and knows the remainder `n % 4`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tilecheck.borrow.spell import spell
from tilecheck.borrow.vocabulary import HARMLESS, canonical
from tilecheck.ir import host as ir

Unit = ir.HostModule | ir.Function | ir.Lambda | ir.Class


@dataclass(slots=True)
class Survey:
    """What `unit` mentions; `full` are the dotted names, `compiled` the names handed to `cuda.jit`; `launches` says that
    it calls something with a launch configuration, `typed` that a type checker knows some of the values. `tests` are
    what it branches on, `flags` the variables that a constant is given to, `counted` those of loops over numbers, `used` those that are more than tested, so that
    they may be containers: an attribute or an item is asked for, they are passed on or iterated over. `lent` are those of
    containers that may be changed: an item is set, a method is called, they are passed on; `renamed` got a further name.
    `stored` are the
    fields that it sets, unless it is a constructor.
    """

    unit: Unit
    names: Counter[str] = field(default_factory=Counter)
    assigned: Counter[str] = field(default_factory=Counter)
    declared: set[str] = field(default_factory=set)
    remainders: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    compiled: set[str] = field(default_factory=set)
    tests: list[ir.Expr] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    lent: set[str] = field(default_factory=set)
    renamed: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    launches: bool = False
    typed: bool = False
    nested: list[Survey] = field(default_factory=list)

    @property
    def params(self) -> tuple[ir.HostParam, ...]:
        return self.unit.params if isinstance(self.unit, ir.Function | ir.Lambda) else ()

    @property
    def local(self) -> set[str]:
        """The names that the unit binds, those of nested functions included."""
        return {param.name for param in self.params} | self.assigned.keys()

    @property
    def reads(self) -> Counter[str]:
        """How often the unit reads each variable."""
        found = Counter(self.names)
        found.subtract(self.assigned)
        return found

    def units(self) -> Iterator[Survey]:
        """This survey and those of everything nested, outermost first."""
        yield self
        for inner in self.nested:
            yield from inner.units()

    def take(self, inner: Survey) -> None:
        """Count what a nested unit mentions as mentioned here."""
        self.nested.append(inner)
        self.names.update(inner.names)
        self.assigned.update(inner.assigned)
        self.declared |= inner.declared
        self.remainders |= inner.remainders
        self.full |= inner.full
        self.attributes |= inner.attributes
        self.compiled |= inner.compiled
        self.used |= inner.used
        self.lent |= inner.lent
        self.renamed |= inner.renamed
        if not (isinstance(inner.unit, ir.Function) and inner.unit.name in CONSTRUCTORS):
            self.stored |= inner.stored
        self.launches = self.launches or inner.launches
        self.typed = self.typed or inner.typed


_PLAIN = ("builtins.bool", "builtins.int", "builtins.float", "builtins.str")
CONSTRUCTORS = ("__init__", "__post_init__", "__new__", "setup", "setUp", "setup_method")


def survey(module: ir.HostModule) -> Survey:
    """The survey of a file, with those of its functions, lambdas and classes nested in it."""
    found = Survey(module)
    _walk(found, module.body)
    return found


def _walk(into: Survey, roots: Iterable[ir.HostNode]) -> None:
    stack = list(roots)
    children = ir.children
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind in _UNITS:
            assert isinstance(node, ir.Function | ir.Lambda | ir.Class)
            inner = Survey(node)
            _walk(inner, children(node))
            if not isinstance(node, ir.Lambda):
                into.assigned[node.name] += 1
            into.take(inner)
            continue
        if isinstance(node, ir.Expr) and node.type is not None:
            into.typed = True
        if kind is ir.Name:
            # By far the most frequent.
            assert isinstance(node, ir.Name)
            if node.full is None:
                into.names[node.id] += 1
            else:
                into.full.add(node.full)
        elif kind not in _LEAVES:
            if kind in _COUNTED:
                _count(into, node)
            stack += children(node)


_UNITS = frozenset({ir.Function, ir.Lambda, ir.Class})
_LEAVES = frozenset({ir.Const})
_COUNTED = frozenset(
    {
        ir.Attr,
        ir.Sub,
        ir.If,
        ir.While,
        ir.Choice,
        ir.Assert,
        ir.Match,
        ir.HostParam,
        ir.Starred,
        ir.Call,
        ir.Operation,
        ir.Assign,
        ir.Augment,
        ir.For,
        ir.Clause,
        ir.Walrus,
        ir.WithItem,
        ir.Handler,
        ir.Case,
        ir.Global,
    }
)
"""The nodes about which there is something to count."""


def _count(into: Survey, node: ir.HostNode) -> None:
    match node:
        case ir.Attr(full=str() as full):
            into.full.add(full)
        case ir.Attr(base=base, name=name):
            into.attributes.add(name)
            _lend(into, base)
        case ir.Sub(base=base):
            _use(into, base)
        case ir.If(test=test) | ir.While(test=test) | ir.Choice(test=test) | ir.Assert(test=test):
            into.tests.append(test)
        case ir.Match(subject=subject, cases=cases):
            into.tests += [compared(subject, value) for case in cases for value in case.values]
        case ir.HostParam(name=name, annotation=annotation, default=default):
            plain = isinstance(annotation, ir.Name) and annotation.full in _PLAIN
            if plain or (isinstance(default, ir.Const) and default.value is not None):
                into.flags.add(name)
        case ir.Starred(value=value):
            _lend(into, value)
        case ir.Call(func=func, args=args, contract=contract):
            if not (canonical(func) or "").startswith(HARMLESS):
                for arg in args:
                    _lend(into, arg.value)
            into.typed = into.typed or contract is not None
            into.launches = into.launches or isinstance(func, ir.Sub)
            maker = func.func if isinstance(func, ir.Call) else func
            if canonical(maker) == "numba.cuda.jit":
                into.compiled.update(arg.value.id for arg in args if isinstance(arg.value, ir.Name))
        case ir.Operation(op="%"):
            into.remainders.add(spell(node))
        case ir.Assign(targets=targets):
            into.assigned.update(name for target in targets for name in target_names(target))
            into.stored.update(target.name for target in targets if isinstance(target, ir.Attr))
            for target in targets:
                _change(into, target)
            if isinstance(node.value, ir.Name) and node.value.full is None:
                into.renamed.add(node.value.id)
            if isinstance(node.value, ir.Const) and node.value.value is not None:
                into.flags.update(name for target in targets for name in target_names(target))
        case ir.Augment(target=ir.Name(id=name)):
            # It is read as well, so it counts as mentioned twice.
            into.names[name] += 1
            into.assigned[name] += 1
        case ir.Augment(target=ir.Attr(name=name)):
            into.stored.add(name)
        case ir.Augment(target=target):
            _change(into, target)
        case ir.For(target=target, source=source) | ir.Clause(target=target, source=source):
            into.assigned.update(target_names(target))
            if isinstance(source, ir.Call) and canonical(source.func) == "builtins.range":
                into.counted.update(target_names(target))
            _use(into, source)
        case ir.Walrus(target=target):
            into.assigned[target.id] += 1
        case ir.WithItem(target=ir.Expr() as target):
            into.assigned.update(target_names(target))
        case ir.Handler(name=ir.Name(id=name)):
            into.assigned[name] += 1
        case ir.Case(names=names):
            into.assigned.update(captured.id for captured in names)
        case ir.Global(names=declared):
            into.declared.update(declared)
        case _:
            pass


def _use(into: Survey, node: ir.Expr) -> None:
    if isinstance(node, ir.Name) and node.full is None:
        into.used.add(node.id)


def _lend(into: Survey, node: ir.Expr) -> None:
    if isinstance(node, ir.Name) and node.full is None:
        into.used.add(node.id)
        into.lent.add(node.id)


def _change(into: Survey, target: ir.Expr) -> None:
    """`target` is set: an item of what it names changes."""
    while isinstance(target, ir.Sub):
        target = target.base
        if isinstance(target, ir.Name):
            into.lent.add(target.id)


def compared(subject: ir.Expr, value: ir.Expr) -> ir.Expr:
    """What `case value` asks about `subject`."""
    if isinstance(value, ir.Const) and isinstance(value.value, bool):
        return subject if value.value else ir.Operation("not", (subject,), span=value.span)
    op = "is" if isinstance(value, ir.Const) and value.value is None else "=="
    return ir.Operation(op, (subject, value), span=value.span)


def target_names(target: ir.Expr) -> Iterator[str]:
    """The plain names of an assignment target."""
    match target:
        case ir.Name(id=name):
            yield name
        case ir.Display(items=items):
            for item in items:
                yield from target_names(item)
        case ir.Starred(value=value):
            yield from target_names(value)
        case _:
            pass
