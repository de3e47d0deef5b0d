"""The commands around `tilecheck check`: help, rules, explain, ops, audit, doctor, compile, new."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner, Result

from tests.test_numba_cuda_lowering import compiled
from tilecheck.cli import COMMANDS, doctor, group
from tilecheck.report import explain
from tilecheck.rules import RULES, rule_name
from tilecheck.verify.tile_report import Rung

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


def invoke(*args: str) -> Result:
    result = CliRunner().invoke(group, list(args))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def test_help_lists_every_command() -> None:
    text = invoke("--help").stdout
    for name in COMMANDS:
        assert name in text
        assert invoke(name, "--help").exit_code == 0
    assert invoke("chekc").exit_code == 2
    assert invoke("--version").stdout.startswith("tilecheck ")


def test_rules_and_explain() -> None:
    listed = invoke("rules").stdout
    for rule in RULES:
        assert rule_name(rule) in listed
    page = invoke("explain", "unused-allow").stdout
    assert "rejected:" in page and "accepted:" in page and "# error" not in page
    assert invoke("explain", "no-such-rule").exit_code == 2


def test_rungs_have_one_vocabulary() -> None:
    page = (Path(explain.__file__).parents[2] / "docs" / "bounds.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| ([a-z-]+) \| ([^|]+) \|", page, re.MULTILINE))
    assert {name: rows.get(name) for name in explain.RUNGS} == explain.RUNGS
    assert explain.RUNGS.keys() == set(get_args(Rung))


def test_explain_a_kernel() -> None:
    Path("k.py").write_text(KERNEL)
    shown = invoke("explain", "k.py::k", "--ir").stdout
    assert shown.startswith("k.py:4: numba kernel `k`")
    assert "x[i] = 1" in shown
    missing = invoke("explain", "k.py::other")
    assert missing.exit_code == 2 and "its kernels: k" in missing.stderr
    assert invoke("explain", "gone.py::k").exit_code == 2


def test_ops() -> None:
    assert "tc.load_like(x, like" in invoke("ops").stdout
    assert "memory:" in invoke("ops", "load_like").stdout
    assert invoke("ops", "teleport").exit_code == 2


def test_audit_says_which_files_it_could_not_read() -> None:
    Path("broken.py").write_text("import tilecheck as tc\n\ndef f(:\n    pass\n", "utf-8")
    result = invoke("audit")
    assert result.exit_code == invoke("check").exit_code == 1
    assert "broken.py:3: unreadable: invalid syntax" in result.stdout
    assert "1 file could not be read" in result.stdout


def test_audit_goes_on_behind_a_file_that_cannot_be_opened() -> None:
    Path("gone.py").symlink_to("nowhere.py")
    Path("k.py").write_text("import tilecheck as tc\n")
    result = invoke("audit", "gone.py", "k.py")
    assert result.exit_code == 1
    assert "gone.py:1: unreadable: cannot be opened: no such file or directory" in result.stdout


def test_audit_lists_waivers_with_their_reasons() -> None:
    Path("k.py").write_text(STALE + '\n@tc.unsafe("keys are distinct")\ndef f(): ...\n')
    lines = invoke("audit").stdout.splitlines()
    assert lines[:2] == ["k.py:3: allow unreadable: an old story", "k.py:5: unsafe: keys are distinct"]
    assert lines[2:] == ["2 places in 1 file"]


def test_audit_lists_what_the_configuration_switches_off() -> None:
    assert invoke("audit").stdout == "nothing is switched off\n"
    Path("racy.py").write_text(KERNEL.replace("x[i] = 1", "x[0] = i"))
    assert invoke("check", "--write-baseline", "known.json").exit_code == 0
    Path("pyproject.toml").write_text('[tool.tilecheck]\nignore = ["dropped-op"]\nbaseline = "known.json"\n')
    assert invoke("check").exit_code == 0
    assert invoke("audit").stdout.splitlines() == [
        "pyproject.toml: ignore dropped-op: not reported in any file",
        "known.json: baseline: 1 finding accepted",
        "no comment switches anything off",
    ]
    Path("known.json").write_text("{")
    assert invoke("audit").exit_code == 2


def test_nothing_left_to_check_is_no_clean_result() -> None:
    Path("k.py").write_text(KERNEL)
    assert invoke("check", "--exclude", "k.py").stdout == "nothing was checked: no Python file is left of the paths\n"
    left = invoke("check", "--select", "data-race", "--ignore", "data-race")
    assert left.exit_code == 2
    assert left.stderr == "tilecheck: nothing is checked: every rule that is selected is ignored too\n"


def test_a_proof_for_the_launches_that_were_seen_says_so() -> None:
    body = "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    x[cuda.threadIdx.x] = 1\n"
    Path("k.py").write_text(body)
    assert "inside its array: proven-given\n" in invoke("explain", "k.py::k").stdout
    Path("run.py").write_text("import numpy as np\nfrom k import k\n\nk[1, 32](np.zeros(32))\n")
    assert "inside its array: proven for the launch at run.py:4\n" in invoke("explain", "k.py::k").stdout
    shown = json.loads(invoke("explain", "k.py::k", "--format", "json").stdout)
    (listed,) = json.loads(invoke("check", "--format", "json").stdout)["kernels"]
    assert shown["launches"] == listed["launches"] == [{"path": "run.py", "line": 4}]


PRODUCT = """import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f16, f32

