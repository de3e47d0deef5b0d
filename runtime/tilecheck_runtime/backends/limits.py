"""What a device cannot hold, said before the driver is asked: every refusal shows the arithmetic.

`histogram` needs 65536 + 1024 bytes of shared memory a block, NVIDIA T4 has 65536
`sweep` needs 168 registers x 512 threads = 86016, NVIDIA H200 has 65536 a block
`relax` starts 600 blocks that wait for each other, NVIDIA H200 holds 264 at once: 2 x 132 multiprocessors
"""

from __future__ import annotations

from tilecheck_runtime.backends import Grid
from tilecheck_runtime.driver import Device, Function
from tilecheck_runtime.errors import LaunchRefused


def hold(device: Device, kernel: str, function: Function, threads: int, shared: int) -> None:
    """Let a block of `function` have `threads` threads and `shared` bytes of dynamic shared memory. Raises LaunchRefused."""
    limits, static = device.limits, function.shared_bytes
    if threads > limits.threads_per_block:
        raise LaunchRefused(
            f"`{kernel}` has {threads} threads a block, {device.name} has {limits.threads_per_block} at most",
            "use fewer threads",
        )
    if shared + static > limits.shared_opt_in:
        needed = f"{shared} + {static}" if static else f"{shared}"
        raise LaunchRefused(
            f"`{kernel}` needs {needed} bytes of shared memory a block, {device.name} has {limits.shared_opt_in}",
            "use smaller tiles",
        )
    if function.registers * threads > limits.registers_per_block:
        raise LaunchRefused(
            f"`{kernel}` needs {function.registers} registers x {threads} threads = {function.registers * threads}, "
            f"{device.name} has {limits.registers_per_block} a block",
            "use fewer threads",
        )
    if shared + static > limits.shared_per_block:
        function.allow_shared(shared)


def hold_at_once(device: Device, kernel: str, function: Function, block: Grid, shared: int, grid: Grid) -> None:
    """Raise LaunchRefused if the blocks of a launch wait for each other and the device does not hold all of them at once."""
    per_multiprocessor = function.resident(block[0] * block[1] * block[2], shared)
    blocks, most = grid[0] * grid[1] * grid[2], per_multiprocessor * device.limits.multiprocessors
    if blocks > most:
        raise LaunchRefused(
            f"`{kernel}` starts {blocks} blocks that wait for each other, {device.name} holds {most} at once: "
            f"{per_multiprocessor} x {device.limits.multiprocessors} multiprocessors",
            f"start at most {most} blocks, each of which takes more than one part" if most else "use smaller blocks",
        )
