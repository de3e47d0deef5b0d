"""Every method of our host objects has a stated effect, and the checker does what is stated."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import tilecheck
from tilecheck.borrow.surface import TABLE, Effect
from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules

STUB = Path(tilecheck.__file__).with_suffix(".pyi")
HEAD = """\
import numpy as np
import tilecheck as tc
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32

class B(Dim): ...

@tc.kernel
def copy(z: Tensor[Mut, f32, B], x: Tensor[Shared, f32, Dyn]) -> None:
    z.store(tc.load_like(x, z))

def main() -> None:
    z, x, s = tc.zeros(64), tc.ones(64), tc.Stream()
"""
NOT_HELD = {"Tile", "View", "SubTiles", "Index", "_OwnedAxis"}
"""Classes of kernels, and markers."""


def declared() -> dict[str, set[str]]:
    """The methods, properties and fields of each class of the stub that is no error, warning, protocol or kernel value."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(STUB.read_text()).body:
        if not isinstance(node, ast.ClassDef) or node.name in NOT_HELD:
            continue
        bases = " ".join(ast.unparse(base) for base in node.bases)
        if not any(word in bases for word in ("Error", "Warning", "Refused", "Protocol", "Enum")):
            own = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
            own |= {
                part.target.id
                for part in node.body
                if isinstance(part, ast.AnnAssign)
                if isinstance(part.target, ast.Name)
            }
            found[node.name] = own
    return found


def test_no_method_of_the_stub_is_without_an_effect() -> None:
    stub = declared()
    assert {kind for kind, names in stub.items() if names} == TABLE.keys()
    numbers = {kind for kind, rows in TABLE.items() if not rows} | {"_Tuned"}
    for kind in TABLE.keys() - numbers:
        assert TABLE[kind].keys() == stub[kind], kind


def rules(*lines: str) -> list[str]:
    text = HEAD + "".join(f"    {line}\n" for line in lines)
    return [found.rule for found in check_text("program.py", text, Modules(), Options()).diagnostics]


TENSOR = {
    "shape": "z.shape", "size": "z.size", "ndim": "z.ndim", "nbytes": "z.nbytes", "dtype": "z.dtype", "device": "z.device",
    "__len__": "len(z)", "numpy": "z.numpy()", "item": "z[0:1].item()", "__array__": "np.asarray(z)",
    "__float__": "float(z[0])", "__int__": "int(z[0])", "__iter__": "sum(v for v in z)", "__setitem__": "z[0] = 1.0",
    "copy": "z.copy()", "astype": "z.astype(tc.f16)", "__getitem__": "z[0:8]", "reshape": "z.reshape(8, 8)",
    "view": "z.view(tc.i32)", "partition": "z.partition(8)", "split": "z.split(16)",
    "into_partition": "z.into_partition(8)",
}  # fmt: skip
IN_FLIGHT = (Effect.READ, Effect.WRITE, Effect.COPY, Effect.MOVE)


@pytest.mark.parametrize("name", TENSOR)
def test_a_method_of_a_tensor_meets_what_runs_on_it_as_its_effect_says(name: str) -> None:
    effect = TABLE["Tensor"][name]
    call = TENSOR[name] if "=" in TENSOR[name] else f"got = {TENSOR[name]}"
    found = rules("r = copy(z.partition(8), x).run()", call, "r.wait()")
    assert found == (["use-in-flight"] if effect in IN_FLIGHT else [])
    assert rules("r = copy(z.partition(8), x).run()", "r.wait()", call) == []


OP = {
    "grid": "op.grid", "run": "op.run().wait()", "sync": "op.sync()", "sync_on": "op.sync_on(s)", "then": "op.then(tc.value).sync()",
    "map": "op.map(len).sync()", "inspect": "op.inspect(print).sync()", "shared": "op.shared().sync()", "first": "op.first().sync()",
    "last": "op.last().sync()", "unpartition": "op.unpartition().sync()", "to_host": "op.last().to_host().sync()",
    "with_grid": "op.with_grid(8).sync()", "unzip": "print(op.unzip())", "compile": "op.compile()", "discard": "op.discard()",
    "graph": "g = op.graph()", "prepare": "again = op.prepare()",
}  # fmt: skip


@pytest.mark.parametrize("name", OP)
def test_an_op_is_used_up_as_its_effect_says(name: str) -> None:
    keeps = TABLE["DeviceOp"][name] is Effect.LOOK
    lines = ("op = copy(z.partition(8), x)", OP[name], *(["op.sync()"] if keeps else []))
    assert rules(*lines) == []
    assert rules(*lines, "op.sync()") == ["use-after-move"]


RUNNING = {"stream": "r.stream", "done": "r.done()", "wait": "r.wait()"}


@pytest.mark.parametrize("name", RUNNING)
def test_a_running_op_is_over_as_its_effect_says(name: str) -> None:
    over = TABLE["Running"][name] is Effect.WAIT
    found = rules("r = copy(z.partition(8), x).run(s)", RUNNING[name], "print(z.numpy())", "r.wait()")
    assert found == ([] if over else ["use-in-flight"])


STREAM = {
    "a stream": ("r = copy(z.partition(8), x).run(s)", "s.synchronize()"),
    "the stream of a running op": ("r = copy(z.partition(8), x).run(None)", "r.stream.synchronize()"),
    "a policy": ("with tc.streams(tc.Single(s)):", "    r = copy(z.partition(8), x).run()", "s.synchronize()"),
    "turns": (
        "turns = tc.RoundRobin(2)",
        "q = turns.next_stream()",
        "r = copy(z.partition(8), x).run(q)",
        "q.synchronize()",
    ),
}


@pytest.mark.parametrize("lines", STREAM.values(), ids=STREAM)
def test_waiting_for_a_stream_ends_what_is_on_it(lines: tuple[str, ...]) -> None:
    assert rules(*lines, "print(z.numpy())") == []
    assert rules(*lines[:-1], "print(z.numpy())", "r.wait()") == ["use-in-flight"]
