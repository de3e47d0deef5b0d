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
