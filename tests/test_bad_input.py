"""Whatever is given to `tilecheck check`, it answers with a finding or one clear line, never with a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tilecheck.cli import group


def check(*args: str, data: bytes | None = None) -> Result:
    result = CliRunner().invoke(group, ["check", "--no-cache", *args], input=data)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert "Traceback" not in result.output
    return result


KERNEL = "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    i = cuda.grid(1)\n    if i < x.size:\n        x[i] = 1\n"

UNREADABLE = {
    "syntax error": (b"import tilecheck\ndef f(:\n    pass\n", 2, "invalid syntax"),
    "not Python": (b"# numba\nSELECT * FROM kernels;\n", 2, "invalid syntax"),
    "binary": (b"numba\x00\x01\x02\xff\n", 1, "binary data, not Python source"),
    "binary below": (b"# numba\n\n\x00\n", 3, "binary data, not Python source"),
    "not UTF-8": (b"# numba\nx = '\xe9'\n", 2, "byte 0xe9 is not utf-8 text"),
    "unknown encoding": (b"# -*- coding: klingon -*-\nimport numba\n", 1, "unknown encoding: klingon"),
    "bad indent": (b"import numba\n  x = 1\n", 2, "unexpected indent"),
    "unfinished": (b"import numba\nx = (1,\n", 2, "'(' was never closed"),
    "deep brackets": (b"import numba\nx = " + b"(" * 5000 + b"1" + b")" * 5000 + b"\n", 2, "too many nested"),
    "deep blocks": (
        b"import numba\n" + b"".join(b" " * n + b"if 1:\n" for n in range(120)) + b" " * 120 + b"0\n",
        102,
        "too many levels of indentation",
    ),
    "long sum": (b"import numba\n\nx = 1" + b" + 1" * 3_000 + b"\n", 3, "nested too deeply"),
    "longer sum": (b"import numba\ndef f(a):\n    return a" + b" + a" * 8_000 + b"\n", 3, "nested too deeply"),
    "endless sum": (b"import numba\ny = 1\nx = 1" + b" + 1" * 60_000 + b"\n", 3, "nested too deeply"),
    "endless minus": (b"import numba\nx = " + b"-" * 60_000 + b"1\n", 2, "nested too deeply"),
    "sum over lines": (b"import numba\nx = (\n1\n" + b"+ 1\n" * 5_000 + b")\ny = 1\n", 2, "nested too deeply"),
    "long chain": (b"import numba\nx = a" + b".m(1)" * 4_000 + b"\n", 2, "nested too deeply"),
    "endless choice": (
        b"import numba\nif x == 0:\n    y = 0\n" + b"elif x == 1:\n    y = 1\n" * 9_000,
        2,
        "nested too deeply",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_file_is_a_finding_on_its_line(name: str, tmp_path: Path) -> None:
    data, line, message = UNREADABLE[name]
    file = tmp_path / "k.py"
    file.write_bytes(data)
    result = check(str(file))
    assert result.exit_code == 1
    assert f"error[unreadable]: {message}" in result.output
    assert f"{file}:{line}:" in result.output


@pytest.mark.parametrize("name", UNREADABLE)
def test_so_is_standard_input(name: str) -> None:
    data, line, message = UNREADABLE[name]
    result = check("-", "--stdin-filename", "editor.py", data=data)
    assert result.exit_code == 1
    assert f"error[unreadable]: {message}" in result.output
    assert f"editor.py:{line}:" in result.output


@pytest.mark.parametrize("terms", [300, 700])
def test_long_expressions_do_not_exhaust_the_stack(terms: int, tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(KERNEL + "\ny = 1" + " + 1" * terms + "\nz = " + "f(" * 150 + ")" * 150 + "\n")
    result = check(str(file))
    assert result.exit_code == 0 or "nested too deeply" in result.output


def test_a_kernel_of_5000_lines_is_answered(tmp_path: Path) -> None:
    body = "".join(f"        x[i] = x[i] + {n}\n" for n in range(5000))
    file = tmp_path / "k.py"
    file.write_text(KERNEL + body)
    assert check(str(file)).exit_code == 0


def test_other_encodings_and_line_ends_are_read(tmp_path: Path) -> None:
    for name, data in {
        "latin.py": b"# -*- coding: latin-1 -*-\n# caf\xe9 numba\n" + KERNEL.encode(),
        "bom.py": b"\xef\xbb\xbf" + KERNEL.encode(),
        "dos.py": KERNEL.replace("\n", "\r\n").encode(),
        "mac.py": KERNEL.replace("\n", "\r").encode(),
        "empty.py": b"",
        "blank.py": b"\n\n",
        "no_newline.py": KERNEL.rstrip().encode(),
    }.items():
        (tmp_path / name).write_bytes(data)
    result = check(str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "in 7 files with 5 kernels" in result.output


def test_a_file_without_kernels_is_decided_before_parsing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    assert check(str(tmp_path)).exit_code == 0
    named = check(str(tmp_path / "broken.py"))
    assert named.exit_code == 1 and "error[unreadable]" in named.output


def test_folders_without_python_and_loops_of_links(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("numba")
    assert "nothing was checked: no Python file is left" in check(str(tmp_path)).output
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "self.py").symlink_to(tmp_path / "self.py")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    (tmp_path / "k.py").write_text(KERNEL)
    result = check(str(tmp_path))
    assert result.exit_code == 0, result.output
    assert "in 1 file with 1 kernel" in result.output
    named = check(str(tmp_path / "self.py"))
    assert named.exit_code == 1 and "error[unreadable]: cannot be opened: too many levels" in named.output


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_a_file_name_that_is_no_text(form: str, tmp_path: Path) -> None:
    name = os.path.join(os.fsencode(tmp_path), b"caf\xe9.py")
    with open(name, "wb") as file:
        file.write(b"import numba\ndef f(:\n")
    assert check("--format", form, str(tmp_path)).exit_code == 1


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    assert check(str(tmp_path)).exit_code == 0
    result = check(str(pipe))
    assert result.exit_code == 1 and "error[unreadable]: not a regular file" in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_file_that_may_not_be_opened(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(KERNEL)
    file.chmod(0)
    result = check(str(file))
    assert result.exit_code == 1 and "cannot be opened: permission denied" in result.output


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nowhere.py",), "no such file or folder: nowhere.py"),
        (("--select", "no-such-rule"), "there is no rule `no-such-rule`"),
        (("--ignore", "races"), "there is no rule `races`"),
        (("--baseline", "nowhere.json"), "cannot read the baseline nowhere.json"),
        (("-", "k.py"), "`-` is for standard input alone"),
        (("--stdin-filename", "k.py"), "--stdin-filename goes with it"),
        (("-", "--fix"), "leave out --fix"),
    ],
)
def test_what_cannot_run_exits_with_2_and_one_line(args: tuple[str, ...], words: str, tmp_path: Path) -> None:
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        result = check(*args)
    finally:
        os.chdir(before)
    assert result.exit_code == 2
    assert words in result.output
    assert result.output.count("\n") == 1
