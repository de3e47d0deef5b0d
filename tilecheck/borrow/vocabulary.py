"""Names of libraries in one spelling, and what the host names that matter do.

The same function goes by several dotted names: `numba.cuda.to_device` and `numba_cuda.numba.cuda.api.to_device`,
`tilecheck.Mut` and `tilecheck.surface.access.Mut`. `canonical` brings them to the public one; the sets below use it.
"""

from __future__ import annotations

from tilecheck.borrow.surface import Effect, having
from tilecheck.ir import host as ir

# Functions of these modules neither run device work nor wait for it, and keep no argument.
HARMLESS = (
    "builtins.",
    "numpy.",
    "math.",
    "cmath.",
    "operator.",
    "time.",
    "random.",
    "logging.",
    "warnings.",
    "itertools.",
    "statistics.",
    "pprint.",
    "sys.",
    "os.",
    "json.",
    "pytest.",
    "cuda.tile.cdiv",
)

# A unit that mentions none of these, no kernel and no function with a contract is no host code of ours.
LIBRARIES = ("tilecheck", "numba", "cuda.", "torch.", "cupy.")

# Methods that only our tensors have.
OUR_METHODS = frozenset({"into_partition", "try_into_partition"})

# Functions that look at an object without touching its memory.
LOOKS = frozenset(
    f"builtins.{name}"
    for name in ("len", "type", "id", "isinstance", "hasattr", "callable", "repr", "print", "str", "format", "range")
) | frozenset(
    f"numpy.{name}"
    for name in ("shape", "ndim", "size", "result_type", "isscalar", "may_share_memory", "shares_memory", "byte_bounds")
)

# Functions that read all that is in a list that they are given.
READ_EACH = ("numpy.", "builtins.sum")

# Those that print it, or say what it is.
PRINTS = frozenset(f"builtins.{name}" for name in ("print", "repr", "str", "format", "type", "id", "isinstance"))

# Those that hand on what is in their arguments, to be used from there.
HANDED_ON = frozenset(
    f"builtins.{name}"
    for name in (
        "list",
        "tuple",
        "set",
        "frozenset",
        "dict",
        "zip",
        "enumerate",
        "reversed",
        "sorted",
        "iter",
        "next",
        "min",
        "max",
        "getattr",
        "setattr",
        "vars",
    )
) | frozenset(
    f"itertools.{name}"
    for name in (
        "chain",
        "chain.from_iterable",
        "cycle",
        "islice",
        "tee",
        "repeat",
        "product",
        "zip_longest",
        "pairwise",
    )
)

# Those that go through what they are given to its end.
CONSUMERS = frozenset(
    f"builtins.{name}" for name in ("sum", "max", "min", "list", "tuple", "set", "frozenset", "sorted", "dict")
)

# Those that call what they are given.
CALLERS = frozenset({"builtins.map", "builtins.filter", "builtins.exec", "builtins.eval"}) | frozenset(
    f"itertools.{name}" for name in ("starmap", "takewhile", "dropwhile", "filterfalse", "groupby", "accumulate")
)

TENSOR_MAKERS = frozenset(
    f"tilecheck.{name}"
    for name in (
        "zeros",
        "ones",
        "full",
        "empty",
        "arange",
        "linspace",
        "eye",
        "rand",
        "randn",
        "asarray",
        "from_dlpack",
        "meta",
    )
)

NUMBA_ARRAYS = frozenset(
    f"numba.cuda.{name}" for name in ("to_device", "device_array", "device_array_like", "as_cuda_array")
)
PINNED_ARRAYS = frozenset(
    f"numba.cuda.{name}"
    for name in (
        "pinned_array",
        "pinned_array_like",
        "mapped_array",
        "mapped_array_like",
        "managed_array",
    )
)

NUMPY_ARRAYS = frozenset(
    f"numpy.{name}"
    for name in (
        "zeros",
        "ones",
        "empty",
        "full",
        "arange",
        "linspace",
        "array",
        "asarray",
        "ascontiguousarray",
        "zeros_like",
        "ones_like",
        "empty_like",
        "full_like",
        "eye",
        "identity",
        "random.rand",
        "random.randn",
        "random.random",
        "random.randint",
        "random.uniform",
        "random.normal",
    )
)

