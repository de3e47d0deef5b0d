"""What host code does with arrays: constructors, attributes, methods, subscripts, dtypes by any of their names.

Worked example: `array_call("numpy.zeros", [(4, 3)], {})` is a `HostArray` of shape (4, 3), dtype float64, contents 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilecheck.frontend.host_arithmetic import combined
from tilecheck.frontend.host_contents import added_up, in_order, integers, permuted, sorting
from tilecheck.frontend.host_dtypes import dtype_name
from tilecheck.frontend.scopes import UNKNOWN, Ref
from tilecheck.ir.host_array import Contents, Derived, Extent, HostArray, Stranger, itemsize, limits_of


def array_attribute(array: HostArray, name: str) -> object:
    """`array.name`."""
    if name == "shape":
        if array.shape is None:
            return UNKNOWN
        return tuple(UNKNOWN if extent is None else extent for extent in array.shape)
    if name == "size":
        return UNKNOWN if array.size is None else array.size
    if name == "ndim":
        return UNKNOWN if array.shape is None else len(array.shape)
    if name == "dtype":
        return UNKNOWN if array.dtype is None else Ref(f"numpy.{array.dtype}")
    if name == "T" and array.shape is not None:
        steps = tuple(reversed(array.steps())) if len(array.shape) > 1 else array.strides
        return replace(array, shape=tuple(reversed(array.shape)), strides=steps, contents=None)
    if name in ("nbytes", "itemsize") and array.dtype is not None:
        width = itemsize(array.dtype)
        total: Extent = 1 if name == "itemsize" else array.size
        return UNKNOWN if width is None or total is None else width * total
    return UNKNOWN


def array_method(array: HostArray, name: str, args: list[object], kwargs: dict[str, object]) -> object:
    """`array.name(*args)` where it gives an array."""
    if name == "astype":
        copied = array.fresh() if kwargs.get("copy", True) is True else replace(array, offset=None, contents=None)
        return replace(copied, dtype=dtype_name(args[0]) if args else None)
    if name in ("copy", "copy_to_host"):
        return array.fresh(host=array.host or name == "copy_to_host")
    if name in ("argsort", "cumsum") and not args and not kwargs:
        return arranged(name, array, host=array.host)
    if name in ("ravel", "flatten"):
        if array.contiguous() and name == "ravel":
            return replace(array, shape=(array.size,))
        return HostArray((array.size,), array.dtype, None, array.host, array.buffer, None)
    if name == "reshape":
        extents = shape_of(args[0] if len(args) == 1 else tuple(args))
        if extents is None:
            return replace(array, shape=None, strides=None, offset=None, contents=None)
        shape_with_rest = _fill_rest(args[0] if len(args) == 1 else tuple(args), extents, array.size)
        if array.contiguous():
            return replace(array, shape=shape_with_rest)
        return HostArray(shape_with_rest, array.dtype, None, array.host, array.buffer, None)
    if name == "view":
        dtype = dtype_name(args[0]) if args else array.dtype
        return replace(array, dtype=dtype, shape=None, contents=None, offset=None, strides=None)
    return _torch_method(array, name, args)


def arranged(name: str, array: HostArray, *, host: bool) -> HostArray:
    """`sort`, `argsort` or `cumsum` of an array along its last axis, or of the flat array."""
    if name == "sort":
        return HostArray(array.shape, array.dtype, in_order(array), host)
    if name == "argsort":
        return HostArray(array.shape, "int64", sorting(array), host)
    limits = limits_of(array.dtype)
    dtype = array.dtype if limits is None else "uint64" if limits[0] == 0 else "int64"
    flat = array.shape if array.shape is not None and len(array.shape) == 1 else (array.size,)
    return HostArray(flat, None if dtype == "bool" else dtype, added_up(array), host)


def array_item(array: HostArray, index: list[object]) -> object:
    """`array[index]`: a view, an element if it is known, or UNKNOWN."""
    view = array.window(index)
    if view is None:
        return UNKNOWN
    if view.shape:
        return view
    found = array.element(view.offset)
    return UNKNOWN if found is None else found


def shape_of(value: object) -> tuple[Extent, ...] | None:
    """A shape argument as extents; an unknown or negative entry is None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return (value if value >= 0 else None,)
    if isinstance(value, tuple | list):
        return tuple(item if isinstance(item, int) and item >= 0 else None for item in value)
    return None


