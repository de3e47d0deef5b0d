"""What the prover found out about one SIMT kernel: the report that rules, listings and launches read.

`check_kernel` analyses a kernel for the launches that the checked files show, or for any launch if they show none (and
always, if the kernel carries our annotations), and keeps the worst verdict per property. Everything in a report is
plain data without IR nodes, so that it can be cached.

Worked example: for `i = cuda.grid(1); if i < c.size: c[i] = a[i]` without a launch the report says race-free proven,
barriers-uniform proven, in-bounds proven-given `a.size >= c.size`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tilecheck.diagnostic import Span, Witness
from tilecheck.ir.kernel import Kernel, TensorParam
from tilecheck.stack import deep_stack
from tilecheck.verify.passed import as_passed
from tilecheck.verify.verdict import Answer, Property, Verdict

if TYPE_CHECKING:
    from tilecheck.checked import Fault
    from tilecheck.frontend.launches import Launch

# Processor seconds per kernel.
BUDGET = 10.0
# A counter that starts no higher has room for a billion adds.
_HALF_FULL = 2**30


@dataclass(frozen=True, slots=True)
class Place:
    """One access or barrier of a finding: where it stands, what it does, and its source as text."""

    span: Span
    does: Literal["reads", "writes", "updates", "meets"]
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A refuted property: data for a rule to word.

    `places` are the two accesses of a race, the access of a stray index, the barrier. `scope` says how the two threads
    are related. `launch` is the call that shows it, None if any launch may. `contents` is set when it takes certain
    array contents. `advice` is one way out.
    """

    rule: str
    kernel: str
    places: tuple[Place, ...]
    witness: Witness
    scope: str = ""
    array: str | None = None
    space: str = ""
    extent: tuple[int, ...] = ()
    launch: Span | None = None
    contents: bool = False
    advice: str | None = None
    # Whether a block is one thread, so that blocks are spoken of.
    blocks: bool = False
    # Whether the kernel's file is not checked itself, so that the launch is the place to tell it.
    imported: bool = False


@dataclass(frozen=True, slots=True)
class Together:
    """Two arguments of the launch at `launch` that are on one buffer, as which its threads do not race."""

    launch: Span
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class SimtReport:
    """One SIMT kernel after proof: a verdict per property, what was assumed, what was refuted, and why it holds.

    `faults` are refusals of the kernel's own contract; `same_value` are stores by which threads meet with one value;
    `together` are arguments on one buffer that were proved to get along.
    """

    kernel: Kernel
    assumptions: tuple[str, ...] = ()
    verdicts: Mapping[Property, Answer] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    unsafe: bool = False
    faults: tuple[Fault, ...] = ()
    same_value: tuple[Place, ...] = ()
    together: tuple[Together, ...] = ()
    # What the assumptions say of the elements that array parameters hold at the start, in the grammar of `requires`.
    starts: tuple[str, ...] = ()
    # The launches that the verdicts hold for; without any they hold for all that keep the assumptions.
    launched: tuple[Span, ...] = ()

    @property
    def annotated(self) -> bool:
        """Whether the signature carries our annotations, so that unknown is an error."""
        return self.kernel.track == "simt"

    def conditions(self) -> tuple[str, ...]:
        """The launch conditions of all properties, each once."""
        return tuple(dict.fromkeys(c for answer in self.verdicts.values() for c in answer.conditions))


def launches_of(kernel: Kernel, launches: Sequence[Launch]) -> tuple[Launch, ...]:
    """Those of `launches` that launch `kernel`, with the scalars that it sees."""
    first, last = kernel.lines
    return tuple(
        as_passed(kernel, launch)
        for launch in launches
        if launch.kernel.path == kernel.path and first <= launch.kernel.line <= last
    )


_ORDER = (Verdict.PROVEN, Verdict.PROVEN_GIVEN, Verdict.UNKNOWN, Verdict.REFUTED)


def check_kernel(kernel: Kernel, launches: Sequence[Launch] = (), *, budget: float = BUDGET) -> SimtReport:
    """Prove or refute the four properties of `kernel` within `budget` seconds of processor time.

    `launches` are those of this kernel.
    """
    try:
        with deep_stack():
            return _check(kernel, launches, budget)
    except RecursionError:
        deep = Answer(Verdict.UNKNOWN, reason="the kernel is nested too deeply to be followed")
        return SimtReport(kernel, verdicts=dict.fromkeys(Property, deep))


