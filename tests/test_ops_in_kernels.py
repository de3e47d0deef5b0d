"""Every row, written in a kernel: read from source, checked without a finding, run, and of the type that was inferred.

`v` is what the expression gives; the kernel keeps it by printing it, and the test looks at what was printed. Tiles
are 4 x 8, f32 `t`, i32 `i` and bool `m`; `r` is a row of 8, `s` a scalar.
"""

from __future__ import annotations

import ast
import builtins
from typing import Any

import numpy as np
import pytest

from tests.op_values import check
from tilecheck.frontend.source import Source
from tilecheck.frontend.tile import read_kernels
from tilecheck.interp.arguments import TensorArgument, TileMap
from tilecheck.interp.tile import run
from tilecheck.ir.kernel import Assign, walk
from tilecheck.ops import OPS
from tilecheck.verify.tile import check_kernel

HEADER = """
import tilecheck as tc
from tilecheck import Atomic, Dim, Mapped, Mut, One, Shared, Tensor, f16, f32, i32, u32

class D4(Dim, size=4): ...
class D8(Dim, size=8): ...
class D16(Dim, size=16): ...
class D2(Dim, size=2): ...

def longer(a, b):
    return tc.where(abs(a) > abs(b), a, b)

@tc.kernel
def k(z: Tensor[Mut, f32, D4, D8], p: Tensor[Mapped, f32, D4, D8], q: Tensor[Mapped, f32, D4, D8],
      a: Tensor[Atomic, i32, D16], x: Tensor[Shared, f32, D16, D16], n: int, s: float) -> None:
    t = x.partition(D4, D8)[1, 1]
    i = t.astype(i32)
    m = t > 0
    r = t.sum(axis=0)
    z.store(t)
    e = x.partition(D8, D4)[0, 0]
"""
UNARY = "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh floor ceil trunc round isnan isinf isfinite"
REDUCTIONS = "sum prod max min argmax argmin"
ATOMICS = "atomic_add atomic_max atomic_min atomic_and atomic_or atomic_xor atomic_exchange"

# One statement or more per row; the last line assigns `v`, unless the row gives nothing.
TEXTS: dict[str, str] = {
    **{name: f"v = tc.{name}(t)" for name in UNARY.split()},
    **{name: f"v = tc.{name}(t, axis=1)" for name in REDUCTIONS.split()},
    **{name: f"v = a.{name}(tc.arange(D8), n)" for name in ATOMICS.split()},
    **{name: f"v = tc.{name}(t, r)" for name in ("fmod", "minimum", "maximum", "atan2", "hypot")},
    **{name: f"v = tc.{name}(m, m)" for name in ("logical_and", "logical_or", "logical_xor")},
    **{name: f"v = t {sign} 2.0" for name, sign in {"equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=",
                                                    "greater": ">", "greater_equal": ">="}.items()},
    **{name: f"v = t {sign} r" for name, sign in {"add": "+", "subtract": "-", "multiply": "*", "divide": "/",
                                                  "floor_divide": "//", "remainder": "%", "pow": "**"}.items()},
    **{name: f"v = i {sign} 3" for name, sign in {"bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
                                                  "bitwise_left_shift": "<<", "bitwise_right_shift": ">>"}.items()},
    "negative": "v = -t", "positive": "v = +t", "bitwise_invert": "v = ~i", "logical_not": "v = tc.logical_not(m)",
    "abs": "v = abs(t)", "sign": "v = tc.sign(t)", "square": "v = tc.square(t)", "clip": "v = tc.clip(t, -1.0, 1.0)",
    "fma": "v = tc.fma(t, 2.0, r)", "ceil_div": "v = tc.ceil_div(i, 3)", "mul_hi": "v = tc.mul_hi(i, i)",
    "where": "v = tc.where(m, t, 0.0)", "any": "v = m.any(axis=0)", "all": "v = tc.all(m)",
    "cumsum": "v = tc.cumsum(t, axis=1)", "cumprod": "v = t.cumprod(axis=0, reverse=True)",
    "scan": "v = tc.scan(t, longer, axis=1)", "reduce": "v = t.reduce(lambda a, b: a + b, axis=0)",
    "mma": "v = tc.mma(t, e, tc.zeros(D4, D4))", "matmul": "v = t @ e",
    "reshape": "v = t.reshape(D8, D4)", "permute_dims": "v = tc.permute_dims(t, (1, 0))", "transpose": "v = t.transpose()",
    "broadcast_to": "v = r.broadcast_to(D4, D8)", "expand_dims": "v = tc.expand_dims(r, 0)",
    "squeeze": "v = tc.squeeze(tc.expand_dims(r, 1), 1)", "concat": "v = tc.concat((t, t), axis=1)",
    "extract": "v = tc.extract(t, (1, 0), (D2, D8))", "astype": "v = t.astype(f16)", "bitcast": "v = t.bitcast(u32)",
    "item": "v = t.sum().item()", "int": "v = int(s)", "float": "v = float(n)", "bool": "v = bool(n)",
    "zeros": "v = tc.zeros(D4, D8, dtype=f16)", "ones": "v = tc.ones(D4)", "full": "v = tc.full((D4, One), s)",
    "arange": "v = tc.arange(D8, start=3)", "philox": "v = tc.philox(i, n)",
    "random_bits": "v = tc.random_bits(D8, seed=n, offset=0)", "rand": "v = tc.rand(D4, D8, seed=n, offset=0)",
    "randn": "v = tc.randn(D8, seed=n, offset=0, dtype=f16)",
    "block_id": "v = tc.block_id(0)", "num_blocks": "v = tc.num_blocks(1)",
    "load": "v = z.load()", "load_like": "v = tc.load_like(x, z)", "store": "z.store(t)",
    "partition": "v = x.partition(D4, D4, pad=0.0)[0, 1]", "load_tile": "v = x.partition(D2, D2)[7, 7]",
    "num_tiles": "v = x.partition(D4, D8).num_tiles(0)", "tiles": "v = z.tiles(D2, D8)[1, 0]",
    "gather": "v = tc.gather(x, (tc.arange(D8), 3), mask=r > 0, pad=-1.0)",
    "indices": "for at in p.indices():\n    p.store(t, at)\n    v = at[0]",
    "indices_with": "for at in p.indices_with(q, within=((0, -1), (0, 1))):\n    q.store(t, at)\n    v = at[1]",
    "at": "for at in p.indices():\n    for j in range(p.num_tiles(1)):\n        v = p.load(p.at(at, j))",
    "scatter": "a.scatter(tc.arange(D8), n, mask=r > 0)\nv = t",
    "atomic_cas": "v = a.atomic_cas(tc.arange(D8), 0, n)",
    "print": "tc.print(\"n is\", n, r)", "device_assert": "tc.device_assert(n > 0, \"n is positive\")",
}  # fmt: skip


