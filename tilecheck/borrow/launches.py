"""Launches of our kernels against their signatures, as far as the file shows numbers, dtypes and partitions.

What is not visible is left to the checks that run before each launch. A Dim has one value per launch; its sources are
asked in the order of the rules: `size=`, the tiles of output partitions, the extents of `Shared` arguments, `where`.

Worked example: with `gemm(z: Tensor[Mut, f32, BM, BN], x: Tensor[Shared, f16, Dyn, Dyn], ...)` whose body uses `BK`,
`gemm(c.partition(128, 128), a, b)` has no value for `BK`, and `gemm.where(BK=64)(c.partition(128), a, b)` cuts `c`
along one axis where `z` has two.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.borrow.arguments import check_kinds, declared
from tilecheck.borrow.launch import Definition, Launch, LaunchArg, OpenLaunch, TileLaunch
from tilecheck.borrow.plain_launches import check_plain
from tilecheck.borrow.shapes import grid_of, op_of
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Number, Pieces, Shape
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir.host import Contract
from tilecheck.ir.kernel import Access, TensorParam
from tilecheck.surface.dtypes import DTYPES

_OUTPUTS = (Access.MUT, Access.MAPPED)


def check_launch(launch: Launch) -> Iterator[Fault]:
    """The ways in which `launch` cannot be right."""
    if launch.kernel.facts.contract.track in ("numba", "cutile"):
        yield from check_plain(launch)
        return
    if launch.kernel.facts.contract.track == "simt":
        if launch.kernel.facts.block is not None:
            yield from _outputs(launch)
        yield from check_kinds(launch)
        yield from _dtypes(launch)
        return
    yield from _outputs(launch)
    yield from check_kinds(launch)
    yield from _dtypes(launch)
    yield from _ranks(launch)
    yield from _dims(launch, {})
    yield from _grids(launch)


def shown_launch(launch: Launch) -> TileLaunch | None:
    """The numbers of a launch of a tile kernel that breaks no rule of `check_launch`; None if it shows no grid."""
    contract = launch.kernel.facts.contract
    grid = op_of(launch.kernel, launch.args).grid
    values: dict[str, tuple[int | None, str]] = {}
    kernel = _definition(contract)
    if contract.track != "tile" or kernel is None or grid is None or any(_dims(launch, values)):
        return None
    arrays = {param.name: array for param, arg in _tensors(launch) if (array := _array(arg)) is not None}
    tiles = {p.name: arg.value.tile for p, arg in _tensors(launch) if isinstance(arg.value, Pieces) and arg.value.tile}
    names = {dim.key: dim.name for dim in launch.kernel.facts.dims.values()}
    scalars = {name: arg.value.value for name, arg in launch.args.items() if isinstance(arg.value, Number)}
    dims = {names[key]: value for key, (value, _) in values.items() if value is not None}
    bound = {name: value for name, value in launch.kernel.bound.items() if value is not None}
    return TileLaunch(
        kernel,
        launch.span,
        tuple((name, array.shape) for name, array in arrays.items() if array.shape is not None),
        tuple((name, array.dtype) for name, array in arrays.items() if array.dtype is not None),
        tuple((name, whole) for name, tile in tiles.items() if len(whole := tuple(n for n in tile if n)) == len(tile)),
        tuple((name, value) for name, value in scalars.items() if isinstance(value, int)),
        tuple({**bound, **dims}.items()),
        grid,
        tuple((name, spell(arg.expr), arg.expr.span) for name, arg in launch.args.items()),
    )


def _definition(contract: Contract) -> Definition | None:
    if contract.span is not None:
        return Definition(contract.name, contract.span)
    module, _, name = (contract.full or "").rpartition(".")
    return Definition(name, module=module) if module else None


def _tensors(launch: Launch) -> Iterator[tuple[TensorParam, LaunchArg]]:
    for param in launch.kernel.facts.contract.params:
        if isinstance(param, TensorParam) and param.name in launch.args:
            yield param, launch.args[param.name]


def _outputs(launch: Launch) -> Iterator[Fault]:
    for param, arg in _tensors(launch):
        if param.access in _OUTPUTS and isinstance(arg.value, Array) and arg.value.library == "tilecheck":
            text = spell(arg.expr)
            yield Fault(
                "unpartitioned-output",
                f"`{text}` is not partitioned, but `{launch.kernel.facts.contract.name}` writes `{param.name}`",
                arg.expr.span,
                labels=declared(launch, param),
                help=_cut(launch, param, text),
            )


def _cut(launch: Launch, param: TensorParam, text: str) -> str:
    """How to cut a tensor for `param`: in the only tiles that there are, or how their extents are chosen."""
    dims, block = launch.kernel.facts.dims, launch.kernel.facts.block
    if block is not None and len(block) == 1:
        return f"pass a partition: `{text}.partition({block[0]})` has an element for each thread of a block"
    known = [dims.get(key) if key is not None else None for key in param.extents or ()]
    tiles = ["..." if dim is None else dim.name if dim.size is None else str(dim.size) for dim in known]
    open_ = list(dict.fromkeys(f"`{dim.name}`" for dim in known if dim is not None and dim.size is None))
    sizes = f", {' and '.join(open_)} {'a number' if len(open_) == 1 else 'numbers'} such as 64" if open_ else ""
    return f"pass `{text}.partition({', '.join(tiles) or '...'})`, one tile per block{sizes}"


def _array(arg: LaunchArg) -> Array | None:
    if isinstance(arg.value, Pieces):
        return arg.value.array
    return arg.value if isinstance(arg.value, Array) else None


def _dtypes(launch: Launch) -> Iterator[Fault]:
    for param, arg in _tensors(launch):
        array = _array(arg)
        if array is None or array.library == "numpy":
            continue
        if None in (array.dtype, param.dtype) or array.dtype == param.dtype:
            continue
        yield Fault(
            "dtype-mismatch",
            f"`{spell(arg.expr)}` is {array.dtype}, but `{param.name}` of `{launch.kernel.facts.contract.name}` is "
            f"{param.dtype}",
            arg.expr.span,
            labels=declared(launch, param),
            help=f"make it with `dtype=tc.{param.dtype}`, or convert it with `astype(tc.{param.dtype})`",
        )


def open_launch(launch: Launch) -> OpenLaunch | None:
    """The launch if its kernel leaves a dtype open; what the dtypes mean to its body is for the tile checks to say."""
    contract = launch.kernel.facts.contract
    kernel = _definition(contract)
    if contract.track != "tile" or kernel is None or all(param.dtype is not None for param, _ in _tensors(launch)):
        return None
    arrays = [(param.name, _array(arg)) for param, arg in _tensors(launch) if param.dtype is None]
    known = tuple((name, str(array.dtype)) for name, array in arrays if array is not None and array.dtype in DTYPES)
    return OpenLaunch(kernel, known, launch.span) if known else None


def _ranks(launch: Launch) -> Iterator[Fault]:
    for param, arg in _tensors(launch):
        given = arg.value.tile if isinstance(arg.value, Pieces) else None
        if isinstance(arg.value, Array):
            given = arg.value.shape
        if param.extents is None or given is None or len(given) == len(param.extents):
            continue
        what = "cut along" if isinstance(arg.value, Pieces) else "has"
        yield Fault(
            "shape-mismatch",
            f"`{spell(arg.expr)}` {what} {_axes(len(given))}, `{param.name}` of `{launch.kernel.facts.contract.name}` "
            f"has {len(param.extents)}",
            arg.expr.span,
            labels=declared(launch, param),
        )


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _dims(launch: Launch, values: dict[str, tuple[int | None, str]]) -> Iterator[Fault]:
    """The faults of the Dims; `values` gets the value of each with what says so."""
    facts = launch.kernel.facts
    dims = facts.dims
    for dim in dims.values():
        if dim.size is not None:
            values[dim.key] = (dim.size, f"`{dim.name}` is declared with size {dim.size}")
    for outputs in (True, False):
        for param, arg in _tensors(launch):
            if (param.access in _OUTPUTS) is outputs:
                yield from _extents(launch, param, arg, values)
    names = {dim.name: dim.key for dim in dims.values()}
    for name, bound in launch.kernel.bound.items():
        key = names.get(name)
        if key is None:
            # Of a kernel known by its type alone the Dims of the body are not known.
            if facts.contract.track == "tile" and dims and facts.contract.span is not None:
                known = ", ".join(f"`{known}`" for known in sorted(names))
                yield Fault(
                    "unbound-dim",
                    f"`{facts.contract.name}` has no dim `{name}`",
                    launch.span,
                    help=f"its dims are {known}",
                )
            continue
        source = f"`where({name}={bound})`"
        yield from _bind(launch, key, bound, source, values)
    # Behind `*tensors` there may be anything.
    seen = all(p.name in launch.args for p in facts.contract.params if isinstance(p, TensorParam))
    for key, dim in dims.items():
        if seen and key not in values and dim.size is None:
            yield Fault(
                "unbound-dim",
                f"`{dim.name}` of `{facts.contract.name}` has no value in this launch",
                launch.span,
                help=f"give it one: `{facts.contract.name}.where({dim.name}=...)(...)`",
            )


def _extents(
    launch: Launch, param: TensorParam, arg: LaunchArg, values: dict[str, tuple[int | None, str]]
) -> Iterator[Fault]:
    given: Shape | None = arg.value.tile if isinstance(arg.value, Pieces) else None
    if isinstance(arg.value, Array):
        given = arg.value.shape
    if param.extents is None:
        return
    if given is not None and len(given) != len(param.extents):
        given = None
    for axis, key in enumerate(param.extents):
        if key is None:
            continue
        value = given[axis] if given is not None else None
        what = "tile" if isinstance(arg.value, Pieces) else "extent"
        source = f"axis {axis} of `{spell(arg.expr)}` has {what} {value}"
        yield from _bind(launch, key, value, source, values, param)


def _bind(
    launch: Launch,
    key: str,
    value: int | None,
    source: str,
    values: dict[str, tuple[int | None, str]],
    param: TensorParam | None = None,
) -> Iterator[Fault]:
    earlier = values.get(key)
    if earlier is None or earlier[0] is None:
        values[key] = (value, source)
        return
    if value is None or earlier[0] == value:
        return
    name = launch.kernel.facts.dims[key].name
    span = launch.span
    labels: tuple[Label, ...] = ()
    if param is not None:
        span = launch.args[param.name].expr.span
        labels = declared(launch, param)
    if param is None:
        message = f"{source} binds {value}, expected {earlier[0]}: {earlier[1]}"
        yield Fault("unbound-dim", message, span, help="one `Dim` has one value in a launch")
        return
    message = f"`{name}` is {earlier[0]} and {value} in one launch: {earlier[1]}, {source}"
    yield Fault("shape-mismatch", message, span, labels=labels)


def _grids(launch: Launch) -> Iterator[Fault]:
    first: tuple[str, tuple[int, ...]] | None = None
    for param, arg in _tensors(launch):
        if param.access is not Access.MUT or not isinstance(arg.value, Pieces) or not arg.value.exact:
            continue
        tiles = grid_of(arg.value)
        if tiles is None:
            continue
        grid = (*tiles, 1, 1, 1)[:3]
        if first is not None and first[1] != grid:
            yield Fault(
                "launch-contract",
                f"`{spell(arg.expr)}` needs the grid {grid}, `{first[0]}` needs {first[1]}",
                arg.expr.span,
                help="outputs of one launch must have the same number of tiles, or be a `.prefix()`",
            )
            return
        first = first or (spell(arg.expr), grid)
