"""The head of a tile kernel: decorator options and parameters.

    @tc.kernel(checks="launch", requires="x.size >= z.size")
    def scale(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], a: float) -> None

Annotations may be strings, aliases (`Vector = Tensor[Mut, f32, BM]`) and short (`Tensor[Mut]`: dtype and extents are the
argument's). Every finding names the parameter and says how to write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.names import (
    Alias,
    Constant,
    DimClass,
    External,
    Meaning,
    Names,
    dtypes_among,
    meaning,
    path_of,
)
from tilecheck.frontend.tile_reader import Reader
from tilecheck.ir.kernel import Access, Param, ScalarParam, TensorParam, TypeVariable, Unsupported
from tilecheck.surface.dtypes import DTYPES
from tilecheck.surface.elsewhere import dtype_name

_ACCESSES = {f"tilecheck.{a.value}": a for a in Access}
_SCALARS = ("int", "float", "bool")
_OPEN = ("typing.Any", "typing_extensions.Any", "tilecheck.Dyn")
_OPTIONS: dict[str, tuple[object, ...] | None] = {
    "checks": ("auto", "launch"),
    "requires": None,
    "backend": ("auto", "numba-cuda", "tile-ir"),
}
KERNEL = "tilecheck.kernel"


def decorator_of(node: cst.FunctionDef, names: Names) -> cst.Decorator | None:
    """The `@tc.kernel` of a function, if it has one."""
    for decorator in node.decorators:
        target = decorator.decorator
        if path_of(target.func if isinstance(target, cst.Call) else target, names) == KERNEL:
            return decorator
    return None


def options(r: Reader, decorator: cst.Decorator) -> dict[str, object]:
    """What the decorator was given. Faults of rule `usage` are recorded."""
    given: dict[str, object] = {}
    call = decorator.decorator
    for argument in call.args if isinstance(call, cst.Call) else ():
        try:
            key, value = _option(r, argument)
            given[key] = value
        except Unsupported as error:
            r.record(error)
    return given


def _option(r: Reader, argument: cst.Arg) -> tuple[str, object]:
    if argument.keyword is None or argument.keyword.value not in _OPTIONS:
        shown = argument.keyword.value if argument.keyword is not None else "a positional argument"
        raise r.refuse(
            f"`kernel` has no option `{shown}`" if argument.keyword else f"`kernel` takes no {shown[2:]}",
            argument,
            'its options are `checks="launch"`, `requires="..."` and `backend="..."`',
            "usage",
        )
    key, found = argument.keyword.value, meaning(argument.value, r.frame.names)
    if not isinstance(found, Constant) or not isinstance(found.value, str):
        raise r.refuse(f"`{key}=` is no string known before the launch", argument.value, None, "usage")
    allowed = _OPTIONS[key]
    if allowed is not None and found.value not in allowed:
        raise r.refuse(
            f'`{key}="{found.value}"` is not known',
            argument.value,
            "it is " + " or ".join(f'`"{a}"`' for a in allowed),
            "usage",
        )
    return key, found.value


def parameters(r: Reader, node: cst.FunctionDef) -> tuple[Param, ...]:
    """The parameters of a kernel; those that are refused leave a fault and take no part."""
    params, names = node.params, _Own(r.frame.names, _type_parameters(node, r.frame.names))
    for bad in (params.star_arg if isinstance(params.star_arg, cst.Param) else None, params.star_kwarg):
        if bad is not None:
            r.record(r.refuse(f"the kernel `{r.kernel}` takes `*{bad.name.value}`", bad, "name each parameter"))
    found: list[Param] = []
    for param in (*params.posonly_params, *params.params, *params.kwonly_params):
        try:
            found.append(_parameter(r, param, names))
        except Unsupported as error:
            r.record(error)
    if node.returns is not None:
        returned = meaning(node.returns.annotation, r.frame.names)
        if returned != Constant(None) and not _text_is(node.returns.annotation, "None"):
            r.record(
                r.refuse(
                    f"the kernel `{r.kernel}` says that it returns something",
                    node.returns,
                    "a kernel returns None; results go to output tensors",
                    "usage",
                )
            )
    return tuple(found)


def _text_is(node: cst.BaseExpression, text: str) -> bool:
    return isinstance(node, cst.SimpleString) and node.evaluated_value == text


@dataclass(frozen=True, slots=True)
class _Own:
    """The names of a function with type parameters of its own: `def double[T: (f16, f32)](...)`."""

    outer: Names
    variables: Mapping[str, TypeVariable]

    def name(self, name: str) -> Meaning | None:
        return self.variables.get(name) or self.outer.name(name)


def _type_parameters(node: cst.FunctionDef, names: Names) -> dict[str, TypeVariable]:
    found: dict[str, TypeVariable] = {}
    for each in node.type_parameters.params if node.type_parameters is not None else ():
        if isinstance(each.param, cst.TypeVar):
            bound, name = each.param.bound, each.param.name.value
            listed = [path_of(e.value, names) for e in bound.elements] if isinstance(bound, cst.Tuple) else []
            found[name] = TypeVariable(name, dtypes_among(listed))
    return found


def _parameter(r: Reader, param: cst.Param, names: Names) -> Param:
    name, span = param.name.value, r.span(param.name)
    if param.annotation is None and name in ("self", "cls"):
        raise r.refuse(
            f"the kernel `{r.kernel}` takes `{name}`",
            param,
            f"leave `{name}` out: a kernel in a class is called without it",
        )
    if param.annotation is None:
        raise r.refuse(
            f"the parameter `{name}` has no type",
            param,
            f"write `{name}: Tensor[Shared, f32, Dyn]`, `{name}: Tensor[Mut, f32, BM]`, or a scalar: `{name}: float`",
        )
    return _annotated(r, name, span, param.annotation.annotation, names, param, 0)


def _annotated(
    r: Reader, name: str, span: Span, node: cst.BaseExpression, names: Names, param: cst.Param, depth: int
) -> Param:
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString) and depth < 4:
        text = node.evaluated_value
        try:
            inner = cst.parse_expression(text if isinstance(text, str) else "")
        except cst.ParserSyntaxError:
            raise r.refuse(f"the type of `{name}` does not parse", param, None) from None
        return _annotated(r, name, span, inner, names, param, depth + 1)
    if isinstance(node, cst.Subscript) and path_of(node.value, names) == "tilecheck.Tensor":
        return _tensor(r, name, span, node, names, param)
    if isinstance(node, cst.Name) and node.value in _SCALARS and names.name(node.value) is None:
        return ScalarParam(name, span, node.value)  # type: ignore[arg-type]
    found = meaning(node, names)
    if isinstance(found, Alias) and depth < 4:
        return _annotated(r, name, span, found.node, found.names, param, depth + 1)
    _imported(r, name, node.value if isinstance(node, cst.Subscript) else node, names, param)
    raise r.refuse(f"the parameter `{name}` is neither a tensor nor a scalar", param, _advice(name, found))


_OURS = frozenset({"Tensor", "Dim", "Dyn", "One", *(access.value for access in Access), *DTYPES})


def _imported(r: Reader, name: str, node: cst.BaseExpression, names: Names, param: cst.Param) -> None:
    """Refuse a name of ours that the file does not have: most likely it was not imported."""
    if isinstance(node, cst.Name) and node.value in _OURS and meaning(node, names) is None:
        raise r.refuse(
            f"`{node.value}`, in the type of `{name}`, is not defined",
            param,
            f"import it: `from tilecheck import {node.value}`",
            "usage",
        )


def _advice(name: str, found: object) -> str:
    if isinstance(found, External) and found.path == "tilecheck.Tensor":
        return f"say what the kernel may do with it: `{name}: Tensor[Shared]` or `{name}: Tensor[Mut]`"
    if isinstance(found, External) and found.path.removeprefix("tilecheck.") in DTYPES:
        kind = DTYPES[found.path.removeprefix("tilecheck.")].kind
        return f"kernel scalars are `int`, `float` and `bool`: `{name}: {'int' if kind in ('int', 'uint') else kind}`"
    return f"write `{name}: Tensor[Shared, f32, Dyn]`, or a scalar: `{name}: int`, `float` or `bool`"


def _tensor(r: Reader, name: str, span: Span, node: cst.Subscript, names: Names, param: cst.Param) -> TensorParam:
    elements = [element.slice for element in node.slice]
    values = [e.value for e in elements if isinstance(e, cst.Index) and e.star is None]
    starred = len(values) < len(elements)
    if not values:
        raise r.refuse(f"`{name}: Tensor[...]` names no access", param, f"write `{name}: Tensor[Shared, f32, Dyn]`")
    access = _access(r, name, values, names, param)
    dtype = _dtype(r, name, values[1], names, param) if len(values) > 1 else None
    variable = dtype if isinstance(dtype, TypeVariable) else None
    extents: tuple[str | None, ...] | None = None
    if len(values) > 2 and not starred:
        extents = tuple(_extent(r, name, value, names, param) for value in values[2:])
    elif len(values) == 2 and not starred and access is not Access.SHARED:
        extents = None
    tiled = access in (Access.MUT, Access.MAPPED)
    if extents is not None and tiled and None in extents:
        axis = extents.index(None)
        raise r.refuse(
            f"axis {axis} of `{name}` has no tile extent",
            param,
            f"a `{access.value}` parameter is one tile: give each axis a `Dim`, which the partition binds",
            "unbound-dim",
        )
    if extents is not None and tiled and len(extents) > 3:
        raise r.refuse(
            f"`{name}` is an output with {len(extents)} axes",
            param,
            "a launch has a grid of three axes, so outputs have three at most: reshape the tensor on the host",
        )
    return TensorParam(name, span, access, None if isinstance(dtype, TypeVariable) else dtype, extents, variable)


def _access(r: Reader, name: str, values: list[cst.BaseExpression], names: Names, param: cst.Param) -> Access:
    node = values[0]
    access = _ACCESSES.get(path_of(node, names) or "")
    if access is Access.OWNED:
        raise r.refuse(
            f"the kernel parameter `{name}` is `Owned`",
            param,
            f"a kernel borrows: write `{name}: Tensor[Mut, ...]`; what was moved into a partition comes back after the launch",
            "usage",
        )
    if access is None:
        _imported(r, name, node, names, param)
        later = [value for value in values[1:] if path_of(value, names) in _ACCESSES]
        ordered = [*later[:1], *(value for value in values if value not in later[:1])]
        first = "" if later else "Shared, "
        raise r.refuse(
            f"`{name}` has no access: `{r_text(node)}` is none",
            param,
            f"the access comes first: `{name}: Tensor[{first}{', '.join(map(r_text, ordered))}]`"
            + ("" if later else ", or `Mut` for what the kernel writes"),
        )
    return access


def _dtype(r: Reader, name: str, node: cst.BaseExpression, names: Names, param: cst.Param) -> str | TypeVariable | None:
    found = meaning(node, names)
    if isinstance(found, TypeVariable):
        return found
    path = found.path if isinstance(found, External) else ""
    short = path.removeprefix("tilecheck.")
    if path.startswith("tilecheck.") and short in DTYPES:
        return short
    if path in _OPEN:
        return None
    _imported(r, name, node, names, param)
    ours = dtype_name(path)
    raise r.refuse(
        f"`{name}` has no dtype: `{r_text(node)}` is none",
        param,
        "the second argument of `Tensor` is a dtype such as `f32`, a `TypeVar`, or `Any`"
        if ours is None
        else f"write `{ours}`, of `from tilecheck import {ours}`",
        "dtype-mismatch",
    )


def _extent(r: Reader, name: str, node: cst.BaseExpression, names: Names, param: cst.Param) -> str | None:
    found = meaning(node, names)
    match found:
        case DimClass(decl=decl):
            r.dims[decl.key] = decl
            return decl.key
        case External(path=path) if path in _OPEN:
            return None
        case Constant(value=int(value)) if not isinstance(value, bool):
            raise r.refuse(
                f"the extent {value} of `{name}` is a bare int",
                param,
                f"declare `class D{value}(Dim, size={value}): ...` and write `D{value}`",
            )
        case _:
            _imported(r, name, node, names, param)
            raise r.refuse(
                f"`{r_text(node)}`, an extent of `{name}`, is neither a `Dim` nor `Dyn`",
                param,
                f"declare `class {r_text(node)}(Dim): ...`" if isinstance(node, cst.Name) else "use a `Dim` or `Dyn`",
                "unbound-dim",
            )


def r_text(node: cst.BaseExpression) -> str:
    """The source of an annotation."""
    return cst.Module([]).code_for_node(node)
