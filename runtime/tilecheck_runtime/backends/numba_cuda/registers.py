"""Elements in registers: how each dtype is held, computed with, and moved.

A thread's share of a tile is a numba tuple of one register type, so the generated source is one line per tile op and
every element stays in a register. The register type of a dtype is the numba type of the same width; floats of 16 and 8
bits are held as unsigned bit patterns, as numba-cuda holds them.

Invariant: f16 and bf16 arithmetic computes in f32 and rounds after every op. For + - * / and sqrt that equals the
correctly rounded result, since f32 carries more than twice the bits; so this backend and the interpreter agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, TypeAlias

from llvmlite import ir
from numba import types

I1: Final = ir.IntType(1)
I8: Final = ir.IntType(8)
I16: Final = ir.IntType(16)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
HALF: Final = ir.HalfType()
FLOAT: Final = ir.FloatType()
DOUBLE: Final = ir.DoubleType()

Value: TypeAlias = ir.Value

_NUMBA: Final[dict[str, Any]] = {
    "f16": types.uint16,
    "bf16": types.uint16,
    "f8e4m3": types.uint8,
    "f8e5m2": types.uint8,
    "f32": types.float32,
    "f64": types.float64,
    "bool_": types.boolean,
    **{f"i{bits}": getattr(types, f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": getattr(types, f"uint{bits}") for bits in (8, 16, 32, 64)},
}

_LLVM: Final[dict[str, ir.Type]] = {
    "f16": I16,
    "bf16": I16,
    "f8e4m3": I8,
    "f8e5m2": I8,
    "f32": FLOAT,
    "f64": DOUBLE,
    "bool_": I1,
    "i8": I8,
    "i16": I16,
    "i32": I32,
    "i64": I64,
    "u8": I8,
    "u16": I16,
    "u32": I32,
    "u64": I64,
}

SIZE: Final[dict[str, int]] = {
    "f16": 2,
    "bf16": 2,
    "f8e4m3": 1,
    "f8e5m2": 1,
    "f32": 4,
    "f64": 8,
    "bool_": 1,
    **{f"{kind}{bits}": bits // 8 for kind in "iu" for bits in (8, 16, 32, 64)},
}


def numba_type(dtype: str) -> Any:
    """The numba type that holds one element of `dtype` in a register."""
    return _NUMBA[dtype]


def llvm_type(dtype: str) -> ir.Type:
    """The LLVM type that holds one element of `dtype` in a register."""
    return _LLVM[dtype]


def is_float(dtype: str) -> bool:
    return dtype[0] in "fb" and dtype != "bool_"


def is_signed(dtype: str) -> bool:
    return dtype[0] == "i"


def is_bool(dtype: str) -> bool:
    return dtype == "bool_"


def work_dtype(dtype: str) -> str:
    """The dtype that arithmetic on `dtype` is done in."""
    return "f32" if dtype in ("f16", "bf16", "f8e4m3", "f8e5m2") else dtype


def constant(dtype: str, value: float | int | bool) -> Value:
    """`value` as a register constant of `dtype`."""
    if is_bool(dtype):
        return ir.Constant(I1, int(bool(value)))
    if dtype in ("f32", "f64"):
        return ir.Constant(llvm_type(dtype), float(value))
    if is_float(dtype):
        import numpy as np

        from tilecheck.surface.dtypes import DTYPES

        bits = np.array(value).astype(DTYPES[dtype].numpy()).view(f"uint{8 * SIZE[dtype]}")
        return ir.Constant(llvm_type(dtype), int(bits))
    width = 8 * SIZE[dtype]
    return ir.Constant(llvm_type(dtype), int(value) & ((1 << width) - 1))


# The architecture that is being compiled for; `compile.py` sets it around numba's compilation.
TARGET: Final[ContextVar[tuple[int, int]]] = ContextVar("TARGET", default=(8, 0))


def target_has(capability: tuple[int, int]) -> bool:
    """Whether the code being built may use what `capability` brought."""
    return TARGET.get() >= capability


@cache
def _asm(text: str, result: ir.Type, operands: tuple[ir.Type, ...], constraints: str, effects: bool) -> ir.InlineAsm:
    return ir.InlineAsm(ir.FunctionType(result, operands), text, constraints, side_effect=effects)


def call_asm(
    builder: ir.IRBuilder, text: str, result: ir.Type, constraints: str, *args: Value, effects: bool = False
) -> Value:
    """One inline PTX instruction; with `effects` it stays where it is and never becomes one with an equal one."""
    kind = _asm(text, result, tuple(a.type for a in args), constraints, effects)
    if effects:
        return builder.call(kind, list(args), attrs=("nounwind",))
    # `readnone` lets equal instructions on equal operands become one.
    return builder.call(kind, list(args), attrs=("readnone", "nounwind"))


def widen(builder: ir.IRBuilder, dtype: str, value: Value) -> Value:
    """`value` in its work dtype."""
    match dtype:
        case "f16":
            # Spelled out: NVVM folds `fpext half` into a mixed multiply-add that sm_90 has not.
            return call_asm(builder, "cvt.f32.f16 $0, $1;", FLOAT, "=f,h", value)
        case "bf16":
            return builder.bitcast(builder.shl(builder.zext(value, I32), ir.Constant(I32, 16)), FLOAT)
        case "f8e4m3" | "f8e5m2":
            kind = "e4m3x2" if dtype == "f8e4m3" else "e5m2x2"
            pair = builder.zext(value, I16)
            text = f"{{ .reg .b32 p; .reg .b16 l, h; cvt.rn.f16x2.{kind} p, $1; mov.b32 {{l, h}}, p; mov.b16 $0, l; }}"
            bits = call_asm(builder, text, I16, "=h,h", pair)
            return builder.fpext(builder.bitcast(bits, HALF), FLOAT)
        case _:
            return value


def narrow(builder: ir.IRBuilder, dtype: str, value: Value) -> Value:
    """A value of the work dtype rounded to `dtype`, to nearest even; 8-bit floats saturate."""
    match dtype:
        case "f16" if not target_has((8, 0)):
            # Spelled out: NVVM folds `fptrunc` into a minimum of halves, which sm_75 has not.
            return call_asm(builder, "cvt.rn.f16.f32 $0, $1;", I16, "=h,f", value)
        case "f16":
            return builder.bitcast(builder.fptrunc(value, HALF), I16)
        case "bf16" if not target_has((8, 0)):
            return _rounded_bf16(builder, value)
        case "bf16":
            return call_asm(builder, "cvt.rn.bf16.f32 $0, $1;", I16, "=h,f", value)
        case "f8e4m3" | "f8e5m2":
            kind = "e4m3x2" if dtype == "f8e4m3" else "e5m2x2"
            text = f"{{ .reg .f32 z; mov.f32 z, 0f00000000; cvt.rn.satfinite.{kind}.f32 $0, z, $1; }}"
            return builder.trunc(call_asm(builder, text, I16, "=h,f", value), I8)
        case _:
            return value


def _rounded_bf16(builder: ir.IRBuilder, value: Value) -> Value:
    """f32 to bf16 without an instruction for it: half a unit less one is added, and one more to an odd result."""
    bits = builder.bitcast(value, I32)
    odd = builder.and_(builder.lshr(bits, ir.Constant(I32, 16)), ir.Constant(I32, 1))
    rounded = builder.add(bits, builder.add(odd, ir.Constant(I32, 0x7FFF)))
    kept = builder.select(builder.fcmp_unordered("uno", value, value), ir.Constant(I32, 0x7FFF0000), rounded)
    return builder.trunc(builder.lshr(kept, ir.Constant(I32, 16)), I16)


def narrow_all(builder: ir.IRBuilder, dtype: str, values: Sequence[Value]) -> list[Value]:
    """`narrow` of neighbouring elements, two at a time where the hardware converts pairs."""
    if dtype not in ("f16", "bf16") or len(values) % 2 or not target_has((8, 0)):
        return [narrow(builder, dtype, v) for v in values]
    narrowed: list[Value] = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        pair = call_asm(builder, f"cvt.rn.{dtype}x2.f32 $0, $1, $2;", I32, "=r,f,f", high, low)
        narrowed += unpack(builder, pair, I16, 2)
    return narrowed


def cast(builder: ir.IRBuilder, source: str, target: str, value: Value) -> Value:
    """`value` of dtype `source` as dtype `target`: floats to ints truncate, ints wrap, anything to bool is `!= 0`."""
    if source == target:
        return value
    wide_source, wide_target = work_dtype(source), work_dtype(target)
    value = widen(builder, source, value)
    if is_bool(target):
        if is_float(wide_source):
            return builder.fcmp_unordered("!=", value, ir.Constant(value.type, 0.0))
        return builder.icmp_unsigned("!=", value, ir.Constant(value.type, 0))
    to = llvm_type(wide_target)
    if is_float(wide_source) and is_float(wide_target):
        if SIZE[wide_source] < SIZE[wide_target]:
            value = builder.fpext(value, to)
        elif SIZE[wide_source] > SIZE[wide_target]:
            value = builder.fptrunc(value, to)
    elif is_float(wide_source):
        value = builder.fptosi(value, to) if is_signed(wide_target) else builder.fptoui(value, to)
    elif is_float(wide_target):
        value = builder.sitofp(value, to) if is_signed(wide_source) else builder.uitofp(value, to)
    elif SIZE[wide_source] > SIZE[wide_target] and not is_bool(source):
        value = builder.trunc(value, to)
    elif value.type != to:
        value = builder.sext(value, to) if is_signed(wide_source) else builder.zext(value, to)
    return narrow(builder, target, value)


def cast_all(builder: ir.IRBuilder, source: str, target: str, values: Sequence[Value]) -> list[Value]:
    """`cast` of neighbouring elements."""
    if source == "f32" and target in ("f16", "bf16"):
        return narrow_all(builder, target, values)
    return [cast(builder, source, target, v) for v in values]


def pack(builder: ir.IRBuilder, values: Sequence[Value]) -> Value:
    """Neighbouring elements as one vector for a wide access; elements under 32 bits travel as words, because NVVM splits
    longer vectors of short elements, and would make one of a cast and its store.
    """
    words = _words(values[0].type, len(values))
    if isinstance(words, ir.VectorType) and values[0].type == I16:
        pairs = zip(values[::2], values[1::2], strict=True)
        return _vector(builder, [call_asm(builder, "mov.b32 $0, {$1, $2};", I32, "=r,h,h", *pair) for pair in pairs])
    vector = _vector(builder, values)
    return vector if words is None else builder.bitcast(vector, words)


def _vector(builder: ir.IRBuilder, values: Sequence[Value]) -> Value:
    vector: Value = ir.Constant(ir.VectorType(values[0].type, len(values)), ir.Undefined)
    for i, value in enumerate(values):
        vector = builder.insert_element(vector, value, I32(i))
    return vector


def unpack(builder: ir.IRBuilder, vector: Value, kind: ir.Type, count: int) -> list[Value]:
    """The `count` elements of type `kind` of a vector made by `pack` or loaded as `packed_type`."""
    words = _words(kind, count)
    if words is not None:
        if isinstance(words, ir.VectorType):
            vector = _opaque(builder, vector, words)
        vector = builder.bitcast(vector, ir.VectorType(kind, count))
    return [builder.extract_element(vector, I32(i)) for i in range(count)]


def _opaque(builder: ir.IRBuilder, vector: Value, words: ir.VectorType) -> Value:
    """`vector` by a way that NVVM does not see through: it would fold the elements into the load and split that in two."""
    parts = [builder.extract_element(vector, I32(i)) for i in range(words.count)]
    return _vector(builder, [call_asm(builder, "mov.b32 $0, $1;", I32, "=r,r", part) for part in parts])


def packed_type(kind: ir.Type, count: int) -> ir.Type:
    """The type in memory of `count` elements of type `kind` that one access moves."""
    return _words(kind, count) or ir.VectorType(kind, count)


def element_bytes(kind: ir.Type) -> int:
    """Bytes of a register type in memory."""
    if isinstance(kind, ir.IntType):
        return max(int(kind.width) // 8, 1)
    return 8 if kind == DOUBLE else 4


def _words(kind: ir.Type, count: int) -> ir.Type | None:
    if not isinstance(kind, ir.IntType) or kind.width >= 32:
        return None
    bits = kind.width * count
    return ir.VectorType(I32, bits // 32) if bits > 32 else ir.IntType(bits)


def libdevice(builder: ir.IRBuilder, name: str, *args: Value) -> Value:
    """Call `__nv_<name>` (with the f suffix for f32) of CUDA's libdevice."""
    kind = args[0].type
    symbol = f"__nv_{name}f" if kind == FLOAT else f"__nv_{name}"
    module = builder.module
    function = module.globals.get(symbol)
    if function is None:
        function = ir.Function(module, ir.FunctionType(kind, [a.type for a in args]), symbol)
    return builder.call(function, list(args))


Elementwise = Callable[[ir.IRBuilder, str, Sequence[Value]], Value]


def in_work_dtype(compute: Elementwise) -> Elementwise:
    """Lift `compute`, written for work dtypes, to every dtype: widen, compute, round."""

    def lifted(builder: ir.IRBuilder, dtype: str, args: Sequence[Value]) -> Value:
        wide = [widen(builder, dtype, a) for a in args]
        return narrow(builder, dtype, compute(builder, work_dtype(dtype), wide))

    return lifted
