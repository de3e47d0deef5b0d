"""The demonstration: a racy kernel that is refused, and kernels that run, on a machine without a GPU."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SHOWN = ("hello", "saxpy", "vector_add", "softmax", "rms_norm", "transpose", "gemm")


def main() -> None:
    racy = HERE / "rejected" / "saxpy.py"
    print(f"$ tilecheck check {racy.relative_to(HERE.parent)}\n", flush=True)
    command = [sys.executable, "-m", "tilecheck", "check", str(racy.relative_to(HERE.parent))]
    refused = subprocess.run(command, cwd=HERE.parent)
    if refused.returncode != 1:
        sys.exit("the racy kernel was not refused")
    print("\nthe repair is examples/saxpy.py; it and its companions, launched:\n", flush=True)
    for name in SHOWN:
        importlib.import_module(f"examples.{name}").main()


if __name__ == "__main__":
    main()
