"""What findings on SIMT kernels say: the source's own expressions, and one way out that fits."""

from __future__ import annotations

from tilecheck.check import check_text
from tilecheck.diagnostic import Diagnostic
from tilecheck.judge import Options
from tilecheck.modules import Modules

HEAD = "import numpy as np\nfrom numba import cuda\n\n\n@cuda.jit\ndef k(h, x):\n    i = cuda.grid(1)\n"


def findings(body: str, launch: str) -> list[Diagnostic]:
    text = HEAD + body + "\n\n" + launch + "\n"
    return [d for d in check_text("k.py", text, Modules(), Options()).diagnostics if d.severity == "error"]


def test_names_that_lowering_made_up_do_not_show() -> None:
    (race,) = findings("    if i < x.size:\n        h[x[i]] += 1\n", "k[4, 32](np.zeros(16), np.arange(128) % 16)")
    assert race.rule == "data-race" and "`h[x[i]]`" in race.message and "%" not in str(race)
    assert race.help is not None and "atomic" in race.help


def test_launches_of_a_million_threads_are_refuted_too() -> None:
    found = findings("    h[i // 2] = i\n", "k[4096, 256](np.zeros(1 << 20), np.zeros(1))")
    assert [item.rule for item in found] == ["data-race"]
    stray = findings("    h[i] = i\n", "k[4096, 256](np.zeros((1 << 20) - 1), np.zeros(1))")
    assert [item.rule for item in stray] == ["out-of-bounds"]
