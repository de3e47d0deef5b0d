"""From thread-level IR to a Python function, so that a launch of a thousand threads takes milliseconds.

A kernel becomes one generator function (a plain one if it never waits for other threads): kernel variables are Python
locals, every array access a call into `simt_memory` with the number of its site, every barrier, vote and atomic a
`yield` at which the scheduler may run someone else. An inlined helper becomes a nested function, so that its `return`
leaves just that.

Worked example: `x[cuda.grid(1)] = 0` becomes `write1(t, v0, ((t.bx * t.dx) + t.tx), 0, 0)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilecheck.interp.simt_text import Writer
from tilecheck.ir.kernel import (
    Assign,
    Inline,
    Kernel,
    Name,
    Node,
    Return,
    walk,
)
from tilecheck.ir.simt import (
    Atomic,
    Barrier,
    FillSlice,
    Store,
    Unread,
)


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled kernel. `make(runtime)` binds it to one launch; `sites` are the nodes that accesses refer to;
    `waits` says whether it is a generator, `meets_grid` whether it has a grid barrier; `written` are the arrays that may be stored to, by IR name.
    """

    kernel: Kernel
    make: Callable[[Any], Callable[..., Any]]
    sites: tuple[Node, ...]
    waits: bool
    meets_grid: bool
    written: frozenset[str]
    text: str


def compile_kernel(kernel: Kernel) -> Program:
    """Compile `kernel`. Never raises for a kernel that a frontend made."""
    writer = Writer(kernel)
    text = writer.kernel_text()
    meets = any(isinstance(node, Barrier) and node.scope == "grid" for node in walk(*kernel.body))
    scope: dict[str, Any] = {}
    exec(compile(text, f"<{kernel.name}>", "exec"), scope)
    return Program(
        kernel, scope["make"], tuple(writer.sites), writer.waits(kernel.body), meets, written_arrays(kernel), text
    )


def written_arrays(kernel: Kernel) -> frozenset[str]:
    """The variables whose arrays some access of `kernel` may write; aliases and views count for what they alias."""
    links: dict[str, set[str]] = {}
    written: set[str] = set()
    for node in walk(*kernel.body):
        match node:
            case Store(array=array) | FillSlice(array=array) | Atomic(array=array):
                written |= _names(array)
            case Unread(touches=touches):
                written |= {p.name for p in kernel.params} if touches is None else set(touches)
            case Assign(target=target, value=value):
                for source in _names(value):
                    links.setdefault(target, set()).add(source)
            case Inline(result=result, body=body) if result is not None:
                for inner in walk(*body):
                    if isinstance(inner, Return) and inner.value is not None:
                        links.setdefault(result, set()).update(_names(inner.value))
            case _:
                pass
    waiting = list(written)
    while waiting:
        for source in links.get(waiting.pop(), ()):
            if source not in written:
                written.add(source)
                waiting.append(source)
    return frozenset(written)


def _names(value: Node) -> set[str]:
    return {node.id for node in walk(value) if isinstance(node, Name)}
