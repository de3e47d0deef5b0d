"""Views that only rearrange an array: `a.T`, `a.ravel()`, `a.reshape(...)`.

`T` turns any part of an array round. The others look at a whole array in the order of its elements, which numba gives a
view for where the array is contiguous, and refuses to compile where it is not.

Invariant: what is not known to be such a view is unknown.

Worked example: with `x` of shape (4, 8), `x.ravel()[i]` is the element `x[i // 8, i % 8]`, and `x.T[i, j]` is `x[j, i]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilecheck.symbolic.smt_nodes import Level, Term
from tilecheck.symbolic.smt_terms import div, value_of
from tilecheck.verify.values import Items, Unknown, Value, View, as_int, views, whole


def rearranged(name: str, value: Value, extents: Sequence[Value]) -> Value:
    """A view of a whole array or, for `T`, of any part of one."""
    found = views(value)
    view = found[0][1]
    if len(found) == 1:
        if name in ("real", "imag") or (len(view.free) == 1 and name in ("T", "transpose", "flat", "ravel")):
            return view
        if name in ("T", "transpose") and not extents and view.folded is None:
            return replace(view, turned=not view.turned)
        folded = _folded(view, extents) if name in ("reshape", "ravel", "flat") and view == whole(view.array) else None
        if folded is not None:
            return replace(view, folded=folded)
    return Unknown(f"`{name}` of an array")


def _folded(view: View, extents: Sequence[Value]) -> tuple[Term, ...] | None:
    """The extents of a whole array after `reshape`, one of which may be -1, or after `ravel`; None if they are not known."""
    if len(extents) == 1 and isinstance(extents[0], Items):
        extents = extents[0].items
    terms = [as_int(extent) for extent in extents]
    known = [term for term in terms if term is not None and value_of(term) != -1]
    if None in terms or len(known) < len(terms) - 1 or any(term.level is not Level.GRID for term in known):
        return None
    rest = view.size
    for term in known:
        rest = div(rest, term)
    return tuple(rest if term is None or value_of(term) == -1 else term for term in terms) or (view.size,)
