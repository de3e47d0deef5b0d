"""What host code shows of launches; what it does not show must stay unknown."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.frontend.launches import Launch, read_launches
from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import HostArray, overlap
from tilecheck.verify.simt import check_kernel
from tilecheck.verify.verdict import Property, Verdict

HEAD = "import sys\nimport numpy as np\nfrom numba import cuda\n@cuda.jit\ndef k(a, b, n):\n    a[0] = b[0] + n\n"


@pytest.mark.parametrize("value", ["np.nan", "np.inf", "-np.inf"])
@pytest.mark.parametrize("dtype", ["np.float32", "np.int32"])
def test_numbers_that_are_no_integers_are_no_crash(value: str, dtype: str) -> None:
    source = Source("host.py", HEAD + f"k[1, 1](cuda.to_device(np.full(4, {value}, {dtype})), np.zeros(4), 1)\n")
    (kernel,) = read_kernels(source, lambda name: None)
    assert check_kernel(kernel, read_launches(source, lambda name: None)).verdicts


def launches(text: str) -> tuple[Launch, ...]:
    return read_launches(Source("h.py", HEAD + textwrap.dedent(text)), lambda name: None)


def test_launches_of_imported_kernels_name_the_file_of_the_kernel() -> None:
    kernels = Source("lib.py", HEAD)
    host = "import lib\nimport numpy as np\nfrom lib import k as run\nlib.k[2, 32](np.zeros(3), np.zeros(4), 1)\nrun[1, 8](np.zeros(5), np.zeros(5), 2)\n"
    found = read_launches(Source("h.py", host), lambda name: kernels if name == "lib" else None)
    assert [launch.kernel.path for launch in found] == ["lib.py", "lib.py"]
    assert [launch.grid[0] for launch in found] == [2, 1] and shapes(found[1])["a"] == (5,)


def only(text: str) -> Launch:
    (launch,) = launches(text)
    return launch


def shapes(launch: Launch) -> dict[str, object]:
    return {name: v.shape if isinstance(v, HostArray) else v for name, v in launch.arguments.items()}


@pytest.mark.parametrize(
    ("text", "dtype", "values"),
    [
        ("np.arange(6) % 4", "int64", (0, 1, 2, 3, 0, 1)),
        ("10 - np.arange(3)", "int64", (10, 9, 8)),
        ("np.ones(2, np.float32) * 3", "float32", (3, 3)),
        ("np.arange(3) / 2", "float64", (0, 0.5, 1)),
        ("(np.arange(4) // 2).astype(np.int32)", "int32", (0, 0, 1, 1)),
    ],
)
def test_arithmetic_on_known_contents(text: str, dtype: str, values: tuple[float, ...]) -> None:
    found = only(f"k[1, 32]({text}, np.zeros(3), 1)").arguments["a"]
    assert isinstance(found, HostArray) and found.contents is not None
    assert (found.dtype, found.contents.values) == (dtype, values)


@pytest.mark.parametrize(
    "text", ["np.arange(6) // 0", "np.arange(9999) % 7", "np.arange(6, dtype=np.uint8) * 100", "np.ones(4) ** 99"]
)
def test_contents_that_are_not_computed(text: str) -> None:
    found = only(f"k[1, 32]({text}, np.zeros(3), 1)").arguments["a"]
    assert isinstance(found, HostArray) and found.contents is None


def test_grid_block_shapes_and_scalars() -> None:
    found = only(
        """
        N = 100
        def main():
            x = np.zeros((N, 3), np.float32)
            d = cuda.to_device(x)
            blocks = (x.size + 31) // 32
            k[blocks, (8, 4), 0, 64](d, cuda.device_array_like(d), x.shape[1])
        """
    )
    assert (found.grid, found.block, found.dynamic_shared, found.host) == ((10, 1, 1), (8, 4, 1), 64, "main")
    assert shapes(found) == {"a": (100, 3), "b": (100, 3), "n": 3}
    assert found.arrays()["a"].dtype == "float32"


def test_sizes_in_a_loop_are_separate_launches() -> None:
    found = launches("for n in (64, 100):\n    k[1, 32](np.ones(n), np.ones(n), n)\n")
    assert [launch.arguments["n"] for launch in found] == [64, 100]


@pytest.mark.parametrize(
    "text",
    [
        "n = int(sys.argv[1])\nk[n, 32](np.zeros(n), np.zeros(n), n)\n",
        "def main(n):\n    k[n, 32](np.zeros(n), np.zeros(n), n)\n",
        "n = 1\nwhile n < f():\n    n += 1\nk[n, 32](np.zeros(n), np.zeros(n), n)\n",
        "n = 1\nif f():\n    n = 2\nk[n, 32](np.zeros(n), np.zeros(n), n)\n",
        "for n in range(f()):\n    k[n, 32](np.zeros(n), np.zeros(n), n)\n",
        "n = 1\ntry:\n    n = 2\nexcept OSError:\n    n = 3\nk[n, 32](np.zeros(n), np.zeros(n), n)\n",
    ],
)
def test_what_depends_on_the_run_is_unknown(text: str) -> None:
    found = only(text)
    assert found.grid == (None, None, None) and shapes(found) == {"a": None, "b": None, "n": None}


def test_helper_functions_and_methods_are_followed() -> None:
    found = only(
        """
        class T:
            def setUp(self):
                self.n = 40
            def test(self):
                self.go(np.zeros(self.n))
            def go(self, x):
                grid = self.n // 8, 2
                k[grid, 8](x, x, self.n)
        """
    )
    assert found.grid == (5, 2, 1) and shapes(found) == {"a": (40,), "b": (40,), "n": 40}


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("cfg = {'n': 7, 'm': f()}\nk[1, 8](np.zeros(cfg['n']), np.zeros(3), cfg['m'])", [7]),
        ("cfg = {'n': 7}\ncfg['n'] = 8\nk[1, 8](np.zeros(cfg['n']), np.zeros(3), 0)", [None]),
        ("for n in {'a': 3, 'b': 4}.values():\n    k[1, 8](np.zeros(n), np.zeros(3), 0)", [3, 4]),
        ("@dataclass\nclass C:\n    n: int\n    m: int = 2\nc = C(5)\nk[1, 8](np.zeros(c.n), np.zeros(3), c.m)", [5]),
        (
            "import pytest\n@pytest.mark.parametrize('n', [3, 4])\ndef test(n):\n    k[1, 8](np.zeros(n), np.zeros(3), 0)",
            [3, 4],
        ),
        (
            "import pytest\n@pytest.mark.parametrize(('n', 'm'), [(3, 1)])\ndef test(m, n):\n    k[1, 8](np.zeros(n), np.zeros(3), m)",
            [3],
        ),
        ("xs = [1, 2]\nxs.append(f())\nfor n in xs:\n    k[1, 8](np.zeros(n), np.zeros(3), 0)", [None]),
        (
            "n = 2\nfor j in range(9):\n    if f(j):\n        break\n    n = 3\nk[1, 8](np.zeros(n), np.zeros(3), 0)",
            [None],
        ),
    ],
)
def test_sizes_through_containers_and_parameters(text: str, sizes: list[int | None]) -> None:
    found = [launch.arguments["a"] for launch in launches(text)]
    assert [a.shape[0] if isinstance(a, HostArray) and a.shape else None for a in found] == sizes


@pytest.mark.parametrize(
    ("pair", "same"),
    [
        ("d, d", True),
        ("d[1:], d[:-1]", True),
        ("d[:30], d[30:]", False),
        ("d[0::2], d[1::2]", False),
        ("x, x", False),
        ("d, cuda.to_device(x)", False),
        ("d[:m], d[m:]", None),
        ("e.reshape(6, 10)[:, 2], e[2:3]", True),
    ],
)
def test_overlap_of_arguments(pair: str, same: bool | None) -> None:
    found = only(f"x = np.arange(60.0)\nd = cuda.to_device(x)\ne = cuda.to_device(x)\nm = f()\nk[1, 32]({pair}, 0)\n")
    assert overlap(found.arrays()["a"], found.arrays()["b"]) is same


def test_contents_are_known_until_something_may_write_them() -> None:
    first, second, third = launches(
        """
        d = cuda.to_device(np.arange(8))
        e = cuda.to_device(np.zeros(8))
        k[1, 8](d, e, 0)
        k[1, 8](d, e, 1)
        f = np.ones(4)
        f[2] = 5
        k[1, 8](f, np.array([1, 2]), 2)
        """
    )
    contents = first.arrays()["a"].contents
    assert contents is not None and (contents.start, contents.step) == (0, 1)
    assert second.arrays()["a"].contents is None
    assert third.arrays()["a"].contents is None
    values = third.arrays()["b"].contents
    assert values is not None and values.values == (1, 2)


def test_our_kernels_take_block_from_the_contract_and_grid_from_the_partition() -> None:
    ours = """
        import tilecheck as tc
        from tilecheck import Mut, Shared, Tensor
        @tc.simt(block=(8, 4))
        def ours(z: Tensor[Mut], x: Tensor[Shared], n: int) -> None:
            z[0] = x[n]
        x, z = tc.ones(100), tc.zeros(64, 60)
        ours(z.partition(16, 16), x, n=3).sync()
        tc.adopt(k, block=64, shared=128)(tc.zeros(100).partition(64), x, 0).sync()
        ours(z.partition(16, 16).prefix(), x, 0).with_grid(2, 3).sync()
        """
    first, adopted, override = launches(ours)
    assert (first.grid, first.block, first.dynamic_shared) == ((4, 4, 1), (8, 4, 1), 0)
    assert shapes(first) == {"z": (64, 60), "x": (100,), "n": 3}
    assert (adopted.grid, adopted.block, adopted.dynamic_shared) == ((2, 1, 1), (64, 1, 1), 128)
    assert override.grid == (2, 3, 1)


def test_forall_pads_the_grid() -> None:
    found = only("k.forall(100)(np.zeros(100), np.zeros(100), 0)\n")
    assert found.forall == 100 and found.grid == (None, 1, 1) and found.block == (None, 1, 1)


def test_jit_by_call_and_configured_kernels() -> None:
    found = only(
        "def f(a):\n    a[0] = 1\ndef main():\n    g = cuda.jit('void(f4[:])')(f)\n    h = g[4, 32]\n    h(np.zeros(7))\n"
    )
    assert found.grid == (4, 1, 1) and shapes(found) == {"a": (7,)}


def test_tuples_are_elements_of_a_structured_array_and_ndmin_adds_axes() -> None:
    points = 'np.array([(1.0, 2), (3.0, 4)], dtype=[("x", float), ("n", int)])'
    (launch,) = launches(f"k[1, 2]({points}, np.array(7, ndmin=2))")
    assert [array.shape for array in launch.arrays().values()] == [(2,), (1, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "a.resize(64)",
        "a.shape = (64, 2)",
        "b = a; b.resize(64)",
        "a.resize_(64)",
        "a.data = a[:64]",
        "a.set_(other)",
        "print(a := a[:64])",
        "match [a[:64]]:\n        case [a]:\n            pass",
        "(lambda: a.resize(64))()",
        "f = a.resize; f(64)",
        "from elsewhere import a",
        "l = [a]; l[0].resize(64)",
        "unknown(a)",
        "setattr(a, 'shape', 64)",
        "for i in unknown:\n        k[1, 32](a, a, 1)\n        a.resize(64)",
    ],
)
def test_a_shape_survives_only_what_is_known_to_keep_it(text: str) -> None:
    found = launches(f"def main():\n    a = np.zeros(128)\n    {text}\n    k[1, 32](a, np.zeros(3), 1)\n")
    assert shapes(found[-1])["a"] is None


@pytest.mark.parametrize(
    "text",
    ["print(a)", "len(a)", "a.copy()", "print(f'{a.sum()} {a.shape}')", "a.fill(3)", "np.add(a, 1, out=a)", "a[0] = 1"],
)
def test_a_shape_survives_reads_and_writes_of_elements(text: str) -> None:
    assert shapes(only(f"def main():\n    a = np.zeros(128)\n    {text}\n    k[1, 32](a, a, 1)\n"))["a"] == (128,)


@pytest.mark.parametrize(
    "text",
    [
        "np.add(a, 1, out=a)",
        "np.add(a, 1, a)",
        "np.add.at(a, [0], 2)",
        "a.flat[0] = 3",
        "f = lambda: a.put(0, 3); f()",
        "memoryview(a)[0] = 3",
        "x, *y = [a]; x[0] = 3",
        "s = {'k': a}; s['k'][0] = 3",
        "(q := a)[0] = 3",
        "for a[0] in range(2, 4): pass",
        "assert len(np.unique(a)) == 4",
    ],
)
def test_contents_survive_only_what_is_known_to_keep_them(text: str) -> None:
    host = f"def main():\n    a = np.array([1, 1, 0, 2])\n    {text}\n    k[1, 32](a, np.zeros(3), 1)\n"
    found = only(host).arguments["a"]
    assert not isinstance(found, HostArray) or found.contents is None


@pytest.mark.parametrize(
    "text",
    [
        "n = 64; print(a and (n := 100))",
        "n = 64; print(1 if a else (n := 100))",
        "n = 64; print(any((n := v) > 3 for v in (4, 100)))",
        "n = 64; l = [0] * 200; l[(n := 100)] = 1",
        "n = 64; print(lambda: (n := 100))",
        "n = 64\n    while (n := n // 2) > a:\n        pass",
        "n = 64\n    match [100]:\n        case [n]:\n            pass",
        "d = [[64]]; e = d[0]; e[0] = 100; n = d[0][0]",
        "d = {'n': 64}; f = d.update; f(n=100); n = d['n']",
        "d = [64]; (e := d)[0] = 100; n = d[0]",
        "d = [64]; x, *y = [d]; x[0] = 100; n = d[0]",
        "c = C(); c.n = 64; vars(c).update(n=100); n = c.n",
        "C.n = 100; n = C().n",
        "n = 64\n    from elsewhere import n",
        "n = 64\n    try:\n        n = 32\n        int(sys.argv[1])\n        n = 64\n    except ValueError:\n        pass",
        "n = 64\n    try:\n        for n in (32, 64):\n            int(sys.argv[1])\n    except ValueError:\n        pass",
        "globals()['M'] = 100; n = M",
        "exec('M = 100'); n = M",
        "n = np.arange(64, step=2).size",
        "n = np.int8(100) + np.int8(100)",
    ],
)
def test_numbers_survive_only_what_is_known_to_keep_them(text: str) -> None:
    host = f"M = 64\nclass C:\n    n = 64\ndef main():\n    {text}\n    k[1, 32](np.zeros(3), np.zeros(3), n)\n"
    assert only(host).arguments["n"] is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n = 64; print(n := 100)", 100),
        ("if (n := 100) > 3:\n        pass", 100),
        ("if (n := 100) > 3 or (n := 50):\n        pass", 100),
        ("m = [n := v for v in (3, 5)]", 5),
        ("n = 16 * np.dtype(np.float32).itemsize", 64),
        ("n = 16 * np.float64().itemsize", 128),
        ("n = 16 * np.zeros(3, np.int16).dtype.itemsize", 32),
        ("n = 16 * int32.bitwidth // 8", 64),
    ],
)
def test_numbers_bound_on_the_way_and_widths_of_dtypes_are_known(text: str, wanted: int) -> None:
    host = f"from numba import int32\ndef main():\n    {text}\n    k[1, 32](np.zeros(3), np.zeros(3), n)\n"
    assert only(host).arguments["n"] == wanted


def test_a_comprehension_binds_its_own_name() -> None:
    found = only("n = 64\nl = [np.zeros(n) for n in (3, 5)]\nk[1, 32](l[0], l[1], n)")
    assert shapes(found) == {"a": (3,), "b": (5,), "n": 64}


TORCH = "import torch\ndef main():\n    x = torch.zeros(2, 64, device='cuda')\n    p = x[0]\n    "


@pytest.mark.parametrize(
    "text",
    [
        "x.view(-1)[:64]",
        "x.chunk(2)[0]",
        "x.split(1)[0]",
        "x.select(0, 0)",
        "x.narrow(0, 0, 1)",
        "x.data",
        "next(iter(x))",
        "torch.add(p, 1, out=p)",
        "torch.split(x, 1)[0]",
        "unknown(x)",
        "x.float()[0]",
        "(lambda z: z)(x)",
        "p or None",
    ],
)
def test_views_of_one_base_by_unknown_ways_may_meet(text: str) -> None:
    found = only(f"{TORCH}q = {text}\n    k[1, 32](p, q, 1)\n")
    known = found.arrays()
    assert ("a", "b") in found.entangled or overlap(known["a"], known["b"]) is not False
    assert ("a", "b") not in only(f"{TORCH}k[1, 32](p, x[1], 1)\n").entangled


@pytest.mark.parametrize(
    "text",
    [
        "torch.zeros(1).expand(64)",
        "x.as_strided((64, 2), (1, 1))",
        "cuda.device_array((64,), np.float32, strides=(0,))",
        "cuda.to_device(np.broadcast_to(np.zeros(1), (64,)))",
    ],
)
def test_an_argument_may_overlap_itself(text: str) -> None:
    assert ("a", "a") in only(f"{TORCH}q = {text}\n    k[1, 32](q, np.zeros(3), 1)\n").entangled


def test_contiguous_is_the_array_or_a_copy() -> None:
    whole = only(f"{TORCH}k[1, 32](x, x.contiguous(), 1)\n").arrays()
    assert overlap(whole["a"], whole["b"]) is True
    part = only(f"{TORCH}q = torch.zeros(128)\n    k[1, 32](q, q[::2].contiguous(), 1)\n").arrays()
    assert overlap(part["a"], part["b"]) is None and part["b"].shape == (64,)


def test_a_race_is_not_excluded_where_arguments_may_meet() -> None:
    kernel = "from numba import cuda\nimport torch\n@cuda.jit\ndef k(a, b):\n    i = cuda.grid(1)\n    if i < a.size and i < b.size:\n        a[i] = b[i]\n"
    for text, verdict, reason in (
        ("p, q = x.chunk(2)\n    k[1, 64](p, x.view(-1))", Verdict.UNKNOWN, "`a` and `b` may share memory"),
        ("k[1, 64](x.expand(64), torch.zeros(64))", Verdict.UNKNOWN, "two elements of `a` may share memory"),
        ("k[1, 64](x, torch.zeros(64))", Verdict.PROVEN, ""),
    ):
        source = Source("h.py", f"{kernel}def main():\n    x = torch.zeros(64)\n    {text}\n")
        (read,) = read_kernels(source, lambda name: None)
        answer = check_kernel(read, read_launches(source, lambda name: None)).verdicts[Property.RACE_FREE]
        assert answer.verdict is verdict and reason in (answer.reason or "")
