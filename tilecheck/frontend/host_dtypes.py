"""The dtypes of host code, by any of their names.

Worked example: `np.float32`, `numba.float32`, `torch.float`, `"f4"` and `"<f4"` all are `float32`.
"""

from __future__ import annotations

from tilecheck.frontend.scopes import Ref
from tilecheck.ir.host_array import DTYPES

_DTYPE_ALIASES = {
    "float_": "float64",
    "float": "float64",
    "double": "float64",
    "single": "float32",
    "half": "float16",
    "int": "int64",
    "int_": "int64",
    "intp": "int64",
    "uintp": "uint64",
    "uint": "uint64",
    "intc": "int32",
    "uintc": "uint32",
    "byte": "int8",
    "ubyte": "uint8",
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "longlong": "int64",
    "ulonglong": "uint64",
    "long_": "int64",
    "ulong": "uint64",
    "bool": "bool",
    "bool_": "bool",
    "boolean": "bool",
    "b1": "bool",
    "complex": "complex128",
    "f2": "float16",
    "f4": "float32",
    "f8": "float64",
    "i1": "int8",
    "i2": "int16",
    "i4": "int32",
    "i8": "int64",
    "u1": "uint8",
    "u2": "uint16",
    "u4": "uint32",
    "u8": "uint64",
    "c8": "complex64",
    "c16": "complex128",
    "f": "float32",
    "d": "float64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "bf16": "bfloat16",
}


# Names that torch, and ours, give another meaning than NumPy, whose `i8` has eight bytes.
_TORCH_ALIASES = {"float": "float32", "int": "int32", "long": "int64"}
_OURS = {"i8": "int8", "u8": "uint8"}


def dtype_name(value: object) -> str | None:
    """The NumPy name of a dtype written as `np.float32`, `numba.float32`, `"f4"`, `float`; None if it is none."""
    if isinstance(value, Ref):
        head, _, name = value.path.rpartition(".")
        if head == "torch":
            name = _TORCH_ALIASES.get(name, name)
        elif head == "tilecheck":
            name = _OURS.get(name, name)
        elif head not in ("numpy", "cupy", "numba", "builtins", "numba.cuda", "tilecheck"):
            return None
    elif isinstance(value, str):
        name = value.lstrip("<>=|")
    else:
        return None
    name = _DTYPE_ALIASES.get(name, name)
    return name if name in DTYPES else None


def width_of(value: object, attribute: str) -> int | None:
    """What `dtype.itemsize` and numba's `type.bitwidth` give, None if `value.attribute` is neither."""
    name = dtype_name(value) if isinstance(value, Ref) and attribute in ("itemsize", "bitwidth") else None
    size = None if name is None else DTYPES[name]
    return size if size is None or attribute == "itemsize" else 8 * size
