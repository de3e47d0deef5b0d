"""One source file, parsed at most once, for every reader.

`Source.span` turns a libcst node into a `Span`; positions are computed on first use. Which files become a `Source` is
decided before, by `frontend/gate.py`.
"""

from __future__ import annotations

import ast
import warnings
from functools import cached_property

import libcst as cst

from tilecheck.diagnostic import Span
from tilecheck.frontend.depth import MOST_LEVELS, longest_statement, too_deep
from tilecheck.frontend.gate import Unreadable as Unreadable
from tilecheck.frontend.positions import Places

_TOO_DEEP = f"nested too deeply to be read (more than {MOST_LEVELS} levels): split this into several statements"


class Source:
    """The text of `path` and what was read from it. Raises `Unreadable` on first parse if it is not Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def module(self) -> cst.Module:
        """The libcst module; its nodes are the ones that `span` knows.

        CPython's own parser goes first: its messages are the ones people know, and what nests so deep that it would
        exhaust the stack of libcst's native parser is seen in its tree, or refused by an exception.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self.text, self.path)
            if (line := too_deep(tree, self.text)) is not None:
                raise Unreadable(_TOO_DEEP, self.path, line, 1)
            return cst.parse_module(self.text)
        except SyntaxError as error:
            raise Unreadable(error.msg, self.path, max(error.lineno or 1, 1), max(error.offset or 1, 1)) from None
        except cst.ParserSyntaxError as error:
            raise Unreadable(error.message, self.path, error.raw_line, error.raw_column + 1) from None
        except (RecursionError, MemoryError):
            raise Unreadable(_TOO_DEEP, self.path, longest_statement(self.text), 1) from None

    @cached_property
    def _places(self) -> Places:
        return Places(self.module)

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands, without surrounding white space. Raises `Unreadable` if nesting exhausts the stack."""
        try:
            line, column, end_line, end_column = self._places[node]
        except RecursionError:
            raise Unreadable(_TOO_DEEP, self.path, longest_statement(self.text), 1) from None
        return Span(self.path, line, column + 1, end_line, end_column + 1)
