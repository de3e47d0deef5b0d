"""What the kernel language has not, in words: a name for the construct, and what to write instead."""

from __future__ import annotations

import sys

import libcst as cst

from tilecheck.frontend.tile_reader import Reader
from tilecheck.ir.kernel import Unsupported
from tilecheck.surface.opnames import KERNEL_OPS

_LOOP = "use `for` over a `range`, the tiles of a view, or `z.indices()`"
_CONSTRUCTS: dict[type[cst.CSTNode], tuple[str, str]] = {
    cst.ListComp: ("a list comprehension", _LOOP),
    cst.SetComp: ("a set comprehension", _LOOP),
    cst.DictComp: ("a dict comprehension", _LOOP),
    cst.GeneratorExp: ("a generator expression", _LOOP),
    cst.List: ("a list", "use a tuple of scalars, or a tile"),
    cst.Set: ("a set", "use a tuple of scalars, or a tile"),
    cst.Dict: ("a dict", "pass what it holds as parameters"),
    cst.Lambda: ("a lambda", "pass it to `reduce` or `scan` directly, or write a function of the module"),
    cst.FormattedString: ("an f-string", "`tc.print` takes a plain string and values"),
    cst.NamedExpr: ("an assignment inside an expression", "assign on a line of its own"),
    cst.Await: ("`await`", "a kernel runs on the device; await the op that launches it"),
    cst.Yield: ("`yield`", "store results in an output tensor"),
    cst.StarredElement: ("a starred value", "write the values out"),
    cst.Tuple: ("a starred value in a tuple", "write the values out"),
    cst.Ellipsis: ("`...`", "write the statement out"),
    cst.Imaginary: ("a complex number", "kernels compute with real numbers: use two tiles"),
    cst.Is: ("`is`", "compare with `==`"),
    cst.IsNot: ("`is not`", "compare with `!=`"),
    cst.In: ("`in`", "compare with `==` and combine with `or`"),
    cst.NotIn: ("`not in`", "compare with `!=` and combine with `and`"),
    cst.With: ("`with`", "kernels have no contexts; write the statements out"),
    cst.Try: ("`try`", "kernels raise nothing; guard with `if`, or assert with `tc.device_assert`"),
    cst.TryStar: ("`try`", "kernels raise nothing; guard with `if`, or assert with `tc.device_assert`"),
    cst.Raise: ("`raise`", "kernels raise nothing; assert with `tc.device_assert(cond, message)`"),
    cst.Del: ("`del`", "a name needs no freeing in a kernel"),
    cst.Global: ("`global`", "kernels have no module state: pass a tensor, `Tensor[Atomic]` for a counter"),
    cst.Nonlocal: ("`nonlocal`", "kernels have no outer state: pass a tensor or a scalar"),
    cst.Import: ("an import", "import at the top of the module"),
    cst.ImportFrom: ("an import", "import at the top of the module"),
    cst.FunctionDef: ("a nested function", "move it to the top of the module: it is inlined from there"),
    cst.ClassDef: ("a class", "declare it at the top of the module"),
    cst.Match: ("`match`", "use `if` and `elif`"),
    cst.TypeAlias: ("a type alias", "declare it at the top of the module"),
}
_BUILTINS: dict[str, str] = {
    "range": "`range` drives a `for` loop alone: `for k in range(n):`",
    "print": "use `tc.print(text, value, ...)`",
    "len": "use `x.shape[0]`, or `xs.num_tiles(0)` for the tiles of a view",
    "sum": "use `tc.sum(tile)` or `tile.sum()`",
    "any": "use `tc.any(tile)`",
    "all": "use `tc.all(tile)`",
    "round": "use `tc.round`, `tc.floor` or `tc.ceil`",
    "divmod": "use `//` and `%`",
    "enumerate": "count with `for k in range(n):`",
    "zip": "index both with one `for k in range(n):`",
    "map": _LOOP,
    "sorted": "sort on the host",
    "reversed": "count down with `range(n - 1, -1, -1)`",
    "isinstance": "types are known before the kernel runs; write one kernel per case",
    "getattr": "write the attribute out",
    "list": "use a tuple of scalars, or a tile",
    "tuple": "write the tuple out",
    "str": "kernels have no strings beyond literals",
    "complex": "kernels compute with real numbers: use two tiles",
    "input": "pass values as parameters",
    "open": "read files on the host",
}


def construct(node: cst.CSTNode) -> tuple[str, str | None]:
    """The name of a construct that kernels have not, and the way out; no way out for a name nobody knows."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return f"`{node.func.value}`", _BUILTINS.get(node.func.value)
    return _CONSTRUCTS.get(
        type(node), (f"this construct (`{type(node).__name__}`)", "write it with simpler statements")
    )


def foreign_call(r: Reader, text: str, path: str, node: cst.Call) -> Unsupported:
    """The refusal of a call of something from a module that kernels cannot use."""
    module, _, name = path.rpartition(".")
    if text == path:
        shown = f"`{text}`"
    elif "." in text:
        shown = f"`{text}` (that is `{path}`)"
    else:
        shown = f"`{text}` (`{name}` of `{module}`)" if text != name else f"`{text}` (imported from `{module}`)"
    if name in KERNEL_OPS and module.partition(".")[0] in ("math", "numpy", "torch", "cupy"):
        help = f"use `tc.{name}`"
    elif module.partition(".")[0] in sys.stdlib_module_names:
        help = "the standard library runs on the host; compute it there and pass it as a parameter"
    else:
        help = (
            f"kernels call ops of tilecheck and functions whose source is at hand; `{module}` was not found as source"
        )
    return r.refuse(f"{shown} cannot be used in a kernel", node, help)
