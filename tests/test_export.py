"""Kernels for another machine: what is exported has the key of the real call, and no compiler is needed there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilecheck as tc
from tests.library_cases import CASES as CASES_OF_LIBRARY
from tests.op_kernels import CASES
from tests.test_numba_cuda_lowering import compiled, kernels, report_of
from tilecheck_runtime import disk_cache
from tilecheck_runtime import kernels as library
from tilecheck_runtime.backends.tile_ir import compile as tile_ir
from tilecheck_runtime.backends.tile_ir.compile import ArrayFacts, NotInstalled, compile_cubin, missing
from tilecheck_runtime.backends.tile_ir.lower import lower
from tilecheck_runtime.errors import LaunchRefused, UsageError
from tilecheck_runtime.export import exporting
from tilecheck_runtime.resources import capability_of

__all__ = ["kernels"]

ROOT = Path(__file__).resolve().parent.parent
has_tile_ir = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def gemm(size: int = 64, **hints: int) -> None:
    """A shape-only call of the library's matrix product."""
    z, x, y = tc.meta(size, size), tc.meta(size, size, dtype=tc.f16), tc.meta(size, size, dtype=tc.f16)
    library.gemm.where(BK=32).with_hints(**hints)(z.partition(32, 32), x, y).compile()


@compiled
@has_tile_ir
def test_each_specialisation_is_exported_once(tmp_path: Path) -> None:
    with exporting("sm_90", tmp_path / "k") as found:
        gemm()
        gemm()
        gemm(occupancy=2)
        library.saxpy(tc.meta(256).partition(64), tc.meta(256), tc.meta(256), 2.0).compile()
    assert [(e.kernel, e.compiler, e.hints) for e in found] == [
        ("gemm", "tile-ir", ()),
        ("gemm", "tile-ir", (("occupancy", 2),)),
        ("saxpy", "numba-cuda", ()),
    ]
    assert all(e.nbytes > 1000 for e in found)
    assert disk_cache.folder() is None


@compiled
def test_data_and_shapes_meet_in_one_key(tmp_path: Path) -> None:
    z, x = tc.zeros(256), tc.ones(256)
    with exporting("sm_80", tmp_path / "k") as found:
        library.add(tc.meta(256).partition(64), tc.meta(256), tc.meta(256)).compile()
        library.add(z.partition(64), x, x).sync()
    assert len(found) == 1
    assert z.numpy().sum() == 512


@compiled
def test_what_was_launched_before_is_exported_too(tmp_path: Path) -> None:
    gemm(96)
    with exporting("sm_90", tmp_path / "k", only="numba-cuda") as found:
        gemm(96)
        library.add(tc.meta(256).partition(64), tc.meta(256), tc.meta(256)).compile()
    assert [e.kernel for e in found if e.compiler == "numba-cuda"] == (
        ["add"] if missing() is None else ["gemm", "add"]
    )


def facts() -> dict[str, ArrayFacts]:
    return {name: ArrayFacts("f32", 2, False, True, 16, (16, 16), (16, 1)) for name in ("z", "x", "y")}


@has_tile_ir
def test_a_machine_without_the_compiler_finds_the_cubin(
    kernels: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = [c for c in CASES if c.name == "add_f32"]
    report = report_of(kernels, case)
    disk_cache.enable(tmp_path / "k")
    try:
        made = compile_cubin(lower(report), report.kernel, facts(), {}, "sm_90")
        monkeypatch.setattr(tile_ir, "missing", lambda: "there is no compiler")
        monkeypatch.setattr(tile_ir, "installed", lambda: False)
        assert compile_cubin(lower(report), report.kernel, facts(), {}, "sm_90") == made
        with pytest.raises(NotInstalled, match="there is no compiler"):
            compile_cubin(lower(report), report.kernel, facts(), {}, "sm_80")
    finally:
        disk_cache.disable()


def test_a_kernel_that_asks_for_tile_ir_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_ir, "_version", lambda package: None)
    monkeypatch.setattr(tile_ir, "installed", lambda: False)

    @tc.kernel(backend="tile-ir")
    def fill(z: tc.Tensor[tc.Mut, tc.f32, tc.One]) -> None:
        z.store(tc.ones(tc.One, dtype=tc.f32))

    with pytest.raises(LaunchRefused) as caught, exporting("sm_90", tmp_path / "k"):
        fill(tc.meta(4).partition(1)).compile()
    assert "`fill`: the tile-ir backend needs the package `cuda-tile`" in str(caught.value)
    assert "pip install 'tilecheck[tile-ir]'" in str(caught.value)


