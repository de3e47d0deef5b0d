"""Findings about the kernels of a file, from the slice of its text that they are read from, kept between runs.

Reading and proving kernels takes longer than all else, and depends on nothing but the slice, the modules that it
imports and the options. So results are kept in the linter's store, under keys of their own: a run of mypy without its
cache costs no proof that was made before, and what is found in the store needs no parser to be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tilecheck.borrow.host import HostReport
from tilecheck.cache import ResultCache, cache_folder, key_of
from tilecheck.config import Config, read_config
from tilecheck.diagnostic import Diagnostic
from tilecheck.frontend.gate import Unreadable
from tilecheck.judge import Options, run_rules, wanted
from tilecheck.modules import Modules
from tilecheck.report.result import FileResult

# What is decided about a whole file, by whoever has all of its findings.
LATER = frozenset({"unused-allow", "allow-without-reason"})


@cache
def config() -> Config:
    """`[tool.tilecheck]` of the project in the working directory. Raises `ConfigError` if it cannot be used."""
    return read_config(Path.cwd())


def options() -> Options:
    """The options that the configuration gives: the same as the linter's, and `mypy-simt`."""
    chosen = config()
    every = frozenset(wanted(Options()))
    rules = (frozenset(chosen.select) or every) - frozenset(chosen.ignore)
    return Options(chosen.budget, rules, chosen.mypy_simt, stored=True)


def kernel_findings(
    path: str, text: str, asked: Options, host: HostReport, found: Iterable[Diagnostic]
) -> tuple[Diagnostic, ...]:
    """What the rules say about the kernels in `text`, before comments silence any of it. Rules look at host code too,
    to say a thing once: `host` is what is known of it and `found` what was said about it, which may be said again here.
    """
    store = ResultCache(cache_folder(config().root))
    said = sorted((finding.rule, finding.span.line) for finding in found)
    key = key_of(
        "mypy",
        path,
        text,
        repr((asked.budget, sorted(asked.rules or ()), asked.simt, said, host.opened, host.launches)),
    )
    modules = Modules()
    known = store.get(key, modules)
    if known is None:
        known = FileResult(path, tuple(_fresh(path, text, asked, modules, host)))
        store.put(key, known, modules.asked)
    return known.diagnostics


def _fresh(path: str, text: str, asked: Options, modules: Modules, host: HostReport) -> list[Diagnostic]:
    from tilecheck.check import analyse
    from tilecheck.frontend.source import Source

    try:
        analysed = analyse(Source(path, text), modules, asked, host=host)
    except Unreadable:
        # mypy's own parser knows newer syntax than the Python that runs it.
        return []
    return run_rules(analysed, [name for name in wanted(asked) if name not in LATER])
