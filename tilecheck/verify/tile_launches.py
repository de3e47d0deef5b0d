"""Launches of tile kernels that the file shows, against what the kernel's body asks of a launch.

The run time checks a kernel again for the extents of each launch and then evaluates the conditions of that report. The
same is done here with the numbers that stand in the file: where all Dims are known the kernel is checked for them, and a
condition speaks if everything in it is known and it does not hold. What is not shown is left to the run time.

Invariant: a fault here is an error that the run time raises at that very launch, by the same rule.

Worked example: with `z` of 8 elements and `y` of 4, `add(z.partition(4), x, y)` breaks `y.shape[0] >= z.shape[0]`, which
`tc.load_like(y, z)` asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from tilecheck.borrow.launch import TileLaunch
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.ir.kernel import Kernel, TensorParam, walk
from tilecheck.ir.types import ArrayExtent, DimExtent
from tilecheck.symbolic.linear import Atom, LaunchAxis, Scalar, Size, Unresolved
from tilecheck.verify.tile import Argument, check_kernel
from tilecheck.verify.tile_conditions import LaunchCondition
from tilecheck.verify.tile_report import TileReport


def check_launches(launches: Sequence[TileLaunch], reports: Sequence[TileReport]) -> tuple[Fault, ...]:
    """What the launches break of what the kernels of `reports` ask; a kernel with faults of its own is left alone."""
    kernels = {
        (report.kernel.path, report.kernel.name, report.kernel.span.line): report
        for report in reports
        if not report.faults
    }
    found: dict[Span, Fault] = {}
    known: dict[tuple[object, ...], TileReport] = {}
    for launch in launches:
        at = launch.kernel.span
        report = kernels.get((at.path, launch.kernel.name, at.line)) if at is not None else None
        if report is None:
            continue
        key = (id(report), launch.dims, launch.dtypes, launch.tiles, tuple((n, len(s)) for n, s in launch.shapes))
        if key not in known:
            known[key] = _specialised(report, launch)
        for fault in _faults(launch, known[key]):
            found.setdefault(fault.span, fault)
    return tuple(found.values())


def _specialised(report: TileReport, launch: TileLaunch) -> TileReport:
    """`report`, for the extents of the launch if it shows all that a check for them needs."""
    kernel = report.kernel
    dims = _dims(kernel, launch)
    dtypes, shapes, tiles = dict(launch.dtypes), dict(launch.shapes), dict(launch.tiles)
    opened: dict[str, Argument] = {}
    for param in kernel.params:
        if not isinstance(param, TensorParam) or (param.dtype is not None and param.extents is not None):
            continue
        if param.name not in dtypes or param.name not in shapes:
            return report
        opened[param.name] = Argument(dtypes[param.name], len(shapes[param.name]), tiles.get(param.name))
    if any(key not in dims and decl.size is None for key, decl in kernel.dims.items()):
        return report
    return check_kernel(kernel, dims, opened)


def _dims(kernel: Kernel, launch: TileLaunch) -> dict[str, int]:
    """The values of the kernel's Dims by key. The host knows a Dim by another key, so names that two Dims share are left
    out.
    """
    names = [decl.name for decl in kernel.dims.values()]
    values = dict(launch.dims)
    return {k: values[d.name] for k, d in kernel.dims.items() if d.name in values and names.count(d.name) == 1}


def _faults(launch: TileLaunch, report: TileReport) -> Iterator[Fault]:
    kernel = report.kernel
    value = _values(launch, _dims(kernel, launch))
    for condition in report.conditions:
        refusal = condition.surely_broken(value)
        if refusal is not None:
            labels = (*_arguments(launch, condition), *_asked(kernel, condition))
            yield Fault(refusal.rule, refusal.message, launch.span, labels=labels, help=refusal.help)
            return


def _arguments(launch: TileLaunch, condition: LaunchCondition) -> Iterator[Label]:
    """The arguments that the condition speaks of."""
    atoms = {*condition.goal.left.atoms(), *condition.goal.right.atoms()}
    arrays = {atom.array for atom in atoms if isinstance(atom, ArrayExtent | Size)}
    for param, text, span in launch.given:
        if param in arrays and text != param:
            yield Label(span, f"`{text}` goes in as `{param}`")


def _asked(kernel: Kernel, condition: LaunchCondition) -> Iterator[Label]:
    spans = (kernel.span, *(node.span for node in walk(*kernel.body)))
    on_line = [span for span in spans if span.line == condition.line]
    if on_line:
        widest = min(on_line, key=lambda span: (span.column, -span.end_line, -span.end_column))
        yield Label(widest, f"`{kernel.name}` asks for it here")


def _values(launch: TileLaunch, dims: dict[str, int]) -> Callable[[Atom], int]:
    """The numbers of the launch by atom; `Unresolved` for one that the file does not show."""
    shapes, scalars = dict(launch.shapes), dict(launch.scalars)

    def value(atom: Atom) -> int:
        found: int | None = None
        match atom:
            case Scalar(name=name):
                found = scalars.get(name)
            case DimExtent(key=key):
                found = dims.get(key)
            case ArrayExtent(array=array, axis=axis) if axis < len(shapes.get(array, ())):
                found = shapes[array][axis]
            case Size(array=array) if array in shapes:
                extents = [extent for extent in shapes[array] if extent is not None]
                found = prod(extents) if len(extents) == len(shapes[array]) else None
            case LaunchAxis(kind="gridDim", axis=axis):
                found = launch.grid[axis] if axis < len(launch.grid) else 1
        if found is None:
            raise Unresolved(f"`{atom}` is not shown")
        return found

    return value
