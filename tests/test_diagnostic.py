from __future__ import annotations

from tilecheck.diagnostic import Diagnostic, Span


def test_findings_sort_by_place_then_rule() -> None:
    at = Span("k.py", 3, 5, 3, 9)
    later = Diagnostic("out-of-bounds", "error", "b", Span("k.py", 10, 1, 10, 2))
    first = Diagnostic("data-race", "error", "a", at)
    second = Diagnostic("out-of-bounds", "error", "a", at)
    assert sorted([later, second, first], key=Diagnostic.sort_key) == [first, second, later]
