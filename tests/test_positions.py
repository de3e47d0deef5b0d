"""`positions.places_of` agrees with libcst's own provider."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from tilecheck.frontend.positions import places_of

SOURCES = sorted((Path(__file__).parent.parent / "tilecheck" / "frontend").glob("*.py"))[:6]
TEXTS = [path.read_text() for path in SOURCES if path.stem != "__init__"]
ODD = 'x = (\n  1,\n)\r\ns = """a\nb"""\nif x:\n\n    # c\n    pass ; y = -x\n@d\ndef f(a, *, b=1): return a[1:2] if b else not a\n'


@pytest.mark.parametrize("text", [*TEXTS, ODD])
def test_places_are_libcsts(text: str) -> None:
    module = cst.parse_module(text)
    expected = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    places = places_of(module)
    assert len(places) == len(expected) > 10
    for node, at in expected.items():
        if node is not module:
            assert places[node] == (at.start.line, at.start.column, at.end.line, at.end.column)
