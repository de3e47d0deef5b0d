"""What `frontend.numba` makes of kernels: every spelling is found, helpers are inlined, nothing is dropped."""

from __future__ import annotations

import textwrap

import pytest

from tilecheck.frontend.numba import read_kernels
from tilecheck.frontend.source import Source
from tilecheck.ir import simt
from tilecheck.ir.kernel import (
    Assert,
    Assign,
    Const,
    Do,
    Extent,
    For,
    If,
    Inline,
    Kernel,
    Name,
    Opaque,
    TensorParam,
    walk,
)
from tilecheck.ir.printer import show

HEAD = "import math\nimport numpy as np\nfrom numba import cuda, float32, int32\nimport numba\n"


def kernels(text: str, **modules: str) -> tuple[Kernel, ...]:
    def resolve(name: str) -> Source | None:
        return Source(f"{name}.py", textwrap.dedent(modules[name])) if name in modules else None

    return read_kernels(Source("k.py", HEAD + textwrap.dedent(text)), resolve)


def kernel(text: str, **modules: str) -> Kernel:
    (only,) = kernels(text, **modules)
    return only


def nodes(of: Kernel, kind: type) -> list:
    return [node for node in walk(*of.body) if isinstance(node, kind)]


@pytest.mark.parametrize(
    "decorator",
    [
        "@cuda.jit",
        "@cuda.jit()",
        "@cuda.jit('void(float32[:])')",
        "@cuda.jit('void(float32[:])', fastmath=True)",
        "@numba.cuda.jit(debug=False)",
        "@jit",
        "@fast",
        "@cuda.jit((float32[:],))",
    ],
)
def test_every_spelling_of_the_decorator(decorator: str) -> None:
    found = kernel(f"from numba.cuda import jit\nfast = cuda.jit\n{decorator}\ndef k(x):\n    x[cuda.grid(1)] = 0\n")
    assert found.name == "k" and found.track == "numba" and len(nodes(found, simt.Store)) == 1


@pytest.mark.parametrize("call", ["cuda.jit(k)", "cuda.jit('void(float32[:])')(k)", "cuda.jit(device=False)(k)"])
def test_call_spellings_even_inside_functions(call: str) -> None:
    found = kernel(f"def k(x):\n    x[0] = 0\ndef main():\n    compiled = {call}\n")
    assert found.name == "k"


def test_device_functions_are_no_kernels_and_are_inlined_with_fresh_names() -> None:
    found = kernel(
        """
        @cuda.jit(device=True)
        def scale(x, by):
            return x * by
        @cuda.jit
        def k(a, x):
            x = 2
            a[0] = scale(x, 3) + scale(by=4, x=x)
        """
    )
    inlined = nodes(found, Inline)
    assert [i.result for i in inlined] == ["scale.()", "scale#2.()"]
    targets = {node.target for node in nodes(found, Assign)}
    assert {"scale.x", "scale#2.x", "x"} <= targets


def test_a_jitted_function_that_kernels_call_and_nobody_launches_is_a_helper() -> None:
    text = """
        @cuda.jit
        def put(a, v):
            a[cuda.threadIdx.x] = v
        @cuda.jit
        def k(a):
            put(a, 1)
        """
    assert [found.name for found in kernels(text)] == ["k"]
    assert [found.name for found in kernels(text + "\n        put[1, 8](np.zeros(8), 1)\n")] == ["put", "k"]


def test_helpers_jitted_by_a_call_are_inlined() -> None:
    (found,) = kernels(
        """
        def twice(x):
            return 2 * x
        double = cuda.jit("f4(f4)", device=True)(twice)
        again = cuda.jit(device=True)(twice)
        @cuda.jit
        def k(a):
            a[0] = double(a[1]) + again(3)
        """
    )
    assert len(nodes(found, Inline)) == 2 and not nodes(found, simt.Unread)


