"""The two front ends of the host IR say the same: mypy's tree and libcst give one program, up to types."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from mypy import build
from mypy.modulefinder import BuildSource
from mypy.options import Options

from tilecheck.diagnostic import Span
from tilecheck.frontend.host import read_host as read_libcst
from tilecheck.frontend.source import Source
from tilecheck.ir import host as ir
from tilecheck_mypy.host import Reading, read_host
from tilecheck_mypy.slices import sliced

SAMPLE = Path(__file__).parent / "plugin" / "constructs.py"
# What only one of them can know, or says at another place.
TYPES = frozenset({"type", "contract", "annotation", "returns"})


def outline(node: object, depth: int = 0) -> Iterator[str]:
    """`node` as lines: class, start, and the values of its fields."""
    if isinstance(node, ir.Function) and any(
        d.full == "typing.overload" for d in node.decorators if isinstance(d, ir.Name)
    ):
        return
    if isinstance(node, ir.HostNode):
        exact = isinstance(node, ir.Name | ir.Call | ir.Const | ir.Attr | ir.Function)
        at = f":{node.span.column}" if exact else ""
        yield f"{'  ' * depth}{type(node).__name__} {'' if isinstance(node, ir.Handler) else node.span.line}{at}"
        for field in fields(node):
            if field.name not in TYPES and field.name != "span":
                yield f"{'  ' * depth} .{field.name}"
                yield from outline(getattr(node, field.name), depth + 1)
    elif isinstance(node, tuple):
        for item in node:
            yield from outline(item, depth)
    elif not isinstance(node, Span):
        yield f"{'  ' * depth}{node!r}"


@pytest.fixture(scope="module")
def reading() -> Reading:
    options = Options()
    options.preserve_asts = options.export_types = True
    options.incremental = False
    result = build.build([BuildSource(str(SAMPLE), "sample", None)], options)
    assert result.errors == []
    # Said to be unchecked, so that every body is read.
    return read_host(result.files["sample"], result.types, lambda _: False)


@pytest.fixture(scope="module")
def from_mypy(reading: Reading) -> ir.HostModule:
    return reading.module


def test_mypy_and_libcst_read_the_same_program(from_mypy: ir.HostModule) -> None:
    from_libcst = read_libcst(Source(str(SAMPLE), SAMPLE.read_text("utf-8")), "sample")
    assert list(outline(from_mypy.body)) == list(outline(from_libcst.body))


def test_types_say_what_the_surface_says(from_mypy: ir.HostModule) -> None:
    calls = [node for node in ir.walk(*from_mypy.body) if isinstance(node, ir.Call)]
    made = {str(call.type) for call in calls if isinstance(call.func, ir.Attr) and call.func.full == "tilecheck.zeros"}
    assert made == {str(ir.HostType("tilecheck.Tensor", ir.Access.OWNED, "f32", (None,)))}
    launches = {c.type for c in calls if isinstance(c.func, ir.Name) and c.func.id == "copy"}
    assert launches == {ir.HostType("tilecheck.DeviceOp")}


def test_a_slice_keeps_kernels_and_blanks_host_code(reading: Reading) -> None:
    text = SAMPLE.read_text("utf-8").replace("    global G\n", "    G = 1\n")
    starts = [n for n, line in enumerate(text.split("\n"), 1) if line and line[0] not in " #)"]
    kept = sliced(text, reading, starts).split("\n")
    assert reading.kernels == (("copy", "tilecheck.kernel"),)
    assert len(kept) == len(text.split("\n"))
    assert "    z.store(tc.load_like(x, z))" in kept and "class B(Dim): ..." in kept and "G = 3" in kept
    assert not any(line.startswith(("def main", "class Model", "    op.sync")) for line in kept)
