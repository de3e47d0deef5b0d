"""What a tile kernel takes of a GPU, without one: registers, spills, shared memory, and how many blocks fit at once.

The kernel is compiled by numba-cuda for given Dims and dtypes, as for contiguous arrays at aligned addresses whose extents
the tiles divide. How many blocks a multiprocessor holds is the least of what its threads, its registers and its shared
memory allow; the arithmetic is that of the CUDA programming guide ("Compute capabilities"): registers are given to warps
in units of 256, to each quarter of the multiprocessor apart, and a block takes 1 KiB of shared memory for the system.

    report, key = assume(kernel, {"BM": 1, "BN": 4096, "N": 4096}, {"Real": "f16"})
    taken(report, key, "sm_90").limits[1]    # Limit("registers", 8, "16384 // (64 x 32) x 4 // 4 warps")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, NoReturn

from tilecheck.ir.kernel import Access, Kernel, TensorParam
from tilecheck.surface.dtypes import DTYPES
from tilecheck.symbolic.linear import Atom, Unresolved
from tilecheck.verify.tile import Argument, TileReport, check_kernel
from tilecheck.verify.tile_dtypes import either, open_dtypes
from tilecheck_runtime.backends.numba_cuda import installed
from tilecheck_runtime.errors import UsageError
from tilecheck_runtime.specialise import Key, TensorKey

WARP: Final = 32
_REGISTERS: Final = 65536
_QUARTERS: Final = 4
_UNIT: Final = 256
_RESERVED: Final = 1024
# Of a multiprocessor, by compute capability: threads, blocks, bytes of shared memory.
MULTIPROCESSORS: Final[Mapping[tuple[int, int], tuple[int, int, int]]] = {
    (7, 5): (1024, 16, 64 << 10),
    (8, 0): (2048, 32, 164 << 10),
    (8, 6): (1536, 16, 100 << 10),
    (8, 9): (1536, 24, 100 << 10),
    (9, 0): (2048, 32, 228 << 10),
    (10, 0): (2048, 32, 228 << 10),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """How many blocks of the kernel one resource of a multiprocessor holds, and the arithmetic."""

    resource: str
    blocks: int
    arithmetic: str


@dataclass(frozen=True, slots=True)
class Taken:
    """What one block takes on `architecture`: `registers` and `spilled` bytes a thread, `static` and `dynamic` bytes of
    shared memory. `limits` is empty for an architecture whose numbers are not known here.
    """

    architecture: str
    threads: int
    registers: int
    spilled: int
    static: int
    dynamic: int
    limits: tuple[Limit, ...]

    @property
    def limit(self) -> Limit | None:
        """The resource that holds the fewest blocks."""
        return min(self.limits, key=lambda limit: limit.blocks, default=None)


def missing() -> str | None:
    """What this machine lacks for compiling, None if nothing."""
    lacking = installed.missing()
    return (
        None if lacking is None else f'{lacking} is not installed: `pip install "tilecheck[cuda]"` brings the compiler'
    )


def capability_of(architecture: str) -> tuple[int, int]:
    """`sm_90` as (9, 0). Raises UsageError for what is no architecture that the compiler knows."""
    known = {f"sm_{major}{minor}": (major, minor) for major, minor in _architectures()}
    if architecture not in known:
        raise UsageError(
            f"`{architecture}` is no architecture that can be compiled for", f"known are {', '.join(known)}"
        )
    return known[architecture]


def _architectures() -> Sequence[tuple[int, int]]:
    """Those that the installed compiler says it knows; without one those whose limits are known here."""
    try:
        _, numbers = import_module("cuda.bindings.nvrtc").nvrtcGetSupportedArchs()
    except (ImportError, RuntimeError):  # no bindings, no library
        return tuple(MULTIPROCESSORS)
    return [divmod(number, 10) for number in numbers]


def assume(kernel: Kernel, sizes: Mapping[str, int], dtypes: Mapping[str, str]) -> tuple[TileReport, Key]:
    """The kernel checked for Dims of these sizes and for these dtypes, of a type variable or a parameter, by name; and the
    key of a launch with contiguous, aligned arrays.

    Raises UsageError for what is missing or unknown, for a kernel with faults, and for Dims that no launch can have.
    """
    refuse_unknown(kernel, sizes, dtypes)
    dims = dict(_dims(kernel, sizes))
    opened = dict(_opened(kernel, dtypes))
    report = check_kernel(kernel, dims, opened)
    wrong = [fault for fault in report.faults if fault.rule != "partial-coverage"]
    if wrong:
        raise UsageError(f"`{kernel.name}` is refused for these extents and dtypes: {wrong[0].message}")
    for condition in report.conditions:
        refusal = condition.surely_broken(_of_a_launch)
        if refusal is not None:
            raise UsageError(f"every launch with these extents is refused, {refusal.message}")
    params = report.kernel.params
    arguments = tuple(_tensor_key(p) if isinstance(p, TensorParam) else None for p in params)
    return report, Key("numba-cuda", tuple(sorted(dims.items())), arguments)


def _of_a_launch(atom: Atom) -> NoReturn:
    """The value of what no Dim decides."""
    raise Unresolved(f"`{atom}` is not known before a launch")


def refuse_unknown(kernel: Kernel, sizes: Mapping[str, int], dtypes: Mapping[str, str]) -> None:
    """Raises UsageError for a Dim, a type variable or a dtype that the kernel has not, with those that it has."""
    wanted = [decl.name for decl in kernel.dims.values() if decl.size is None]
    for name in sizes:
        if name not in wanted:
            known = ", ".join(f"`{n}`" for n in wanted) or "none"
            raise UsageError(f"`{kernel.name}` has no open extent `{name}`", f"its open extents: {known}")
    groups = {name: group for group in open_dtypes(kernel) for name in (group.shown.strip("`"), *group.params)}
    for name, dtype in dtypes.items():
        if name not in groups:
            known = ", ".join(group.shown for group in open_dtypes(kernel)) or "none"
            raise UsageError(f"`{kernel.name}` has no open dtype `{name}`", f"its open dtypes: {known}")
        if dtype not in DTYPES or dtype not in groups[name].among:
            raise UsageError(f"`{name}` of `{kernel.name}` is no {dtype}", f"it is {either(groups[name].among)}")


def _dims(kernel: Kernel, sizes: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    wanted = {decl.name: key for key, decl in kernel.dims.items() if decl.size is None}
    unbound = [name for name in wanted if name not in sizes]
    if unbound:
        given = " ".join(f"--dim {name}=128" for name in unbound)
        names = " and ".join(f"`{name}`" for name in unbound)
        raise UsageError(
            f"{names} of `{kernel.name}` {'have' if len(unbound) > 1 else 'has'} no value", f"give it: {given}"
        )
    for name, size in sizes.items():
        yield wanted[name], size


def _opened(kernel: Kernel, dtypes: Mapping[str, str]) -> Iterator[tuple[str, Argument]]:
    rank = {p.name: p.extents for p in kernel.params if isinstance(p, TensorParam)}
    for name, extents in rank.items():
        if extents is None:
            raise UsageError(f"the rank of `{name}` is open", "annotate its extents, or measure a launch of it")
    for group in open_dtypes(kernel):
        given = [dtypes[name] for name in (group.shown.strip("`"), *group.params) if name in dtypes]
        if not given:
            name = group.shown.strip("`")
            raise UsageError(
                f"the dtype {group.shown} of `{kernel.name}` is open", f"give it: --dtype {name}={group.among[0]}"
            )
        for name in group.params:
            yield name, Argument(given[0], len(rank[name] or ()))


def _tensor_key(param: TensorParam) -> TensorKey:
    rank = len(param.extents or ())
    mapped = (8, 1, 1)[:rank] if param.access is Access.MAPPED else None
    return TensorKey(str(param.dtype), rank - 1, 16, (1 << 16,) * rank, (*((16,) * (rank - 1)), 1), mapped)


def taken(report: TileReport, key: Key, architecture: str) -> Taken:
    """Compile for `architecture`. Raises UsageError, and what the compiler raises for what it does not take."""
    from tilecheck_runtime.backends.numba_cuda.specialise import compile_for

    capability = capability_of(architecture)
    lowered, binary = compile_for(report, key, capability)
    used = binary.resources
    limits = _limits(capability, lowered.threads, used.registers, used.shared + lowered.shared)
    return Taken(
        architecture, lowered.threads, used.registers, used.spilled, used.shared, lowered.shared, tuple(limits)
    )


def _limits(capability: tuple[int, int], threads: int, registers: int, shared: int) -> Iterator[Limit]:
    if capability not in MULTIPROCESSORS:
        return
    most_threads, most_blocks, most_shared = MULTIPROCESSORS[capability]
    yield Limit("threads", most_threads // threads, f"{most_threads} // {threads}")
    warps, quarter = -(-threads // WARP), _REGISTERS // _QUARTERS
    unit = -(-registers * WARP // _UNIT) * _UNIT
    shared_out = f"{quarter} // {unit} x {_QUARTERS} // {warps} warp{'' if warps == 1 else 's'}"
    yield Limit("registers", quarter // unit * _QUARTERS // warps, shared_out)
    whole = shared + (_RESERVED if capability >= (8, 0) else 0)
    if whole:
        yield Limit("shared memory", most_shared // whole, f"{most_shared} // {whole}")
    yield Limit("blocks", most_blocks, f"{most_blocks} at most")