def test_helpers_of_other_modules_are_foreign() -> None:
    found = kernel(
        "from helpers import put\n@cuda.jit\ndef k(a):\n    put(a, 1)\n",
        helpers="from numba import cuda\nW = 7\n@cuda.jit(device=True)\ndef put(to, v):\n    to[W] = v\n",
    )
    (inlined,) = nodes(found, Inline)
    (store,) = nodes(found, simt.Store)
    assert inlined.foreign and store.span.path == "helpers.py" and store.index[0].value == 7


def test_signature_gives_dtype_and_rank() -> None:
    found = kernel("@cuda.jit('void(float32[:, ::1], int64)')\ndef k(a, n):\n    a[0, n] = 1\n")
    array, scalar = found.params
    assert isinstance(array, TensorParam) and array.dtype == "f32" and array.extents == (None, None)
    assert scalar.kind == "int"


def test_parameters_used_as_arrays_through_a_helper_are_arrays() -> None:
    found = kernel(
        """
        @cuda.jit(device=True)
        def put(to, v):
            to[0] = v
        @cuda.jit
        def k(a, n):
            b = a
            put(b, n)
        """
    )
    assert [isinstance(p, TensorParam) for p in found.params] == [True, False]


def test_shared_memory_of_a_helper_is_one_for_all_its_calls() -> None:
    found = kernel(
        """
        N = 4 * 8
        @cuda.jit(device=True)
        def f(a):
            s = cuda.shared.array(N, float32)
            s[0] = a[0]
        @cuda.jit
        def k(a):
            f(a)
            f(a)
        """
    )
    allocs = nodes(found, simt.AllocArray)
    assert [a.name for a in allocs] == ["f.s", "f.s"]
    assert [e.value for e in allocs[0].shape] == [32] and allocs[0].dtype == "float32"


def test_atomics_and_votes_are_whole_statements() -> None:
    found = kernel(
        """
        @cuda.jit
        def k(a, n):
            i = cuda.grid(1)
            if i < n and cuda.atomic.add(a, (i,), 1) == 3:
                a[i] = cuda.shfl_sync(0xffffffff, i, 0) + cuda.syncthreads_count(1) + 1
                a[0] = cuda.any_sync(0xffffffff, 1)
        """
    )
    values = [node.value for node in nodes(found, Assign)]
    assert any(isinstance(v, simt.Atomic) for v in values) and any(isinstance(v, simt.Warp) for v in values)
    homes = [node.value for node in walk(*found.body) if isinstance(node, Assign | Do)]
    for node in walk(*found.body):
        if isinstance(node, simt.Atomic | simt.Warp | simt.BarrierValue):
            assert any(node is home for home in homes)
    guarded = [node for node in nodes(found, If) if any(isinstance(n, simt.Atomic) for n in walk(*node.then))]
    assert guarded, "the atomic must only happen where the left side of `and` holds"


def test_augmented_store_holds_its_load() -> None:
    found = kernel("@cuda.jit\ndef k(a, i):\n    a[i] += 1\n")
    (store,) = nodes(found, simt.Store)
    assert store.update and isinstance(store.value.left, simt.Load) and store.value.left.index == store.index


def test_loops_over_tuples_and_enumerate() -> None:
    found = kernel(
        """
        @cuda.jit
        def k(a):
            for i, d in enumerate((4, 2, 1)):
                a[i] = d
        """
    )
    (loop,) = nodes(found, For)
    assert loop.stop.value == 3 and not nodes(found, simt.Unread)


def test_shape_unpacking_and_len() -> None:
    found = kernel(
        "@cuda.jit\ndef k(a):\n    m, n = a.shape\n    s = a.shape\n    a[0, 0] = m + n + s[1] + len(a) + a.size\n"
    )
    axes = [e.axis for e in nodes(found, Extent)]
    assert axes == [0, 1, 1, 0, None]


