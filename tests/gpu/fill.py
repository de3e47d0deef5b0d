"""Compiles what the agreement tests run, for a machine with a GPU and without compilers:

    python -m tests.gpu.fill FOLDER [--arch sm_90] [--numba] [--only WORD]

There, `TILECHECK_TEST_KERNELS=FOLDER pytest -m gpu tests/gpu` finds them (the folder must be yours alone, `chmod 700`).
Kernels that Tile IR does not take are listed with the reason; the exit status is 1 if one fails otherwise.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ["TILECHECK_DEVICE"] = "cpu"

from tests.gpu.harness import Call, arrays_of, numba_binary, tile_binary
from tests.gpu.recorded import programs, record
from tests.gpu.test_agreement import call_of
from tests.op_kernels import CASES, module_text
from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends.numba_cuda.compile import CompileFailed
from tilecheck_runtime.backends.tile_ir.words import NoLowering
from tilecheck_runtime.errors import LaunchRefused
from tilecheck_runtime.export import sign
from tilecheck_runtime.resources import capability_of

# As the device's allocator aligns.
ALIGNED = 256


def calls(only: str) -> Iterator[tuple[str, Call]]:
    """Every call that the tests make, by a name."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "op_kernels_generated.py"
        path.write_text(module_text())
        spec = importlib.util.spec_from_file_location("op_kernels_generated", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        for case in CASES:
            if only in case.name:
                yield case.name, call_of(module, case)
    for program in programs():
        if only in program:
            for number, launch in enumerate(record(program)):
                yield f"{program}/{launch.name}/{number}", launch.call


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.fill")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--numba", action="store_true", help="numba-cuda's kernels too")
    parser.add_argument("--only", default="", metavar="WORD", help="calls with this in their name")
    given = parser.parse_args()
    disk_cache.enable(given.folder)
    sign()
    capability = capability_of(given.arch)
    counts, started = {"compiled": 0, "refused": 0, "failed": 0}, time.perf_counter()
    for name, call in calls(given.only):
        try:
            if given.numba:
                numba_binary(call, capability, dict.fromkeys(arrays_of(call), ALIGNED))
            tile_binary(call, given.arch)
            counts["compiled"] += 1
        except NoLowering as reason:
            counts["refused"] += 1
            print(f"{name}: {reason}", flush=True)
        except (CompileFailed, LaunchRefused) as reason:
            counts["failed"] += 1
            print(f"{name} FAILED: {reason}", flush=True)
    size = sum(file.stat().st_size for file in given.folder.iterdir())
    seconds = time.perf_counter() - started
    print(", ".join(f"{number} {what}" for what, number in counts.items()) + f", {size / 1e6:.1f} MB, {seconds:.0f} s")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
