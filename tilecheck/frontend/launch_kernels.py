"""Kernels in host code: how they are configured, and their launches.

Invariant: every launch that is reached leaves a `Seen`, whatever is known of its arguments.

Worked example: `k[2, 32](x)` leaves a `Seen` with grid 2, block 32 and what `x` is; `functools.partial(k[2, 32], x)()`
leaves the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import libcst as cst

from tilecheck.frontend.launch_counters import HostCounters, LeftBy
from tilecheck.frontend.launch_effects import (
    made_of,
    unpacked,
)
from tilecheck.frontend.launch_objects import Configured, Contracted, Cut, Jitted, Op, Seen
from tilecheck.frontend.scopes import (
    UNKNOWN,
    FunctionValue,
    Method,
    Ref,
    Resolve,
    Scope,
    parameters,
)
from tilecheck.frontend.source import Source

FUEL = 20_000
# The decorator's options of a kernel, None for a function that is none; `block` says that it has a launch contract.
KernelOf = Callable[[FunctionValue], Mapping[str, object] | None]
_MOST_ARGUMENTS = 32


class HostKernels(HostCounters):
    """The launches that a run has seen, and the calls that make them."""

    def __init__(self, source: Source, resolve: Resolve, kernel_of: KernelOf, left_by: LeftBy) -> None:
        super().__init__(source, resolve, left_by)
        self.kernel_of = kernel_of
        self.seen: list[Seen] = []
        self.fuel = FUEL
        self.steps = 0
        self.called: set[cst.FunctionDef] = set()
        # Functions that a call did not enter because too many were running, and whether the run came to its end early.
        self.cut: dict[cst.FunctionDef, Scope] = {}
        self.spent = False

    @abstractmethod
    def value(self, node: cst.BaseExpression) -> object:
        """The value of an expression; calls in it are followed."""

    def step(self) -> None:
        """One more call or statement."""
        self.fuel -= 1
        self.steps += 1

    def refuel(self) -> None:
        """Steps for one more function of the file: fewer once the file has had its share."""
        self.fuel = max(self.fuel, FUEL // 4 if self.steps < FUEL else FUEL // 64)

    def arguments_of(self, node: cst.Call) -> tuple[list[object], dict[str, object]]:
        """The values of the arguments of a call, by place and by name."""
        positional: list[object] = []
        keyword: dict[str, object] = {}
        for argument in node.args:
            value = self.value(argument.value)
            if argument.keyword is not None:
                keyword[argument.keyword.value] = value
            else:
                positional.append(value)
        return positional, keyword

    def contracted(self, callee: object, node: cst.Call) -> object:
        """A call of a kernel under its contract, or `tc.adopt(kernel, block=...)`; None for any other call."""
        if callee == Ref("tilecheck.adopt"):
            positional, keyword = self.arguments_of(node)
            kernel = self.kernel(positional[0]) if positional else None
            if kernel is None:
                return UNKNOWN
            return Contracted(kernel, keyword.get("block", UNKNOWN), keyword.get("shared", 0))
        if isinstance(callee, FunctionValue):
            options = self.kernel_of(callee)
            if options is None or "block" not in options:
                return None
            callee = Contracted(callee, options["block"], options.get("shared", 0))
        if not isinstance(callee, Contracted):
            return None
        positional, keyword = self.arguments_of(node)
        names = [param.name.value for param in parameters(callee.function.node)]
        values = [*positional, *(keyword.get(name, UNKNOWN) for name in names[len(positional) :])]
        cuts = [v for v in values if isinstance(v, Cut) and v.exact]
        arguments = tuple(v.array if isinstance(v, Cut) else v for v in values)
        return self._see(
            Configured(callee.function, cuts[0].grid() if cuts else UNKNOWN, callee.block, callee.dynamic),
            node,
            arguments,
            frozenset(at for at, v in enumerate(values) if isinstance(v, Cut) and v.exact and v.blocks is None),
        )

    def configured_by_call(self, kernel: FunctionValue, name: str, node: cst.Call) -> Configured:
        arguments, _ = self.arguments_of(node)
        if name == "forall":
            return Configured(kernel, UNKNOWN, UNKNOWN, 0, arguments[0] if arguments else UNKNOWN)
        grid, block, _, dynamic = [*arguments, *[UNKNOWN] * 2, 0, 0][:4]
        return Configured(kernel, grid, block, dynamic)

    def jitted(self, node: cst.Call) -> object:
        for argument in node.args:
            value = self.value(argument.value)
            kernel = self.kernel(value)
            if kernel is not None or isinstance(value, FunctionValue):
                return Jitted(kernel if kernel is not None else value)  # type: ignore[arg-type]
        return Ref("numba.cuda.jit()")

    def is_kernel(self, function: FunctionValue) -> bool:
        return self.kernel_of(function) is not None

    def kernel(self, value: object) -> FunctionValue | None:
        """The kernel that `value` is, None if it is none."""
        if isinstance(value, Jitted):
            value = value.function
        if isinstance(value, Method):
            value = value.function
        return value if isinstance(value, FunctionValue) and self.kernel_of(value) is not None else None

    def configured(self, kernel: FunctionValue, node: cst.Subscript) -> Configured:
        """What `kernel[grid, block]` gives."""
        elements = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
        values: list[object]
        if len(elements) == 1 and not isinstance(elements[0], cst.Tuple):
            whole = self.value(elements[0])
            values = list(whole) if isinstance(whole, tuple) else [UNKNOWN, UNKNOWN]
        else:
            if len(elements) == 1 and isinstance(elements[0], cst.Tuple):
                elements = [e.value for e in elements[0].elements]
            values = [self.value(element) for element in elements]
        grid, block, _, dynamic = [*values, 0, 0, 0, 0][:4] if len(values) >= 2 else (UNKNOWN, UNKNOWN, 0, UNKNOWN)
        return Configured(kernel, grid, block, dynamic)

    def launch(self, configured: Configured, node: cst.Call) -> object:
        self._see(configured, node, (*configured.given, *self.launch_arguments(node.args)))
        return None

    def launch_arguments(self, nodes: Sequence[cst.Arg]) -> list[object]:
        arguments: list[object] = []
        for argument in nodes:
            value = self.value(argument.value)
            if argument.star == "*":
                if not isinstance(value, tuple | list) and argument is not nodes[-1]:
                    rest = [self.value(at.value) for at in nodes]
                    return [made_of(*arguments, *rest) for _ in range(_MOST_ARGUMENTS)]
                arguments.extend(value if isinstance(value, tuple | list) else unpacked(value, _MOST_ARGUMENTS))
            elif isinstance(value, Ref) or argument.keyword is None:
                arguments.append(value)
        return arguments

    def _see(
        self, configured: Configured, node: cst.Call, arguments: tuple[object, ...], exact: frozenset[int] = frozenset()
    ) -> Op:
        """Note a launch; what it gets may have been written afterwards."""
        host = next((at.name for at in reversed(self.stack) if at.name is not None), None)
        found = Seen(
            configured.function,
            node,
            host,
            configured.grid,
            configured.block,
            configured.dynamic,
            arguments,
            configured.forall,
            exact=exact,
            counted=self.count(configured.function, arguments),
        )
        self.seen.append(found)
        self.taint(*arguments)
        return Op(len(self.seen) - 1)

    def tile_launch(self, node: cst.Call) -> object:
        """`ct.launch(stream, grid, kernel, arguments)`: a block is one logical thread."""
        positional, given = self.arguments_of(node)
        given.update(zip(("stream", "grid", "kernel", "kernel_args"), positional, strict=False))
        kernel = self.kernel(given.get("kernel"))
        if kernel is None:
            return UNKNOWN
        values = given.get("kernel_args")
        arguments = tuple(values) if isinstance(values, tuple | list) else ()
        self._see(Configured(kernel, given.get("grid", UNKNOWN), (1, 1, 1), 0), node, arguments)
        return None
