"""Constant folding of host expressions: what a Python expression is worth, without running the program.

`fold(node, lookup)` evaluates ints, floats, strings, tuples, references to imported things and array constructors over
names that `lookup` explains; whatever else occurs makes the result `UNKNOWN`. It never raises and never calls user code.

Worked example: with `N` known as 100, `(N + 31) // 32` folds to 4 and `np.zeros((N, 2), np.float32)` to a `HostArray`
of shape (100, 2), dtype float32 and zero contents.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace

import libcst as cst

from tilecheck.frontend.attributes import attribute_of, is_property
from tilecheck.frontend.host_arithmetic import combined, computed
from tilecheck.frontend.host_arrays import (
    array_call,
    array_item,
    array_method,
)
from tilecheck.frontend.host_dtypes import dtype_name, width_of
from tilecheck.frontend.launch_effects import made_of, unknown_attribute, unknown_item
from tilecheck.frontend.scopes import (
    UNKNOWN,
    FunctionValue,
    Method,
    Ref,
    Resolve,
    Scope,
    World,
)
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import HostArray

Lookup = Callable[[str], object]
# Evaluates calls, and whatever else is beyond `fold`.
CallHook = Callable[[cst.BaseExpression], object]

_BINARY: dict[type[cst.BaseBinaryOp], Callable[..., object]] = {
    cst.Add: operator.add,
    cst.Subtract: operator.sub,
    cst.Multiply: operator.mul,
    cst.Divide: operator.truediv,
    cst.FloorDivide: operator.floordiv,
    cst.Modulo: operator.mod,
    cst.Power: operator.pow,
    cst.LeftShift: operator.lshift,
    cst.RightShift: operator.rshift,
    cst.BitAnd: operator.and_,
    cst.BitOr: operator.or_,
    cst.BitXor: operator.xor,
}
_COMPARE: dict[type[cst.BaseCompOp], Callable[..., object]] = {
    cst.Equal: operator.eq,
    cst.NotEqual: operator.ne,
    cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le,
    cst.GreaterThan: operator.gt,
    cst.GreaterThanEqual: operator.ge,
    cst.Is: operator.is_,
    cst.IsNot: operator.is_not,
}
_BUILTINS: dict[str, object] = {"True": True, "False": False, "None": None}
_FUNCTIONS: dict[str, Callable[..., object]] = {
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": bool,
    "builtins.len": len,
    "builtins.min": min,
    "builtins.max": max,
    "builtins.abs": abs,
    "builtins.round": round,
    "builtins.sum": sum,
    "builtins.divmod": divmod,
    "builtins.pow": pow,
    "builtins.str": str,
    "builtins.tuple": tuple,
    "builtins.list": list,
    "builtins.range": range,
    "math.ceil": math.ceil,
    "cuda.tile.cdiv": lambda a, b: -(-a // b),
    "math.floor": math.floor,
    "math.sqrt": math.sqrt,
    "math.log2": math.log2,
    "math.log": math.log,
    "math.prod": math.prod,
    "math.gcd": math.gcd,
    "numpy.ceil": lambda x: float(math.ceil(x)),
    "numpy.floor": lambda x: float(math.floor(x)),
    "numpy.sqrt": math.sqrt,
    "numpy.prod": math.prod,
    "numpy.log2": math.log2,
    "builtins.zip": lambda *seqs: list(zip(*seqs, strict=False)),
    "builtins.enumerate": lambda seq: list(enumerate(seq)),
    "builtins.reversed": lambda seq: list(reversed(seq)),
    "builtins.sorted": sorted,
}
# Calls whose result is known by a name of its own, for the sake of its methods.
_OBJECTS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "numba.cuda.cg.this_grid"})
_BUILTIN_NAMES = frozenset(name.partition(".")[2] for name in _FUNCTIONS if name.startswith("builtins."))
# Folded numbers and sequences stay below these sizes, so that folding is quick whatever the source says.
_MAX_BITS = 256
_MAX_LENGTH = 1 << 16
_MAX_ITEMS = 1 << 10


def module_scope(source: Source, resolve: Resolve) -> Scope:
    """The names of a file and of the modules that it imports. Raises `Unreadable` if the file does not parse."""
    return Scope(source, source.module, None, World(resolve, fold))


def is_plain(value: object) -> bool:
    """Whether `value` is a number, string, None, or a tuple or list of such."""
    if isinstance(value, tuple | list):
        return all(is_plain(item) for item in value)
    return value is None or isinstance(value, int | float | complex | str | bool | range)


def fold(node: cst.BaseExpression, lookup: Lookup, call: CallHook | None = None) -> object:
    """The value of `node`; `UNKNOWN` if any part of it is not a constant. `call` evaluates calls, `fold_call` unless given."""
    match node:
        case cst.Integer() | cst.Float() | cst.Imaginary() | cst.SimpleString() | cst.ConcatenatedString():
            value: object = node.evaluated_value
            return UNKNOWN if isinstance(value, bytes) else value
        case cst.Name(value=name):
            if name in _BUILTINS:
                return _BUILTINS[name]
            found = lookup(name)
            if found is UNKNOWN and name in _BUILTIN_NAMES:
                return Ref(f"builtins.{name}")
            return found
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            items: list[object] = []
            for element in elements:
                item = fold(element.value, lookup, call)
                if isinstance(element, cst.Element):
                    items.append(item)
                elif isinstance(item, tuple | list):
                    items += item
                else:
                    rest = (fold(other.value, lookup, call) for other in elements[elements.index(element) + 1 :])
                    return UNKNOWN if call is None else made_of(item, *items, *rest)
            return items if isinstance(node, cst.List) else tuple(items)
        case cst.Dict(elements=entries):
            return _dict(entries, lookup, call)
        case cst.Attribute(value=base, attr=cst.Name(value=attribute)):
            owner = fold(base, lookup, call)
            width = width_of(owner, attribute)
            if width is not None:
                return width
            got = attribute_of(owner, attribute)
            if call is None:
                return got
            if isinstance(got, Method) and is_property(got.function):
                return call(node)
            return unknown_attribute(owner, attribute) if got is UNKNOWN else got
        case cst.UnaryOperation(operator=sign, expression=inner):
            return _unary(sign, fold(inner, lookup, call))
        case cst.BinaryOperation(left=left, operator=op, right=right):
            sides = fold(left, lookup, call), fold(right, lookup, call)
            joined = binary(type(op), *sides)
            # Sequences of arrays are joined and repeated; other operators make new things.
            holds = call is not None and isinstance(op, cst.Add | cst.Multiply) and float not in map(type, sides)
            return made_of(*sides) if joined is UNKNOWN and holds else joined
        case cst.Comparison(left=left, comparisons=targets):
            current = fold(left, lookup, call)
            for target in targets:
                following = fold(target.comparator, lookup, call)
                compare = _COMPARE.get(type(target.operator))
                if compare is not None and (isinstance(current, HostArray) or isinstance(following, HostArray)):
                    return replace(combined(current, following), dtype="bool")
                if compare is None or not (is_plain(current) and is_plain(following)):
                    return UNKNOWN
                outcome = _attempt(compare, current, following)
                if outcome is not True:
                    return outcome
                current = following
            return True
        case cst.BooleanOperation(left=left, operator=logic, right=right):
            first = fold(left, lookup, call)
            if not is_plain(first):
                return UNKNOWN if call is None else made_of(first, call(node))
            stops = not first if isinstance(logic, cst.And) else bool(first)
            return first if stops else fold(right, lookup, call)
        case cst.IfExp(test=test, body=body, orelse=orelse):
            chosen = fold(test, lookup, call)
            if not is_plain(chosen):
                return UNKNOWN if call is None else call(node)
            return fold(body if chosen else orelse, lookup, call)
        case cst.ListComp(elt=element, for_in=loop) | cst.GeneratorExp(elt=element, for_in=loop) if call is None:
            return _comprehension(element, loop, lookup)
        case cst.Subscript(value=base):
            return item_of(fold(base, lookup, call), node, lookup, call)
        case cst.Call():
            return fold_call(node, lookup) if call is None else call(node)
    return UNKNOWN if call is None else call(node)


def item_of(owner: object, node: cst.Subscript, lookup: Lookup, call: CallHook | None) -> object:
    """The value of the subscript `node` of something worth `owner`."""
    index = [_index(element.slice, lookup, call) for element in node.slice]
    got = _subscript(owner, index)
    return unknown_item(owner, index) if got is UNKNOWN and call is not None else got


def _dict(entries: Sequence[cst.BaseDictElement], lookup: Lookup, call: CallHook | None) -> object:
    """A dict whose keys are plain; its values may be unknown."""
    result: dict[object, object] = {}
    loose: list[object] = []
    for entry in entries:
        key = fold(entry.key, lookup, call) if isinstance(entry, cst.DictElement) else UNKNOWN
        value = fold(entry.value, lookup, call)
        if isinstance(key, int | str):
            result[key] = value
        else:
            loose.append(value)
    if loose:
        return UNKNOWN if call is None else made_of(*result.values(), *loose)
    return result


def _comprehension(element: cst.BaseExpression, loop: cst.CompFor, lookup: Lookup) -> object:
    """A list over one plain sequence, conditions and nesting left aside."""
    items = fold(loop.iter, lookup)
    if loop.ifs or loop.inner_for_in is not None or not isinstance(loop.target, cst.Name):
        return UNKNOWN
    if not isinstance(items, range | list | tuple) or len(items) > _MAX_ITEMS:
        return UNKNOWN
    name = loop.target.value
    result: list[object] = []
    for item in items:

        def inner(text: str, item: object = item) -> object:
            return item if text == name else lookup(text)

        result.append(fold(element, inner))
    return result


def binary(op: type[cst.BaseBinaryOp], left: object, right: object) -> object:
    """`left op right` on plain values; arrays combine to arrays of unknown contents."""
    function = _BINARY.get(op)
    if function is not None and _joins(op, left, right):
        return _attempt(function, left, right)
    if isinstance(left, HostArray) or isinstance(right, HostArray):
        return combined(left, right) if function is None else computed(function, left, right)
    if function is None or not (is_plain(left) and is_plain(right)):
        return UNKNOWN
    if isinstance(left, int) and isinstance(right, int):
        if op in (cst.Power, cst.LeftShift) and (abs(right) > _MAX_BITS or abs(left) >> _MAX_BITS):
            return UNKNOWN
    elif op is cst.Multiply and isinstance(left, tuple | list | str) and isinstance(right, int) and right > _MAX_LENGTH:
        return UNKNOWN
    return _attempt(function, left, right)


def _joins(op: type[cst.BaseBinaryOp], left: object, right: object) -> bool:
    """Whether `left op right` joins or repeats sequences, whatever they hold."""
    if op is cst.Multiply:
        sequence, times = (left, right) if isinstance(left, tuple | list) else (right, left)
        return isinstance(sequence, tuple | list) and isinstance(times, int) and times * len(sequence) <= _MAX_ITEMS
    return op is cst.Add and isinstance(left, tuple | list) and type(left) is type(right)


def fold_call(node: cst.Call, lookup: Lookup) -> object:
    """The value of a call of a known pure function, an array constructor or a dtype."""
    # What a method is called on is folded once: a chain of methods is as deep as it is long.
    owner: object = None
    match node.func:
        case cst.Attribute(value=base, attr=cst.Name(value=name)):
            owner = fold(base, lookup)
            function = attribute_of(owner, name)
        case _:
            name = ""
            function = fold(node.func, lookup)
    if not isinstance(function, Ref) and not isinstance(owner, HostArray):
        return UNKNOWN
    if any(argument.star for argument in node.args):
        return UNKNOWN
    args = [fold(argument.value, lookup) for argument in node.args if argument.keyword is None]
    kwargs = {a.keyword.value: fold(a.value, lookup) for a in node.args if a.keyword is not None}
    if isinstance(function, Ref):
        return call_ref(function, args, kwargs)
    return array_method(owner, name, args, kwargs) if isinstance(owner, HostArray) else UNKNOWN


def call_ref(function: Ref, args: list[object], kwargs: dict[str, object]) -> object:
    """The value of calling the library function `function`."""
    if function.path in ("numba.cuda.jit", "numba.cuda.jit()"):
        jitted = [value for value in args if isinstance(value, FunctionValue)]
        return jitted[0] if jitted else Ref("numba.cuda.jit()")
    if function.path in _OBJECTS:
        return Ref(f"{function.path}()")
    known = _FUNCTIONS.get(function.path)
    if function.path == "builtins.len" and len(args) == 1 and isinstance(args[0], HostArray):
        extents = args[0].shape
        return UNKNOWN if not extents or extents[0] is None else extents[0]
    if known is not None:
        if all(is_plain(a) for a in args) and not kwargs:
            return _attempt(known, *args)
        if function.path in ("builtins.zip", "builtins.enumerate") and all(isinstance(a, tuple | list) for a in args):
            return _attempt(known, *args)
        return UNKNOWN
    made = array_call(function.path, args, kwargs)
    if made is not None:
        return made
    name = dtype_name(args[0]) if function.path == "numpy.dtype" and len(args) == 1 else dtype_name(function)
    if name is not None and (function.path == "numpy.dtype" or (function.path.startswith("numpy.") and not args)):
        return Ref(f"numpy.{name}")
    if name is not None and len(args) == 1 and isinstance(args[0], int | float) and not kwargs:
        if name.endswith(("int8", "int16")):  # their arithmetic wraps early
            return UNKNOWN
        if "int" in name:
            return _attempt(int, args[0])
        return bool(args[0]) if name == "bool" else float(args[0])
    return UNKNOWN


def _attempt(function: Callable[..., object], *args: object) -> object:
    try:
        result = function(*args)
    except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
        return UNKNOWN
    if isinstance(result, int) and result.bit_length() > _MAX_BITS:
        return UNKNOWN
    return result


def _unary(sign: cst.BaseUnaryOp, value: object) -> object:
    if isinstance(value, HostArray) and not isinstance(sign, cst.Not):
        return replace(value.fresh().vague(), dtype=value.dtype)
    if not is_plain(value):
        return UNKNOWN
    if isinstance(sign, cst.Minus):
        return _attempt(operator.neg, value)
    if isinstance(sign, cst.Plus):
        return _attempt(operator.pos, value)
    if isinstance(sign, cst.BitInvert):
        return _attempt(operator.invert, value)
    return not value


def _index(node: cst.BaseSlice, lookup: Lookup, call: CallHook | None) -> object:
    if isinstance(node, cst.Index):
        return fold(node.value, lookup, call)
    assert isinstance(node, cst.Slice)
    parts = [None if part is None else fold(part, lookup, call) for part in (node.lower, node.upper, node.step)]
    return slice(*parts)


def _subscript(base: object, index: list[object]) -> object:
    if isinstance(base, HostArray):
        return array_item(base, index)
    if isinstance(base, dict) and len(index) == 1 and isinstance(index[0], int | str):
        return base.get(index[0], UNKNOWN)
    if isinstance(base, tuple | list | str | range) and len(index) == 1 and isinstance(index[0], int | slice):
        if isinstance(index[0], slice) and not is_plain((index[0].start, index[0].stop, index[0].step)):
            return UNKNOWN
        return _attempt(operator.getitem, base, index[0])
    return UNKNOWN