def test_what_cannot_be_read_says_so() -> None:
    found = kernel("@cuda.jit\ndef k(a, f):\n    mystery(a, f)\n    a[0] = lambda: 3\n")
    (unread,) = nodes(found, simt.Unread)
    assert unread.touches == ("a", "f") and "mystery" in unread.reason and nodes(found, Opaque)


def test_closure_constants_and_unknown_free_names() -> None:
    found = kernel(
        """
        def make(n):
            W = 16
            @cuda.jit
            def k(a):
                s = cuda.shared.array(W, int32)
                a[0] = n
            return k
        """
    )
    (alloc,) = nodes(found, simt.AllocArray)
    (store,) = nodes(found, simt.Store)
    assert alloc.shape[0].value == 16 and isinstance(store.value, Name) and store.value.id == "n"


def test_raise_ends_the_thread() -> None:
    found = kernel("@cuda.jit\ndef k(a):\n    if a[0] < 0:\n        raise ValueError\n")
    (end,) = nodes(found, Assert)
    assert isinstance(end.cond, Const) and end.cond.value is False


def test_annotated_kernels_keep_their_contract() -> None:
    found = kernel(
        """
        import tilecheck as tc
        from tilecheck import Dim, Dyn, Mut, Shared, Tensor, f32
        class D8(Dim, size=8): ...
        @tc.simt(block=(8, 4), requires="a.size >= c.size")
        def k(c: Tensor[Mut, f32, D8], a: Tensor[Shared, f32, Dyn], n: int) -> None:
            c[cuda.threadIdx.x] = a[n]
        """
    )
    c, a, n = found.params
    assert (
        found.track == "simt" and found.options["block"] == (8, 4) and found.options["requires"] == "a.size >= c.size"
    )
    assert c.access == "Mut" and found.dims[c.extents[0]].size == 8 and a.extents == (None,) and n.kind == "int"


def test_an_unread_call_gets_the_value_of_an_element_not_its_array() -> None:
    found = kernel("@cuda.jit\ndef k(a, b, f):\n    i = cuda.grid(1)\n    a[i] = mystery(b[i] + 1, a[1:], f)\n")
    (unread,) = nodes(found, simt.Unread)
    assert unread.touches == ("a", "f") and [show(element) for element in unread.elements] == ["b[i]"]


def test_an_argument_of_a_scalar_function_is_no_array() -> None:
    found = kernel("@cuda.jit\ndef k(a, x):\n    a[0] = math.sin(x)\n")
    assert [type(param).__name__ for param in found.params] == ["TensorParam", "ScalarParam"]


def test_the_parts_of_a_complex_array_are_arrays() -> None:
    found = kernel("@cuda.jit\ndef k(z, w):\n    cuda.atomic.add(z.real, 0, w.imag)\n")
    assert [type(param).__name__ for param in found.params] == ["TensorParam", "ScalarParam"]


@pytest.mark.parametrize(
    "rebinding",
    [
        "def choose(n):\n    globals()['WIDTH'] = n\n",
        "globals().update(WIDTH=2)\n",
        "names = globals()\nnames['WIDTH'] = 2\n",
        "exec('WIDTH = 2')\n",
        "import sys\nsetattr(sys.modules[__name__], 'WIDTH', 2)\n",
        "vars()['WIDTH'] = 2\n",
    ],
)
def test_a_global_that_may_be_bound_unseen_is_no_constant(rebinding: str) -> None:
    body = "@cuda.jit\ndef k(x):\n    x[cuda.grid(1) // WIDTH] = 1\n"
    (store,) = nodes(kernel(f"WIDTH = 1\n{rebinding}{body}"), simt.Store)
    assert not any(isinstance(node, Const) and node.value == 1 for node in walk(*store.index))
    (store,) = nodes(
        kernel(f"import timeit\nWIDTH = 1\n{body}print(timeit.timeit('f()', globals=globals()))\n"), simt.Store
    )
    assert any(isinstance(node, Const) and node.value == 1 for node in walk(*store.index))
