"""`positions.Places` agrees with libcst's own provider."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from tilecheck.frontend.positions import Places

SOURCES = sorted((Path(__file__).parent.parent / "tilecheck" / "frontend").glob("*.py"))[:6]
TEXTS = [path.read_text() for path in SOURCES if path.stem != "__init__"]
ODD = 'x = (\n  1,\n)\r\ns = """a\nb"""\nif x:\n\n    # c\n    pass ; y = -x\n@d\ndef f(a, *, b=1): return a[1:2] if b else not a\n'


@pytest.mark.parametrize("text", [*TEXTS, ODD])
def test_places_are_libcsts(text: str) -> None:
    module = cst.parse_module(text)
    expected = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    places = Places(module)
    assert len(expected) > 10
    # From the end, the middle and the start: the order of asking does not matter.
    nodes = sorted(expected, key=lambda node: hash(node) % 7)
    for node in nodes:
        at = expected[node]
        if node is not module:
            assert places[node] == (at.start.line, at.start.column, at.end.line, at.end.column)


def test_a_node_of_another_module_has_no_place() -> None:
    with pytest.raises(KeyError):
        Places(cst.parse_module("x = 1"))[cst.parse_module("x = 1").body[0]]
