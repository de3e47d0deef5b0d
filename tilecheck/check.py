"""The whole pipeline, on one page: source -> frontends -> analyses -> rules -> findings.

    text ── gate ── Source ─┬─ tile kernels ── tile checks ─┐
                            ├─ simt kernels ── prover ──────┼─ Checked ── RULES ── allow comments ── FileResult
                            └─ host code ───── loans ───────┘

Invariants: a file is analysed alone, given its text, the modules it imports and the launches that other checked files
show of its kernels, so that results can be cached and files checked side by side. A failure inside one analysis counts
as unknown for that kernel, with the exception named, and everything else is still checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from tilecheck import verdicts
from tilecheck.borrow.findings import Break, Broken
from tilecheck.borrow.host import HostReport, check_module
from tilecheck.borrow.launch import Definition
from tilecheck.checked import Checked, Fault
from tilecheck.diagnostic import Span
from tilecheck.frontend import cutile, launches, numba, tile
from tilecheck.frontend.gate import Undecodable, read_text
from tilecheck.frontend.host import read_host
from tilecheck.frontend.host_modules import HostModules
from tilecheck.frontend.launches import Launch
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.imported import Imported, imported_kernels
from tilecheck.ir.kernel import Kernel
from tilecheck.judge import Options, contained, judge, run_rules, start_of
from tilecheck.modules import Modules, module_name
from tilecheck.report.result import FileResult
from tilecheck.verify.cutile import check_tiles, doubts, revised
from tilecheck.verify.simt import SimtReport, check_kernel, launches_of
from tilecheck.verify.tile_report import TileReport
from tilecheck.verify.verdict import Answer, Property, Verdict


def check_bytes(
    path: str,
    data: bytes,
    modules: Modules,
    options: Options,
    elsewhere: Sequence[Launch] = (),
    listed: Collection[str] = (),
) -> FileResult:
    """Check one file that passed the gate, from its bytes; `elsewhere` are launches that other files make, `listed` the
    paths of other files that are checked too.
    """
    try:
        text = read_text(data)
    except Undecodable as error:
        return unreadable(path, options, error.message, error.line, error.column, error.help)
    return check_text(path, text, modules, options, elsewhere, listed)


def check_text(
    path: str,
    text: str,
    modules: Modules,
    options: Options,
    elsewhere: Sequence[Launch] = (),
    listed: Collection[str] = (),
) -> FileResult:
    """Check one file from its text, see `check_bytes`."""
    try:
        checked = analyse(Source(path, text), modules, options, elsewhere, listed=listed)
    except Unreadable as error:
        return unreadable(path, options, error.message, error.span.line, error.span.column)
    return judge(checked, options)


def unreadable(
    path: str, options: Options, message: str, line: int = 1, column: int = 1, help: str | None = None
) -> FileResult:
    """The result of a file that cannot be read."""
    fault = Fault("unreadable", message, Span(path, line, column, line, column + 1), help=help)
    names = ("unreadable",) if options.wants("unreadable") else ()
    return FileResult(path, tuple(run_rules(Checked(path, "", faults=(fault,)), names)))


def launches_in(path: str, data: bytes, modules: Modules) -> tuple[Launch, ...]:
    """The launches that the host code of one file shows, of its own kernels and of imported ones."""
    try:
        source = Source(path, read_text(data))
        return contained(partial(launches.read_launches, source, modules.importer(path)), lambda _: ())
    except (Undecodable, Unreadable):
        return ()


def analyse(
    source: Source,
    modules: Modules,
    options: Options,
    elsewhere: Sequence[Launch] = (),
    host: HostReport | None = None,
    listed: Collection[str] | None = None,
) -> Checked:
    """Everything that is known about one file. Raises `Unreadable` if it does not parse.

    `elsewhere` are launches that other files show; `host` is given by who has read the host code from another tree.
    `listed` are other files that are checked; kernels of files that are not are proved for the launches here, unless None.
    """
    _ = source.module
    lost: list[Fault] = []
    tile_kernels, faults = contained(
        partial(tile.read_kernels, source, modules.resolve),
        lambda why: ((), (_unread(source, "tile kernels", why),)),
    )
    simt: tuple[SimtReport, ...] = ()
    others = Imported()
    if options.simt and _threads_in(source):
        shown_here = _shown(source, modules, lost)
        simt, found = _threads(source, modules, options, (*shown_here, *elsewhere), lost)
        lost += found
        if listed is not None:
            others = _other_threads(source, modules, options, shown_here, listed)
    if host is None:
        host = contained(partial(_host, source, modules), partial(_no_host, source, lost))
    host = _without_proved(host, (*simt, *others.proved))
    reports = tuple(contained(partial(_tile, kernel), partial(_tile_unknown, kernel)) for kernel in tile_kernels)
    shown, imported = _imported(host, source, modules)
    shown_faults = _at_launches(shown, (*reports, *imported))
    lost += contained(partial(_opened, shown, (*reports, *imported)), lambda why: ())
    return Checked(
        source.path,
        source.text,
        tile=reports,
        simt=simt,
        host=host,
        faults=(*lost, *faults, *shown_faults),
        imported=others.told,
    )


def _without_proved(host: HostReport, simt: Sequence[SimtReport]) -> HostReport:
    """`host` without the launches whose arguments share an array that the kernel was proved to cope with."""
    proved = [(each.launch, f"{each.first}, {each.second}") for report in simt for each in report.together]
    if not proved:
        return host

    def wrong(found: Broken) -> bool:
        return (
            found.kind is not Break.ONE_CALL
            or found.ours
            or not any(
                found.param == both and launch.path == found.span.path and _within(found.span, launch)
                for launch, both in proved
            )
        )

    return replace(host, broken=tuple(filter(wrong, host.broken)))


def _within(inner: Span, outer: Span) -> bool:
    starts = (outer.line, outer.column) <= (inner.line, inner.column)
    return starts and (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)


def _imported(host: HostReport, source: Source, modules: Modules) -> tuple[HostReport, tuple[TileReport, ...]]:
    """The tile kernels of other files that this one shows launches of, and `host` with the places where they stand."""
    wanted = {*(launch.kernel for launch in host.opened), *(launch.kernel for launch in host.launches)}
    found: dict[Definition, Definition] = {}
    reports: list[TileReport] = []
    read: dict[str, Sequence[Kernel]] = {}
    for kernel in sorted(wanted, key=repr):
        at = kernel.span
        other = modules.resolve(kernel.module, source.path) if at is None else modules.found(at.path)
        if other is None or other.path == source.path:
            continue
        if other.path not in read:
            read[other.path], _ = contained(partial(tile.read_kernels, other, modules.resolve), lambda why: ((), ()))
        same = [each for each in read[other.path] if each.name == kernel.name]
        asked = [each for each in same if at is None or each.span.line == at.line]
        if len(asked) == 1:
            found[kernel] = Definition(kernel.name, asked[0].span)
            reports.append(contained(partial(_tile, asked[0]), partial(_tile_unknown, asked[0])))
    placed = replace(
        host,
        opened=tuple(replace(launch, kernel=found.get(launch.kernel, launch.kernel)) for launch in host.opened),
        launches=tuple(replace(launch, kernel=found.get(launch.kernel, launch.kernel)) for launch in host.launches),
    )
    return placed, tuple(reports)


def _at_launches(host: HostReport, reports: tuple[TileReport, ...]) -> tuple[Fault, ...]:
    """What the launches that the file shows break of what the bodies of tile kernels ask."""
    if not host.launches or not reports:
        return ()
    from tilecheck.verify.tile_launches import check_launches

    return contained(partial(check_launches, host.launches, reports), lambda why: ())


# What a file says that holds a SIMT or cuTile kernel.
THREADS = re.compile(r"cuda|numba|simt|adopt")


def _threads_in(source: Source) -> bool:
    """Whether a file may hold or launch such a kernel: one that the gate let through for its imports alone may."""
    return bool(THREADS.search(source.text)) or "tilecheck" not in source.text


def _shown(source: Source, modules: Modules, lost: list[Fault]) -> tuple[Launch, ...]:
    """The launches of SIMT and cuTile kernels that a file makes."""
    resolve = modules.importer(source.path)
    found = contained(partial(launches.read_launches, source, resolve), _without(source, "launches", lost))
    tiled = contained(partial(cutile.read_launches, source, resolve), _without(source, "cuTile launches", lost))
    return (*found, *tiled)


def _threads(
    source: Source,
    modules: Modules,
    options: Options,
    shown: Sequence[Launch],
    lost: list[Fault],
    wanted: Callable[[Kernel], bool] = lambda kernel: True,
) -> tuple[tuple[SimtReport, ...], tuple[Fault, ...]]:
    """The `wanted` SIMT and cuTile kernels of a file, proved for the launches that are shown, and faults about them."""
    resolve = modules.importer(source.path)
    simt_kernels = contained(partial(numba.read_kernels, source, resolve), _without(source, "SIMT kernels", lost))
    block_kernels = contained(partial(cutile.read_kernels, source, resolve), _without(source, "cuTile kernels", lost))
    threads = [
        contained(partial(_simt, kernel, shown, options), partial(_simt_unknown, kernel))
        for kernel in simt_kernels
        if wanted(kernel)
    ]
    about: list[Fault] = []
    for kernel in filter(wanted, block_kernels):
        faults = contained(partial(check_tiles, kernel, shown), lambda why: ())
        report = contained(partial(_simt, kernel, shown, options), partial(_simt_unknown, kernel))
        threads.append(revised(report, faults, contained(partial(doubts, kernel, shown), lambda why: {})))
        about += faults
    return tuple(threads), tuple(about)


def _other_threads(
    source: Source, modules: Modules, options: Options, shown: Sequence[Launch], listed: Collection[str]
) -> Imported:
    """The SIMT and cuTile kernels of other files that this one launches."""

    def prove(
        other: Source, made: Sequence[Launch], wanted: Callable[[Kernel], bool]
    ) -> tuple[Sequence[SimtReport], Sequence[Fault]]:
        # What cannot be read of the other file is its own business.
        return _threads(other, modules, options, made, [], wanted)

    return contained(partial(imported_kernels, source, modules, shown, listed, prove), lambda why: Imported())


def _tile(kernel: Kernel) -> TileReport:
    # The op table needs NumPy, which files without tile kernels must not load.
    from tilecheck.verify.tile import check_kernel as check_tile_kernel

    return check_tile_kernel(kernel)


def _opened(host: HostReport, reports: Sequence[TileReport]) -> tuple[Fault, ...]:
    """What launches in this file break in kernels of open dtypes."""
    found: list[Fault] = []
    placed = {(report.kernel.path, report.kernel.name, report.kernel.span.line): report for report in reports}
    for launch in host.opened:
        at = launch.kernel.span
        report = placed.get((at.path, launch.kernel.name, at.line)) if at is not None else None
        if report is not None:
            from tilecheck.verify.tile import check_launch

            found += check_launch(report, dict(launch.dtypes), launch.span)
    return tuple(found)


def _host(source: Source, modules: Modules) -> HostReport:
    module = read_host(source, module_name(source.path), modules.importer(source.path))
    return check_module(module, HostModules(modules.resolve).outside(source.path))


def _no_host(source: Source, lost: list[Fault], why: str) -> HostReport:
    lost.append(_unread(source, "host code", why))
    return HostReport()


def _simt(kernel: Kernel, shown: Sequence[Launch], options: Options) -> SimtReport:
    check = verdicts.prove if options.stored else check_kernel
    launches = launches_of(kernel, shown)
    return replace(check(kernel, launches, budget=options.budget), launched=tuple(each.span for each in launches))


def _tile_unknown(kernel: Kernel, why: str) -> TileReport:
    message = f"`{kernel.name}` was not checked: {why}"
    return TileReport(kernel, faults=(Fault("unproven", message, kernel.span, kernel.name),), verdicts=_unknown(why))


def _simt_unknown(kernel: Kernel, why: str) -> SimtReport:
    return SimtReport(kernel, verdicts=_unknown(why))


def _unknown(why: str) -> dict[Property, Answer]:
    return {each: Answer(Verdict.UNKNOWN, reason=why) for each in Property}


def _without(source: Source, what: str, lost: list[Fault]) -> Callable[[str], tuple[()]]:
    def instead(why: str) -> tuple[()]:
        lost.append(_unread(source, what, why))
        return ()

    return instead


def _unread(source: Source, what: str, why: str) -> Fault:
    return Fault("unreadable", f"the {what} of this file were not read: {why}", start_of(source.path))
