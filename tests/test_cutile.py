"""The cuTile reader: which elements a kernel touches, and what only tiles can get wrong."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.checked import Fault
from tilecheck.frontend.cutile import read_kernels, read_launches
from tilecheck.frontend.source import Source
from tilecheck.ir.kernel import Kernel, walk
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Load, Store, Unread
from tilecheck.verify.cutile import check_tiles, thinned

HEAD = "import torch\nimport cuda.tile as ct\n\n"


def source_of(body: str) -> Source:
    return Source("k.py", HEAD + textwrap.dedent(body))


def kernel_of(body: str) -> Kernel:
    (kernel,) = read_kernels(source_of(body), lambda name: None)
    return kernel


def stores(kernel: Kernel) -> list[str]:
    return [f"{show(n.array)}[{', '.join(map(show, n.index))}]" for n in walk(*kernel.body) if isinstance(n, Store)]


def faults(body: str) -> list[Fault]:
    source = source_of(body)
    launches = read_launches(source, lambda name: None)
    return [f for k in read_kernels(source, lambda name: None) for f in check_tiles(k, launches)]


def test_a_store_is_a_loop_over_the_tile_clipped_at_the_edge() -> None:
    kernel = kernel_of("""
        @ct.kernel
        def double(x, y):
            b = ct.bid(0)
            ct.store(y, index=(b,), tile=ct.load(x, index=(b,), shape=(64,)) * 2.0)
        """)
    assert kernel.options["block"] == (1, 1, 1)
    first, rest = stores(kernel)
    assert first != rest
    text = "\n".join(show(n) for n in kernel.body)
    assert "range" in text or "For" in text
    assert "y.shape[0]" in text
    assert sum(isinstance(n, Load) for n in walk(*kernel.body)) == 2


def test_a_store_takes_the_shape_of_what_was_computed() -> None:
    kernel = kernel_of("""
        @ct.kernel
        def softmax(x, y):
            r = ct.bid(0)
            t = ct.load(x, index=(r, 0), shape=(1, 128), padding_mode=ct.PaddingMode.NEG_INF)
            t = t - ct.max(t, axis=1, keepdims=True)
            e = ct.exp(t)
            ct.store(y, index=(r, 0), tile=e / ct.sum(e, axis=1, keepdims=True))
        """)
    assert not [n for n in walk(*kernel.body) if isinstance(n, Unread)]
    assert len(stores(kernel)) == 2


def test_a_tile_of_unknown_shape_is_not_read_and_says_so() -> None:
    kernel = kernel_of("""
        @ct.kernel
        def odd(x, y, helper):
            ct.store(y, index=(ct.bid(0),), tile=ct.cat((x, x), 0))
        """)
    (unread,) = [n for n in walk(*kernel.body) if isinstance(n, Unread)]
    assert "shape" in unread.reason
    assert unread.touches == ("y",)


def test_lanes_of_a_scatter_are_looped_over_by_axis() -> None:
    kernel = kernel_of("""
        @ct.kernel
        def rows(x, y, n: ct.Constant[int]):
            i = ct.bid(0) * 8 + ct.arange(8, dtype=ct.int32)
            j = ct.arange(n, dtype=ct.int32)
            ct.scatter(y, (i[:, None], j[None, :]), ct.gather(x, (i[:, None], j[None, :])))
        """)
    assert len(stores(kernel)) == 1


def test_overlapping_views_step_less_than_their_width() -> None:
    kernel = kernel_of("""
        @ct.kernel
        def stamp(x):
            places = x.tiled_view((8,), traversal_steps=(4,))
            places.store((ct.bid(0),), 1.0)
        """)
    text = "\n".join(show(n) for n in kernel.body)
    assert "blockIdx.x * 4" in text


PADDING = """
@ct.kernel
def total(x, y):
    t = ct.load(x, index=(ct.bid(0), 0), shape=(1, 128){pad})
    ct.store(y, index=(ct.bid(0),), tile=ct.sum(t))


def main():
    x = torch.zeros(({rows}, {columns}), device="cuda")
    y = torch.zeros({rows}, device="cuda")
    ct.launch(torch.cuda.current_stream(), ({rows},), total, (x, y))
"""


def test_undetermined_padding_in_a_sum_is_found_at_the_launch() -> None:
    (fault,) = faults(PADDING.format(pad="", rows=50, columns=100))
    assert fault.rule == "void-lanes"
    assert "28 lanes on axis 1" in fault.message
    assert fault.help is not None


@pytest.mark.parametrize(
    ("pad", "columns"), [("", 128), (", padding_mode=ct.PaddingMode.ZERO", 100)], ids=["whole", "padded"]
)
def test_whole_or_padded_tiles_are_silent(pad: str, columns: int) -> None:
    assert faults(PADDING.format(pad=pad, rows=50, columns=columns)) == []


OVERFLOW = """
@ct.kernel
def rows(flat, out, pitch{kind}):
    at = ct.bid(0) * pitch + ct.arange(64, dtype=ct.{dtype})
    ct.store(out, index=(ct.bid(0),), tile=ct.sum(ct.gather(flat, at)))


def main():
    out = torch.zeros({rows}, device="cuda")
    flat = torch.zeros({rows} * 65536, device="cuda")
    ct.launch(torch.cuda.current_stream(), ({rows},), rows, (flat, out, 65536))
"""


def test_a_32_bit_product_that_leaves_its_range_is_found() -> None:
    (fault,) = faults(OVERFLOW.format(kind="", dtype="int32", rows=40000))
    assert fault.rule == "index-overflow"
    assert "2,147,483,647" in fault.message


@pytest.mark.parametrize(
    ("kind", "dtype", "rows"), [("", "int32", 1000), (": ct.ScalarInt64", "int64", 40000)], ids=["small", "wide"]
)
def test_small_or_64_bit_products_are_silent(kind: str, dtype: str, rows: int) -> None:
    assert faults(OVERFLOW.format(kind=kind, dtype=dtype, rows=rows)) == []


def test_files_without_cutile_have_no_kernels() -> None:
    assert read_kernels(Source("k.py", "import numba\n"), lambda name: None) == ()


def test_a_replay_skips_what_only_reads_inside_of_unwritten_arrays() -> None:
    kernel = kernel_of("""
        @ct.kernel
        def scale(x, y, T: ct.Constant[int]):
            b = ct.bid(0)
            ct.store(y, (b,), ct.load(x, (b,), (T,)) + ct.load(y, (b,), (T,)))
        """)
    loads = {show(n.array): 0 for n in walk(*kernel.body) if isinstance(n, Load)}
    for node in walk(*thinned(kernel).body):
        if isinstance(node, Load):
            loads[show(node.array)] += 1
    # The first element of a tile is touched apart: whether the tile begins inside is still seen.
    assert loads == {"x": 1, "y": 2}
