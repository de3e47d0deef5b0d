"""What a kernel must compute: the interpreter's answer, as the reference of a tuning run.

The interpreter is the meaning of a kernel. It runs on the host, on copies of every argument, so it knows nothing of the
generated code that is tuned. It is slow, so it is asked only up to a number of elements, all tensor arguments together; a
thread-level kernel is interpreted thread by thread, and has a lower one.

    >>> import tilecheck as tc
    >>> z, x = tc.zeros(1 << 20), tc.ones(1 << 20)                  # 2097152 elements: interpreted
"""

from __future__ import annotations

from math import prod

from tilecheck_runtime.backends import Array, Launch, Operand, default
from tilecheck_runtime.backends.cpu import CPU
from tilecheck_runtime.binding import ScalarArgument
from tilecheck_runtime.grants import grant
from tilecheck_runtime.launch import Plan
from tilecheck_runtime.loans import Access
from tilecheck_runtime.simt import SimtKernel
from tilecheck_runtime.tensor import from_host

# Elements of all tensor arguments of a launch that is interpreted.
ELEMENTS, SIMT_ELEMENTS = 1 << 22, 1 << 16


def too_large(plan: Plan) -> str | None:
    """Why a launch is not interpreted; None if it is."""
    limit = SIMT_ELEMENTS if isinstance(plan.kernel, SimtKernel) else ELEMENTS
    count = sum(prod(a.shape) for a in plan.tensors)
    return f"{count} elements are more than the {limit} that are interpreted" if count > limit else None


def on_the_device() -> bool:
    """Whether launches run in the interpreter anyway."""
    return default().name == CPU.name


def interpreted(plan: Plan) -> list[Array]:
    """What each argument that the kernel may write is afterwards, in order; the arguments stay as they are.

    Raises KernelStopped for a launch that fails a check, BorrowError while something writes an argument.
    """
    assert plan.grid is not None
    operands: dict[str, Operand | int | float | bool] = {}
    written = []
    for argument in plan.arguments:
        if isinstance(argument, ScalarArgument):
            operands[argument.param.name] = argument.value
            continue
        elements = argument.elements
        grant((elements.request(Access.READ, argument.loan, argument.name),), "`autotune`")
        copy = from_host(elements.memory.backend.download(elements.strided()), CPU)
        operands[argument.param.name] = Operand(copy._elements.strided(), argument.tile, argument.mapping)
        if argument.exclusive:
            written.append(copy)
    program = plan.kernel.program(CPU, plan.arguments, plan.dims)
    CPU.stream().submit(Launch(plan.name, program, operands, plan.grid), (), written).wait()
    return [copy.numpy() for copy in written]
