"""What decides a binary is in its key, and the disk gives nothing that is not what was asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.test_numba_cuda_lowering import compiled
from tilecheck_runtime import disk_cache
from tilecheck_runtime.backends.numba_cuda import compile as numba_cuda
from tilecheck_runtime.backends.numba_cuda import installed

SOURCE = "def one(z, g0, g1, g2, fault):\n    pass\n"
TEXT: dict[str, Any] = {
    "name": "one",
    "source": SOURCE,
    "namespace": {},
    "identity": "",
    "formats": "PqqqP",
    "threads": 32,
    "capability": (9, 0),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "kernels"
    disk_cache.enable(path)
    yield path
    disk_cache.disable()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were compiled, without compiling them."""
    names: list[str] = []

    def ptx(name: str, *rest: Any, **more: Any) -> tuple[str, str]:
        names.append(name)
        return "", name

    monkeypatch.setattr(numba_cuda, "compile_ptx", ptx)
    monkeypatch.setattr(numba_cuda, "unspilled", lambda *given, **more: (b"\x7fELF", numba_cuda.Resources(8, 0, 0)))
    return names


def test_a_kernel_is_compiled_once(folder: Path, made: list[str]) -> None:
    first = numba_cuda.build(**TEXT)
    assert numba_cuda.build(**TEXT) == first and made == ["one"]


@pytest.mark.parametrize(
    "change",
    [
        {"source": SOURCE + "\n"},
        {"identity": "other layouts"},
        {"formats": "PqqqPd"},
        {"threads": 64},
        {"capability": (8, 0)},
        {"blocks_per_multiprocessor": 2},
        {"accelerated": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_decides_the_binary_is_in_the_key(folder: Path, made: list[str], change: dict[str, Any]) -> None:
    numba_cuda.build(**TEXT)
    numba_cuda.build(**{**TEXT, **change})
    assert made == ["one", "one"]


@pytest.mark.parametrize("what", ["numba-cuda", "numba", "llvmlite", "nvvm", "nvJitLink"])
def test_another_compiler_compiles_again(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str
) -> None:
    before = numba_cuda.compilers()
    numba_cuda.build(**TEXT)
    version, libraries = numba_cuda.version, installed.libraries
    library = tmp_path / "lib.so"
    library.write_bytes(b"newer")
    monkeypatch.setattr(numba_cuda, "version", lambda name: "99" if name == what else version(name))
    changed = lambda: [(name, library if name == what else path) for name, path in libraries()]  # noqa: E731
    monkeypatch.setattr(installed, "libraries", changed)
    if what.startswith("nv") and what not in dict(libraries()):
        pytest.skip("the library is not there")
    numba_cuda.compilers.cache_clear()
    try:
        assert numba_cuda.compilers() != before
        numba_cuda.build(**TEXT)
        assert made == ["one", "one"]
    finally:
        numba_cuda.compilers.cache_clear()


def test_a_folder_for_another_machine_says_whose_compilers_filled_it(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_cache.sign(numba_cuda.compilers())
    numba_cuda.build(**TEXT)
    monkeypatch.setattr(numba_cuda, "compilers", lambda: "others, or none")
    numba_cuda.build(**TEXT)
    assert made == ["one"]
    (folder / "compilers").unlink()
    numba_cuda.build(**TEXT)
    assert made == ["one", "one"]


@pytest.mark.parametrize("damage", [b"\xff\xfe", None])
def test_a_signature_that_cannot_be_read_is_none(folder: Path, damage: bytes | None) -> None:
    if damage is None:
        (folder / "compilers").mkdir()
        disk_cache.sign("x")
        assert disk_cache.statistics().errors == 1
    else:
        (folder / "compilers").write_bytes(damage)
    assert disk_cache.signature() is None


def test_an_entry_under_another_name_is_a_miss(folder: Path) -> None:
    disk_cache.write("k", b"payload")
    shutil.copy(folder / "k", folder / "other")
    assert disk_cache.read("other") is None
    assert disk_cache.statistics().corrupt == 1 and not (folder / "other").exists()
    assert disk_cache.read("k") == b"payload"


def test_a_folder_that_may_only_be_read_serves_and_costs_nothing_else(folder: Path, made: list[str]) -> None:
    numba_cuda.build(**TEXT)
    (folder / "k").write_bytes(b"cut")
    folder.chmod(0o500)
    try:
        numba_cuda.build(**TEXT)
        assert made == ["one"]
        assert disk_cache.read("k") is None
        disk_cache.write("k", b"payload")
    finally:
        folder.chmod(0o700)


def test_who_asks_for_the_source_gets_it_whatever_the_disk_has(
    folder: Path, made: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    numba_cuda.build(**TEXT)
    kept = sorted(folder.iterdir())
    for name in ("first", "second"):
        monkeypatch.setenv("TILECHECK_SOURCES", str(tmp_path / name))
        numba_cuda.build(**TEXT)
    assert made == ["one"] * 3
    # Line tables name a folder that may be gone tomorrow.
    assert sorted(folder.iterdir()) == kept
    monkeypatch.delenv("TILECHECK_SOURCES")
    numba_cuda.build(**TEXT)
    assert made == ["one"] * 3


@compiled
def test_the_source_is_there_although_the_kernel_was_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    numba_cuda.build(**TEXT)
    monkeypatch.setenv("TILECHECK_SOURCES", str(tmp_path / "sources"))
    numba_cuda.build(**TEXT)
    assert {path.suffix for path in (tmp_path / "sources").iterdir()} == {".py", ".ptx"}
