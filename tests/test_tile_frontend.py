"""Reading tile kernels: libcst to IR, helpers inlined, constants folded, everything else refused by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tilecheck.checked import Fault
from tilecheck.frontend.source import Source, Unreadable
from tilecheck.frontend.tile import read_function, read_kernels
from tilecheck.ir.kernel import Kernel, Unsupported
from tilecheck.ir.printer import show_kernel

HEAD = """\
import tilecheck as tc
from tilecheck import Dim, Dyn, Mapped, Mut, Shared, Tensor, f32
class BM(Dim): ...
class BN(Dim): ...
class D8(Dim, size=8): ...
"""
FILES = {
    "other.py": "import math\ndef far(t):\n    u = t * 2\n    return math.exp(u)\ndef near(t):\n    return t + 1\n",
}


def resolve(module: str, importer: str) -> Source | None:
    path = module.lstrip(".") + ".py"
    return Source(path, FILES[path]) if path in FILES else None


def read(text: str) -> tuple[tuple[Kernel, ...], tuple[Fault, ...]]:
    return read_kernels(Source("main.py", HEAD + text), resolve)


def body(
    statements: str, before: str = "", params: str = "z: Tensor[Mut, f32, BM], x: Tensor[Shared, f32, Dyn]"
) -> str:
    inner = "\n".join("    " + line for line in statements.splitlines())
    return f"{before}\n@tc.kernel\ndef k({params}) -> None:\n{inner}\n"


def lines(text: str) -> list[str]:
    """The statements of the one kernel, which must be read without faults."""
    kernels, faults = read(text)
    assert not faults, faults
    return [line.split("| ", 1)[1] for line in show_kernel(kernels[0]).splitlines() if "| " in line]


def fault(text: str) -> Fault:
    _, faults = read(text)
    assert len(faults) == 1, faults
    return faults[0]


def test_signature_and_options_print() -> None:
    text = (
        '@tc.kernel(checks="launch", requires="x.size >= " "n")\n'
        "def k(z: Tensor[Mut, f32, BM, D8], x: 'Tensor[Shared]', y: Tensor[Shared, f32, Dyn], n: int) -> None:\n"
        "    pass\n"
    )
    (kernel,), faults = read(text)
    assert not faults
    assert show_kernel(kernel).splitlines() == [
        "kernel k [tile]",
        "  z: Mut f32 (BM, D8)",
        "  x: Shared any dtype (...)",
        "  y: Shared f32 (?)",
        "  n: int",
        "  extent BM",
        "  extent D8 = 8",
        "  option checks = 'launch'",
        "  option requires = 'x.size >= n'",
    ]
    assert kernel.lines == (6, 8)


def test_ops_methods_views_and_loops() -> None:
    statements = (
        "xs = x.partition(BM)\nacc = tc.zeros(BM, dtype=f32)\n"
        "for k in range(xs.num_tiles(0)):\n    acc += xs[k] * 2\nz.store(acc)"
    )
    assert lines(body(statements)) == [
        "xs = partition(x, BM)",
        "acc = zeros(BM, dtype=f32)",
        "for k in range(0, num_tiles(xs, 0), 1):",
        "  acc = acc + (load_tile(xs, k) * 2)",
        "store(z, acc)",
    ]


def test_minted_indices() -> None:
    params = "z: Tensor[Mapped, f32, BM, BN]"
    assert lines(body("for i, j in z.indices():\n    z.store(tc.full(BM, BN, i + j), z.at(i, j))", params=params)) == [
        "for at$1 in indices(z):",
        "  i = at$1[0]",
        "  j = at$1[1]",
        "  store(z, full(BM, BN, i + j), at(z, i, j))",
    ]
    assert lines(body("for at in z.indices(within=((1, 2), (0, -1))):\n    i = at[0]", params=params)) == [
        "for at in indices(z, within=((1, 2), (0, -1))):",
        "  i = at[0]",
    ]


def test_tuples_are_taken_apart() -> None:
    assert lines(body("i, j = tc.block_id(0), 1\ni, j = j, i\n(n,) = x.shape\nm = x.shape[0] + x.size")) == [
        "i = block_id(0)",
        "j = 1",
        "t$1 = j",
        "t$2 = i",
        "i = t$1",
        "j = t$2",
        "n = x.shape[0]",
        "m = x.shape[0] + x.size",
    ]


def test_constants_fold_and_decide_branches() -> None:
    before = "FAST = True\nN = 2 ** 10\nPAIR = (1, 2)"
    statements = "if FAST and N > 1:\n    n = N // 3\nelif x.size > 0:\n    n = 0\nm = PAIR[1] + BM"
    (kernel,), _ = read(body(statements, before))
    assert lines(body(statements, before)) == ["n = 341", "m = 2 + BM"]
    assert kernel.constants == {"FAST": True, "N": 1024, "PAIR": (1, 2)}


def test_helpers_are_inlined_with_fresh_names_and_compile_time_arguments() -> None:
    before = "def scale(t, by, flag=True):\n    if flag:\n        t = t * by\n    return t\n"
    assert lines(body("z.store(scale(z.load(), 3) + scale(z.load(), by=BM, flag=False))", before)) == [
        "inline scale -> scale.result:",
        "  scale.t = load(z)",
        "  scale.t = scale.t * 3",
        "  return scale.t",
        "inline scale -> scale_2.result:",
        "  scale_2.t = load(z)",
        "  return scale_2.t",
        "store(z, scale.result + scale_2.result)",
    ]


def test_operands_left_of_an_inlined_call_keep_their_turn() -> None:
    before = "def f(t):\n    return t\n"
    assert lines(body("u = z.load() - f(1) - 2", before))[0] == "t$1 = load(z)"
    assert lines(body("n = 1\nwhile n > 0 and f(n) > 1:\n    n = 0", before)) == [
        "n = 1",
        "while True:",
        "  t$1 = n > 0",
        "  if t$1:",
        "    inline f -> f.result:",
        "      f.t = n",
        "      return f.t",
        "    t$1 = f.result > 1",
        "  if not t$1:",
        "    break",
        "  n = 0",
    ]


def test_functions_as_values() -> None:
    before = "def add(a, b):\n    c = a + b\n    return c\n"
    assert lines(body("u = tc.reduce(z.load(), 0, add)\nv = tc.scan(z.load(), 0, lambda a, b: a * b)", before)) == [
        "u = reduce(load(z), 0, <add(add.a, add.b): add.c = add.a + add.b; return add.c>)",
        "v = scan(load(z), 0, <lambda(lambda.a, lambda.b): return lambda.a * lambda.b>)",
    ]
    assert "around this one" in fault(body("n = 2\nu = tc.reduce(z.load(), 0, lambda a, b: a + b * n)")).message


@pytest.mark.parametrize(
    ("statements", "words", "help", "rule"),
    [
        ("y = [t for t in x]", "list comprehension", "range", "unsupported"),
        ("with x: pass", "`with`", "contexts", "unsupported"),
        ("try:\n    pass\nfinally:\n    pass", "`try`", "device_assert", "unsupported"),
        ("print(z)", "`print`", "tc.print", "unsupported"),
        ("n = len(x)", "`len`", "x.shape[0]", "unsupported"),
        ("for t in x:\n    pass", "something else than a range", "indices", "unsupported"),
        ("for k in z.num_tiles(0):\n    pass", "something else than a range", "range(xs.num_tiles(0))", "unsupported"),
        ("n = x[0]", "`x` is subscripted", "x.partition(BM)[i]", "unsupported"),
        ("x[0] = 1.0", "`x` is `Shared` and is written", "Tensor[Mut", "write-to-shared"),
        ("x += 1.0", "in place by `+=`", "Tensor[Mut", "write-to-shared"),
        ("z[0] = 1.0", "element by element", "z.store(tile)", "unsupported"),
        ("z += 1.0", "on the tensor `z`", "z.store(z.load()", "unsupported"),
        ("return z.load()", "returns a value", "z.store", "usage"),
        ("n = nowhere + 1", "`nowhere` is not defined", None, "usage"),
        ("n = tc.exp", "without calling", "tc.exp(...)", "usage"),
        ("n = 1 if x is None else 2", "`is`", "==", "unsupported"),
        ("n = 2 ** 63", "does not fit the 64 bits", None, "unsupported"),
        ("def f(): pass", "nested function", "top of the module", "unsupported"),
        ("n = f'{x}'", "f-string", "tc.print", "unsupported"),
        ("if (n := 3) > 2: pass", "assignment inside an expression", "line of its own", "unsupported"),
    ],
)
def test_what_kernels_have_not_is_named_with_a_way_out(
    statements: str, words: str, help: str | None, rule: str
) -> None:
    found = fault(body(statements))
    assert words in found.message and found.rule == rule and found.kernel == "k"
    assert found.message[-1] != "." and found.message[0] in "`abcdefghijklmnopqrstuvwxyz"
    assert (help is None) == (found.help is None)
    assert help is None or help in (found.help or "")


@pytest.mark.parametrize(
    ("params", "words", "rule"),
    [
        ("z: Tensor[Mut, f32, Dyn]", "axis 0 of `z` has no tile extent", "unbound-dim"),
        ("z: Tensor[Mut, f32, 128]", "extent 128 of `z` is a bare int", "unsupported"),
        ("z: Tensor[Mut, f32, XX]", "`XX`, an extent of `z`", "unbound-dim"),
        ("z: Tensor[Mut, float, BM]", "`z` has no dtype", "dtype-mismatch"),
        ("z: Tensor[tc.Owned, f32, BM]", "`z` is `Owned`", "usage"),
        ("z: Tensor", "`z` is neither a tensor nor a scalar", "unsupported"),
        ("n: tc.i32", "`n` is neither a tensor nor a scalar", "unsupported"),
        ("n", "`n` has no type", "unsupported"),
        ("*rest", "takes `*rest`", "unsupported"),
        ("z: Tensor[Mut, f32, BM, BM, BM, BM]", "output with 4 axes", "unsupported"),
    ],
)
def test_parameters(params: str, words: str, rule: str) -> None:
    found = fault(body("pass", params=params))
    assert words in found.message and found.rule == rule


def test_decorator_options_are_checked() -> None:
    assert fault("@tc.kernel(check='launch')\ndef k() -> None: ...").message == "`kernel` has no option `check`"
    assert '`checks="never"` is not known' in fault("@tc.kernel(checks='never')\ndef k() -> None: ...").message


def test_one_mistake_is_reported_once_and_the_rest_is_still_read() -> None:
    kernels, faults = read(body("y = {}\nz.store(y)\nwith x: pass"))
    assert [f.span.line for f in faults] == [9, 11]
    assert "y = <not read: a dict in a kernel>" in show_kernel(kernels[0])


def test_faults_stand_in_a_helper_of_the_file_but_at_the_call_of_another_file() -> None:
    near = fault(body("z.store(avg2(z.load()))", "from statistics import mean as avg\ndef avg2(t):\n    return avg(t)"))
    assert (near.span.path, near.span.line) == ("main.py", 8)
    assert "`avg`" in near.message and "statistics" in near.message and "mean" in near.message
    far = fault(body("z.store(far(z.load()))", "from other import far"))
    assert (far.span.path, far.span.line, far.span.column) == ("main.py", 9, 13)
    (label,) = far.labels
    assert (label.span.path, label.span.line, label.text) == ("other.py", 4, "in `far`")


@pytest.mark.parametrize(
    ("before", "call", "words"),
    [
        ("def f(n):\n    return f(n)", "f(1)", "`f` calls itself"),
        ("def f(n):\n    return n", "f()", "`f` needs `n`"),
        ("def f(n):\n    return n", "f(1, 2)", "takes 1 arguments"),
        ("def f(n):\n    return n", "f(1, n=2)", "gets `n` twice"),
        ("def f(n):\n    return n", "f(m=1)", "no parameter `m`"),
        ("def f(*n):\n    return n", "f(1)", "takes `*args`"),
        ("@tc.kernel\ndef f(n: int) -> None: ...", "f(1)", "the kernel `f` is called in a kernel"),
        ("import functools\n@functools.cache\ndef f(n):\n    return n", "f(1)", "`f` has a decorator"),
        ("class f: ...", "f(1)", "`f` is a class"),
        ("import math", "math.exp(1.0)", "`math.exp` cannot be used"),
    ],
)
def test_calls_that_are_refused(before: str, call: str, words: str) -> None:
    assert words in fault(body(f"n = {call}", before)).message


def test_module_state_is_refused() -> None:
    _, faults = read(body("global COUNT\nCOUNT += 1", "COUNT = 0"))
    assert [f.message for f in faults] == ["`global` in a kernel"]


def test_an_enclosing_function_leaves_its_parameters_open() -> None:
    text = "def make(n):\n    M = 4\n    @tc.kernel\n    def k(z: Tensor[Mut, f32, BM]) -> None:\n        i = n + M\n"
    (kernel,), faults = read(text)
    assert not faults
    assert "<not read: `n` is a parameter of the enclosing function `make`> + 4" in show_kernel(kernel)


@pytest.fixture
def usual_recursion() -> Iterator[None]:
    """Python's own limit: other tests' libraries raise it for the whole process."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.usefixtures("usual_recursion")
