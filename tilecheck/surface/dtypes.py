"""The element types: a class each, so that `Tensor[Mut, f32]` is ordinary typing, and a value at the same time.

`DType` objects at run time are the classes themselves: `f32.name`, `f32.bits`, `f32.kind`, `f32.numpy()`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar, Literal

Kind = Literal["float", "int", "uint", "bool"]


class DTypeClass(type):
    """The metaclass of element types: their repr is their name."""

    name: str
    kind: Kind
    bits: int
    storage_only: bool

    def __repr__(cls) -> str:
        return f"tilecheck.{cls.name}"

    def numpy(cls) -> Any:
        """The NumPy dtype, an `np.dtype` (from ml_dtypes for bf16 and the 8-bit floats).

        Imported by name, so that a type checker that reads these classes does not read NumPy's stubs with them.
        """
        dtype = import_module("numpy").dtype
        exotic = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
        if cls.name in exotic:
            return dtype(getattr(import_module("ml_dtypes"), exotic[cls.name]))
        return dtype("bool" if cls.kind == "bool" else f"{cls.kind}{cls.bits}")


class DType(metaclass=DTypeClass):
    """Base of the element types; not one itself."""

    name: ClassVar[str] = "dtype"
    kind: ClassVar[Kind] = "float"
    bits: ClassVar[int] = 0
    # Values are stored and cast, never computed with.
    storage_only: ClassVar[bool] = False


class f8e4m3(DType):
    """8-bit float with 4 exponent and 3 mantissa bits."""

    name = "f8e4m3"
    kind = "float"
    bits = 8
    storage_only = True


class f8e5m2(DType):
    """8-bit float with 5 exponent and 2 mantissa bits."""

    name = "f8e5m2"
    kind = "float"
    bits = 8
    storage_only = True


class f16(DType):
    """IEEE half precision."""

    name = "f16"
    kind = "float"
    bits = 16


class bf16(DType):
    """Bfloat16: the exponent of f32, 7 mantissa bits."""

    name = "bf16"
    kind = "float"
    bits = 16


class f32(DType):
    """IEEE single precision, the default."""

    name = "f32"
    kind = "float"
    bits = 32


class f64(DType):
    """IEEE double precision."""

    name = "f64"
    kind = "float"
    bits = 64


class i8(DType):
    """8-bit signed integer."""

    name = "i8"
    kind = "int"
    bits = 8


class i16(DType):
    """16-bit signed integer."""

    name = "i16"
    kind = "int"
    bits = 16


class i32(DType):
    """32-bit signed integer."""

    name = "i32"
    kind = "int"
    bits = 32


class i64(DType):
    """64-bit signed integer."""

    name = "i64"
    kind = "int"
    bits = 64


class u8(DType):
    """8-bit unsigned integer."""

    name = "u8"
    kind = "uint"
    bits = 8


class u16(DType):
    """16-bit unsigned integer."""

    name = "u16"
    kind = "uint"
    bits = 16


class u32(DType):
    """32-bit unsigned integer."""

    name = "u32"
    kind = "uint"
    bits = 32


class u64(DType):
    """64-bit unsigned integer."""

    name = "u64"
    kind = "uint"
    bits = 64


class bool_(DType):
    """Truth values."""

    name = "bool_"
    kind = "bool"
    bits = 8


DTYPES: dict[str, type[DType]] = {
    d.name: d for d in (f8e4m3, f8e5m2, f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool_)
}
