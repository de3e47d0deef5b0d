"""Whether anything that a kernel refers to has been bound anew since it was read.

`specialise.environment` says what names mean, value by value, and costs tens of microseconds. Here the same names are
remembered object by object: as long as every one of them is bound to the very same object, and no builtin has been hidden
by a global, the environment is the same too. The converse does not hold and need not.

    unchanged = watch(kernel.fn)
    ...
    if unchanged():             # one pass over a handful of names
        ...
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter, is_, itemgetter
from types import CellType, FunctionType, ModuleType
from typing import Any

from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.specialise import MAX_DOTS, names_of

_contents = attrgetter("cell_contents")
# Of these an equal one may be another one: 1, 1.0 and True.
_EQUAL = (int, float, str, tuple, type(None))


@dataclass(frozen=True, slots=True)
class _Scope:
    """Names of one namespace: what they are bound to, and those that are not bound there."""

    names: Mapping[str, Any]
    get: Callable[[Any], Any]
    values: Any
    # For plain values, which `==` does not tell apart well enough.
    get_plain: Callable[[Any], Any] | None
    plain: tuple[Any, ...]
    free: frozenset[str]

    def unchanged(self) -> bool:
        names = self.names
        if self.get(names) != self.values:
            return False
        if self.get_plain is not None and not all(map(is_, self.get_plain(names), self.plain)):
            return False
        return not self.free or names.keys().isdisjoint(self.free)


def watch(fn: FunctionType) -> Callable[[], bool]:
    """Says whether the names of `fn`, and of the helpers it calls, are bound to what they are bound to now."""
    cells: list[CellType] = []
    scopes = tuple(_scope(names, bound, free) for names, bound, free in _scopes(fn, cells, set()) if bound or free)
    filled = tuple(map(_contents, cells))
    only = scopes[0] if len(scopes) == 1 and not cells else None

    def unchanged() -> bool:
        try:
            return all(scope.unchanged() for scope in scopes) and all(map(is_, map(_contents, cells), filled))
        # A name or a cell that is not bound any more, or values that do not compare: arrays, and tensors with numbers.
        except (KeyError, ValueError, UsageError):
            return False

    if only is None or only.get_plain is not None or only.free:
        return unchanged
    names, get, values = only.names, only.get, only.values

    def same() -> bool:
        try:
            return bool(get(names) == values)
        except (KeyError, ValueError, UsageError):
            return False

    return same


def _scope(names: Mapping[str, Any], bound: list[str], free: frozenset[str]) -> _Scope:
    plain = [name for name in bound if isinstance(names[name], _EQUAL)]
    get, get_plain = _getter(bound), _getter(plain) if plain else None
    return _Scope(names, get, get(names), get_plain, get_plain(names) if get_plain else (), free)


def _getter(keys: list[str]) -> Callable[[Any], Any]:
    """The values of `keys` as a tuple."""
    if not keys:
        return lambda names: ()
    # Of one name an `itemgetter` gives no tuple.
    return itemgetter(*keys, keys[0])


def _scopes(
    fn: FunctionType, cells: list[CellType], seen: set[int]
) -> Iterator[tuple[Mapping[str, Any], list[str], frozenset[str]]]:
    """The namespaces in which names of `fn` are looked up, with the names that are bound there and those that are not; the
    filled cells of `fn` go to `cells`.
    """
    if id(fn) in seen:
        return
    seen.add(id(fn))
    scope, names = fn.__globals__, frozenset(names_of(fn.__code__))
    bound = sorted(names & scope.keys())
    yield scope, bound, _globals(fn) - scope.keys()
    values = [scope[name] for name in bound]
    for cell in fn.__closure__ or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # a name of the enclosing function that is not assigned yet
            continue
        cells.append(cell)
    for value in values:
        yield from _inside(value, names, cells, seen, 0)


def _inside(
    value: Any, names: frozenset[str], cells: list[CellType], seen: set[int], depth: int
) -> Iterator[tuple[Mapping[str, Any], list[str], frozenset[str]]]:
    if isinstance(value, FunctionType):
        yield from _scopes(value, cells, seen)
    elif isinstance(value, ModuleType) and depth < MAX_DOTS and id(value) not in seen:
        seen.add(id(value))
        scope = vars(value)
        bound = sorted(names & scope.keys())
        # An attribute that a module lacks is none that the kernel was read with.
        yield scope, bound, frozenset()
        for name in bound:
            yield from _inside(scope[name], names, cells, seen, depth + 1)


def _globals(fn: FunctionType) -> frozenset[str]:
    """The names that `fn`, and what is nested in it, look up as globals; the others of `names_of` are attributes."""
    found: set[str] = set()
    codes = [fn.__code__]
    while codes:
        code = codes.pop()
        found |= {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        codes += [constant for constant in code.co_consts if isinstance(constant, type(code))]
    return frozenset(found)
