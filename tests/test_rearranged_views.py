"""`T`, `ravel` and `reshape` in kernels: the elements they name, and who else names them."""

from __future__ import annotations

import pytest

from tests.test_prover import report, worst
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck.verify.verdict import Property, Verdict


def kernel(body: str, launch: str = "", parameters: str = "a") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"@cuda.jit\ndef f({parameters}):\n    i, j = cuda.grid(2)\n{lines}\n{launch}\n"


BY_2 = "f[(4, 4), (16, 16)]"
BY_1 = "f[(32, 1), (64, 1)]"
SAFE = {
    "transposed copy": ("if i < b.shape[0] and j < b.shape[1]:\n    a.T[i, j] = b[i, j]", "a, b", f"{BY_2}(np.ones((60, 50)), np.ones((50, 60)))"),
    "twice turned": ("t = a.T.T\nif i < t.shape[0] and j < t.shape[1]:\n    t[i, j] += a[i, j]", "a", f"{BY_2}(np.ones((50, 60)))"),
    "a column as a row": ("if i < a.shape[1] and j == 0:\n    c = a.T[i]\n    for k in range(c.size):\n        c[k] += 1", "a", f"{BY_1}(np.ones((50, 60)))"),
    "a part turned": ("b = a[2:, 3:].T\nif i < 30 and j == 0:\n    b[0, i] = 1\n    a[i + 2, 3] = 5", "a", f"{BY_1}(np.ones((50, 60)))"),
    "in the order of the elements": ("r = a.ravel()\nif i < r.size:\n    r[i] = a[i // 60, i % 60] + 1", "a", f"{BY_1}(np.ones((30, 60)))"),
    "other rows": ("r = a.reshape(-1, 4)\nif i < r.shape[0]:\n    r[i, 1] = r[i, 2]", "a", f"{BY_1}(np.ones((30, 60)))"),
    "any launch": ("r = a.reshape(a.size)\nif i < r.size and j == 0:\n    r[i] *= 2", "a", ""),
    "a tile in shared memory": (
        "s = cuda.shared.array(256, float32)\nm = s.reshape((16, 16))\nm[j, i] = a[j, i]\ncuda.syncthreads()\na[i, j] = s[i * 16 + j]",
        "a",
        "f[(1, 1), (16, 16)](np.ones((16, 16), np.float32))",
    ),
}  # fmt: skip
RACES = {
    "written by the other axis": ("if i < a.shape[0] and j < a.shape[1]:\n    a.T[i, j] = a[i, j] * 2", "a", f"{BY_2}(np.ones((64, 64)))"),
    "turned once": ("t = a.T\nif i < 50 and j < 50:\n    t[i, j] += a[i, j]", "a", f"{BY_2}(np.ones((50, 60)))"),
    "a part one off": ("b = a[2:, 3:].T\nif i < 30 and j == 0:\n    b[0, i] = 1\n    a[i + 3, 3] = 5", "a", f"{BY_1}(np.ones((50, 60)))"),
    "another order": ("r = a.ravel()\nif i < r.size:\n    r[i] = a[i % 30, i // 30] + 1", "a", f"{BY_1}(np.ones((30, 60)))"),
    "rows of another length": ("r = a.reshape(-1, 4)\nif i < r.shape[0]:\n    r[i, 1] = a[i // 15, 4 * (i % 15) + 5 - 4 * (i % 2)]", "a", f"{BY_1}(np.ones((30, 70)))"),
    "no barrier": (
        "s = cuda.shared.array(256, float32)\nm = s.reshape(16, 16)\nm[j, i] = a[j, i]\na[i, j] = s[i * 16 + j]",
        "a",
        "f[(1, 1), (16, 16)](np.ones((16, 16), np.float32))",
    ),
    "written through the view alone": ("if i < 63:\n    a.ravel()[i] = a[0, i + 1]", "a", f"{BY_1}(np.ones((64, 64)))"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAFE)
def test_elements_of_their_own_are_free_of_races(name: str) -> None:
    body, parameters, launch = SAFE[name]
    found = report(kernel(body, launch, parameters))
    assert worst(found) is Verdict.PROVEN, found.verdicts


@pytest.mark.parametrize("name", RACES)
def test_elements_of_others_race(name: str) -> None:
    body, parameters, launch = RACES[name]
    assert report(kernel(body, launch, parameters)).verdicts[Property.RACE_FREE].verdict is Verdict.REFUTED


def test_an_index_is_told_with_the_extents_of_its_view() -> None:
    text = kernel("if i < 64 and j < 50:\n    a.T[i, j] = 1", f"{BY_2}(np.ones((50, 60)))")
    found = check_text("k.py", "import numpy as np\nfrom numba import cuda\n" + text, Modules(), Options())
    (stray,) = [item for item in found.diagnostics if item.rule == "out-of-bounds"]
    assert stray.message.endswith("whose extent is 60, 50")


@pytest.mark.parametrize(
    "body", ["r = a.reshape(i, 4)\nr[0, 0] = i", "r = a[1:].reshape(-1)\nr[i] = i", "r = a.T.ravel()\nr[i] = i"]
)
def test_what_is_no_view_for_sure_is_unknown(body: str) -> None:
    found = report(kernel(body, f"{BY_1}(np.ones((30, 60)))"))
    assert found.verdicts[Property.RACE_FREE].verdict is Verdict.UNKNOWN
