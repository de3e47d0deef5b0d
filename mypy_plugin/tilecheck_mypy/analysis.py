"""One file, from mypy's tree to findings: the host IR from the tree, kernels from the text, the rest is the core's.

Invariant: nothing here decides what is right or wrong; without this module the linter finds the same.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from itertools import islice

from mypy import nodes
from mypy.errors import Errors
from mypy.modulefinder import BuildSource
from mypy.nodes import FuncDef, FuncItem, MypyFile
from mypy.util import DecodeError, decode_python_encoding

from tilecheck.borrow.host import check_module
from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic
from tilecheck.ir import host as ir
from tilecheck.judge import heed, run_rules, wanted
from tilecheck.report.suppressions import META
from tilecheck_mypy.expressions import Types
from tilecheck_mypy.host import read_host
from tilecheck_mypy.kernels import kernel_findings, options
from tilecheck_mypy.names import KERNEL
from tilecheck_mypy.slices import sliced


def findings(file: MypyFile, types: Types, checked: Callable[[FuncDef], bool], text: str | None) -> list[Diagnostic]:
    """What the core says about `file`. Without its `text` only host code is looked at."""
    reading = read_host(file, types, checked)
    asked = options()
    host = check_module(reading.module)
    whole = Checked(file.path, text or "", host=host)
    found = run_rules(whole, [name for name in wanted(asked) if name not in META])
    shown = [*(launch.kernel for launch in host.opened), *(launch.kernel for launch in host.launches)]
    if text is not None and (reading.kernels or any(kernel.module for kernel in shown)):
        found += kernel_findings(file.path, sliced(text, reading, starts(file)), asked, host, found)
    return list(heed(whole, found, asked)[0])


def starts(file: MypyFile) -> Iterator[int]:
    """The lines where the top-level statements of the file begin, decorators included."""
    for statement in file.defs:
        match statement:
            case nodes.Decorator(original_decorators=decorators) | nodes.ClassDef(decorators=decorators):
                yield min([statement.line, *(decorator.line for decorator in decorators)])
            case _:
                yield statement.line


def text_of(file: MypyFile, errors: Errors) -> str | None:
    """The source of `file` as mypy read it: from the path, its shadow file, or the command line."""
    if file.path == "<string>":
        return next((s.text for s in gc.get_objects() if isinstance(s, BuildSource) and s.text is not None), None)
    try:
        with open(_read_path(file.path, errors), "rb") as stream:
            text = decode_python_encoding(stream.read())
    except (OSError, DecodeError):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_path(path: str, errors: Errors) -> str:
    """The file that mypy reads for `path`: its shadow file, if it has one."""
    shadows = errors.options.shadow_file or []
    return next((shadow for original, shadow in shadows if os.path.samefile(path, original)), path)


def last_call(unit: FuncItem | MypyFile, file: MypyFile) -> tuple[int, int]:
    """Where the last call in `unit` ends that mypy is sure to tell us about, in mypy's counting; (0, 0) without any.

    Missing one costs a second look, an invented one would cost the findings: so only calls count whose callee is
    declared as ours, or that are methods of what such a call returned.
    """
    module = read_host(file, {}, lambda _: False).module
    if isinstance(unit, MypyFile):
        inside = outside_functions(*module.body)
    else:
        functions = (n for n in ir.walk(*module.body) if isinstance(n, ir.Function) and n.span.line == unit.line)
        inside = ir.walk(*islice(functions, 1))
    ours: set[str] = set()
    ends = [(0, 0)]
    for node in inside:
        if isinstance(node, ir.HostParam) and node.type is not None and node.type.name.startswith("tilecheck."):
            ours.add(node.name)
        elif isinstance(node, ir.Assign) and node.value is not None and _ours(node.value, ours):
            ours.update(target.id for target in node.targets if isinstance(target, ir.Name))
        elif isinstance(node, ir.Call) and _ours(node, ours):
            ends.append((node.span.end_line, node.span.end_column - 1))
    return max(ends)


def outside_functions(*roots: ir.HostNode) -> Iterator[ir.HostNode]:
    """Every node of a module's own statements; of functions, their decorators."""
    for node in roots:
        if isinstance(node, ir.Function):
            yield from outside_functions(*node.decorators)
        else:
            yield node
            yield from outside_functions(*ir.children(node))


def _ours(node: ir.Expr, names: set[str]) -> bool:
    match node:
        case ir.Call(func=func):
            return _ours(func, names)
        case ir.Attr(base=base, full=full):
            return full.startswith("tilecheck.") if full is not None else _ours(base, names)
        case ir.Name(id=name, full=full, type=type_):
            ours = full is not None and full.startswith("tilecheck.")
            return ours or (full is None and name in names) or (type_ is not None and type_.name == KERNEL)
        case _:
            return False
