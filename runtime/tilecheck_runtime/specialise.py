"""From a function to checked and compiled kernels, each step done once.

A kernel is read and checked symbolically at its first call, checked again for each new set of extents, and compiled for
each new key. The key holds whatever may change the generated code and nothing else: extents of Dims, dtypes, which axis
lies contiguous, how strongly addresses and strides divide (powers of two up to 16, never more than is true of this very
view), how strongly extents do (up to the largest tile, so that code for ragged edges can be left out), which axes are one
tile long where the kernel asks for the number of tiles (its loop is left out), map shapes, and hints. Data, scalars,
run-time extents, grids and numbers of blocks are not in it.

A kernel is read again when something it refers to changes: a module constant, a helper, a value of its closure. Each step
is single flight: threads that ask for the same thing wait for one of them to do it, and a failure is forgotten.

A shape-only argument has the key of a contiguous tensor at an address divisible by 16, so a warm-up meets the real call.
"""

from __future__ import annotations

import inspect
import linecache
import threading
import weakref
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Generic, TypeVar

from tilecheck.checked import Fault
from tilecheck.diagnostic import Diagnostic
from tilecheck.frontend.tile import read_function
from tilecheck.ir.kernel import Const, Kernel, OpCall, Unsupported, walk
from tilecheck.ir.types import ViewType
from tilecheck.report.text import plain
from tilecheck.rules import RULES, rule_name
from tilecheck.surface.dims import DimClass
from tilecheck.surface.dtypes import DTypeClass
from tilecheck.symbolic.contents import ElementFact
from tilecheck.symbolic.requires import element_facts
from tilecheck.verify.tile import Argument as Opened
from tilecheck.verify.tile import TileReport, check_kernel
from tilecheck_runtime.backends import Backend, default
from tilecheck_runtime.binding import Argument, TensorArgument
from tilecheck_runtime.contracts import partners
from tilecheck_runtime.elements import ALIGNED
from tilecheck_runtime.errors import KernelRejected

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Facts stronger than this change no code.
DIVISOR = ALIGNED
# Calls of different facts that a kernel remembers.
DECISIONS = 256
# `package.module.CONSTANT` is looked up this deep.
MAX_DOTS = 4
NO_HINTS: Mapping[str, int] = MappingProxyType({})


class Once(Generic[K, V]):
    """A cache in which each key is computed by one thread while the others wait; what failed is not kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[K, V] = {}
        self._busy: dict[K, threading.Lock] = {}

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value for `key`, made by `make` the first time."""
        with self._lock:
            if key in self._values:
                return self._values[key]
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            with self._lock:
                if key in self._values:
                    return self._values[key]
            value = make()
            with self._lock:
                self._values[key] = value
                self._busy.pop(key, None)
            return value

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class TensorKey:
    """What generated code may rely on about one tensor argument.

    `address` is the largest power of two, up to 16, that divides the address of the first element; `strides` (in
    elements) likewise per axis, and `extents`, these up to the largest tile; `unit` is the axis whose neighbours lie side by
    side. `single`: (axis, tile) where one tile covers the axis and the kernel asks how many do.
    """

    dtype: str
    unit: int | None
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    map_shape: tuple[int, ...] | None
    single: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """One specialisation of one kernel."""

    backend: str
    dims: tuple[tuple[str, int], ...]
    arguments: tuple[TensorKey | None, ...]
    hints: tuple[tuple[str, int], ...] = ()


def key_of(
    backend: Backend,
    arguments: Sequence[Argument],
    dims: Mapping[str, int],
    hints: Mapping[str, int] = NO_HINTS,
    counted: Collection[tuple[str, int, int]] = (),
) -> Key:
    """The key of a call; `counted` as the function says."""
    largest = max((DIVISOR, *(1 << (size.bit_length() - 1) for size in dims.values())))
    return Key(
        backend.name,
        tuple(sorted(dims.items())),
        tuple(tensor_key(a, largest, counted) if isinstance(a, TensorArgument) else None for a in arguments),
        tuple(sorted(hints.items())),
    )


def counted(report: TileReport) -> frozenset[tuple[str, int, int]]:
    """Of what the kernel asks for the number of tiles, as (parameter, axis, tile)."""
    found: set[tuple[str, int, int]] = set()
    for node in walk(*report.kernel.body):
        if isinstance(node, OpCall) and node.op == "num_tiles":
            view, axis = report.types[node.args[0]], node.args[1]
            if isinstance(view, ViewType) and isinstance(axis, Const) and isinstance(axis.value, int):
                at = axis.value % len(view.shape)
                tile = view.shape[at]
                if isinstance(tile, int):
                    found.add((view.array, view.permute[at], tile))
    return frozenset(found)


