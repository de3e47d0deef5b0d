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
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir import host as ir

Unit = ir.HostModule | ir.Function | ir.Lambda | ir.Class


@dataclass(slots=True)
class Survey:
    """What `unit` mentions; `full` are the dotted names, `compiled` the names handed to `cuda.jit`; `launches` says that
    it calls something with a launch configuration, `typed` that a type checker knows some of the values.
    """

    unit: Unit
    names: Counter[str] = field(default_factory=Counter)
    assigned: Counter[str] = field(default_factory=Counter)
    declared: set[str] = field(default_factory=set)
    remainders: set[str] = field(default_factory=set)
    full: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)
    compiled: set[str] = field(default_factory=set)
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
        self.launches = self.launches or inner.launches
        self.typed = self.typed or inner.typed


def survey(module: ir.HostModule) -> Survey:
    """The survey of a file, with those of its functions, lambdas and classes nested in it."""
    found = Survey(module)
    _walk(found, module.body)
    return found


def _walk(into: Survey, roots: Iterable[ir.HostNode]) -> None:
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, ir.Function | ir.Lambda | ir.Class):
            inner = Survey(node)
            _walk(inner, ir.children(node))
            if not isinstance(node, ir.Lambda):
                into.assigned[node.name] += 1
            into.take(inner)
            continue
        _count(into, node)
        stack.extend(ir.children(node))


def _count(into: Survey, node: ir.HostNode) -> None:
    if isinstance(node, ir.Expr) and node.type is not None:
        into.typed = True
    match node:
        case ir.Name(id=name, full=None):
            into.names[name] += 1
        case ir.Name(full=str() as full) | ir.Attr(full=str() as full):
            into.full.add(full)
        case ir.Attr(name=name):
            into.attributes.add(name)
        case ir.Call(func=func, args=args, contract=contract):
            into.typed = into.typed or contract is not None
            into.launches = into.launches or isinstance(func, ir.Sub)
            maker = func.func if isinstance(func, ir.Call) else func
            if canonical(maker) == "numba.cuda.jit":
                into.compiled.update(arg.value.id for arg in args if isinstance(arg.value, ir.Name))
        case ir.Operation(op="%"):
            into.remainders.add(spell(node))
        case ir.Assign(targets=targets):
            into.assigned.update(name for target in targets for name in target_names(target))
        case ir.Augment(target=ir.Name(id=name)):
            # It is read as well, so it counts as mentioned twice.
            into.names[name] += 1
            into.assigned[name] += 1
        case ir.For(target=target) | ir.Clause(target=target):
            into.assigned.update(target_names(target))
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
