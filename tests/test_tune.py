"""Timing and tuning: repetitions, the correctness gate, clones, and the record of a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests.launch_kernels import BM, move, row_sums
from tests.paper_driver import on_paper
from tilecheck import Mut, Shared, Tensor, f32
from tilecheck_runtime import tune, tune_reference
from tilecheck_runtime.backends import default
from tilecheck_runtime.bench import Timing
from tilecheck_runtime.errors import DriverError
from tilecheck_runtime.launch import LaunchOp
from tilecheck_runtime.tune import Tuned

SIZES = [{"BM": 8}, {"BM": 16}, {"BM": 32}]


@tc.kernel
def halve(z: Tensor[Mut, f32, BM]) -> None:
    z.store(0.5 * z.load())


@tc.kernel
def depends_on_the_tile(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, BM]) -> None:
    z.store(x.load() + float(BM))


def tune_move(z: Any, x: Any, **options: Any) -> Tuned:
    return tc.autotune(move, SIZES, lambda BM: (z.partition(BM), x), **options)


def refused(call: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        call()
    return caught.value


# ---- timing


def test_quantiles() -> None:
    assert Timing((3.0,)).quantile(0.2) == Timing((3.0,)).median == 3
    timing = Timing((4.0, 1.0, 3.0, 2.0))
    assert (timing.quantile(0), timing.median, timing.quantile(1)) == (1, 2.5, 4)
    many = Timing(tuple(np.random.default_rng(1).random(101)))
    for q in (0.1, 0.5, 0.9):
        assert many.quantile(q) == pytest.approx(np.quantile(many.samples, q))
    assert isinstance(refused(lambda: timing.quantile(1.5)), tc.UsageError)


def test_pairs_alternate_as_often() -> None:
    order: list[str] = []
    result = tc.do_bench_paired(lambda: order.append("a"), lambda: order.append("b"), warm_up=0, measured=1e-9)
    assert len(result.a) == len(result.b) == 5
    assert order == ["a", "b"] * 6
    z, x = tc.zeros(64), tc.ones(64)
    timing = tc.do_bench(lambda: move(z.partition(8), x), warm_up=0, measured=1e-9)
    assert len(timing) == 5 and timing.median > 0
    assert z.numpy().sum() == 64


def test_an_op_starts_with_an_empty_cache_and_other_work_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    monkeypatch.setattr(type(tc.Stream()._queue), "flush", lambda self: flushed.append("flush"))
    z, x = tc.zeros(64), tc.ones(64)
    tc.do_bench(lambda: move(z.partition(8), x), warm_up=0, measured=1e-9)
    assert len(flushed) == 6
    tc.do_bench(lambda: None, warm_up=0, measured=1e-9)
    assert len(flushed) == 6


def test_errors_of_the_timed_function_pass_through() -> None:
    def fail() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        tc.do_bench_paired(lambda: None, fail)
    with pytest.raises(ValueError, match="mine"):
        tc.do_bench(fail)


# ---- tuning


def test_the_winner_is_launched_on_the_callers_data() -> None:
    z, x = tc.zeros(64), tc.randn(64, seed=1)
    found = tune_move(z, x)
    assert z.numpy().sum() == 0
    assert [trial.config for trial in found.trials] == SIZES
    assert all(trial.seconds and trial.error is None for trial in found.trials)
    found.op().sync()
    assert np.array_equal(z.numpy(), x.numpy())


def test_dims_of_the_body_are_bound_too() -> None:
    z, x = tc.zeros(8), tc.ones(8, 64)
    configs = [{"BM": 4, "BK": 16}, {"BM": 8, "BK": 32}]
    found = tc.autotune(row_sums, configs, lambda BM, BK: (z.partition(BM), x))
    found.op().sync()
    assert z.numpy().tolist() == [64] * 8


def test_hints_are_tuned_along() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    configs = [{"BM": 8}, {"BM": 8, "occupancy": 2}, {"BM": 8, "occupancy": 64}]
    found = tc.autotune(move, configs, lambda BM: (z.partition(BM), x))
    assert [trial.error is None for trial in found.trials] == [True, True, False]
    assert "blocks that a multiprocessor is expected to hold" in str(found.trials[2].error)
    op = found.op()
    assert dict(op.plan.hints) == {name: value for name, value in found.config.items() if name == "occupancy"}
    op.discard()


def test_a_kernel_that_updates_in_place_is_tuned_on_clones() -> None:
    z = tc.ones(64)
    found = tc.autotune(halve, SIZES, lambda BM: (z.partition(BM),))
    assert z.numpy().tolist() == [1] * 64
    found.op().sync()
    assert z.numpy().tolist() == [0.5] * 64


def test_invalid_configurations_are_recorded_and_take_no_part() -> None:
    z, x = tc.zeros(64), tc.ones(32)
    configs = [{"BM": 0}, {"BM": 16}, {"BM": 32}]
    found = tc.autotune(depends_on_the_tile, configs, lambda BM: (z.partition(BM), x))
    assert found.config == {"BM": 32}
    assert [trial.error for trial in found.trials] == [
        "unbound-dim: `where(BM=0)` binds no positive int",
        "shape-mismatch: the extent of `x` is 32 on axis 0, expected 16: `BM` is 16 from the tile of `z` on axis 0",
        None,
    ]
    error = refused(lambda: tc.autotune(depends_on_the_tile, configs[:2], lambda BM: (z.partition(BM), x)))
    assert error.message == "no configuration of `depends_on_the_tile` is valid"
    assert error.points[0].startswith("BM=0: unbound-dim")


def test_the_gate_is_what_is_expected_or_the_first_that_ran() -> None:
    z = tc.zeros(32)
    xs = {16: tc.ones(16), 32: tc.ones(32)}

    def make(BM: int) -> tuple[Any, ...]:
        return z.partition(BM), xs[BM]

    configs = [{"BM": 16}, {"BM": 32}]
    assert tc.autotune(depends_on_the_tile, configs, make).config == {"BM": 16}
    found = tc.autotune(depends_on_the_tile, configs, make, expected=[np.full(32, 33.0)])
    assert found.config == {"BM": 32}
    assert found.trials[0].error == "output 0 differs from what is expected by up to 16"


def test_what_is_no_tuning_problem() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    for configs in ([], [{"BM": 8}, {"BM": 8}]):
        assert isinstance(
            refused(lambda c=configs: tc.autotune(move, c, lambda BM: (z.partition(BM), x))), tc.UsageError
        )
    m = tc.meta(64)
    error = refused(lambda: tc.autotune(move, SIZES, lambda BM: (m.partition(BM), x)))
    assert "meta arguments have no data" in error.points[0]


def test_ints_are_compared_exactly() -> None:
    wanted = np.array([2**60, 7])
    assert tune._difference([wanted.copy()], [wanted]) is None
    found = tune._difference([wanted + (wanted > 7)], [wanted])
    assert found == "output 0 differs from what is expected in 1 elements"
    some = np.array([1.0, np.nan, 3.0], np.float32)
    assert tune._difference([some], [some.copy()]) is None
    found = tune._difference([some], [np.ones(3, np.float32)])
    assert found == "output 0 differs from what is expected by up to 2 and is nan, or not, in 1 other elements"


def test_configurations_may_come_one_by_one() -> None:
    z, x = tc.zeros(64), tc.ones(64)
    found = tc.autotune(move, iter(SIZES), lambda BM: (z.partition(BM), x))  # type: ignore[arg-type]
    assert len(found.trials) == len(SIZES)
    for kernel, configs, words in ((move, [8, 16], "a configuration is a dict, this is 8"),
                                   (print, SIZES, "`autotune` tunes a kernel, this is a `builtin_function_or_method`")):  # fmt: skip
        call = tc.autotune
        error = refused(lambda call=call, k=kernel, c=configs: call(k, c, lambda BM: (z.partition(BM), x)))
        assert isinstance(error, tc.UsageError) and error.message == words


# ---- the record


def test_a_record_that_cannot_be_kept_is_said_at_once(tmp_path: Path) -> None:
    z, x = tc.zeros(64), tc.ones(64)
    for place in (tmp_path, tmp_path / "nowhere" / "tune.jsonl"):
        error = refused(lambda place=place: tune_move(z, x, log=place))
        assert isinstance(error, tc.UsageError) and "it cannot be opened" in error.message


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    log = tmp_path / "tune.jsonl"
    z, x = tc.zeros(64), tc.ones(64)
    first = tune_move(z, x, log=log)
    lines = log.read_text("utf-8").splitlines()
    assert len(lines) == 4
    again = tune_move(z, x, log=log)
    assert again.trials == first.trials
    log.write_text("\n".join(lines[:2]) + '\n{"name": "BM=1', "utf-8")
    resumed = tune_move(z, x, log=log)
    assert resumed.trials[0] == first.trials[0]
    assert len(log.read_text("utf-8").splitlines()) == 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda lines: [lines[0].replace('"version": 1', '"version": 2'), *lines[1:]], "its `version` is 2, this run's is 1"),
        (lambda lines: [lines[0].replace('"move"', '"copy"'), *lines[1:]], "its `kernel` is 'copy'"),
        (lambda lines: [lines[0].replace('"meaning": "', '"meaning": "0'), *lines[1:]], "its `meaning` is"),
        (lambda lines: [lines[0].replace(f'"{default().name}"', '"h200"'), *lines[1:]], "its `device` is 'h200'"),
        (lambda lines: [lines[0].replace("f32[64]", "f32[65]"), *lines[1:]], "its `arguments` is"),
        (lambda lines: [lines[0].replace('"space": "', '"space": "0'), *lines[1:]], "its `space` is"),
        (lambda lines: [*lines, lines[1]], "line 5 repeats 'BM=8'"),
        (lambda lines: [*lines, lines[1].replace("BM=8", "BM=9")], "line 5 is about 'BM=9'"),
        (lambda lines: [lines[0], json.dumps({"name": "BM=8", "seconds": -1.0, "error": None})], "line 2 has neither"),
        (lambda lines: ["[]", *lines[1:]], "line 1 is no JSON object"),
        (lambda lines: [lines[0], "import os"], "line 2 is no JSON"),
    ],
)  # fmt: skip
def test_a_record_of_something_else_is_refused(
    change: Callable[[list[str]], list[str]], why: str, tmp_path: Path
) -> None:
    log = tmp_path / "tune.jsonl"
    z, x = tc.zeros(64), tc.ones(64)
    tune_move(z, x, log=log)
    log.write_text("\n".join(change(log.read_text("utf-8").splitlines())) + "\n", "utf-8")
    error = refused(lambda: tune_move(z, x, log=log))
    assert isinstance(error, tc.UsageError)
    assert why in error.message


def test_what_the_driver_refuses_takes_no_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sync = tc.DeviceOp.sync

    def refusing(op: tc.DeviceOp[Any]) -> object:
        if isinstance(op, LaunchOp) and op.grid == (4, 1, 1):
            op.discard()
            raise DriverError("launch of `halve`", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested")
        return sync(op)

    monkeypatch.setattr(tc.DeviceOp, "sync", refusing)
    z = tc.ones(64)
    for _ in range(2):
        found = tc.autotune(halve, [{"BM": 16}, {"BM": 32}], lambda BM: (z.partition(BM),), log=tmp_path / "log")
        assert found.config == {"BM": 32} and found.trials[0].error is not None
        assert "too many resources requested" in found.trials[0].error


def test_a_device_that_is_lost_ends_the_run_and_blames_no_configuration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log, sync = tmp_path / "log", tc.DeviceOp.sync

    def failing(op: tc.DeviceOp[Any]) -> object:
        if isinstance(op, LaunchOp) and op.grid == (4, 1, 1):
            op.discard()
            raise DriverError(
                "cuEventSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"
            )
        return sync(op)

    z, configs = tc.ones(64), [{"BM": 32}, {"BM": 16}, {"BM": 8}]
    with monkeypatch.context() as patch:
        patch.setattr(tc.DeviceOp, "sync", failing)
        with pytest.raises(tc.TilecheckError, match="an illegal memory access") as caught:
            tc.autotune(halve, configs, lambda BM: (z.partition(BM),), log=log)
    assert caught.value.help is not None and "the device is lost to this process" in caught.value.help
    assert [json.loads(line)["name"] for line in log.read_text("utf-8").splitlines()[1:]] == ["BM=32"]
    found = tc.autotune(halve, configs, lambda BM: (z.partition(BM),), log=log)
    assert all(trial.error is None for trial in found.trials)


def test_a_record_of_another_model_of_device_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tune, "do_bench", lambda timed: Timing((1.0,)))
    monkeypatch.setattr(tune, "_run_off", lambda kernel, make, trials: trials[0] if trials else None)
    with on_paper():
        z, x = tc.zeros(64), tc.zeros(64)
        tune_move(z, x, log=tmp_path / "log", expected=[np.zeros(64)])
        header = json.loads((tmp_path / "log").read_text("utf-8").splitlines()[0])
        assert header["device"] == "paper, sm_90"
        other = (tmp_path / "log").read_text("utf-8").replace("paper", "another")
        (tmp_path / "log").write_text(other, "utf-8")
        error = refused(lambda: tune_move(z, x, log=tmp_path / "log", expected=[np.zeros(64)]))
        assert "its `device` is 'another, sm_90', this run's is 'paper, sm_90'" in error.message


def test_a_run_that_was_interrupted_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    log = tmp_path / "tune.jsonl"
    z, x = tc.zeros(64), tc.ones(64)
    times = iter([3.0])

    def interrupted(timed: Callable[[], object]) -> Timing:
        for time in times:
            return Timing((time,))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tune, "do_bench", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune_move(z, x, log=log)
    assert len(log.read_text("utf-8").splitlines()) == 2
    # Nothing is held by what was interrupted.
    z[0:4] = 1.0
    found = tune_move(z, x, log=log)
    assert found.trials[0].seconds == 3.0 and found.config != {"BM": 8}
    assert len(log.read_text("utf-8").splitlines()) == 4


# ---- the interpreter as the reference


@pytest.mark.cpu
def test_without_expected_the_interpreter_says_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    # Kernels of the driver on paper compute nothing, so copying ones is wrong, and copying zeros right. Nothing is timed.
    monkeypatch.setattr(tune, "do_bench", lambda timed: Timing((1.0,)))
    monkeypatch.setattr(tune, "_run_off", lambda kernel, make, trials: trials[0] if trials else None)
    with on_paper():
        z, some, none = tc.zeros(64), tc.ones(64), tc.zeros(64)
        error = refused(lambda: tune_move(z, some))
        assert error.points == tuple(f"BM={n}: output 0 differs from what is expected by up to 1" for n in (8, 16, 32))
        assert tune_move(z, none).gate == "the interpreter"
        assert tune_move(z, some, expected=[np.zeros(64)]).gate == "`expected`"
        monkeypatch.setattr(tune_reference, "ELEMENTS", 127)
        found = tune_move(z, some)
        assert found.gate == (
            "the first configuration that ran: 128 elements are more than the 127 that are interpreted"
        )
    assert tune_move(tc.zeros(64), tc.ones(64)).gate == "the first configuration that ran"


@pytest.mark.cpu
def test_the_interpreter_works_on_clones() -> None:
    with on_paper():
        z = tc.ones(64)
        op = halve(z.partition(16))
        op.discard()
        assert [values.tolist() for values in tune_reference.interpreted(op.plan)] == [[0.5] * 64]
        assert z.numpy().tolist() == [1] * 64
