"""Kernels checked for the extents and the dtype of one launch, without a launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilecheck.frontend.tile import read_function
from tilecheck.ir.kernel import Access, TensorParam
from tilecheck.verify.tile import Argument, TileReport, check_kernel


def checked_for(kernel: Any, sizes: Mapping[str, int], dtype: str) -> TileReport:
    """The report for Dims of these sizes, by name, and `dtype` wherever the kernel leaves it open; what may be of another
    dtype than the tensors that are read is f32.
    """
    read = read_function(kernel.fn)
    tensors = [p for p in read.params if isinstance(p, TensorParam)]
    sources = {p.variable for p in tensors if p.access is Access.SHARED}
    opened = {p.name: Argument(dtype if p.variable in sources else "f32", len(p.extents or ())) for p in tensors}
    return check_kernel(read, {key: sizes[dim.name] for key, dim in read.dims.items() if dim.size is None}, opened)
