"""Memory is read, written, moved or freed while device work on it is under way.

Why: a launch or an asynchronous copy returns before its work is done. Until the host has waited, what it reads is stale
or half written, and what it writes or frees is pulled from under the device. Work on two streams has no order either,
unless an event gives it one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from keyword import iskeyword
from typing import Literal

from tilecheck.borrow.findings import Break, Broken
from tilecheck.checked import Checked
from tilecheck.diagnostic import Diagnostic, Label
from tilecheck.edit import Edit

SEVERITY: Literal["error", "warning"] = "error"

BAD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    running = copy(z.partition(8), x).run()
    print(z.numpy())  # error
    running.wait()
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    q = cuda.stream()
    host = cuda.pinned_array(1000, dtype=np.float64)
    d = cuda.to_device(host, stream=q)
    scale[8, 128, q](d, 3.0)
    d.copy_to_host(host, stream=q)
    print(host.max())  # error
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    a, b = cuda.stream(), cuda.stream()
    d = cuda.device_array(1000)
    scale[8, 128, a](d, 3.0)
    scale[8, 128, b](d, 2.0)  # error
""",
)

GOOD = (
    """
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32


class B(Dim): ...


@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))


def main() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    running = copy(z.partition(8), x).run()
    running.wait()
    print(z.numpy())
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    q = cuda.stream()
    host = cuda.pinned_array(1000, dtype=np.float64)
    d = cuda.to_device(host, stream=q)
    scale[8, 128, q](d, 3.0)
    d.copy_to_host(host, stream=q)
    q.synchronize()
    print(host.max())
""",
    """
import numpy as np
from numba import cuda


@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by


def main() -> None:
    a, b = cuda.stream(), cuda.stream()
    d = cuda.device_array(1000)
    scale[8, 128, a](d, 3.0)
    done = cuda.event()
    done.record(a)
    done.wait(b)
    scale[8, 128, b](d, 2.0)
""",
)


_KINDS = (
    Break.RUNNING,
    Break.MOVED_RUNNING,
    Break.MOVED_CAPTURED,
    Break.COPY,
    Break.UNORDERED,
    Break.OWNER,
    Break.FREED,
)


def check(checked: Checked) -> Iterator[Diagnostic]:
    """The uses of what the device still works on."""
    for broken in checked.host.broken if checked.host is not None else ():
        if broken.kind in _KINDS:
            labels = tuple(_labels(broken))
            yield Diagnostic("use-in-flight", SEVERITY, _message(broken), broken.span, None, labels, _help(broken))
    yield from checked.faults_of("use-in-flight", SEVERITY)


def _message(broken: Broken) -> str:
    place, holder = broken.place, broken.holder
    use = "write" if broken.writes else "read"
    match broken.kind:
        case Break.RUNNING:
            return f"cannot {use} `{place}`: `{holder}` may still be running on it"
        case Break.MOVED_RUNNING | Break.MOVED_CAPTURED:
            return f"cannot move `{place}`: `{holder}` still uses it"
        case Break.COPY:
            return f"`{broken.by}` {use}s `{place}` while work on it is in flight"
        case Break.UNORDERED:
            first, _, second = holder.partition(", ")
            other = f"`{first}`" if first else "another stream"
            other = f"the `{first}` of an earlier round" if first and first == second else other
            on = f"`{second}`" if second else "one stream"
            return f"`{place}` is used on {on} while {other} may still work on it"
        case Break.OWNER:
            whose = f"the memory of `{place}`, which is gone" if place != broken.by else "memory whose owner is gone"
            return f"`{broken.by}` uses {whose}"
        case _:
            return f"`{place}` is freed here while `{holder}` may still work on it"


def _labels(broken: Broken) -> Iterator[Label]:
    if broken.origin is not None:
        began = {
            Break.COPY: f"`{broken.param}` hands it over here",
            Break.OWNER: f"`{broken.holder}` takes its address here, not its ownership",
        }
        taken = f" as `{broken.param}`" if broken.param else ""
        yield Label(broken.origin, began.get(broken.kind, f"`{broken.place}` is handed over here{taken}"))
    if broken.later is not None:
        yield Label(broken.later, "it is used again here")


def _help(broken: Broken) -> str:
    match broken.kind:
        case Break.COPY:
            if broken.holder and broken.past:
                return _EACH_ROUND.format(broken.holder)
            stream = f"`{broken.holder}.synchronize()`" if broken.holder else "`cuda.synchronize()`"
            return f"wait first: {stream}"
        case Break.UNORDERED:
            first, _, second = broken.holder.partition(", ")
            if first and first == second:
                return _EACH_ROUND.format(first)
            if not first or not second:
                return "record an event on the one stream and let the other wait for it"
            return f"record an event on `{first}` and let `{second}` wait for it"
        case Break.OWNER if "(" in broken.place:
            return "give the owner a name that lives as long, and pass it as `owner=`"
        case Break.OWNER:
            return f"keep `{broken.place}` alive: pass `owner={broken.place}`"
        case Break.MOVED_CAPTURED:
            return f"drop the graph first: `del {broken.holder}`"
        case Break.FREED:
            return f"`{broken.place}.record_stream({broken.holder})`, or wait for `{broken.holder}` first"
        case _ if broken.named:
            return (
                f"wait first: `await {broken.holder}`" if broken.in_async else f"wait first: `{broken.holder}.wait()`"
            )
        case _:
            return "`await` it first" if broken.in_async else "`wait()` for it first"


_EACH_ROUND = "make `{0}` once, before the loop, or end each round with `{0}.synchronize()`"


def fix(line: str, diagnostic: Diagnostic) -> Edit | None:
    """Wait on the line before, where the work has a name and the line is a statement of its own."""
    wait = _WAIT.match(diagnostic.help or "")
    start = line[: len(line) - len(line.lstrip())]
    first = re.match(r"\w+", line.lstrip())
    if wait is None or first is None or iskeyword(first[0]) or diagnostic.span.end_line != diagnostic.span.line:
        return None
    if ";" in line or any(label.span.line == diagnostic.span.line for label in diagnostic.labels):
        return None  # the work may be started on this very line
    name = wait[1].removeprefix("await ").removesuffix("()")
    name = name if wait[1].startswith("await ") else name.rpartition(".")[0]
    return Edit(diagnostic.span.line, 1, 1, f"{start}{wait[1]}\n", needs=name)


# `cuda` may have another name in this file; a stream and a running op have the one that the finding says.
_WAIT = re.compile(r"wait first: `((?!cuda\.)[\w.]+\.(?:wait|synchronize)\(\)|await [\w.]+)`")
