"""Tests prove for themselves: no verdicts of earlier runs. Those marked `cpu` are about memory of the host, those with a
`paper` driver about a GPU that does not exist; both are skipped where the tensors of this process are on a real one.
"""

from __future__ import annotations

import os

import pytest

os.environ["TILECHECK_VERDICTS"] = "off"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cpu") is not None or "paper" in getattr(item, "fixturenames", ()):
        from tilecheck_runtime.backends import default

        if default().name != "cpu":
            pytest.skip(f"it is about memory of the host, tensors are on {default().name}")