def _fill_rest(value: object, extents: tuple[Extent, ...], size: Extent) -> tuple[Extent, ...]:
    """Replace the one -1 of a reshape by what is left of `size`."""
    asked = value if isinstance(value, tuple | list) else (value,)
    if list(asked).count(-1) != 1 or size is None:
        return extents
    known = 1
    for item in asked:
        if item != -1:
            if not isinstance(item, int):
                return extents
            known *= item
    return tuple(size // known if item == -1 and known else extent for item, extent in zip(asked, extents, strict=True))


def nested_values(value: object) -> tuple[tuple[int, ...], tuple[object, ...]] | None:
    """Shape and flat values of nested sequences of numbers, None if ragged or not plain."""
    if isinstance(value, int | float | complex):
        return (), (value,)
    if not isinstance(value, list | tuple | range) or len(value) > 1 << 14:
        return None
    parts = [nested_values(item) for item in value]
    if not parts:
        return (0,), ()
    first = parts[0]
    flat: list[object] = []
    for part in parts:
        if part is None or first is None or part[0] != first[0]:
            return None
        flat.extend(part[1])
    assert first is not None
    return (len(parts), *first[0]), tuple(flat)


def _default_dtype(values: Sequence[object]) -> str:
    if any(isinstance(v, complex) for v in values):
        return "complex128"
    if any(isinstance(v, float) for v in values) or not values:
        return "float64"
    return "bool" if all(isinstance(v, bool) for v in values) else "int64"


_ELEMENTWISE = frozenset({"maximum", "minimum", "add", "subtract", "multiply", "divide", "mod", "where", "power"})
_SAME_SHAPE = frozenset(
    {"sin", "cos", "exp", "log", "sqrt", "abs", "roll", "sort", "tril", "triu", "cumsum", "copy"} | {"asfortranarray"}
)
_FILLED = {"zeros": 0, "ones": 1, "empty": None, "full": None}
_DEVICE = frozenset({"device_array", "pinned_array", "mapped_array", "managed_array"})


def array_call(path: str, args: list[object], kwargs: dict[str, object]) -> HostArray | None:
    """The array that a call of the library function `path` makes, None if it makes none that we know.

    Unless it is row-major for sure its steps are unknown.
    """
    made = _array_call(path, args, kwargs)
    if made is None or made.shape is None or kwargs.get("order", "C") in ("C", None):
        return made
    return replace(made, strides=(None,) * len(made.shape))


def _array_call(path: str, args: list[object], kwargs: dict[str, object]) -> HostArray | None:
    head, _, name = path.rpartition(".")
    first = args[0] if args else kwargs.get("shape", kwargs.get("ary", kwargs.get("obj")))
    if head in ("numpy", "cupy"):
        return _numpy_call(name, first, args, kwargs, host=head == "numpy")
    if head == "torch":
        return torch_call(name, first, args, kwargs)
    if head == "numpy.random" or head.startswith("numpy.random."):
        return _random_call(name, args, kwargs)
    if head == "numba.cuda":
        if name in _DEVICE and kwargs.get("strides") is not None:
            return None
        if name in _DEVICE:
            dtype = dtype_name(args[1] if len(args) > 1 else kwargs.get("dtype", "float64"))
            return HostArray(shape_of(first), dtype, host=name == "pinned_array")
        if name in ("to_device", "as_cuda_array") and isinstance(first, HostArray):
            # What is on the device already is not copied.
            return first.fresh(host=False) if name == "to_device" and first.host else replace(first, host=False)
        if name == "device_array_like" and isinstance(first, HostArray):
            return first.fresh(host=False).vague()
        if name.endswith("_array_like") and isinstance(first, HostArray):
            return first.fresh(host=name.startswith("pinned")).vague()
        if name in _DEVICE or name == "device_array_like":
            return HostArray(None, host=False)
    if head == "tilecheck":
        return _tensor_call(name, first, args, kwargs)
    if path == "numba.cuda.random.create_xoroshiro128p_states":
        return HostArray(shape_of(first), None, host=False)
    return None


def _tensor_call(name: str, first: object, args: list[object], kwargs: dict[str, object]) -> HostArray | None:
    """A tensor of ours: f32 unless it says otherwise, extents as separate arguments or one tuple."""
    given = kwargs.get("dtype")
    dtype = "float32" if given is None else dtype_name(given)
    if name == "asarray":
        made = _numpy_call("asarray", first, args, kwargs, host=True)
        return None if made is None else made.fresh(host=False)
    if name == "arange":
        made = _arange(args, kwargs, host=False)
        return made if given is not None else replace(made, dtype="int32" if made.dtype == "int64" else "float32")
    if name in ("zeros", "ones", "empty", "rand", "randn"):
        shape = shape_of(first if len(args) == 1 else tuple(args))
        contents = {"zeros": Contents(0), "ones": Contents(1)}.get(name)
        return HostArray(shape, dtype, contents, host=False)
    if name == "full":
        value = args[1] if len(args) > 1 else kwargs.get("value")
        return HostArray(
            shape_of(first), dtype, Contents(value) if isinstance(value, int | float) else None, host=False
        )
    return None


def _numpy_call(
    name: str, first: object, args: list[object], kwargs: dict[str, object], *, host: bool
) -> HostArray | None:
    dtype_given = kwargs.get("dtype")
    if name in _FILLED:
        place = 2 if name == "full" else 1
        value = _FILLED[name] if name != "full" else (args[1] if len(args) > 1 else kwargs.get("fill_value"))
        given = args[place] if len(args) > place else dtype_given
        fallback = _default_dtype([value]) if name == "full" and isinstance(value, int | float) else "float64"
        dtype = fallback if given is None else dtype_name(given)
        contents = Contents(value) if isinstance(value, int | float) else None
        return HostArray(shape_of(first), dtype, contents, host)
    if name.removesuffix("_like") in _FILLED and name.endswith("_like") and isinstance(first, HostArray):
        dtype = first.dtype if dtype_given is None else dtype_name(dtype_given)
        filled = _FILLED[name.removesuffix("_like")]
        contents = None if filled is None else Contents(filled)
        return replace(first.fresh(host=host), dtype=dtype, contents=contents)
    if name == "arange":
        return _arange(args, kwargs, host=host)
    if name == "linspace":
        count = args[2] if len(args) > 2 else kwargs.get("num", 50)
        return HostArray(shape_of(count), "float64" if dtype_given is None else dtype_name(dtype_given), None, host)
    if name in ("array", "asarray", "ascontiguousarray"):
        if isinstance(first, HostArray):
            apart = name == "array" and kwargs.get("copy", True) is True
            copied = first.fresh(host=host) if apart else first if name != "array" else replace(first, offset=None)
            wanted = dtype_name(dtype_given)
            if dtype_given is None or (wanted is not None and wanted == first.dtype):
                return copied
            known = wanted is not None and first.dtype is not None
            return replace(copied.fresh(host=host) if known else replace(copied, offset=None), dtype=wanted)
        given = args[1] if len(args) > 1 else dtype_given
        if isinstance(given, list):
            return _records(first, host)
        least = kwargs.get("ndmin", 0)
        if isinstance(first, Stranger | Derived) and name != "array":
            return None
        read = nested_values(first)
        if isinstance(least, int) and read is not None and len(read[0]) < least:
            read = (*(1 for _ in range(least - len(read[0]))), *read[0]), read[1]
        if read is None:
            return HostArray(_partial_shape(first), None if given is None else dtype_name(given), None, host)
        dtype = _default_dtype(read[1]) if given is None else dtype_name(given)
        return HostArray(read[0], dtype, Contents(values=read[1]), host)
    if name in _ELEMENTWISE and isinstance(first, HostArray):
        return combined(first, args[1] if len(args) > 1 else 0)
    if name == "flip" and isinstance(first, HostArray):
        steps = None if first.shape is None else (None,) * len(first.shape)
        return replace(first, offset=None, strides=steps, contents=None)
    if name in ("sort", "argsort", "cumsum") and isinstance(first, HostArray) and len(args) == 1 and not kwargs:
        return arranged(name, first, host=host)
    if name in _SAME_SHAPE and isinstance(first, HostArray):
        return HostArray(first.shape, None if name == "cumsum" else first.dtype, None, host)
    if name in ("eye", "identity"):
        rows = shape_of(first)
        return HostArray(None if rows is None else (*rows, *rows), "float64", None, host)
    return None


_TORCH_FILLED = {"zeros": 0, "ones": 1, "empty": None, "rand": None, "randn": None, "full": None}


def torch_call(name: str, first: object, args: list[object], kwargs: dict[str, object]) -> HostArray | None:
    """A torch tensor; extents are given one by one or as one tuple, floats are 32-bit unless a dtype is named."""
    given = kwargs.get("dtype")
    dtype = "float32" if given is None else dtype_name(given)
    if name in _TORCH_FILLED:
        value = _TORCH_FILLED[name]
        size = kwargs.get("size", first)
        whole = size if name == "full" or isinstance(size, tuple | list) else tuple(args)
        if name == "full":
            value = args[1] if len(args) > 1 and isinstance(args[1], int) else None
        return HostArray(shape_of(whole), dtype, None if value is None else Contents(value), host=False)
    if name.removesuffix("_like") in _TORCH_FILLED and isinstance(first, HostArray):
        return replace(first.fresh(host=False).vague(), dtype=first.dtype if given is None else dtype)
    if name == "arange":
        counted = _arange(args, kwargs, host=False)
        return counted if given is not None or counted.dtype != "float64" else replace(counted, dtype="float32")
    if name in ("randint", "randperm"):
        size = kwargs.get("size", args[-1] if args else None)
        return HostArray(shape_of(size), "int64" if given is None else dtype, host=False)
    return None


def _torch_method(array: HostArray, name: str, args: list[object]) -> object:
    """Methods that only torch tensors have, UNKNOWN for the rest."""
    if name in ("detach", "requires_grad_") or (name == "contiguous" and array.contiguous()):
        return array
    if name == "contiguous":
        return replace(array, offset=None, strides=None, contents=None)
    if name == "cuda":
        return replace(array, offset=None)
    if name == "to":
        dtype = array.dtype if args and isinstance(args[0], str) else None
        return replace(array, offset=None, dtype=dtype)
    if name == "clone":
        return array.fresh()
    if name == "numel" and array.size is not None:
        return array.size
    return array_attribute(array, "T") if name == "t" else UNKNOWN


def _partial_shape(value: object) -> tuple[Extent, ...] | None:
    """The leading extent of a display whose items are unknown scalars or arrays: the rank is known only for scalars."""
    if isinstance(value, list | tuple) and value and all(isinstance(item, int | float | complex) for item in value):
        return (len(value),)
    return None


def _records(value: object, host: bool) -> HostArray:
    """An array of a structured dtype: lists are axes, tuples are elements."""
    shape: list[Extent] = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return HostArray(tuple(shape), None, None, host)


def _arange(args: list[object], kwargs: dict[str, object], *, host: bool) -> HostArray:
    numbers = [a for a in args if isinstance(a, int | float)]
    given = kwargs.get("dtype", args[3] if len(args) > 3 else None)
    if len(numbers) < len(args[:3]) or not numbers or kwargs.keys() & {"start", "stop", "step"}:
        return HostArray((None,), None if given is None else dtype_name(given), None, host)
    start: float = 0 if len(numbers) == 1 else numbers[0]
    stop: float = numbers[0] if len(numbers) == 1 else numbers[1]
    step: float = numbers[2] if len(numbers) > 2 else 1
    count = max(0, -int(-(stop - start) // step)) if step else 0
    dtype = _default_dtype([start, stop, step]) if given is None else dtype_name(given)
    return HostArray((count,), dtype, Contents(start, step), host)


_RANDOM_SHAPE = {"rand": None, "randn": None, "random": 0, "random_sample": 0, "standard_normal": 0, "permutation": 0}
_RANDOM_SIZE = {"randint": 2, "integers": 2, "uniform": 2, "normal": 2, "choice": 1}


def _random_call(name: str, args: list[object], kwargs: dict[str, object]) -> HostArray | None:
    if name in ("rand", "randn"):
        return HostArray(shape_of(tuple(args)), "float64") if args else None
    size = kwargs.get("size")
    if size is None and name in _RANDOM_SHAPE and args:
        size = args[0].shape if isinstance(args[0], HostArray) else args[0]
    if size is None and name in _RANDOM_SIZE and len(args) > _RANDOM_SIZE[name]:
        size = args[_RANDOM_SIZE[name]]
    if size is None:
        return None
    integral = name in ("randint", "integers", "permutation")
    given = kwargs.get("dtype")
    dtype = ("int64" if integral else "float64") if given is None else dtype_name(given)
    drawn = None
    if name in ("randint", "integers"):
        drawn = integers(name, args, kwargs)
    elif name == "permutation" and len(args) == 1 and not kwargs:
        drawn = permuted(args[0])
    return HostArray(shape_of(size), dtype, drawn)
