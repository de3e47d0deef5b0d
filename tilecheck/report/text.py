"""Findings for people: message, source excerpt with its points, help.

    error[data-race]: cannot write `c[i, j]` while `old` borrows it
      --> gemm.py:21:5
    18 |     old = c.tile(i, j)
       |           ------------ `c[i, j]` is borrowed here
    21 |     c.store(i, j, acc)
       |     ^^^^^^^^^^^^^^^^^^ the finding itself
    help: use `old` for the last time before line 21, or copy it with `load`

`render` makes lines of (text, style) pieces; joined, they are the plain text, so that a test, a README and a terminal
show the same. Styles are rich's names, but rich is only needed to print them in colour. Of a line of source that is longer
than `LONGEST` a part is shown, the one where its marks begin, between dots.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence

from tilecheck.diagnostic import Diagnostic, Label, Span, Witness

Piece = tuple[str, str]
Line = tuple[Piece, ...]
SourceLines = Callable[[str], Sequence[str]]

# Characters of a source line that are shown, and how many of those stand before its first mark.
LONGEST, BEFORE = 160, 40
CUT = "..."

_COLOUR = {"error": "bold red", "warning": "bold yellow", "note": "bold cyan"}


def render(diagnostic: Diagnostic, lines_of: SourceLines) -> Iterator[Line]:
    """The lines of one finding; `lines_of(path)` gives the text of a file, empty if it cannot be read."""
    colour = _COLOUR[diagnostic.severity]
    yield ((f"{diagnostic.severity}[{diagnostic.rule}]", colour), (f": {diagnostic.message}", "bold"))
    yield from _excerpts(diagnostic, lines_of, colour)
    if diagnostic.witness is not None:
        yield from _witness(diagnostic.witness)
    for note in diagnostic.notes:
        yield (("note", "bold cyan"), (f": {note}", ""))
    if diagnostic.help:
        first, *rest = diagnostic.help.split("\n")
        yield (("help", "bold green"), (f": {first}", ""))
        for line in rest:
            yield ((f"      {line}", ""),)


def plain(diagnostic: Diagnostic, lines_of: SourceLines) -> str:
    """`render` as text."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in render(diagnostic, lines_of))


def _excerpts(diagnostic: Diagnostic, lines_of: SourceLines, colour: str) -> Iterator[Line]:
    main = Label(diagnostic.span, next((lb.text for lb in diagnostic.labels if lb.span == diagnostic.span), ""))
    labels = [label for label in diagnostic.labels if label.span != diagnostic.span]
    marks = [(main, "^", colour)] + [(label, "-", "bold blue") for label in labels]
    paths = dict.fromkeys(label.span.path for label, _, _ in marks)
    width = max(len(str(label.span.line)) for label, _, _ in marks)
    for path in paths:
        here = [mark for mark in marks if mark[0].span.path == path]
        yield ((" " * (width + 1) + "--> ", "bold blue"), (str(here[0][0].span), ""))
        text = lines_of(path)
        for number in sorted({label.span.line for label, _, _ in here}):
            if not 1 <= number <= len(text):
                continue
            source = text[number - 1].rstrip("\r\n")
            on_line = sorted((m for m in here if m[0].span.line == number), key=lambda m: m[0].span.column)
            part = _part(source, on_line[0][0].span)
            dots = "" if part.stop == len(source) else CUT
            before = CUT if part.start else ""
            yield ((f"{number:>{width}} | ", "bold blue"), (before + _visible(source[part]) + dots, ""))
            for label, sign, style in on_line:
                start, length = _underline(source, label.span, part)
                start += len(before)
                pointer = sign * length + (f" {label.text}" if label.text else "")
                yield ((" " * width + " | ", "bold blue"), (" " * start + pointer, style))


def _part(source: str, first: Span) -> slice:
    """Which part of a line is shown; `first` is its first mark."""
    if len(source) <= LONGEST:
        return slice(0, len(source))
    start = min(max(first.column - 1 - BEFORE, 0), len(source) - LONGEST)
    return slice(start, start + LONGEST)


def _underline(source: str, span: Span, part: slice) -> tuple[int, int]:
    """Where in the part of the line the marks of `span` begin, and how many there are, in terminal cells."""
    start = min(max(span.column - 1, part.start), part.stop)
    end = span.end_column - 1 if span.end_line == span.line else len(source.rstrip())
    end = max(min(end, part.stop), start)
    return _cells(_visible(source[part.start : start])), max(_cells(_visible(source[start:end])), 1)


def _visible(source: str) -> str:
    """`source` without characters that would move the cursor: tabs as four blanks, controls replaced."""
    spaced = source.replace("\t", "    ")
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(char) == "Cc" else char for char in spaced)


def _cells(text: str) -> int:
    return sum(_width(char) for char in text)


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _witness(witness: Witness) -> Iterator[Line]:
    launch = ", ".join(f"{name} = {value}" for name, value in witness.launch.items())
    index = ", ".join(map(str, witness.index))
    parties = " and ".join(witness.threads)
    verb = "meet at" if len(witness.threads) > 1 else "reaches"
    element = f" {verb} `{witness.array}[{index}]`" if witness.array else ""
    yield (("witness", "bold magenta"), (f": {parties}{element}" + (f" when {launch}" if launch else ""), ""))
