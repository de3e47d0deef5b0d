"""The mypy plugin on files of kernels, where mypy finds the `numba.cuda` that numba itself ships."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
KERNEL = """
@cuda.jit
def scale(z: object, table: object, n: int) -> int:
    i = cuda.grid(1)
    x, y = cuda.grid(2)
    t = cuda.threadIdx.x + cuda.threadIdx.y * cuda.blockDim.x - cuda.blockIdx.z // cuda.gridDim.x
    tile = cuda.shared.array((16, 16), float32)
    own = cuda.local.array(4, dtype=float32)
    known = cuda.const.array_like(table)
    tile[t, 0] = own[0] = known[i % 4]
    cuda.syncthreads()
    mask = cuda.activemask() & cuda.ballot_sync(0xFFFFFFFF, cuda.syncthreads_count(i < n) > cuda.laneid)
    tile[t, 1] = cuda.shfl_sync(mask, tile[t, 0], 0) + cuda.shfl_down_sync(mask, tile[t, 0], 1)
    cuda.syncwarp()
    old = cuda.atomic.add(tile, (0, 1), 3.0) + cuda.atomic.cas(tile, 0, 1, 2) + cuda.popc(cuda.warpsize)
    cuda.cg.this_grid().sync()
    for j in range(i, n, cuda.gridsize(1)):
        own[j] = old + x + y
    return "what stands behind them is checked"
"""
SPELLINGS = {
    "from numba import cuda": KERNEL,
    "import numba.cuda as cuda": KERNEL,
    "from numba import cuda as gpu": KERNEL.replace("cuda.", "gpu."),
    "import numba.cuda": KERNEL.replace("cuda.", "numba.cuda."),
    "from numba.cuda import jit, grid, threadIdx, shared, atomic, blockDim": """
@jit
def scale(z: object, table: object, n: int) -> int:
    i = grid(1)
    tile = shared.array(16, float32)
    atomic.add(z, 0, tile[threadIdx.x * blockDim.x])
    return "what stands behind them is checked"
""",
}


def checked(folder: Path, config: str = "", *flags: str) -> list[str]:
    """What mypy prints about the files of `folder`, ours left out."""
    (folder / "mypy.ini").write_text(f"[mypy]\nplugins = tilecheck\n{config}\n", "utf-8")
    ours = os.pathsep.join([str(ROOT), str(ROOT / "runtime"), str(ROOT / "mypy_plugin")])
    env = {**os.environ, "PYTHONPATH": ours, "MYPYPATH": ours}
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *flags, "."]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    for at, (line, kernel) in enumerate(SPELLINGS.items()):
        (tmp_path / f"spelling_{at}.py").write_text(f"from numba import float32\n{line}\n{kernel}", "utf-8")
    return tmp_path


def of_mypy(lines: list[str]) -> list[str]:
    """The errors in mypy's own codes."""
    own = ("attr-defined", "call-arg", "operator", "var-annotated", "misc", "return-value", "untyped-decorator")
    return [line for line in lines if ": error: " in line and line.endswith(tuple(f"[{code}]" for code in own))]


def test_names_of_kernels_are_any_and_hide_nothing(kernels: Path) -> None:
    told = sorted(of_mypy(checked(kernels)))
    assert [line.partition(":")[0] for line in told] == [f"spelling_{at}.py" for at in range(len(SPELLINGS))], told
    assert all(line.endswith("[return-value]") for line in told), told


def test_strict_is_told_the_setting_once_and_the_setting_cures_it(kernels: Path) -> None:
    told = checked(kernels, "", "--strict")
    assert sum("follow_imports" in line for line in told) == 1, told
    (note,) = (at for at, line in enumerate(told) if "follow_imports" in line)
    assert "no attribute" in told[note - 1] or "no attribute" in told[note - 2], told
    skipped = checked(kernels, "[mypy-numba.*]\nfollow_imports = skip", "--strict")
    assert {line.rpartition("[")[2] for line in of_mypy(skipped)} == {"return-value]", "untyped-decorator]"}, skipped
    assert not any("follow_imports" in line for line in skipped)


def test_an_attribute_that_another_module_lacks_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("import math\nfrom numba import cuda\nprint(math.grid, cuda.synchronize)\n", "utf-8")
    (told,) = checked(tmp_path)
    assert "no attribute" in told
