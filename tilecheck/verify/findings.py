"""From a replayed suspect to the data of a finding: both places, both threads, the launch, one way out."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping

from tilecheck.interp.simt import Party
from tilecheck.ir.kernel import Assign, Const, Kernel, Name, Node, TensorParam, walk
from tilecheck.ir.printer import show
from tilecheck.ir.simt import Atomic, Barrier, BarrierValue, FillSlice, Load, Store, Warp
from tilecheck.symbolic.requires import element_facts
from tilecheck.symbolic.smt_solver import OutOfBudget
from tilecheck.verify.condition import words
from tilecheck.verify.conditions import barrier_hint
from tilecheck.verify.last_block import missing
from tilecheck.verify.proof import Proof, Refuted
from tilecheck.verify.simt import Finding, Place
from tilecheck.verify.suspects import Standing, Suspect, own_name, positions, sources
from tilecheck.verify.verdict import Property

# How far made-up names are followed.
_DEPTH = 6


def finding_of(kernel: Kernel, proof: Proof, refuted: Refuted) -> Finding:
    """The finding of one refutation."""
    suspect, fault = refuted.suspect, refuted.seen.fault
    nodes = [party.node for party in fault.parties] or [suspect.node]
    if suspect.rule in ("divergent-barrier", "warp-sync"):
        nodes = [suspect.node]
    words = temporaries(kernel)
    # The last place is the one complained of. Among atomics of tile kernels that is the access which is none.
    later = (lambda n: (not isinstance(n, Atomic), n.span)) if kernel.track == "cutile" else (lambda n: (True, n.span))
    places = tuple(place_of(node, words) for node in sorted(nodes, key=later))
    extent = refuted.seen.scenario.shapes.get(fault.array or "", ())
    lengths = [check.length for check in suspect.first.checks] if suspect.first is not None else []
    if lengths and len(lengths) == len(fault.index or ()) and all(length.kind == "const" for length in lengths):
        # Those of the view that the index is for.
        extent = tuple(length.const for length in lengths)
    elif suspect.array is not None and suspect.array.space != "global":
        extent = tuple(e.const for e in suspect.array.extents if e.kind == "const")
    return Finding(
        suspect.rule,
        kernel.name,
        places,
        refuted.seen.witness(),
        _scope(fault.parties),
        fault.array,
        suspect.array.space if suspect.array is not None else "",
        extent,
        proof.launch.span if proof.launch is not None else None,
        suspect.standing is Standing.DATA,
        _tile_advice(suspect) if kernel.track == "cutile" else _advice(proof, refuted, places),
        kernel.track == "cutile",
    )


def _tile_advice(suspect: Suspect) -> str:
    """One way out for a kernel whose blocks are one thread each."""
    if suspect.property is Property.IN_BOUNDS:
        return "launch no more blocks than there are tiles, and count the index in tiles, not in elements"
    return "give every block a tile of its own, add to it with `ct.atomic_add`, or split the kernel in two launches"


Words = Mapping[str, Node]


def temporaries(kernel: Kernel) -> Words:
    """What the names stand for that lowering made up (`%1`), so that findings show the source's own expression."""
    return {n.target: n.value for n in walk(*kernel.body) if isinstance(n, Assign) and n.target.startswith("%")}


def _spelled(node: Node, words: Words, depth: int = 0) -> str:
    """`node` as text, made-up names replaced by what they stand for."""

    def meaning(match: re.Match[str]) -> str:
        value = words.get(match[0])
        if value is None or depth > _DEPTH:
            return "..."
        text = _spelled(value, words, depth + 1)
        return text if isinstance(value, Load | Name | Const) else f"({text})"

    text = show(node).strip()
    # The locals of inlined helpers and global arrays are known by longer names.
    inner = {n.id for n in walk(node) if isinstance(n, Name)}
    for name in sorted(inner, key=len, reverse=True):
        text = text.replace(name, own_name(name))
    return re.sub(r"%\d+", meaning, _as_numba(text, inner))


# What `cuda.grid(1)` stands for, in an expression and as one.
_GRID = re.compile(r"\(\(blockIdx\.x \* blockDim\.x\) \+ threadIdx\.x\)|\(blockIdx\.x \* blockDim\.x\) \+ threadIdx\.x")
_THREAD = re.compile(r"(?<![\w.%])(?:(?:threadIdx|blockIdx|blockDim|gridDim)\.[xyz]|laneid|warpsize)\b")


def _as_numba(text: str, names: set[str]) -> str:
    """The thread's numbers as kernels write them, so that a guard can be pasted; `names` are the kernel's own."""
    text = _GRID.sub("cuda.grid(1)", text)
    return _THREAD.sub(lambda match: match[0] if match[0] in names else f"cuda.{match[0]}", text)


def same_value_places(proof: Proof) -> tuple[Place, ...]:
    """The stores at which threads meet, all with the same value. Where other pairs of an array's accesses are open, or
    none was looked at for want of time, other threads may write something else there.
    """
    if Property.RACE_FREE in proof.late:
        return ()
    met = proof.suspects.get(Property.RACE_FREE, [])
    unsure = {s.array for s in met if s.standing > Standing.EXCUSED}
    words = temporaries(proof.entry.run.kernel)
    same = (s for s in met if s.standing is Standing.SAME_VALUE and s.array not in unsure)
    return tuple(dict.fromkeys(place_of(s.node, words) for s in same))


