"""The grammar of launch conditions: `requires="a.size >= c.size and n % 32 == 0"`, in both tracks.

    condition  := part ("and" part)*
    part       := comparison | "distinct(a)" | "nondecreasing(a)"
    comparison := sum (("==" | "!=" | "<" | "<=" | ">" | ">=") sum)+
    sum        := + - * // % over: ints, scalars, `a.size`, `a.shape[k]`, Dims,
                  `gridDim.x`, and in SIMT kernels `blockDim.x`

An array alone on one side of a comparison means each of its elements: `0 <= idx < x.size` (`contents.py`).

Python's precedence and Python's floor division. Unknown names, axes that an array has not, a divisor that is zero and
anything else raise `RequiresError`, whose words stand alone; the caller adds the place.

    parse("x.size >= z.size", vocabulary)  ->  (Comparison(">=", x.size, z.size),)
    parse("distinct(perm)", vocabulary)    ->  (Ordered("perm", "distinct"),)
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from tilecheck.ir.kernel import Kernel, TensorParam
from tilecheck.ir.types import ArrayExtent, DimExtent
from tilecheck.symbolic.contents import MIRRORED, ORDERS, Bounded, ElementFact, Ordered, Relation
from tilecheck.symbolic.linear import Atom, LaunchAxis, Poly, Scalar, Size, divide

_RELATIONS: dict[type[ast.cmpop], Relation] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


class RequiresError(Exception):
    """A condition that does not parse or speaks of what is not there: `message`, and `help` with a way out."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left relation right`; `written` is how the user wrote it, if a user did."""

    relation: Relation
    left: Poly
    right: Poly
    written: str = ""

    @property
    def text(self) -> str:
        """The comparison in the grammar above."""
        return self.written or f"{self.left} {self.relation} {self.right}"

    def holds(self, value: Callable[[Atom], int]) -> bool:
        """Whether it is true at a launch. Raises `Unresolved` if an operand has no value."""
        a, b = self.left.evaluate(value), self.right.evaluate(value)
        outcomes = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
        return outcomes[self.relation]

    def shown(self, value: Callable[[Atom], int]) -> str:
        """What its operands are at a launch, numbers left out: "`x.size` is 64, `n * stride` is 96". Raises `Unresolved`."""
        left, sign, right = self.text.partition(f" {self.relation} ")
        sides = ((left if sign else str(self.left), self.left), (right if sign else str(self.right), self.right))
        return ", ".join(f"`{text}` is {side.evaluate(value)}" for text, side in sides if any(side.atoms()))


Requirement = Comparison | ElementFact


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What conditions may speak of: ranks of arrays (None: open), int scalars, Dims by name, and launch variables."""

    arrays: Mapping[str, int | None]
    scalars: frozenset[str]
    dims: Mapping[str, Atom | int] = field(default_factory=dict)
    launch: frozenset[str] = frozenset({"gridDim"})


def vocabulary(kernel: Kernel) -> Vocabulary:
    """What the conditions of `kernel` may speak of."""
    arrays: dict[str, int | None] = {}
    scalars: set[str] = set()
    for param in kernel.params:
        if isinstance(param, TensorParam):
            arrays[param.name] = None if param.extents is None else len(param.extents)
        elif param.kind in ("int", None):
            scalars.add(param.name)
    dims: dict[str, Atom | int] = {
        decl.name: decl.size if decl.size is not None else DimExtent(key, decl.name)
        for key, decl in kernel.dims.items()
    }
    launch = frozenset({"gridDim"}) if kernel.track == "tile" else frozenset({"gridDim", "blockDim"})
    return Vocabulary(arrays, frozenset(scalars), dims, launch)


def requirements(kernel: Kernel) -> tuple[Requirement, ...]:
    """The parts of `requires` of `kernel`, () if there are none or they do not parse."""
    text = kernel.options.get("requires")
    if not isinstance(text, str) or not text.strip():
        return ()
    try:
        return parse(text, vocabulary(kernel))
    except RequiresError:
        return ()


def comparisons(kernel: Kernel) -> tuple[Comparison, ...]:
    """The comparisons among the parts of `requires`."""
    return tuple(part for part in requirements(kernel) if isinstance(part, Comparison))


def element_facts(kernel: Kernel) -> tuple[ElementFact, ...]:
    """What `requires` says of array elements."""
    return tuple(part for part in requirements(kernel) if not isinstance(part, Comparison))


def parse(text: str, words: Vocabulary) -> tuple[Requirement, ...]:
    """The parts of a condition. Raises `RequiresError`."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise RequiresError(f"the condition `{text}` does not parse", "write comparisons, joined by `and`") from None
    return tuple(_Parser(words).condition(tree))


