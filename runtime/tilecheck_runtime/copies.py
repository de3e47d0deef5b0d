"""Copies between tensors, and from the host, as queued work."""

from __future__ import annotations

from typing import Any

from tilecheck_runtime import layout as lay
from tilecheck_runtime.backends import Copy, Upload, Work
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.grants import hold
from tilecheck_runtime.loans import Access, Loan
from tilecheck_runtime.sites import subject
from tilecheck_runtime.tensor import Tensor


def copying(target: Tensor, source: Any) -> tuple[Work, tuple[Loan, ...]]:
    """The work of `memcpy(target, source)` and what it holds."""
    target._usable()
    target._writable()
    write = target._elements.request(Access.EXCLUDE, target._loan, "`target`")
    if isinstance(source, Tensor):
        source._usable("`source`")
        _same(target, source.shape, source.dtype.name)
        read = source._elements.request(Access.SHARE, source._loan, "`source`")
        loans = hold((write, read), "`memcpy`")
        return Copy(target._elements.strided(), source._elements.strided()), loans
    # A snapshot: the caller may change its array before the op runs.
    values = lay.array_of(source).copy()
    _same(target, values.shape, lay.as_dtype(values.dtype).name)
    return Upload(target._elements.strided(), values), hold((write,), "`memcpy`")


def _same(target: Tensor, shape: tuple[int, ...], dtype: str) -> None:
    if target.shape != shape:
        raise UsageError(f"{subject()} has shape {target.shape}, the source {shape}", rule="shape-mismatch")
    if target.dtype.name != dtype:
        raise UsageError(
            f"{subject()} holds {target.dtype.name}, the source {dtype}",
            "convert first: `x.astype(...)`",
            rule="dtype-mismatch",
        )
