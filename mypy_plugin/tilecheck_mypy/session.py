"""When a file is looked at, and for which of mypy's targets a finding is reported.

mypy 2.4 and later call `get_additional_indirect_deps` once per file after all its passes; then the whole file is looked
at. The daemon re-checks functions of other files without that call, and older mypy has none, so there a function is
looked at from the hook of its last tilecheck call. mypy drops the second copy of a message, so both may happen.

Invariant: nothing about a file is kept once it was looked at, and nothing that goes wrong here leaves as an exception:
it becomes one message of the code `tilecheck-internal`.
"""

from __future__ import annotations

import gc
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from mypy import nodes
from mypy.checker import TypeChecker
from mypy.errors import Errors
from mypy.nodes import Context, FuncDef, FuncItem, MypyFile, Statement, TypeInfo
from mypy.options import Options
from mypy.scope import Scope

from tilecheck.diagnostic import Diagnostic
from tilecheck_mypy import analysis, missed_names, report
from tilecheck_mypy.expressions import Types
from tilecheck_mypy.gate import mentions_kernels
from tilecheck_mypy.shifting import blocks_of


class Session:
    """What one build has told us so far: the checkers of files that are not done, and where errors go."""

    def __init__(self, has_end: bool) -> None:
        # Whether mypy says when a file is done.
        self.has_end = has_end
        self.checkers: dict[str, TypeChecker] = {}
        self.errors: Errors | None = None
        # The call that a function was looked at from, and how many types were known then.
        self.looked: tuple[Context, int] | None = None
        # The function in hand and where its last tilecheck call ends.
        self.last: tuple[FuncItem | MypyFile, tuple[int, int]] | None = None

    def seen(self, checker: TypeChecker) -> None:
        """A tilecheck call was checked by `checker`."""
        self.checkers[checker.tree.fullname] = checker
        self.errors = checker.errors

    def finish(self, file: MypyFile) -> None:
        """mypy is done with `file`: look at it."""
        checker = self.checkers.pop(file.fullname, None)
        if checker is not None and checker.tree is not file:
            checker = None
        if checker is None and not mentions_kernels(file):
            return
        errors = checker.errors if checker is not None else self.errors_of(file)
        if errors is None or file.path in errors.ignored_files:
            return
        types: Types = checker._type_maps[0] if checker is not None else {}
        options = checker.options if checker is not None else errors.options
        contained(lambda: self.whole(file, types, errors, options), errors)

    def whole(self, file: MypyFile, types: Types, errors: Errors, options: Options) -> None:
        """Report everything about `file`."""
        found = analysis.findings(file, types, was_checked(options), analysis.text_of(file, errors))
        emit(errors, options, file, located(file, found))

    def called(self, checker: TypeChecker, call: Context) -> None:
        """A tilecheck call was checked. Where mypy will not say when the file is done, look at the function around the
        call if this is its last one.
        """
        self.seen(checker)
        errors, options = checker.errors, checker.options
        # The daemon's checks of single functions, which no end of a file follows, are never a first pass.
        if self.has_end and not (options.fine_grained_incremental and checker.pass_num):
            return
        if checker.path in errors.ignored_files:
            return
        function = checker.scope.top_level_function()
        unit = function if function is not None else checker.tree
        if (call.end_line or call.line, call.end_column or 0) < self.last_call(unit, checker):
            return
        # mypy may check one call several times, knowing more each time.
        known = sum(map(len, checker._type_maps))
        if self.looked != (call, known):
            self.looked = (call, known)
            with unwatched(errors):
                contained(lambda: self.part(checker, function), errors, call.line)

    def last_call(self, unit: FuncItem | MypyFile, checker: TypeChecker) -> tuple[int, int]:
        """Where the last tilecheck call of a function ends, or of a module outside of functions."""
        if self.last is None or self.last[0] is not unit:
            self.last = (unit, analysis.last_call(unit, checker.tree))
        return self.last[1]

    def part(self, checker: TypeChecker, function: FuncItem | None) -> None:
        """Report what concerns `function`, or the module's own statements, and with it the functions that mypy does not
        check, from which no hook is called.
        """
        file, errors, options = checker.tree, checker.errors, checker.options
        types = ChainMap(*reversed(checker._type_maps))
        found = analysis.findings(file, types, lambda _: False, analysis.text_of(file, errors))
        checked = was_checked(options)
        chosen = [
            (finding, target)
            for finding, target in located(file, found)
            if (target.function if target is not None else None) is function
            or (target is not None and isinstance(target.function, FuncDef) and not checked(target.function))
        ]
        emit(errors, options, file, chosen)

    def errors_of(self, file: MypyFile) -> Errors | None:
        """Where errors of `file` go, if none of our hooks has fired in this process: the collector that mypy has set
        to this file.
        """
        if self.errors is None:
            collectors = (o for o in gc.get_objects() if isinstance(o, Errors))
            self.errors = next((e for e in collectors if e.target_module == file.fullname), None)
        return self.errors


