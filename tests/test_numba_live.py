"""`read_function` on live functions: globals and closures as they are now, source from the file."""

from __future__ import annotations

import numpy as np
import pytest

from tests import live_simt
from tilecheck.frontend.numba import NoSource, read_function
from tilecheck.interp.simt import run
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import Const, DimRef, Inline, TensorParam, walk
from tilecheck.ir.simt import AllocArray, Store, Unread


def test_annotations_dims_helpers_and_constants() -> None:
    kernel = read_function(live_simt.ours.fn)
    c, a, n = kernel.params
    assert kernel.track == "simt" and kernel.options["block"] == (8, 4)
    assert isinstance(c, TensorParam) and c.access == "Mut" and c.dtype == "f32"
    assert isinstance(a, TensorParam) and a.extents == (None,) and n.kind == "int"
    key = next(node.key for node in walk(*kernel.body) if isinstance(node, DimRef))
    assert kernel.dims[key].name == "BM" and c.extents == (key,)
    assert any(isinstance(node, Const) and node.value == 8 for node in walk(*kernel.body))
    assert [node.callee for node in walk(*kernel.body) if isinstance(node, Inline)] == ["scaled"]
    tables = [value for value in kernel.constants.values() if isinstance(value, HostArray)]
    assert [table.contents.values for table in tables if table.contents] == [(3, 1, 2)]
    assert not any(isinstance(node, Unread) for node in walk(*kernel.body))
    assert next(node for node in walk(*kernel.body) if isinstance(node, AllocArray) and node.space == "shared")


def test_a_closure_is_taken_as_it_is_now() -> None:
    values = []
    for n in (3, 4):
        kernel = read_function(live_simt.make(n).py_func)
        (store,) = [node for node in walk(*kernel.body) if isinstance(node, Store)]
        values.append(store.value.value)
    assert values == [3, 4]


def test_a_live_kernel_runs() -> None:
    kernel = read_function(live_simt.make(7))
    x = np.zeros(8, np.int32)
    assert run(kernel, {"x": x}, (2, 1, 1), (4, 1, 1)).faults == () and (x == 7).all()


def test_a_function_without_source_is_named() -> None:
    scope: dict[str, object] = {}
    exec("def ghost(x):\n    x[0] = 1\n", scope)
    with pytest.raises(NoSource, match="source"):
        read_function(scope["ghost"])
