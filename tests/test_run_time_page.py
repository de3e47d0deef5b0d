"""`docs/run-time.md`: its code runs, its table is the ledger's."""

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

from tilecheck_runtime.loans import CONFLICTS, Access, State

PAGE = Path(__file__).parent.parent / "docs" / "run-time.md"
HOLDERS = {
    State.BUILT: "a built op",
    State.RUNNING: "a running op",
    State.CAPTURED: "a graph",
    State.REPEATING: "rounds of a prepared launch",
    State.LENT: "an array of another library",
}


def verb(holder: str, exclusive: bool) -> str:
    word = "write" if exclusive else "read"
    return word if holder.startswith("rounds") else f"{word}s"


@pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")
def test_the_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    assert len(blocks) >= 6
    text = "\n".join(blocks)
    name = "<docs/run-time.md>"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    scope: dict[str, Any] = {"__name__": "page"}
    exec(compile(text, name, "exec"), scope)


def test_the_table_is_current() -> None:
    rows = [
        f"| {holder} that {verb(holder, exclusive)} | "
        + " | ".join(CONFLICTS[state, exclusive].get(access, "") for access in Access)
        + " |"
        for state, holder in HOLDERS.items()
        for exclusive in (False, True)
    ]
    (table,) = re.findall(r"<!-- conflicts -->\n(.*?)<!-- end -->", PAGE.read_text("utf-8"), re.S)
    assert [re.sub(r"\s+", " ", line) for line in table.splitlines()[2:]] == [re.sub(r"\s+", " ", r) for r in rows]
