"""The executor on small kernels whose faults are known by construction, under many schedules."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.interp.clocks import Mailbox, Timed, meet
from tilecheck.interp.simt import SimtRun, run
from tilecheck.interp.simt_compile import compile_kernel
from tilecheck.verify.replay import Scenario, replay, witness

HEAD = "import numpy as np, math\nfrom numba import cuda, float32, int32\n"
SEEDS = range(6)


def compiled(body: str, params: str = "a, out, n"):
    text = HEAD + f"@cuda.jit\ndef k({params}):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return compile_kernel(read_kernels(Source("k.py", text), lambda name: None)[-1])


def launch(body: str, grid: int, block: int, n: int = 0, size: int = 64, seed: int = 0, shared: int = 0):
    a, out = np.arange(size, dtype=np.int64), np.zeros(size, np.int64)
    result = run(
        compiled(body), {"a": a, "out": out, "n": n}, (grid, 1, 1), (block, 1, 1), seed=seed, dynamic_shared=shared
    )
    assert not result.inexact
    return a, out, result


def kinds(result: SimtRun) -> set[str]:
    return {fault.kind for fault in result.faults}


SAFE = {
    "guarded map": "i = cuda.grid(1)\nif i < out.size:\n    out[i] = a[i] + 1",
    "grid stride": "for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):\n    out[i] += 1",
    "reverse through shared": """
        s = cuda.shared.array(16, int32)
        t = cuda.threadIdx.x
        s[t] = a[t]
        cuda.syncthreads()
        if cuda.blockIdx.x == 0:
            out[t] = s[15 - t]
        """,
    "tickets": "p = cuda.atomic.add(a, 0, 1)\nif p < 32:\n    out[p] = 1",
    "lock with fences": """
        if cuda.threadIdx.x == 0:
            while cuda.atomic.cas(a, 0, 0, 1) != 0:
                pass
            cuda.threadfence()
            out[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(a, 0, 0)
        """,
    "last block sums": """
        if cuda.threadIdx.x == 0:
            out[cuda.blockIdx.x + 1] = 5
            cuda.threadfence()
            if cuda.atomic.add(a, 0, 1) == cuda.gridDim.x - 1:
                cuda.threadfence()
                for b in range(cuda.gridDim.x):
                    out[0] += out[b + 1]
        """,
    "grid barrier": """
        i = cuda.grid(1)
        out[i] = i
        cuda.cg.this_grid().sync()
        v = out[31 - i]
        cuda.cg.this_grid().sync()
        out[i] = v
        """,
    "warp vote": "m = cuda.ballot_sync(0xffff, cuda.threadIdx.x % 2 == 0)\nout[cuda.grid(1)] = cuda.popc(m)",
    "active mask in a branch": """
        if cuda.threadIdx.x < 5:
            m = cuda.activemask()
            out[cuda.grid(1)] = cuda.shfl_sync(m, 7, 0)
        """,
    "uniform break": """
        k = 0
        while True:
            if cuda.syncthreads_or(k == 3):
                break
            k += 1
        out[cuda.grid(1)] = k
        """,
}


@pytest.mark.parametrize("name", SAFE)
@pytest.mark.parametrize("seed", SEEDS)
def test_safe_kernels_show_nothing_and_agree_under_every_schedule(name: str, seed: int) -> None:
    def go(seed: int) -> tuple[np.ndarray, SimtRun]:
        a, out = np.arange(64), np.zeros(64, np.int64)
        result = run(compiled(SAFE[name]), {"a": a, "out": out, "n": 3}, (2, 1, 1), (16, 1, 1), seed=seed)
        return out, result

    out, result = go(seed)
    assert result.faults == () and result.inexact == ()
    assert np.array_equal(out, go(99)[0])


FAULTY = {
    "everyone writes": ("out[0] = cuda.threadIdx.x", "race", "out"),
    "read of the neighbour": ("i = cuda.grid(1)\nout[i] = out[i + 1]", "race", "out"),
    "missing barrier": (
        "s = cuda.shared.array(16, int32)\nt = cuda.threadIdx.x\ns[t] = t\nout[cuda.grid(1)] = s[15 - t]",
        "race",
        "s",
    ),
    "blocks need more than a barrier": (
        "i = cuda.grid(1)\nv = out[31 - i]\ncuda.syncthreads()\nout[i] = v",
        "race",
        "out",
    ),
    "no fence": (
        "if cuda.threadIdx.x == 0:\n    out[cuda.blockIdx.x] = 1\n    if cuda.atomic.add(a, 0, 1) == 1:\n        a[5] = out[0] + out[1]",
        "race",
        "out",
    ),
    "block fence between blocks": (
        """
        if cuda.threadIdx.x == 0:
            out[cuda.blockIdx.x] = 1
            cuda.threadfence_block()
            if cuda.atomic.add(a, 0, 1) == 1:
                cuda.threadfence_block()
                a[5] = out[0] + out[1]
        """,
        "race",
        "out",
    ),
    "atomic and plain": ("cuda.atomic.add(out, 0, 1)\na[cuda.grid(1)] = out[0]", "race", "out"),
    "one past the end": ("out[cuda.grid(1) + 33] = 1", "out-of-bounds", "out"),
    "negative index": ("out[cuda.grid(1) - 1] = 1", "out-of-bounds", "out"),
    "far below": ("out[cuda.grid(1) - 100] = 1", "out-of-bounds", "out"),
    "barrier in a branch": ("if cuda.threadIdx.x < 8:\n    cuda.syncthreads()", "divergent-barrier", None),
    "barriers in both arms": (
        "if cuda.threadIdx.x < 8:\n    cuda.syncthreads()\nelse:\n    cuda.syncthreads()",
        "divergent-barrier",
        None,
    ),
    "barrier met in different rounds": (
        "for i in range(2):\n    if i == cuda.threadIdx.x % 2:\n        cuda.syncthreads()",
        "divergent-barrier",
        None,
    ),
    "early return": ("if cuda.threadIdx.x == 3:\n    return\ncuda.syncthreads()", "divergent-barrier", None),
    "block misses the grid barrier": (
        "if cuda.blockIdx.x == 0:\n    cuda.cg.this_grid().sync()",
        "divergent-barrier",
        None,
    ),
    "unset": ("s = cuda.shared.array(16, int32)\nout[cuda.grid(1)] = s[cuda.threadIdx.x]", "uninitialised-shared", "s"),
    "mask names too many": ("if cuda.threadIdx.x < 8:\n    cuda.shfl_down_sync(0xffff, 1, 1)", "warp-sync", None),
    "absent lanes": ("out[cuda.grid(1)] = cuda.any_sync(0xffffffff, 1)", "warp-sync", None),
    "syncwarp missed": ("if cuda.threadIdx.x < 8:\n    cuda.syncwarp()", "warp-sync", None),
    "races through aliased dynamic arrays": (
        "s = cuda.shared.array(0, int32)\nf = cuda.shared.array(0, float32)\nt = cuda.threadIdx.x\ns[t] = t\nf[15 - t] = t",
        "race",
        None,
    ),
}


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("seed", SEEDS)
def test_faulty_kernels_show_their_fault_under_every_schedule(name: str, seed: int) -> None:
    body, kind, array = FAULTY[name]
    _, _, result = launch(body, 2, 16, seed=seed, shared=64)
    found = [f for f in result.faults if f.kind == kind and (array is None or f.array == array)]
    assert found, result.faults


def test_races_name_both_threads_both_lines_and_the_element() -> None:
    _, _, result = launch("t = cuda.threadIdx.x\nif t == 2:\n    out[5] = 1\nif t == 3:\n    out[5] = 2", 1, 4)
    (race,) = result.of("race")
    assert sorted(party.thread[0] for party in race.parties) == [2, 3]
    assert sorted(race.lines) == [7, 9] and race.index == (5,) and race.space == "global" and not race.same_value


def test_races_of_equal_values_are_marked() -> None:
    _, _, result = launch("out[5] = n", 1, 4, n=7)
    assert {fault.same_value for fault in result.of("race")} == {True}


def test_a_literal_negative_index_is_meant() -> None:
    _, out, result = launch("if cuda.grid(1) == 0:\n    out[-1] = 9", 1, 4)
    assert result.faults == () and out[-1] == 9


def test_overlapping_arguments_meet_in_one_element() -> None:
    program = compiled("i = cuda.grid(1)\nif i < out.size:\n    out[i] = a[i]")
    x = np.arange(33)
    shifted = run(program, {"a": x[1:], "out": x[:-1], "n": 0}, (1, 1, 1), (32, 1, 1))
    halves = run(program, {"a": x[:16], "out": x[16:32], "n": 0}, (1, 1, 1), (32, 1, 1))
    assert kinds(shifted) == {"race"} and kinds(halves) == set()


def test_endless_loops_stop() -> None:
    body = "while n == 0:\n    pass"
    result = run(compiled(body), {"a": np.zeros(1), "out": np.zeros(1), "n": 0}, (1, 1, 1), (2, 1, 1), max_steps=10_000)
    assert kinds(result) == {"too-long"}


def test_integers_wrap_at_64_bits_and_stores_convert() -> None:
    _, out, result = launch(
        "x = 3037000500\nout[0] = x * x\nout[1] = (1 << 63) + a[3]\nout[2] = -7 // 2 + -7 % 4\nout[3] = 1 // n", 1, 1
    )
    assert result.faults == ()
    assert out[0] == 3037000500**2 - 2**64 and out[1] == -(2**63) + 3 and out[2] == -4 + 1 and out[3] == 0


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 5), st.integers(1, 60), st.integers(0, 1000))
def test_races_of_affine_writes_match_counting(grid: int, block: int, stride: int, modulus: int, seed: int) -> None:
    """`out[(i * stride) % modulus] = i` races iff two threads hit one element, whatever the schedule."""
    body = f"i = cuda.grid(1)\nout[(i * {stride}) % {modulus}] = i"
    _, _, result = launch(body, grid, block, seed=seed)
    targets = [(i * stride) % modulus for i in range(grid * block)]
    assert bool(result.of("race")) == (len(set(targets)) < len(targets))


def test_replay_shows_what_happens_and_nothing_else() -> None:
    text = HEAD + "@cuda.jit\ndef k(x, n):\n    i = cuda.grid(1)\n    if i < n:\n        x[i // 2] = i\n"
    (kernel,) = read_kernels(Source("k.py", text), lambda name: None)
    racing = Scenario((1, 1, 1), (4, 1, 1), {"x": (4,)}, {"n": 2})
    fault = replay(kernel, racing, "race", array="x")
    assert fault is not None and fault.index == (0,)
    shown = witness(fault, racing)
    assert shown.array == "x" and len(shown.threads) == 2 and shown.launch["n"] == 2 and shown.lines == (7, 7)
    assert replay(kernel, Scenario((1, 1, 1), (4, 1, 1), {"x": (4,)}, {"n": 1}), "race") is None
    assert replay(kernel, racing, "out-of-bounds") is None


def test_large_launches_are_replayed_by_some_of_their_blocks() -> None:
    text = HEAD + "@cuda.jit\ndef k(x, n):\n    i = cuda.grid(1)\n    if i < n:\n        x[i // 2] = i\n"
    (kernel,) = read_kernels(Source("k.py", text), lambda name: None)
    large = Scenario((1 << 20, 1, 1), (64, 1, 1), {"x": (1 << 25,)}, {"n": 1 << 26})
    assert replay(kernel, large, "race") is not None
    assert replay(kernel, large, "out-of-bounds") is None
    short = Scenario((1 << 20, 1, 1), (64, 1, 1), {"x": ((1 << 25) - 1,)}, {"n": 1 << 26})
    stray = replay(kernel, short, "out-of-bounds")
    assert stray is not None and stray.index == ((1 << 25) - 1,)
    flat = Scenario((300, 300, 1), (16, 16, 1))
    sample = flat.sample()
    assert sample is not None and len(sample) == len(set(sample)) == 8 and {0, 1, 300, 89_999} <= set(sample)


def test_writes_that_are_no_number_are_one_value() -> None:
    program = compiled("out[0] = a[cuda.threadIdx.x] / a[0]")
    for values, same in (([0.0, 0.0], True), ([1.0, 2.0], False)):
        with np.errstate(invalid="ignore"):
            result = run(program, {"a": np.array(values), "out": np.zeros(1), "n": 0}, (1, 1, 1), (2, 1, 1))
        assert {fault.same_value for fault in result.of("race")} == {same}


def test_what_fences_release_does_not_grow_from_barrier_to_barrier() -> None:
    threads = [Timed(0, lane, [0] * 8) for lane in range(8)]
    for thread in threads:
        thread.fence(device=True)
    for _ in range(20):
        meet(threads)
    # They are left together from then on, so one stands for all.
    assert len(threads[0].released) == 1


def test_a_lock_keeps_one_letter_of_each_block() -> None:
    box = Mailbox()
    threads = [Timed(block, lane, [0] * 4) for block in range(2) for lane in range(4)]
    for turn, thread in enumerate([*threads, *threads]):
        thread.publish(box)
        thread.fence(device=True)
        assert all(thread.knows(before.block, before.lane, 1) for before in threads[:turn])
        thread.fence(device=True)
        thread.publish(box)
    assert len(box.letters) == 2


def test_a_letter_of_the_device_is_not_dropped_for_one_of_the_block() -> None:
    box, first, second, reader = Mailbox(), Timed(0, 0, [0] * 2), Timed(0, 1, [0] * 2), Timed(1, 0, [0] * 2)
    first.fence(device=True)
    first.publish(box)
    second.publish(box)
    second.fence(device=False)
    second.publish(box)
    reader.publish(box)
    reader.fence(device=True)
    assert reader.knows(0, 0, 1) and not reader.knows(0, 1, 1)


def test_who_spins_leaves_the_steps_to_who_holds_the_lock() -> None:
    body = """
        while cuda.atomic.cas(out, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        a[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(out, 0, 0)
    """
    arguments = {"a": np.zeros(1), "out": np.zeros(1, np.int32), "n": 0}
    result = run(compiled(body), arguments, (2, 1, 1), (128, 1, 1), max_steps=12_000)
    assert not result.faults and arguments["a"][0] == 256
