"""Writes `tilecheck/__init__.pyi`, the types of the public names, and `surface/opnames.py`, the names of the kernel ops.

The hand-written part is `surface/header.pyi`; what the op table knows is added here, so that an op is typed where it is
defined. A row's stub line is `def name(...) -> ...` for a function, `Tile: def name(self, ...) -> ...` for a method;
several are overloads. A name that the header has already (`zeros` makes tensors on the host, tiles in kernels) gets the
row's lines as further overloads.

    python -m tilecheck.ops.stub            # rewrite what is stale, print its name
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path

from tilecheck.ops import OPS, Op

PACKAGE = Path(__file__).parent.parent
HEADER = PACKAGE / "surface" / "header.pyi"


def files(ops: Mapping[str, Op]) -> dict[Path, str]:
    """The generated files by path: what they should say for the table `ops`."""
    return {
        PACKAGE / "__init__.pyi": stub_text(HEADER.read_text("utf-8"), ops),
        PACKAGE / "surface" / "opnames.py": names_text(ops),
    }


def stub_text(header: str, ops: Mapping[str, Op]) -> str:
    """`header` with the rows of `ops` merged in and `__all__` added, which leaves out the names of builtins."""
    module = ast.parse(header)
    added: dict[str, list[ast.FunctionDef]] = {}
    for row in ops.values():
        for owner, definition in signatures(row):
            added.setdefault(owner, []).append(definition)
    module.body = merged(list(by_rank(module.body)), added.pop("", []))
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            node.body = merged(node.body, added.pop(node.name, []))
    if added:
        raise ValueError(f"the stubs name classes that the header has not: {', '.join(added)}")
    exported = ast.parse(f"__all__ = {sorted(public(module) - vars(builtins).keys())!r}").body
    settings = [line for line in header.splitlines() if line.startswith("# mypy:")]
    return "\n".join([*settings, ast.unparse(module), ast.unparse(exported[0]), ""])


def by_rank(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """`body` with each function of `*shape: int` spelled out for ranks 1 to 4 and for any rank, the extents apart and as
    one tuple: how many there are is then part of the result's type.
    """
    for node in body:
        if not isinstance(node, ast.FunctionDef) or node.args.vararg is None or node.args.vararg.arg != "shape":
            yield node
            continue
        for rank in range(1, 5):
            extents = [ast.arg(name, ast.Name("int")) for name in ("n", "m", "k", "l")[:rank]]
            whole = ast.arg("shape", ast.parse(f"tuple[{', '.join(['int'] * rank)}]", mode="eval").body)
            for positional in (extents, [whole]):
                yield shaped(node, ast.arguments(positional, [], None, [], [], None, []), ", ".join(["Any"] * rank))
        anything = ast.arg("shape", ast.parse("int | tuple[int, ...]", mode="eval").body)
        yield shaped(node, ast.arguments([], [], anything, [], [], None, []), "*tuple[Any, ...]")


def shaped(node: ast.FunctionDef, arguments: ast.arguments, extents: str) -> ast.FunctionDef:
    """The function with other positional parameters, and `extents` added to the result's type."""
    copy = deepcopy(node)
    arguments.kwonlyargs, arguments.kw_defaults = copy.args.kwonlyargs, copy.args.kw_defaults
    copy.args = arguments
    assert copy.returns is not None
    copy.returns = ast.parse(f"{ast.unparse(copy.returns)[:-1]}, {extents}]", mode="eval").body
    return copy


def signatures(row: Op) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The row's stub lines as (class or "", definition), the first of each name with the row's documentation."""
    documented: set[tuple[str, str]] = set()
    for line in row.stub:
        owner = line.partition(":")[0] if not line.startswith("def ") else ""
        text = line.partition(":")[2].strip() if owner else line
        (definition,) = ast.parse(f"{text.partition('#')[0].rstrip()}: ...").body
        if not isinstance(definition, ast.FunctionDef):
            raise ValueError(f"the stub of `{row.name}` is no signature: {line}")
        summary = row.doc.partition("\n\n")[0].replace("\n", " ")
        if summary and (owner, definition.name) not in documented:
            definition.body = [ast.Expr(ast.Constant(summary)), *definition.body]
        documented.add((owner, definition.name))
        yield owner, definition


def public(module: ast.Module) -> set[str]:
    """The names that `module`, a stub, exports: definitions, `import x as x`, and `Dyn`."""
    names: set[str] = {"Dyn"}
    for node in module.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Subscript()):
                names.add(name)
            case ast.ImportFrom(names=aliases):
                names |= {alias.asname for alias in aliases if alias.asname is not None}
            case _:
                continue
    return {name for name in names if not name.startswith("_")} - {"plugin"}


def merged(body: list[ast.stmt], added: list[ast.FunctionDef]) -> list[ast.stmt]:
    """`body` and `added`, definitions of one name side by side and marked as overloads if there are several."""
    groups: dict[str, list[ast.FunctionDef]] = {}
    order: list[ast.stmt | str] = []
    for node in (*body, *added):
        if not isinstance(node, ast.FunctionDef) or is_property(node):
            order.append(node)
            continue
        if node.name not in groups:
            groups[node.name] = []
            order.append(node.name)
        groups[node.name].append(node)
    out: list[ast.stmt] = []
    for item in order:
        if not isinstance(item, str):
            out.append(item)
            continue
        several = len(groups[item]) > 1
        for definition in groups[item]:
            kept = [d for d in definition.decorator_list if ast.unparse(d) != "overload"]
            definition.decorator_list = [ast.Name("overload"), *kept] if several else kept
            out.append(definition)
    return out


def is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)


def names_text(ops: Mapping[str, Op]) -> str:
    """The module that lists the kernel ops which are functions of `tilecheck`."""
    names = sorted(name for name, row in ops.items() if row.function)
    lines = "".join(f'    "{name}",\n' for name in names)
    return f"""\"\"\"The kernel ops that `tilecheck` exports. Generated by `python -m tilecheck.ops.stub`, do not edit.\"\"\"

KERNEL_OPS: tuple[str, ...] = ({"" if not names else chr(10) + lines})
"""


def main() -> None:
    for path, text in files(OPS).items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(PACKAGE.parent)}")


if __name__ == "__main__":
    main()
