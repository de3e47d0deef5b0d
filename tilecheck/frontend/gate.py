"""The text gate: which files are worth parsing at all.

A file whose text names neither tilecheck, numba's cuda nor cuda.tile holds no kernel and no host code of one, so it is
decided on its bytes, before anything is decoded, parsed or imported. `read_text` then decodes the few that pass, by
Python's own rules (a byte order mark or a coding line, else UTF-8).

Invariant: the gate answers False only when the file cannot hold a kernel. Every source encoding that Python reads
keeps ASCII letters as they are (UTF-16 and UTF-32 are not source encodings), so that a search of bytes is enough.
This module imports nothing heavy: a run over a code base without kernels never loads libcst.
"""

from __future__ import annotations

import io
import re
import tokenize

from tilecheck.diagnostic import Span

_GATE = re.compile(rb"tilecheck|numba|cuda")


class Unreadable(Exception):
    """The file does not parse: `message` in words, `line` and `column` from 1."""

    def __init__(self, message: str, path: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.span = Span(path, line, column, line, column + 1)


class Undecodable(Exception):
    """The bytes are no Python source text: `message` in words, `line` and `column` from 1, `help` if there is a way out."""

    def __init__(self, message: str, line: int, column: int = 1, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.help = help


def mentions_kernels(data: bytes) -> bool:
    """Whether the file with these bytes may hold a kernel or its host code."""
    return _GATE.search(data) is not None


def read_text(data: bytes) -> str:
    r"""The source text of `data`, its line ends as `\n`. Raises `Undecodable`."""
    zero = data.find(b"\0")
    if zero >= 0:
        raise Undecodable("binary data, not Python source", data.count(b"\n", 0, zero) + 1)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    except SyntaxError as error:
        if "unknown encoding" in str(error.msg):
            raise Undecodable(str(error.msg), 1) from None
        encoding = "utf-8"  # no coding line, and the first lines are not UTF-8: decoding says where
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        before = data[data.rfind(b"\n", 0, error.start) + 1 : error.start]
        column = len(before.decode(encoding, "replace")) + 1
        help = "save the file as UTF-8, or name its encoding in the first line: `# -*- coding: latin-1 -*-`"
        raise Undecodable(f"byte 0x{data[error.start]:02x} is not {encoding} text", line, column, help) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
