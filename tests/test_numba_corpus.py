"""Every kernel that numba-cuda ships in its own tests goes through the frontend and the executor's compiler."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilecheck.frontend.launches import launches_of
from tilecheck.frontend.numba import find, lower
from tilecheck.frontend.source import Source
from tilecheck.interp.simt_compile import compile_kernel
from tilecheck.ir.kernel import walk
from tilecheck.ir.simt import Unread


def files() -> list[Path]:
    spec = find_spec("numba_cuda")
    if spec is None or not spec.submodule_search_locations:
        return []
    folder = Path(spec.submodule_search_locations[0]) / "numba" / "cuda" / "tests"
    return sorted(path for path in folder.rglob("*.py") if "cuda" in path.read_text())


@pytest.mark.skipif(not files(), reason="numba-cuda is not installed")
def test_all_kernels_are_read_and_most_of_them_whole() -> None:
    tally: Counter[str] = Counter()
    for path in files():
        source = Source(str(path), path.read_text())
        found = find(source, lambda name: None)
        launched = {launch.kernel for launch in launches_of(source, lambda name: None, found)}
        for item in found:
            if item.device:
                continue
            kernel = lower(item)
            compile_kernel(kernel)
            tally["kernels"] += 1
            tally["launched"] += kernel.span in launched
            tally["whole"] += not any(isinstance(node, Unread) for node in walk(*kernel.body))
    print(dict(tally))
    assert tally["kernels"] >= 573
    assert tally["launched"] >= 450
    assert tally["whole"] >= 0.8 * tally["kernels"]