def tensor_key(
    argument: TensorArgument, largest: int = DIVISOR, counted: Collection[tuple[str, int, int]] = ()
) -> TensorKey:
    """The facts about one tensor argument, true of exactly the elements that it passes; extents divide by at most
    `largest`.
    """
    elements = argument.elements
    layout, width = elements.layout, elements.width
    address = layout.offset if elements.meta else elements.strided().address
    strides = tuple(s // width if s % width == 0 else 0 for s in layout.strides)
    unit = next((axis for axis in reversed(range(len(strides))) if strides[axis] == 1), None)
    return TensorKey(
        elements.dtype.name,
        unit,
        _divisor(address),
        tuple(_divisor(n, largest) for n in layout.shape),
        tuple(_divisor(s) if layout.strides[axis] % width == 0 else 1 for axis, s in enumerate(strides)),
        None if argument.mapping is None else argument.mapping.shape,
        tuple(
            sorted(
                (axis, tile)
                for name, axis, tile in counted
                if name == argument.param.name and 0 < layout.shape[axis] <= tile
            )
        ),
    )


def _divisor(number: int, largest: int = DIVISOR) -> int:
    return largest if number == 0 else min(number & -number, largest)


# ---- kernels


@dataclass(slots=True)
class Decision:
    """What one set of facts led to: the Dims, the grid if the outputs define one, and the program once it is compiled.

    Extents, dtypes and launch conditions have been checked for them.
    """

    dims: dict[str, int]
    grid: tuple[int, int, int] | None
    program: Any = None


def facts_of(
    kernel: CheckedKernel, arguments: Sequence[Argument], bindings: Mapping[str, int], hints: Mapping[str, int]
) -> Hashable:
    """Everything that Dims, grid, checks, conditions and key of a call are computed from, apart from the kernel. Where an
    array lies is not in it, only how it is aligned: views of one shape, and tensors of one shape, are the same to it.
    """
    facts: list[Hashable] = [default().name, *bindings.items(), *hints.items()]
    floats = kernel.floats_matter
    for argument in arguments:
        if isinstance(argument, TensorArgument):
            facts.append((argument.elements.kind, argument.tile, argument.exact, argument.mapping))
        elif floats or not isinstance(argument.value, float):
            facts.append(argument.value)
    return tuple(facts)


@dataclass(slots=True)
class CheckedKernel:
    """A kernel that passed the checks for all extents, and its specialisations so far."""

    kernel: Kernel
    signature: inspect.Signature
    partners: tuple[tuple[str, str], ...]
    positional: bool
    facts: tuple[ElementFact, ...] = ()
    reports: Once[Hashable, TileReport] = field(default_factory=Once)
    programs: Once[Key, Any] = field(default_factory=Once)
    decisions: dict[Hashable, Decision] = field(default_factory=dict)

    @property
    def floats_matter(self) -> bool:
        """Whether the value of a float may refuse a launch: to `requires` alone."""
        return self.kernel.options.get("requires") is not None

    def remember(self, facts: Hashable, decision: Decision) -> Decision:
        """Keep a decision, and of too many the later ones."""
        while len(self.decisions) >= DECISIONS:
            self.decisions.pop(next(iter(self.decisions), None), None)
        return self.decisions.setdefault(facts, decision)

    def report(self, arguments: Sequence[Argument], dims: Mapping[str, int]) -> TileReport:
        """The kernel checked for these extents and, where annotations are open, these dtypes and ranks.

        Raises KernelRejected.
        """
        opened = {
            a.param.name: Opened(a.elements.dtype.name, len(a.shape), a.tile)
            for a in arguments
            if isinstance(a, TensorArgument) and (a.param.dtype is None or a.param.extents is None)
        }
        key = (tuple(sorted(dims.items())), tuple(opened.items()))
        return self.reports.get(key, lambda: checked(self.kernel, dims, opened))

    def program(
        self,
        backend: Backend,
        arguments: Sequence[Argument],
        dims: Mapping[str, int],
        hints: Mapping[str, int] = NO_HINTS,
    ) -> Any:
        """The compiled kernel for these arguments."""
        report = self.report(arguments, dims)
        key = key_of(backend, arguments, dims, hints, counted(report))
        for listen in listeners:
            listen(report, key)
        return self.programs.get(key, lambda: backend.compile(report, key, dims))


# Told of every specialisation that is asked for, compiled before or not; `export.py` listens.
listeners: list[Callable[[TileReport, Key], None]] = []

_kernels: weakref.WeakKeyDictionary[FunctionType, Once[Hashable, CheckedKernel]] = weakref.WeakKeyDictionary()
_kernels_lock = threading.Lock()


def checked_kernel(fn: FunctionType, options: Mapping[str, object]) -> CheckedKernel:
    """The kernel that a decorator with `options` makes of a function, read and checked. One function may be made into
    several. Raises KernelRejected with what the linter would say.
    """
    with _kernels_lock:
        versions = _kernels.setdefault(fn, Once())
    given = tuple(sorted((name, value) for name, value in options.items() if value is not None))
    return versions.get((given, environment(fn)), lambda: _read(fn, dict(given)))


def _read(fn: FunctionType, options: Mapping[str, object]) -> CheckedKernel:
    try:
        kernel = replace(read_function(fn), options=dict(options))
    except Unsupported as error:
        fault = Fault(error.rule, error.message, error.span, fn.__name__, (), error.help)
        raise rejection(fn.__name__, (fault,)) from None
    checked(kernel, {}, {})
    signature = inspect.signature(fn)
    positional = all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in signature.parameters.values())
    return CheckedKernel(kernel, signature, partners(kernel), positional, element_facts(kernel))


