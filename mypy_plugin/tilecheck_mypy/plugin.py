"""The hooks, and nothing else: which of mypy's calls leads where.

mypy calls `plugin` through `plugins = tilecheck`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from mypy.plugin import AnalyzeTypeContext, Plugin, ReportConfigContext
from mypy.types import Type

import tilecheck
from tilecheck_mypy import report, short

__all__ = ["TilecheckPlugin", "plugin"]


class TilecheckPlugin(Plugin):
    """One per build. It keeps nothing about a file when the next one begins."""

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        return short.hook(fullname)

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        return fingerprint()


@cache
def fingerprint() -> str:
    """A hash of all sources that decide what is found, so that mypy's cache is dropped when one of them changes."""
    digest = hashlib.sha256()
    for package in (Path(str(tilecheck.__file__)).parent, Path(report.__file__).parent):
        for path in sorted(package.rglob("*.py*")):
            if path.suffix in (".py", ".pyi"):
                stat = path.stat()
                digest.update(f"{path.relative_to(package)}:{stat.st_mtime_ns}:{stat.st_size};".encode())
    return digest.hexdigest()[:16]


def plugin(version: str) -> type[Plugin]:
    """The plugin class for mypy `version`."""
    return TilecheckPlugin
