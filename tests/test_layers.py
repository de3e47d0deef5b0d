"""A layer imports downward only; the checker imports neither mypy nor numba nor cuda; the plugin no runtime."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# From the bottom up. Rooms on one line are neighbours: they may know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("diagnostic", "edit", "spread", "stack"),
    ("surface",),
    ("ir",),
    ("ops", "checked"),
    ("frontend", "symbolic"),
    ("verify", "borrow", "interp"),
    ("rules",),
    ("report",),
    ("kernels", "config", "project", "modules", "reach", "judge", "imported", "check", "cache", "verdicts", "batch"),
    ("cli", "__main__"),
)
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
# A documentation string that is looked up when it is asked for.
ALLOWED = {("surface/kernel.py", "tilecheck.ops"), ("surface/kernel.py", "tilecheck.ops.OPS")}
FOREIGN = {"mypy", "numba", "numba_cuda", "cuda", "tilecheck_mypy", "tilecheck_runtime"}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(tree: ast.Module) -> Iterator[str]:
    """What a module imports when it runs: blocks under TYPE_CHECKING are for type checkers."""
    pending: list[ast.AST] = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending.extend(node.orelse)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            pending.extend(ast.iter_child_nodes(node))


def room_of(name: str) -> str | None:
    """The room of a module of the checker, by its dotted name."""
    parts = name.split(".")
    return parts[1] if parts[0] == "tilecheck" and len(parts) > 1 and parts[1] in RANK else None


def upward(path: Path, source: str) -> list[str]:
    """The imports of one module of the checker that point upward or outside."""
    module = path.relative_to(ROOT / "tilecheck")
    here = module.parts[0].removesuffix(".py")
    wrong = []
    for name in imports(ast.parse(source)):
        room = room_of(name)
        if name.partition(".")[0] in FOREIGN or (here in RANK and room is not None and RANK[room] > RANK[here]):
            wrong.append(name)
    return [name for name in wrong if (module.as_posix(), name) not in ALLOWED]


@pytest.mark.parametrize("path", modules("tilecheck"), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_layer_imports_downward_only(path: Path) -> None:
    assert upward(path, path.read_text("utf-8")) == []


def test_the_layer_test_can_fail() -> None:
    source = "import numba\nfrom tilecheck.rules import RULES\nfrom tilecheck.ir import kernel\n"
    wrong = upward(ROOT / "tilecheck" / "frontend" / "tile.py", source)
    assert sorted(wrong) == ["numba", "tilecheck.rules", "tilecheck.rules.RULES"]


def test_every_room_has_a_layer() -> None:
    rooms = {
        path.name.removesuffix(".pyi").removesuffix(".py")
        for path in (ROOT / "tilecheck").iterdir()
        if path.name != "__init__.py"
    }
    assert {room for room in rooms if not room.startswith(("__pycache__", "py.typed", "__init__"))} == set(RANK)


@pytest.mark.parametrize("path", modules("mypy_plugin"), ids=lambda path: path.name)
def test_the_plugin_knows_no_runtime(path: Path) -> None:
    named = {name.partition(".")[0] for name in imports(ast.parse(path.read_text("utf-8")))}
    assert not named & {"tilecheck_runtime", "numba", "cuda", "libcst"}


@pytest.mark.parametrize("path", modules("runtime"), ids=lambda path: path.name)
def test_the_runtime_knows_no_mypy(path: Path) -> None:
    named = {name.partition(".")[0] for name in imports(ast.parse(path.read_text("utf-8")))}
    assert not named & {"mypy", "tilecheck_mypy"}
