"""The instructions of the flow IR: the single steps that one function does to tensors, operations and streams.

Variables are strings, the user's names or temporaries that start with `%`; what they name are *objects*, each made at a
`Site`. Two variables that name one object are one place. Fields (`.buf`) and constant subscripts (`[0]`) of objects are
slots of their own; what goes into a container at an unknown place goes into its bag.

Invariant: an instruction says what happens, never whether that is allowed; `borrow/effects.py` applies it to a state and
finds what it breaks. In which order instructions run is `ir/flow.py`'s.

Worked example. `op = copy(z.partition(128), x); op.sync()` is

    Borrow("%0", "z", EXCLUSIVE, site)       # the partition
    Build("%1", site, (Use("%0", EXCLUSIVE, ...), Use("x", SHARED, ...)))
    Bind("op", "%1")
    Finish("op")
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from tilecheck.diagnostic import Span

Var = str

END = 1 << 62
"""The upper bound of `8:`, beyond every extent; `-1` is `END - 1`, counted from wherever the end is."""


@dataclass(frozen=True, slots=True)
class Range:
    """`start:stop:step` along one axis; None for a bound that is not a known number."""

    start: int | None = 0
    stop: int | None = END
    step: int | None = 1


ALL = Range()


@dataclass(frozen=True, slots=True)
class Region:
    """A part of an allocation: ranges of its leading axes, and the cuts (of `split`) behind which it lies, by their sides.

    Axes count in the coordinates of `frame`: the allocation's own ones (None), or those of one reshape.
    """

    axes: tuple[Range, ...] = ()
    frame: int | None = None
    cuts: tuple[tuple[int, int], ...] = ()


WHOLE = Region()

ANY = "[*]"
"""The slot of a container that stands for each of its elements, after a loop that did the same to all of them."""

OVER = ".over"
"""The slot of a container, naming itself, in which an array lies that no copy is filling any more."""


Shown = Literal["none", "not none", "true", "false"]
"""What a test can show of a name."""


class Hold(StrEnum):
    """How a borrow holds what it borrows."""

    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class Ending(StrEnum):
    """How an op ends that is not run; the value completes `it is ... here`."""

    GIVEN_UP = "given up"
    COMPILED = "compiled"


class Touch(StrEnum):
    """How host code uses an object: its memory, that of all that is in it (`EACH`), or only what is known without it (a
    shape). A test that looks (`ASK`) is what an op may be built for.
    """

    READ = "read"
    EACH = "each"
    WRITE = "write"
    LOOK = "look"
    ASK = "ask"


class Kind(StrEnum):
    """What an object is, as far as the rules ask."""

    TENSOR = "tensor"
    VIEW = "view"
    PARTITION = "partition"
    OP = "op"
    SHARED_OP = "shared op"
    RUNNING = "running"
    GRAPH = "graph"
    OUTPUT = "output of a graph"
    STREAM = "stream"
    GIVEN_STREAM = "stream of the caller"
    EVENT = "event"
    HOST = "host array"
    PINNED = "pinned array"
    DEVICE = "device array"
    FOREIGN = "foreign tensor"
    RAW = "raw view"
    JOB = "job"
    NONE = "None"
    CONTAINER = "container"
    OTHER = "value"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Where objects are made; `name` is what the user would call one. `scope` is the graph scope around, as written, and
    `in_async` says that the function around can `await`; `inner` as in `Instr`.
    """

    kind: Kind
    name: str
    span: Span
    scope: str = ""
    in_async: bool = False
    inner: Span | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Instr:
    """`inner` is where the instruction stands in a function that is read at a call of it, which is `span`: itself, or a call
    there whose body is read in turn.
    """

    span: Span
    inner: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Make(Instr):
    """`into` names a new object."""

    into: Var
    site: Site


@dataclass(frozen=True, slots=True, eq=False)
class Bind(Instr):
    """`into` names what `src` names."""

    into: Var
    src: Var


@dataclass(frozen=True, slots=True, eq=False)
class Unbind(Instr):
    """`var` names nothing any more."""

    var: Var


@dataclass(frozen=True, slots=True, eq=False)
class Idle(Instr):
    """Code that matters to nobody, but may raise."""


@dataclass(frozen=True, slots=True, eq=False)
class Put(Instr):
    """The slot `field` of `base` holds `src`; with `field` None it goes into the bag."""

    base: Var
    field: str | None
    src: Var


@dataclass(frozen=True, slots=True, eq=False)
class Get(Instr):
    """`into` names what the slot `field` of `base` holds, a new object of `site` if nothing is known of it; with the
    field `ANY`, an element at an unknown place, which has been moved if all elements have.
    """

    into: Var
    base: Var
    field: str
    site: Site


@dataclass(frozen=True, slots=True, eq=False)
class Escape(Instr):
    """Code that is not read gets hold of `src`: it may run, wait for, or keep what it finds there."""

    src: Var


@dataclass(frozen=True, slots=True, eq=False)
class Assume(Instr):
    """A test has shown that `src` is `what`: paths on which it cannot be end here. A test is no use of what it names."""

    src: Var
    what: Shown


@dataclass(frozen=True, slots=True, eq=False)
class Decide(Instr):
    """A test has shown whether the condition `key` holds: paths on which it came out the other way before end here."""

    key: str
    holds: bool