def checked(kernel: Kernel, dims: Mapping[str, int], opened: Mapping[str, Opened]) -> TileReport:
    """The report of the checks. Raises KernelRejected for faults of error severity; warnings are the linter's business."""
    report = check_kernel(kernel, dims, opened)
    severities = {rule_name(rule): rule.SEVERITY for rule in RULES}
    errors = tuple(fault for fault in report.faults if severities.get(fault.rule, "error") == "error")
    if errors:
        raise rejection(kernel.name, errors)
    return report


def rejection(kernel: str, faults: Sequence[Fault]) -> KernelRejected:
    """The exception for a kernel with faults, with the text that the linter prints."""
    found = sorted(
        (Diagnostic(f.rule, "error", f.message, f.span, f.kernel, f.labels, f.help) for f in faults),
        key=Diagnostic.sort_key,
    )
    text = "\n\n".join(plain(diagnostic, linecache.getlines) for diagnostic in found)
    return KernelRejected(f"the kernel `{kernel}` is refused: {found[0].message}", found, text)


# ---- what a kernel refers to


def environment(fn: FunctionType) -> tuple[Hashable, ...]:
    """What the names of a function and of the helpers it calls mean now, as far as a kernel can use it: equal iff the
    kernel would read the same.
    """
    return tuple(_environment(fn, set()))


def _environment(fn: FunctionType, seen: set[int]) -> Iterator[Hashable]:
    if id(fn) in seen:
        return
    seen.add(id(fn))
    names = set(names_of(fn.__code__))
    scope: dict[str, Any] = {name: fn.__globals__[name] for name in names if name in fn.__globals__}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # a name of the enclosing function that is not assigned yet
            continue
    for name in sorted(scope):
        yield from _meaning(name, scope[name], names, seen)


def _meaning(name: str, value: Any, attributes: set[str], seen: set[int], depth: int = 0) -> Iterator[Hashable]:
    if isinstance(value, DimClass | DTypeClass):
        yield (name, id(value))
    elif isinstance(value, int | float | str | None):
        yield (name, type(value), value)
    elif isinstance(value, tuple) and all(isinstance(item, int | float | str) for item in value):
        yield (name, *((type(item), item) for item in value))
    elif isinstance(value, FunctionType):
        yield (name, id(value.__code__))
        yield from _environment(value, seen)
    elif isinstance(value, ModuleType):
        for attribute in sorted(attributes & vars(value).keys()) if depth < MAX_DOTS else ():
            yield from _meaning(f"{name}.{attribute}", vars(value)[attribute], attributes, seen, depth + 1)
    else:
        yield (name, id(type(value)))


def names_of(code: CodeType) -> Iterator[str]:
    """The global names and attributes that a function and what is nested in it mention."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of(constant)
