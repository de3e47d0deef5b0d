"""Loops of host code: run round by round where their length is known, else as any of their rounds.

Invariant: what is known after a loop holds however many rounds it made and whichever `break` left it.

Worked example: after `for _ in range(n): a, b = b, a` each of `a` and `b` is one of the two arrays that they were.
"""

from abc import abstractmethod

import libcst as cst

from tilecheck.frontend.launch_effects import (
    any_item,
    arrays_in,
    made_of,
)
from tilecheck.frontend.launch_kernels import FUEL
from tilecheck.frontend.launch_objects import Stop
from tilecheck.frontend.launch_states import HostStates, Loop, State, assigned_names, same, settled
from tilecheck.frontend.scopes import UNKNOWN
from tilecheck.ir.host_array import HostArray, Stranger

_MAX_ROUNDS = 64
# With less left, a loop is no longer run round by round.
_ENOUGH_FOR_LOOPS = FUEL // 8
# Rounds of a loop after which what it may do to values from outside is known.
_ROUNDS_TO_SETTLE = 3


class HostLoops(HostStates):
    """Rounds of loops."""

    @abstractmethod
    def suite(self, body: object) -> None:
        """Run statements."""

    def _round(self, body: object) -> bool:
        """One round of a loop body; False if it left the loop for good."""
        loop = self.loops[-1]
        loop.continues = []
        try:
            self.suite(body)
        except Stop as stop:
            if stop.kind == "break":
                loop.breaks.append(self.snapshot())
                return False
            if stop.kind != "continue":
                raise
        if loop.continues:
            self.merge(self.snapshot(), *loop.continues)
        return True

    def _leave(self, *, completed: bool) -> None:
        """Leave the innermost loop: by its end if `completed`, or by any of its breaks."""
        loop = self.loops.pop()
        states = [*loop.breaks, self.snapshot()] if completed else loop.breaks
        self.merge(*states)

    def run_for(self, node: cst.For) -> None:
        sequence = self.value(node.iter)
        known = isinstance(sequence, tuple | list | range) and len(sequence) <= _MAX_ROUNDS
        if not known or self.fuel < _ENOUGH_FOR_LOOPS or not isinstance(sequence, tuple | list | range):
            self._unknown_loop(node, node.body.body, sequence)
            return
        self.loops.append(Loop())
        completed = True
        for item in list(sequence):
            self.store(node.target, item)
            completed = self._round(node.body.body)
            if not completed:
                break
        self._leave(completed=completed)

    def run_while(self, node: cst.While) -> None:
        """A `while` whose condition stays known runs for real, for a while."""
        self.loops.append(Loop())
        for _ in range(_MAX_ROUNDS if self.fuel >= _ENOUGH_FOR_LOOPS else 0):
            test = self.value(node.test)
            if not (test is None or isinstance(test, int | float | str)):
                break
            if not test:
                self._leave(completed=True)
                return
            if not self._round(node.body.body):
                self._leave(completed=False)
                return
        self._leave(completed=True)
        self._unknown_loop(node, node.body.body)

    def _unknown_loop(self, node: cst.For | cst.While, body: object, sequence: object = UNKNOWN) -> None:
        """Run a body as any of its rounds: of what the loop may change only the memory is known in it and after it.

        A variable that a round assigns may hold, at the start of any round, what it held before the loop or after a
        round. Variables whose arrays only trade places hold different ones at any time. Where a second round adds to
        what they hold, the last one starts from all that any of them holds.
        """
        changed, attributes = assigned_names(node)
        self.taint(*(v for at in self.stack for v in at.names.values() if isinstance(v, HostArray | list)))
        slots, launches = self.slots(changed, attributes), len(self.seen)
        start = [self.fresh(self.held_by(slot)) for slot in slots]
        known: list[object] = [v if isinstance(v, HostArray | Stranger) else made_of(v) for v in start]
        exits: list[State] = []
        born = HostArray(None).buffer
        for number in range(_ROUNDS_TO_SETTLE):
            del self.seen[launches:]
            for slot, value in zip(slots, known, strict=True):
                self.put(slot, value)
            self.loops.append(Loop())
            try:
                if isinstance(node, cst.For):
                    self.store(node.target, self._item(node.iter, sequence))
                again = self._round(body)
            except Stop:
                again = False
            finally:
                exits += self.loops.pop().breaks
            after = [self.held_by(slot) for slot in slots] if again else known
            before, known = known, settled(known, after, first=number == 0)
            grown = [at for at, value in enumerate(known) if not _reach(value, born) <= _reach(before[at], born)]
            if number and not grown:
                break
            if number:
                everything = [known[at] for at in grown]
                known = [made_of(*everything) if at in grown else value for at, value in enumerate(known)]
        for slot, value in zip(slots, known, strict=True):
            left = [ended for state in exits if not same(value, ended := state.held_by(slot))]
            self.put(slot, made_of(value, *left) if left else value)

    def _item(self, node: cst.BaseExpression, sequence: object) -> object:
        """What any round of a loop over `node` gets."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and self.is_builtin(node.func.value):
            items = [any_item(self.value(argument.value)) for argument in node.args]
            if node.func.value == "zip":
                return tuple(items)
            if node.func.value == "enumerate" and items:
                return (UNKNOWN, items[0])
        return any_item(sequence)


def _reach(value: object, born: int) -> frozenset[int]:
    """The buffers that `value` reaches, those made after `born` aside."""
    return frozenset(array.buffer for array in arrays_in(value) if array.buffer < born)
