"""Which files and values are worth a look: the text gate of the linter, asked of mypy's tree and types."""

from __future__ import annotations

from mypy import nodes
from mypy.nodes import MypyFile
from mypy.types import Instance, TupleType, Type, TypeAliasType, TypeVarType, UnionType

# Imports that can make a file ours.
UNTYPED = frozenset({"numba", "numba_cuda", "cuda"})
ROOTS = UNTYPED | {"tilecheck"}


# Our own packages, which mypy reads along with every file that imports them; they have their own checks.
OWN = frozenset({"tilecheck", "tilecheck_mypy", "tilecheck_runtime"})


def mentions_kernels(file: MypyFile) -> bool:
    """Whether the file imports something that kernels or their host code are written with."""
    return file.fullname.partition(".")[0] not in OWN and mentions(file, ROOTS)


def mentions(file: MypyFile, roots: frozenset[str]) -> bool:
    """Whether the file imports a module with one of `roots` in its dotted name."""
    for statement in file.imports:
        match statement:
            case nodes.Import(ids=ids):
                modules = [module for module, _ in ids]
            case nodes.ImportFrom(id=module) | nodes.ImportAll(id=module):
                modules = [module]
            case _:
                continue
        if any(not roots.isdisjoint(module.split(".")) for module in modules):
            return True
    return False


def is_ours(type_: Type) -> bool:
    """Whether a value of `type_` may be one of ours."""
    if isinstance(type_, Instance):
        return type_.type.fullname.startswith("tilecheck")
    if isinstance(type_, TupleType | UnionType):
        return any(is_ours(item) for item in type_.items)
    return isinstance(type_, TypeVarType | TypeAliasType)