HOST_ONLY = (
    NUMBA_ARRAYS
    | PINNED_ARRAYS
    | NUMPY_ARRAYS
    | {
        "numba.cuda.stream",
        "numba.cuda.event",
        "numba.cuda.synchronize",
    }
)
"""What kernels cannot call."""

FOREIGN_ARRAYS = frozenset(
    f"{library}.{name}"
    for library in ("torch", "cupy")
    for name in ("zeros", "ones", "empty", "full", "rand", "randn", "arange", "linspace", "tensor", "array", "eye")
) | frozenset(
    f"{library}.{name}_like"
    for library in ("torch", "cupy")
    for name in ("zeros", "ones", "empty", "full", "rand", "randn")
)

# Methods of ops that make another op of them, and those that run them.
COMBINATORS = having("DeviceOp", Effect.COMBINE)
RUNNING = having("DeviceOp", Effect.START, Effect.FINISH, Effect.RECORD, Effect.COMBINE)

# Methods of arrays that make a further handle on the same memory.
VIEWS = frozenset(
    {
        "reshape",
        "view",
        "ravel",
        "transpose",
        "permute",
        "permute_dims",
        "squeeze",
        "T",
        "swapaxes",
        "flat",
        "real",
        "imag",
    }
)

# Attributes and methods of arrays that do not read their memory.
LOOKED_AT = frozenset(
    {
        "shape",
        "dtype",
        "size",
        "ndim",
        "nbytes",
        "itemsize",
        "strides",
        "flags",
        "device",
        "grid",
        "tiles",
        "ctypes",
        "data_ptr",
        "is_cuda",
        "numel",
        "dim",
        "element_size",
        "is_contiguous",
        "__cuda_array_interface__",
        "alloc_size",
        "stream",
        "gpu_data",
    }
)

# Methods of arrays on the host that write them.
WRITERS = frozenset({"fill", "sort", "put", "itemset", "partition", "resize", "setfield", "setflags"})

# Methods of our tensors that read their memory on the host.
READERS = having("Tensor", Effect.READ) | {"tolist"}

DTYPES = {
    "numpy.float16": "f16",
    "numpy.half": "f16",
    "numpy.float32": "f32",
    "numpy.single": "f32",
    "numpy.float64": "f64",
    "numpy.double": "f64",
    "builtins.float": "f64",
    "numpy.int8": "i8",
    "numpy.int16": "i16",
    "numpy.int32": "i32",
    "numpy.intc": "i32",
    "numpy.int64": "i64",
    "builtins.int": "i64",
    "numpy.uint8": "u8",
    "numpy.uint16": "u16",
    "numpy.uint32": "u32",
    "numpy.uint64": "u64",
    "numpy.bool_": "bool",
    "builtins.bool": "bool",
}

# The names of numba's types, the short ones included.
NUMBA_DTYPES = {
    "float16": "f16",
    "f2": "f16",
    "float32": "f32",
    "f4": "f32",
    "float64": "f64",
    "f8": "f64",
    "double": "f64",
    **{f"int{8 * n}": f"i{8 * n}" for n in (1, 2, 4, 8)},
    **{f"i{n}": f"i{8 * n}" for n in (1, 2, 4, 8)},
    **{f"uint{8 * n}": f"u{8 * n}" for n in (1, 2, 4, 8)},
    **{f"u{n}": f"u{8 * n}" for n in (1, 2, 4, 8)},
}


def canonical(node: ir.Expr | str | None) -> str | None:
    """The public dotted name of what `node` stands for, None if it stands for a variable."""
    full = node if isinstance(node, str | None) else node.full if isinstance(node, ir.Name | ir.Attr) else None
    if full is None:
        return None
    head, _, rest = full.partition(".")
    parts = rest.split(".") if rest else []
    if head == "numba_cuda" and parts[:1] == ["numba"]:
        head, parts = "numba", parts[1:]
    if head == "tilecheck_runtime":
        head, parts = "tilecheck", parts[1:]
    elif head == "tilecheck" and parts[:1] == ["surface"]:
        parts = parts[2:]
    elif head == "numba" and parts[:1] == ["cuda"] and len(parts) > 2 and parts[1] in _NUMBA_MODULES:
        parts = ["cuda", *parts[2:]]
    return ".".join((head, *parts))


_NUMBA_MODULES = frozenset({"api", "decorators", "stubs", "simulator", "compiler", "dispatcher", "intrinsics", "args"})
