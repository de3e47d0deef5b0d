"""The open dtypes of the library: a kernel takes each that its variable lists, and computes in f32.

`Real` is what elementwise kernels and rows hold, `Factor` what tensor cores multiply, `Element` anything, for kernels that
only move it.
"""

from typing import TypeVar

from tilecheck import bf16, f16, f32

Real = TypeVar("Real", f32, f16, bf16)
Factor = TypeVar("Factor", f16, bf16)
Element = TypeVar("Element")
