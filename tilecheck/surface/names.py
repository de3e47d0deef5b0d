"""Which extents a kernel speaks of, read from the live function alone (no source needed).

A name counts if the function's annotations or code mention it and it means a `Dim` class there: a parameter's
annotation, a global, a name of an enclosing function, `module.BM`, and the same in the plain functions it calls, which
are inlined.

    dims_of(gemm.fn) == {"BM": (BM,), "BN": (BN,), "BK": (BK,)}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tilecheck.surface.dims import DimClass


def dims_of(fn: FunctionType) -> Mapping[str, tuple[DimClass, ...]]:
    """The extents of `fn` by name; two classes under one name are both listed."""
    found: dict[str, list[DimClass]] = {}
    for dim in _dims(fn, set()):
        same = found.setdefault(dim.__name__, [])
        if not any(dim is other for other in same):
            same.append(dim)
    return {name: tuple(dims) for name, dims in found.items()}


def _dims(fn: FunctionType, seen: set[int]) -> Iterator[DimClass]:
    if id(fn) in seen:
        return
    seen.add(id(fn))
    scope = _scope(fn)
    values = [*_annotated(fn, scope), *_mentioned(fn.__code__, scope)]
    for value in values:
        if isinstance(value, DimClass):
            yield value
        elif isinstance(value, FunctionType):
            yield from _dims(value, seen)


def _scope(fn: FunctionType) -> dict[str, Any]:
    scope = dict(fn.__globals__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # a name of the enclosing function that is not assigned yet
            continue
    return scope


def _annotated(fn: FunctionType, scope: dict[str, Any]) -> Iterator[Any]:
    for annotation in fn.__annotations__.values():
        if isinstance(annotation, str):
            yield from _mentioned(compile(annotation, "<annotation>", "eval"), scope)
        else:
            yield from getattr(annotation, "__args__", ())


def _mentioned(code: CodeType, scope: Mapping[str, Any]) -> Iterator[Any]:
    names = (*code.co_names, *code.co_freevars)
    values = [scope[name] for name in names if name in scope]
    yield from values
    for module in values:
        if isinstance(module, ModuleType):
            yield from (vars(module)[name] for name in names if name in vars(module))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _mentioned(constant, scope)
