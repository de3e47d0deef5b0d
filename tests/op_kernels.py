"""A small kernel per row of the op table and dtype, as source text: what the backends are compared on.

`module_text()` is one Python module with every kernel; `CASES` says for each which arrays it takes. All tiles are 8 x 64 of
ragged 20 x 150 arrays unless an op mixes lanes, in which case extents divide; `op_kernels_wide` has the further dtypes, padded
ragged edges and tiles that are no powers of two. A row without a kernel here fails a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.op_case import EVEN, FLOATS, INTS, Case
from tests.op_kernels_wide import wide

SMALL_INTS = ("i8", "u8", "i32", "u32", "i64")


def _elementwise(op: str, expression: str, dtypes: tuple[str, ...], count: int, **extra: object) -> Iterator[Case]:
    for dtype in dtypes:
        loads = ", ".join(f"tc.load_like({x}, z)" for x in ("x", "y", "w")[:count])
        names = ", ".join(("a", "b", "c")[:count])
        body = f"{names} = {loads}\n    z.store({expression})"
        output = str(extra.get("output", dtype))
        rest = {k: v for k, v in extra.items() if k != "output"}
        yield Case(op, f"{op}_{dtype}", (dtype,) * count, output, body, **rest)  # type: ignore[arg-type]


UNARY_MATH = {
    "exp": (-4, 4),
    "exp2": (-4, 4),
    "expm1": (-2, 2),
    "log": (0.1, 9),
    "log2": (0.1, 9),
    "log10": (0.1, 9),
    "log1p": (-0.5, 5),
    "sqrt": (0, 9),
    "rsqrt": (0.1, 9),
    "sin": (-4, 4),
    "cos": (-4, 4),
    "tan": (-1.2, 1.2),
    "asin": (-0.95, 0.95),
    "acos": (-0.95, 0.95),
    "atan": (-4, 4),
    "sinh": (-3, 3),
    "cosh": (-3, 3),
    "tanh": (-3, 3),
}


def _cases() -> Iterator[Case]:
    numbers = (*FLOATS, *INTS)
    for op, sign in {"add": "+", "subtract": "-", "multiply": "*"}.items():
        yield from _elementwise(op, f"a {sign} b", numbers, 2, domain=(-9, 9))
    yield from _elementwise("divide", "a / b", FLOATS, 2, domain=(0.5, 9), tolerance=2)
    yield from _elementwise("floor_divide", "a // b", numbers, 2, domain=(-90, 90))
    yield from _elementwise("remainder", "a % b", numbers, 2, domain=(-90, 90), tolerance=1)
    yield from _elementwise("fmod", "tc.fmod(a, b)", numbers, 2, domain=(-90, 90), tolerance=1)
    yield from _elementwise("pow", "a ** b", FLOATS, 2, domain=(0.5, 3), tolerance=8)
    yield from _elementwise("pow", "a ** b", SMALL_INTS, 2, domain=(-3, 5))
    yield from _elementwise("hypot", "tc.hypot(a, b)", FLOATS, 2, tolerance=4)
    yield from _elementwise("atan2", "tc.atan2(a, b)", FLOATS, 2, tolerance=4)
    for op in ("minimum", "maximum"):
        yield from _elementwise(op, f"tc.{op}(a, b)", numbers, 2, domain=(-90, 90))
        text = (
            f"tc.{op}(tc.where(a > 2, a - a / (a - a), a), tc.where(b < -2, b - b / (b - b), b), propagate_nan=False)"
        )
        for case in _elementwise(op, text, FLOATS, 2):
            yield replace(case, name=f"{case.name}_numbers")
    yield from _elementwise("clip", "tc.clip(a, b, c)", numbers, 3, domain=(-90, 90))
    yield from _elementwise("fma", "tc.fma(a, b, c)", FLOATS, 3, tolerance=16)
    yield from _rounded()
    yield from _flushing()
    yield from _elementwise("ceil_div", "tc.ceil_div(a, b)", INTS, 2, domain=(-90, 90))
    yield from _elementwise("mul_hi", "tc.mul_hi(a, b)", INTS, 2, domain=(-1e18, 1e18))
    for op, expression in {"negative": "-a", "positive": "+a", "abs": "tc.abs(a)", "square": "tc.square(a)"}.items():
        yield from _elementwise(op, expression, numbers, 1, domain=(-9, 9))
    yield from _elementwise("sign", "tc.sign(a)", numbers, 1)
    for op, domain in UNARY_MATH.items():
        yield from _elementwise(op, f"tc.{op}(a)", FLOATS, 1, domain=domain, tolerance=8)
    for op in ("floor", "ceil", "trunc", "round"):
        yield from _elementwise(op, f"tc.{op}(a)", FLOATS, 1, domain=(-90, 90))
    signs = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
    for op, sign in signs.items():
        yield from _elementwise(op, f"a {sign} b", ("f16", "f32", "i32", "u8"), 2, output="bool_", domain=(-3, 3))
    for op in ("isnan", "isinf", "isfinite"):
        yield from _elementwise(op, f"tc.{op}(a / (a - a))", ("f16", "f32"), 1, output="bool_")
    for op in ("logical_and", "logical_or"):
        yield from _elementwise(op, f"tc.{op}(a > 0, b > 0)", ("f32",), 2, output="bool_")
    yield from _elementwise("logical_xor", "(a > 0) ^ (b > 0)", ("f32",), 2, output="bool_")
    yield from _elementwise("logical_not", "tc.logical_not(a > 0)", ("f32",), 1, output="bool_")
    for op, sign in {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^"}.items():
        yield from _elementwise(op, f"a {sign} b", INTS, 2, domain=(-99, 99))
    yield from _elementwise("bitwise_invert", "~a", INTS, 1, domain=(-99, 99))
    for op, sign in {"bitwise_left_shift": "<<", "bitwise_right_shift": ">>"}.items():
        yield from _elementwise(op, f"a {sign} (b & 7)", SMALL_INTS, 2, domain=(-99, 99))
    yield from _elementwise("where", "tc.where(a > b, a, b)", ("f16", "f32", "i32"), 2)
    for to in ("f16", "bf16", "f32", "f64", "i8", "i32", "i64", "u8", "bool_"):
        for dtype in ("f16", "f32", "f64", "i32", "u8"):
            body = f"z.store(tc.load_like(x, z).astype(tc.{to}))"
            yield Case("astype", f"astype_{dtype}_{to}", (dtype,), to, body, domain=(0, 100))
    yield Case("bitcast", "bitcast_f32", ("f32",), "i32", "z.store(tc.bitcast(tc.load_like(x, z), tc.i32))")
    yield from _creation()
    yield from _shapes()
    yield from _reductions()
    yield from _products()
    yield from _elements()


def _rounded() -> Iterator[Case]:
    """The options of arithmetic: each way to round, and subnormal numbers as zeros."""
    calls = {"add": "a, b", "subtract": "a, b", "multiply": "a, b", "divide": "a, b", "fma": "a, b, c", "sqrt": "a"}
    for op, names in calls.items():
        count = names.count(",") + 1
        for way in ("nearest", "zero", "up", "down"):
            text = f'tc.{op}({names}, rounding="{way}")'
            for case in _elementwise(op, text, ("f32", "f64"), count, domain=(0.1, 9)):
                yield replace(case, name=f"{case.name}_{way}")
        # Products, quotients and roots of such small numbers are subnormal, or their operands are.
        text = f"tc.{op}({names}, flush_to_zero=True)"
        for case in _elementwise(op, text, ("f32",), count, domain=(1e-39, 4e-38)):
            yield replace(case, name=f"{case.name}_flushed")


def _flushing() -> Iterator[Case]:
    """Fast functions with subnormal numbers as zeros."""
    cases = (
        ("exp2", "subnormal", (-130.0, -122.0)),
        ("exp2", "normal", (-40.0, 9.0)),
        ("rsqrt", "subnormal", (1e-39, 1e-37)),
        ("rsqrt", "normal", (0.1, 9.0)),
    )
    for op, numbers, domain in cases:
        text = f"tc.{op}(a, flush_to_zero=True)"
        for case in _elementwise(op, text, ("f32",), 1, domain=domain, tolerance=8):
            yield replace(case, name=f"{case.name}_flushed_{numbers}")


def _creation() -> Iterator[Case]:
    for dtype in ("f16", "bf16", "f32", "i32", "u8", "bool_"):
        yield Case("zeros", f"zeros_{dtype}", (), dtype, f"z.store(tc.zeros(BM, BN, dtype=tc.{dtype}))")
        yield Case("ones", f"ones_{dtype}", (), dtype, f"z.store(tc.ones(BM, BN, dtype=tc.{dtype}))")
    yield Case("full", "full_f16", (), "f16", "z.store(tc.full((BM, BN), 2.5, dtype=tc.f16))")
    yield Case("full", "full_block", (), "i32", "z.store(tc.full((BM, BN), tc.block_id(0), dtype=tc.i32))")
    row = "z.store(tc.broadcast_to(tc.arange(BN, start=3, step=2, dtype=tc.{0}), (BM, BN)))"
    for dtype in ("i32", "i64", "f32"):
        yield Case("arange", f"arange_{dtype}", (), dtype, row.format(dtype))
    for op in ("rand", "randn"):
        for dtype in FLOATS:
            body = f"z.store(tc.{op}(BM, BN, seed=7, offset=tc.block_id(0) * 4096, dtype=tc.{dtype}))"
            yield Case(op, f"{op}_{dtype}", (), dtype, body, tolerance=0 if op == "rand" else 64)
    yield Case("random_bits", "random_bits", (), "u32", "z.store(tc.random_bits(BM, BN, seed=7, offset=5))")
    yield Case("philox", "philox", ("i32",), "u32", "z.store(tc.philox(tc.load_like(x, z), 11))")


def _shapes() -> Iterator[Case]:
    even = EVEN
    for dtype in ("f16", "f32", "f64", "u8", "bool_"):
        body = "xs = x.partition(BN, BM)\n    z.store(tc.permute_dims(xs[tc.block_id(1), tc.block_id(0)], (1, 0)))"
        yield Case("permute_dims", f"permute_{dtype}", (dtype,), dtype, body, (128, 16), (16, 128))
        turned = body.replace("tc.permute_dims(", "tc.transpose(").replace(", (1, 0)))", "))")
        yield Case("transpose", f"transpose_{dtype}", (dtype,), dtype, turned, (128, 16), (16, 128))
    flat = "a = tc.load_like(x, z)\n    z.store(tc.reshape(tc.reshape(a, (BK,)), (BM, BN)))"
    yield Case("reshape", "reshape_f32", ("f32",), "f32", flat, even)
    grown = "a = tc.load_like(x, z)\n    z.store(tc.squeeze(tc.expand_dims(a, 0), 0))"
    yield Case("expand_dims", "expand_f32", ("f32",), "f32", grown, even)
    yield Case("squeeze", "squeeze_f16", ("f16",), "f16", grown, even)
    wide = "a = tc.load_like(x, z)\n    z.store(tc.broadcast_to(tc.max(a, axis=1, keepdims=True), (BM, BN)))"
    yield Case("broadcast_to", "broadcast_f32", ("f32",), "f32", wide, even)
    cut = "a = tc.load_like(x, z)\n    b = tc.extract(a, (0, 1), (BM, HALF))\n    z.store(tc.concat((b, b), axis=1))"
    for dtype in ("f16", "f32"):
        yield Case("extract", f"extract_{dtype}", (dtype,), dtype, cut, even)
        yield Case("concat", f"concat_{dtype}", (dtype,), dtype, cut, even)


def _reductions() -> Iterator[Case]:
    for op in ("sum", "max", "min", "prod"):
        for dtype in ("f16", "bf16", "f32", "f64", "i32", "u8"):
            domain = (0.9, 1.1) if op == "prod" and dtype[0] in "fb" else (-2, 2)
            for axis in ("0", "1", "None"):
                body = (
                    f"a = tc.load_like(x, z)\n    r = tc.{op}(a, axis={axis}, keepdims=True)\n"
                    f"    z.store(tc.broadcast_to(r, (BM, BN)))"
                )
                name = f"{op}_{dtype}_{axis}"
                tolerance = 64.0 if op in ("sum", "prod") else 0.0
                yield Case(op, name, (dtype,), dtype, body, EVEN, domain=domain, tolerance=tolerance)
    for dtype in ("f16", "f32"):
        body = (
            'a = tc.load_like(x, z, pad="-inf")\n    r = tc.max(a, axis=1, keepdims=True)\n'
            "    z.store(tc.broadcast_to(r, (BM, BN)))"
        )
        yield Case("max", f"max_padded_{dtype}", (dtype,), dtype, body, domain=(-4, -1))
    for op in ("any", "all"):
        body = (
            f"a = tc.load_like(x, z)\n    r = tc.{op}(a > 0, axis=1, keepdims=True)\n"
            f"    z.store(tc.broadcast_to(r, (BM, BN)))"
        )
        yield Case(op, op, ("f32",), "bool_", body, EVEN)
    for op in ("argmax", "argmin"):
        for dtype in ("f16", "f32", "i32"):
            for axis in (0, 1):
                body = (
                    f"a = tc.load_like(x, z)\n    r = tc.{op}(a, axis={axis}, keepdims=True)\n"
                    f"    z.store(tc.broadcast_to(r, (BM, BN)))"
                )
                yield Case(op, f"{op}_{dtype}_{axis}", (dtype,), "i32", body, EVEN)
    for op in ("cumsum", "cumprod"):
        for dtype in ("f16", "f32", "i32"):
            for axis in (0, 1):
                body = f"z.store(tc.{op}(tc.load_like(x, z), axis={axis}, reverse={axis == 1}))"
                yield Case(op, f"{op}_{dtype}_{axis}", (dtype,), dtype, body, EVEN, domain=(0.9, 1.1), tolerance=64)
    yield Case("scan", "scan_f32", ("f32",), "f32", "z.store(tc.scan(tc.load_like(x, z), larger, axis=1))", EVEN)
    body = "a = tc.load_like(x, z)\n    z.store(tc.broadcast_to(tc.reduce(a, larger, axis=1, keepdims=True), (BM, BN)))"
    yield Case("reduce", "reduce_f32", ("f32",), "f32", body, EVEN)


def _products() -> Iterator[Case]:
    body = (
        "xs, ys = x.partition(BM, BN), y.partition(BN, BM2)\n"
        "    acc = tc.zeros(BM, BM2, dtype=tc.{acc})\n"
        "    for k in range(xs.num_tiles(1)):\n"
        "        acc = tc.mma(xs[tc.block_id(0), k], ys[k, tc.block_id(1)], acc)\n"
        "    z.store(acc)"
    )
    for dtype, acc in (("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32")):
        text = body.format(acc=acc)
        shapes = ((128, 96), (96, 128))
        yield Case("mma", f"mma_{dtype}", (dtype, dtype), acc, text, (128, 128), shapes=shapes, tolerance=256)
    square = (
        "xs, ys = x.partition(BM, BN), y.partition(BN, BM2)\n    z.store(xs[tc.block_id(0), 0] @ ys[0, tc.block_id(1)])"
    )
    for dtype in ("f16", "f32"):
        shapes = ((128, 32), (32, 128))
        yield Case("matmul", f"matmul_{dtype}", (dtype, dtype), dtype, square, (128, 128), shapes=shapes, tolerance=64)


def _elements() -> Iterator[Case]:
    flipped = (
        "i = tc.broadcast_to(tc.expand_dims(tc.arange(BM), 1), (BM, BN))\n"
        "    j = tc.broadcast_to(tc.arange(BN), (BM, BN))\n"
        "    z.store(tc.gather(x, (i, j)))"
    )
    for dtype in ("f16", "f32", "i64"):
        yield Case("gather", f"gather_{dtype}", (dtype,), dtype, flipped, EVEN)
    for op, dtypes in {
        "atomic_add": ("i32", "i64", "f32", "f64"),
        "atomic_max": ("i32", "u32", "i64"),
        "atomic_min": ("i32", "u64"),
        "atomic_and": ("i32",),
        "atomic_or": ("u32",),
        "atomic_xor": ("i64",),
        "atomic_exchange": ("i32", "f32"),
    }.items():
        for dtype in dtypes:
            value = "3.0" if dtype[0] == "f" else "3"
            body = (
                "i = tc.broadcast_to(tc.expand_dims(tc.arange(BM), 1), (BM, BN))\n"
                "    j = tc.broadcast_to(tc.arange(BN), (BM, BN))\n"
                f"    tc.{op}(z, (i, j), {value})"
            )
            yield Case(op, f"{op}_{dtype}", (), dtype, body, EVEN, access="Atomic")
    for dtype in ("f16", "f32", "f64", "i64", "u8", "bool_"):
        body = (
            "i = tc.broadcast_to(tc.expand_dims(tc.arange(BM), 1), (BM, BN))\n"
            "    j = tc.broadcast_to(tc.arange(BN), (BM, BN))\n"
            f"    tc.scatter(z, (i, 63 - j), (i * 3 + j).astype(tc.{dtype}), mask=j != 5)"
        )
        yield Case("scatter", f"scatter_{dtype}", (), dtype, body, EVEN, access="Atomic")
    body = (
        "i = tc.broadcast_to(tc.expand_dims(tc.arange(BM), 1), (BM, BN))\n"
        "    j = tc.broadcast_to(tc.arange(BN), (BM, BN))\n"
        "    tc.atomic_cas(z, (i, j), 0, 3)"
    )
    yield Case("atomic_cas", "atomic_cas_i32", (), "i32", body, EVEN, access="Atomic")


CASES: tuple[Case, ...] = (*_cases(), *wide())

HEAD = '''"""Generated: a kernel per op and dtype."""

import tilecheck as tc
from tilecheck import Atomic, Dim, Dyn, Mut, Shared, Tensor


class BM(Dim): ...


class BN(Dim): ...


class BM2(Dim): ...


class BK(Dim): ...


class HALF(Dim): ...


def larger(p, q):
    return tc.where(p > q, p, q)
'''


def kernel_text(case: Case) -> str:
    """The source of one kernel."""
    extents = "BM, BM2" if case.op in ("mma", "matmul") else "BM, BN"
    if case.access == "Atomic":
        extents = "Dyn, Dyn"
    params = [f"z: Tensor[{case.access}, tc.{case.output}, {extents}]"]
    params += [f"{n}: Tensor[Shared, tc.{d}, Dyn, Dyn]" for n, d in zip(("x", "y", "w"), case.inputs, strict=False)]
    return f"\n\n@tc.kernel\ndef {case.name}({', '.join(params)}) -> None:\n    {case.body}\n"


def module_text() -> str:
    """One module with every kernel."""
    return HEAD + "".join(kernel_text(case) for case in CASES)
