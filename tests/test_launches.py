"""What host code shows of launches; what it does not show must stay unknown."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.frontend.launches import Launch, overlap, read_launches
from tilecheck.frontend.source import Source
from tilecheck.ir.host_array import HostArray

HEAD = "import sys\nimport numpy as np\nfrom numba import cuda\n@cuda.jit\ndef k(a, b, n):\n    a[0] = b[0] + n\n"


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
