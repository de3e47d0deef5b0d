"""Device tests may reuse compiled kernels: name a private folder in TILECHECK_TEST_KERNELS.

They drive the device below the runtime, whose tensors stay on the CPU here unless TILECHECK_DEVICE says otherwise.
"""

from __future__ import annotations

import os

from tilecheck_runtime import disk_cache

os.environ.setdefault("TILECHECK_DEVICE", "cpu")
if os.environ.get("TILECHECK_TEST_KERNELS"):
    disk_cache.enable(os.environ["TILECHECK_TEST_KERNELS"])
