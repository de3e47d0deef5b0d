"""The launches of annotated kernels that the checked files show, against what the kernel needs.

A contract (`requires=`) and the conditions of a proof are enforced before each launch; where the numbers stand in the
file, a launch that cannot go on is said so at once. What is not readable is left to the run time.

Worked example: `requires="a.size >= n * stride"` and a launch with 64 elements, n = 32 and stride = 3 gives
"`k` needs `a.size >= n * stride`: `a.size` is 64, `n * stride` is 96" at the launch. Numbers are not cut to 64 bits. What is
required of array elements is looked up where the file writes them down, up to 65536 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.frontend.launches import Launch
from tilecheck.interp.contents import broken as broken_by
from tilecheck.interp.simt_machine import host_values
from tilecheck.ir.host_array import HostArray
from tilecheck.ir.kernel import Kernel
from tilecheck.ir.types import ArrayExtent
from tilecheck.symbolic.contents import ElementFact
from tilecheck.symbolic.linear import Atom, LaunchAxis, Scalar, Size, Unresolved
from tilecheck.symbolic.requires import Comparison, Requirement, RequiresError, parse, requirements, vocabulary

_MOST_ELEMENTS = 1 << 16


def broken(kernel: Kernel, launches: Sequence[Launch], conditions: Sequence[str]) -> Iterator[Fault]:
    """The launches that break the contract of an annotated kernel or one of `conditions`, one fault each."""
    goals: list[Requirement] = list(requirements(kernel))
    for text in conditions:
        try:
            goals.extend(parse(text, vocabulary(kernel)))
        except RequiresError:
            continue
    for launch in launches:
        message = next((words for goal in goals if (words := _refused(kernel, launch, goal)) is not None), None)
        if message is not None:
            label = Label(kernel.span, f"`{kernel.name}` is declared here")
            help = "change the arguments, or what the kernel requires"
            yield Fault("launch-contract", message, launch.span, kernel.name, (label,), help)


def _refused(kernel: Kernel, launch: Launch, goal: Requirement) -> str | None:
    """What is wrong with `launch`, None if `goal` holds or may hold."""
    value = partial(number, launch)
    if not isinstance(goal, Comparison):
        wrong = _broken(launch, goal, value)
        return None if wrong is None else f"`{kernel.name}` needs `{goal.text}`: {wrong}"
    try:
        return None if goal.holds(value) else f"`{kernel.name}` needs `{goal.text}`: {goal.shown(value)}"
    except Unresolved:
        return None


def _broken(launch: Launch, fact: ElementFact, value: Callable[[Atom], int]) -> str | None:
    """Which elements of `launch` break `fact`, None if none does, or they do not stand in the file."""
    array = launch.arguments.get(fact.array)
    if not isinstance(array, HostArray) or array.size is None or array.size > _MOST_ELEMENTS:
        return None
    elements = host_values(array)
    try:
        return None if elements is None else broken_by(fact, elements, value)
    except Unresolved:
        return None


def number(launch: Launch, atom: Atom) -> int:
    """The value of `atom` in a launch. Raises `Unresolved` if the file does not show it."""
    found: object = None
    match atom:
        case Scalar(name):
            found = launch.arguments.get(name)
        case Size(name):
            array = launch.arguments.get(name)
            found = array.size if isinstance(array, HostArray) else None
        case ArrayExtent(name, axis):
            array = launch.arguments.get(name)
            extents = array.shape if isinstance(array, HostArray) else None
            found = extents[axis] if extents is not None and axis < len(extents) else None
        case LaunchAxis("gridDim", axis):
            found = launch.grid[axis]
        case LaunchAxis("blockDim", axis):
            found = launch.block[axis]
    if isinstance(found, int):
        return found
    raise Unresolved(str(atom))