def test_deep_nesting_and_long_kernels_are_findings() -> None:
    for terms in (500, 4000):
        with pytest.raises(Unreadable, match="nested too deeply"):
            read(body("n = " + " + ".join(["x.size"] * terms)))
    kernels, faults = read(body("\n".join(f"n{i} = {i} + x.size" for i in range(5000))))
    assert len(kernels[0].body) == 5000 and not faults
    doubling = "def f0(n):\n    return n + 1\n" + "".join(
        f"def f{i}(n):\n    return f{i - 1}(n) + f{i - 1}(n)\n" for i in range(1, 25)
    )
    _, faults = read(body("n = f24(x.size)", doubling))
    assert any("grows beyond" in f.message for f in faults)


def test_a_live_function_is_read_with_its_globals_and_closure() -> None:
    from tests import live_kernels

    kernel = read_function(live_kernels.scale.fn)
    assert [d.name for d in kernel.dims.values()] == ["BM"]
    assert kernel.constants == {"FACTOR": 3}
    assert "load_like(x, z) * 3" in show_kernel(kernel)
    assert kernel.span.line == live_kernels.scale.fn.__code__.co_firstlineno + 1
    made = read_function(live_kernels.make(7).fn)
    assert made.constants == {"n": 7}
    local = read_function(live_kernels.local_dim().fn)
    assert [d.name for d in local.dims.values()] == ["BX"]


def test_a_function_without_source_says_so() -> None:
    scope: dict[str, object] = {}
    exec("def k(z): pass", scope)
    fn = scope["k"]
    with pytest.raises(Unsupported, match="source of `k` is not available"):
        read_function(fn)  # type: ignore[arg-type]
