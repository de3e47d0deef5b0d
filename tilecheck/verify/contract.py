"""The launch contract of an annotated kernel, `@tc.simt(block=..., requires=...)`, as facts of the walk.

The contract is enforced before each launch, so the walk may take it for granted: `block` fixes the block extents, and
every comparison of `requires` becomes a fact of the launch symbols that it mentions. What it says of the elements of an
array becomes a fact of the values that are loaded from it (`known.py`).

Worked example: under `requires="x.size >= z.size"` the symbols `x.size` and `z.size` carry that fact, and every
question that mentions one of them knows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir.kernel import Access, Kernel, TensorParam
from tilecheck.ir.simt import Atomic, FillSlice, Store
from tilecheck.ir.types import ArrayExtent
from tilecheck.symbolic import linear
from tilecheck.symbolic.contents import Bounded, ElementFact
from tilecheck.symbolic.linear import LaunchAxis, Poly, Quotient, Size
from tilecheck.symbolic.requires import Comparison, RequiresError, comparisons, parse, vocabulary
from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_solver import OutOfBudget, Solver
from tilecheck.symbolic.smt_symbols import Symbols, give_fact
from tilecheck.symbolic.smt_terms import COMPARE, ONE, ZERO, add, div, mod, mul, num, scale, sub, variable
from tilecheck.verify.known import Known, loads_of
from tilecheck.verify.run import Dims, Run
from tilecheck.verify.usage import Usage
from tilecheck.verify.values import Value, View, whole


class Contract:
    """The contract of one walk: what its atoms stand for."""

    def __init__(self, symbols: Symbols, dims: Dims, arguments: dict[str, Value], scalars: dict[str, Term]) -> None:
        self._symbols = symbols
        self._dims = dims
        self._arguments = arguments
        self._scalars = scalars
        self._extents: dict[str, Term] = {}
        # What `requires` says, as facts.
        self.facts: list[Term] = []

    def impose(self, kernel: Kernel) -> tuple[str, ...]:
        """Make the conditions of `kernel` facts; their texts. A condition that does not parse is no fact."""
        texts: list[str] = []
        for comparison in comparisons(kernel):
            fact = self.term(comparison)
            self.facts.append(fact)
            for symbol in sorted(fact.symbols, key=lambda s: s.order):
                give_fact(variable(symbol), fact)
            texts.append(comparison.text)
        return tuple(texts)

    def contents(self, run: Run, facts: Iterable[ElementFact]) -> tuple[str, ...]:
        """Make what is said of array elements facts of `run`; the texts of all, used or not.

        Nothing is used of an array that the kernel writes, or that is a window on memory which other arguments share.
        """
        texts: list[str] = []
        for fact in facts:
            texts.append(fact.text)
            view, array = self._arguments.get(fact.array), run.arrays.get(fact.array)
            if array is None or array.written or view != whole(array):
                continue
            known = run.known.setdefault(loads_of(array), Known(array.extents, required=True))
            if isinstance(fact, Bounded):
                known.bounds.append((fact.relation, self._poly(fact.bound)))
            elif fact.order == "distinct":
                known.distinct = True
            else:
                known.nondecreasing = len(array.extents) == 1
        return tuple(texts)

    def term(self, comparison: Comparison) -> Term:
        return COMPARE[comparison.relation](self._poly(comparison.left), self._poly(comparison.right))

    def _poly(self, poly: Poly) -> Term:
        total = ZERO
        for monomial, coefficient in poly.terms:
            product = ONE
            for atom in monomial:
                product = mul(product, self._atom(atom))
            total = add(total, scale(product, coefficient))
        return total

    def _atom(self, atom: linear.Atom) -> Term:
        match atom:
            case linear.Scalar(name):
                return self._scalars.get(name) or self._unknown(name)
            case Size(array):
                view = self._arguments.get(array)
                return view.size if isinstance(view, View) else self._unknown(f"{array}.size")
            case ArrayExtent(array, axis):
                view = self._arguments.get(array)
                if isinstance(view, View) and axis < len(view.free):
                    return view.free[axis].length
                return self._unknown(f"{array}.shape[{axis}]")
            case LaunchAxis("gridDim", axis):
                return self._dims.grid[axis]
            case LaunchAxis("blockDim", axis):
                return self._dims.block[axis]
            case Quotient("//", left, right):
                return div(self._poly(left), self._poly(right))
            case Quotient("%", left, right):
                return mod(self._poly(left), self._poly(right))
            case Quotient("ceil", left, right):
                over, under = self._poly(left), self._poly(right)
                return div(sub(add(over, under), num(1)), under)
        return self._unknown(str(atom))

    def _unknown(self, name: str) -> Term:
        """A value of the launch that the walk has no term for, such as a Dim; one symbol per name."""
        if name not in self._extents:
            self._extents[name] = self._symbols.fresh(name, Level.GRID, Taint.INPUT, 0)
        return self._extents[name]


def contradictions(kernel: Kernel, solver: Solver, facts: Sequence[Term]) -> Iterator[Fault]:
    """The refusal of a contract that no launch can keep: whatever the kernel does would be proved under it."""
    try:
        if not facts or not solver.refutes(facts):
            return
    except OutOfBudget:
        return
    message = f"no launch can keep what `{kernel.name}` requires: `{kernel.options.get('requires')}`"
    help = "take out what contradicts the rest, the block or the extents of the arrays, none of which is 0"
    yield Fault("launch-contract", message, kernel.span, kernel.name, help=help)


def faults(kernel: Kernel, usage: Usage) -> tuple[Fault, ...]:
    """What is wrong with the contract itself, and the stores that its accesses forbid."""
    found: list[Fault] = []
    text = kernel.options.get("requires")
    if isinstance(text, str) and text.strip():
        try:
            parse(text, vocabulary(kernel))
        except RequiresError as error:
            message = f"the contract of `{kernel.name}` cannot be read: {error.message}"
            found.append(Fault("launch-contract", message, kernel.span, kernel.name, help=error.help))
    shared = {p.name: p for p in kernel.params if isinstance(p, TensorParam) and p.access is Access.SHARED}
    for node in usage.nodes:
        if isinstance(node, Store | Atomic | FillSlice):
            for name in sorted(usage.roots(node.array) & shared.keys()):
                message = f"`{name}` is `Shared` in `{kernel.name}`, and is written"
                label = Label(shared[name].span, f"`{name}` is declared here")
                help = f"declare `{name}: Tensor[Mut, ...]`, and pass an exclusive borrow"
                found.append(Fault("write-to-shared", message, node.span, kernel.name, (label,), help))
    return tuple(found)
