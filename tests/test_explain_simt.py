"""`tilecheck explain FILE::KERNEL` of thread-level kernels: why it is safe, or what was seen to go wrong."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from tilecheck.cli import group

TEXT = """
import numpy as np
from numba import cuda, float32

@cuda.jit
def turn(x, y):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    {barrier}
    y[cuda.grid(1)] = s[31 - t]

turn[2, 32](cuda.to_device(np.ones(64, np.float32)), cuda.to_device(np.ones(64, np.float32)))
"""


def explained(tmp_path: Path, barrier: str) -> str:
    path = tmp_path / "turn.py"
    path.write_text(TEXT.format(barrier=barrier))
    return CliRunner().invoke(group, ["explain", f"{path}::turn"]).output


def test_a_safe_kernel_says_why(tmp_path: Path) -> None:
    found = " ".join(explained(tmp_path, "cuda.syncthreads()").split())
    assert "one-to-one because `threadIdx.x` tells the threads of a block apart, and blocks are further apart" in found
    assert "the barrier on line 10 is needed: without it line 9 and line 11 race on `s`" in found


def test_a_racy_kernel_shows_both_accesses_threads_and_a_way_out(tmp_path: Path) -> None:
    found = explained(tmp_path, "pass")
    assert "one thread writes `s[" in found and "thread (" in found and "this launch shows it" in found
    assert "help: put a `cuda.syncthreads()` between line 9 and line 11" in found


HEAD = """
import numpy as np
import tilecheck as tc
from numba import cuda, float32
from tilecheck import Dyn, Mut, Shared, Tensor, f32, i32

"""


def why(tmp_path: Path, kernel: str) -> str:
    """What is said of the kernel `k`, on one line."""
    path = tmp_path / "k.py"
    path.write_text(HEAD + kernel)
    return " ".join(CliRunner().invoke(group, ["explain", f"{path}::k"]).output.split())


def test_a_plain_map_is_explained_by_its_own_names(tmp_path: Path) -> None:
    found = why(
        tmp_path,
        """
@cuda.jit
def k(z, x, y):
    i = cuda.grid(1)
    if i < z.size:
        z[i] = x[i] + y[i]
""",
    )
    assert "at launches where x.size >= z.size y.size >= z.size every barrier" in found
    assert "`z[i]` (line 12): its indices are one-to-one because `threadIdx.x` tells" in found
    assert "the indices of `x` are inside because a launch must keep `x.size >= z.size`" in found
    assert "the indices of `z` are inside because the code compares with `z.size`" in found
    assert "there are no barriers and no shared memory" in found


def test_places_from_arrays_are_explained_by_what_is_required(tmp_path: Path) -> None:
    scatter = """
@tc.simt(block=64, requires="0 <= p < z.size and distinct(p)")
def k(z: Tensor[Mut, f32, Dyn], p: Tensor[Shared, i32, Dyn]) -> None:
    i = cuda.grid(1)
    if i < p.size:
        z[p[i]] = i
"""
    found = why(tmp_path, scatter)
    assert (
        "`z[p[i]]` (line 12): its indices are one-to-one because no value occurs twice in `p`, `threadIdx.x`" in found
    )
    assert "the indices of `z` are inside because `requires` says so of the elements of `p`" in found
    assert "distinct(p) (the kernel's contract)" in found
    rows = """
@tc.simt(block=64, requires="0 <= p <= z.size and nondecreasing(p)")
def k(z: Tensor[Mut, f32, Dyn], p: Tensor[Shared, i32, Dyn]) -> None:
    r = cuda.grid(1)
    if r < p.size - 1:
        for j in range(p[r], p[r + 1]):
            z[j] = r
"""
    assert "because `p` never falls, so that the ranges between its elements do not overlap" in why(tmp_path, rows)


def test_what_a_counter_gives_is_each_threads_own(tmp_path: Path) -> None:
    found = why(
        tmp_path,
        """
@cuda.jit
def k(out, x, count):
    i = cuda.grid(1)
    if i < x.size and x[i] > 0:
        j = cuda.atomic.add(count, 0, 1)
        if j < out.size:
            out[j] = x[i]
""",
    )
    assert "`out[j]` (line 14): its indices are one-to-one because the counter in `count` gives every thread" in found


def test_axes_of_their_own_are_told_apart(tmp_path: Path) -> None:
    found = why(
        tmp_path,
        """
@cuda.jit
def k(z, x):
    r = cuda.blockIdx.x
    for j in range(cuda.threadIdx.x, x.shape[1], cuda.blockDim.x):
        z[r, j] = x[r, j]
""",
    )
    assert "because `blockIdx.x` tells blocks apart, and `threadIdx.x` tells the threads of a block apart" in found
    assert "x.shape[0] >= gridDim.x" in found


def test_of_two_barriers_in_a_row_one_is_needed(tmp_path: Path) -> None:
    found = why(
        tmp_path,
        """
@cuda.jit
def k(x):
    t = cuda.threadIdx.x
    x[t] = x[t] + 1
    cuda.syncthreads()
    cuda.syncthreads()
    if t == 0:
        x[0] = x[1]
""",
    )
    assert "the barrier on line 12 is not needed to be free of races" in found
    assert "the barrier on line 13 is needed: without it and that on line 12 line 11 and line 15 race on `x`" in found
    assert "no barrier stands under a condition (lines 12 and 13), so all threads meet it" in found


def test_conditions_of_shared_memory_are_its_own(tmp_path: Path) -> None:
    """`out.size >= gridDim.x` is for the bounds; what was written before it is read does not ask for it."""
    found = why(
        tmp_path,
        """
@cuda.jit
def k(out, x):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    out[cuda.blockIdx.x] = s[127]
""",
    )
    part = found.partition("shared memory is written before it is read: ")[2].partition("assumed")[0]
    assert "blockDim.x >= 128" in part and "gridDim" not in part


def test_all_writers_of_one_value_are_said_to_be(tmp_path: Path) -> None:
    found = why(
        tmp_path,
        """
@cuda.jit
def k(flag, x):
    i = cuda.grid(1)
    if i < x.size and x[i] < 0:
        flag[0] = 1
""",
    )
    assert "all threads that meet in `flag` write the same value" in found
