"""What the body of a plain kernel does to its parameters, device functions inlined.

It answers, what a launch needs: which parameters are written, under which indices each one is
touched, whether the kernel uses the dynamic shared buffer, meets at a grid barrier, strides by the size of the grid, or guards what it does (`guarded`: it has an `if` or a `while`). One that `returns` a value is no kernel but a device function.

Invariant: what cannot be followed (a parameter handed to an unknown function, stored in a container) makes `writes`
None, and then no launch of the kernel is judged for aliasing.

Worked example: of

    def shift(src, dst, n):
        i = cuda.grid(1)
        if i < n: dst[i] = src[i + 1]

the writes are `{dst}` and the indices `{src: {"i + 1"}, dst: {"i"}}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tilecheck.borrow.guards import Guard, guards_of
from tilecheck.borrow.spell import spell
from tilecheck.borrow.vocabulary import LOOKED_AT, LOOKS, canonical
from tilecheck.ir import host as ir

Find = Callable[[str], ir.Function | ir.Class | ir.Expr | None]

_DEEPEST = 8
"""Device functions are followed this deep; recursion ends here."""


@dataclass(frozen=True, slots=True)
class Body:
    """See the module's docstring. `frozen` are the module variables that the body reads, with where; `guards` bound the
    threads that work.
    """

    writes: frozenset[str] | None
    reads: frozenset[str] = frozenset()
    indices: dict[str, frozenset[str]] = field(default_factory=dict)
    dynamic_shared: bool = False
    grid_barrier: bool = False
    strides: bool = False
    guarded: bool = False
    returns: bool = False
    frozen: tuple[ir.Name, ...] = ()
    guards: tuple[Guard, ...] = ()

    def apart(self, param: str) -> str:
        """The one index under which `param` is touched, empty if there are several or none."""
        found = self.indices.get(param, frozenset())
        return next(iter(found)) if len(found) == 1 else ""


def read_body(function: ir.Function, local: set[str], find: Find) -> Body:
    """The `Body` of a plain kernel that binds the names `local`."""
    reader = _Reader(find)
    roots = {param.name: param.name for param in function.params}
    reader.function(function, roots, 0)
    indices = {param: frozenset(found) for param, found in reader.indices.items()}
    writes = None if reader.lost else frozenset(reader.writes)
    names = [node for node in ir.walk(*function.body) if isinstance(node, ir.Name)]
    frozen = tuple(name for name in names if name.full is None and name.id not in local)
    flags = reader.flags
    guarded = any(isinstance(node, ir.If | ir.While) for node in ir.walk(*function.body))
    returns = any(isinstance(node, ir.Return) and node.value is not None for node in ir.walk(*function.body))
    return Body(
        writes,
        frozenset(reader.reads),
        indices,
        "dynamic" in flags,
        "grid" in flags,
        "strides" in flags,
        guarded,
        returns,
        frozen,
        guards_of(function),
    )


class _Reader:
    def __init__(self, find: Find) -> None:
        self.find = find
        self.writes: set[str] = set()
        self.reads: set[str] = set()
        self.indices: dict[str, set[str]] = {}
        self.flags: set[str] = set()
        self.lost = False

    def function(self, function: ir.Function, roots: dict[str, str], depth: int) -> None:
        """Read one body; `roots` says which parameter of the kernel a local name stands for."""
        roots = dict(roots)
        for statement in function.body:
            self.node(statement, roots, depth)

    def touch(self, root: str, index: ir.Expr | None, write: bool) -> None:
        self.indices.setdefault(root, set()).add(spell(index) if index is not None else "")
        (self.writes if write else self.reads).add(root)

    def root(self, node: ir.Expr, roots: dict[str, str]) -> str | None:
        """The parameter that `node` is, or is a part of."""
        match node:
            case ir.Name(id=name):
                return roots.get(name)
            case ir.Attr(base=base, name=name) if name not in LOOKED_AT:
                return self.root(base, roots)
            case ir.Sub(base=base):
                return self.root(base, roots)
            case ir.Call(func=ir.Attr(base=base, name=name)) if name in _TILE_VIEWS:
                return self.root(base, roots)
            case _:
                return None

    def node(self, node: ir.HostNode, roots: dict[str, str], depth: int) -> None:
        match node:
            case ir.Assign(targets=targets, value=value):
                if value is not None:
                    self.assign(targets, value, roots, depth)
            case ir.Augment(target=target, value=value):
                self.node(target, roots, depth)
                self.store(target, roots, depth)
                self.node(value, roots, depth)
            case ir.Call():
                self.call(node, roots, depth)
            case ir.Sub(base=base, index=index):
                root = self.root(base, roots)
                if root is not None:
                    self.touch(root, index, write=False)
                else:
                    self.node(base, roots, depth)
                self.node(index, roots, depth)
            case ir.Attr(base=base, name=name):
                if name in ("gridDim", "gridsize"):
                    self.flags.add("strides")
                if self.root(base, roots) is None or name not in LOOKED_AT:
                    self.node(base, roots, depth)
            case ir.Name(id=name):
                if name in roots:
                    self.touch(roots[name], None, write=False)
                if (canonical(node) or "").endswith((".gridDim", ".gridsize")):
                    self.flags.add("strides")
            case _:
                for child in ir.children(node):
                    self.node(child, roots, depth)

    def assign(self, targets: tuple[ir.Expr, ...], value: ir.Expr, roots: dict[str, str], depth: int) -> None:
        whole = isinstance(value, ir.Name) and value.id in roots
        part = isinstance(value, ir.Sub) and _has_slice(value.index) and self.root(value, roots) is not None
        whole = whole or (isinstance(value, ir.Call) and self.root(value, roots) is not None)
        if whole or part:
            root = self.root(value, roots)
            if not all(isinstance(target, ir.Name) for target in targets):
                self.node(value, roots, depth)
            for target in targets:
                if not isinstance(target, ir.Name):
                    self.store(target, roots, depth)
                elif root is not None:
                    roots[target.id] = root
                    if part:
                        self.indices.setdefault(root, set()).add(spell(value))
            return
        self.node(value, roots, depth)
        for target in targets:
            self.store(target, roots, depth)

    def store(self, target: ir.Expr, roots: dict[str, str], depth: int) -> None:
        match target:
            case ir.Sub(base=base, index=index):
                root = self.root(base, roots)
                if root is not None:
                    self.touch(root, index, write=True)
                self.node(index, roots, depth)
            case ir.Name(id=name):
                roots.pop(name, None)
            case ir.Display(items=items):
                for item in items:
                    self.store(item, roots, depth)
            case ir.Attr(base=ir.Sub() as element):
                self.store(element, roots, depth)
            case _:
                pass

    def call(self, call: ir.Call, roots: dict[str, str], depth: int) -> None:
        full = canonical(call.func) or ""
        last = call.func.name if isinstance(call.func, ir.Attr) else full.rpartition(".")[2]
        self.note(call, full, last)
        args = call.args
        first = self.root(args[0].value, roots) if args else None
        if first is not None and (last in _TILE_READS or last in _TILE_WRITES or ".atomic." in full):
            index = next((arg.value for arg in args if arg.name == "index"), args[1].value if len(args) > 1 else None)
            self.touch(first, index, write=last not in _TILE_READS)
            for arg in args[1:]:
                self.node(arg.value, roots, depth)
            return
        if isinstance(call.func, ir.Attr) and (last in _TILE_READS or last in _TILE_WRITES):
            viewed = self.root(call.func.base, roots)
            if viewed is not None:
                self.touch(viewed, args[0].value if args else None, write=last not in _TILE_READS)
                for arg in args:
                    self.node(arg.value, roots, depth)
                return
        if full in LOOKS:
            return
        if full.startswith("cuda.tile."):
            # What is left of cuTile's functions makes tiles of tiles.
            for arg in args:
                self.node(arg.value, roots, depth)
            return
        callee = self.find(full) if full else None
        if isinstance(callee, ir.Function) and depth < _DEEPEST:
            inner: dict[str, str] = {}
            for param, arg in zip(callee.params, args, strict=False):
                root = self.root(arg.value, roots)
                name = arg.name or param.name
                # An element (`f(a[i])`) is a value to a callee that does not index it; a row of two axes is an array.
                value = isinstance(arg.value, ir.Sub) and not _has_slice(arg.value.index)
                if root is not None and not arg.star and not (value and not _indexes(callee, name)):
                    inner[name] = root
                else:
                    self.node(arg.value, roots, depth)
            self.function(callee, inner, depth + 1)
            return
        for arg in args:
            whole = isinstance(arg.value, ir.Name) and arg.value.id in roots
            part = isinstance(arg.value, ir.Sub) and _has_slice(arg.value.index)
            if (whole or part) and self.root(arg.value, roots) is not None:
                self.lost = True
            self.node(arg.value, roots, depth)
        if isinstance(call.func, ir.Attr):
            self.node(call.func.base, roots, depth)

    def note(self, call: ir.Call, full: str, last: str) -> None:
        """Keep what a launch asks for besides accesses."""
        if last == "gridsize":
            self.flags.add("strides")
        if last in ("sync", "sync_grid", "this_grid") and ("this_grid" in full or last != "sync"):
            self.flags.add("grid")
        if full.endswith("shared.array") and call.args:
            shape = next((arg.value for arg in call.args if arg.name in (None, "shape")), None)
            if isinstance(shape, ir.Const) and shape.value == 0:
                self.flags.add("dynamic")


_TILE_VIEWS = frozenset({"tiled_view", "slice"})
_TILE_READS = frozenset({"load", "gather", "atomic_load", "load_advanced_indexing"})
_TILE_WRITES = frozenset(
    {
        "store",
        "scatter",
        "atomic_add",
        "atomic_max",
        "atomic_min",
        "atomic_xchg",
        "atomic_cas",
        "atomic_or",
        "atomic_and",
        "atomic_xor",
        "store_advanced_indexing",
        "atomic_store_add",
        "atomic_store_max",
        "atomic_store_min",
        "atomic_store_and",
        "atomic_store_or",
        "atomic_store_xor",
    }
)


def _indexes(function: ir.Function, name: str) -> bool:
    """Whether the body of `function` subscripts the variable `name`."""
    subscripts = (node.base for node in ir.walk(*function.body) if isinstance(node, ir.Sub))
    return any(isinstance(base, ir.Name) and base.id == name for base in subscripts)


def _has_slice(index: ir.Expr) -> bool:
    parts = index.items if isinstance(index, ir.Display) else (index,)
    return any(isinstance(part, ir.Slice) for part in parts)
