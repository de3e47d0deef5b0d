"""Launches on handles that were never there before, on a driver on paper: little work, and none of the rules given up."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
import tilecheck_runtime as rt
from tests import launch_kernels as k
from tests import test_host_programs, test_quick_and_long_way
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import backends, open_ops
from tilecheck_runtime.flights import Flight
from tilecheck_runtime.open_ops import InFlight

pytestmark = [pytest.mark.cpu, pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")]


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


def refused(run: Callable[[], object]) -> tc.TilecheckError:
    with pytest.raises(tc.TilecheckError) as caught:
        run()
    return caught.value


def fresh(n: int = 32) -> Any:
    return tc.zeros(n)


def warm(stream: tc.Stream) -> None:
    """Let the class of `plus` on 32 elements in tiles of 8 be known on `stream`."""
    for _ in range(2):
        k.plus(fresh().partition(8), fresh(), fresh()).run(stream).wait()


def fly(stream: tc.Stream, z: Any, x: Any, y: Any) -> InFlight[Any]:
    running = k.plus(z.partition(8), x, y).run(stream)
    assert isinstance(running, InFlight)
    return running


def test_a_launch_on_new_tensors_is_one_call(paper: PaperDriver) -> None:
    stream, x = tc.Stream(), fresh()
    warm(stream)
    tensors = [fresh() for _ in range(8)]
    before = paper.calls.copy()
    for z in tensors:
        k.plus(z.partition(8), x, x).run(stream)
    # The launch itself was looked up when the class was seen on this stream.
    assert paper.calls == before and len(paper.launched) >= 10
    stream.synchronize()
    x[0] = 1.0


def test_the_addresses_and_floats_are_those_of_this_launch(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    taken: list[tuple[set[int], set[float]]] = []
    launch = type(paper).cuLaunchKernel

    def seen(self: PaperDriver, *given: int) -> object:
        places = [a for a in (ctypes.c_void_p * 4).from_address(given[9]) if a]
        taken.append(
            (
                {ctypes.c_size_t.from_address(a).value for a in places},
                {ctypes.c_double.from_address(a).value for a in places},
            )
        )
        return launch(self, *given)

    monkeypatch.setattr(type(paper), "cuLaunchKernel", seen)
    stream, table = tc.Stream(), tc.zeros(8, 32)
    for n in range(8):
        z = fresh()
        k.fill(z.partition(8), n + 0.5).run(stream)
        assert z._elements.address in taken[-1][0] and n + 0.5 in taken[-1][1]
        k.move(z.partition(8), table[n]).run(stream)
        assert z._elements.address in taken[-1][0]
    stream.synchronize()


@pytest.mark.parametrize("how", ["run", "on"])
def test_what_is_in_flight_is_refused_under_any_handle(paper: PaperDriver, how: str) -> None:
    stream, table = tc.Stream(), tc.zeros(4, 32)
    warm(stream)
    paper.held = True
    plus = k.plus.on(stream)
    for row in range(4):
        z, x = fresh(), table[row]
        if how == "run":
            running: Any = fly(stream, z, x, x)
        else:
            plus(z.partition(8), x, x)
        assert refused(z.numpy).rule == "use-in-flight"
        assert refused(lambda z=z: z[4:8].numpy()).rule == "use-in-flight"  # type: ignore[misc]
        assert refused(lambda z=z: z.into_partition(8)).rule == "use-in-flight"  # type: ignore[misc]
        error = refused(lambda row=row: table[row].__setitem__(3, 1.0))  # type: ignore[misc]
        assert error.rule == "use-in-flight" and "test_flights.py" in error.points[0]
        table[row].numpy()
        if how == "run":
            running.wait()
        else:
            plus.wait()
        z.numpy()
        table[row][3] = 1.0


def test_the_work_is_over_and_nobody_has_waited(paper: PaperDriver) -> None:
    stream, x = tc.Stream(), fresh()
    warm(stream)
    kept, dropped = fresh(), fresh()
    running = fly(stream, kept, x, x)
    fly(stream, dropped, x, x)
    for _ in range(40):
        fly(stream, fresh(), x, x)
    # What is dropped ends with the work, what is kept when somebody waits, whoever looks meanwhile.
    dropped.numpy()
    assert refused(kept.numpy).rule == "use-in-flight"
    assert refused(lambda: x.__setitem__(0, 1.0)).rule == "use-in-flight"
    fly(stream, fresh(), x, x).wait()
    assert refused(kept.numpy).rule == "use-in-flight"
    running.wait()
    kept.numpy()
    x[0] = 1.0
    again = fly(stream, kept, x, x)
    stream.synchronize()
    kept.numpy()
    again.wait()


def test_one_launch_must_not_write_what_it_reads(paper: PaperDriver) -> None:
    stream = tc.Stream()
    warm(stream)
    for _ in range(3):
        z, x = fresh(64), fresh()
        pieces = z[8:40].partition(8)
        error = refused(lambda p=pieces, z=z, x=x: k.plus(p, z[:32], x))  # type: ignore[misc]
        assert error.rule == "borrow-conflict" and "share memory" in error.message
        k.plus(z[:32].partition(8), z[32:], x).run(stream).wait()
        k.plus(z[::2].partition(8), z[1::2], x).run(stream).wait()


def test_what_ended_or_was_moved_is_refused(paper: PaperDriver) -> None:
    stream, x = tc.Stream(), fresh()
    warm(stream)
    for _ in range(3):
        z, y = fresh(64), fresh()
        old = z[:32].partition(8)
        z.partition(8)
        assert refused(lambda p=old: k.plus(p, x, x)).rule == "borrow-conflict"  # type: ignore[misc]
        view = z[32:]
        z.partition(8)
        assert refused(lambda v=view: k.plus(fresh().partition(8), v, x)).rule == "borrow-conflict"  # type: ignore[misc]
        y.into_partition(8)
        assert refused(lambda y=y: k.plus(fresh().partition(8), y, x)).rule == "use-after-move"  # type: ignore[misc]
        built = k.plus(z[:32].partition(8), x, x)
        assert refused(z.numpy).rule == "borrow-conflict"
        built.run(stream).wait()
        z.numpy()


def test_a_write_ends_the_views_of_its_bytes(paper: PaperDriver) -> None:
    stream, x = tc.Stream(), fresh()
    warm(stream)
    for _ in range(4):
        z = fresh(64)
        view, other, pieces = z[:32], z[32:], z.partition(8)
        del pieces
        assert refused(view.numpy).rule == "borrow-conflict"
        assert refused(other.numpy).rule == "borrow-conflict"
        view, pieces = z[:32], z[32:].partition(8)
        k.plus(pieces, view, x).run(stream).wait()
        view.numpy()


def test_another_stream_comes_behind(paper: PaperDriver) -> None:
    one, two = tc.Stream(), tc.Stream()
    warm(one), warm(two)
    x, z, w = fresh(), fresh(), fresh()
    paper.held = True
    fly(one, z, x, x)
    paper.waits.clear()
    # Both read `x`.
    fly(two, w, x, x)
    assert paper.waits == []
    fly(two, fresh(), z, w)
    ((stream, event),) = paper.waits
    assert stream == two._queue.handle and paper.events[event][0] == one._queue.handle
    # What `two` read is written on `one`, behind it, and again on `one`, where nothing has to be said.
    fly(one, z, x, x)
    assert [stream for stream, _ in paper.waits[1:]] == [one._queue.handle]
    fly(one, fresh(), z, x)
    assert len(paper.waits) == 2
    one.synchronize(), two.synchronize()


def test_launches_with_a_seat_and_others_on_the_same_bytes(paper: PaperDriver) -> None:
    one, two, x, z = tc.Stream(), tc.Stream(), fresh(), fresh()
    warm(one), warm(two)
    paper.held = True
    plus, pieces = k.plus.on(one), z.partition(8)
    for _ in range(4):
        plus(pieces, x, x)
    paper.waits.clear()
    fly(one, fresh(), z, x)
    plus(pieces, x, x)
    assert paper.waits == []
    fly(two, fresh(), z, x)
    assert [stream for stream, _ in paper.waits] == [two._queue.handle]
    plus(pieces, x, x)
    assert [stream for stream, _ in paper.waits] == [two._queue.handle, one._queue.handle]
    assert refused(z.numpy).rule == "use-in-flight"
    plus.wait()
    two.synchronize()
    one.synchronize()
    z[0] = 1.0


def test_memory_lives_as_long_as_the_work(paper: PaperDriver) -> None:
    stream, x = tc.Stream(), fresh()
    warm(stream)
    paper.held = True
    before = set(paper.memory)
    fly(stream, fresh(), x, x)
    (block,) = set(paper.memory) - before
    for _ in range(3):
        gc.collect()
        tc.zeros(1)
    assert block in paper.memory
    paper.held = False
    tc.zeros(1)
    assert block not in paper.memory


@pytest.mark.parametrize("how", ["run", "on", "kept"])
def test_ten_thousand_launches_leave_nothing_behind(paper: PaperDriver, how: str) -> None:
    stream, x, table = tc.Stream(), fresh(), tc.zeros(64, 32)
    warm(stream)
    add, kept = k.plus.on(stream), []
    gc.collect()
    before, blocks = tc.allocated().count, 0
    for n in range(10_000):
        z = fresh()
        if how == "on":
            add(z.partition(8), x, table[n % 64])
        else:
            running = k.plus(z.partition(8), x, table[n % 64]).run(stream)
            if how == "kept":
                kept.append(running)
        if how == "kept" and len(kept) == 100:
            kept.pop(0).wait()
        if n % 1000 == 999:
            blocks = max(blocks, tc.allocated().count - before)
    assert blocks < 250
    for tensor in (x, table):
        ledger = tensor._elements.memory.ledger
        assert len(ledger._flights) + len(ledger._running) < 700
        assert ledger._still._count + ledger._standing._count < 700
    del z, kept, add, tensor
    running = None
    stream.synchronize()
    tc.zeros(1)
    gc.collect()
    assert tc.allocated().count == before
    assert sum(isinstance(item, Flight) for item in gc.get_objects()) < 400


def test_threads_launch_on_what_they_share(paper: PaperDriver) -> None:
    shared, streams = fresh(), [tc.Stream() for _ in range(3)]
    for stream in streams:
        warm(stream)
    errors: list[BaseException] = []
    start = threading.Barrier(6)

    def work(n: int) -> None:
        rng = random.Random(n)
        try:
            start.wait()
            for _ in range(300):
                stream, z = rng.choice(streams), fresh()
                running = k.plus(z.partition(8), shared, shared).run(stream)
                if rng.random() < 0.3:
                    running.wait()
                    z.numpy()
                elif rng.random() < 0.2:
                    k.move(fresh().partition(8), z).run(rng.choice(streams)).wait()
                elif rng.random() < 0.1:
                    stream.synchronize()
        except BaseException as error:  # told to the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for stream in streams:
        stream.synchronize()
    shared[0] = 1.0


def test_a_finaliser_may_launch(paper: PaperDriver) -> None:
    stream, x, table = tc.Stream(), fresh(), tc.zeros(8, 32)
    warm(stream)
    cast = open_ops.PlannedOp._fly
    flown: list[int] = []

    class Late:
        def __del__(self) -> None:
            k.plus(fresh().partition(8), x, x).run(stream)
            flown.append(len(paper.launched))

    for n in range(200):
        late = Late()
        late.itself = late  # type: ignore[attr-defined]
        del late
        k.plus(fresh().partition(8), x, table[n % 8]).run(stream)
        if n % 20 == 0:
            gc.collect()
    gc.collect()
    assert len(flown) == 200 and cast is open_ops.PlannedOp._fly
    stream.synchronize()


def test_random_programs_on_paper_are_refused_as_the_model_says(paper: PaperDriver) -> None:
    rng = random.Random(7)
    # Lending asks the driver itself.
    kinds = [step for step in test_host_programs.STEPS if step not in ("lend", "drop_lent")]
    kinds += ["new", "cut", "launch", "run"] * 4
    refusals = flights = 0
    fly = open_ops.PlannedOp._fly

    def counted(op: Any, stream: Any) -> Any:
        nonlocal flights
        flight = fly(op, stream)
        flights += flight is not None
        return flight

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_ops.PlannedOp, "_fly", counted)
        for _ in range(150):
            steps = [(rng.choice(kinds), *(rng.randrange(12) for _ in range(3))) for _ in range(rng.randrange(10, 40))]
            gc.freeze()
            before = rt.allocated()
            world = test_host_programs.play(steps)  # type: ignore[arg-type]
            refusals += world.refusals
            del world
            gc.collect()
            backends.default().look()
            assert rt.allocated() == before
    gc.unfreeze()
    assert refusals > 300 and flights > 10


@pytest.mark.parametrize("seed", range(100, 103))
def test_random_programs_go_as_the_long_way(paper: PaperDriver, seed: int) -> None:
    quick = test_quick_and_long_way.answers(seed)
    with test_quick_and_long_way.the_long_way():
        long = test_quick_and_long_way.answers(seed)
    assert quick == long


def test_values_are_those_of_the_rows() -> None:
    x, table = tc.ones(32), tc.asarray(np.arange(256, dtype=np.float32).reshape(8, 32))
    for n in range(8):
        z = tc.zeros(32)
        k.plus(z.partition(8), x, table[n]).run().wait()
        assert np.array_equal(z.numpy(), table[n].numpy() + 1)
