"""The hooks, and nothing else: which of mypy's calls leads where.

mypy calls `plugin` through `plugins = tilecheck`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mypy.checker import TypeChecker
from mypy.nodes import MypyFile
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
    Plugin,
    ReportConfigContext,
)
from mypy.types import FunctionLike, Type

import tilecheck
from tilecheck_mypy import device_names, report, short, taken
from tilecheck_mypy.dims import remember_size
from tilecheck_mypy.gate import is_ours, mentions_kernels

if TYPE_CHECKING:
    from tilecheck_mypy.session import Session

__all__ = ["TilecheckPlugin", "plugin"]

# Whether mypy says when a file is done.
HAS_END = hasattr(Plugin, "get_additional_indirect_deps")
LAUNCHES = frozenset({"tilecheck.Kernel.__call__", "tilecheck._SimtKernel.__call__"})
SIGNATURES = LAUNCHES | {"tilecheck._Launcher.__call__"}


class TilecheckPlugin(Plugin):
    """One per build. It keeps nothing about a file when the next one begins."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.session: Session | None = None
        # Whether functions are looked at from their calls, so that calls of the user's own functions count too.
        self.from_calls = options.fine_grained_incremental or not HAS_END

    def started(self) -> Session:
        """The session, made when it is first needed: a run that mypy answers from its cache imports none of it."""
        if self.session is None:
            from tilecheck_mypy.session import Session

            self.session = Session(HAS_END)
        return self.session

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        return short.hook(fullname)

    def get_base_class_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        return remember_size if fullname == "tilecheck.surface.dims.Dim" else None

    def get_function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        if fullname.startswith("tilecheck."):
            return self.on_call
        return self.on_other if self.from_calls else None

    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        if fullname.startswith("tilecheck."):
            return self.on_launch if fullname in LAUNCHES else self.on_call
        return self.on_other if self.from_calls else None

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        if fullname == device_names.INTRINSIC:
            return device_names.call
        return taken.widened if fullname in SIGNATURES else None

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return device_names.call if fullname.startswith(device_names.DEVICE_ONLY) else None

    def get_class_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        return device_names.attribute if fullname.startswith(device_names.DEVICE_ONLY) else None

    def on_call(self, ctx: FunctionContext | MethodContext) -> Type:
        checker = ctx.api
        if isinstance(checker, TypeChecker):
            self.started().called(checker, ctx.context)
        return ctx.default_return_type

    def on_other(self, ctx: FunctionContext | MethodContext) -> Type:
        """A call of the user's: of interest if it takes or gives something of ours."""
        given = (type_ for types in ctx.arg_types for type_ in types)
        if any(is_ours(type_) for type_ in (ctx.default_return_type, *given)):
            return self.on_call(ctx)
        return ctx.default_return_type

    def on_launch(self, ctx: MethodContext) -> Type:
        self.on_call(ctx)
        from tilecheck_mypy.results import launch

        return launch(ctx, ctx.api) if isinstance(ctx.api, TypeChecker) else ctx.default_return_type

    def get_additional_indirect_deps(self, file: MypyFile) -> set[str]:
        """mypy is done with `file` (2.4 and later). No dependency is added."""
        if self.session is not None or mentions_kernels(file):
            self.started().finish(file)
        return set()

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        return [fingerprint(), settings(os.getcwd())]


@cache
def settings(folder: str) -> str:
    """The text of `[tool.tilecheck]` that holds in `folder`: what it says decides what is found. Not parsed here, since
    this is asked in runs that mypy answers from its cache.
    """
    for above in (Path(folder), *Path(folder).parents):
        if (above / "pyproject.toml").is_file():
            text = (above / "pyproject.toml").read_text("utf-8", "replace")
            return "".join(re.findall(r"^\[tool\.tilecheck.*?(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL))
    return ""


@cache
def fingerprint() -> str:
    """A hash of all sources that decide what is found, so that mypy's cache is dropped when one of them changes."""
    digest = hashlib.sha256()
    for package in (os.path.dirname(str(tilecheck.__file__)), os.path.dirname(report.__file__)):
        # A warm run does little else than this, so no paths are made of the names.
        for folder, inner, names in os.walk(package):
            inner.sort()
            for name in sorted(names):
                if name.endswith((".py", ".pyi")):
                    stat = os.stat(os.path.join(folder, name))
                    digest.update(f"{folder[len(package) :]}/{name}:{stat.st_mtime_ns}:{stat.st_size};".encode())
    return digest.hexdigest()[:16]


def plugin(version: str) -> type[Plugin]:
    """The plugin class for mypy `version`."""
    return TilecheckPlugin