def _check(kernel: Kernel, launches: Sequence[Launch], budget: float) -> SimtReport:
    from tilecheck.verify import call_sites, contract, promotion, thread_coverage
    from tilecheck.verify.findings import finding_of, same_value_places
    from tilecheck.verify.launch_proofs import proofs_of
    from tilecheck.verify.loop_forms import ENOUGH
    from tilecheck.verify.ranges import ELEMENT, MODEST, is_element
    from tilecheck.verify.reasons import reasons
    from tilecheck.verify.usage import Usage

    usage = Usage(kernel)
    proofs = proofs_of(kernel, usage, launches if kernel.track != "simt" else (), budget)
    verdicts: dict[Property, Answer] = {}
    for name in Property:
        answers = [proof.answers[name] for proof in proofs]
        worst = max(answers, key=lambda answer: _ORDER.index(answer.verdict))
        conditions = tuple(dict.fromkeys(c for a in answers if a.verdict is worst.verdict for c in a.conditions))
        verdicts[name] = Answer(worst.verdict, conditions, worst.reason)
    found: dict[tuple[object, ...], Finding] = {}
    for proof in proofs:
        for refuted in proof.refuted:
            finding = finding_of(kernel, proof, refuted)
            found.setdefault((finding.rule, finding.array, finding.places[0].span), finding)
    assumptions = dict.fromkeys(a for proof in proofs for a in proof.entry.assumptions)
    counters = sorted({name for proof in proofs for name in proof.entry.run.counters})
    zeroed = sorted({name for proof in proofs for name in proof.entry.run.zeroed})
    small = sorted({name for proof in proofs for name in proof.entry.run.small})
    unwrapped = sorted({name for proof in proofs for name in proof.entry.run.unwrapped})
    modest = sorted({name for proof in proofs for name in proof.entry.run.modest})
    assumptions |= dict.fromkeys(f"{-MODEST} <= {name} <= {MODEST}" for name in modest if not is_element(name))
    followed = sorted({name for proof in proofs for name in proof.entry.run.followed})
    assumptions |= dict.fromkeys(f"{name} <= {ENOUGH}" for name in followed)
    whole = [name.removesuffix(ELEMENT) for name in modest if is_element(name)]
    assumptions |= dict.fromkeys(f"the elements of `{name}` are from {-MODEST} to {MODEST}" for name in whole)
    assumptions |= dict.fromkeys(f"the counter in `{name}` starts at zero" for name in zeroed)
    assumptions |= dict.fromkeys(f"the counter in `{name}` stays below 2**31" for name in small)
    assumptions |= dict.fromkeys(f"the counters in `{name}` start at zero or above" for name in counters)
    assumptions |= dict.fromkeys(f"the counters in `{name}` do not wrap" for name in unwrapped)
    params = {param.name for param in kernel.params if isinstance(param, TensorParam)}
    starts = [f"{name} == 0" for name in zeroed if name in params]
    starts += [f"{name} >= 0" for name in counters if name in params and name not in zeroed]
    starts += [f"{name} <= {_HALF_FULL}" for name in sorted({*small, *unwrapped} & params - {*zeroed})]
    needed = [condition for answer in verdicts.values() for condition in answer.conditions]
    return SimtReport(
        kernel,
        tuple(assumptions),
        verdicts,
        tuple(found.values()),
        tuple(dict.fromkeys(note for proof in proofs for note in reasons(proof))),
        usage.unsafe,
        (
            *contract.faults(kernel, usage),
            *contract.contradictions(kernel, proofs[0].entry.run.solver, proofs[0].entry.required),
            *promotion.promotions(kernel, usage, launches),
            *dict.fromkeys(fault for proof in proofs for fault in proof.faults),
            *(call_sites.broken(kernel, launches, needed) if kernel.track == "simt" else ()),
            *thread_coverage.faults(kernel, launches, call_sites.number),
        ),
        tuple(dict.fromkeys(place for proof in proofs for place in same_value_places(proof))),
        tuple(
            Together(proof.launch.span, first, second)
            for proof in proofs
            if proof.launch is not None and proof.answers[Property.RACE_FREE].verdict is Verdict.PROVEN
            for first, second in proof.launch.sharing()
        ),
        tuple(starts),
    )
