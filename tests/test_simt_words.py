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


HELPER = """
@cuda.jit(device=True)
def put(h, at, v):
    off = at // 2
    h[at + off - at] = v


"""


def test_locals_of_helpers_have_their_own_names() -> None:
    text = HEAD.replace("@cuda.jit", HELPER.strip() + "\n\n\n@cuda.jit", 1) + "    put(h, i, i)\n    put(h, i, -i)\n"
    result = check_text("k.py", text + "\nk[1, 32](np.zeros(64), np.zeros(64))\n", Modules(), Options())
    said = [d.message for d in result.diagnostics if d.rule == "data-race"]
    assert said and all("`h[(at + off) - at]`" in message for message in said)


def reasons(text: str) -> list[str]:
    head = "import numpy as np\nfrom numba import cuda\n\n"
    result = check_text("k.py", head + text, Modules(), Options())
    return [answer.reason or "" for kernel in result.kernels for answer in kernel.verdicts.values()]


def test_what_is_not_read_is_called_by_its_name() -> None:
    table = "TABLE = np.arange(64)\nTABLE[5] = 6\n\n@cuda.jit\ndef k(h):\n    h[TABLE[cuda.grid(1)]] = cuda.grid(1)\n"
    assert any("`TABLE`" in reason for reason in reasons(table)) and not any(
        "::" in reason for reason in reasons(table)
    )
    call = "@cuda.jit\ndef k(h):\n    half = lambda j: j // 2\n    h[half(cuda.grid(1))] = 1 + cuda.grid(1)\n"
    assert any("the result of `half`" in reason for reason in reasons(call))
    assert not any("opaque" in reason for reason in reasons(call))


def test_an_array_that_is_not_known_leaves_what_no_access_can_break() -> None:
    text = "@cuda.jit\ndef k(h):\n    i = cuda.grid(1)\n    v = h.view(np.int32)\n    v[i] = i\n"
    result = check_text("k.py", "import numpy as np\nfrom numba import cuda\n\n" + text, Modules(), Options())
    (kernel,) = result.kernels
    said = {str(name): str(answer.verdict) for name, answer in kernel.verdicts.items()}
    assert said == {
        "race-free": "unknown",
        "in-bounds": "unknown",
        "barriers-uniform": "proven",
        "shared-initialised": "proven",
    }
