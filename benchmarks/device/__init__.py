"""The kernel library on a GPU, against everything it could be replaced by: `python -m benchmarks device [PART]...`

| part | what | against |
|---|---|---|
| `launch` | host cost of a launch, replay of a graph | `cuLaunchKernel`, numba-cuda, torch's graph |
| `pointwise` | add, saxpy, silu_mul | a copy on the device, hand-written numba-cuda, torch, CuPy |
| `rows`, `norms` | softmax, row sum; rms_norm, layer_norm | a copy, Triton, torch |
| `products` | matrix products | cuBLAS, cuTile where it is installed |
| `attention` | causal attention, decoding | torch's scaled dot product attention, a copy |
| `checks` | checked kernels | unchecked twins of themselves |

Each part runs in a process of its own, so that one that fails leaves the others alone. Results are compared with double
precision before anything is timed; targets stand next to the ratios. `--json FILE` writes all of it, `--kernels DIR` is a
folder of compiled kernels (see `tilecheck_runtime.disk_cache`). Needs a GPU, `tilecheck[cuda]` and torch.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PARTS = ("launch", "pointwise", "rows", "norms", "products", "attention", "checks")
# A part takes less than a minute; one that hangs is ended.
PATIENCE = 240


def missing() -> str | None:
    """What keeps this benchmark from running here."""
    if find_spec("torch") is None:
        return "torch is not installed"
    return None if import_module("torch").cuda.is_available() else "there is no GPU"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks device")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure to this file")
    parser.add_argument("--kernels", type=Path, metavar="DIR", help="a folder of compiled kernels")
    parser.add_argument("--here", action="store_true", help="run the parts in this process")
    given = parser.parse_args(arguments)
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    reason = missing()
    if reason is not None:
        print(f"{reason}: nothing measured")
        return
    if given.here:
        for part in given.parts or PARTS:
            here(part, given.kernels, given.json)
        return
    results = [apart(part, given.kernels) for part in given.parts or PARTS]
    if given.json is not None:
        given.json.write_text(json.dumps({"version": 1, "parts": results}, indent=1) + "\n")
    for result in results:
        print(f"{result['part']}: {result['seconds']:.0f} s, {result['error'] or 'done'}")


def here(part: str, kernels: Path | None, answer: Path | None) -> None:
    """Run one part in this process and write what it measured, also if it fails. Its errors pass through."""
    os.environ.setdefault("TILECHECK_DEVICE", "cuda")
    if kernels is not None:
        import_module("tilecheck_runtime.disk_cache").enable(kernels)
    bench = import_module("benchmarks.device.measure").Bench()
    try:
        import_module(f"benchmarks.device.{part}").run(bench)
    finally:
        if answer is not None:
            device = bench.torch.cuda.get_device_name()
            answer.write_text(json.dumps({"device": device, "lines": [line.as_json() for line in bench.lines]}))


def apart(part: str, kernels: Path | None) -> dict[str, Any]:
    """Run one part in a process of its own; what it says passes through, and its end is part of the answer."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "part.json"
        command = [sys.executable, "-m", "benchmarks", "device", part, "--here", "--json", str(answer)]
        command += [] if kernels is None else ["--kernels", str(kernels)]
        print(f"-- {part}", flush=True)
        try:
            status = subprocess.run(command, check=False, timeout=PATIENCE).returncode
        except subprocess.TimeoutExpired:
            status = -1
        error = f"not done after {PATIENCE} s" if status == -1 else f"ended with status {status}" if status else None
        measured = json.loads(answer.read_text()) if answer.is_file() else {"device": None, "lines": []}
    return {"part": part, "seconds": time.perf_counter() - started, "error": error, **measured}


if __name__ == "__main__":
    main(sys.argv[1:])
