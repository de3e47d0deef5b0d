"""Which arrays hold, when a kernel is launched, what earlier launches have counted in them.

A launch that adds to an array leaves a mark on the window that it got; host code that writes the array takes the mark
off, and so does a kernel that may have set it back. Where paths meet, the marks of all of them are kept.

Invariant: an array that an earlier launch was seen to add to on some path, and that nothing was seen to write since, is
marked on that path.

Worked example: of two launches `count_in[4, 32](c)` in a row the second one finds `c` marked; with `c[:] = 0` or
`c.copy_to_device(zeros)` between them it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tilecheck.frontend.kernel_counters import Left
from tilecheck.frontend.launch_effects import arrays_in
from tilecheck.frontend.launch_memory import HostMemory
from tilecheck.frontend.launch_objects import Counted, Marks
from tilecheck.frontend.scopes import FunctionValue, Resolve, parameters
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import HostArray, overlap

# What a kernel leaves in the arrays that it counts in.
LeftBy = Callable[[FunctionValue], Mapping[str, Left]]


class HostCounters(HostMemory):
    """The marks of a run, by buffer."""

    def __init__(self, source: Source, resolve: Resolve, left_by: LeftBy) -> None:
        super().__init__(source, resolve)
        self.left_by = left_by
        self.marks: Marks = {}

    def count(self, kernel: FunctionValue, arguments: Sequence[object]) -> dict[str, Left]:
        """Launch `kernel`: the parameters that get what was counted in before, and what was left there."""
        if not self.marks and "atomic" not in kernel.scope.source.text:
            return {}
        named = dict(zip((param.name.value for param in parameters(kernel.node)), arguments, strict=False))
        found = {name: left for name, value in named.items() if (left := self._counted(value)) is not None}
        for name, left in self.left_by(kernel).items():
            if left is Left.OPEN:
                self.set_again(named.get(name))
                continue
            self.mark(named.get(name), left)
        return found

    def mark(self, value: object, left: Left) -> None:
        """The arrays in `value` hold something else than zeros."""
        for window in arrays_in(value):
            marks = (*self.marks.get(window.buffer, ()), Counted(window, left))
            self.marks = {**self.marks, window.buffer: tuple(dict.fromkeys(marks))}

    def set_again(self, *values: object) -> None:
        """Host code or a kernel has written the arrays in `values`."""
        if self.marks:
            written = {array.buffer for value in values for array in arrays_in(value)}
            self.marks = {buffer: marks for buffer, marks in self.marks.items() if buffer not in written}

    def _counted(self, value: object) -> Left | None:
        left = {mark.left for array in arrays_in(value) for mark in self._met(array)}
        return Left.LOWERED if Left.LOWERED in left else Left.RAISED if left else None

    def _met(self, array: HostArray) -> Iterator[Counted]:
        """The marks on what `array` shows; windows that cannot be told apart, as those of different rounds, do not meet."""
        for mark in self.marks.get(array.buffer, ()):
            placed = array.offset is not None and mark.window.offset is not None
            if placed and overlap(replace(array, host=False), replace(mark.window, host=False)) is not False:
                yield mark


def joined(versions: Sequence[Marks]) -> Marks:
    """The marks of all of several paths."""
    buffers = {buffer: () for marks in versions for buffer in marks}
    return {
        buffer: tuple(dict.fromkeys(mark for marks in versions for mark in marks.get(buffer, ()))) for buffer in buffers
    }
