"""What a loop does to the values it carries.

In order of preference: unchanged; `start + k * delta` with a delta that the loop does not change; array variables that
rotate (ping-pong buffers); several scalars running through a finite joint sequence of constants (`s //= 2`); else
anything of the right level, with invariants kept from a small set of templates (`x >= start`, `x <= start`, `x >= 0`,
`x >= 1`, `x in {0, 1}`, `x + y` and `x - y` constant, `x <= y`, at most one more per round, `x + y` one more per round)
that hold at the start and survive one round.

Invariant: a form is used only if one round from a generic head preserves it, so it holds at every head by induction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

from tilecheck.symbolic.smt_nodes import Level, Taint, Term
from tilecheck.symbolic.smt_symbols import closure, give_fact
from tilecheck.symbolic.smt_terms import (
    FALSE,
    TRUE,
    ZERO,
    add,
    conj,
    disj,
    eq,
    ge,
    le,
    mod,
    mul,
    neg,
    num,
    sub,
    substitute,
    value_of,
)
from tilecheck.verify.run import Run, State
from tilecheck.verify.values import (
    Choice,
    Items,
    Kind,
    Ratio,
    Scalar,
    Truth,
    Value,
    View,
    as_int,
    level_of,
    terms_of,
)
from tilecheck.verify.verdict import Property

if TYPE_CHECKING:
    from tilecheck.verify.loops import Loop, Round

RACES = (Property.RACE_FREE, Property.SHARED_INITIALISED)
_PASSES = 6
_LONGEST_ORBIT = 41
# The number of the round, among the names of a template.
_ROUND = ""


@dataclass
class Form:
    """The form of one carried variable. `delta` set: start + k * delta; `fixed`: unchanged; else free at `level`, within
    `low` and `high` where a round gives values in a range.
    """

    level: Level
    kind: Kind
    fixed: bool = False
    delta: Term | None = None
    refused: bool = False
    exact: bool = False
    low: int | None = None
    high: int | None = None

    @staticmethod
    def start(value: Value, level: Level) -> Form:
        kind = value.kind if isinstance(value, Scalar) else Kind.INT
        return Form(max(level, level_of(terms_of(value))), kind)


@dataclass(frozen=True)
class Rotation:
    """Array variables that take turns: at round k variable v holds `turns[v][k % period]`."""

    period: int
    turns: dict[str, tuple[View, ...]]


Template = tuple[tuple[str, ...], Callable[..., Term]]


@dataclass
class Facts:
    """Facts about free variables at every head: invariants, and the joint sequence of constants."""

    invariants: list[Template] = field(default_factory=list)
    names: tuple[str, ...] = ()
    orbit: tuple[tuple[int, ...], ...] = ()
    cyclic: bool = False

    def impose(self, values: dict[str, Value], round_number: Term | None, count: Term | None = None) -> None:
        """Give the facts to the symbols of `values`, which stand at the head of round `round_number`; `count` is that
        number if it is no symbol.
        """
        terms = {name: value.term for name, value in values.items() if isinstance(value, Scalar) and value.term.symbol}
        number = count if count is not None else round_number
        known = terms if number is None else {**terms, _ROUND: number}
        for names, template in self.invariants:
            if all(name in known for name in names):
                fact = template(*(known[name] for name in names))
                for name in names:
                    if name in terms:
                        give_fact(terms[name], fact)
        if self.orbit and all(name in terms for name in self.names):
            cases = []
            for n, place in enumerate(self.orbit):
                here = [eq(terms[name], num(x)) for name, x in zip(self.names, place, strict=True)]
                if round_number is not None and not self.cyclic:
                    here.append(eq(round_number, num(n)))
                cases.append(conj(*here))
            for name in self.names:
                give_fact(terms[name], disj(*cases))


def at_head(run: Run, this: Loop, counter: Term) -> dict[str, Value]:
    """The carried variables at the head of round `counter`."""
    heads: dict[str, Value] = {}
    for name in this.carried:
        heads[name] = _head(run, this, name, counter)
    this.facts.impose(heads, counter)
    return heads


def _head(run: Run, this: Loop, name: str, counter: Term) -> Value:
    value, form = this.before.env[name], this.forms[name]
    if this.arrays is not None and name in this.arrays.turns:
        return rotated(this.arrays, name, counter)
    if form.fixed:
        return value
    if form.delta is not None and isinstance(value, Scalar):
        return Scalar(add(value.term, mul(counter, form.delta)), form.kind)
    return like(run, value, name, form.level, form)


def rotated(rotation: Rotation, name: str, counter: Term) -> Choice:
    phase = mod(counter, num(rotation.period))
    return Choice(tuple((eq(phase, num(n)), view) for n, view in enumerate(rotation.turns[name])))


def like(run: Run, value: Value, name: str, level: Level, form: Form | None = None) -> Value:
    """Any value of the kind of `value`."""
    match value:
        case Scalar(_, kind):
            kind = form.kind if form is not None else kind
            exact = form is not None and form.exact
            taint = Taint.DATA if kind is Kind.FLOAT else Taint.NONE if exact else Taint.HAVOC
            low, high = (form.low, form.high) if form is not None else (None, None)
            return Scalar(run.symbols.fresh(name, level, taint, low, high), kind)
        case Truth():
            return Truth(run.symbols.fresh(name, level, Taint.DATA, boolean=True))
        case Items(items):
            return Items(tuple(like(run, item, name, level) for item in items))
        case Ratio():
            return Scalar(run.symbols.fresh(name, level, Taint.DATA), Kind.FLOAT)
    return value


def find(run: Run, this: Loop, walk_round: Callable[..., Round]) -> None:
    """Find the forms of everything the loop carries."""
    for _ in range(_PASSES):
        round_ = walk_round(run, this, record=False)
        if not _learn(run, this, round_):
            break
    else:
        for form in this.forms.values():
            if not form.fixed and form.delta is None:
                form.level = Level.THREAD
        this.alive_level = Level.THREAD
    loose = free(this)
    if loose:
        _orbit(run, this, loose, walk_round)
        rest = [name for name in loose if not (this.forms[name].exact and name in this.facts.names)]
        if rest:
            _ranges(run, this, rest, walk_round)
            _invariants(run, this, rest, walk_round)


def free(this: Loop) -> list[str]:
    """The integers without a closed form."""
    made = []
    for name in this.carried:
        form = this.forms[name]
        whole = isinstance(this.before.env[name], Scalar) and form.kind is Kind.INT
        if whole and not form.fixed and form.delta is None:
            made.append(name)
    return made


def any_free(this: Loop) -> bool:
    """Whether the loop carries an integer of which only invariants are known."""
    return any(not (this.forms[name].exact and name in this.facts.names) for name in free(this))


def _learn(run: Run, this: Loop, round_: Round) -> bool:
    """Improve the forms by one walked round; whether anything changed."""
    changed = _learn_arrays(run, this, round_)
    for name in this.carried:
        following = round_.after.env.get(name)
        head = round_.heads[name]
        form = this.forms[name]
        if isinstance(head, View | Choice) or following is None:
            continue
        if following is head or following == head:
            if form.delta is None and not form.fixed:
                form.fixed, changed = True, True
            continue
        if form.fixed:
            form.fixed, form.refused, changed = False, True, True
            continue
        changed |= _learn_scalar(run, form, head, following, round_)
    if round_.frame.exits:
        level = level_of(round_.frame.exits)
        if level > this.alive_level:
            this.alive_level, changed = level, True
        taints = {s.taint for s in closure(round_.frame.exits) if not s.name.startswith("alive")}
        this.alive_taint = Taint.HAVOC if Taint.HAVOC in taints else Taint.DATA if Taint.DATA in taints else Taint.HAVOC
    return changed


def _learn_scalar(run: Run, form: Form, head: Value, following: Value, round_: Round) -> bool:
    becomes_float = isinstance(following, Ratio) or (isinstance(following, Scalar) and following.kind is Kind.FLOAT)
    if becomes_float and form.kind is not Kind.FLOAT:
        form.kind, form.delta = Kind.FLOAT, None
        return True
    after = as_int(following)
    if isinstance(head, Scalar) and form.kind is Kind.INT and after is not None:
        delta = sub(after, head.term)
        invariant = all(s.order <= round_.mark for s in delta.symbols)
        if form.delta is None and not form.refused and invariant:
            form.delta = delta
            return True
        if form.delta is not None and delta is not form.delta:
            form.delta, form.refused = None, True
            return True
    if form.delta is None:
        level = level_of(terms_of(following))
        if level > form.level:
            form.level = level
            return True
    return False


def _learn_arrays(run: Run, this: Loop, round_: Round) -> bool:
    """Find array variables that rotate; anything else done to an array variable is a gap."""
    if this.arrays is not None:
        return False
    before = {name: value for name in this.carried if isinstance(value := this.before.env[name], View | Choice)}
    moved = {}
    for name in before:
        following = round_.after.env.get(name)
        moved[name] = next((other for other, value in before.items() if value == following), None)
    if all(source == name for name, source in moved.items()):
        return False
    views = {name: value for name, value in before.items() if isinstance(value, View)}
    sources = [source for source in moved.values() if source is not None]
    if len(set(sources)) != len(moved) or len(views) != len(before):
        run.gap("an array variable changes in this loop", this.node)
        return False
    turns = {name: [views[name]] for name in views}
    now = {name: name for name in views}
    period = 1
    while True:
        now = {name: moved[source] or source for name, source in now.items()}
        if all(source == name for name, source in now.items()) or period > 6:
            break
        for name, source in now.items():
            turns[name].append(views[source])
        period += 1
    this.arrays = Rotation(period, {name: tuple(options) for name, options in turns.items()})
    return True


def proves(run: Run, state: State, claim: Term, ms: int = 300) -> bool:
    """Whether `claim` holds wherever one thread gets to `state`."""
    if claim is TRUE:
        return True
    terms = [*state.path, state.live, neg(claim)]
    facts = [fact for symbol in closure(terms) for fact in symbol.facts]
    return run.solver.refutes([*terms, *facts], ms)


# Counters that are multiplied are followed up to here.
ENOUGH = 2**31 - 1


def _orbit(run: Run, this: Loop, free: list[str], walk_round: Callable[..., Round]) -> None:
    """Scalars that start at constants and whose next values depend on each other only."""
    round_ = walk_round(run, this, record=False)
    heads = {name: value.term for name in free if isinstance(value := round_.heads[name], Scalar)}
    following = {name: t for name in heads if (t := as_int(round_.after.env.get(name, Truth(TRUE)))) is not None}
    starts = {name: value_of(t) for name in heads if (t := as_int(this.before.env[name])) is not None}
    names = {name for name in heads if starts.get(name) is not None and name in following}
    while True:
        known = {heads[name].symbol for name in names}
        bad = {name for name in names if not following[name].symbols <= known}
        if not bad:
            break
        names -= bad
    if not names:
        return
    order = tuple(sorted(names))
    place = [starts[name] or 0 for name in order]
    seen: list[tuple[int, ...]] = []
    cyclic = ended = False
    for _ in range(_LONGEST_ORBIT):
        seen.append(tuple(place))
        mapping = {heads[name]: num(x) for name, x in zip(order, place, strict=True)}
        stop = not this.counted and substitute(round_.cond, mapping) is FALSE
        if stop or max(abs(x) for x in place) > ENOUGH:
            ended = True
            if not stop:
                # What a loop counts up to is taken to be no larger, which is listed.
                inputs = [s for s in closure([round_.cond]) if s.taint is Taint.INPUT and "Dim." not in s.name]
                run.followed |= {s.name for s in inputs if s.high is not None and s.high > ENOUGH}
            break
        values = [value_of(substitute(following[name], mapping)) for name in order]
        if any(v is None for v in values):
            return
        place = [v for v in values if v is not None]
        if tuple(place) in seen:
            cyclic = ended = True
            break
    if ended:
        this.facts.names, this.facts.orbit, this.facts.cyclic = order, tuple(seen), cyclic
        for name in order:
            this.forms[name].exact = True


def _ranges(run: Run, this: Loop, free: list[str], walk_round: Callable[..., Round]) -> None:
    """What a round leaves in a variable whatever it held, together with its start: `x = x * a % m` stays below m."""
    round_ = walk_round(run, this, record=False)
    for name in free:
        start, following = as_int(this.before.env[name]), as_int(round_.after.env.get(name, Truth(TRUE)))
        if start is None or following is None or name not in round_.after.env:
            continue
        form = this.forms[name]
        if start.low is not None and following.low is not None:
            form.low = min(start.low, following.low)
        if start.high is not None and following.high is not None:
            form.high = max(start.high, following.high)


def _invariants(run: Run, this: Loop, free: list[str], walk_round: Callable[..., Round]) -> None:
    """Keep the templates that hold at the start and survive one round."""
    starts = {name: t for name in free if (t := as_int(this.before.env[name])) is not None}
    at_start = {**starts, _ROUND: ZERO}
    templates: list[Template] = []
    for name, start in starts.items():
        templates += _one_variable(name, start)
    for first, second in combinations(starts, 2):
        templates += _two_variables(first, second, starts[first], starts[second])
    before = this.before
    kept = [t for t in templates if proves(run, before, t[1](*(at_start[name] for name in t[0])), 200)]
    for _ in range(5):
        this.facts.invariants = kept
        round_ = walk_round(run, this, record=False)
        survivors = []
        for template in kept:
            after = {**round_.after.env, _ROUND: Scalar(add(round_.counter, num(1)))}
            values = [as_int(v) for name in template[0] if (v := after.get(name)) is not None]
            terms = [v for v in values if v is not None]
            if len(terms) == len(template[0]) and proves(run, round_.after, template[1](*terms)):
                survivors.append(template)
        if len(survivors) == len(kept):
            return
        kept = survivors
    this.facts.invariants = []


def _one_variable(name: str, start: Term) -> list[Template]:
    made: list[Template] = [
        ((name,), lambda x: ge(x, start)),
        ((name,), lambda x: le(x, start)),
        ((name,), lambda x: ge(x, ZERO)),
        ((name,), lambda x: ge(x, num(1))),
        ((name, _ROUND), lambda x, k: le(x, add(start, k))),
    ]
    if value_of(start) in (0, 1):
        made.append(((name,), lambda x: conj(ge(x, ZERO), le(x, num(1)))))
    return made


def _two_variables(first: str, second: str, one: Term, two: Term) -> list[Template]:
    names = (first, second)
    return [
        (names, lambda x, y: eq(add(x, y), add(one, two))),
        (names, lambda x, y: eq(sub(x, y), sub(one, two))),
        (names, lambda x, y: le(x, y)),
        (names, lambda x, y: ge(x, y)),
        ((*names, _ROUND), lambda x, y, k: eq(add(x, y), add(add(one, two), k))),
    ]
