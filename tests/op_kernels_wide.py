"""Further kernels for the comparison of backends: the dtypes that `op_kernels` leaves out, edges that hang over and are padded
where an op mixes lanes, and tiles whose extents are no powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, product

from tests.op_case import EVEN, FLOATS, INTS, Case

NUMBERS = (*FLOATS, *INTS)
# Extents that are no powers of two, in a ragged array.
ODD, ODD_SHAPE = (5, 48), (13, 100)
ROWS_AND_COLUMNS = "i = tc.broadcast_to(tc.expand_dims(tc.arange(BM), 1), (BM, BN))\n    j = tc.broadcast_to(tc.arange(BN), (BM, BN))\n"


def wide() -> Iterator[Case]:
    """All of them."""
    yield from _elementwise()
    yield from _casts()
    yield from _shapes()
    yield from _reductions()
    yield from _scans()
    yield from _products()
    yield from _elements()


def _two(op: str, expression: str, dtype: str, output: str | None = None, **more: object) -> Case:
    body = f"a, b = tc.load_like(x, z), tc.load_like(y, z)\n    z.store({expression})"
    name = f"{op}_{dtype}{more.pop('suffix', '')}"
    return Case(op, name, (dtype, dtype), output or dtype, body, **more)  # type: ignore[arg-type]


def _elementwise() -> Iterator[Case]:
    signs = {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
    for (op, sign), dtype in product(signs.items(), ("bf16", "f64", "i8", "i16", "i64", "u16", "u32", "u64")):
        yield _two(op, f"a {sign} b", dtype, "bool_", domain=(-3, 3))
    for op, dtype in product(("isnan", "isinf", "isfinite"), ("bf16", "f64")):
        body = f"a = tc.load_like(x, z)\n    z.store(tc.{op}(a / (a - a)))"
        yield Case(op, f"{op}_{dtype}", (dtype,), "bool_", body)
    for dtype in ("bf16", "f64", "i8", "i16", "i64", "u8", "u16", "u32", "u64"):
        yield _two("where", "tc.where(a > b, a, b)", dtype)
    yield _two("where", "tc.where(tc.logical_not(a), b, a)", "bool_")
    for op in ("logical_and", "logical_or", "logical_xor"):
        yield _two(op, f"tc.{op}(a, b)" if op != "logical_xor" else "a ^ b", "bool_")
    body = "z.store(tc.logical_not(tc.load_like(x, z)))"
    yield Case("logical_not", "logical_not_bool_", ("bool_",), "bool_", body)
    for dtype in ("i16", "u16", "u64"):
        yield _two("bitwise_left_shift", "a << (b & 7)", dtype, domain=(-99, 99))
        yield _two("bitwise_right_shift", "a >> (b & 7)", dtype, domain=(-99, 99))
        yield _two("pow", "a ** b", dtype, domain=(-3, 5))
    for dtype in ("f16", "bf16", "f32", "f64", "i8", "i64"):
        yield _two("add", "a + b", dtype, suffix="_odd", shape=ODD_SHAPE, tile=ODD)
        yield _two("maximum", "tc.maximum(a, b)", dtype, suffix="_single", shape=(3, 2), tile=(1, 1))
    for dtype in ("f64", "i8", "i16", "i64", "u16", "u32", "u64"):
        yield Case("zeros", f"zeros_{dtype}", (), dtype, f"z.store(tc.zeros(BM, BN, dtype=tc.{dtype}))")
        yield Case("full", f"full_{dtype}", (), dtype, f"z.store(tc.full((BM, BN), 7, dtype=tc.{dtype}))")
    row = "z.store(tc.broadcast_to(tc.arange(BN, start=3, step=2, dtype=tc.{0}), (BM, BN)))"
    for dtype in ("f64", "i16", "u16", "u32", "u64"):
        yield Case("arange", f"arange_{dtype}", (), dtype, row.format(dtype))


def _casts() -> Iterator[Case]:
    first = set(product(("f16", "f32", "f64", "i32", "u8"), (*FLOATS, "i8", "i32", "i64", "u8", "bool_")))
    # Each dtype to every third of the others, so that every one is met from floats and from ints of either sign.
    sources = (*NUMBERS, "bool_")
    for at, source in enumerate(sources):
        for target in sources[at % 2 :: 2]:
            if source != target and (source, target) not in first:
                body = f"z.store(tc.load_like(x, z).astype(tc.{target}))"
                low = -100 if source[0] == "i" else 0
                yield Case("astype", f"astype_{source}_{target}", (source,), target, body, domain=(low, 100))
    for source, target in (
        ("f16", "i16"),
        ("bf16", "u16"),
        ("f64", "i64"),
        ("i32", "f32"),
        ("u64", "f64"),
        ("i8", "u8"),
    ):
        body = f"z.store(tc.bitcast(tc.load_like(x, z), tc.{target}))"
        yield Case("bitcast", f"bitcast_{source}_{target}", (source,), target, body)


def _shapes() -> Iterator[Case]:
    turned = "xs = x.partition(BN, BM)\n    z.store(tc.transpose(xs[tc.block_id(1), tc.block_id(0)]))"
    for dtype in ("bf16", "i8", "i16", "i32", "i64"):
        yield Case("transpose", f"transpose_{dtype}", (dtype,), dtype, turned, (16, 128), shapes=((128, 16),))
    ragged = turned.replace("(BN, BM)", "(BN, BM, pad=0)")
    for dtype in ("f16", "f32", "u8"):
        yield Case("transpose", f"transpose_{dtype}_ragged", (dtype,), dtype, ragged, shapes=((150, 20),))
        name = f"transpose_{dtype}_odd"
        yield Case("transpose", name, (dtype,), dtype, ragged, ODD_SHAPE, shapes=((100, 13),), tile=ODD)
    bodies = {
        "reshape": "a = tc.load_like(x, z{0})\n    z.store(tc.reshape(tc.reshape(a, (BK,)), (BM, BN)))",
        "expand_dims": "a = tc.load_like(x, z{0})\n    z.store(tc.squeeze(tc.expand_dims(a, 1), 1))",
        "broadcast_to": "a = tc.load_like(x, z{0})\n    z.store(tc.broadcast_to(tc.extract(a, (0, 0), (BM, tc.One)), (BM, BN)))",
        "concat": "a = tc.load_like(x, z{0})\n    b = tc.extract(a, (0, 1), (BM, HALF))\n    z.store(tc.concat((b, b), axis=1))",
    }
    for (op, body), dtype in product(bodies.items(), ("bf16", "f64", "i64", "u8", "bool_")):
        pad = "False" if dtype == "bool_" else "0"
        yield Case(op, f"{op}_{dtype}", (dtype,), dtype, body.format(""), EVEN)
        if dtype in ("u8", "f64"):
            yield Case(op, f"{op}_{dtype}_ragged", (dtype,), dtype, body.format(f", pad={pad}"))
            name = f"{op}_{dtype}_odd"
            yield Case(op, name, (dtype,), dtype, body.format(f", pad={pad}"), ODD_SHAPE, tile=ODD)


def _reduced(op: str, dtype: str, axis: str, suffix: str, pad: str = "", **more: object) -> Case:
    body = (
        f"a = tc.load_like(x, z{pad})\n    r = tc.{op}(a, axis={axis}, keepdims=True)\n"
        "    z.store(tc.broadcast_to(r, (BM, BN)))"
    )
    domain = (0.9, 1.1) if op == "prod" and dtype in FLOATS else (-2, 2)
    tolerance = 64.0 if op in ("sum", "prod") else 0.0
    output = "i32" if op.startswith("arg") else dtype
    name = f"{op}_{dtype}_{axis}{suffix}"
    return Case(op, name, (dtype,), output, body, domain=domain, tolerance=tolerance, **more)  # type: ignore[arg-type]


def _neutral(op: str, dtype: str) -> str:
    """A padding that changes no result for values from -2 to 2."""
    floating = dtype in FLOATS
    least = '"-inf"' if floating else "0" if dtype[0] == "u" else "-9"
    most = '"inf"' if floating else "9"
    value = {"sum": "0", "prod": "1", "max": least, "argmax": least, "min": most, "argmin": most}[op]
    return f", pad={value}"


def _reductions() -> Iterator[Case]:
    axes = cycle(("0", "1", "None"))
    for op, dtype in product(("sum", "max", "min", "prod"), ("i8", "i16", "i64", "u16", "u32", "u64")):
        yield _reduced(op, dtype, next(axes), "", shape=EVEN)
    sides = cycle(("0", "1", "1", "None"))
    for op, dtype in product(("sum", "max", "min", "prod"), NUMBERS):
        yield _reduced(op, dtype, next(sides), "_ragged", _neutral(op, dtype))
    for op, dtype, axis in product(("sum", "max"), ("f16", "f32", "i32", "u8"), ("0", "1", "None")):
        yield _reduced(op, dtype, axis, "_odd", _neutral(op, dtype), shape=ODD_SHAPE, tile=ODD)
    for op, dtype in product(("argmax", "argmin"), ("bf16", "f64", "i8", "i64", "u8", "u32")):
        yield _reduced(op, dtype, next(sides), "", shape=EVEN)
    for op, dtype, axis in product(("argmax", "argmin"), ("f16", "f32", "i32"), ("0", "1")):
        yield _reduced(op, dtype, axis, "_ragged", _neutral(op, dtype))
    for op, axis in product(("any", "all"), ("0", "None")):
        for suffix, shape in (("", EVEN), ("_ragged", (20, 150))):
            pad = f", pad={op == 'all'}" if suffix else ""
            body = (
                f"a = tc.load_like(x, z{pad})\n    r = tc.{op}(a, axis={axis}, keepdims=True)\n"
                "    z.store(tc.broadcast_to(r, (BM, BN)))"
            )
            yield Case(op, f"{op}_bool_{axis}{suffix}", ("bool_",), "bool_", body, shape)
    for dtype, axis in product(("f16", "f64", "i32", "u8"), ("0", "1")):
        for suffix, pad, shape in (("", "", EVEN), ("_ragged", ", pad=0", (20, 150))):
            body = f"r = tc.reduce(tc.load_like(x, z{pad}), larger, axis={axis}, keepdims=True)\n"
            body += "    z.store(tc.broadcast_to(r, (BM, BN)))"
            yield Case("reduce", f"reduce_{dtype}_{axis}{suffix}", (dtype,), dtype, body, shape)


def _scans() -> Iterator[Case]:
    for op, dtype, axis in product(("cumsum", "cumprod"), ("bf16", "f64", "i8", "i64", "u8"), (0, 1)):
        body = f"z.store(tc.{op}(tc.load_like(x, z), axis={axis}, reverse={axis == 0}))"
        yield Case(op, f"{op}_{dtype}_{axis}", (dtype,), dtype, body, EVEN, domain=(0.9, 1.1), tolerance=64)
    for op, dtype, axis in product(("cumsum", "cumprod"), ("f16", "f32", "i32"), (0, 1)):
        pad = 0 if op == "cumsum" else 1
        body = f"z.store(tc.{op}(tc.load_like(x, z, pad={pad}), axis={axis}, reverse={axis == 1}))"
        yield Case(op, f"{op}_{dtype}_{axis}_ragged", (dtype,), dtype, body, domain=(0.9, 1.1), tolerance=64)
        name = f"{op}_{dtype}_{axis}_odd"
        yield Case(op, name, (dtype,), dtype, body, ODD_SHAPE, tile=ODD, domain=(0.9, 1.1), tolerance=64)
    for dtype, axis in product(("f16", "f64", "i32", "u8"), (0, 1)):
        body = f"z.store(tc.scan(tc.load_like(x, z, pad=0), larger, axis={axis}))"
        yield Case("scan", f"scan_{dtype}_{axis}_ragged", (dtype,), dtype, body)


def _products() -> Iterator[Case]:
    body = (
        "xs, ys = x.partition(BM, BN, pad=0), y.partition(BN, BM2, pad=0)\n"
        "    acc = tc.zeros(BM, BM2, dtype=tc.{acc})\n"
        "    for k in range(xs.num_tiles(1)):\n"
        "        acc = tc.mma(xs[tc.block_id(0), k], ys[k, tc.block_id(1)], acc)\n"
        "    z.store(acc)"
    )
    for dtype, acc in (("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f64", "f64"), ("i8", "i32")):
        text = body.format(acc=acc)
        # Whole vectors in a row, and rows that begin anywhere.
        for suffix, k, n in (("ragged", 80, 72), ("unaligned", 77, 51)):
            shapes = ((100, k), (k, n))
            name = f"mma_{dtype}_{suffix}"
            yield Case("mma", name, (dtype, dtype), acc, text, (100, n), shapes=shapes, tolerance=256)
    square = (
        "xs, ys = x.partition(BM, BN, pad=0), y.partition(BN, BM2, pad=0)\n"
        "    z.store(xs[tc.block_id(0), 0] @ ys[0, tc.block_id(1)])"
    )
    for dtype in ("f16", "bf16", "f32", "f64"):
        shapes = ((100, 27), (27, 90))
        name = f"matmul_{dtype}_ragged"
        # 27 products of up to 16 may cancel to less than 1, the unit.
        yield Case("matmul", name, (dtype, dtype), dtype, square, (100, 90), shapes=shapes, tolerance=256)


def _elements() -> Iterator[Case]:
    for dtype in ("bf16", "f64", "i8", "i16", "i32", "u8", "u16", "u32", "u64", "bool_"):
        yield Case(
            "gather", f"gather_{dtype}", (dtype,), dtype, f"{ROWS_AND_COLUMNS}    z.store(tc.gather(x, (i, j)))", EVEN
        )
    for dtype in ("f16", "f32", "i64", "u8"):
        body = f"{ROWS_AND_COLUMNS}    z.store(tc.gather(x, (i, j * 3), mask=j * 3 < x.shape[1], pad=2))"
        yield Case("gather", f"gather_{dtype}_masked", (dtype,), dtype, body)
    added = {
        "atomic_add": ("f16", "bf16", "u32", "u64"),
        "atomic_max": ("u64",),
        "atomic_min": ("u32", "i64"),
        "atomic_and": ("u32", "i64", "u64"),
        "atomic_or": ("i32", "i64", "u64"),
        "atomic_xor": ("i32", "u32", "u64"),
        "atomic_exchange": ("u32", "i64", "u64", "f64"),
    }
    for op, dtypes in added.items():
        for dtype in dtypes:
            value = "3.0" if dtype in FLOATS else "3"
            body = f"{ROWS_AND_COLUMNS}    tc.{op}(z, (i, j), {value})"
            yield Case(op, f"{op}_{dtype}", (), dtype, body, EVEN, access="Atomic")
    for dtype in ("u32", "i64", "u64"):
        body = f"{ROWS_AND_COLUMNS}    tc.atomic_cas(z, (i, j), 0, 3)"
        yield Case("atomic_cas", f"atomic_cas_{dtype}", (), dtype, body, EVEN, access="Atomic")
    # Many lanes on one element.
    for op, dtype in (("atomic_add", "i32"), ("atomic_add", "u64"), ("atomic_max", "i32"), ("atomic_xor", "u32")):
        body = f"{ROWS_AND_COLUMNS}    tc.{op}(z, (i - i, j % 3), (i + j).astype(tc.{dtype}))"
        yield Case(op, f"{op}_{dtype}_one_element", (), dtype, body, EVEN, access="Atomic")
    for dtype in ("bf16", "i8", "i16", "i32", "u16", "u32", "u64"):
        body = f"{ROWS_AND_COLUMNS}    tc.scatter(z, (i, 63 - j), (i * 3 + j).astype(tc.{dtype}), mask=j != 5)"
        yield Case("scatter", f"scatter_{dtype}", (), dtype, body, EVEN, access="Atomic")
