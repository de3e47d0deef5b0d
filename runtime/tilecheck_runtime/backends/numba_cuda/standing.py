"""Left operands of warpgroups that no round of a loop changes: they stand in shared memory for as long as the kernel runs.

    queries = q.partition(BM, D)[i, 0]
    for j in range(n):
        scores = tc.mma(queries, keys[j], zero)

Such a tile goes from global to shared memory by `cp.async`, like those that run ahead, and every product reads it there. It
takes no registers, and must not: ptxas of CUDA 13.0 (V13.0.88, any optimisation) moves the registers of a left operand out
of the loop that does not change it and then gives them to another left operand of that loop, so that from the second round
on the product is wrong (seen on an H200; with `-O0`, or with ptxas 13.4, the same PTX is right).

Invariant: a product of warpgroups takes a left operand from registers only if its round has computed it (`fresh`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tilecheck.ir.compilers import PRODUCTS
from tilecheck.ir.kernel import Assign, Expr, For, Kernel, Name, Node, OpCall, Stmt, walk
from tilecheck_runtime.backends.numba_cuda.staging import Ahead, Search, Staging, local_values

_LOADS = ("load", "load_tile", "load_like")


@dataclass(frozen=True, slots=True)
class Standing:
    """A variable whose tile stands in shared memory. `transposed`: its rows there are the operand's columns; `by_way_of`
    are the values of the variables between the load and this one.
    """

    variable: str
    load: Ahead
    transposed: bool
    products: tuple[OpCall, ...]
    by_way_of: tuple[Expr, ...]


def find_standing(search: Search, kernel: Kernel, stagings: Sequence[Staging]) -> dict[str, Standing]:
    """The variables that are loaded once, outside of all loops, and read by nothing but staged products, on their left."""
    staged = [product for staging in stagings for product in staging.products]
    values = dict(local_values(kernel.body))
    found: dict[str, Standing] = {}
    for name, (_, readings) in values.items():
        products = [p for p in staged if isinstance(p.args[0], Name) and p.args[0].id == name]
        if not products or len(products) != readings:
            continue
        traced = search.trace(products[0].args[0], products[0], values)
        if traced is None or any(values[way.id][1] != 1 for way in traced.names[1:]):
            continue
        load = search.copied(traced.load, traced.axes)
        if load is not None:
            ways = tuple(values[way.id][0] for way in traced.names[1:])
            found[name] = Standing(name, load, traced.axes[0] != load.axes[0], tuple(products), ways)
    return found


def fresh(operand: Expr, loop: For) -> bool:
    """Whether each round of `loop` computes `operand` from what the round before did not have."""
    names = _fresh_names(loop.body, {loop.target})
    return _is_fresh(operand, names)


def _fresh_names(body: Sequence[Stmt], known: set[str]) -> set[str]:
    names = set(known)
    assigns = [node for node in walk(*body) if isinstance(node, Assign)]
    while more := {a.target for a in assigns if a.target not in names and _is_fresh(a.value, names)}:
        names |= more
    return names


def _is_fresh(value: Node, names: Collection[str]) -> bool:
    return any(
        (isinstance(node, Name) and node.id in names)
        or (isinstance(node, OpCall) and (node.op in PRODUCTS or node.op in _LOADS))
        for node in walk(value)
    )


def still_staged(standing: Mapping[str, Standing], stagings: Sequence[Staging]) -> dict[str, Standing]:
    """Those of `standing` all of whose products are still staged."""
    staged = {product for staging in stagings for product in staging.products if staging.ahead(product)[1]}
    return {name: tile for name, tile in standing.items() if staged.issuperset(tile.products)}