@compiled
def test_a_product_without_tile_ir_goes_to_numba_cuda_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tile_ir, "_version", lambda package: None)
    monkeypatch.setattr(tile_ir, "installed", lambda: False)
    with exporting("sm_90", tmp_path / "k") as found:
        gemm()
    assert [(e.kernel, e.compiler, e.why) for e in found] == [
        ("gemm", "numba-cuda", "the tile-ir backend needs the package `cuda-tile`")
    ]


def test_architectures_are_named_in_full() -> None:
    assert [capability_of(name) for name in ("sm_80", "sm_90", "sm_100", "sm_120")] == [
        (8, 0),
        (9, 0),
        (10, 0),
        (12, 0),
    ]
    with pytest.raises(UsageError, match=r"known are .*sm_90"):
        capability_of("hopper")


SCRIPT = """
import sys
import tilecheck as tc
from tilecheck_runtime import kernels
n = int(sys.argv[1])
kernels.add(tc.meta(n).partition(64), tc.meta(n), tc.meta(n)).compile()
"""


@compiled
def test_the_command(tmp_path: Path) -> None:
    script, folder = tmp_path / "job.py", tmp_path / "k"
    script.write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "tilecheck",
        "compile",
        "--arch",
        "sm_90",
        "--out",
        str(folder),
        str(script),
        "256",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("add: numba-cuda, ") and done.stdout.rstrip().endswith("bytes, BM=64")
    assert any(folder.iterdir())
    script.write_text("")
    done = subprocess.run(command[:-1], capture_output=True, text=True, env=os.environ, check=False)
    assert (done.returncode, done.stderr) == (1, f"tilecheck: {script} launched no tile kernel\n")
    wrong = [w.replace("sm_90", "90") for w in command]
    done = subprocess.run(wrong, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 2 and "`90` is no architecture" in done.stderr


@compiled
@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        ("raise ValueError('mine')\n", 1, ("Traceback", '  File "job.py", line 1, in <module>', "ValueError: mine")),
        ("def f(:\n", 1, ('  File "job.py", line 1', "SyntaxError: invalid syntax")),
        ("import sys\nsys.exit(3)\n", 3, ()),
        (
            SCRIPT.replace(".partition(64)", ""),
            2,
            ("tilecheck: job.py:6: `z` of `add` is `Mut` and wants a partition",),
        ),
    ],
)
def test_what_a_script_raises_is_shown_without_our_frames(
    tmp_path: Path, text: str, status: int, says: tuple[str, ...]
) -> None:
    (tmp_path / "job.py").write_text(text)
    command = [sys.executable, "-m", "tilecheck", "compile", "--arch", "sm_90", "--out", "k", "job.py", "256"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert all(word in done.stderr for word in says) and "tilecheck/cli" not in done.stderr
    assert done.stderr.count("  File ") == ("  File " in "".join(says))


def test_launches_are_recorded_with_what_they_compute() -> None:
    from tests.gpu.recorded import programs, record

    assert {case.kernel for case in CASES_OF_LIBRARY.values()} == set(library.__all__)
    assert {f"library {case}" for case in CASES_OF_LIBRARY} | {"gemm", "softmax"} <= set(programs())
    (saxpy,) = record("saxpy")
    z, x, a = (saxpy.call.arguments[name] for name in ("z", "x", "a"))
    np.testing.assert_array_equal(saxpy.expected["z"], np.float32(a) * x + z)
