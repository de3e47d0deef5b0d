"""Where the nodes of a libcst module stand in their file.

The same answer as libcst's `PositionProvider`, several times as fast: it is asked of every file, so it is most of the
time that reading a file takes. The module is printed once into a recorder that counts lines and columns.

Worked example: in `x = f(1)` the call stands at (1, 4, 1, 8): first line and column, then the end, columns from 0.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

import libcst as cst
from libcst._nodes.internal import CodegenState

Place = tuple[int, int, int, int]


class _Recorder(CodegenState):
    """Prints nowhere; remembers at which place each node starts and ends."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(default_indent=module.default_indent, default_newline=module.default_newline)
        self.line = 1
        self.column = 0
        self.places: dict[cst.CSTNode, Place] = {}
        self.starts: list[tuple[int, int]] = []

    def add_token(self, value: str) -> None:
        if "\n" in value or "\r" in value:
            parts = value.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            self.line += len(parts) - 1
            self.column = len(parts[-1])
        else:
            self.column += len(value)

    def add_indent_tokens(self) -> None:
        self.column += sum(map(len, self.indent_tokens))

    def before_codegen(self, node: cst.CSTNode) -> None:
        self.starts.append((self.line, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        line, column = self.starts.pop()
        if node not in self.places:
            self.places[node] = (line, column, self.line, self.column)

    def record_syntactic_position(  # type: ignore[override]  # a plain context manager will do
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> AbstractContextManager[None]:
        return _Stretch(self, node, start_node, end_node)


class _Stretch(AbstractContextManager[None]):
    """The part of a node without the white space around it; some nodes borrow an end from a child."""

    __slots__ = ("column", "end_node", "line", "node", "recorder", "start_node")

    def __init__(
        self, recorder: _Recorder, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self.recorder = recorder
        self.node = node
        self.start_node = start_node
        self.end_node = end_node

    def __enter__(self) -> None:
        self.line = self.recorder.line
        self.column = self.recorder.column

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        places = self.recorder.places
        start = (self.line, self.column) if self.start_node is None else places[self.start_node][:2]
        end = (self.recorder.line, self.recorder.column) if self.end_node is None else places[self.end_node][2:]
        places[self.node] = (*start, *end)


def places_of(module: cst.Module) -> dict[cst.CSTNode, Place]:
    """The place of every node below `module`. The end of the module itself counts its last line break."""
    recorder = _Recorder(module)
    module._codegen(recorder)
    return recorder.places
