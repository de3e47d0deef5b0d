"""What must hold at each launch: the grid, and the conditions that the checks of the kernel left to the host.

The grid comes from the outputs. Exact ones (`partition`, mapped ones) define it and must all agree; a prefix accepts any
grid that is not larger on any axis and defines none. `with_grid` is an override that is checked against both; without an
exact output it is the only source.

Conditions are those of the bounds ladder, of void lanes and of `requires`. They are evaluated at every launch, cached
kernels included, and fail closed: what cannot be evaluated refuses the launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilecheck.interp.arguments import OWNED
from tilecheck.ir.kernel import Kernel, Name, OpCall, walk
from tilecheck.verify.tile import TileReport
from tilecheck_runtime import layout as lay
from tilecheck_runtime.backends import Grid
from tilecheck_runtime.binding import Argument, ScalarArgument, TensorArgument, origins
from tilecheck_runtime.errors import LaunchRefused, UsageError
from tilecheck_runtime.partition import Partition

if TYPE_CHECKING:
    from tilecheck_runtime.simt import SimtConditions

AXES = "xyz"


def infer_grid(kernel: str, arguments: tuple[Argument, ...]) -> Grid | None:
    """The grid that the exact outputs define; None if there is none. Raises LaunchRefused if two disagree."""
    exact = [a for a in arguments if isinstance(a, TensorArgument) and a.tile is not None and a.exact]
    if not exact:
        return None
    grid = _grid_of(exact[0])
    for other in exact[1:]:
        if _grid_of(other) != grid:
            raise LaunchRefused(
                f"the outputs of `{kernel}` want different grids: {exact[0].name} {grid}, {other.name} {_grid_of(other)}",
                "partition them into the same number of tiles on each axis",
                points=(_arithmetic(exact[0]), _arithmetic(other)),
            )
    _check_prefixes(kernel, arguments, grid)
    return grid


def override_grid(kernel: str, arguments: tuple[Argument, ...], given: tuple[Any, ...]) -> Grid:
    """The grid of `with_grid(*given)`. Raises UsageError for what is no grid, LaunchRefused if an output disagrees."""
    counts = lay.ints("with_grid", given)
    if not 1 <= len(counts) <= len(AXES) or min(counts) < 1:
        raise UsageError(f"`with_grid{counts}` is no grid", "one to three ints of at least 1", rule="launch-contract")
    x, y, z = (*counts, 1, 1)[:3]
    grid = (x, y, z)
    inferred = infer_grid(kernel, arguments)
    if inferred is not None and grid != inferred:
        exact = next(a for a in arguments if isinstance(a, TensorArgument) and a.tile is not None and a.exact)
        raise LaunchRefused(
            f"`with_grid` says {grid}, {exact.name} of `{kernel}` needs {inferred}",
            "leave the grid to the partition, or cover a part with `.prefix()`",
            points=(_arithmetic(exact),),
        )
    _check_prefixes(kernel, arguments, grid)
    return grid


def need_grid(kernel: str, arguments: tuple[Argument, ...], grid: Grid | None) -> Grid:
    """The grid. Raises LaunchRefused if nothing determines it."""
    if grid is None:
        prefix = any(isinstance(a, TensorArgument) and a.tile is not None for a in arguments)
        why = "a prefix does not define one" if prefix else "it has no output that defines one"
        whole = next((a for a in arguments if isinstance(a, TensorArgument) and a.exclusive and a.tile is None), None)
        cut = (
            ""
            if whole is None
            else f", or pass {whole.name} cut into what a block writes, `{whole.param.name}.partition(n)`"
        )
        raise LaunchRefused(f"the launch of `{kernel}` has no grid: {why}", f"give one: `op.with_grid(n)`{cut}")
    return grid


def check_conditions(
    report: TileReport | SimtConditions, arguments: tuple[Argument, ...], dims: Mapping[str, int], grid: Grid
) -> None:
    """Raise LaunchRefused for the first launch condition that does not hold."""
    shapes = {a.param.name: a.shape for a in arguments if isinstance(a, TensorArgument)}
    scalars = {a.param.name: a.value for a in arguments if isinstance(a, ScalarArgument)}
    for condition in report.conditions:
        refusal = condition.evaluate(shapes, scalars, dims, grid)
        if refusal is not None:
            points = origins(report.kernel, arguments, refusal.message) if isinstance(report, TileReport) else ()
            raise LaunchRefused(refusal.message, refusal.help, rule=refusal.rule, points=points)


def partners(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    """The mapped parameters that share one stream of indices (`a.indices_with(b)`)."""
    return tuple(
        (node.args[0].id, node.args[1].id)
        for node in walk(*kernel.body)
        if isinstance(node, OpCall) and node.op == "indices_with" and len(node.args) > 1
        if isinstance(node.args[0], Name) and isinstance(node.args[1], Name)
    )


def check_partners(kernel: str, pairs: tuple[tuple[str, str], ...], arguments: tuple[Argument, ...]) -> None:
    """Raise LaunchRefused if two that share their indices are not mapped alike."""
    mapped = {a.param.name: a for a in arguments if isinstance(a, TensorArgument) and a.mapping is not None}
    for first, second in pairs:
        if first in mapped and second in mapped and mapped[first].mapping != mapped[second].mapping:
            raise LaunchRefused(
                f"`{first}` and `{second}` of `{kernel}` share their indices, but are mapped differently",
                "give both the same `.map(shape, blocks=n)`",
                points=tuple(f"`{name}`: {mapped[name].value!r}" for name in (first, second)),
            )


def check_maps(kernel: str, report: TileReport, arguments: tuple[Argument, ...]) -> None:
    """Raise LaunchRefused if a map leaves other axes `OWNED` than the kernel sets with `at`."""
    mapped = {a.param.name: a for a in arguments if isinstance(a, TensorArgument) and a.mapping is not None}
    for use in report.maps:
        if use.array not in mapped or (mapping := mapped[use.array].mapping) is None:
            continue
        owned = tuple(axis for axis, extent in enumerate(mapping.shape) if extent == OWNED)
        if owned != use.owned:
            raise LaunchRefused(
                f"`{kernel}` writes `{use.array}` in line {use.span.line} at an index with {_axes(use.owned)} set by `at`, "
                f"its map leaves {_axes(owned)} `OWNED`",
                f"set exactly the axes that the map leaves `OWNED`: `{use.array}.at(index, j)`",
                rule="foreign-index",
            )


def _axes(axes: tuple[int, ...]) -> str:
    return "no axis" if not axes else f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"


def _grid_of(argument: TensorArgument) -> Grid:
    assert isinstance(argument.value, Partition)
    return argument.value.grid


def _check_prefixes(kernel: str, arguments: tuple[Argument, ...], grid: Grid) -> None:
    for argument in arguments:
        if isinstance(argument, TensorArgument) and argument.tile is not None and not argument.exact:
            for axis, (wanted, there) in enumerate(zip(grid, _grid_of(argument), strict=True)):
                if wanted > there:
                    raise LaunchRefused(
                        f"the grid of `{kernel}` has {wanted} blocks on axis {axis}, the prefix {argument.name} has "
                        f"{there} tiles",
                        f"at most {there} on axis {axis}",
                        points=(_arithmetic(argument),),
                    )


def _arithmetic(argument: TensorArgument) -> str:
    if argument.mapping is not None:
        return f"{argument.name}: mapped over {argument.mapping.blocks} blocks"
    extents = " x ".join(f"ceil({n} / {t})" for n, t in zip(argument.shape, argument.tile or (), strict=True))
    return f"{argument.name}: {extents}"
