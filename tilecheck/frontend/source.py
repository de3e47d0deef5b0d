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
from tilecheck.frontend.gate import Unreadable as Unreadable
from tilecheck.frontend.positions import Places


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

        CPython's own parser goes first: its messages are the ones people know, and it refuses by an exception the
        nesting that would exhaust the stack of libcst's native parser.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(self.text, self.path, "exec", flags=ast.PyCF_ONLY_AST, dont_inherit=True)
            return cst.parse_module(self.text)
        except SyntaxError as error:
            raise Unreadable(error.msg, self.path, max(error.lineno or 1, 1), max(error.offset or 1, 1)) from None
        except cst.ParserSyntaxError as error:
            raise Unreadable(error.message, self.path, error.raw_line, error.raw_column + 1) from None
        except (RecursionError, MemoryError):
            raise Unreadable("nested too deeply to parse", self.path, 1, 1) from None

    @cached_property
    def _places(self) -> Places:
        return Places(self.module)

    def span(self, node: cst.CSTNode) -> Span:
        """Where `node` stands, without surrounding white space. Raises `Unreadable` if nesting exhausts the stack."""
        try:
            line, column, end_line, end_column = self._places[node]
        except RecursionError:
            raise Unreadable("nested too deeply to analyse", self.path, 1, 1) from None
        return Span(self.path, line, column + 1, end_line, end_column + 1)