def contained(work: Callable[[], None], errors: Errors, line: int = 1) -> None:
    """Do `work`; a failure of ours becomes one message. The only place of the plugin that catches everything."""
    try:
        work()
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        message = f"tilecheck could not analyse this file ({why}); the rest of mypy's answer is complete"
        errors.report(line, 0, message, code=report.INTERNAL)


@contextmanager
def unwatched(errors: Errors) -> Iterator[None]:
    """Report for good, although mypy may be trying alternatives, whose messages it drops: ours do not depend on them."""
    watchers = errors._watchers[:]
    errors._watchers.clear()
    try:
        yield
    finally:
        errors._watchers.extend(watchers)


def was_checked(options: Options) -> Callable[[FuncDef], bool]:
    """Whether mypy checks the body of a function."""
    return lambda function: options.check_untyped_defs or not function.is_dynamic()


@dataclass(frozen=True, slots=True)
class Target:
    """What mypy's daemon re-checks and clears as one: a function or method, nested functions included."""

    first: int
    last: int
    info: TypeInfo | None
    function: FuncItem

    @contextmanager
    def entered(self, scope: Scope) -> Iterator[None]:
        """`scope` inside of the target."""
        with (
            scope.class_scope(self.info) if self.info is not None else nullcontext(),
            scope.function_scope(self.function),
        ):
            yield


def targets_of(body: Sequence[Statement], info: TypeInfo | None = None) -> Iterator[Target]:
    """The targets of a body, in blocks and classes too."""
    for statement in body:
        match statement:
            case nodes.FuncDef():
                yield Target(statement.line, statement.end_line or statement.line, info, statement)
            case nodes.Decorator(func=function):
                first = min(statement.line, *(d.line for d in statement.original_decorators), function.line)
                yield Target(first, function.end_line or function.line, info, function)
            case nodes.OverloadedFuncDef(items=items, impl=impl):
                yield from targets_of([*items, *([impl] if impl is not None and impl not in items else [])], info)
            case nodes.ClassDef(defs=defs):
                yield from targets_of(defs.body, statement.info)
            case _:
                for block in blocks_of(statement):
                    yield from targets_of(block.body, info)


def located(file: MypyFile, found: Iterable[Diagnostic]) -> Iterator[tuple[Diagnostic, Target | None]]:
    """Each finding with the target that it stands in, None for the module itself."""
    targets = list(targets_of(file.defs))
    for finding in found:
        yield finding, next((t for t in targets if t.first <= finding.span.line <= t.last), None)


def emit(errors: Errors, options: Options, file: MypyFile, found: Iterable[tuple[Diagnostic, Target | None]]) -> None:
    """Report each finding for its target: what the daemon clears the message with."""
    path, outer, scope = errors.file, errors.scope, Scope()
    try:
        with scope.module_scope(file.fullname):
            errors.set_file(path, file.fullname, options, scope)
            missed_names.tell_way_out(file, errors)
            for finding, target in found:
                with target.entered(scope) if target is not None else nullcontext():
                    report.report(errors, finding)
    finally:
        errors.set_file(path, file.fullname, options, outer)
