"""The tile checks: types, borrow rules, void lanes, the bounds ladder, coverage. One report per kernel.

`check_kernel(kernel)` checks for all extents; `check_kernel(kernel, dims)` checks for given ones, which decides more.
Races and divergent barriers need no proof here: a store has no index to get wrong, and a kernel has no barrier to miss.

    report = check_kernel(kernel, {"gemm.py::BM": 128, ...})
    report.faults          what is wrong at every launch
    report.accesses        every axis of every access, with its rung
    report.conditions      what each launch must still satisfy: `.evaluate(shapes, scalars, dims, grid)`
    report.hoisted         asserts before loops, by loop
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilecheck.checked import Fault
from tilecheck.diagnostic import Span
from tilecheck.ir.kernel import Kernel, Opaque, walk
from tilecheck.verify.tile_accesses import Accesses
from tilecheck.verify.tile_coverage import coverage
from tilecheck.verify.tile_dtypes import launch_faults, over_dtypes
from tilecheck.verify.tile_ladder import Ledger
from tilecheck.verify.tile_report import CHECKED, ArrayAccess, TileReport
from tilecheck.verify.tile_specialise import Argument, parameter_types, settle, specialise
from tilecheck.verify.tile_stores import settle_stores
from tilecheck.verify.tile_types import infer
from tilecheck.verify.tile_walk import Walk
from tilecheck.verify.verdict import Answer, Property, Verdict

__all__ = ["Argument", "TileReport", "check_kernel", "specialise"]

BY_CONSTRUCTION = "by construction"
# Faults that leave what is known of bounds as it is.
_HARMLESS = ("partial-coverage", "check-in-kernel")


def check_kernel(
    kernel: Kernel, dims: Mapping[str, int] | None = None, arguments: Mapping[str, Argument] | None = None
) -> TileReport:
    """All tile checks. `dims` are by key; `arguments` fill in what annotations leave open, by parameter name; of the dtypes
    that stay open, see `tile_dtypes`.
    """
    return over_dtypes(specialise(kernel, dims or {}, arguments), _check)


def check_launch(report: TileReport, dtypes: Mapping[str, str], at: Span) -> tuple[Fault, ...]:
    """What the dtypes of a launch at `at`, by parameter, break in the kernel of `report`, which leaves them open."""
    return tuple(launch_faults(report.kernel, dtypes, at, report.faults, _check))


def _check(special: Kernel) -> TileReport:
    inferred = infer(special, parameter_types(special))
    types = dict(inferred.types)
    settled = settle(special, types)
    ledger = Ledger(settled, types)
    accesses = Accesses(ledger, types)
    Walk(accesses).run()
    settle_stores(ledger, accesses.lanes, types)
    for mixed in inferred.mixed:
        ledger.divides(mixed)
    faults = [*inferred.faults, *ledger.faults, *_strict(settled, ledger.accesses)]
    if not inferred.faults:
        faults += coverage(settled, types)
    unread = any(isinstance(n, Opaque) for n in walk(*settled.body)) or bool(inferred.open)
    return TileReport(
        settled,
        types,
        tuple(faults),
        _verdicts(ledger, faults, unread),
        tuple(ledger.accesses),
        tuple(ledger.conditions),
        {node: tuple(checks) for node, checks in ledger.hoisted.items()},
        tuple(ledger.maps),
    )


def _strict(kernel: Kernel, accesses: Sequence[ArrayAccess]) -> list[Fault]:
    """`checks="launch"`: no check may stay in the kernel."""
    if kernel.options.get("checks") != "launch":
        return []
    found: list[Fault] = []
    for access in accesses:
        if access.rung in CHECKED:
            message = f"a bounds check of `{access.array}` on axis {access.axis} stays in the kernel: {access.reason}"
            help = 'declare what the launch ensures, such as `requires="0 <= i and i < x.shape[0] // 128"`, or drop `checks="launch"`'
            found.append(Fault("check-in-kernel", message, access.span, kernel.name, (), help))
    return list(dict.fromkeys(found))


def _verdicts(ledger: Ledger, faults: Sequence[Fault], unread: bool) -> dict[Property, Answer]:
    faulty = any(fault.rule not in _HARMLESS for fault in faults)
    built = Answer(Verdict.PROVEN, (), BY_CONSTRUCTION)
    rungs = {access.rung for access in ledger.accesses}
    # What void lanes ask of a launch concerns values, not bounds.
    texts = tuple(dict.fromkeys(c.text for c in ledger.conditions if c.rule != "void-lanes"))
    if any(fault.rule == "out-of-bounds" for fault in ledger.faults):
        bounds = Answer(Verdict.REFUTED, (), "a tile index is out of bounds at every launch")
    elif faulty or unread:
        bounds = Answer(Verdict.UNKNOWN, (), "the kernel has faults" if faulty else "the launch decides some types")
    elif rungs & set(CHECKED):
        bounds = Answer(Verdict.CHECKED, texts, "an assert remains in the kernel")
    elif texts:
        bounds = Answer(Verdict.PROVEN_GIVEN, texts)
    else:
        bounds = Answer(Verdict.PROVEN, (), None)
    # Construction keeps blocks apart only where every write goes through it.
    around = any(fault.rule in ("write-to-shared", "foreign-index") for fault in faults)
    return {
        Property.RACE_FREE: Answer(Verdict.UNKNOWN, (), "it writes where it may not") if around else built,
        Property.IN_BOUNDS: bounds,
        Property.BARRIERS_UNIFORM: built,
        Property.SHARED_INITIALISED: built,
    }
