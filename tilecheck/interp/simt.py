"""Runs a SIMT kernel on NumPy arrays, thread by thread, and says what went wrong.

All threads of the launch live at once as generators; a seeded scheduler picks who runs next and lets it go on until
it waits or may be overtaken. Block, warp and grid barriers release their threads when all have come; when nobody can
go on, the barrier that somebody missed is reported and released, so a run always ends. Memory reports races,
stray indices and unset shared elements (`simt_memory`), ordered by vector clocks (`clocks`): a race is found in
whatever order the two accesses happened to run.

Worked example: `run(kernel, {"x": np.zeros(8)}, (1, 1, 1), (8, 1, 1))` for `x[0] = threadIdx.x` gives one fault of kind
`race` on `x`, index (0,), by two threads, `same_value` False.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilecheck.interp.clocks import meet, meet_all
from tilecheck.interp.simt_compile import Program, compile_kernel
from tilecheck.interp.simt_faults import Extents, Kind, Party, SimtFault, SimtRun, noticed
from tilecheck.interp.simt_machine import Block, Gone, Machine, Thread, TooLong, coordinates
from tilecheck.interp.simt_warps import Lanes, warp_results
from tilecheck.ir.kernel import Const, Kernel, Node, Unary
from tilecheck.ir.simt import Atomic, Load, Store, SubArray

# Threads alive at once, and scheduling steps without one finishing before more are let in.
WINDOW = 2048
PATIENCE = 20_000
# A thread that gave way n times without changing anything is passed over n times before its next step, at most so often:
# who spins at a lock leaves the steps to its holder.
MOST_WAITS = 15
# What generated code may raise where numba's types would have refused the kernel, or a value is not known.
MISFITS = (TypeError, ValueError, ArithmeticError, AttributeError, LookupError)


def run(
    kernel: Kernel | Program,
    arguments: Mapping[str, object],
    grid: Extents,
    block: Extents,
    *,
    dynamic_shared: int = 0,
    seed: int = 0,
    constants: Mapping[str, object] | None = None,
    max_steps: int = 20_000_000,
    track: bool = True,
    blocks: Sequence[int] | None = None,
    deadline: float | None = None,
) -> SimtRun:
    """Run one launch; array arguments are changed in place.

    `arguments` maps every parameter to a NumPy array, a number or a tuple; `dynamic_shared` is in bytes; `seed` picks
    the schedule. A run that takes more than `max_steps` loop rounds stops with a `too-long` fault. With `track=False`
    races and unset shared memory go unnoticed, for kernels proved to have none. With `blocks` only those blocks run, by
    number, x fastest: the beginning of a run in which the others have not started yet. Past `deadline` (of
    `time.process_time`) the run stops with a `too-long` fault too. Raises ValueError for an argument that is missing.
    """
    program = kernel if isinstance(kernel, Program) else compile_kernel(kernel)
    machine = Machine(
        program, arguments, dynamic_shared, dict(constants or {}), max_steps, literal_wraps(program), track, deadline
    )
    order = list(range(math.prod(grid)) if blocks is None else blocks)
    return _Run(program, machine, grid, block, random.Random(seed), order).go()


@dataclass
class _Run:
    """One launch in progress: who may run, who waits where."""

    program: Program
    machine: Machine
    grid: Extents
    block: Extents
    random: random.Random
    order: list[int]
    faults: list[SimtFault] = field(default_factory=list)
    told: set[tuple[object, ...]] = field(default_factory=set)
    blocks: list[Block] = field(default_factory=list)
    ready: list[Thread] = field(default_factory=list)
    at_grid: list[Thread] = field(default_factory=list)
    left: Thread | None = None
    alive: int = 0
    idle: int = 0

    def go(self) -> SimtRun:
        self.body = self.program.make(self.machine)
        self.values = self.machine.bound()
        self.width = math.prod(self.block)
        total = len(self.order) * self.width
        self.random.shuffle(self.order)
        try:
            with np.errstate(all="ignore"):
                if self.program.waits:
                    self._schedule()
                else:
                    self._straight()
        except TooLong:
            self.faults.append(SimtFault("too-long", (), "stopped after too many loop rounds"))
        self.faults.extend(noticed(self.machine.watch, self._at))
        return SimtRun(tuple(self.faults), tuple(sorted(self.machine.reasons)), total)

    # ---- scheduling

    def _straight(self) -> None:
        """Run every thread from end to end: none waits for another."""
        for number in self.order:
            threads = self._block(number).threads
            self.random.shuffle(threads)
            for thread in threads:
                self.machine.keep_time()
                try:
                    self.body(thread, *self.values)
                except Gone:
                    continue
                except MISFITS as misfit:
                    self.machine.inexact(f"a value of a kind that does not fit: {misfit}")

    def _block(self, number: int) -> Block:
        place = coordinates(number, self.grid)
        home = Block(number, place, self.width)
        own = [0] * self.width
        home.threads = [
            Thread(home, lane, coordinates(lane, self.block), self.grid, self.block, own) for lane in range(self.width)
        ]
        return home

    def _admit(self, threads: int) -> None:
        """Let blocks start until at least `threads` threads are alive: as on a device, not all are there at once."""
        while self.order and self.alive < threads:
            home = self._block(self.order.pop())
            self.blocks.append(home)
            self.alive += self.width
            self.ready.extend(home.threads)
            for thread in home.threads:
                thread.program = self.body(thread, *self.values)

    def _schedule(self) -> None:
        self.window = len(self.order) * self.width if self.program.meets_grid else WINDOW
        pick = self.random.random
        while True:
            self._admit(self.window)
            ready = self.ready
            while ready:
                place = int(pick() * len(ready))
                thread = ready[place]
                if thread.waits:
                    thread.waits -= 1
                    continue
                ready[place] = ready[-1]
                ready.pop()
                self._step(thread)
            if not self._unstick() and not self.order:
                return

    def _step(self, thread: Thread) -> None:
        program = thread.program
        assert program is not None
        reply = thread.reply
        try:
            event = program.send(reply)
        except (StopIteration, Gone):
            self._leave(thread)
            return
        except MISFITS as misfit:
            self.machine.inexact(f"a value of a kind that does not fit: {misfit}")
            self._leave(thread)
            return
        thread.reply = None
        self.machine.tick()
        if event is None:
            thread.yields = min(thread.yields + 1, MOST_WAITS)
            thread.waits = thread.yields
            self.ready.append(thread)
            self.idle += 1
            if self.idle % PATIENCE == 0:  # they may be waiting for a block that has not started
                self._admit(self.alive + 1)
            return
        thread.event = event
        kind = event[0]
        home = thread.home
        if kind == 1:
            home.waiting.append(thread)
            if len(home.waiting) == home.alive:
                self._release_block(home)
        elif kind == 3:
            self.at_grid.append(thread)
            if len(self.at_grid) == self.alive:
                self._release_grid()
        else:
            lanes = thread.lanes
            lanes.waiting.append(thread)
            if kind != 5:
                self._try_lanes(lanes, thread)

    def _leave(self, thread: Thread) -> None:
        home = thread.home
        thread.gone = True
        self.alive -= 1
        home.alive -= 1
        home.left = self.left = thread
        if home.alive == 0:
            self.blocks.remove(home)
            self._admit(self.window)
        if home.waiting and len(home.waiting) == home.alive:
            self._release_block(home)
        if self.at_grid and len(self.at_grid) == self.alive:
            self._release_grid()
        for waiting in list(thread.lanes.waiting):
            if waiting in thread.lanes.waiting and waiting.event[0] != 5:
                self._try_lanes(thread.lanes, waiting)

    def _unstick(self) -> bool:
        """Nobody can run: let masks settle, then report the barrier that was missed. False when all are done."""
        if self.alive == 0:
            return False
        for block in self.blocks:
            for lanes in block.warps:
                group = [t for t in lanes.waiting if t.event[0] == 5]
                if group:
                    first = group[0].event[1]
                    self._free_lanes(lanes, [t for t in group if t.event[1] == first])
                    return True
        for block in self.blocks:
            for lanes in block.warps:
                if lanes.waiting:
                    first_thread = lanes.waiting[0]
                    group = [t for t in lanes.waiting if t.event[:2] == first_thread.event[:2]]
                    self._warp_fault(first_thread, lanes)
                    self._free_lanes(lanes, group)
                    return True
        for block in self.blocks:
            if block.waiting:
                other = next(t for t in block.threads if not t.gone and t not in block.waiting)
                self._divergence(block.waiting[0], other)
                self._free_block(block)
                return True
        self._release_grid()
        return True

    # ---- barriers

    def _release_block(self, block: Block) -> None:
        first = block.waiting[0]
        other = next((t for t in block.waiting if t.event[1] != first.event[1]), None)
        if other is not None:
            self._divergence(first, other)
        elif block.left is not None:
            self._divergence(first, block.left)
        self._free_block(block)

    def _free_block(self, block: Block) -> None:
        group, block.waiting = block.waiting, []
        meet(group)
        asked = [t.event[2] for t in group if t.event[2] is not None]
        if asked:
            truths = [bool(value) for _, value in asked]
            answers = {"count": sum(truths), "and": int(all(truths)), "or": int(any(truths))}
            for thread in group:
                thread.reply = answers[thread.event[2][0]] if thread.event[2] is not None else None
        self.ready.extend(group)

    def _release_grid(self) -> None:
        group, self.at_grid = self.at_grid, []
        if not group:
            return
        first = group[0]
        other = next((t for t in group if t.event[1] != first.event[1]), None)
        present = set(group)
        elsewhere = next((t for b in self.blocks for t in b.threads if t not in present), self.left)
        absent = other if other is not None else elsewhere
        if absent is not None:
            self._divergence(first, absent)
        by_block: dict[int, list[Thread]] = {}
        for thread in group:
            by_block.setdefault(thread.block, []).append(thread)
        meet_all(list(by_block.values()))
        self.ready.extend(group)

    def _divergence(self, waits: Thread, other: Thread) -> None:
        node = self._node(waits)
        if ("divergent", id(node)) in self.told:
            return
        self.told.add(("divergent", id(node)))
        parties: tuple[Party, ...] = (self._party(waits, node),)
        if other.gone:
            detail = f"{self._party(other, node)} has left the kernel"
        elif self._node(other) is node:
            detail = f"{self._party(other, node)} waits there in another round of the loop"
            parties = (*parties, self._party(other, node))
        else:
            parties = (*parties, self._party(other, self._node(other)))
            detail = f"{parties[1]} waits at line {parties[1].node.span.line}"
        self.faults.append(SimtFault("divergent-barrier", parties, detail))

    # ---- warps

    def _try_lanes(self, lanes: Lanes, thread: Thread) -> None:
        """Release the lanes that meet `thread`, if all that its mask names are there."""
        mask = thread.lane_mask()
        if not mask >> thread.lane_id & 1:
            self._warp_fault(thread, lanes)
            self._free_lanes(lanes, [thread])
            return
        named = _lanes(mask)
        alike = [t for t in lanes.waiting if t.event[:2] == thread.event[:2] and t.lane_mask() == mask]
        present = {t.lane_id: t for t in alike if t.lane_id in named}
        missing = [lane for lane in named if lane not in present]
        if any(lane < len(lanes.threads) and not lanes.threads[lane].gone for lane in missing):
            return
        if any(lane < len(lanes.threads) or thread.event[0] != 2 or thread.event[2] is not None for lane in missing):
            self._warp_fault(thread, lanes)
        self._free_lanes(lanes, list(present.values()))

    def _free_lanes(self, lanes: Lanes, group: list[Thread]) -> None:
        lanes.waiting = [t for t in lanes.waiting if t not in group]
        if group[0].event[0] == 2:
            meet(group)
        else:
            for thread, value, valid in warp_results(group, lanes):
                thread.reply = value
                if not valid:
                    self._warp_fault(thread, lanes)
        self.ready.extend(group)

    def _warp_fault(self, thread: Thread, lanes: Lanes) -> None:
        node = self._node(thread)
        if ("warp", id(node)) in self.told:
            return
        self.told.add(("warp", id(node)))
        arrived = sorted(t.lane_id for t in lanes.waiting if t.event[:2] == thread.event[:2])
        detail = f"the mask names lanes {_ranges(_lanes(thread.lane_mask()))}, lanes {_ranges(arrived)} arrive"
        self.faults.append(SimtFault("warp-sync", (self._party(thread, node),), detail))

    # ---- reports

    def _node(self, thread: Thread) -> Node:
        site: int = thread.event[1][0]
        return self.program.sites[site]

    def _party(self, thread: Thread, node: Node) -> Party:
        return Party(thread.home.place, thread.place, node)

    def _at(self, block: int, lane: int, site: int) -> Party:
        return Party(coordinates(block, self.grid), coordinates(lane, self.block), self.program.sites[site])


def _lanes(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


def _ranges(lanes: list[int]) -> str:
    """`0-3, 7` of [0, 1, 2, 3, 7]."""
    parts: list[str] = []
    start = 0
    while start < len(lanes):
        end = start
        while end + 1 < len(lanes) and lanes[end + 1] == lanes[end] + 1:
            end += 1
        parts.append(str(lanes[start]) if start == end else f"{lanes[start]}-{lanes[end]}")
        start = end + 1
    return ", ".join(parts) or "none"


def literal_wraps(program: Program) -> frozenset[int]:
    """The sites whose negative index is written as a literal, `x[-1]`: there it is meant."""
    return frozenset(
        number
        for number, node in enumerate(program.sites)
        if isinstance(node, Load | Store | Atomic | SubArray) and all(_literal(part) for part in _negatives(node.index))
    )


def _negatives(index: tuple[Node, ...]) -> list[Node]:
    return [part for part in index if not (isinstance(part, Const) and isinstance(part.value, int) and part.value >= 0)]


def _literal(node: Node) -> bool:
    if isinstance(node, Unary):
        return isinstance(node.operand, Const)
    return isinstance(node, Const)


__all__ = ["Extents", "Kind", "Party", "SimtFault", "SimtRun", "run"]
