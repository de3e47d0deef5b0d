"""What is generated is up to date: `make docs` would change nothing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    assert [str(path.relative_to(ROOT)) for path in generator().stale()] == [], "run `make docs`"


def test_the_stale_test_can_fail(tmp_path: Path) -> None:
    text = "a\n<!-- rules -->\nold\n<!-- /rules -->\nb\n"
    assert generator().between(text, "rules", "new\n") == "a\n<!-- rules -->\nnew\n<!-- /rules -->\nb\n"


def test_everything_the_host_calls_is_described() -> None:
    page = generator().host_page()
    assert "| `zeros(*shape: int, dtype: type[E] = ...)` | `Tensor[Owned, E]` | A tensor of zeros" in page
    assert "| `split(at: int, axis: int = 0)` |" in page
    assert [line for line in page.splitlines() if line.startswith("| `") and line.endswith("|  |")] == []