def place_of(node: Node, words: Words) -> Place:
    match node:
        case Load(array=array, index=index):
            return Place(node.span, "reads", _element(array, index, words))
        case Store(array=array, index=index, update=update):
            return Place(node.span, "updates" if update else "writes", _element(array, index, words))
        case FillSlice(array=array, index=index):
            return Place(node.span, "writes", _element(array, index, words))
        case Atomic(array=array, index=index):
            return Place(node.span, "updates", _element(array, index, words))
        case Barrier(scope=scope):
            return Place(
                node.span, "meets", {"grid": "grid.sync()", "block": "syncthreads()", "warp": "syncwarp()"}[scope]
            )
        case BarrierValue(op=op):
            return Place(node.span, "meets", f"syncthreads_{op}()")
        case Warp(op=op):
            return Place(node.span, "meets", f"{op}_sync" if op != "activemask" else op)
    return Place(node.span, "reads", show(node))


def _element(array: Node, index: tuple[Node, ...], words: Words) -> str:
    name = own_name(show(array))
    positions = ", ".join(
        _spelled(words.get(part.id, part) if isinstance(part, Name) else part, words) for part in index
    )
    return f"{name}[{positions}]"


def _scope(parties: tuple[Party, ...]) -> str:
    if len(parties) < 2:
        return ""
    return "different blocks" if parties[0].block != parties[1].block else "one block"


def _advice(proof: Proof, refuted: Refuted, places: tuple[Place, ...]) -> str | None:
    suspect, fault = refuted.suspect, refuted.seen.fault
    required = _requirement(proof, suspect)
    if required is not None:
        return required
    if suspect.rule == "data-race":
        fences = _fences(proof, suspect)
        if fences is not None and (_scope(fault.parties) == "different blocks" or "syncthreads" in fences):
            return fences
        # Arrays are taken to be apart unless a launch shows one twice.
        met = sorted({place.text.partition("[")[0] for place in places})
        if len(met) > 1 and {p.name for p in proof.entry.run.kernel.params if isinstance(p, TensorParam)}.issuperset(
            met
        ):
            return f"pass two arrays: {' and '.join(f'`{name}`' for name in met)} are one at this launch"
        return _race_advice(places, _scope(fault.parties), suspect.array.space if suspect.array is not None else "")
    if suspect.rule == "out-of-bounds":
        return _bounds_advice(refuted, temporaries(proof.entry.run.kernel))
    if suspect.rule == "divergent-barrier":
        hint = barrier_hint(proof.entry.run, suspect) if suspect.question is not None else None
        out = "move the barrier out of the branch, so that threads with nothing to do reach it too"
        return f"{out}; all threads meet it if `{hint}`" if hint is not None else out
    if suspect.rule == "warp-sync":
        return "let all lanes that the mask names reach it, or name the lanes that do with `cuda.activemask()`'s value taken before"
    if suspect.rule == "uninitialised-shared":
        return f"let every thread write its part of `{fault.array}` first, with a fill value where there is no data"
    return None


def _requirement(proof: Proof, suspect: Suspect) -> str | None:
    """What `requires` could say of the elements that an annotated kernel takes its places from."""
    run = proof.entry.run
    accesses = [a for a in (suspect.first, suspect.second) if a is not None]
    taken = [n for n in sources(positions(accesses)) if n in run.arrays and not run.arrays[n].written]
    if run.kernel.track != "simt" or suspect.standing is not Standing.DATA or not taken:
        return None
    first = taken[0]
    counted = any(s.name.startswith("round") for term in positions(accesses) for s in term.symbols)
    order = "nondecreasing" if counted else "distinct"
    stated = {fact.text for fact in element_facts(run.kernel)}
    if suspect.rule == "data-race" and f"{order}({first})" not in stated:
        return f'if no launch passes such elements, say so: `requires="{order}({first})"`'
    lengths = [suspect.check.length] if suspect.check is not None else [c.length for a in accesses for c in a.checks]
    if suspect.rule not in ("data-race", "out-of-bounds") or len(taken) > 1 or not lengths:
        return None
    return f'if no launch passes such elements, say so: `requires="0 <= {first} < {words(lengths[0])}"`'


def _fences(proof: Proof, suspect: Suspect) -> str | None:
    """The fences that would let the block with the last ticket read what the others left."""
    if suspect.first is None or suspect.second is None:
        return None
    with contextlib.suppress(OutOfBudget):
        lacking = missing(proof.entry.run, suspect.first, suspect.second)
        if lacking is not None:
            return f"{lacking}: the last block reads what the others wrote"
    return None


def _race_advice(places: tuple[Place, ...], scope: str, space: str) -> str:
    updated = {(p.span.line, p.text) for p in places if p.does == "updates"}
    updates = bool(updated) and all((place.span.line, place.text) in updated for place in places)
    if updates:
        return "use an atomic, such as `cuda.atomic.add`, or give every thread an element of its own"
    if scope == "different blocks":
        return "no barrier orders two blocks: split the kernel in two launches, or give every block elements of its own"
    first, last = places[0].span.line, places[-1].span.line
    if first == last or (space == "global" and all(place.does != "reads" for place in places)):
        return "give every thread an element of its own, or let one thread do it"
    return f"put a `cuda.syncthreads()` between line {first} and line {last}"


def _bounds_advice(refuted: Refuted, words: Words) -> str:
    suspect, fault = refuted.suspect, refuted.seen.fault
    node = suspect.node
    axis = 0
    if suspect.first is not None and suspect.check is not None and suspect.check in suspect.first.checks:
        axis = suspect.first.checks.index(suspect.check)
    index = _spelled(node.index[axis], words) if isinstance(node, Load | Store | Atomic) and node.index else "the index"
    rank = len(suspect.array.extents) if suspect.array is not None else 1
    extent = f"{fault.array}.size" if rank == 1 else f"{fault.array}.shape[{axis}]"
    if fault.index and len(fault.index) > axis and fault.index[axis] < 0:
        return f"guard with `{index} >= 0`: a negative index wraps to the end of the array"
    return f"guard with `{index} < {extent}`"
