"""Compiled kernels on disk: off until `enable(path)`, never trusted, never in the way.

An entry is a file named by the digest of everything that decides the binary (generated source, facts, architecture,
compiler versions), with a checksum of name and payload in front. A truncated, changed or renamed entry is a miss and is
written again; no entry is ever unpickled or executed before the checksum fits. A folder that was filled for another machine
says by which compilers (`sign`), which then count as those of the machine that uses it. The folder must belong to the user and be closed to
others. Whatever goes wrong with the disk costs a compilation, never a launch.

    >>> from tilecheck_runtime import disk_cache
    >>> disk_cache.enable("/home/me/.cache/kernels")          # doctest: +SKIP
    >>> disk_cache.statistics()                               # doctest: +SKIP
    Statistics(hits=3, misses=1, corrupt=0, errors=0)
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from tilecheck_runtime.errors import UsageError

_MAGIC = b"tilecheck-kernel-2\n"
_SIGNATURE = "compilers"
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class Statistics:
    """What happened since `enable`: `corrupt` entries were dropped, `errors` are failures of the file system."""

    hits: int = 0
    misses: int = 0
    corrupt: int = 0
    errors: int = 0


_lock = threading.Lock()
_folder: Path | None = None
_counts = Statistics()


def enable(path: str | os.PathLike[str]) -> None:
    """Keep compiled kernels in folder `path`, which is made if it is not there.

    Raises UsageError if there can be no such folder, or if it is not ours alone: what others can write, others could
    have compiled.
    """
    global _folder, _counts
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.stat()
    except OSError as error:
        raise UsageError(f"there can be no kernel cache {folder}: {error.strerror}", "give another folder") from None
    if not stat.S_ISDIR(about.st_mode):
        raise UsageError(f"the kernel cache {folder} is not a folder", "give the path of a folder")
    if about.st_mode & 0o077 or (hasattr(os, "getuid") and about.st_uid != os.getuid()):
        raise UsageError(
            f"the kernel cache {folder} can be read or written by others (mode {about.st_mode & 0o777:o})",
            f"`chmod 700 {folder}`, or give a folder of your own",
        )
    with _lock:
        _folder, _counts = folder, Statistics()


def disable() -> None:
    """Stop using the disk."""
    global _folder
    with _lock:
        _folder = None


def folder() -> Path | None:
    """The folder in use, None while the disk is not."""
    return _folder


def statistics() -> Statistics:
    """Counts since `enable`."""
    return _counts


def key_of(*parts: object) -> str:
    """A name for everything that decides a binary."""
    digest = hashlib.sha256()
    for part in parts:
        text = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return digest.hexdigest()


def sign(compilers: str) -> None:
    """Say that what is in the folder, and will be, was made by these compilers, on whatever machine it is used."""
    folder = _folder
    if folder is None:
        return
    try:
        (folder / _SIGNATURE).write_text(compilers, "utf-8")
    except OSError:
        _count(errors=1)


def signature() -> str | None:
    """The compilers that the folder was signed with, None if it was not."""
    folder = _folder
    if folder is None:
        return None
    try:
        return (folder / _SIGNATURE).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _checksum(key: str, payload: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + payload).digest()


def _count(**more: int) -> None:
    global _counts
    with _lock:
        _counts = replace(_counts, **{name: getattr(_counts, name) + number for name, number in more.items()})


def read(key: str) -> bytes | None:
    """The payload kept under `key`, None if there is none or it is damaged; a damaged entry is removed."""
    folder = _folder
    if folder is None:
        return None
    path = folder / key
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        _count(misses=1)
        return None
    except OSError:
        _count(errors=1)
        return None
    start = len(_MAGIC) + _DIGEST
    if data[: len(_MAGIC)] == _MAGIC and _checksum(key, data[start:]) == data[len(_MAGIC) : start]:
        _count(hits=1)
        return data[start:]
    _count(corrupt=1)
    try:
        path.unlink(missing_ok=True)
    except OSError:
        _count(errors=1)
    return None


def write(key: str, payload: bytes) -> None:
    """Keep `payload` under `key`: whole or not at all, whoever else writes the same."""
    folder = _folder
    if folder is None:
        return
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _checksum(key, payload) + payload)
            os.replace(name, folder / key)
        except BaseException:
            # A full disk, or Ctrl-C.
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        _count(errors=1)
