"""A specialised tile kernel to one readable numba-cuda module.

One line of the module is one tile op: tiles are tuples in registers, scalars are int64 and float64, control flow is the
user's.

    def saxpy(z, z_n0, z_s0, x, x_n0, x_s0, ..., a, g0, g1, g2, fault):
        b0, b1, b2 = int64(uint32(cuda.blockIdx.x)), int64(0), int64(0)
        t_0 = load_f32_0(x, (x_n0,), (1,), (b0,))
        t_1 = multiply_0(a, t_0)
        ...
        store_f32_0(z, (z_n0,), (1,), (b0,), t_3)

Invariant: every statement is uniform over the block, so barriers inside ops are met by all threads; a failed check makes
the whole block return after noting kernel line and block in the fault record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from tilecheck.ir.kernel import Name, OpCall, ScalarParam, TensorParam, walk
from tilecheck.ir.types import TileType
from tilecheck.verify.tile import TileReport
from tilecheck_runtime.backends.numba_cuda.lowering import Lowering
from tilecheck_runtime.backends.numba_cuda.pipeline import Depth, depths
from tilecheck_runtime.backends.numba_cuda.plan import Facts
from tilecheck_runtime.errors import LaunchRefused


@dataclass(frozen=True, slots=True)
class Lowered:
    """Generated code: `formats` has a letter per parameter (see `driver.Packed`), `shared` is in bytes. `identity` tells
    kernels with the same text but other layouts, facts or maps apart. `accelerated` code runs on no other architecture
    than the one it was made for, not even a later one. `in_row`: its blocks are numbered along one axis (see `blocks`).
    """

    name: str
    source: str
    namespace: Mapping[str, object]
    identity: str
    formats: str
    parameters: tuple[str, ...]
    threads: int
    resident: int
    shared: int
    checks: bool
    accelerated: bool
    in_row: bool


# A block has 65,536 registers, and some tiles never stand in them whole.
MOST_ELEMENTS: Final = 1 << 19
_SCALAR_FORMAT = {"int": "q", "float": "d", "bool": "?"}


def lower(
    report: TileReport,
    facts: Mapping[str, Facts],
    *,
    maps: Mapping[str, tuple[int, ...]] | None = None,
    threads: int | None = None,
    resident: int | None = None,
    capability: tuple[int, int] = (8, 0),
    warpgroups: bool = True,
    in_row: bool = False,
) -> Lowered:
    """The generated module of a kernel whose `report` is that of a specialisation. `facts` has an entry per tensor
    parameter, `maps` the group shape of each mapped one. Raises `NoLowering` for what this backend does not compile.

    `threads` of a block and `resident` blocks of a multiprocessor replace the plan's choice. Loads run ahead as far as the shared memory of `capability` allows. `warpgroups` may compute the products where the
    device has them. `in_row` is for grids that are too long for the hardware's own axes.
    """

    def attempt(depth: Depth) -> tuple[Lowering, bool]:
        low = Lowering(report, facts, maps or {}, threads, depth, warpgroups and capability == (9, 0), capability)
        row = low.block_ids(in_row)
        low.body(report.kernel.body)
        low.settle_places()
        return low, row

    _refuse_giants(report)
    _refuse_newer(report, facts, capability)
    low, row = attempt(Depth(2, 1) if capability >= (8, 0) else Depth(0, 1))
    if low.stagings:
        for depth in depths(low.plan.resident):
            low, row = attempt(depth)
            if depth.fits(capability, low.out.shared_bytes):
                break
    low.plan.resident = min(resident or low.plan.resident, 2048 // low.plan.threads)
    return _lowered(low, row)


def _refuse_giants(report: TileReport) -> None:
    """Raise LaunchRefused for a tile that no block could hold: its text alone would take the compiler's memory."""
    for kind in report.types.values():
        elements = prod(e for e in kind.shape if isinstance(e, int)) if isinstance(kind, TileType) else 0
        if elements > MOST_ELEMENTS:
            raise LaunchRefused(
                f"`{report.kernel.name}` has a tile of {elements:,} elements (`{kind}`), a block holds {MOST_ELEMENTS:,} at "
                "most",
                "use smaller tiles",
            )


def _refuse_newer(report: TileReport, facts: Mapping[str, Facts], capability: tuple[int, int]) -> None:
    """Raise LaunchRefused for what only later architectures have instructions for, which the assembler would not say."""
    dtypes = {kind.dtype.name for kind in report.types.values() if isinstance(kind, TileType)}
    dtypes |= {known.dtype for known in facts.values()}
    added = {facts[call.args[0].id].dtype for call in _additions(report) if isinstance(call.args[0], Name)}
    needs = [(f"{dtype} numbers", (8, 9)) for dtype in sorted(dtypes) if dtype.startswith("f8")]
    needs += [("`atomic_add` of bf16", (9, 0))] if "bf16" in added else []
    for what, first in needs:
        if capability < first:
            raise LaunchRefused(
                f"`{report.kernel.name}` has {what}, which need sm_{first[0]}{first[1]} or later; this is "
                f"sm_{capability[0]}{capability[1]}",
                "use another dtype, such as f16 or f32",
                rule="unsupported",
            )


def _additions(report: TileReport) -> Iterator[OpCall]:
    for node in walk(*report.kernel.body):
        if isinstance(node, OpCall) and node.op == "atomic_add":
            yield node


def _lowered(low: Lowering, in_row: bool) -> Lowered:
    kernel, facts = low.kernel, low.facts
    parameters: list[str] = []
    formats = ""
    for param in kernel.params:
        name = low.variable(param.name)
        if isinstance(param, TensorParam):
            rank = facts[param.name].rank
            parameters += [name, *(f"{name}_n{a}" for a in range(rank)), *(f"{name}_s{a}" for a in range(rank))]
            formats += "P" + "q" * (2 * rank)
        elif isinstance(param, ScalarParam):
            parameters.append(name)
            formats += _SCALAR_FORMAT[param.kind or "int"]
    parameters += ["g0", "g1", "g2", "fault"]
    formats += "qqqP"
    function = kernel.name
    head = f"def {function}({', '.join(parameters)}):"
    source = "\n".join([head, *low.out.lines, ""])
    import math

    from numba import cuda, float64, int64, uint32

    namespace = {
        **low.out.namespace,
        "cuda": cuda,
        "int64": int64,
        "uint32": uint32,
        "float64": float64,
        "math": math,
        "inf": float("inf"),
        "nan": float("nan"),
    }
    return Lowered(
        function,
        source,
        namespace,
        repr((low.out.identity(), sorted(facts.items()), sorted(low.maps.items()))),
        formats,
        tuple(parameters),
        low.plan.threads,
        low.depth.resident if low.stagings else low.plan.resident,
        low.out.shared_bytes,
        low.checks,
        bool(low.plan.grouped),
        in_row,
    )
