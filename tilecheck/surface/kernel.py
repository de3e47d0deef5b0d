"""Kernel objects: what the decorators `kernel`, `simt` and `adopt` return.

A decorator only stores the function. Its source is read, checked and cached at the first call, by the runtime, which is
loaded then; calling never runs the body, it builds a lazy op. `where(BK=64)` returns a kernel with more extents bound,
`with_hints(occupancy=2)` one with advice for the compiler.

Invariant: a kernel object never changes; equal objects launch the same code.

    @tc.kernel(checks="launch")
    def scale(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]) -> None: ...

    op = scale(z.partition(128), x)      # nothing has run yet
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, update_wrapper
from importlib import import_module
from inspect import isfunction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from tilecheck.surface.dims import DimClass
from tilecheck.surface.elsewhere import ON_KERNELS, missing
from tilecheck.surface.errors import UsageError
from tilecheck.surface.hints import refusal
from tilecheck.surface.names import dims_of

Track = Literal["tile", "simt", "numba"]


@cache
def _build() -> Any:
    return import_module("tilecheck_runtime.calls").build


class Kernel:
    """A function that becomes a kernel at its first call. `fn` is the function as written, `options` what the decorator
    was given, `bindings` the values that `where` bound, by the extent's name, `hints` those of `with_hints`.
    """

    def __init__(
        self,
        fn: Any,
        track: Track,
        options: Mapping[str, object],
        bindings: Mapping[str, int],
        hints: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.fn = fn
        self.track: Track = track
        self.options: Mapping[str, object] = MappingProxyType(dict(options))
        self.bindings: Mapping[str, int] = MappingProxyType(dict(bindings))
        self.hints: Mapping[str, int] = MappingProxyType(dict(hints))
        # The runtime's: the kernel as it was read last, and what it learned about calls.
        self._memory: Any = None
        update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Build the lazy op of a launch. Raises what the runtime refuses: shapes, grids, aliases, borrow state."""
        return _build()(self, args, kwargs)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Looked up before there is an `fn`, by `copy` and the like.
            shown = self.__dict__["fn"].__name__ if "fn" in self.__dict__ else "kernel"
            help = ON_KERNELS.get(name)
            raise missing(f"the kernel `{shown}`", name, None if help is None else help.format(x=shown), self)

    def on(self, stream: Any) -> Any:
        """The kernel bound to a stream: each call is checked like any other and submitted at once, without an op.

        What its launches use is in flight until its `wait()` or the stream's `synchronize()`.
        """
        return import_module("tilecheck_runtime.launcher").Launcher(self, stream)

    def __getitem__(self, configuration: object) -> NoReturn:
        """numba's launch configuration has no place here. Raises `UsageError`."""
        raise UsageError(
            f"`{self.fn.__name__}[...]`: the grid of a tilecheck kernel comes from its partitions",
            f"call it with a partition: `{self.fn.__name__}(z.partition(...), ...)`, or set a grid with `.with_grid(...)`",
        )

    def where(self, **bindings: int) -> Kernel:
        """The kernel with the extents `bindings` fixed.

        Raises `UsageError` for a name the kernel has not, one bound before, one that `size=` fixes otherwise, and for
        a value that is no positive int.
        """
        known = dims_of(self.fn)
        for name, value in bindings.items():
            self._check_binding(name, value, known)
        return Kernel(self.fn, self.track, self.options, {**self.bindings, **bindings}, self.hints)

    def with_hints(self, **hints: int) -> Kernel:
        """The kernel with advice for its compiler, which changes speed and never a result: `num_ctas`, `occupancy`,
        `num_worker_warps`, `num_warps`, `latency`. Later hints replace earlier ones; `docs/compilers.md` says who heeds which.

        Raises `UsageError` for a name or a value that is none, and for a SIMT kernel.
        """
        if self.track != "tile":
            raise UsageError(
                f"`{self.fn.__name__}` is a SIMT kernel, hints are for tile kernels", "state its block with `block=`"
            )
        for name, value in hints.items():
            wrong = refusal(name, value)
            if wrong is not None:
                raise UsageError(f"`{self.fn.__name__}.with_hints`: {wrong}")
        return Kernel(self.fn, self.track, self.options, self.bindings, {**self.hints, **hints})

    def _check_binding(self, name: str, value: object, known: Mapping[str, tuple[DimClass, ...]]) -> None:
        kernel = f"`{self.fn.__name__}`"
        if name not in known:
            listed = ", ".join(f"`{n}`" for n, dims in sorted(known.items()) if any(d.size is None for d in dims))
            raise UsageError(
                f"{kernel} has no extent `{name}`",
                f"its extents are {listed}" if listed else "it has none",
                rule="unbound-dim",
            )
        if len(known[name]) > 1:
            homes = " and ".join(f"`{d.__module__}.{d.__qualname__}`" for d in known[name])
            raise UsageError(f"`{name}` names two extents of {kernel}, {homes}", "rename one", rule="unbound-dim")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"`where({name}={value!r})` binds no positive int", rule="unbound-dim")
        if name in self.bindings:
            raise UsageError(
                f"`{name}` is bound twice: `where({name}={self.bindings[name]})`, then `where({name}={value})`",
                rule="unbound-dim",
            )
        (dim,) = known[name]
        if dim.size is not None and dim.size != value:
            raise UsageError(
                f"`{name}` is {dim.size} by its definition (`size={dim.size}`), `where` says {value}",
                rule="unbound-dim",
            )

    def __get__(self, instance: object, owner: type | None = None) -> Kernel:
        """A kernel in a class body is a plain attribute: there is no `self` in a kernel."""
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Kernel):
            return NotImplemented
        mine = (self.fn, self.track, self.options, self.bindings, self.hints)
        return mine == (other.fn, other.track, other.options, other.bindings, other.hints)

    def __hash__(self) -> int:
        return hash((self.fn, self.track, tuple(sorted(self.bindings.items()))))

    def __repr__(self) -> str:
        bound = ", ".join(f"{name}={value}" for name, value in {**self.bindings, **self.hints}.items())
        return f"<{self.track} kernel {self.fn.__name__}{f' where {bound}' if bound else ''}>"


