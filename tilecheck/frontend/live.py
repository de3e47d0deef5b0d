"""Live Python values in the terms of the frontend: what a kernel's globals and closure hold at the time of a launch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from tilecheck.frontend.scopes import UNKNOWN, FunctionValue, Ref, canonical
from tilecheck.ir.host_array import Contents, HostArray
from tilecheck.ir.kernel import DimDecl
from tilecheck.surface.dims import DimClass

_MAX_CONTENTS = 1 << 14


def convert(value: object, function_value: Callable[[Callable[..., Any]], FunctionValue | None]) -> object:
    """`value` as a constant, a `Ref`, a function that can be inlined or a `HostArray`; UNKNOWN otherwise."""
    if value is None or isinstance(value, int | float | str):
        return float(value) if isinstance(value, float) else value
    if isinstance(value, tuple):
        items = tuple(convert(item, function_value) for item in value)
        return UNKNOWN if any(item is UNKNOWN for item in items) else items
    if isinstance(value, ModuleType):
        return Ref(canonical(value.__name__))
    if isinstance(value, FunctionType):
        found = function_value(value)
        return found if found is not None else _named(value)
    if isinstance(value, DimClass):
        module = sys.modules.get(value.__module__)
        home = getattr(module, "__file__", None) or value.__module__
        return DimDecl(f"{home}::{value.__qualname__}", value.__name__, value.size)
    path = getattr(value, "numba_path", None)
    if isinstance(path, str):  # the stand-in of numba says what it stands for
        return Ref(canonical(path))
    python = getattr(value, "py_func", None)
    if isinstance(python, FunctionType):
        found = function_value(python)
        return UNKNOWN if found is None else found
    if hasattr(value, "__array_interface__") and hasattr(value, "dtype") and hasattr(value, "ravel"):
        return _array(value)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return value.item()
    return _named(value)


def _array(value: Any) -> HostArray:
    flat = tuple(value.ravel().tolist()) if value.size <= _MAX_CONTENTS and value.dtype.names is None else None
    return HostArray(tuple(value.shape), str(value.dtype), None if flat is None else Contents(values=flat))


def _named(value: object) -> object:
    """A library's own object by its name: numba types, NumPy dtypes, functions of `math`."""
    name = getattr(value, "__qualname__", None) or getattr(value, "name", None)
    module = getattr(value, "__module__", None) or type(value).__module__
    if isinstance(name, str) and isinstance(module, str):
        root = module.partition(".")[0]
        if root == "numpy":
            return Ref(f"numpy.{name}")
        if (
            root in ("numba", "numba_cuda")
            and not isinstance(value, type)
            and not callable(getattr(value, "stub", None))
        ):
            return Ref(f"numba.{name}") if ".types" in module else Ref(canonical(f"{module}.{name}"))
        if root in ("numba", "numba_cuda", "math", "operator", "builtins", "tilecheck"):
            return Ref(canonical(f"{module}.{name}"))
    return UNKNOWN
