"""Compiles what the parts `products` and `attention` run through Tile IR, for a machine without its compiler:

    python -m benchmarks.device.fill DIR [--arch sm_90]

There, `python -m benchmarks device --kernels DIR` finds them (the folder must be yours alone, `chmod 700`).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ["TILECHECK_DEVICE"] = "cpu"

import tilecheck as tc
from benchmarks.device import attention, cutile_peers, products
from tilecheck_runtime import disk_cache
from tilecheck_runtime.export import exporting, sign


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device.fill")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90")
    given = parser.parse_args()
    with exporting(given.arch, given.folder, only="tile-ir") as found:
        for n in products.SIZES:
            z, half = tc.meta(n, n), tc.meta(n, n, dtype=tc.f16)
            x, y = (tc.meta(n, n, dtype=tc.f16) for _ in range(2))
            for build in products.builders([z, half, x, y]).values():
                for configuration in products.CONFIGURATIONS:
                    build(configuration).compile()
        tensors = [tc.meta(attention.HEADS, attention.LENGTH, attention.DEPTH, dtype=tc.f16) for _ in range(4)]
        for tiles in attention.CONFIGURATIONS:
            attention.prefill_op(tensors, tiles).compile()
        for item in found:
            print(f"{item.kernel} {dict(item.dims)} {dict(item.hints)}: {item.nbytes:,} bytes")
    disk_cache.enable(given.folder)
    sign()
    for name in cutile_peers.PEERS:
        print(f"cuTile's {name}: {len(cutile_peers.image(name, given.arch)):,} bytes")


if __name__ == "__main__":
    main()
