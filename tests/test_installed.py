"""What is said where something that compiling or the GPU needs is missing, or does not import."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

import tilecheck as tc
from tests import launch_kernels, simt_kernels
from tests.paper_driver import PaperDriver, on_paper
from tilecheck_runtime import backends, resources
from tilecheck_runtime.backends.numba_cuda import installed
from tilecheck_runtime.calls import forget

pathfinder: Any = pytest.importorskip("cuda.pathfinder")
pytestmark = pytest.mark.filterwarnings("ignore::tilecheck_runtime.DroppedOpWarning")


@pytest.fixture
def paper() -> Iterator[PaperDriver]:
    with on_paper() as driver:
        yield driver


def without(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    find = pathfinder.load_nvidia_dynamic_lib

    def found(name: str) -> Any:
        if name == library:
            raise pathfinder.DynamicLibNotFoundError(f"no {name}")
        return find(name)

    monkeypatch.setattr(pathfinder, "load_nvidia_dynamic_lib", found)


@pytest.mark.parametrize("library", installed.LIBRARIES)
def test_a_missing_library_is_named(paper: PaperDriver, monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    without(monkeypatch, library)
    shown = installed.LIBRARIES[library]
    forget()
    x, z = tc.ones(64), tc.zeros(64)
    tile = launch_kernels.move(z.partition(16), x)
    for launch in (tile.sync, lambda: launch_kernels.move(z.partition(16), x).compile(), lambda: simt(z)):
        with pytest.raises(tc.UsageError) as caught:
            launch()
        assert caught.value.message.endswith(f"cannot be compiled here: {shown} is not installed")
        assert caught.value.help is not None and "pip install 'tilecheck[cuda]'" in caught.value.help
    lacking = resources.missing()
    assert lacking is not None and lacking.startswith(f"{shown} is not installed: ")
    # What failed is not remembered: nobody holds anything, and with the library it goes on.
    monkeypatch.undo()
    launch_kernels.move(z.partition(16), x).sync()


def simt(z: tc.Tensor) -> None:
    simt_kernels.double(z.partition(64), z.copy()).sync()


@pytest.mark.parametrize("error", [ImportError("no module"), AttributeError("module 'numpy' has no 'row_stack'")])
def test_a_compiler_that_does_not_import_is_told(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    real = importlib.import_module

    def broken(name: str) -> Any:
        if name.endswith("backends.cuda"):
            raise error
        return real(name)

    monkeypatch.setattr("tilecheck_runtime.driver.Device.open", lambda ordinal=0: None)
    monkeypatch.setattr(backends, "import_module", broken)
    monkeypatch.setenv("TILECHECK_DEVICE", "cuda")
    with pytest.raises(tc.UsageError, match=r"no GPU can be used: numba-cuda does not import: .*(no module|row_stack)"):
        backends.default.__wrapped__()
    monkeypatch.setenv("TILECHECK_DEVICE", "")
    assert backends.default.__wrapped__().name == "cpu"
