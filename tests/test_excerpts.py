"""Excerpts of source lines that are too long to show whole: the part where their marks begin, marks below what they mark."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tilecheck.cli import group
from tilecheck.diagnostic import Diagnostic, Label, Span
from tilecheck.report.text import CUT, LONGEST, plain


def shown(line: str, *spans: tuple[int, int]) -> list[str]:
    """The excerpt of a finding whose marks cover `spans` of one line, from 0 and exclusive; the first is its own."""
    first, *others = (Span("f.py", 1, start + 1, 1, end + 1) for start, end in spans)
    labels = tuple(Label(span, f"label {k}") for k, span in enumerate(others))
    return plain(Diagnostic("usage", "error", "m", first, labels=labels), lambda _: (line,)).split("\n")[2:]


def cells(text: str) -> int:
    """Terminal cells: the wide characters of these tests take two."""
    return sum(2 if ord(char) > 0x4000 else 1 for char in text)


def test_a_line_that_fits_is_whole() -> None:
    line = "x" * LONGEST
    assert shown(line, (LONGEST - 1, LONGEST)) == [f"1 | {line}", "  | " + " " * (LONGEST - 1) + "^"]


@given(
    st.integers(LONGEST + 1, 400).flatmap(
        lambda n: st.tuples(
            st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(1, 90)), min_size=1, max_size=3)
        )
    )
)
def test_marks_stand_below_what_they_mark(case: tuple[int, list[tuple[int, int]]]) -> None:
    length, marks = case
    line = "".join(chr(0x4100 + k) if k % 7 == 0 else chr(97 + k % 26) for k in range(length))
    spans = [(start, min(start + many, length)) for start, many in marks]
    source, *below = shown(line, *spans)
    text = source[4:].removeprefix(CUT).removesuffix(CUT)
    offset = 4 + (len(CUT) if source[4:].startswith(CUT) else 0)
    assert text in line and len(text) == LONGEST
    at = line.index(text)
    first = min(spans)
    assert at <= first[0] < at + LONGEST
    own = next(row for row in below if "^" in row)
    start, end = (min(max(place, at), at + LONGEST) for place in spans[0])
    assert own.index("^") == offset + cells(text[: start - at])
    assert own.count("^") == max(cells(text[start - at : end - at]), 1)


def test_explain_shows_the_line_of_the_file_that_a_label_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kernels = "from numba import cuda\n\n\n@cuda.jit\ndef k(z):\n    z[cuda.threadIdx.x] += 1\n"
    Path("kernels.py").write_text(kernels, "utf-8")
    launch = "kernels.k[2, 64](z)"
    host = f"import numpy as np\nimport kernels\n\n\ndef main():\n    z = np.zeros(64)\n    {launch}\n"
    Path("host.py").write_text(host, "utf-8")
    result = CliRunner().invoke(group, ["explain", "kernels.py::k"])
    assert "host.py:7:5" in result.stdout and f"7 |     {launch}\n" in result.stdout
