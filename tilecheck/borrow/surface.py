"""What each method and property of our host objects does to memory and to ops: one table over the whole public surface.

The sets that lowering asks for are read from here, and a test compares the table with the stub, so that nothing that users
can call is without a stated effect, and another runs an example of each row through the checker.

Worked example: `z.numpy()` READs, so it must not meet an op that is built or running and writes `z`; `r.done()` only LOOKs,
so after it `r` runs as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Effect(StrEnum):
    """What a call does to its receiver."""

    LOOK = "asks for what is known without the memory"
    READ = "reads the memory on the host"
    WRITE = "writes the memory on the host"
    COPY = "reads the memory, and makes new memory"
    VIEW = "makes a further handle on the memory"
    CUT = "borrows exclusively"
    MOVE = "gives the memory away"
    LEND = "lends the memory to another library"
    KERNEL = "belongs into kernels"
    COMBINE = "makes an op of it, and uses it up"
    START = "runs the op, and uses it up"
    FINISH = "runs the op, waits for it, and uses it up"
    SPEND = "uses the op up"
    WAIT = "waits for what runs"
    REPLAY = "makes an op that repeats it, or repeats it"
    RECORD = "puts an op into a graph, and uses that up"


_KERNEL = (
    *("at", "gather", "indices", "indices_with", "load", "num_tiles", "scatter", "store", "tiles"),
    *(f"atomic_{name}" for name in ("add", "and", "cas", "exchange", "max", "min", "or", "xor")),
)

TABLE: Mapping[str, Mapping[str, Effect]] = {
    "Tensor": {
        **dict.fromkeys(("shape", "size", "ndim", "nbytes", "dtype", "device", "__len__"), Effect.LOOK),
        **dict.fromkeys(("numpy", "item", "__array__", "__float__", "__int__", "__iter__"), Effect.READ),
        "__setitem__": Effect.WRITE,
        **dict.fromkeys(("copy", "astype"), Effect.COPY),
        **dict.fromkeys(("__getitem__", "reshape", "view"), Effect.VIEW),
        **dict.fromkeys(("partition", "split"), Effect.CUT),
        **dict.fromkeys(("into_partition", "try_into_partition"), Effect.MOVE),
        **dict.fromkeys(("__dlpack__", "__dlpack_device__"), Effect.LEND),
        **dict.fromkeys(_KERNEL, Effect.KERNEL),
    },
    "Partition": {"grid": Effect.LOOK, "prefix": Effect.LOOK, "map": Effect.LOOK, "unpartition": Effect.VIEW},
    "OwnedPartition": {"prefix": Effect.LOOK},
    "Stream": {"__init__": Effect.LOOK, "synchronize": Effect.WAIT},
    "RoundRobin": {"__init__": Effect.LOOK, "next_stream": Effect.LOOK},
    "Single": {"__init__": Effect.LOOK, "next_stream": Effect.LOOK},
    "Running": {"stream": Effect.LOOK, "done": Effect.LOOK, "wait": Effect.WAIT, "__await__": Effect.WAIT},
    "DeviceOp": {
        "grid": Effect.LOOK,
        "run": Effect.START,
        **dict.fromkeys(("sync", "sync_on", "__await__"), Effect.FINISH),
        **dict.fromkeys(("then", "map", "inspect", "shared", "first", "last"), Effect.COMBINE),
        **dict.fromkeys(("unpartition", "to_host", "with_grid"), Effect.COMBINE),
        **dict.fromkeys(("unzip", "compile", "discard"), Effect.SPEND),
        **dict.fromkeys(("graph", "prepare"), Effect.RECORD),
    },
    "_Prepared": {"__call__": Effect.REPLAY, "stream": Effect.LOOK, "wait": Effect.WAIT},
    "CudaGraph": {
        "stream": Effect.LOOK,
        "scope": Effect.LOOK,
        "launch": Effect.REPLAY,
        "prepare": Effect.REPLAY,
        "update": Effect.START,
        "take_output": Effect.LOOK,
    },
    "_Scope": {"graph": Effect.LOOK, "record": Effect.RECORD, "__enter__": Effect.LOOK, "__exit__": Effect.LOOK},
    "_Launcher": {"__call__": Effect.START, "stream": Effect.LOOK, "wait": Effect.WAIT},
    "Kernel": {"__call__": Effect.LOOK, "on": Effect.LOOK, "where": Effect.LOOK, "with_hints": Effect.LOOK},
    "_CppKernel": {"__call__": Effect.LOOK},
    "_SimtKernel": {"where": Effect.LOOK},
    **{kind: {} for kind in ("_Allocated", "_Timing", "_PairedTiming", "_Trial")},
    "_Tuned": {"op": Effect.LOOK},
}
"""By class of the stub, then by name. Classes that hold numbers only have no rows: all of them LOOK."""


def having(kind: str, *effects: Effect) -> frozenset[str]:
    """The methods of the class `kind` with one of `effects`."""
    return frozenset(name for name, effect in TABLE[kind].items() if effect in effects)
