"""Shapes and dtypes that cuTile refuses: extents that are no powers of two or not known in time, ranks and dtypes that do
not fit.

cuTile reports these when a kernel is first launched; a file shows most of them. Extents that are written as numbers, and
ranks within the kernel, need no launch; the others are looked up at each launch that the file shows.

    ct.load(x, (i,), (48,))                     48 is no power of two
    def fill(x, n): ct.full((n,), 0, ...)       n is known at run time only: `n: ct.Constant[int]`
    ct.load(x, (i,), (T,))                      with an array of two axes at a launch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.frontend.launches import Launch
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import Const, Expr, Extent, Kernel, Name, OpCall, walk
from tilecheck.ir.simt import Atomic, Load, Store

Value = Callable[[Expr], int | None]


def shape_faults(kernel: Kernel) -> Iterator[Fault]:
    """What no launch can mend."""
    at_run_time = kernel.options.get("run_time", ())
    assert isinstance(at_run_time, tuple)
    for call in _calls(kernel):
        if call.op == "ranks_differ":
            index, tile = (part.value for part in call.args if isinstance(part, Const))
            message = f"an index of {index} {_axes(index)} for a tile of {tile}"
            help_text = "index and shape have an entry for each axis of the array; give the tile axes of extent 1"
            yield Fault("shape-mismatch", message, call.span, kernel.name, help=help_text)
            continue
        for extent in call.args:
            match extent:
                case Const(value=int() as number):
                    yield from _power(kernel, call, number, ())
                case Name(id=name) if name in at_run_time:
                    message = f"`{name}` is the extent of a tile, but is known at run time only"
                    help_text = f"make it a constant of the compiler: `{name}: ct.Constant[int]`"
                    yield Fault("unbound-dim", message, call.span, kernel.name, help=help_text)
                case Extent(array=Name(id=array), axis=axis) if array in at_run_time:
                    message = f"`{array}.shape[{axis}]` is the extent of a tile, but is known at run time only"
                    help_text = "pass the extent as a `ct.Constant[int]`, a power of two; loads pad and stores clip"
                    yield Fault("unbound-dim", message, call.span, kernel.name, help=help_text)


def launched_shape_faults(kernel: Kernel, launch: Launch, value: Value) -> Iterator[Fault]:
    """What is wrong at one launch; `value` is what an int expression of the kernel is worth there."""
    for call in _calls(kernel):
        for extent in call.args if call.op == "tile_extents" else ():
            number = None if isinstance(extent, Const) else value(extent)
            if number is not None:
                yield from _power(kernel, call, number, (Label(launch.span, f"launched here with {number}"),))
    for node in walk(*kernel.body):
        if isinstance(node, OpCall) and node.op == "takes_dtype":
            yield from _narrowed(kernel, node, launch)
        if not isinstance(node, Load | Store | Atomic) or not isinstance(node.array, Name):
            continue
        given = launch.arguments.get(node.array.id)
        if isinstance(given, HostArray) and given.shape is not None and len(given.shape) != len(node.index):
            rank = len(given.shape)
            yield Fault(
                "shape-mismatch",
                f"`{node.array.id}` has {rank} {_axes(rank)} at a launch, its index here has {len(node.index)}",
                node.span,
                kernel.name,
                (Label(launch.span, f"launched here with {rank} {_axes(rank)}"),),
                "an index has an entry for each axis of the array",
            )


# What a tile of a float dtype does not become of its own accord.
_NARROWER = {
    "float64": ("float32", "float16", "bfloat16"),
    "float32": ("float16", "bfloat16"),
    "float16": (),
    "bfloat16": (),
}
_INTS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _narrowed(kernel: Kernel, call: OpCall, launch: Launch) -> Iterator[Fault]:
    array, kind = (part.value if isinstance(part, Const) else None for part in call.args)
    assert isinstance(array, str)
    assert isinstance(kind, str)
    dtype = _dtype(launch, kind.removeprefix("of:")) if kind.startswith("of:") else kind
    target = _dtype(launch, array)
    if dtype not in _NARROWER or target is None or target not in (*_NARROWER[dtype], *_INTS):
        return
    yield Fault(
        "dtype-mismatch",
        f"a {dtype} tile is written to `{array}`, which is {target} at a launch",
        call.span,
        kernel.name,
        (Label(launch.span, f"`{array}` is {target} here"),),
        f"cuTile does not narrow of its own accord: write `.astype({array}.dtype)`",
    )


def _dtype(launch: Launch, array: str) -> str | None:
    given = launch.arguments.get(array)
    return given.dtype if isinstance(given, HostArray) else None


def _calls(kernel: Kernel) -> Iterator[OpCall]:
    for node in walk(*kernel.body):
        if isinstance(node, OpCall) and node.op in ("tile_extents", "ranks_differ"):
            yield node


def _power(kernel: Kernel, call: OpCall, extent: int, labels: tuple[Label, ...]) -> Iterator[Fault]:
    if extent > 0 and extent & (extent - 1) == 0:
        return
    larger = 1 << max(extent - 1, 0).bit_length()
    message = f"a tile extent of {extent} is no power of two"
    help_text = f"use {larger}: a load pads what hangs over the array and a store clips it"
    yield Fault("shape-mismatch", message, call.span, kernel.name, labels, help_text)


def _axes(count: object) -> str:
    return "axis" if count == 1 else "axes"
