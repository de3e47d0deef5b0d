"""From an LLVM builder function to a numba-cuda intrinsic over tuples of registers.

`tile_intrinsic` makes one intrinsic of fixed arity. Its arguments are tuples (the thread's share of a tile), 64-bit
integers, or tuples of those; the build function gets each argument as a list of LLVM values and returns the list of
values of the result tuple. This is the only module that knows numba's typing protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.cuda.extending import intrinsic

from tilecheck_runtime.backends.numba_cuda.registers import Value, numba_type

Build = Callable[[ir.IRBuilder, Sequence[Sequence[Value]]], Sequence[Value]]


def _unpack(builder: ir.IRBuilder, kind: Any, value: Value) -> list[Value]:
    if isinstance(kind, types.BaseTuple):
        return [builder.extract_value(value, i) for i in range(len(kind))]
    return [value]


def tile_intrinsic(name: str, arity: int, result: tuple[str, int] | None, build: Build) -> Any:
    """An intrinsic `name` of `arity` arguments. `result` is (dtype, length) of the tuple it returns, None for void."""
    tuple_of: Any = types.UniTuple
    returns = types.void if result is None else tuple_of(numba_type(result[0]), result[1])

    def typing(*argtypes: Any) -> tuple[Any, Any]:
        signature = returns(*argtypes)

        def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Sequence[Value]) -> Any:
            values = build(builder, [_unpack(builder, t, a) for t, a in zip(sig.args, args, strict=True)])
            if result is None:
                return context.get_dummy_value()
            if len(values) != result[1]:
                raise AssertionError(f"{name} built {len(values)} values, its type says {result[1]}")
            return context.make_tuple(builder, sig.return_type, values)

        return signature, codegen

    # numba reads the arity from the signature, so the wrapper needs that many named parameters.
    names = ", ".join(f"a{i}" for i in range(arity))
    scope: dict[str, Any] = {"typing": typing}
    exec(f"def {name}(typingctx{', ' if names else ''}{names}):\n    return typing({names})", scope)
    return intrinsic(scope[name])
