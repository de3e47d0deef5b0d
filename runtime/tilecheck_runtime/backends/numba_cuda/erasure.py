"""What numba sees of a SIMT kernel: the user's function without the names that only tilecheck reads.

    tc.unsafe("rows are distinct by construction")      ->  pass
    z[i] = BM                                           ->  z[i] = 64
    s = cuda.shared.array(128, tc.f32)                  ->  s = cuda.shared.array(128, <numba's float32>)

A name is replaced by what it refers to now, in the function's own globals and closure, never by how it is spelled. Lines
stay where they are, so that errors and line tables name the user's file. A function that uses no such name is left alone.

Device functions that the kernel calls are numba's own objects and stay as they are.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from tilecheck.frontend.live import convert
from tilecheck.ir.kernel import DimDecl
from tilecheck.surface.dims import DimClass
from tilecheck.surface.dtypes import DTypeClass
from tilecheck.surface.unsafe import unsafe

_UNKNOWN: Final = object()


def erased(function: FunctionType, dims: Mapping[str, int], numba_type: Callable[[str], Any]) -> FunctionType:
    """`function` as numba compiles it. `dims` has the extents of the launch by key; `numba_type` gives the numba type of a
    dtype by its name.
    """
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return function
    (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    assert isinstance(tree, ast.FunctionDef)
    ast.increment_lineno(tree, first - 1)
    eraser = _Eraser(function, dims, numba_type)
    tree.body = [eraser.visit(statement) for statement in tree.body]
    if not eraser.changed:
        return function
    tree.decorator_list, tree.returns = [], None
    for argument in (*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs):
        argument.annotation = None
    return _rebuilt(function, tree, eraser.values)


class _Eraser(ast.NodeTransformer):
    """Replaces expressions by what they refer to; `values` are the constants that have no spelling, by name."""

    def __init__(self, function: FunctionType, dims: Mapping[str, int], numba_type: Callable[[str], Any]) -> None:
        closed = inspect.getclosurevars(function)
        self._named: Mapping[str, Any] = {**function.__globals__, **closed.globals, **closed.nonlocals}
        code = function.__code__
        self._local = frozenset((*code.co_varnames, *code.co_cellvars))
        self._dims = dims
        self._numba_type = numba_type
        self.values: dict[str, Any] = {}
        self.changed = False

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name) if name not in self._local:
                return self._named.get(name, _UNKNOWN)
            case ast.Attribute(value=base, attr=name):
                found = self._value(base)
                return getattr(found, name, _UNKNOWN) if isinstance(found, ModuleType) else _UNKNOWN
        return _UNKNOWN

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Call) and self._value(node.value.func) is unsafe:
            self.changed = True
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self._replaced(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        replaced = self._replaced(node)
        return replaced if replaced is not node else self.generic_visit(node)

    def _replaced(self, node: ast.Name | ast.Attribute) -> ast.AST:
        value = self._value(node)
        new: ast.expr
        if isinstance(value, DimClass):
            decl = convert(value, lambda _: None)
            assert isinstance(decl, DimDecl)
            size = value.size if value.size is not None else self._dims.get(decl.key)
            if size is None:
                return node
            new = ast.Constant(size)
        elif isinstance(value, DTypeClass):
            name = f"_tilecheck_{value.name}"
            self.values[name] = self._numba_type(value.name)
            new = ast.Name(name, ast.Load())
        else:
            return node
        self.changed = True
        return ast.copy_location(new, node)


def _rebuilt(function: FunctionType, tree: ast.FunctionDef, values: Mapping[str, Any]) -> FunctionType:
    """A function of `tree` with the globals and the closure of `function`, and `values` among its globals."""
    free = function.__code__.co_freevars
    # Within a function that has these names, they stay free.
    cells: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in free]
    outer = ast.parse("def _outer(): ...").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [*cells, tree]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    code = _code_in(_code_in(compile(module, function.__code__.co_filename, "exec")))
    by_name = dict(zip(free, function.__closure__ or (), strict=True))
    rebuilt = FunctionType(
        code,
        {**function.__globals__, **values},
        function.__name__,
        function.__defaults__,
        tuple(by_name[name] for name in code.co_freevars),
    )
    rebuilt.__qualname__, rebuilt.__module__ = function.__qualname__, function.__module__
    rebuilt.__kwdefaults__ = function.__kwdefaults__
    return rebuilt


def _code_in(code: CodeType) -> CodeType:
    """The code of the one function that `code` defines."""
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))
