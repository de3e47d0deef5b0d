"""What safety costs: checked kernels against unchecked twins of themselves, and the cost of a check that must stay.

A twin is the same kernel compiled from a report without the checks that stay inside. Where everything was proved there are
none to leave out, and the two are the same code; that is compared as well as the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import tilecheck as tc
from benchmarks.device.measure import Bench
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
from tilecheck.ir.kernel import Kernel
from tilecheck.verify.tile import Argument, TileReport
from tilecheck_runtime import calls, kernels, specialise

NEAR = 0.997


class BM(Dim): ...


@tc.kernel
def shifted(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], by: int) -> None:
    """z = x from tile `by` on: an index that only the launch knows, so each block compares it."""
    z.store(x.partition(BM, pad=0)[tc.block_id(0) + by])


@tc.kernel(requires="0 <= by and by <= 1000000 and x.shape[0] >= z.shape[0] + by * BM")
def shifted_at_launch(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], by: int) -> None:
    """The same, with what keeps it in bounds compared by the launch."""
    z.store(x.partition(BM, pad=0)[tc.block_id(0) + by])


@contextmanager
def unchecked(kernel: Any) -> Iterator[None]:
    """Compile `kernel` without the checks that would stay inside it, in this block alone."""

    def bare(kernel: Kernel, dims: Mapping[str, int], opened: Mapping[str, Argument]) -> TileReport:
        return replace(checked(kernel, dims, opened), accesses=(), hoisted={})

    checked = specialise.checked
    calls.forget(kernel)
    specialise.checked = bare
    try:
        yield
    finally:
        specialise.checked = checked
        calls.forget(kernel)


def twins(bench: Bench, item: str, kernel: Any, build: Any, work: float, unit: str, target: float | None) -> None:
    """`build(z)` of the checked kernel and of its twin, on two outputs."""
    ours = bench.prepared(build(0))
    with unchecked(kernel):
        twin = bench.prepared(build(1))
    wanted = {} if target is None else {"unchecked twin": target}
    bench.compare(item, ours, {"unchecked twin": twin}, work=work, unit=unit, at_least=wanted, rounds=41)


def run(bench: Bench) -> None:
    torch = bench.torch
    n, columns = 1 << 28, 8192
    x = torch.randn(n + 2048, device="cuda")
    outputs = [torch.empty(n, device="cuda") for _ in range(2)]
    zs, (xs, head) = bench.tensors(*outputs), bench.tensors(x, x[:n])
    twins(
        bench, "add f32 2^28", kernels.add,
        lambda side: kernels.add(zs[side].partition(2048), head, head), 12 * n, "TB/s", NEAR,
    )  # fmt: skip
    twins(
        bench, "a check in every block: shifted copy f32 2^28", shifted,
        lambda side: shifted(zs[side].partition(2048), xs, 1), 8 * n, "TB/s", None,
    )  # fmt: skip
    twins(
        bench, "the same check made by the launch", shifted_at_launch,
        lambda side: shifted_at_launch(zs[side].partition(2048), xs, 1), 8 * n, "TB/s", NEAR,
    )  # fmt: skip
    a, b = (torch.randn(columns, columns, device="cuda", dtype=torch.float16) for _ in range(2))
    both = bench.tensors(a, b)
    squares = bench.tensors(*(torch.empty(columns, columns, device="cuda") for _ in range(2)))
    twins(
        bench, f"gemm f16 {columns}", kernels.gemm,
        lambda side: kernels.gemm.where(BK=64)(squares[side].partition(128, 128), *both),
        2 * columns**3, "TFLOP/s", NEAR,
    )  # fmt: skip
    embedding(bench)


def embedding(bench: Bench) -> None:
    """A token is data, so its comparison stays: one a block."""
    torch = bench.torch
    count, width, rows = 16384, 4096, 100_000
    table = torch.randn(rows, width, device="cuda", dtype=torch.float16)
    tokens = torch.randint(0, rows, (count,), device="cuda", dtype=torch.int32)
    outputs = [torch.empty(count, width, device="cuda", dtype=torch.float16) for _ in range(2)]
    zs, given = bench.tensors(*outputs), bench.tensors(table, tokens)
    ours = bench.prepared(kernels.embedding(zs[0].partition(1, width), *given))
    with unchecked(kernels.embedding):
        twin = bench.prepared(kernels.embedding(zs[1].partition(1, width), *given))
    bench.close("embedding", outputs[0], table[tokens], 1e-6)
    nbytes = 2 * outputs[0].nbytes
    peers = {
        "unchecked twin": twin,
        "copy": bench.copy_of(nbytes),
        "torch": lambda: torch.nn.functional.embedding(tokens, table),
    }
    bench.compare(f"embedding f16, {count} of {width}", ours, peers, work=nbytes, unit="TB/s")
