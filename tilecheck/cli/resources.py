"""`tilecheck explain FILE::KERNEL --resources`: what a tile kernel takes of a GPU, compiled here without one.

Apart from `explain.py`, which never loads a compiler. Whatever keeps the report from being made is one line: no toolkit, an
extent or dtype that is not given, a kernel that is refused for what is given. A name that there is not ends the command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tilecheck.cli.check import counted
from tilecheck.cli.ending import CannotRun
from tilecheck.ir.kernel import Kernel

if TYPE_CHECKING:
    from tilecheck_runtime.resources import Taken

DEFAULT = ("sm_90",)


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for: architectures, sizes of Dims, dtypes of type variables or parameters, by name."""

    architectures: tuple[str, ...]
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]

    @property
    def assumed(self) -> str:
        """What the report holds for."""
        given = ", ".join(f"{name}={value}" for name, value in (*self.sizes.items(), *self.dtypes.items()))
        return f"contiguous, aligned arrays whose extents the tiles divide{f'; {given}' if given else ''}"


def measured(kernel: Kernel, asked: Asked) -> tuple[list[Taken], str | None]:
    """What the kernel takes on each architecture, or why that cannot be said. Raises `CannotRun` for what is asked of an
    architecture, a Dim or a dtype that there is not.
    """
    if kernel.track != "tile":
        return (
            [],
            "numba compiles a thread-level kernel from its live function: ask `kernel.get_regs_per_thread()` there",
        )
    try:
        resources = import_module("tilecheck_runtime.resources")
    except ModuleNotFoundError as error:
        return [], f'`{error.name}` is not installed: `pip install "tilecheck[cuda]"` brings the compiler'
    errors = import_module("tilecheck_runtime.errors")
    try:
        resources.refuse_unknown(kernel, asked.sizes, asked.dtypes)
        for architecture in asked.architectures:
            resources.capability_of(architecture)
    except errors.UsageError as error:
        raise CannotRun(_in_a_line(error)) from None
    missing = resources.missing()
    if missing is not None:
        return [], str(missing)
    words, compiling = (import_module(f"tilecheck_runtime.backends.numba_cuda.{name}") for name in _RAISING)
    try:
        report, key = resources.assume(kernel, asked.sizes, asked.dtypes)
        return [resources.taken(report, key, each) for each in asked.architectures], None
    except (errors.UsageError, errors.LaunchRefused) as error:
        return [], _in_a_line(error)
    except (words.NoLowering, compiling.CompileFailed) as error:
        return [], str(error)


_RAISING = ("lowering", "compile")


def _in_a_line(error: Exception) -> str:
    return str(error).replace("\nhelp: ", "; ")


def text(found: Sequence[Taken], reason: str | None, asked: Asked) -> str:
    """The report in words."""
    return "\n".join(_lines(found, reason, asked))


def _lines(found: Sequence[Taken], reason: str | None, asked: Asked) -> Iterator[str]:
    yield ""
    if reason is not None:
        yield f"resources: not known, {reason}"
        return
    yield f"resources through numba-cuda, for {asked.assumed}:"
    for each in found:
        spilled = f"{each.spilled} bytes spilled" if each.spilled else "nothing spilled"
        shared = f"{each.static} bytes of static and {each.dynamic} of dynamic shared memory"
        yield f"  {each.architecture}  {each.threads} threads, {each.registers} registers a thread, {spilled}, {shared}"
        if each.limit is None:
            yield "    how many blocks fit is not known for this architecture"
            continue
        threads = each.limit.blocks * each.threads
        blocks = counted(each.limit.blocks, "block")
        yield f"    {blocks} a multiprocessor, {threads} threads, limited by {each.limit.resource}:"
        width = max(len(limit.resource) for limit in each.limits)
        for limit in each.limits:
            yield f"      {limit.resource:<{width}}  {limit.blocks:>3} = {limit.arithmetic}"


def values(found: Sequence[Taken], reason: str | None, asked: Asked) -> dict[str, Any]:
    """The report as JSON values."""
    architectures = [{**asdict(each), "blocks": None if each.limit is None else each.limit.blocks} for each in found]
    return {"assumed": asked.assumed, "reason": reason, "architectures": architectures}
