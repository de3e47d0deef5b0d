"""The kernel cache on disk: private, checked, and never in the way."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilecheck_runtime import disk_cache
from tilecheck_runtime.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "kernels"
    disk_cache.enable(path)
    yield path
    disk_cache.disable()


def test_off_by_default_nothing_is_written(tmp_path: Path) -> None:
    disk_cache.write("k", b"payload")
    assert disk_cache.read("k") is None
    assert list(tmp_path.iterdir()) == []


def test_an_entry_comes_back(folder: Path) -> None:
    assert disk_cache.read("k") is None
    disk_cache.write("k", b"payload")
    assert disk_cache.read("k") == b"payload"
    assert disk_cache.statistics() == disk_cache.Statistics(hits=1, misses=1)
    assert [p.name for p in folder.iterdir()] == ["k"]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_entry_is_a_miss_and_goes(folder: Path, damage: str) -> None:
    disk_cache.write("k", b"payload")
    data = bytearray((folder / "k").read_bytes())
    data[-1] ^= 1
    (folder / "k").write_bytes({"flip": bytes(data), "cut": bytes(data[:-3]), "empty": b""}[damage])
    assert disk_cache.read("k") is None
    assert disk_cache.statistics().corrupt == 1
    assert not (folder / "k").exists()


def test_a_folder_open_to_others_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o755)
    with pytest.raises(UsageError, match="mode 755"):
        disk_cache.enable(shared)


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("x" * 300)):
        with pytest.raises(UsageError, match="there can be no kernel cache"):
            disk_cache.enable(path)
    assert disk_cache.folder() is None


def test_a_vanished_folder_costs_an_error_count_only(folder: Path) -> None:
    folder.rmdir()
    disk_cache.write("k", b"payload")
    assert disk_cache.read("k") is None
    assert disk_cache.statistics().errors == 1


def test_a_full_disk_costs_an_error_count_and_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fdopen = os.fdopen

    def full(handle: int, mode: str) -> object:
        fdopen(handle, mode).close()
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    disk_cache.write("k", b"payload")
    assert disk_cache.statistics().errors == 1
    assert list(folder.iterdir()) == []


def test_an_interrupted_write_leaves_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(source: str, target: Path) -> None:
        raise KeyboardInterrupt

    disk_cache.write("k", b"payload")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        disk_cache.write("k", b"other")
    assert [p.name for p in folder.iterdir()] == ["k"]
    assert disk_cache.read("k") == b"payload"


_WRITER = """
import sys
from tilecheck_runtime import disk_cache
disk_cache.enable(sys.argv[1])
for n in range(300):
    disk_cache.write("k", bytes([n % 251]) * 20000)
    found = disk_cache.read("k")
    assert found is not None and len(set(found)) == 1, found
print(disk_cache.statistics())
"""


def test_processes_that_write_one_entry_see_it_whole(folder: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for writer in writers:
        told, _ = writer.communicate()
        assert writer.returncode == 0
        assert told.strip() == "Statistics(hits=300, misses=0, corrupt=0, errors=0)"
    assert [p.name for p in folder.iterdir()] == ["k"]


def test_keys_tell_parts_apart() -> None:
    assert disk_cache.key_of("ab", "c") != disk_cache.key_of("a", "bc")
    assert disk_cache.key_of(("a", 1)) == disk_cache.key_of(("a", 1))
