"""From the arguments of a kernel call to what each parameter gets, and to the values of the kernel's Dims.

A `Mut` parameter wants a partition, a `Mapped` one a mapped partition, `Shared` and `Atomic` ones a tensor, scalars a
Python number (NumPy's count too). Nothing is converted on the way: another dtype or rank is an error that says how.

Dims are bound in this order, and each later source must agree with the first: `size=`, the tiles of output partitions,
the extents of `Shared` and `Atomic` tensors, `where(...)`. What no source binds is an error that names it.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tilecheck.interp.arguments import TileMap
from tilecheck.ir.kernel import Access, Kernel, ScalarParam, TensorParam
from tilecheck.surface.elsewhere import dtype_name
from tilecheck.verify.tile_dtypes import either
from tilecheck_runtime.elements import Elements
from tilecheck_runtime.errors import LaunchRefused, UsageError
from tilecheck_runtime.loans import Loan
from tilecheck_runtime.partition import Partition
from tilecheck_runtime.tensor import Tensor

T = TypeVar("T")

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


class TensorArgument(NamedTuple):
    """What a tensor parameter got. `loan` is that of the handle, `value` the handle itself."""

    param: TensorParam
    elements: Elements
    loan: Loan | None
    value: Tensor | Partition
    tile: tuple[int, ...] | None = None
    exact: bool = True
    mapping: TileMap | None = None

    @property
    def name(self) -> str:
        """The parameter, in backticks."""
        return f"`{self.param.name}`"

    @property
    def exclusive(self) -> bool:
        """Whether the kernel may write it."""
        return self.param.access is not Access.SHARED

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the whole tensor."""
        return self.elements.layout.shape


_WORD = re.compile(r"\w+")


class ScalarArgument(NamedTuple):
    """What a scalar parameter got."""

    param: ScalarParam
    value: int | float | bool


Argument = TensorArgument | ScalarArgument


def bind(
    kernel: Kernel,
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    positional: bool = False,
) -> tuple[Argument, ...]:
    """One argument per parameter of the kernel, in its order. `positional` says that each may be given by position.

    Raises UsageError for a call that does not fit the signature, LaunchRefused for an argument of the wrong kind, rank
    or dtype, BorrowError for one that was moved.
    """
    bound = tuple(
        _tensor(kernel, param, value)
        if isinstance(param, TensorParam)
        else ScalarArgument(param, _scalar(kernel, param, value))
        for param, value in zip(
            kernel.params,
            args
            if positional and not kwargs and len(args) == len(kernel.params)
            else _in_order(kernel, signature, args, kwargs),
            strict=True,
        )
    )
    _check_variables(kernel, [a for a in bound if isinstance(a, TensorArgument) and a.param.variable is not None])
    return bound


