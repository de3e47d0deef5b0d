"""Picking the fastest configuration of a kernel, among those that compute the same.

    found = tc.autotune(gemm, [{"BM": 64, "BN": 64, "BK": 32}, {"BM": 128, "BN": 64, "BK": 32}],
                        lambda BM, BN, BK: (z.partition(BM, BN), x, y))
    found.op().sync()

A configuration binds the kernel's Dims of that name, and `make(**config)` gives the arguments. Hints of the Tile IR compiler
are tuned along: `{"BM": 128, "BN": 128, "BK": 64, "num_worker_warps": 8}`; `make` does not get them. Trials never touch the
caller's data: every argument that the kernel may write is cloned, so a kernel that reads what it writes may be tuned too.

The gate: what a configuration computes must equal `expected`, or, without it, what the interpreter computes with the first
configuration that is valid, up to rounding. Launches with too many elements to be interpreted must equal what the first
configuration that ran computed; `Tuned.gate` says so. A configuration that is refused, stops or computes something else is recorded with the reason
and takes no part; tuning fails only if none is left. The two fastest meet once more, in turn, and the winner of that
is the result. With `log` an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tilecheck.ir.printer import show_kernel
from tilecheck.surface.hints import HINTS
from tilecheck.surface.kernel import Kernel
from tilecheck.surface.names import dims_of
from tilecheck_runtime.backends import Array, default
from tilecheck_runtime.bench import do_bench, do_bench_paired
from tilecheck_runtime.binding import TensorArgument
from tilecheck_runtime.errors import DriverError, LaunchRefused, TilecheckError, UsageError
from tilecheck_runtime.grants import grant
from tilecheck_runtime.launch import LaunchOp, Plan
from tilecheck_runtime.layout import as_dtype
from tilecheck_runtime.loans import Access
from tilecheck_runtime.partition import OWNED, Partition
from tilecheck_runtime.tensor import Tensor, from_host
from tilecheck_runtime.tune_log import Trial, TuningLog, config_name, digest
from tilecheck_runtime.tune_reference import interpreted, on_the_device, too_large

Config = Mapping[str, Any]
Make = Callable[..., tuple[Any, ...]]

# Relative to the largest expected value; integers must be equal.
TOLERANCE = {"f8e4m3": 0.25, "f8e5m2": 0.5, "bf16": 4e-2, "f16": 1e-2, "f32": 1e-4, "f64": 1e-9}

FIRST = "the first configuration that ran"


@dataclass(frozen=True, slots=True)
class Tuned:
    """The winner and every trial, in the order of the configurations; `gate` says what results were compared with."""

    kernel: Kernel
    config: Config
    trials: tuple[Trial, ...]
    make: Make
    gate: str

    def op(self) -> LaunchOp:
        """The launch with the winning configuration, on the caller's own data."""
        return _launch(self.kernel, self.config, self.make)


def autotune(
    kernel: Kernel,
    configs: Sequence[Config],
    make: Make,
    *,
    expected: Sequence[Any] | None = None,
    log: str | Path | None = None,
) -> Tuned:
    """The fastest of `configs` for `kernel` on the arguments of `make`.

    `expected` holds what each written argument must be afterwards, in the order of the signature; without it the interpreter
    says, for launches of up to `tune_reference.ELEMENTS` elements. Raises UsageError for
    no or repeated configurations and for a `log` of another run, LaunchRefused if no configuration is valid.
    """
    if not isinstance(kernel, Kernel):
        raise UsageError(f"`autotune` tunes a kernel, this is a `{type(kernel).__name__}`", "decorate it: `@tc.kernel`")
    configs = list(configs)
    for config in configs:
        if not isinstance(config, Mapping):
            raise UsageError(f"a configuration is a dict, this is {config!r}", 'such as `{"BM": 64, "BN": 128}`')
    names = [config_name(config) for config in configs]
    if not names or len(set(names)) < len(names):
        what = "there is none" if not names else "one is there twice"
        raise UsageError(f"`autotune` wants different configurations, {what}", 'such as `[{"BM": 64}, {"BM": 128}]`')
    if not callable(make):
        raise UsageError(
            f"the arguments are made for each configuration by a function, this is a `{type(make).__name__}`",
            "such as `lambda BM: (z.partition(BM), x)`",
        )
    gate = None if expected is None else [np.asarray(values) for values in expected]
    told = None if expected is None else "`expected`"
    record: TuningLog | None = None
    trials: dict[str, Trial] = {}
    for name, config in zip(names, configs, strict=True):
        try:
            plan = _plan(kernel, config, make)
        except TilecheckError as error:
            trials[name] = Trial(name, config, error=_first_line(error))
            continue
        if record is None:
            record = TuningLog(None if log is None else Path(log), _header(plan, names), configs)
        if told is None:
            told, gate = _reference(plan)
        known = record.trials.get(name)
        if known is None or (known.seconds is not None and gate is None):
            trial, gate = _try(kernel, config, plan, gate, time=known is None)
            if known is None:
                record.add(trial)
        trials[name] = record.trials[name]
    best = _run_off(kernel, make, [trial for trial in trials.values() if trial.seconds is not None])
    if best is None:
        raise LaunchRefused(
            f"no configuration of `{kernel.fn.__name__}` is valid",
            "each line says why",
            points=tuple(f"{trial.name}: {trial.error}" for trial in trials.values()),
        )
    return Tuned(kernel, best.config, tuple(trials.values()), make, told or FIRST)


