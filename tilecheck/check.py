"""The whole pipeline, on one page: source -> frontends -> analyses -> rules -> findings.

    text ── gate ── Source ─┬─ tile kernels ── tile checks ─┐
                            ├─ simt kernels ── prover ──────┼─ Checked ── RULES ── allow comments ── FileResult
                            └─ host code ───── loans ───────┘

Invariants: a file is analysed alone, given its text, the modules it imports and the launches that the checked files
show, so that results can be cached and files checked side by side. A failure inside one analysis counts as unknown for
that kernel, with the exception named, and everything else is still checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from tilecheck.borrow.host import HostReport, check_module
from tilecheck.checked import Checked, Fault
from tilecheck.diagnostic import Diagnostic, Span
from tilecheck.frontend import numba
from tilecheck.frontend.gate import Undecodable, read_text
from tilecheck.frontend.host import read_host
from tilecheck.frontend.host_modules import HostModules
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.ir.kernel import Kernel
from tilecheck.modules import Modules, module_name
from tilecheck.report.result import FileResult
from tilecheck.report.summary import summaries
from tilecheck.report.suppressions import META, apply_allows, read_allows
from tilecheck.rules import RULES, Rule, rule_name
from tilecheck.verify.simt import SimtReport

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """`budget` is the prover's time per kernel in seconds; `rules` are the names of the rules to report, None for all."""

    budget: float = 20.0
    rules: frozenset[str] | None = None

    def wants(self, rule: str) -> bool:
        return self.rules is None or rule in self.rules


def check_bytes(path: str, data: bytes, modules: Modules, options: Options) -> FileResult:
    """Check one file that passed the gate, from its bytes."""
    try:
        text = read_text(data)
    except Undecodable as error:
        return unreadable(path, options, error.message, error.line)
    return check_text(path, text, modules, options)


def check_text(path: str, text: str, modules: Modules, options: Options) -> FileResult:
    """Check one file from its text."""
    source = Source(path, text)
    try:
        checked = analyse(source, modules, options)
    except Unreadable as error:
        return unreadable(path, options, error.message, error.span.line, error.span.column)
    return judge(checked, options)


def unreadable(path: str, options: Options, message: str, line: int = 1, column: int = 1) -> FileResult:
    """The result of a file that cannot be read."""
    fault = Fault("unreadable", message, Span(path, line, column, line, column + 1))
    names = ("unreadable",) if options.wants("unreadable") else ()
    return FileResult(path, tuple(run_rules(Checked(path, "", faults=(fault,)), names)))


def analyse(source: Source, modules: Modules, options: Options) -> Checked:
    """Everything that is known about one file. Raises `Unreadable` if it does not parse."""
    _ = source.module
    faults: list[Fault] = []
    simt_kernels = contained(partial(numba.read_kernels, source, modules.importer(source.path)), _lost(source, faults))
    host = contained(partial(_host, source, modules), lambda why: _no_host(source, faults, why))
    return Checked(
        source.path,
        source.text,
        simt=tuple(SimtReport(kernel) for kernel in simt_kernels),
        host=host,
        faults=tuple(faults),
    )


def _host(source: Source, modules: Modules) -> HostReport:
    module = read_host(source, module_name(source.path), modules.importer(source.path))
    return check_module(module, HostModules(modules.resolve).outside(source.path))


def _no_host(source: Source, faults: list[Fault], why: str) -> HostReport:
    faults.append(Fault("unreadable", f"the host code of this file was not read: {why}", start_of(source.path)))
    return HostReport()


def _lost(source: Source, faults: list[Fault]) -> Callable[[str], tuple[Kernel, ...]]:
    """What stands in for the kernels of a frontend that failed: none, and a fault that says so."""

    def instead(why: str) -> tuple[Kernel, ...]:
        faults.append(Fault("unreadable", f"the kernels of this file were not read: {why}", start_of(source.path)))
        return ()

    return instead


def start_of(path: str) -> Span:
    """Where a finding about a whole file stands."""
    return Span(path, 1, 1, 1, 2)


def judge(checked: Checked, options: Options) -> FileResult:
    """Let the rules word what was found, and the file's comments silence what they allow."""
    names = [name for name in map(rule_name, RULES) if options.wants(name)]
    found = run_rules(checked, [name for name in names if name not in META])
    allows = read_allows(checked.path, checked.text)
    kept, silenced, faults = apply_allows(found, allows, names, [rule_name(rule) for rule in RULES])
    about_file = replace(checked, faults=(*faults, *checked.faults))
    about_allows = run_rules(about_file, [name for name in names if name in META])
    diagnostics = tuple(sorted({*kept, *about_allows}, key=Diagnostic.sort_key))
    return FileResult(checked.path, diagnostics, summaries(checked), silenced)


def run_rules(checked: Checked, names: Collection[str]) -> list[Diagnostic]:
    """The findings of the named rules. A rule that fails leaves a note in its place."""
    found: list[Diagnostic] = []
    for rule in RULES:
        name = rule_name(rule)
        if name in names:
            found += contained(partial(_findings, rule, checked), partial(_broken, checked, name))
    return found


def _findings(rule: Rule, checked: Checked) -> list[Diagnostic]:
    return list(rule.check(checked))


def _broken(checked: Checked, rule: str, why: str) -> list[Diagnostic]:
    message = f"this rule failed on this file: {why}"
    return [Diagnostic(rule, "note", message, start_of(checked.path), help="please report this")]


def contained(work: Callable[[], T], instead: Callable[[str], T]) -> T:
    """`work()`, or `instead(reason)` if it fails: the one place where the linter turns its own bug into an unknown."""
    try:
        return work()
    except Unreadable:
        raise
    except Exception as error:
        return instead(f"internal error {type(error).__name__}: {error}")