class BM(Dim): ...
class BK(Dim): ...

@tc.kernel
def gram(z: Tensor[Mut, f32, BM, BM], x: Tensor[Shared, f16, BM, BK], y: Tensor[Shared, f16, BK, BM]) -> None:
    z.store(tc.mma(x.load(), y.load(), tc.zeros(BM, BM, dtype=f32)))

@tc.kernel(backend="numba-cuda")
def copy(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, BM]) -> None:
    z.store(x.load())
"""


def test_explain_names_the_compiler_and_the_reason() -> None:
    Path("k.py").write_text(PRODUCT)
    shown = invoke("explain", "k.py::gram").stdout
    assert "compiled on a GPU by tile-ir where it is installed, else numba-cuda: it multiplies matrices" in shown
    assert 'compiled on a GPU by numba-cuda: `backend="numba-cuda"`' in invoke("explain", "k.py::copy").stdout


ROWS = """import tilecheck as tc
from typing import TypeVar
from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f16, f32

Real = TypeVar("Real", f16, f32)

class BM(Dim): ...

@tc.kernel
def double(z: Tensor[Mut, Real, BM], x: Tensor[Shared, Real, Dyn]) -> None:
    z.store((tc.load_like(x, z).astype(f32) * 2.0).astype(z.dtype))
"""


@compiled
def test_explain_with_resources() -> None:
    Path("k.py").write_text(ROWS)
    given = ("--resources", "--dim", "BM=2048", "--dtype", "Real=f16", "--arch", "sm_80", "--arch", "sm_120")
    shown = invoke("explain", "k.py::double", *given).stdout
    assert "the dtype of `z` and `x`, `Real`, is f16 or f32" in shown
    assert "whose extents the tiles divide; BM=2048, Real=f16:" in shown
    report = r"sm_80  (\d+) threads, \d+ registers a thread, nothing spilled, 0 bytes of static and 0 of dynamic"
    told = re.search(report, shown)
    assert told is not None
    threads = int(told[1])
    fit = rf"\d+ blocks a multiprocessor, 2048 threads, limited by threads:\n +threads +{2048 // threads} = 2048 // "
    assert re.search(fit, shown)
    assert "how many blocks fit is not known for this architecture" in shown
    found = json.loads(invoke("explain", "k.py::double", "--format", "json", *given).stdout)
    assert found["name"] == "double" and found["resources"]["reason"] is None
    first, second = found["resources"]["architectures"]
    assert (first["architecture"], first["threads"], first["spilled"]) == ("sm_80", threads, 0)
    assert first["blocks"] == 2048 // threads
    assert second["blocks"] is None and second["registers"] > 0


@compiled
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ((), "`BM` of `double` has no value; give it: --dim BM=128"),
        (("--dim", "BM=64"), "the dtype `Real` of `double` is open; give it: --dtype Real=f16"),
    ],
)
def test_explain_says_in_a_line_why_resources_are_not_known(given: tuple[str, ...], reason: str) -> None:
    Path("k.py").write_text(ROWS)
    shown = invoke("explain", "k.py::double", "--resources", *given).stdout
    assert f"resources: not known, {reason}" in shown.splitlines()[-1]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (("--dtype", "z=i8"), "`z` of `double` is no i8; it is f16 or f32"),
        (("--dtype", "Real=f99"), "`Real` of `double` is no f99; it is f16 or f32"),
        (("--dtype", "T=f16"), "`double` has no open dtype `T`; its open dtypes: `Real`"),
        (("--dim", "Q=3"), "`double` has no open extent `Q`; its open extents: `BM`"),
        (("--arch", "hopper"), "`hopper` is no architecture that can be compiled for; known are sm_75, sm_80"),
        (("--arch", "sm_1"), "`sm_1` is no architecture that can be compiled for; known are sm_75, sm_80"),
        (("--arch", "sm_99"), "`sm_99` is no architecture that can be compiled for; known are sm_75, sm_80"),
    ],
)
def test_resources_of_what_there_is_not(given: tuple[str, ...], line: str) -> None:
    Path("k.py").write_text(ROWS)
    result = invoke("explain", "k.py::double", "--resources", "--dim", "BM=64", *given)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"tilecheck: {line}") and result.stderr.count("\n") == 1


FITTING = """import tilecheck as tc
from tilecheck import Dim, Mut, Shared, Tensor, f32