def _launch(kernel: Kernel, config: Config, make: Make) -> LaunchOp:
    dims = dims_of(kernel.fn)
    hints = {name: value for name, value in config.items() if name in HINTS and name not in dims}
    rest = {name: value for name, value in config.items() if name not in hints}
    bound = kernel.where(**{name: value for name, value in rest.items() if name in dims})
    op = (bound.with_hints(**hints) if hints else bound)(*make(**rest))
    assert isinstance(op, LaunchOp)
    return op


def _plan(kernel: Kernel, config: Config, make: Make) -> Plan:
    """The launch with `config`; nothing stays held."""
    op = _launch(kernel, config, make)
    op.discard()
    if op.plan.meta:
        raise UsageError("`autotune` runs the kernel, meta arguments have no data", "give it real tensors")
    return op.plan


def _clones(plan: Plan) -> tuple[Any, ...]:
    """The arguments again, what may be written replaced by copies."""
    return tuple(_clone(a) if isinstance(a, TensorArgument) and a.exclusive else a.value for a in plan.arguments)


def _clone(argument: TensorArgument) -> Tensor | Partition:
    elements = argument.elements
    grant((elements.request(Access.READ, argument.loan, argument.name),), "`autotune`")
    copy = from_host(elements.memory.backend.download(elements.strided()), elements.memory.backend)
    if argument.tile is None:
        return copy
    part = copy.partition(*argument.tile)
    if not argument.exact:
        return part.prefix()
    if argument.mapping is not None:
        return part.map(*(axis or OWNED for axis in argument.mapping.shape), blocks=argument.mapping.blocks)
    return part


def _try(
    kernel: Kernel, config: Config, plan: Plan, gate: list[Array] | None, *, time: bool
) -> tuple[Trial, list[Array] | None]:
    """One trial, timed or only for the gate, and the gate for the next ones."""
    name = config_name(config)
    try:
        arguments = _clones(plan)
        _launch(kernel, config, lambda **_: arguments).sync()
        outputs = zip(arguments, plan.arguments, strict=True)
        results = [_values(value) for value, a in outputs if isinstance(a, TensorArgument) and a.exclusive]
        wrong = None if gate is None else _difference(results, gate)
        if wrong is not None:
            return Trial(name, config, error=wrong), gate
        timing = do_bench(lambda: _launch(kernel, config, lambda **_: arguments)) if time else None
    except TilecheckError as error:
        if isinstance(error, DriverError) and error.lost:
            # What comes after it fails with the same error, and says nothing of its configuration.
            raise
        return Trial(name, config, error=_first_line(error)), gate
    seconds = None if timing is None else timing.median
    return Trial(name, config, seconds), results if gate is None else gate


def _reference(plan: Plan) -> tuple[str | None, list[Array] | None]:
    """What results are compared with, in words and, unless it is what runs first, as arrays. Nothing if the interpreter
    stops this launch, as the device is going to.
    """
    why = None if on_the_device() else too_large(plan)
    if plan.grid is None or on_the_device() or why is not None:
        return (FIRST if why is None else f"{FIRST}: {why}"), None
    try:
        return "the interpreter", interpreted(plan)
    except TilecheckError:
        return None, None


def _values(value: Tensor | Partition) -> Array:
    return value.numpy() if isinstance(value, Tensor) else value.unpartition().numpy()


def _difference(results: list[Array], gate: list[Array]) -> str | None:
    """How the results differ from what is expected, None if they do not."""
    if len(results) != len(gate):
        raise UsageError(f"`expected` has {len(gate)} arrays, the kernel writes {len(results)} tensors")
    for number, (result, wanted) in enumerate(zip(results, gate, strict=True)):
        if result.shape != wanted.shape:
            raise UsageError(f"`expected` has shape {wanted.shape} for output {number}, which has {result.shape}")
        tolerance = TOLERANCE.get(_short(result))
        if tolerance is None:
            if not np.array_equal(result, wanted):
                return f"output {number} differs from what is expected in {int(np.sum(result != wanted))} elements"
            continue
        got, right = result.astype(np.float64), wanted.astype(np.float64)
        scale = float(np.abs(right[np.isfinite(right)]).max(initial=0.0))
        if not np.allclose(got, right, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
            apart = np.abs(got - right)
            most = float(np.max(apart, where=~np.isnan(apart), initial=0.0))
            missing = int(np.sum(np.isnan(got) != np.isnan(right)))
            nans = f" and is nan, or not, in {missing} other elements" if missing else ""
            return f"output {number} differs from what is expected by up to {most:.3g}{nans}"
    return None


def _short(values: Array) -> str:
    return as_dtype(values.dtype).name


def _run_off(kernel: Kernel, make: Make, trials: list[Trial]) -> Trial | None:
    ranked = sorted(trials, key=lambda trial: trial.seconds or 0.0)
    if len(ranked) < 2:
        return ranked[0] if ranked else None
    first, second = ranked[:2]
    sides = []
    for trial in (first, second):
        arguments = _clones(_plan(kernel, trial.config, make))
        sides.append(partial(_launch, kernel, trial.config, lambda arguments=arguments, **_: arguments))
    return second if do_bench_paired(sides[0], sides[1]).ratio > 1 else first


def _header(plan: Plan, names: list[str]) -> dict[str, Any]:
    meaning = re.sub(r"(?m)^ *\d+ \|", "", show_kernel(plan.kernel.kernel))
    return {
        "kernel": plan.name,
        "meaning": digest(meaning),
        "device": default().model,
        "arguments": [
            str(a.elements) if isinstance(a, TensorArgument) else type(a.value).__name__ for a in plan.arguments
        ],
        "space": digest("\n".join(sorted(names))),
    }


def _first_line(error: TilecheckError) -> str:
    return f"{error.rule}: {error.message}"
