"""Device tests may reuse compiled kernels: name a private folder in TILECHECK_TEST_KERNELS."""

from __future__ import annotations

import os

from tilecheck_runtime import disk_cache

if os.environ.get("TILECHECK_TEST_KERNELS"):
    disk_cache.enable(os.environ["TILECHECK_TEST_KERNELS"])
