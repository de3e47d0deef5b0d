"""The kernel IR as text: whole kernels of both tracks, and a notation for every node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import pytest

from tilecheck.diagnostic import Span
from tilecheck.frontend import numba, tile
from tilecheck.frontend.source import Source
from tilecheck.ir import kernel as ir
from tilecheck.ir import simt
from tilecheck.ir.printer import show, show_kernel
from tilecheck.modules import Modules

TILE = """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32

class BM(Dim): ...
class K(Dim, size=16): ...

def half(x):
    return 0.5 * x

@tc.kernel(requires="x.size >= 4")
def k(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f16, Dyn, K], n: int, on: bool) -> None:
    xs = x.partition(BM, K)
    acc = tc.zeros(BM)
    for i in range(n):
        if on and i % 2 == 0:
            acc = acc + half(tc.sum(xs[i, 0].astype(f32), axis=1))
        else:
            acc = -acc
    z.store(acc)
"""

TILE_SHOWN = """\
kernel k [tile]
  z: Mut f32 (BM)
  x: Shared f16 (?, K)
  n: int
  on: bool
  extent BM
  extent K = 16
  option requires = 'x.size >= 4'
   13 | xs = partition(x, BM, K)
   14 | acc = zeros(BM)
   15 | for i in range(0, n, 1):
   16 |   if on and ((i % 2) == 0):
   17 |     inline half -> half.result:
   17 |       half.x = sum(astype(load_tile(xs, i, 0), f32), axis=1)
    9 |       return 0.5 * half.x
   17 |     acc = acc + half.result
   16 |   else:
   19 |     acc = -acc
   20 | store(z, acc)"""

SIMT = """
import numpy as np
from numba import cuda

@cuda.jit
def k(x, bins):
    s = cuda.shared.array(32, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t] if t < x.size else 0.0
    cuda.syncthreads()
    while t > 0:
        t //= 2
    cuda.atomic.add(bins, t, 1)
    bins[0] += 1
"""


SIMT_SHOWN = """\
kernel k [numba]
  x: array any dtype (...)
  bins: array any dtype (...)
    7 | s = shared.array((32), float32)
    8 | t = threadIdx.x
    9 | s[t] = x[t] if (t < x.size) else 0.0
   10 | barrier block
   11 | while t > 0:
   12 |   t = t // 2
   13 | atomic.add(bins, (t), 1)
   14 | bins[0] = bins[0] + 1"""


def test_a_tile_kernel() -> None:
    (kernel,), faults = tile.read_kernels(Source("k.py", TILE), Modules().resolve)
    assert faults == ()
    assert show_kernel(kernel) == TILE_SHOWN


def test_a_thread_kernel() -> None:
    (kernel,) = numba.read_kernels(Source("k.py", SIMT), lambda _: None)
    assert show_kernel(kernel) == SIMT_SHOWN


def nodes() -> Iterator[type[ir.Node]]:
    pending = [ir.Node]
    while pending:
        for each in pending.pop().__subclasses__():
            pending.append(each)
            if each.__module__ in (ir.__name__, simt.__name__) and len(fields(each)) and not each.__subclasses__():
                yield each


@pytest.mark.parametrize("each", sorted(nodes(), key=lambda each: each.__name__), ids=lambda each: each.__name__)
def test_no_node_is_left_out(each: type[ir.Node]) -> None:
    """A node made of one-letter parts shows each part that is not a default."""
    span = Span("k.py", 1, 1, 1, 2)
    part = ir.Name("p", span=span)
    values = {}
    for field in fields(each):
        kind = str(field.type)
        if field.name == "span":
            values["span"] = span
        elif kind.startswith("tuple") and ("Expr" in kind or "Stmt" in kind or "Node" in kind) and "str" not in kind:
            values[field.name] = (part,)
        elif kind.startswith("tuple"):
            values[field.name] = ()
        elif "Expr" in kind or kind in ("OpCall", "Node"):
            values[field.name] = part
        elif kind == "bool":
            values[field.name] = False
        else:
            values[field.name] = "w"
    text = show(each(**values))
    assert text and "object at 0x" not in text
