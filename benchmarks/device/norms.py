"""rms_norm and layer_norm, as `rows` measures softmax and row sum."""

from __future__ import annotations

from benchmarks.device.measure import Bench
from benchmarks.device.rows import measure


def run(bench: Bench) -> None:
    measure(bench, ("rms_norm", "layer_norm"))
