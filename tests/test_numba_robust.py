"""Kernels bent out of shape: whatever stands there, the frontend answers with nodes and never with a traceback."""

from __future__ import annotations

import ast
import random

import pytest

from tilecheck.frontend.launches import read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.interp.simt_compile import compile_kernel

TEXT = """
import math
import numpy as np
from numba import cuda, float32, int32

TPB = 32
TABLE = np.array([1, 2, 3])


@cuda.jit(device=True)
def helper(a, i, by=2):
    if i < 0:
        return 0
    return a[i] * by


@cuda.jit
def tree(a, out, n):
    s = cuda.shared.array(TPB, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = helper(a, i) if i < n else 0.0
    cuda.syncthreads()
    d = TPB // 2
    while d > 0:
        if t < d:
            s[t] += s[t + d]
        cuda.syncthreads()
        d //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


@cuda.jit("void(float32[:, :], int64)")
def rows(m, n):
    x, y = cuda.grid(2)
    h, w = m.shape
    for k, v in enumerate((1, 2, 4)):
        if 0 <= x < h and y < w:
            m[x, y] = math.sqrt(m[x, y]) + TABLE[k] * v
        else:
            continue


def main(size=100):
    a = cuda.to_device(np.arange(size, dtype=np.float32))
    out = np.zeros(1, np.float32)
    for n in (10, size):
        tree[(size + TPB - 1) // TPB, TPB](a, out, n)
    rows[(2, 2), (8, 8)](a.reshape(10, 10), 3)


if __name__ == "__main__":
    main()
"""
EXPRESSIONS = [
    "0",
    "-1",
    "None",
    "1j",
    "...",
    "x",
    "a.T",
    "a.shape",
    "a[0].y",
    "f(*a)",
    "f(**a)",
    "cuda.grid(2)",
    "cuda.grid(n)",
    "(y:=3)",
    "1<x<a[0]<4",
    "b'x'",
    "'s'",
    "len(x)",
    "-a[0]",
    "~x",
    "x@y",
    "x**-1",
    "a.shape[i]",
    "np.zeros(3)",
    "min(x)",
    "tuple(x)",
    "zip(a,b)",
    "{1:2}",
    "cuda.laneid",
    "cuda.shared.array(n,int32)",
    "(1,2)",
    "[1,2]",
    "cuda.atomic.add(x,0,1)",
    "cuda.shfl_sync(1,x,2)",
    "cuda.activemask()",
    "cuda.const.array_like(Q)",
    "helper(a)",
    "cuda.threadIdx",
]
EXPRESSIONS += [
    "lambda q: q",
    "[q for q in a]",
    'f"{a}"',
    "a if b else c",
    "a and b or c",
    "not x",
    "x in (1, 2)",
    "x is None",
]
STATEMENTS = (
    "for q in (1, 2):\n    break\nelse:\n    pass",
    "for q, r in zip(a, b):\n    continue",
    "while x:\n    break",
    "x, (y, z) = 1, (2, 3)",
    "x, *y = a",
    "a[1:] = 3",
    "a[...] += 1",
    "a[0].f += 1",
    "a.f = 2",
    "try:\n    pass\nexcept ValueError:\n    pass\nfinally:\n    pass",
    "with x as y:\n    pass",
    "match x:\n    case 1:\n        pass",
    "def inner(q):\n    return q + t",
    "raise ValueError",
    "return x",
    "assert x, 'm'",
    "x: int = 3",
    "(a if b else c)[0] = 1",
    "a[b[c[0]]] += a[0]",
    "g = cuda.cg.this_grid(); g.sync()",
    "s = cuda.shared.array(0, x)",
    "t = cuda.threadIdx; x = t.x",
    "global TPB",
    "del a",
    "cuda.jit(tree)(1)",
    "async def later(): pass",
)


class Bend(ast.NodeTransformer):
    """Replaces expressions and puts in statements, at random."""

    def __init__(self, choose: random.Random, rate: float) -> None:
        self.choose = choose
        self.rate = rate

    def visit(self, node: ast.AST) -> ast.AST:
        node = self.generic_visit(node)
        stored = isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        if isinstance(node, ast.expr) and not stored and self.choose.random() < self.rate:
            return ast.parse(self.choose.choice(EXPRESSIONS), mode="eval").body
        if isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.If) and self.choose.random() < 2 * self.rate:
            put = ast.parse(self.choose.choice(STATEMENTS)).body
            return [*put, node] if self.choose.random() < 0.5 else put  # type: ignore[return-value]
        return node


def read(text: str) -> None:
    source = Source("bent.py", text)
    for kernel in read_kernels(source, lambda name: None):
        compile_kernel(kernel)
    read_launches(source, lambda name: None)


def test_the_straight_text_is_read_whole() -> None:
    source = Source("straight.py", TEXT)
    assert [kernel.name for kernel in read_kernels(source, lambda name: None)] == ["tree", "rows"]
    assert len(read_launches(source, lambda name: None)) == 3


@pytest.mark.parametrize("seed", range(60))
def test_no_bent_program_breaks_the_frontend(seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(4):
        tree = Bend(choose, choose.choice((0.01, 0.03, 0.08))).visit(ast.parse(TEXT))
        try:
            text = ast.unparse(ast.fix_missing_locations(tree))
            compile(text, "bent.py", "exec", ast.PyCF_ONLY_AST)
        except (SyntaxError, AttributeError, ValueError, TypeError):
            continue  # bent into no Python at all
        try:
            read(text)
        except Unreadable:
            continue