def test_every_row_has_a_text() -> None:
    assert set(TEXTS) == set(OPS)


@pytest.mark.parametrize("name", TEXTS)
def test_a_row_in_a_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = TEXTS[name].splitlines()
    depth = len(lines[-1]) - len(lines[-1].lstrip())
    if ast.parse(TEXTS[name]) and lines[-1].lstrip().startswith("v ="):
        lines.append(" " * depth + 'tc.print("v", v)')
    text = HEADER + "".join(f"    {line}\n" for line in lines)
    (kernel,), faults = read_kernels(Source("rows.py", text), lambda module, importer: None)
    assert not faults, faults
    report = check_kernel(kernel)
    assert not [f for f in report.faults if f.rule != "partial-coverage"], report.faults
    rows = {getattr(node, "op", None) for node in walk(*report.kernel.body)}
    operator = OPS[name].operator
    assert name in rows or (operator or "").removeprefix("unary ") in rows
    kept: list[Any] = []
    monkeypatch.setattr(builtins, "print", lambda *values: kept.append(values))
    owned = TileMap((1, 0) if name == "at" else (1, 1), 1)
    zeros = [np.zeros((16, 16), np.float32) for _ in range(3)]
    data = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    arguments: dict[str, Any] = {
        "z": TensorArgument(zeros[0], (4, 8)),
        "p": TensorArgument(zeros[1], (4, 8), owned),
        "q": TensorArgument(zeros[2], (4, 8), owned),
        "a": TensorArgument(np.zeros(16, np.int32)),
        "x": TensorArgument(data),
        "n": 3,
        "s": 1.5,
    }
    run(report, arguments, (1, 1, 1), {})
    if lines[-1].endswith('tc.print("v", v)'):
        given = [node.value for node in walk(*report.kernel.body) if isinstance(node, Assign) and node.target == "v"]
        assert kept and kept[0][0] == "v"
        for _, value in kept:
            check(value, report.types[given[-1]])
    if name == "print":
        assert kept[0][:2] == ("n is", 3) and kept[0][2].shape == (8,)
