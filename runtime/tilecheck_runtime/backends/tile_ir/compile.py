"""cuTile text to a cubin, offline: neither a GPU nor a driver is needed, only `tileiras` from `cuda-tile[tileiras]`.

Arrays are passed as cuTile's calling convention 1 has it: address, extents, strides. Extents and strides are 32-bit where
they fit, which the specialisation key knows.
"""

from __future__ import annotations

import io
import linecache
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilecheck.ir.kernel import Kernel, TensorParam
from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends.tile_ir.lower import Lowered
from tilecheck_runtime.backends.tile_ir.words import CT_DTYPE


class NotInstalled(Exception):
    """The `cuda-tile` package or its compiler is missing."""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What the compiler may rely on for one array: `divisor` per axis of the extent, address and strides in elements."""

    dtype: str
    rank: int
    wide: bool
    unit: bool
    address_divisor: int
    extent_divisors: tuple[int, ...]
    stride_divisors: tuple[int, ...]


# The fault record: one 64-bit word.
FAULT = ArrayFacts("i64", 1, False, True, 8, (1,), (1,))


@dataclass(frozen=True, slots=True)
class Hints:
    """Launch hints of cuTile; None leaves the choice to the compiler."""

    num_ctas: int | None = None
    occupancy: int | None = None
    num_worker_warps: int | None = None


def compile_cubin(
    lowered: Lowered,
    kernel: Kernel,
    facts: Mapping[str, ArrayFacts],
    scalars: Mapping[str, str],
    architecture: str,
    hints: Hints = Hints(),
) -> tuple[bytes, str]:
    """The cubin for `architecture` (such as `sm_90`) and its entry symbol. `scalars` names each scalar's dtype.

    Raises `NotInstalled` without `cuda-tile`; cuTile's own errors pass through, they would be bugs of the lowering.
    """
    key = disk_cache.key_of(
        "tile-ir", lowered.source, [(n, facts[n]) for n in sorted(facts)], sorted(scalars.items()), architecture, hints
    )
    kept = disk_cache.read(key)
    if kept is not None:
        return kept, lowered.name
    try:
        import cuda.tile as ct
        from cuda.tile import compilation
    except ImportError:
        raise NotInstalled("the tile-ir backend needs `cuda-tile`: `pip install 'tilecheck[tile-ir]'`") from None
    file = f"<tilecheck tile-ir {lowered.name} {abs(hash(lowered.source)):x}>"
    linecache.cache[file] = (len(lowered.source), None, lowered.source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"ct": ct, "math": math}
    exec(compile(lowered.source, file, "exec"), scope)
    options = {
        name: value
        for name, value in (
            ("num_ctas", hints.num_ctas),
            ("occupancy", hints.occupancy),
            ("num_worker_warps", hints.num_worker_warps),
        )
        if value is not None
    }
    constraints: list[Any] = []
    for param in kernel.params:
        if isinstance(param, TensorParam):
            constraints.append(_array(ct, compilation, facts[param.name]))
        else:
            constraints.append(compilation.ScalarConstraint(getattr(ct, CT_DTYPE[scalars[param.name]])))
    if lowered.checks:
        constraints.append(_array(ct, compilation, FAULT))
    signature = compilation.KernelSignature(
        constraints, compilation.CallingConvention.cutile_python_v1(), symbol=lowered.name
    )
    out = io.BytesIO()
    compilation.export_kernel(
        ct.kernel(scope[lowered.name], **options), [signature], out, gpu_code=architecture, output_format="cubin"
    )
    disk_cache.write(key, out.getvalue())
    return out.getvalue(), lowered.name


def _array(ct: Any, compilation: Any, facts: ArrayFacts) -> Any:
    return compilation.ArrayConstraint(
        getattr(ct, CT_DTYPE[facts.dtype]),
        facts.rank,
        index_dtype=ct.int64 if facts.wide else ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[None] * (facts.rank - 1) + [1 if facts.unit else None],
        stride_divisible_by=_whole(facts.stride_divisors),
        shape_divisible_by=_whole(facts.extent_divisors),
        base_addr_divisible_by=facts.address_divisor,
    )


def _whole(divisors: Sequence[int]) -> tuple[int, ...]:
    return tuple(max(d, 1) for d in divisors)
