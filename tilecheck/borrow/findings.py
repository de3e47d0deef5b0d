"""What the solver found, as data: the rules word it.

Every finding has up to three points: where the borrow (move, work) began, where it is broken, where it is needed again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from tilecheck.diagnostic import Span


class Break(Enum):
    """How a path breaks the borrow rules."""

    ONE_CALL = "two arguments of one call share elements, one exclusively"
    HELD = "borrowed while an op holds it"
    IDLE = "borrowed exclusively while an older borrow is used later"
    READ_ONLY = "borrowed exclusively from a shared handle"
    BUILT = "used by the host while an op that is not run yet holds it"
    RUNNING = "used by the host while a running op holds it"
    MOVED_BUILT = "given away while an op that is not run yet holds it"
    MOVED_RUNNING = "given away while a running op holds it"
    MOVED_CAPTURED = "given away while a graph holds it"
    MOVED_IDLE = "given away while a borrow of it is used later"
    MOVED_VIEW = "given away through a view while its owner is still there"
    MOVED = "used after it was given away"
    TAKEN = "the output of a graph taken twice"
    SPENT = "an op used after it was run or became part of another"
    CAPTURED = "written, or borrowed exclusively, while a graph holds it"
    LENT = "written, borrowed exclusively or given away while another library has an array on it"
    COPY = "a host array used while a copy is in flight"
    UNORDERED = "used on two streams without an order"
    OWNER = "a view that does not own its memory is used after the owner died"
    FREED = "memory that dies while a stream still uses it"


@dataclass(frozen=True, slots=True)
class Broken:
    """One broken rule.

    `place` is the tensor in the user's words, `by` the use that breaks (`z.numpy()`), `holder` what stands in the way
    (the name of an op, a view, a stream), `named` whether that is a variable, `param` the parameter through which the
    holder holds it. `verb` completes `cannot ...` where several would do; `in_async` says that the host may `await`; `inner` is the place in
    a function that is read at its call, where that is what breaks; `ours` says that a call borrows whatever the body of the kernel does, `past`
    that the holder is of an earlier round of a loop.
    """

    kind: Break
    span: Span
    place: str
    by: str
    origin: Span | None = None
    holder: str = ""
    param: str = ""
    later: Span | None = None
    writes: bool = False
    named: bool = False
    verb: str = ""
    in_async: bool = False
    inner: Span | None = None
    ours: bool = False
    past: bool = False

    def rank(self) -> tuple[bool, Span, Span, bool, tuple[str, ...], bool]:
        """By what a finding is chosen among those of one kind at one place: their causes, in the order of the source."""
        texts = self.holder, self.param, self.by, self.verb, self.place
        return not self.past, self.origin or _LAST, self.later or _LAST, not self.named, texts, self.writes


_LAST = Span("\uffff", 0, 0, 0, 0)