def _in_order(
    kernel: Kernel, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        takes = ", ".join(f"`{p.name}`" for p in kernel.params)
        raise UsageError(_unfit(kernel, signature, args, kwargs), f"it takes {takes}") from None
    bound.apply_defaults()
    return tuple(bound.arguments[param.name] for param in kernel.params)


def _unfit(kernel: Kernel, signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """What is wrong with a call that the signature refuses, in the linter's words."""
    name, known = f"`{kernel.name}`", signature.parameters
    if strange := [f"`{key}`" for key in kwargs if key not in known]:
        return f"{name} has no parameter {' or '.join(strange)}"
    places = [p.name for p in known.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    if len(args) > len(places):
        by_name = "" if len(places) == len(known) else " by position"
        return f"{name} takes {len(places)} arguments{by_name}, it got {len(args)}"
    if twice := [f"`{key}`" for key in places[: len(args)] if key in kwargs]:
        return f"{' and '.join(twice)} of {name} is given twice, by position and by name"
    given = {*places[: len(args)], *kwargs}
    missing = [f"`{p.name}`" for p in known.values() if p.default is p.empty and p.name not in given]
    return f"{', '.join(missing)} of {name} {'is' if len(missing) == 1 else 'are'} missing in this launch"


def _tensor(kernel: Kernel, param: TensorParam, value: Any) -> TensorArgument:
    name = f"`{param.name}`"
    if param.access in (Access.MUT, Access.MAPPED):
        argument = _partitioned(kernel, param, value)
    elif isinstance(value, Tensor):
        value._usable(name)
        argument = TensorArgument(param, value._elements, value._loan, value)
    elif isinstance(value, Partition):
        raise LaunchRefused(
            f"{name} of `{kernel.name}` is {_access(param)} and wants a tensor, it got a partition",
            f"pass the tensor itself, without `partition`: {name} is not cut into tiles",
            rule="usage",
        )
    else:
        raise _no_tensor(kernel, param, value)
    if param.access is Access.ATOMIC and isinstance(value, Tensor):
        value._writable(name)
    _check_kind(kernel, argument)
    return argument


def _partitioned(kernel: Kernel, param: TensorParam, value: Any) -> TensorArgument:
    name = f"`{param.name}`"
    wants_map = param.access is Access.MAPPED
    if isinstance(value, Tensor):
        shaped = _reshaped(kernel, param, value.shape)
        tile = ", ".join(map(str, _tile(kernel, param, value.shape)))
        mapped = f".map(({'1, ' * len(_tile(kernel, param, value.shape))}), blocks=1)" if wants_map else ""
        raise LaunchRefused(
            f"{name} of `{kernel.name}` is {_access(param)} and wants a partition, it got a whole tensor",
            f"cut it into one tile per block: `{param.name}{shaped}.partition({tile}){mapped}`",
            rule="unpartitioned-output",
        )
    if not isinstance(value, Partition):
        raise _no_tensor(kernel, param, value)
    if wants_map != (value.mapping is not None):
        raise LaunchRefused(
            f"{name} of `{kernel.name}` is {_access(param)}, it got a partition {'without' if wants_map else 'with'} a map",
            "add `.map(shape, blocks=n)`" if wants_map else "leave out `.map(...)`, or make the parameter `Mapped`",
        )
    value._usable(name)
    return TensorArgument(param, value._elements, value._loan, value, value.tile, value.exact, value.mapping)


def _tile(kernel: Kernel, param: TensorParam, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A tile that the kernel takes of a tensor like this: a Dim that a `Shared` parameter or `requires` names is a whole
    extent, and a thread-level kernel with a block has an element of a vector for each thread.
    """
    extents = param.extents if param.extents is not None else (None,) * len(shape)
    block = kernel.options.get("block")
    if len(extents) == 1 and isinstance(block, int | tuple):
        return (block if isinstance(block, int) else prod(block),)
    most = 128 if len(extents) < 2 else 64
    whole = {
        key
        for other in kernel.params
        if isinstance(other, TensorParam) and other.access not in (Access.MUT, Access.MAPPED)
        for key in other.extents or ()
    }
    asked = set(_WORD.findall(str(kernel.options.get("requires") or "")))
    whole |= {key for key, dim in kernel.dims.items() if dim.name in asked}
    tile: list[int] = []
    for axis, key in enumerate(extents):
        extent = max(shape[axis], 1) if len(shape) == len(extents) else most
        size = kernel.dims[key].size if key is not None else None
        power = 1 << min(extent, most).bit_length() - 1
        tile.append(size if size is not None else extent if key in whole else power)
    return tuple(tile)


def _reshaped(kernel: Kernel, param: TensorParam, shape: tuple[int, ...]) -> str:
    """The call that gives a tensor as many axes as the parameter has, empty if it has them."""
    if param.extents is None or len(param.extents) == len(shape):
        return ""
    sizes = [kernel.dims[key].size if key is not None else None for key in param.extents]
    if len(shape) == 1 and [size for size in sizes if size != 1] == [None]:
        return f".reshape({', '.join(str(shape[0]) if size is None else '1' for size in sizes)})"
    return ".reshape(...)"


def _no_tensor(kernel: Kernel, param: TensorParam, value: Any) -> LaunchRefused:
    kind, name, cut = f"a `{type(value).__name__}`", param.name, param.access in (Access.MUT, Access.MAPPED)
    if isinstance(value, int | float | np.generic):
        way_out = "a scalar is annotated `int`, `float` or `bool`"
    elif kind == "a `Running`":
        way_out = "`wait()` for its value"
    elif any(base.__name__ == "DeviceOp" for base in type(value).__mro__):
        kind, way_out = "a `DeviceOp`", "chain it: `op.then(lambda x: ...)`"
    elif value is None and cut:
        kind = "None, which is what the `partition` of a NumPy array gives: it sorts in place"
        way_out = f"make a tensor first: `tc.asarray({name}).partition(...)`"
    else:
        kind = _array(value) or kind
        lent = not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__")
        # NumPy's element types are converted on the way to the device, those of a borrowed array are what they are.
        converted = param.dtype is not None and not lent and not _holds(value, param.dtype)
        made = f"tc.{'from_dlpack' if lent else 'asarray'}({name}{f', tc.{param.dtype}' if converted else ''})"
        way_out = f"{'borrow it' if lent else 'copy it to the device'}: `{made}`"
        if cut:
            tile = ", ".join(map(str, _tile(kernel, param, getattr(value, "shape", ()))))
            kept = "" if lent else f", and read `{name}.numpy()` afterwards"
            way_out = f"make a tensor of it, `{name} = {made}`, pass `{name}.partition({tile})`{kept}"
    return LaunchRefused(f"`{name}` of `{kernel.name}` is a tensor parameter, it got {kind}", way_out, rule="usage")


def _array(value: Any) -> str | None:
    """An array of another library in words, with its element type: its class alone may be called `Tensor` too."""
    if isinstance(value, np.ndarray):
        return f"a NumPy array of {value.dtype}"
    if not hasattr(value, "dtype"):
        return None
    library = type(value).__module__.partition(".")[0]
    return f"a `{library}.{type(value).__name__}` of {value.dtype}"


def _holds(value: Any, dtype: str) -> bool:
    return isinstance(value, np.ndarray) and dtype_name(str(value.dtype)) == dtype


def _check_kind(kernel: Kernel, argument: TensorArgument) -> None:
    param, elements = argument.param, argument.elements
    if param.extents is not None and len(param.extents) != len(argument.shape):
        axes = "1 axis" if len(argument.shape) == 1 else f"{len(argument.shape)} axes"
        way_out = f"`{param.name}{_reshaped(kernel, param, argument.shape)}`, or annotate the parameter otherwise"
        if isinstance(argument.value, Partition):
            way_out = f"reshape the tensor before it is cut: {way_out}"
        raise LaunchRefused(
            f"{argument.name} has {axes}, shape {argument.shape}; `{kernel.name}` wants {len(param.extents)}",
            way_out,
            rule="shape-mismatch",
        )
    if param.dtype is not None and param.dtype != elements.dtype.name:
        raise LaunchRefused(
            f"{argument.name} holds {elements.dtype.name}, `{kernel.name}` wants {param.dtype}",
            f"{_converted(param, param.dtype)}, or annotate the parameter otherwise",
            rule="dtype-mismatch",
        )


def _check_variables(kernel: Kernel, arguments: Sequence[TensorArgument]) -> None:
    """Tensors whose parameters share a type variable hold one dtype, one that the variable lists."""
    first: dict[str, TensorArgument] = {}
    for argument in arguments:
        variable, dtype = argument.param.variable, argument.elements.dtype.name
        assert variable is not None
        if variable.among and dtype not in variable.among:
            raise LaunchRefused(
                f"{argument.name} holds {dtype}, `{kernel.name}` wants {either(variable.among)}",
                _converted(argument.param, variable.among[0]),
                rule="dtype-mismatch",
            )
        known = first.setdefault(variable.name, argument)
        if known.elements.dtype.name != dtype:
            raise LaunchRefused(
                f"{argument.name} holds {dtype}, {known.name} {known.elements.dtype.name}: in `{kernel.name}` both are "
                f"`{variable.name}`, one dtype",
                _converted(argument.param, known.elements.dtype.name),
                rule="dtype-mismatch",
            )


def _converted(param: TensorParam, dtype: str) -> str:
    """How an argument gets another dtype; what a kernel writes into a converted copy would be lost."""
    if param.access is Access.SHARED:
        return f"convert it: `{param.name}.astype(tc.{dtype})`"
    return f"make it with `dtype=tc.{dtype}`: the kernel writes into it"


def _scalar(kernel: Kernel, param: ScalarParam, value: Any) -> int | float | bool:
    plain = value.item() if isinstance(value, np.generic) else value
    match param.kind:
        case "bool" if isinstance(plain, bool):
            return plain
        case "float" if isinstance(plain, float | int) and not isinstance(plain, bool):
            try:
                return float(plain)
            except OverflowError:
                raise LaunchRefused(
                    f"`{param.name}` of `{kernel.name}` is an int beyond the range of a float", "pass a smaller number"
                ) from None
        case "int" if hasattr(plain, "__index__") and not isinstance(plain, bool):
            number = operator.index(plain)
            if not INT_MIN <= number <= INT_MAX:
                raise LaunchRefused(
                    f"`{param.name}` of `{kernel.name}` is {number}, kernel ints have 64 bits", rule="index-overflow"
                )
            return number
    # An adopted kernel has no annotations: a scalar has the kind of its value.
    kind = "number" if kernel.track == "numba" else f"scalar `{param.kind}`"
    way_out = f"pass a Python {'int or float' if kernel.track == 'numba' else param.kind}"
    if isinstance(value, Tensor):
        way_out += f", of a tensor of one element `{param.name}.item()`"
    raise LaunchRefused(
        f"`{param.name}` of `{kernel.name}` is a {kind}, it got {_shown(value)}", way_out, rule="dtype-mismatch"
    )


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, int | float | str | np.generic) else f"a `{type(value).__name__}`"


def _access(param: TensorParam) -> str:
    return "open" if param.access is None else f"`{param.access.value}`"


# ---- Dims


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a value of a Dim comes from; `place` completes `expected ... from`, `clash` starts the error."""

    key: str
    value: int
    place: str
    clash: str
    rule: str = "shape-mismatch"


def bind_dims(kernel: Kernel, arguments: tuple[Argument, ...], where: Mapping[str, int]) -> dict[str, int]:
    """The value of each Dim of the kernel by key. Raises LaunchRefused for two values or none."""
    first: dict[str, _Source] = {}
    for source in _sources(kernel, arguments, where):
        known = first.setdefault(source.key, source)
        if known.value != source.value:
            raise LaunchRefused(
                f"{source.clash}, expected {known.value}: `{kernel.dims[source.key].name}` is {known.value} from "
                f"{known.place}",
                "one `Dim` has one value in a launch: make the two agree, or declare a second `Dim`",
                rule=source.rule,
            )
    for key, decl in kernel.dims.items():
        if key not in first:
            raise LaunchRefused(
                f"`{decl.name}` of `{kernel.name}` has no value: no argument binds it",
                f"bind it: `{kernel.name}.where({decl.name}=64)(...)`",
                rule="unbound-dim",
            )
    return {key: source.value for key, source in first.items()}


def origins(kernel: Kernel, arguments: tuple[Argument, ...], message: str) -> tuple[str, ...]:
    """Where the Dims that a message names have their values from, if arguments gave them."""
    named = set(_WORD.findall(message))
    first: dict[str, str] = {}
    for source in _of_arguments(arguments):
        if (name := kernel.dims[source.key].name) in named:
            first.setdefault(name, f"`{name}` is {source.value}: {source.place}")
    return tuple(first.values())


def _sources(kernel: Kernel, arguments: tuple[Argument, ...], where: Mapping[str, int]) -> Iterator[_Source]:
    for key, decl in kernel.dims.items():
        if decl.size is not None:
            yield _Source(key, decl.size, "its definition", f"`{decl.name}` is {decl.size}")
    yield from _of_arguments(arguments)
    for name, value in where.items():
        for key, decl in kernel.dims.items():
            if decl.name == name:
                text = f"`where({name}={value})`"
                yield _Source(key, value, text, f"{text} binds {value}", "unbound-dim")


def _of_arguments(arguments: tuple[Argument, ...]) -> Iterator[_Source]:
    tensors = [a for a in arguments if isinstance(a, TensorArgument) and a.param.extents is not None]
    for argument in tensors:
        if argument.tile is not None:
            yield from _extents(argument, argument.tile, "the tile of ")
    for argument in tensors:
        if argument.tile is None:
            yield from _extents(argument, argument.shape, "the extent of ")


def _extents(argument: TensorArgument, extents: tuple[int, ...], what: str) -> Iterator[_Source]:
    for axis, (key, extent) in enumerate(zip(argument.param.extents or (), extents, strict=True)):
        if key is not None:
            clash = f"{what}{argument.name} is {extent} on axis {axis}"
            yield _Source(key, extent, f"{what}{argument.name} on axis {axis}", clash)
