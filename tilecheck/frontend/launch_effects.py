"""What calls of host code may do to the values they meet: nothing, write elements, or anything at all.

Invariant: the lists are of what is known to be harmless. A method or function that is not listed may resize an array,
rebind its memory, or change a container, so that all facts about the values it gets are dropped.

Worked example: `x.sum()` changes nothing, `x.fill(0)` writes elements, `x.resize(64)` is not listed and drops the shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache

import libcst as cst

from tilecheck.frontend.scopes import UNKNOWN, Instance, Ref, dotted
from tilecheck.frontend.syntax import parts
from tilecheck.ir.host_array import Derived, HostArray, Stranger


class Effect(IntEnum):
    """What a call may do to the values that it gets, from least to most."""

    READS = 0
    WRITES = 1
    ANYTHING = 2


# Attributes that are numbers, dtypes and the like: no way back to the memory of the array.
PLAIN_ATTRIBUTES = frozenset(
    {"shape", "size", "ndim", "dtype", "nbytes", "itemsize", "strides", "device", "is_cuda", "is_host"}
)
# Where the attributes are of an object of which no assignment was seen.
_UNSEEN = "<unseen>"
# Attributes that are views of the whole array.
_VIEW_ATTRIBUTES = frozenset({"T", "H", "mT", "mH", "real", "imag", "base", "flat"})
# Methods that only read, and whose result shares no memory with the array.
_COPIES = frozenset(
    {"copy", "clone", "copy_to_host", "sum", "mean", "min", "max", "item", "tolist", "any", "all", "argmax", "argmin"}
    | {"std", "var", "prod", "dot", "numel", "size", "dim", "stride", "is_contiguous", "element_size", "nonzero"}
    | {"cumsum", "argsort", "get", "repeat", "astype"}
)
# Methods that only read; their result may be a view, no two elements of which share memory.
_VIEWS = frozenset(
    {"view", "reshape", "ravel", "flatten", "transpose", "permute", "swapaxes", "movedim", "t", "squeeze", "unsqueeze"}
    | {
        "chunk",
        "split",
        "select",
        "narrow",
        "unbind",
        "contiguous",
        "cuda",
        "cpu",
        "to",
        "float",
        "double",
        "int",
        "long",
        "half",
    }
    | {"detach", "requires_grad_", "numpy", "view_as", "reshape_as", "diagonal"}
)
# Methods that only read; elements of their result may share memory.
_FOLDED = frozenset({"expand", "expand_as", "as_strided", "unfold", "broadcast_to"})
_ELEMENT_WRITERS = frozenset(
    {"fill", "put", "sort", "partition", "itemset", "copy_to_device", "__setitem__", "fill_", "zero_", "add_", "sub_"}
    | {"mul_", "div_", "copy_", "normal_", "uniform_", "random_", "clamp_", "index_fill_", "masked_fill_", "scatter_"}
)
_CONTAINER_READERS = frozenset({"get", "items", "keys", "values", "index", "count", "copy"})
READING_BUILTINS = frozenset(
    {"print", "len", "int", "float", "bool", "str", "repr", "min", "max", "abs", "round", "sum", "divmod", "pow"}
    | {"tuple", "list", "dict", "set", "range", "zip", "enumerate", "reversed", "sorted", "isinstance", "type", "any"}
    | {"all", "id", "iter", "next", "memoryview", "hasattr", "callable", "format", "slice"}
)
_LIBRARIES = ("numba.cuda.", "math.", "cuda.tile.")
_ARRAY_LIBRARIES = ("numpy.", "cupy.", "torch.")
# Functions of array libraries that read their arguments, and how many they take before the one that they write to.
_READING_FUNCTIONS = {
    **dict.fromkeys(
        ("add", "subtract", "multiply", "divide", "maximum", "minimum", "mod", "power", "matmul", "dot"), 2
    ),
    **dict.fromkeys(("sin", "cos", "exp", "log", "sqrt", "abs", "square", "negative"), 1),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "cumsum", "argmax", "argmin", "any", "all"), 2),
    **dict.fromkeys(("array", "asarray", "ascontiguousarray", "asfortranarray", "as_tensor", "from_numpy"), 9),
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like", "full_like", "zeros", "ones", "empty", "full"), 9),
    **dict.fromkeys(
        ("arange", "linspace", "where", "roll", "flip", "unique", "sort", "argsort", "copy", "array_equal"), 9
    ),
    **dict.fromkeys(
        ("allclose", "isclose", "equal", "array_equiv", "ravel", "reshape", "split", "chunk", "transpose"), 9
    ),
    **dict.fromkeys(("broadcast_to", "concatenate", "stack", "hstack", "vstack", "repeat", "tile", "tril", "triu"), 9),
    **dict.fromkeys(("asnumpy", "shape", "size", "ndim", "nonzero", "count_nonzero", "bincount", "diff", "isnan"), 9),
}
# Of the reading functions, those whose result may be a view of an argument, no two elements of which share memory.
_APART_FUNCTIONS = frozenset(
    {"ravel", "reshape", "split", "chunk", "transpose", "flip", "as_tensor", "from_numpy", "asarray", "array"}
    | {"ascontiguousarray", "asfortranarray", "asnumpy", "atleast_1d", "atleast_2d", "squeeze", "swapaxes", "moveaxis"}
    | {"unbind", "narrow", "flatten", "from_dlpack", "as_cuda_array", "from_cuda_array_interface", "to_device"}
)
# Those whose result, besides, may be one whose elements share memory.
_FOLDING_FUNCTIONS = frozenset({"broadcast_to"})
_FRESH_FUNCTIONS = frozenset(_READING_FUNCTIONS) - _APART_FUNCTIONS - _FOLDING_FUNCTIONS


def effect(callee: object, owner: object, name: str, count: int, keyword: dict[str, object]) -> Effect:
    """What a call does to its owner and arguments; `count` is the number of positional ones."""
    if isinstance(callee, Ref):
        known = _function_effect(callee.path, count)
    elif isinstance(owner, list | dict | tuple | str):
        known = Effect.READS if name in _CONTAINER_READERS else Effect.ANYTHING
    elif name in _COPIES | _VIEWS | _FOLDED:
        known = Effect.READS if isinstance(owner, HostArray | Derived | Stranger) else Effect.ANYTHING
    elif name in _ELEMENT_WRITERS and isinstance(owner, HostArray | Derived | Stranger):
        known = Effect.WRITES
    else:
        known = Effect.ANYTHING
    return max(known, Effect.WRITES) if "out" in keyword or "to" in keyword else known


def _function_effect(path: str, count: int) -> Effect:
    head, _, name = path.rpartition(".")
    if head == "builtins":
        return Effect.READS if name in READING_BUILTINS else Effect.ANYTHING
    if path == "numba.cuda.to_device":
        return Effect.READS if count < 3 else Effect.WRITES
    if path.startswith(_LIBRARIES) or head == "numpy.testing":
        return Effect.READS
    if not path.startswith(_ARRAY_LIBRARIES):
        return Effect.ANYTHING
    if name in _READING_FUNCTIONS and count <= _READING_FUNCTIONS[name]:
        return Effect.READS
    return Effect.ANYTHING if name.endswith("_") else Effect.WRITES


def outcome(callee: object, owner: object, name: str, values: tuple[object, ...]) -> object:
    """The value of a call whose result is not known: what it may share memory with."""
    if isinstance(callee, Ref):
        last = callee.path.rpartition(".")[2]
        if _function_effect(callee.path, len(values)) is Effect.READS and last in _FRESH_FUNCTIONS:
            return UNKNOWN
        if callee.path.startswith("numba.cuda.") and last.endswith("_array") and last not in _APART_FUNCTIONS:
            return Derived((), folded=True)
        apart = last in _APART_FUNCTIONS or callee.path.startswith("builtins.")
        return made_of(*values, folded=not apart)
    boxed = any(isinstance(item, list | dict) for item in held(owner))
    if (
        isinstance(owner, HostArray | Derived | Stranger)
        and name in _COPIES
        and not boxed
        and not (name == "get" and values)
    ):
        return UNKNOWN
    if name in _FOLDED:
        return Derived(tuple(held(owner)), folded=True)
    # What a function that is not known holds of its own is taken to be new at each call.
    called = () if isinstance(callee, Stranger) else (callee,)
    return made_of(*called, owner, *values, folded=name not in _VIEWS)


def made_of(*values: object, folded: bool = False) -> object:
    """Something made of `values` in a way that is not known; UNKNOWN if they hold no memory.

    Only of arrays whose shape was once known is it said that their elements share memory.
    """
    memory = tuple({id(item): item for value in values for item in held(value)}.values())
    loose = any(isinstance(value, Derived) and value.folded for value in values)
    folded = folded and any(array.shape is not None for item in memory for array in arrays_in(item))
    return Derived(memory, folded or loose) if memory or loose else UNKNOWN


def unknown_attribute(owner: object, name: str) -> object:
    """`owner.name` where it is not known."""
    if name in PLAIN_ATTRIBUTES:
        return UNKNOWN
    if isinstance(owner, Instance) and owner.attributes.keys() <= {_UNSEEN}:
        owner = owner.attributes.setdefault(_UNSEEN, Stranger())
    if isinstance(owner, Stranger) and name not in _VIEW_ATTRIBUTES:
        return owner.part("attribute", name)
    return made_of(owner)


def unknown_item(owner: object, index: list[object]) -> object:
    """`owner[index]` where it is not known; items of a stranger at different constants are different things."""
    if not isinstance(owner, Stranger):
        return made_of(owner)
    if not all(isinstance(at, str) or (isinstance(at, int) and at >= 0) for at in index):
        return made_of(owner)
    item = owner
    for at in index:
        item = item.part("item", at)
    return item


def unpacked(value: object, count: int) -> list[object]:
    """What the `count` names get that `value` is unpacked into."""
    if isinstance(value, tuple | list) and len(value) == count:
        return list(value)
    if isinstance(value, Stranger):
        return [value.part("item", at) for at in range(count)]
    if (
        isinstance(value, HostArray)
        and len(value.shape or ()) > 1
        and value.shape is not None
        and value.shape[0] == count
    ):
        return [value.window([at]) for at in range(count)]
    return [made_of(value) for _ in range(count)]


def any_item(value: object) -> object:
    """What one round of a loop over `value` gets."""
    return value.part("round", object()) if isinstance(value, Stranger) else made_of(value)


def held(value: object) -> Iterator[object]:
    """The arrays and containers that `value` is or holds at its first level."""
    if isinstance(value, Derived):
        yield from value.values
    elif isinstance(value, tuple):
        for item in value:
            yield from held(item)
    elif isinstance(value, HostArray | list | dict | Instance | Stranger):
        yield value


def inside(value: object) -> tuple[object, ...]:
    """What `value` holds directly."""
    if isinstance(value, Derived):
        return value.values
    if isinstance(value, tuple | list):
        return tuple(value)
    if isinstance(value, dict):
        return tuple(value.values())
    if isinstance(value, Stranger):
        return (value.array, *value.parts.values())
    return tuple(value.attributes.values()) if isinstance(value, Instance) else ()


def arrays_in(value: object) -> Iterator[HostArray]:
    """All arrays that can be reached from `value`, each object once."""
    todo, done = [value], set[int]()
    while todo:
        at = todo.pop()
        if id(at) not in done:
            done.add(id(at))
            todo += inside(at)
            if isinstance(at, HostArray):
                yield at


@lru_cache(maxsize=4096)
def mentioned(node: cst.CSTNode) -> frozenset[str]:
    """The names that stand in `node`, those of attributes and keywords aside. A run meets the same nodes many times."""
    return frozenset(at.value for at in walk(node) if isinstance(at, cst.Name))


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """`node` and all that stands below it, without names of attributes and keywords."""
    stack = [node]
    while stack:
        at = stack.pop()
        yield at
        aside = at.attr if isinstance(at, cst.Attribute) else at.keyword if isinstance(at, cst.Arg) else None
        stack += reversed([child for child in parts(at) if child is not aside])


def bound_by_expressions(node: cst.CSTNode) -> set[str]:
    """The names that `:=` binds in `node`."""
    return {at.target.value for at in walk(node) if isinstance(at, cst.NamedExpr) and isinstance(at.target, cst.Name)}


def bound_by_pattern(node: cst.CSTNode) -> set[str]:
    """The names that a `case` captures."""
    found: set[str] = set()
    for at in walk(node):
        if isinstance(at, cst.MatchAs | cst.MatchStar) and at.name is not None:
            found.add(at.name.value)
        elif isinstance(at, cst.MatchMapping) and at.rest is not None:
            found.add(at.rest.value)
    return found


def captured_names(scope: cst.CSTNode) -> frozenset[str]:
    """The names that lambdas of a body use, when they do more than compute: whenever they run, they may change them."""
    return frozenset(
        name
        for at in walk(scope)
        if isinstance(at, cst.Lambda) and any(isinstance(below, cst.Call) for below in walk(at.body))
        for name in mentioned(at.body)
    )


def hands_over(node: cst.FunctionDef) -> bool:
    """Whether a call of the function gives what it returns: it is no generator, and no decorator changes it."""
    plain = all(
        isinstance(at.decorator, cst.Name | cst.Attribute) and (dotted(at.decorator) or "").endswith(_PLAIN_DECORATORS)
        for at in node.decorators
    )
    return plain and node.asynchronous is None and not any(isinstance(at, cst.Yield) for at in walk(node.body))


_PLAIN_DECORATORS = ("property", "staticmethod", "classmethod", "override", "final")
