"""What is told of the mistakes of the first hour: the first line, and a way out that can be pasted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numba import cuda

import tilecheck as tc
from tests import launch_kernels as kernels
from tilecheck.check import check_text
from tilecheck.cli import group
from tilecheck.judge import Options
from tilecheck.modules import Modules

PROGRAM = """import numpy as np
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class BM(Dim): ...


@tc.kernel
def k(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn], a: float) -> None:
    z.store(tc.load_like(x, z) * a)


def main() -> None:
    z, x = tc.zeros(1000), tc.ones(1000)
    k(z.partition(128), x, 2.0).sync()
"""
THREADS = """import tilecheck as tc
from numba import cuda
from tilecheck import Dyn, Mut, Shared, Tensor, f32


@tc.simt(block=256)
def k(z: Tensor[Mut, f32, Dyn], x: Tensor[Shared, f32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < z.size and i < x.size:
        z[i] = x[i]


def main() -> None:
    z, x = tc.zeros(1000), tc.ones(1000)
    k(z.partition(256), x).sync()
"""
BODY = "z.store(tc.load_like(x, z) * a)"


def told(program: str, old: str, new: str) -> list[tuple[str, str | None]]:
    """What is said of the program with one mistake in it; it is silent without."""
    assert not check_text("f.py", program, Modules(), Options()).diagnostics
    assert program.count(old) >= 1
    found = check_text("f.py", program.replace(old, new), Modules(), Options()).diagnostics
    return [(diagnostic.message, diagnostic.help) for diagnostic in found]


@pytest.mark.parametrize(
    ("old", "new", "message", "help"),
    [
        # Imports that were forgotten.
        ("Dim, Dyn", "Dim", "`Dyn`, in the type of `x`, is not defined", "import it: `from tilecheck import Dyn`"),
        ("Dyn, Mut, ", "Dyn, ", "`Mut`, in the type of `z`, is not defined", "import it: `from tilecheck import Mut`"),
        ("Mut, Shared, T", "Mut, T", "`Shared`, in the type of `x`, is not defined", "import it: `from tilecheck import Shared`"),
        ("class BM(Dim): ...", "", "`BM`, an extent of `z`, is neither a `Dim` nor `Dyn`", "declare `class BM(Dim): ...`"),
        # Types.
        ("[Shared, f32", "[Shared, np.float32", "`x` has no dtype: `np.float32` is none", "write `f32`, of `from tilecheck import f32`"),
        ("[Shared, f32", "[Shared, np.complex64", "`x` has no dtype: `np.complex64` is none", "the second argument of `Tensor` is a dtype such as `f32`, a `TypeVar`, or `Any`"),
        ("[Mut, f32, BM]", "[f32, Mut, BM]", "`z` has no access: `f32` is none", "the access comes first: `z: Tensor[Mut, f32, BM]`"),
        ("[Shared, f32, Dyn]", "[f32, Dyn]", "`x` has no access: `f32` is none", "the access comes first: `x: Tensor[Shared, f32, Dyn]`, or `Mut` for what the kernel writes"),
        ("k(z: Tensor", "k(self, z: Tensor", "the kernel `k` takes `self`", "leave `self` out: a kernel in a class is called without it"),
        # Whole tensors, and names of elsewhere.
        (BODY, "z.store(x * a)", "`*` of the whole tensor `x`", "read a tile of it: `tc.load_like(x, z)`"),
        (BODY, "z.store(a + z)", "`+` of the whole tensor `z`", "read its tile: `z.load()`"),
        (BODY, "z.store(-x)", "`-` of the whole tensor `x`", "read a tile of it: `tc.load_like(x, z)`"),
        (BODY, "z.store(3)", "`store` of a scalar to `z`, whose tile has shape (BM,)", "make a tile of it: `tc.full((BM,), 3, dtype=tc.f32)`"),
        (BODY, "i = tc.program_id(0)", "kernels have no op `program_id`", "use `tc.block_id(axis)`"),
        (BODY, "z.store(tc.concatenate((z.load(), z.load())))", "kernels have no op `concatenate`", "use `tc.concat((x, y), axis)`"),
        # A tile that decides is the one mistake, whatever the branches are.
        (BODY, "t = z.load()\n    z.store(t if t > 0 else 0.0)", "a tile decides `if ... else`", "pick lanes with `tc.where`, or reduce: `tc.any(t).item()`"),
        # Launches.
        ("k(z.partition(128)", "k(z", "`z` is not partitioned, but `k` writes `z`", "pass `z.partition(BM)`, one tile per block, `BM` a number such as 64"),
        ("tc.zeros(1000)", "np.zeros(1000)", "`z.partition(128)` is what `partition` of the NumPy array `z` gives, None after sorting, but `z` of `k` is a tensor", "copy it to the device, `device = tc.asarray(z, tc.f32)`, and pass `device.partition(...)`"),
    ],
)  # fmt: skip
def test_a_tile_kernel_and_its_launch(old: str, new: str, message: str, help: str) -> None:
    assert (message, help) in told(PROGRAM, old, new)


def test_one_mistake_is_one_finding() -> None:
    assert len(told(PROGRAM, BODY, "t = z.load()\n    z.store(t if t > 0 else 0.0)")) == 1
    assert len(told(PROGRAM, "Dim, Dyn", "Dim")) == 1


def test_a_condition_that_is_no_tile_leaves_the_branches_to_fit() -> None:
    (found,) = told(PROGRAM, BODY, "t = z.load()\n    z.store(t if a > 0 else 0.0)")
    assert found[0] == "`the value` holds different kinds of values on two paths"


def test_a_launch_condition_is_marked_where_the_kernel_asks_for_it() -> None:
    text = PROGRAM.replace("tc.ones(1000)", "tc.ones(100)")
    (found,) = check_text("f.py", text, Modules(), Options()).diagnostics
    (asked,) = [label.span for label in found.labels if label.text == "`k` asks for it here"]
    line = text.split("\n")[asked.line - 1]
    assert line[asked.column - 1 : asked.end_column - 1] == BODY


@pytest.mark.parametrize(
    ("old", "new", "message", "help"),
    [
        ("k(z.partition(256)", "k(z", "`z` is not partitioned, but `k` writes `z`", "pass a partition: `z.partition(256)` has an element for each thread of a block"),
        ("(256), x", "(512), x", "`k` gives each thread one element of `z` along x, this launch has 512 threads for 1000", "make the tiles of `z` as large as the block, 256 along x, or cover a part with `.prefix()`"),
        ("block=256)", "block=256, requires='x.size >= 2 * z.size')", "`k` needs `x.size >= 2 * z.size`: `x.size` is 1000, `2 * z.size` is 2000", "change the arguments, or what the kernel requires"),
        ("block=256)", "block=256, requires='4096 <= z.size')", "`k` needs `4096 <= z.size`: `z.size` is 1000", "change the arguments, or what the kernel requires"),
    ],
)  # fmt: skip
def test_a_thread_kernel_and_its_launch(old: str, new: str, message: str, help: str) -> None:
    assert (message, help) in told(THREADS, old, new)


# What type checkers would refuse.
SIMT: Any = tc.simt
DIM: Any = tc.Dim
BENCH: Any = tc.do_bench
TUNE: Any = tc.autotune
ZEROS: Any = tc.zeros
MOVE: Any = kernels.move
FILL: Any = kernels.fill
RELU: Any = tc.kernels.relu


class Foreign:
    """An array of another library, called `Tensor` as ours is."""

    dtype, shape = "torch.float32", (64,)

    def __dlpack__(self) -> None:
        raise AssertionError


Foreign.__name__, Foreign.__module__ = "Tensor", "torch"


@pytest.mark.parametrize(
    ("call", "message", "help"),
    [
        (lambda z, x: MOVE(z.partition(8), Foreign()), "`x` of `move` is a tensor parameter, it got a `torch.Tensor` of torch.float32", "borrow it: `tc.from_dlpack(x)`"),
        (lambda z, x: MOVE(Foreign(), x), "`z` of `move` is a tensor parameter, it got a `torch.Tensor` of torch.float32", "make a tensor of it, `z = tc.from_dlpack(z)`, pass `z.partition(64)`"),
        (lambda z, x: MOVE(None, x), "`z` of `move` is a tensor parameter, it got None, which is what the `partition` of a NumPy array gives: it sorts in place", "make a tensor first: `tc.asarray(z).partition(...)`"),
        (lambda z, x: FILL(z.partition(8), tc.ones(1)), "`v` of `fill` is a scalar `float`, it got a `Tensor`", "pass a Python float, of a tensor of one element `v.item()`"),
        (lambda z, x: z.partition(1.5), "`partition` wants ints, not 1.5", "round it: `partition(1)`"),
        (lambda z, x: ZEROS(float("inf")), "`zeros` wants ints, not inf", None),
        (lambda z, x: tc.zeros(0).partition(8), "`tc.zeros(0)` has no elements to partition: its extent on axis 0 is 0", "nothing is to be done then: launch only `if tc.zeros(0).size:`"),
        (lambda z, x: SIMT(lambda: None), "`@tc.simt` states no block", "say how many threads a block has: `@tc.simt(block=256)`"),
        (lambda z, x: SIMT(requires="x.size > 1"), "`@tc.simt` states no block", "say how many threads a block has: `@tc.simt(block=256)`"),
        (lambda z, x: RELU(z.partition(8), x).graph().sync(), "`CudaGraph` has no attribute `sync`", "a replay is an op: `graph.launch().sync()`"),
        (lambda z, x: BENCH(z), "a function is timed, this is a `Tensor`", "wrap it: `lambda: kernel(z.partition(128), x)`"),
        (lambda z, x: TUNE(kernels.move, [{"BM": 8}], (z, x)), "the arguments are made for each configuration by a function, this is a `tuple`", "such as `lambda BM: (z.partition(BM), x)`"),
        (lambda z, x: TUNE(kernels.move, [], lambda BM: (z, x)), "`autotune` wants different configurations, there is none", 'such as `[{"BM": 64}, {"BM": 128}]`'),
        (lambda z, x: DIM(128), "`Dim(...)` makes no extent", "declare it: `class BM(Dim): ...`, or with `size=128`"),
        (lambda z, x: kernels.move.with_hints(num_warps=3), "`move.with_hints`: `num_warps=3` is not a power of two from 1 to 32: warps of a block, heeded by numba-cuda where nothing is multiplied", None),
    ],
)  # fmt: skip
def test_at_run_time(call: Callable[[Any, Any], object], message: str, help: str | None) -> None:
    with pytest.raises(tc.TilecheckError) as caught:
        call(tc.zeros(64), tc.ones(64))
    assert (caught.value.message, caught.value.help) == (message, help)


@pytest.mark.parametrize(
    ("dtype", "gradient", "help"),
    [
        ("torch.bfloat16", False, "hand over its bits: `tc.from_dlpack(a.view(torch.int16)).view(tc.bf16)`"),
        ("torch.float32", True, "leave its gradient behind: `tc.from_dlpack(a.detach())`"),
        ("torch.float32", False, "copy it with `tc.asarray(...)`"),
    ],
)
def test_an_array_that_its_library_does_not_lend(dtype: str, gradient: bool, help: str) -> None:
    class Kept(Foreign):
        requires_grad = gradient

        def __dlpack__(self, **options: object) -> None:
            raise BufferError("it is not lent")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    kept: Any = Kept()
    kept.dtype = dtype
    with pytest.raises(tc.UsageError, match="this array cannot be borrowed: it is not lent") as caught:
        tc.from_dlpack(kept)
    assert caught.value.help == help


def test_an_op_is_no_array_yet() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    op: Any = kernels.move(z.partition(8), x)
    with pytest.raises(AttributeError, match="an op has no `numpy`, its tensor has") as caught:
        op.numpy()
    assert "of a launch `op.first().to_host().sync()`" in str(caught.value)
    assert np.array_equal(op.first().to_host().sync(), x.numpy())


@pytest.mark.parametrize(
    ("index", "element", "guard"),
    [
        ("cuda.grid(1)", "x[cuda.grid(1)]", "cuda.grid(1) < x.size"),
        ("cuda.grid(1) + 1", "x[cuda.grid(1) + 1]", "cuda.grid(1) + 1 < x.size"),
        ("cuda.threadIdx.x", "x[cuda.threadIdx.x]", "cuda.threadIdx.x < x.size"),
        ("2 * cuda.blockIdx.x", "x[2 * cuda.blockIdx.x]", "2 * cuda.blockIdx.x < x.size"),
        ("laneid", "x[laneid]", "laneid < x.size"),
    ],
)
def test_a_guard_is_written_as_kernels_write_it(index: str, element: str, guard: str) -> None:
    text = f"""import numpy as np
from numba import cuda


@cuda.jit
def k(z, x, laneid):
    if cuda.grid(1) < z.size:
        z[cuda.grid(1)] = x[{index}]


k[64, 64](np.zeros(4096), np.ones(8), 9)
"""
    (found,) = check_text("f.py", text, Modules(), Options()).diagnostics
    assert found.message.startswith(f"`{element}` reads outside `x`") and found.help == f"guard with `{guard}`"


@pytest.mark.parametrize(
    ("body", "label"),
    [
        (
            "if t < 8:\n        cuda.syncthreads()\n    else:\n        cuda.syncthreads()",
            "wait at different barriers, or in",
        ),
        ("if t < 8:\n        cuda.syncthreads()", "waits for threads that have left"),
        ("for _ in range(t):\n        cuda.syncthreads()", "waits for threads that have left"),
    ],
)
def test_a_barrier_that_some_miss_says_what_the_threads_do(body: str, label: str) -> None:
    text = f"""import numpy as np
from numba import cuda


@cuda.jit
def k(z):
    t = cuda.threadIdx.x
    {body}


k[1, 32](np.zeros(32))
"""
    findings = check_text("f.py", text, Modules(), Options()).diagnostics
    assert {found.rule for found in findings} == {"divergent-barrier"}
    for found in findings:
        assert any(f"of block (0, 0, 0) {label}" in mark.text for mark in found.labels)


def test_the_witness_of_a_cutile_kernel_is_of_blocks() -> None:
    text = """import cuda.tile as ct
import numpy as np


@ct.kernel
def k(c):
    ct.store(c, index=(0,), tile=ct.full((16,), ct.bid(0), c.dtype))


ct.launch(None, (4,), k, (np.zeros(64, np.float32),))
"""
    (found,) = check_text("f.py", text, Modules(), Options()).diagnostics
    assert found.rule == "data-race" and found.witness is not None
    assert all(party.startswith("block (") for party in found.witness.threads)


@pytest.mark.parametrize(
    ("body", "launch", "help"),
    [
        ("z[i] = x[i - 1]", "a, a", "pass two arrays: `x` and `z` are one at this launch"),
        ("z[i] += x[i - 1]", "a, a", "pass two arrays: `x` and `z` are one at this launch"),
        ("x[i] = 1\n        z[i - 1] = 2", "a, a", "pass two arrays: `x` and `z` are one at this launch"),
        ("z[i - 1] = z[i]", "a, a", None),
        ("z[0] += x[i]", "a, b", None),
    ],
)
def test_a_race_of_one_array_passed_twice(
    body: str, launch: str, help: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kernel = f"""from numba import cuda


@cuda.jit
def k(z, x):
    i = cuda.grid(1)
    if 0 < i and i < z.size and i < x.size:
        {body}
"""
    host = f"""import numpy as np
from numba import cuda

from kernels import k


def main():
    a, b = cuda.to_device(np.zeros(256)), cuda.to_device(np.zeros(256))
    k[4, 64]({launch})
"""
    Path("kernels.py").write_text(kernel, "utf-8")
    Path("host.py").write_text(host, "utf-8")
    found = json.loads(CliRunner().invoke(group, ["check", "--no-cache", "--format", "json"]).stdout)["diagnostics"]
    helps = {item["help"] for item in found if item["rule"] == "data-race"}
    assert helps and (help in helps if help is not None else not any("pass two" in each for each in helps))


def plain(z: Any, x: Any, a: Any) -> None:
    """A kernel in numba's language."""
    i = cuda.grid(1)  # type: ignore[attr-defined]
    if i < z.size and i < x.size:
        z[i] = a * x[i]


def test_an_adopted_kernel_that_is_called_without_a_grid() -> None:
    adopted: Any = tc.adopt(cuda.jit(plain), block=256)  # type: ignore[no-untyped-call]
    z, x = tc.zeros(1000), tc.ones(1000)
    with pytest.raises(tc.LaunchRefused, match="the launch of `plain` has no grid") as caught:
        adopted(z, x, 2.0).sync()
    assert caught.value.help == (
        "give one: `op.with_grid(n)`, or pass `z` cut into what a block writes, `z.partition(n)`"
    )
    with pytest.raises(tc.LaunchRefused) as wrong:
        adopted(z.partition(256), x, "2")
    assert (wrong.value.message, wrong.value.help) == (
        "`a` of `plain` is a number, it got '2'",
        "pass a Python int or float",
    )
    adopted(z.partition(256), x, 2.0).sync()
    assert (z.numpy() == 2.0).all()