CHECKS = ("auto", "launch")
BACKENDS = ("auto", "numba-cuda", "tile-ir")


def kernel(fn: Any = None, /, *, checks: str = "auto", requires: str | None = None, backend: str = "auto") -> Any:
    """Make a tile kernel of a function: one logical thread per output tile.

    `checks="launch"` refuses any bounds check that would stay inside the kernel. `requires` states launch conditions
    (`"x.size >= z.size and n % 4 == 0"`), checked before each launch. `backend` is the compiler on a GPU: `"numba-cuda"`,
    `"tile-ir"`, or the better one of those installed. Raises `UsageError` for other options.
    """
    if checks not in CHECKS:
        raise UsageError(f'`checks={checks!r}` is neither `"auto"` nor `"launch"`')
    if backend not in BACKENDS:
        raise UsageError(f"`backend={backend!r}` is not one of {', '.join(BACKENDS)}")
    options: dict[str, object] = {"checks": checks, "backend": backend}
    if requires is not None:
        options["requires"] = _text("requires", requires)

    def decorate(function: Any) -> Kernel:
        return Kernel(_function(function, "kernel"), "tile", options, {})

    return decorate if fn is None else decorate(fn)


def simt(
    fn: Any = None, /, *, block: int | tuple[int, ...] | None = None, requires: str | None = None, shared: int = 0
) -> Callable[[Callable[..., None]], Kernel]:
    """Make a SIMT kernel of a function written in numba-cuda's language: one thread of a block of `block` threads.

    `shared` is the dynamic shared memory in bytes, `requires` as for `kernel`, with `blockDim` and `gridDim` too. Raises
    `UsageError` (launch-contract) without a block.
    """
    if fn is not None or block is None:
        raise UsageError(
            "`@tc.simt` states no block",
            "say how many threads a block has: `@tc.simt(block=256)`",
            rule="launch-contract",
        )
    options = contract(block, requires, shared)

    def decorate(function: Any) -> Kernel:
        return Kernel(_function(function, "simt"), "simt", options, {})

    return decorate


def adopt(kernel: Any, /, *, block: int | tuple[int, ...], requires: str | None = None, shared: int = 0) -> Kernel:
    """Launch a plain `@cuda.jit` kernel through tilecheck: with its contract, its conditions and our borrow rules.

    The parameters that its body writes are exclusive. Raises `UsageError` for what is no numba-cuda kernel.
    """
    fn = getattr(kernel, "py_func", None)
    if not isfunction(fn):
        raise UsageError(
            f"`adopt` takes a numba-cuda kernel, this is {_kind(kernel)}",
            "decorate the function with `@cuda.jit`, or use `@tc.simt(block=...)` alone",
        )
    return Kernel(fn, "numba", contract(block, requires, shared), {})


def contract(block: object, requires: object, shared: object) -> dict[str, object]:
    """The options of a launch contract. Raises `UsageError` for what is no block, text or number of bytes."""
    shape = block if isinstance(block, tuple) else (block,)
    if not 1 <= len(shape) <= 3 or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 1 for n in shape):
        raise UsageError(f"`block={block!r}` is no block: one to three positive ints", rule="launch-contract")
    threads = 1
    for n in shape:
        threads *= n
    if threads > 1024:
        counts = " x ".join(str(n) for n in shape)
        raise UsageError(
            f"`block={block!r}` is {counts} = {threads} threads, a block has 1024 at most", rule="launch-contract"
        )
    if len(shape) == 3 and shape[2] > 64:
        raise UsageError(
            f"`block={block!r}` has {shape[2]} threads along z, a block has 64 there at most", rule="launch-contract"
        )
    if isinstance(shared, bool) or not isinstance(shared, int) or shared < 0:
        raise UsageError(f"`shared={shared!r}` is no number of bytes", rule="launch-contract")
    options: dict[str, object] = {"block": shape, "shared": shared}
    if requires is not None:
        options["requires"] = _text("requires", requires)
    return options


def _function(fn: Any, decorator: str) -> Any:
    if isinstance(fn, Kernel):
        raise UsageError(f"`{fn.fn.__name__}` is a kernel already", "decorate it once")
    if not isfunction(fn):
        raise UsageError(f"`@{decorator}` decorates a function, this is {_kind(fn)}")
    return fn


def _text(option: str, value: object) -> str:
    if not isinstance(value, str):
        raise UsageError(f"`{option}={value!r}` is no text", f'conditions are written as text: `{option}="n % 4 == 0"`')
    return value


def _kind(value: object) -> str:
    return f"the class `{value.__name__}`" if isinstance(value, type) else f"a `{type(value).__name__}`"


class KernelOp:
    """An op of the kernel language as a host value: it has a name and a documentation, and refuses to be called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__qualname__ = name
        self.__module__ = "tilecheck"

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from tilecheck.ops import OPS

        return OPS[self.__name__].doc

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise UsageError(
            f"`{self.__name__}` belongs to the kernel language and was called on the host",
            "call it inside a function decorated with `@tc.kernel`",
        )

    def __repr__(self) -> str:
        return f"<kernel op {self.__name__}>"