class BN(Dim): ...
class N(Dim): ...

@tc.kernel(requires="N <= BN")
def copy(z: Tensor[Mut, f32, BN], x: Tensor[Shared, f32, N]) -> None:
    z.store(tc.load_like(x, z))
"""


@compiled
def test_resources_of_extents_that_no_launch_has() -> None:
    Path("k.py").write_text(FITTING)
    given = ("explain", "k.py::copy", "--resources", "--dim", "BN=64", "--dim")
    refused = invoke(*given, "N=65").stdout.splitlines()[-1]
    assert refused.startswith("resources: not known, every launch with these extents is refused")
    assert refused.endswith("the declared condition `N <= BN` does not hold: 65 against 64")
    assert "resources through numba-cuda" in invoke(*given, "N=64").stdout


def test_one_block_is_singular() -> None:
    from tilecheck.cli.resources import Asked, text
    from tilecheck_runtime.resources import Limit, Taken

    taken = Taken("sm_90", 1024, 64, 0, 0, 0, (Limit("registers", 1, "as it is"),))
    assert "    1 block a multiprocessor, 1024 threads, limited by" in text([taken], None, Asked(("sm_90",), {}, {}))


def test_explaining_a_file_lists_its_kernels() -> None:
    Path("k.py").write_text(FITTING + KERNEL)
    result = invoke("explain", "k.py")
    assert result.exit_code == 2
    assert result.stderr == "tilecheck: k.py has 2 kernels, name one: k.py::copy, k.py::k\n"
    Path("plain.py").write_text("x = 1\n")
    assert "plain.py has no kernel" in invoke("explain", "plain.py").stderr


def test_resources_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("k.py").write_text(ROWS + KERNEL.replace("from numba import cuda\n", "from numba import cuda"))
    monkeypatch.setattr("tilecheck_runtime.backends.numba_cuda.installed.find_spec", lambda name: None)
    shown = invoke("explain", "k.py::double", "--resources", "--dim", "BM=64").stdout
    assert shown.splitlines()[-1].startswith("resources: not known, `numba-cuda` is not installed: `pip install")
    assert "thread-level kernel" in invoke("explain", "k.py::k", "--resources").stdout
    assert "resources" not in invoke("explain", "k.py::double").stdout
    assert invoke("explain", "k.py::double", "--dim", "BM=64").exit_code == 2
    assert invoke("explain", "k.py::double", "--resources", "--dim", "BM").exit_code == 2


TWO_FAULTS = """import cuda.tile as ct


@ct.kernel
def bad(x, z):
    t = ct.load(x, index=(ct.bid(0),), shape=(3,))
    ct.store(z, index=(0,), tile=t)
