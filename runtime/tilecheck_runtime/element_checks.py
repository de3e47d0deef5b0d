"""What `requires` says of array elements, checked right before a launch.

Elements change as ops run, so this cannot be decided when the op is built, as shapes are: the check waits for everything
that the launch comes after, reads the arrays and looks at every element. It fails closed, and what it costs is that wait,
a copy from the device, and time in proportion to the elements (`distinct` may have to sort them), at every launch. While it
looks, the launch holds its borrows, so nobody changes the arrays between the check and the kernel.

Where the program vouches for the elements, an op that is built inside of `with tc.unsafe("reason"):` is launched without a
look. A graph cannot look before each of its replays, so it records only such ops.

    scatter(z, x, perm).sync()
    LaunchRefused: `scatter` needs `distinct(perm)`: elements 2 and 5 of `perm` are both 7
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilecheck.interp.contents import broken
from tilecheck.symbolic.contents import ElementFact
from tilecheck.symbolic.linear import Atom, LaunchAxis, Unresolved
from tilecheck.verify.tile_conditions import resolver
from tilecheck_runtime.backends import Array, Grid, default
from tilecheck_runtime.binding import ScalarArgument, TensorArgument
from tilecheck_runtime.errors import LaunchRefused, OpError
from tilecheck_runtime.execution import Execution
from tilecheck_runtime.simt import SimtKernel

if TYPE_CHECKING:
    from tilecheck_runtime.launch import Plan


def check_elements(plan: Plan, grid: Grid, execution: Execution) -> None:
    """Check the facts of a launch that is about to be queued. Raises LaunchRefused for the first one that does not hold,
    OpError (capture) where nothing can be looked at.
    """
    facts = plan.facts
    if not facts:
        return
    if execution.records:
        raise OpError(
            f"`{plan.name}` needs `{facts[0].text}`, which a graph cannot check before each replay",
            'launch it on its own, or vouch for the elements: build the op inside `with tc.unsafe("reason"):`',
            rule="capture",
        )
    execution.reach()
    shapes = {a.param.name: a.shape for a in plan.tensors}
    scalars = {a.param.name: a.value for a in plan.arguments if isinstance(a, ScalarArgument)}
    rest = resolver(shapes, scalars, plan.dims, grid)

    def value(atom: Atom) -> int:
        if isinstance(atom, LaunchAxis) and atom.kind == "blockDim" and isinstance(plan.kernel, SimtKernel):
            return plan.kernel.block[atom.axis]
        return rest(atom)

    read = {a.param.name: default().download(a.elements.strided()) for a in plan.tensors if _spoken_of(a, facts)}
    for fact in facts:
        wrong = _why_not(fact, read, value)
        if wrong is not None:
            raise LaunchRefused(
                f"`{plan.name}` needs `{fact.text}`: {wrong}",
                f"pass a `{fact.array}` for which it holds; the proof of the kernel rests on it",
                rule="launch-contract",
            )


def _spoken_of(argument: TensorArgument, facts: tuple[ElementFact, ...]) -> bool:
    return any(fact.array == argument.param.name for fact in facts)


def _why_not(fact: ElementFact, read: dict[str, Array], value: Callable[[Atom], int]) -> str | None:
    """Why `fact` does not hold, None if it does."""
    if fact.array not in read:
        return f"`{fact.array}` is no array at this launch"
    try:
        return broken(fact, read[fact.array], value)
    except Unresolved as missing:
        return f"it cannot be checked: {missing}"
