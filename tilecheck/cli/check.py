"""`tilecheck check`: the linter.

Reads the configuration, finds the files, runs them, takes off what a baseline accepts, prints, and exits 0, 1 or 2.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from tilecheck.batch import Input, read_inputs, run
from tilecheck.cli import terminal, version
from tilecheck.cli.ending import CannotRun
from tilecheck.config import Config, ConfigError, read_config
from tilecheck.project import BadPath, discover
from tilecheck.report.result import FileResult


@click.command("check")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    help="Form of the report.",
)
@click.option("--select", multiple=True, metavar="RULE", help="Report only these rules (repeatable, or commas).")
@click.option("--ignore", multiple=True, metavar="RULE", help="Do not report these rules.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave these paths out.")
@click.option("--baseline", metavar="FILE", help="Accept the findings that FILE lists.")
@click.option("--write-baseline", metavar="FILE", help="Accept all present findings: list them in FILE.")
@click.option("--fix", is_flag=True, help="Apply the fixes that rules offer.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Processes (default: one per core).")
@click.option("--no-cache", is_flag=True, help="Neither use nor keep results of earlier runs.")
@click.option("--stdin-filename", metavar="PATH", help="The path of the source on standard input (with `-`).")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    form: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    exclude: tuple[str, ...],
    baseline: str | None,
    write_baseline: str | None,
    fix: bool,
    jobs: int | None,
    no_cache: bool,
    stdin_filename: str | None,
) -> None:
    """Check files and folders for races, bounds, barriers and borrows.

    Without PATH the `paths` of [tool.tilecheck] are checked, or the current folder; `-` reads standard input.
    Exit status: 0 no error or warning, 1 some, 2 could not run.
    """
    config = configured()
    chosen = _rules(_split(select), _split(ignore), config)
    if paths == ("-",):
        if fix or write_baseline:
            raise CannotRun("standard input has no file to write to: leave out --fix and --write-baseline")
        inputs, files = _standard_input(stdin_filename), 1
    elif "-" in paths or stdin_filename is not None:
        raise CannotRun("`-` is for standard input alone, and --stdin-filename goes with it")
    else:
        listed = files_of(paths, config, exclude)
        inputs, files = list(read_inputs(listed, named=named_files(paths))), len(listed)

    results = _run(inputs, config, chosen, jobs or os.cpu_count() or 1, no_cache)
    lines_of = _lines_of(inputs)
    fixed = 0
    if fix and (fixed := _fix(results, config, chosen)):
        inputs = list(read_inputs([item.path for item in inputs], named=named_files(paths)))
        results = _run(inputs, config, chosen, jobs or os.cpu_count() or 1, no_cache)
        lines_of = _lines_of(inputs)
    accepted = 0
    if write_baseline is not None:
        from tilecheck.report.baseline import BaselineError
        from tilecheck.report.baseline import write_baseline as write

        try:
            count = write(Path(write_baseline), results, lines_of)
        except BaselineError as error:
            raise CannotRun(str(error)) from None
        click.echo(f"accepted {counted(count, 'finding')} in {write_baseline}", err=True)
        return
    if (file := _baseline_file(baseline, config)) is not None:
        from tilecheck.report.baseline import BaselineError, read_baseline, subtract

        try:
            results, accepted = subtract(results, read_baseline(file), lines_of, file.parent.resolve())
        except BaselineError as error:
            raise CannotRun(str(error)) from None
    _print(form, results, lines_of, _Counts(files, accepted, fixed))
    failed = any(found.severity != "note" for result in results for found in result.diagnostics)
    ctx.exit(2 if any(result.unfinished for result in results) else 1 if failed else 0)


def configured() -> Config:
    """The configuration of the current folder. Raises `CannotRun`."""
    try:
        return read_config(Path.cwd())
    except ConfigError as error:
        raise CannotRun(str(error)) from None


def _split(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _rules(selected: tuple[str, ...], ignored: tuple[str, ...], config: Config) -> frozenset[str] | None:
    """The rules to report, by the options and the configuration; None means all of them, without loading the list."""
    select, ignore = selected or config.select, ignored + config.ignore
    if not select and not ignore:
        return None
    from tilecheck.rules import RULES, no_rule, rule_name

    known = [rule_name(rule) for rule in RULES]
    for name in (*select, *ignore):
        if name not in known:
            where = "" if name in (*selected, *ignored) else f"{config.file}: "
            raise CannotRun(f"{where}{'; '.join(no_rule(name))}")
    left = frozenset(select or known) - frozenset(ignore)
    if not left:
        raise CannotRun("nothing is checked: every rule that is selected is ignored too")
    return left


def files_of(paths: tuple[str, ...], config: Config, exclude: tuple[str, ...]) -> list[str]:
    """The files a command works on: `paths`, else the configured ones, else the current folder. Raises `CannotRun`."""
    root = config.root
    default = tuple(os.path.relpath(root / path) for path in config.paths) if root is not None else ()
    try:
        return discover(paths or default or (os.curdir,), (*config.exclude, *exclude), root)
    except BadPath as error:
        where = f"`paths` of {config.file}: " if default and not paths else ""
        raise CannotRun(f"{where}{error}") from None


def named_files(paths: Sequence[str]) -> frozenset[str]:
    return frozenset(os.path.normpath(path) for path in paths if not os.path.isdir(path))


def _standard_input(filename: str | None) -> list[Input]:
    from tilecheck.batch import worth_checking

    path = filename or "<stdin>"
    data = sys.stdin.buffer.read()
    return [Input(path, data)] if worth_checking(path, data, named=True) else []


def _lines_of(inputs: Sequence[Input]) -> Callable[[str], Sequence[str]]:
    """Source lines by path: of the text that was checked, of other files as they are on disk."""
    on_disk = terminal.source_lines()
    checked = {item.path: item.data for item in inputs if item.data is not None}
    known: dict[str, Sequence[str]] = {}

    def lines(path: str) -> Sequence[str]:
        if path not in checked:
            return on_disk(path)
        if path not in known:
            from tilecheck.frontend.gate import Undecodable, read_text

            try:
                known[path] = read_text(checked[path]).split("\n")
            except Undecodable:
                known[path] = ()
        return known[path]

    return lines


def _run(
    inputs: Sequence[Input], config: Config, chosen: frozenset[str] | None, jobs: int, no_cache: bool
) -> list[FileResult]:
    if not inputs:
        return []
    from tilecheck.cache import ResultCache, cache_folder
    from tilecheck.judge import Options

    cache = None if no_cache else ResultCache(cache_folder(config.root))
    progress = _Progress()
    try:
        return run(
            inputs, Options(config.budget, chosen, stored=not no_cache), jobs=jobs, cache=cache, progress=progress
        )
    except KeyboardInterrupt:
        progress.clear()
        # Nothing is counted before the cache was asked.
        how_far = f" after {progress.done} of {counted(progress.total, 'file')}" if progress.total else ""
        raise CannotRun(f"interrupted{how_far}") from None
    finally:
        progress.clear()


class _Progress:
    """A line on a terminal's standard error that says how far a long run is; shown after a second."""

    def __init__(self) -> None:
        self.done = self.total = 0
        self._started = time.monotonic()
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        self.done, self.total = done, total
        if sys.stderr.isatty() and time.monotonic() - self._started > 1:
            self._shown = True
            sys.stderr.write(f"\rchecked {done} of {counted(total, 'file')}\x1b[K")
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            self._shown = False
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _fix(results: Sequence[FileResult], config: Config, chosen: frozenset[str] | None) -> int:
    """Apply the fixes to the files, and the repairs that can be proved; returns how many."""
    from tilecheck.check import check_text
    from tilecheck.judge import Options
    from tilecheck.modules import Modules
    from tilecheck.report.fixes import apply_fixes, fixers
    from tilecheck.report.repairs import apply_repairs, repairers

    known = {*fixers(), *repairers()}
    options = Options(config.budget, chosen)
    total = 0
    for result in results:
        fixable = [found for found in result.diagnostics if found.rule in known]
        if not fixable:
            continue
        import tokenize

        try:
            with open(result.path, "rb") as file:
                encoding, _ = tokenize.detect_encoding(file.readline)
            with open(result.path, encoding=encoding, newline="") as source:
                text, count = apply_fixes(source.read(), fixable)

            def recheck(edited: str, path: str = result.path) -> FileResult:
                return check_text(path, edited, Modules((os.curdir,)), options)

            text, more = apply_repairs(text, recheck(text), recheck)
            count += more
            with open(result.path, "w", encoding=encoding, newline="") as target:
                target.write(text)
        except OSError as error:
            raise CannotRun(f"cannot fix {result.path}: {error.strerror}") from None
        total += count
    return total