"""


def test_explain_shows_all_that_check_finds_in_a_kernel() -> None:
    Path("faulty.py").write_text(TWO_FAULTS)
    shown = invoke("explain", "faulty.py::bad").stdout
    assert shown.count("error[") == invoke("check", "faulty.py").stdout.count("error[") == 2
    assert "error[shape-mismatch]: a tile extent of 3" in shown and "error[data-race]" in shown


def test_a_kernel_that_writes_around_its_partition_is_not_race_free_by_construction() -> None:
    Path("k.py").write_text(ROWS + "\n\n@tc.kernel\ndef w(z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, BM]) -> None:\n"
                            "    z.store(z.load())\n    x.store(z.load())\n")  # fmt: skip
    shown = invoke("explain", "k.py::w").stdout
    assert "no two blocks or threads race: unknown\n  because it writes where it may not" in shown
    assert "error[write-to-shared]" in shown


def test_doctor_says_what_is_there() -> None:
    result = invoke("doctor")
    assert result.exit_code == 0
    assert "z3-solver" in result.stdout and "cpu" in result.stdout
    assert '`plugins = ["tilecheck"]` under [tool.mypy] in pyproject.toml' in result.stdout


@pytest.mark.parametrize(
    ("present", "words"),
    [
        ((), "missing cuda-tile is not installed: pip install"),
        (("cuda-tile",), "missing cuda-tile 9.9 is there, its compiler `tileiras` is not: pip install"),
        (("cuda-tile", "nvidia-cuda-tileiras"), "ok cuda-tile 9.9 with tileiras 9.9: the `tile-ir` backend"),
    ],
    ids=["nothing", "no compiler", "all"],
)
def test_doctor_says_what_tile_ir_lacks(present: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = doctor._installed
    tile = {"cuda-tile", "nvidia-cuda-tileiras"}
    monkeypatch.setattr(
        doctor, "_installed", lambda name: found(name) if name not in tile else "9.9" if name in present else None
    )
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert words in " ".join(invoke("doctor").stdout.split())


def test_new_makes_a_clean_project(tmp_path: Path) -> None:
    assert invoke("new", "my-project").exit_code == 0
    assert invoke("new", "my-project").exit_code == 2
    assert invoke("new", "class").exit_code == 2
    os.chdir("my-project")
    assert invoke("check").exit_code == 0


@pytest.mark.parametrize("name", ["tilecheck", "tilecheck-runtime", "numpy", "json", "Click", "sub/os"])
def test_new_refuses_the_name_of_a_module(name: str) -> None:
    result = invoke("new", name)
    assert result.exit_code == 2 and "would hide" in result.stderr
    assert os.listdir() == ["pyproject.toml"]


def test_new_beside_a_folder_of_its_name() -> None:
    Path("mine").mkdir()
    assert invoke("new", "sub/mine").exit_code == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("Error calling __set_name__")])
@pytest.mark.parametrize("name", ["audit", "doctor", "rules"])
def test_an_interrupted_command_ends_in_a_line(
    name: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise error from (KeyboardInterrupt() if isinstance(error, RuntimeError) else None)

    command = import_module(f"tilecheck.cli.{name}").command
    monkeypatch.setattr(command, "callback", interrupted)
    monkeypatch.setattr(command, "params", [])
    result = invoke(name)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "tilecheck: interrupted\n")


def test_sanitize_runs_the_script_once_per_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = tmp_path / "bin" / "compute-sanitizer"
    stand_in.parent.mkdir()
    # As the real one: options, then the program; it ends as asked if it "saw" something, else as the program does.
    stand_in.write_text(
        '#!/bin/sh\necho "$@" >> log\ntest -d "$TILECHECK_SOURCES" || exit 9\n'
        'test "$2" = racecheck -a -e racy && exit "$4"\n'
        'while test "${1#--}" != "$1"; do shift 2; done\nexec "$@"\n'
    )
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}")
    script = tmp_path / "script.py"
    script.write_text("import os, sys\nassert os.environ['TILECHECK_DEVICE'] == 'cuda'\nsys.exit(int(sys.argv[1]))\n")
    result = invoke("sanitize", str(script), "0")
    assert result.exit_code == 0 and result.output.count("saw nothing in this run") == 4
    assert [line.split()[1] for line in Path("log").read_text().splitlines()] == [
        "memcheck",
        "racecheck",
        "initcheck",
        "synccheck",
    ]
    result = invoke("sanitize", "--tool", "memcheck", str(script), "3")
    assert result.exit_code == 2 and "ended with status 3 under memcheck" in result.output
    Path("racy").touch()
    result = invoke("sanitize", "--tool", "racecheck,memcheck", "--sources", "kept", str(script), "0")
    assert result.exit_code == 1 and "racecheck: findings above" in result.output
    assert "--tool racecheck" in (log := Path("log").read_text()) and "--racecheck-report all" in log
    assert "memcheck: saw nothing" in result.output and Path("kept").is_dir()
    assert invoke("sanitize", "--tool", "lint", str(script)).exit_code == 2


def test_sanitize_without_the_toolkit_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilecheck.cli.sanitize.find", lambda: None)
    Path("script.py").touch()
    result = invoke("sanitize", "script.py")
    assert result.exit_code == 2 and "CUDA toolkit" in result.output


def test_compile_without_a_compiler_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named 'llvmlite', for {name}", name="llvmlite")

    Path("script.py").touch()
    monkeypatch.setattr("importlib.import_module", lambda name: missing(name) if "export" in name else real(name))
    real = import_module
    result = invoke("compile", "script.py", "--arch", "sm_90", "--out", "out")
    assert result.exit_code == 2 and "`llvmlite` is not installed" in result.output
