"""The block's shared memory and its barriers, as the generated code uses them.

One dynamic buffer serves every op in turn. Invariant: an op that uses the buffer begins and ends with a block barrier,
so two uses never overlap and no op needs to know its neighbours. Ops run in control flow that is uniform over the
block (tile programs have no other), so every thread meets every barrier.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from tilecheck_runtime.backends.numba_cuda.registers import FLOAT, I1, I8, I32, I64, Value, llvm_type

SHARED_SPACE: Final = 3
GLOBAL_SPACE: Final = 1
SCRATCH: Final = "tilecheck_scratch"


def _declare(builder: ir.IRBuilder, name: str, kind: ir.FunctionType) -> ir.Function:
    module = builder.module
    found = module.globals.get(name)
    return found if found is not None else ir.Function(module, kind, name)


def barrier(builder: ir.IRBuilder) -> None:
    """`__syncthreads()`."""
    builder.call(_declare(builder, "llvm.nvvm.barrier0", ir.FunctionType(ir.VoidType(), [])), [])


def thread_index(builder: ir.IRBuilder) -> Value:
    """`threadIdx.x` as i32."""
    return builder.call(_declare(builder, "llvm.nvvm.read.ptx.sreg.tid.x", ir.FunctionType(I32, [])), [])


def scratch(builder: ir.IRBuilder, dtype: str, offset: int = 0) -> Value:
    """The shared buffer as a pointer to elements of `dtype`, `offset` bytes in (a multiple of 16)."""
    module = builder.module
    buffer = module.globals.get(SCRATCH)
    if buffer is None:
        buffer = ir.GlobalVariable(module, ir.ArrayType(I8, 0), SCRATCH, addrspace=SHARED_SPACE)
        buffer.linkage = "external"
        buffer.align = 16
    start = builder.gep(buffer, [I32(0), I32(offset)])
    kind = I8 if dtype == "bool_" else llvm_type(dtype)
    return builder.bitcast(start, ir.PointerType(kind, SHARED_SPACE))


def private(builder: ir.IRBuilder, name: str, dtype: str, count: int) -> Value:
    """A small buffer of one op alone, as a pointer to elements of `dtype`."""
    module = builder.module
    kind = I8 if dtype == "bool_" else llvm_type(dtype)
    buffer = module.globals.get(name)
    if buffer is None:
        array = ir.ArrayType(kind, count)
        buffer = ir.GlobalVariable(module, array, name, addrspace=SHARED_SPACE)
        buffer.linkage = "internal"
        buffer.initializer = ir.Constant(array, ir.Undefined)
        buffer.align = 16
    return builder.gep(buffer, [I32(0), I32(0)])


def put(builder: ir.IRBuilder, base: Value, index: Value, value: Value) -> None:
    """`base[index] = value`; truth values are stored as bytes."""
    if value.type == I1:
        value = builder.zext(value, I8)
    builder.store(value, builder.gep(base, [index]))


def get(builder: ir.IRBuilder, dtype: str, base: Value, index: Value) -> Value:
    """`base[index]`."""
    value = builder.load(builder.gep(base, [index]))
    return builder.trunc(value, I1) if dtype == "bool_" else value


def shuffle_xor(builder: ir.IRBuilder, value: Value, lanes: int) -> Value:
    """The value of the lane whose number differs in `lanes`; all 32 lanes take part."""
    kind = ir.FunctionType(I32, [I32, I32, I32, I32])
    function = _declare(builder, "llvm.nvvm.shfl.sync.bfly.i32", kind)

    def move(word: Value) -> Value:
        return builder.call(function, [I32(0xFFFFFFFF), word, I32(lanes), I32(31)])

    original = value.type
    if isinstance(original, ir.IntType):
        if original.width <= 32:
            word = value if original.width == 32 else builder.zext(value, I32)
            moved = move(word)
            return moved if original.width == 32 else builder.trunc(moved, original)
        low, high = builder.trunc(value, I32), builder.trunc(builder.lshr(value, I64(32)), I32)
        wide = builder.shl(builder.zext(move(high), I64), I64(32))
        return builder.or_(wide, builder.zext(move(low), I64))
    if original == FLOAT:
        return builder.bitcast(move(builder.bitcast(value, I32)), FLOAT)
    return builder.bitcast(shuffle_xor(builder, builder.bitcast(value, I64), lanes), original)
