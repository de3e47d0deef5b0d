"""Places in the user's program: where a borrow was taken, and what the user calls a tensor.

A site is the innermost frame outside tilecheck. It is read when a borrow is taken (a few hundred nanoseconds), so that
an error raised much later can still name that line. What the user calls a tensor is read from the source of the running
call, and only when an error is worded: `state.z.numpy()` is about `state.z`. Locals are never looked at, because a
look at a frame's locals keeps them alive.
"""

from __future__ import annotations

import ast
import dis
import linecache
import os
import sys
from itertools import islice
from types import CodeType, FrameType, ModuleType
from typing import NamedTuple

_OURS = frozenset({"tilecheck", "tilecheck_runtime"})
# By the name of a module, whether it is ours.
_known: dict[object, bool] = {}
# Longer expressions say less than "the tensor".
MAX_WORDS = 40


class Site(NamedTuple):
    """A line of the user's source: the code and its instruction (`frame.f_lasti`), which are quicker to note than the line
    is to look up. Prints as `path:line`, relative to the working directory where that is shorter.
    """

    code: CodeType
    instruction: int

    @property
    def path(self) -> str:
        """The file."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line, from 1; 0 if there is none."""
        line = next(islice(self.code.co_positions(), self.instruction // 2, None), (None,))[0]
        return (line or self.code.co_firstlineno) if self.code is not _NOWHERE else 0

    def __str__(self) -> str:
        return place(self.path, self.line)


_NOWHERE = compile("", "<unknown>", "exec")


def place(path: str, line: int) -> str:
    """`path:line`, relative to the working directory where that is shorter."""
    if os.path.isabs(path):
        inside = os.path.relpath(path)
        path = path if inside.startswith("..") else inside
    return f"{path}:{line}"


def here() -> Site:
    """The line of the user's code that is running."""
    return caller(1)


def in_del() -> bool:
    """Whether the user's code is at a `del` statement: what ends there was dropped by name. For finalisers."""
    frame = _user_frame()
    return frame is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("DELETE_")


def caller(skipped: int) -> Site:
    """`here`, where `skipped` frames above the caller's own are ours."""
    frame = _user_frame(skipped)
    return Site(_NOWHERE, 0) if frame is None else Site(frame.f_code, frame.f_lasti)


def subject(otherwise: str = "the tensor") -> str:
    """What the running call of the user is about, as written and in backticks: the receiver of a method, the first
    argument of a function, what is subscripted or compared. `otherwise` if the source does not say.
    """
    frame = _user_frame()
    call = None if frame is None else _running_expression(frame)
    match call:
        case ast.Call(func=ast.Attribute(value=receiver)) if not _is_module(receiver, frame):
            found: ast.expr = receiver
        case ast.Call(args=[first, *_]):
            found = first
        case ast.Subscript(value=value) | ast.Attribute(value=value):
            found = value
        case ast.Compare(left=ast.Constant(), comparators=[value, *_]) | ast.Compare(left=value):
            found = value
        case _:
            return otherwise
    text = ast.unparse(found)
    return f"`{text}`" if len(text) <= MAX_WORDS else otherwise


def _running_expression(frame: FrameType) -> ast.expr | None:
    code = frame.f_code
    line, end_line, column, end_column = next(islice(code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    lines = [linecache.getline(code.co_filename, n, frame.f_globals).encode() for n in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    try:
        return ast.parse(f"({b''.join(lines).decode()})", mode="eval").body
    except (SyntaxError, UnicodeDecodeError):
        return None


def _is_module(receiver: ast.expr, frame: FrameType | None) -> bool:
    return (
        isinstance(receiver, ast.Name)
        and frame is not None
        and isinstance(frame.f_globals.get(receiver.id), ModuleType)
    )


def _user_frame(skipped: int = 0) -> FrameType | None:
    frame: FrameType | None = sys._getframe(skipped + 2)
    while frame is not None:
        name = frame.f_globals.get("__name__")
        ours = _known.get(name)
        if ours is None:
            ours = _known[name] = str(name).partition(".")[0] in _OURS
        if not ours:
            break
        frame = frame.f_back
    return frame
