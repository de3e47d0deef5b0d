"""Tile kernels whose parameters leave a dtype open: `Tensor[Mut, T, BM]` with a type variable, or `Any`.

Bounds, coverage and races do not depend on dtypes, so one dtype that fits shows them for all that do. What is wrong only
for some dtypes is the launch's business, which knows them. So:

- a type variable that lists its dtypes (`TypeVar("T", f16, f32)`) promises them: the kernel is checked for each, and what
  is wrong for one is wrong;
- for any other a dtype is looked for with which nothing is wrong. The kernel is at fault if there is none: then what all
  dtypes have in common is said, or what the first ones ran into. With several open dtypes not every combination is
  tried, so without a common fault nothing is said, and bounds are unknown until the launch.

    z.store(tc.exp(tc.load_like(x, z)))     x: Tensor[Shared, T, Dyn]: f32 fits, nothing is said
    t & 1, and exp(t) of the same tile      no dtype fits: `&` takes ints, `exp` takes floats
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, product

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label, Span
from tilecheck.ir.kernel import Kernel, TensorParam
from tilecheck.surface.dtypes import DTYPES
from tilecheck.verify.tile_report import TileReport
from tilecheck.verify.verdict import Answer, Property, Verdict

Check = Callable[[Kernel], TileReport]
Chosen = dict[str, str]

# The likeliest first.
_ORDER = (
    "f32",
    "i32",
    "bool_",
    "f16",
    "bf16",
    "f64",
    "i64",
    "u8",
    "i8",
    "u32",
    "u64",
    "i16",
    "u16",
    "f8e4m3",
    "f8e5m2",
)
_PAIRS = _ORDER[:4]
# Combinations of listed dtypes that are checked at check time; the others when a launch asks for them.
_LISTED = 32
# Faults that no dtype can mend.
_REGARDLESS = frozenset(
    {"partial-coverage", "check-in-kernel", "unbound-dim", "shape-mismatch", "void-lanes", "out-of-bounds"}
)
_UNDECIDED = Answer(Verdict.UNKNOWN, (), "the launch decides some dtypes")


@dataclass(frozen=True, slots=True)
class Open:
    """Parameters that share one open dtype; `listed` says that `among` is a promise."""

    shown: str
    params: tuple[str, ...]
    among: tuple[str, ...]
    listed: bool
    span: Span


def open_dtypes(kernel: Kernel) -> tuple[Open, ...]:
    """The dtypes that a kernel leaves open, each once, in the order of the parameters."""
    groups: dict[str, list[TensorParam]] = {}
    for param in kernel.params:
        if isinstance(param, TensorParam) and param.dtype is None:
            groups.setdefault(f"{param.name}:" if param.variable is None else param.variable.name, []).append(param)
    found: list[Open] = []
    for params in groups.values():
        variable, first = params[0].variable, params[0]
        shown = f"`{first.name}`" if variable is None else f"`{variable.name}`"
        among = variable.among if variable is not None else ()
        names = tuple(p.name for p in params)
        found.append(Open(shown, names, among or _ORDER, bool(among), first.span))
    return tuple(found)


def over_dtypes(kernel: Kernel, check: Check) -> TileReport:
    """The report of a kernel, whatever its open dtypes are; `check` reports on one whose dtypes are known."""
    opened = open_dtypes(kernel)
    if not opened:
        return check(kernel)
    listed, free = [o for o in opened if o.listed], [o for o in opened if not o.listed]
    reports: list[tuple[str, TileReport]] = []
    for choice in islice(product(*(o.among for o in listed)), _LISTED):
        chosen = _chosen(zip(listed, choice, strict=True))
        shown = " and ".join(f"{o.shown} is {dtype}" for o, dtype in zip(listed, choice, strict=True))
        reports.append((shown, _Search(kernel, check, chosen, free).report()))
    worst = max((report for _, report in reports), key=lambda r: _RANK[r.verdicts[Property.IN_BOUNDS].verdict])
    # The kernel as it was: what the report settled holds for one choice alone.
    return replace(worst, kernel=kernel, faults=_listed_faults(reports))


_RANK = {
    verdict: rank
    for rank, verdict in enumerate(
        (Verdict.PROVEN, Verdict.PROVEN_GIVEN, Verdict.CHECKED, Verdict.UNKNOWN, Verdict.REFUTED)
    )
}


def _chosen(pairs: Iterator[tuple[Open, str]] | zip[tuple[Open, str]]) -> Chosen:
    return {name: dtype for group, dtype in pairs for name in group.params}


def _place(fault: Fault) -> tuple[str, Span]:
    return fault.rule, fault.span


def _listed_faults(reports: Sequence[tuple[str, TileReport]]) -> tuple[Fault, ...]:
    """What is wrong for some listed dtype, each fault once; one that others do not have says which."""
    found: dict[tuple[str, Span], Fault] = {}
    for shown, report in reports:
        for fault in report.faults:
            if _place(fault) in found:
                continue
            everywhere = all(_place(fault) in map(_place, other.faults) for _, other in reports)
            found[_place(fault)] = fault if everywhere else replace(fault, message=f"{fault.message}, where {shown}")
    return tuple(found.values())


@dataclass(slots=True)
class _Search:
    """The search for dtypes of `free` that fit, the others being `chosen`."""

    kernel: Kernel
    check: Check
    chosen: Mapping[str, str]
    free: Sequence[Open]

    def report(self) -> TileReport:
        """The first report that no other dtype could better, else what all that was tried have in common."""
        tried: dict[tuple[str, ...], TileReport] = {}
        for choice in self._choices(tried):
            if choice not in tried:
                tried[choice] = self._checked(choice)
                if all(fault.rule in _REGARDLESS for fault in tried[choice].faults):
                    return tried[choice]
        return self._unfit(tried)

    def _checked(self, choice: tuple[str, ...]) -> TileReport:
        dtypes = {**self.chosen, **_chosen(zip(self.free, choice, strict=True))}
        params = tuple(
            replace(p, dtype=dtypes.get(p.name, p.dtype)) if isinstance(p, TensorParam) else p
            for p in self.kernel.params
        )
        return self.check(replace(self.kernel, params=params))

    def _choices(self, tried: Mapping[tuple[str, ...], TileReport]) -> Iterator[tuple[str, ...]]:
        """One dtype for all; then, from the best so far, others for one of them, and for two at once."""
        if not self.free:
            yield ()
            return
        for dtype in _ORDER:
            yield (dtype,) * len(self.free)
        if len(self.free) == 1:
            return
        for at in range(len(self.free)):
            best = _best(tried)
            for dtype in _ORDER:
                yield (*best[:at], dtype, *best[at + 1 :])
        best = _best(tried)
        for one, two in combinations(range(len(self.free)), 2):
            for first, second in product(_PAIRS, _PAIRS):
                yield tuple(first if at == one else second if at == two else d for at, d in enumerate(best))

    def _unfit(self, tried: Mapping[tuple[str, ...], TileReport]) -> TileReport:
        best = tried[_best(tried)]
        common = set.intersection(*({_place(f) for f in report.faults} for report in tried.values()))
        faults = tuple(_general(f, self.free, tried) for f in best.faults if _place(f) in common)
        if faults or not self.free:
            return replace(best, faults=faults or best.faults)
        if len(self.free) == 1:
            return replace(best, faults=(self._nothing_fits(tried),))
        return replace(best, verdicts={**best.verdicts, Property.IN_BOUNDS: _UNDECIDED}, faults=())

    def _nothing_fits(self, tried: Mapping[tuple[str, ...], TileReport]) -> Fault:
        group = self.free[0]
        reasons: dict[Span, tuple[str, Fault]] = {}
        for choice, report in tried.items():
            reasons.setdefault(report.faults[0].span, (choice[0], report.faults[0]))
        shown = list(reasons.values())[:2]
        said = "; ".join(f"with {dtype}, {fault.message}" for dtype, fault in shown)
        labels = tuple(Label(fault.span, f"no {dtype} here") for dtype, fault in shown)
        message = f"no dtype fits {group.shown}: {said}"
        return Fault("dtype-mismatch", message, group.span, self.kernel.name, labels, "convert the tile with `.astype`")


def _best(tried: Mapping[tuple[str, ...], TileReport]) -> tuple[str, ...]:
    return min(tried, key=lambda choice: len(tried[choice].faults))


def _general(fault: Fault, free: Sequence[Open], tried: Mapping[tuple[str, ...], TileReport]) -> Fault:
    """The words of a fault that all dtypes have: without the dtype that it happened to be found with."""
    if len(free) != 1:
        return fault
    words = {
        f.message.replace(f"`{choice[0]}`", free[0].shown).replace(f"Tile[{choice[0]}", f"Tile[{free[0].shown[1:-1]}")
        for choice, report in tried.items()
        for f in report.faults
        if _place(f) == _place(fault)
    }
    return replace(fault, message=words.pop()) if len(words) == 1 else fault


def launch_faults(
    kernel: Kernel, dtypes: Mapping[str, str], at: Span, known: Sequence[Fault], check: Check
) -> Iterator[Fault]:
    """What is wrong with a launch of `kernel` whose arguments have these dtypes, by parameter; `known` is said already."""
    given: dict[str, str] = {}
    for group in open_dtypes(kernel):
        seen = [(name, dtypes[name]) for name in group.params if name in dtypes]
        said = " and ".join(f"`{name}` is {dtype}" for name, dtype in seen)
        wanted = either(group.among)
        if len({dtype for _, dtype in seen}) > 1:
            message = f"{said}, but in `{kernel.name}` both are {group.shown}, one dtype"
            yield Fault("dtype-mismatch", message, at, None, (), "convert one with `astype`")
            return
        if any(dtype not in group.among for _, dtype in seen):
            message = f"{said}, but `{kernel.name}` takes {wanted}"
            yield Fault("dtype-mismatch", message, at, None, (), f"convert with `astype(tc.{group.among[-1]})`")
            return
        for _, dtype in seen[:1]:
            given.update(dict.fromkeys(group.params, dtype))
    params = tuple(
        replace(p, dtype=given.get(p.name, p.dtype)) if isinstance(p, TensorParam) else p for p in kernel.params
    )
    said = " and ".join(f"`{name}` is {dtype}" for name, dtype in dtypes.items())
    for fault in over_dtypes(replace(kernel, params=params), check).faults:
        if _place(fault) not in map(_place, known):
            label = (Label(fault.span, "here"),) if fault.span.path == at.path else ()
            yield Fault(fault.rule, f"{said} at this launch of `{kernel.name}`: {fault.message}", at, None, label)


def either(names: Sequence[str]) -> str:
    """`f16, bf16 or f32`."""
    return f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]


def shown_dtypes(kernel: Kernel) -> tuple[str, ...]:
    """What a kernel leaves open, in words."""
    found: list[str] = []
    for group in open_dtypes(kernel):
        names = " and ".join(f"`{name}`" for name in group.params)
        one = "" if group.shown == names else f", {group.shown},"
        found.append(f"the dtype of {names}{one} is {either(group.among) if group.listed else 'any that fits'}")
    return tuple(found)


assert set(_ORDER) == set(DTYPES)
