"""Tests prove for themselves: no verdicts of earlier runs. Those marked `cpu` are about memory of the host and are skipped
where the tensors of this process are on a GPU.
"""

from __future__ import annotations

import os

import pytest

os.environ["TILECHECK_VERDICTS"] = "off"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cpu") is not None:
        from tilecheck_runtime.backends import default

        if default().name != "cpu":
            pytest.skip(f"it is about memory of the host, tensors are on {default().name}")
