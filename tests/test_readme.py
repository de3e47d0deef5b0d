"""The code blocks of the README and of the guide: refused ones are refused as announced, all others are clean and run."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilecheck.check import check_text
from tilecheck.judge import Options
from tilecheck.modules import Modules
from tilecheck_runtime import kernels

ROOT = Path(__file__).resolve().parent.parent
_BLOCK = re.compile(r"(?:<!-- refused: ([a-z0-9-]+) -->\n)?```python\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    number: int
    refused: str | None
    code: str


BLOCKS = [
    Block(page, number, match[1], match[2])
    for page in ("README.md", "docs/from-cuda-jit.md")
    for number, match in enumerate(_BLOCK.finditer((ROOT / page).read_text("utf-8")))
]


def name(block: Block) -> str:
    return f"{block.page}-{block.number}"


@pytest.mark.parametrize("block", BLOCKS, ids=name)
def test_a_block_is_refused_as_announced(block: Block) -> None:
    result = check_text("block.py", block.code, Modules(), Options())
    rules = {item.rule for item in result.diagnostics if item.severity != "note"}
    assert rules == ({block.refused} if block.refused else set())


@pytest.mark.parametrize("block", [block for block in BLOCKS if not block.refused], ids=name)
def test_a_block_runs(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "block.py"
    file.write_text(block.code, "utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_library_runs() -> None:
    example = [line.strip() for line in (kernels.__doc__ or "").split("\n") if line.startswith("    ")]
    exec("\n".join(example), {})
    assert example[-1].startswith("assert ")


def test_the_error_shown_is_the_error_given() -> None:
    """The message and the points; thread numbers may be others with another solver."""
    refused = next(block for block in BLOCKS if block.refused)
    (found,) = check_text("saxpy.py", refused.code, Modules(), Options()).diagnostics
    shown = (ROOT / "README.md").read_text("utf-8").partition("$ tilecheck check saxpy.py\n")[2].partition("```")[0]
    assert f"error[{found.rule}]: {found.message}\n" in shown
    assert str(found.span) in shown
    assert f"help: {found.help}\n" in shown
    for label in found.labels:
        assert refused.code.split("\n")[label.span.line - 1] in shown


def test_there_are_blocks_of_both_kinds() -> None:
    assert {bool(block.refused) for block in BLOCKS} == {True, False}
