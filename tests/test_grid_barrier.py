"""Blocks that wait for each other: started together, or refused if the device does not hold all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilecheck as tc
from tests.grid_kernels import mirrored
from tests.paper_driver import PaperDriver, on_paper
from tests.test_numba_cuda_lowering import compiled
from tilecheck_runtime.backends.numba_cuda.compile import link
from tilecheck_runtime.backends.numba_cuda.simt import SimtProgram

PTX = """.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 r) cudaCGGetIntrinsicHandle (.param .b32 scope);
.extern .func (.param .b32 r) cudaCGSynchronize (.param .b64 handle, .param .b32 flags);
.visible .entry meets() {
 .reg .b64 h;
 .reg .b32 s;
 { .param .b32 a; .param .b64 r; st.param.b32 [a], 1; call (r), cudaCGGetIntrinsicHandle, (a); ld.param.b64 h, [r]; }
 { .param .b64 a; .param .b32 b; .param .b32 r;
   st.param.b64 [a], h; st.param.b32 [b], 0; call (r), cudaCGSynchronize, (a, b); ld.param.b32 s, [r]; }
 ret;
}
"""


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch) -> Iterator[PaperDriver]:
    def compile(self: Any, seen: Any) -> Any:
        return self.device.load(b"", "mirrored")

    # numba asks for a device when it reads a grid barrier.
    monkeypatch.setattr(SimtProgram, "_compile", compile)
    with on_paper() as driver:
        yield driver


def call(blocks: int) -> Any:
    z, w, x = tc.zeros(64 * blocks), tc.zeros(64 * blocks), tc.ones(64 * blocks)
    return mirrored(z.partition(64), w.partition(64), x)


@pytest.mark.cpu
def test_the_interpreter_meets_at_it() -> None:
    z, w, x = tc.zeros(256), tc.zeros(256), tc.arange(256, dtype=tc.f32)
    mirrored(z.partition(64), w.partition(64), x).sync()
    assert (z.numpy() == 2 * np.arange(256)[::-1]).all()


def test_blocks_start_together(paper: PaperDriver) -> None:
    call(4).sync()
    assert (paper.calls["cuLaunchCooperativeKernel"], len(paper.launched)) == (1, 1)
    assert paper.grids == [(4, 1, 1)] and paper.blocks == [((64, 1, 1), 0)]
    again = call(4).prepare()
    again()
    again.wait()
    assert paper.calls["cuLaunchCooperativeKernel"] == 2
    graph = call(4).graph()
    assert paper.calls["cuLaunchCooperativeKernel"] == 3
    graph.launch().sync()


def test_more_blocks_than_the_device_holds_are_refused_with_the_arithmetic(paper: PaperDriver) -> None:
    most = 2048 // 64 * 132
    call(most).sync()
    words = f"`mirrored` starts {most + 1} blocks that wait for each other, paper holds {most} at once: 32 x 132"
    with pytest.raises(tc.LaunchRefused, match=words):
        call(most + 1).sync()
    with pytest.raises(tc.LaunchRefused, match=words):
        call(most + 1).prepare()
    assert len(paper.launched) == 1


@compiled
@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=str)
def test_the_barrier_is_linked(capability: tuple[int, int]) -> None:
    image, resources = link([PTX], capability)
    assert image.startswith(b"\x7fELF") and resources.registers > 0
