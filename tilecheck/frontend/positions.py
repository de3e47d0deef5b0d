"""Where the nodes of a libcst module stand in their file.

The same answer as libcst's `PositionProvider`, several times as fast: it is asked of every file, so it is most of the
time that reading a file takes. The module is printed once into a recorder that counts lines and columns, statement by
statement until the one in question: kernels often stand at the top of long files.

Worked example: in `x = f(1)` the call stands at (1, 4, 1, 8): first line and column, then the end, columns from 0.
"""

from __future__ import annotations

from collections.abc import Iterator
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


class Places:
    """The place of every node below `module`, worked out from the top as far as somebody asks.

    The end of the module itself counts its last line break.
    """

    def __init__(self, module: cst.Module) -> None:
        self._recorder = _Recorder(module)
        self._parts = self._print(module)
        # Nothing behind a statement whose printing broke off gets a place.
        self._broken = False

    def __getitem__(self, node: cst.CSTNode) -> Place:
        """Raises KeyError for a node of another module, RecursionError if nesting exhausts the stack before the node."""
        places = self._recorder.places
        while node not in places:
            if self._broken:
                raise RecursionError
            self._broken = True
            part = next(self._parts, None)
            self._broken = False
            if part is None:
                raise KeyError(node)
        return places[node]

    def _print(self, module: cst.Module) -> Iterator[cst.CSTNode]:
        recorder = self._recorder
        recorder.before_codegen(module)
        for part in (*module.header, *module.body, *module.footer):
            part._codegen(recorder)
            yield part
        if module.has_trailing_newline:
            recorder.add_token(recorder.default_newline)
        recorder.after_codegen(module)
        yield module
