"""One source file, parsed at most once, for every reader.

`mentions_kernels` is the text gate: a file whose text names neither tilecheck, numba's cuda nor cuda.tile is decided
before parsing. `Source.span` turns a libcst node into a `Span`; positions are computed on first use.
"""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from tilecheck.diagnostic import Span

_GATE = re.compile(r"tilecheck|numba|cuda")


def mentions_kernels(text: str) -> bool:
    """Whether `text` may hold a kernel or its host code. False only when it cannot."""
    return _GATE.search(text) is not None


class Unreadable(Exception):
    """The file does not parse: `message` in words, `line` and `column` from 1."""

    def __init__(self, message: str, path: str, line: int, column: int) -> None:
        super().__init__(message)
        self.message = message
        self.span = Span(path, line, column, line, column + 1)


class Source:
    """The text of `path` and what was read from it. Raises `Unreadable` on first parse if it is not Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def module(self) -> cst.Module:
        """The libcst module; its nodes are the ones that `span` knows."""
        try:
            return cst.parse_module(self.text)
        except cst.ParserSyntaxError as error:
            raise Unreadable(error.message, self.path, error.raw_line, error.raw_column + 1) from None
        except RecursionError:
            raise Unreadable("nested too deeply to parse", self.path, 1, 1) from None

    @cached_property
    def _positions(self) -> dict[cst.CSTNode, object]:
        return dict(MetadataWrapper(self.module, unsafe_skip_copy=True).resolve(PositionProvider))

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands, without surrounding white space."""
        at = self._positions[node]
        return Span(self.path, at.start.line, at.start.column + 1, at.end.line, at.end.column + 1)  # type: ignore[attr-defined]