@dataclass(slots=True)
class _Parser:
    words: Vocabulary

    def condition(self, node: ast.expr) -> list[Requirement]:
        match node:
            case ast.BoolOp(op=ast.And(), values=values):
                return [part for value in values for part in self.condition(value)]
            case ast.Call(func=ast.Name(id=word)):
                return [self.order(word, node)]
            case ast.Compare(left=left, ops=ops, comparators=rights):
                found: list[Requirement] = []
                for op, a, b in zip(ops, [left, *rights[:-1]], rights, strict=True):
                    if type(op) not in _RELATIONS:
                        raise _unknown(node, "compare with `== != < <= > >=`")
                    found.append(self.compared(_RELATIONS[type(op)], a, b))
                return found
            case ast.BoolOp():
                raise _unknown(node, "join conditions with `and`; all of them must hold")
            case _:
                raise _unknown(node, "a condition compares two numbers, such as `x.size >= z.size`")

    def compared(self, relation: Relation, left: ast.expr, right: ast.expr) -> Requirement:
        text = f"{ast.unparse(left)} {relation} {ast.unparse(right)}"
        match self.elements(left), self.elements(right):
            case None, None:
                return Comparison(relation, self.sum(left), self.sum(right), text)
            case str(array), None:
                return Bounded(array, relation, self.sum(right), text)
            case None, str(array):
                return Bounded(array, MIRRORED[relation], self.sum(left), text)
        raise RequiresError(f"`{text}` compares two arrays", "compare the elements of one array with a number")

    def elements(self, node: ast.expr) -> str | None:
        """The array whose elements a side of a comparison means."""
        if isinstance(node, ast.Name) and node.id in self.words.arrays and node.id not in self.words.dims:
            return node.id
        return None

    def order(self, word: str, call: ast.Call) -> ElementFact:
        """`distinct(a)` or `nondecreasing(a)`."""
        if word not in ORDERS:
            raise _unknown(call, f"of an array it can say {' and '.join(f'`{known}(a)`' for known in ORDERS)}")
        match call.args, call.keywords:
            case [ast.Name(id=array)], []:
                rank = self.array(array)
                if word == "nondecreasing" and rank is not None and rank != 1:
                    raise RequiresError(
                        f"`{ast.unparse(call)}`: `{array}` has rank {rank}, and one order for rank 1 only"
                    )
                return Ordered(array, ORDERS[word])
        raise RequiresError(f"`{ast.unparse(call)}` is of no array", f"name one array parameter: `{word}(a)`")

    def sum(self, node: ast.expr) -> Poly:
        match node:
            case ast.Constant(value=int(value)) if not isinstance(value, bool):
                return Poly.of(value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.sum(operand)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.sum(operand)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.sum(left) + self.sum(right)
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self.sum(left) - self.sum(right)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self.sum(left) * self.sum(right)
            case ast.BinOp(left=left, op=ast.FloorDiv() | ast.Mod() as op, right=right):
                divisor = self.sum(right)
                if divisor.constant == 0:
                    raise RequiresError(f"`{ast.unparse(node)}` divides by zero")
                return divide("//" if isinstance(op, ast.FloorDiv) else "%", self.sum(left), divisor)
            case ast.Name(id=name):
                return self.name(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                return self.attribute(name, attr)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id=array), attr="shape"), slice=index):
                return self.extent(array, index)
            case _:
                raise _unknown(node, "use `+ - * // %` over ints, scalars, `a.size` and `a.shape[k]`")

    def name(self, name: str) -> Poly:
        if name in self.words.scalars:
            return Poly.of(Scalar(name))
        if name in self.words.dims:
            return Poly.of(self.words.dims[name])
        if name in self.words.arrays:
            raise RequiresError(
                f"`{name}` is an array",
                f"name its extent, `{name}.size`, or say one thing of all its elements: `0 <= {name} < n`",
            )
        raise RequiresError(f"`{name}` is no int parameter of the kernel", self.known())

    def attribute(self, name: str, attr: str) -> Poly:
        if name in self.words.launch and attr in ("x", "y", "z"):
            kind = cast("Literal['gridDim', 'blockDim']", name)
            return Poly.of(LaunchAxis(kind, "xyz".index(attr)))
        if name in ("gridDim", "blockDim"):
            raise RequiresError(f"`{name}.{attr}` is nothing that a launch of this kernel has", self.known())
        self.array(name)
        if attr == "size":
            return Poly.of(Size(name))
        raise RequiresError(f"`{name}.{attr}` is no number", f"use `{name}.size` or `{name}.shape[0]`")

    def extent(self, array: str, index: ast.expr) -> Poly:
        rank = self.array(array)
        axis = self.sum(index).constant
        if axis is None:
            raise RequiresError(f"`{array}.shape[{ast.unparse(index)}]`: the axis is no number")
        if axis < 0 or (rank is not None and axis >= rank):
            shown = "unknown rank" if rank is None else f"rank {rank}"
            raise RequiresError(f"`{array}.shape[{axis}]` is no axis of `{array}`, which has {shown}")
        return Poly.of(ArrayExtent(array, axis))

    def array(self, name: str) -> int | None:
        if name not in self.words.arrays:
            raise RequiresError(f"`{name}` is no array parameter of the kernel", self.known())
        return self.words.arrays[name]

    def known(self) -> str:
        names = [f"`{n}`" for n in (*sorted(self.words.arrays), *sorted(self.words.scalars))]
        return f"its parameters are {', '.join(names)}" if names else "it has no parameters that a condition can name"


def _unknown(node: ast.expr, help: str) -> RequiresError:
    return RequiresError(f"`{ast.unparse(node)}` is not part of the language of conditions", help)
