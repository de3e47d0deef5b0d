"""What a forked process finds, which has one thread and the memory of its parent as it was.

On the CPU: everything that was submitted is over before the fork, and every stream gets a worker of its own, so tensors, ops and
streams go on in both processes, each with its own copy. On a GPU: nothing, since the driver does not survive a fork; every
use of the device is refused in our words, and what is dropped is left to the parent. A process that forks before its first
use of the GPU has one of its own.

Locks other than that of the ledgers are not looked after: a thread that launches while another one forks may leave its
launcher locked in the child.
"""

from __future__ import annotations

import os

from tilecheck_runtime import driver
from tilecheck_runtime.backends import cpu
from tilecheck_runtime.ledger import LOCK


def _before() -> None:
    cpu.settle()
    LOCK.acquire()


def _in_child() -> None:
    LOCK.release()
    cpu.restart()
    driver.leave_behind()


def register() -> None:
    """Look after forks of this process from now on."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=LOCK.release, after_in_child=_in_child)