@dataclass(frozen=True, slots=True, eq=False)
class Forget(Instr):
    """What the condition `key` asks about was set: it may come out either way."""

    key: str


@dataclass(frozen=True, slots=True, eq=False)
class Clobber(Instr):
    """Code that is not read runs: it may rebind the variables of outer scopes, use captured ones and wait for streams."""


@dataclass(frozen=True, slots=True, eq=False)
class Borrow(Instr):
    """`into` is a view (SHARED) or a partition (EXCLUSIVE) of a part of `src`: the ranges `part`, one side of a split
    (`side`), or all of it in new coordinates (`reshape`).

    `renews` says that a run time would invalidate older borrows here: a partition of something known to be a tensor.
    """

    into: Var
    src: Var
    hold: Hold
    site: Site
    part: tuple[Range, ...] = ()
    side: tuple[int, int] | None = None
    reshape: int | None = None
    renews: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Move(Instr):
    """The memory of `src` is given away by `by` (`z.into_partition(128)`, `f(z)`), there as the parameter `param`."""

    src: Var
    by: str
    param: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Access(Instr):
    """Host code uses `src`; `by` says how in the user's words (`z.numpy()`)."""

    src: Var
    touch: Touch
    by: str


@dataclass(frozen=True, slots=True)
class Use:
    """One argument of a launch or of a call that borrows.

    `apart` is the one index under which a plain kernel touches the argument, if there is only one: two arguments that
    are exactly the same elements and are touched under the same index do not conflict, each thread keeps to its own.
    """

    src: Var
    hold: Hold
    span: Span
    text: str
    param: str
    apart: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Build(Instr):
    """`into` is a lazy op of `callee` that holds its `uses`."""

    into: Var
    site: Site
    uses: tuple[Use, ...]
    callee: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Lend(Instr):
    """A call borrows `uses` while it runs; `into`, if any, is a new object that goes on borrowing them: until its last
    use, or, for another library's array on that memory (`lent`), as long as it exists. `given` are the arguments that it
    takes over: the moves that follow check them, here they only must not be lent to the same call.
    """

    uses: tuple[Use, ...]
    callee: str
    into: Var | None = None
    site: Site | None = None
    lent: bool = False
    given: tuple[Use, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Combine(Instr):
    """`into` is an op made of the ops `srcs`, which are used up by it. What a function of the file makes of them
    (`kept`) may be run by that function, so that it is no op that nobody runs.
    """

    into: Var
    site: Site
    srcs: tuple[Var, ...]
    kept: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Start(Instr):
    """`into` is the running form of the op `src`, on `stream`; None for one that the run time picks. A round of prepared
    work (`repeats`) keeps everybody else off, ops included, until that work is waited for.
    """

    into: Var
    site: Site
    src: Var
    stream: Var | None = None
    repeats: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Finish(Instr):
    """The op or running `src` is run, if need be, on `stream` if that is known, and waited for. With `waits` it runs
    already, and has been waited for also where that raises what went wrong on the device. With `ends` the op is used up
    without being run: it is given up, or compiled.
    """

    src: Var
    stream: Var | None = None
    waits: bool = False
    ends: Ending | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Capture(Instr):
    """The op `src` becomes part of the graph `graph`, which holds what it held; of a scope, once that is over."""

    graph: Var
    src: Var


@dataclass(frozen=True, slots=True, eq=False)
class Seal(Instr):
    """The recording of `graph` is over: from now on it holds what it captured."""

    graph: Var


@dataclass(frozen=True, slots=True, eq=False)
class Replay(Instr):
    """`into` is an op that holds what `graph` holds; if `prepared`, work that is ready to be repeated."""

    into: Var
    site: Site
    graph: Var
    prepared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Enqueue(Instr):
    """Plain work (a numba launch, an asynchronous copy) is put on `stream`, None for the default one, which waits for
    every other stream and which every other stream waits for. `blocking` work is over when the call returns.
    """

    site: Site
    stream: Var | None
    uses: tuple[Use, ...]
    blocking: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class SyncStream(Instr):
    """The host waits for what is on `stream`, None for all streams."""

    stream: Var | None


@dataclass(frozen=True, slots=True, eq=False)
class Record(Instr):
    """`event` stands for the work that is on `stream` now."""

    event: Var
    stream: Var | None


@dataclass(frozen=True, slots=True, eq=False)
class WaitEvent(Instr):
    """Later work on `stream` comes after what `event` stands for."""

    stream: Var | None
    event: Var


@dataclass(frozen=True, slots=True, eq=False)
class WaitStream(Instr):
    """Later work on `stream` comes after what is on `other` now."""

    stream: Var | None
    other: Var | None


@dataclass(frozen=True, slots=True, eq=False)
class SyncEvent(Instr):
    """The host waits for what `event` stands for."""

    event: Var


@dataclass(frozen=True, slots=True, eq=False)
class Keep(Instr):
    """The memory of `src` outlives the work that uses it (`record_stream`)."""

    src: Var


@dataclass(frozen=True, slots=True, eq=False)
class Leave(Instr):
    """The function returns, with `value` if any: its locals die."""

    value: Var | None