def _baseline_file(option: str | None, config: Config) -> Path | None:
    if option is not None:
        return Path(option)
    if config.baseline is not None and config.root is not None:
        return config.root / config.baseline
    return None


class _Counts:
    """Figures of the run for the last line of the text report."""

    def __init__(self, files: int, accepted: int, fixed: int) -> None:
        self.files, self.accepted, self.fixed = files, accepted, fixed


def _print(form: str, results: Sequence[FileResult], lines_of: Callable[[str], Sequence[str]], counts: _Counts) -> None:
    match form:
        case "json":
            from tilecheck.report.json import to_json

            terminal.write(to_json(results))
        case "sarif":
            from tilecheck.report.sarif import to_sarif

            terminal.write(to_sarif(results, version(), lines_of))
        case "github":
            from tilecheck.report.github import to_github

            for line in to_github(results):
                terminal.write(line)
        case _:
            _print_text(results, lines_of, counts)


def _print_text(results: Sequence[FileResult], lines_of: Callable[[str], Sequence[str]], counts: _Counts) -> None:
    from tilecheck.report.text import render

    found = [diagnostic for result in results for diagnostic in result.diagnostics]
    for diagnostic in found:
        terminal.show(render(diagnostic, lines_of))
        terminal.write("")
    by_severity = {
        severity: sum(diagnostic.severity == severity for diagnostic in found)
        for severity in ("error", "warning", "note")
    }
    listed = [counted(number, severity) for severity, number in by_severity.items() if number]
    kernels = sum(len(result.kernels) for result in results)
    extra = [
        (counts.fixed, "fixed"),
        (sum(result.suppressed for result in results), "allowed by comments"),
        (counts.accepted, "in the baseline"),
    ]
    if not counts.files:
        terminal.write("nothing was checked: no Python file is left of the paths")
        return
    words = [", ".join(listed) or "nothing to report"]
    words.append(f" in {counted(counts.files, 'file')} with {counted(kernels, 'kernel')}")
    words += [f", {number} {what}" for number, what in extra if number]
    terminal.write("".join(words))


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
