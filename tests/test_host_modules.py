"""Definitions of other files are found by name, through re-exports, and a file that mentions no kernel is not parsed."""

from __future__ import annotations

from tilecheck.frontend.host_modules import HostModules
from tilecheck.frontend.source import Source
from tilecheck.ir import host as ir

FILES = {
    "shop": ("shop/__init__.py", "from .kernels import scale as grow\n"),
    "shop.kernels": ("shop/kernels.py", "from numba import cuda\n\n@cuda.jit\ndef scale(x): ...\nN = 4\nN = 5\n"),
    "shop.sizes": ("shop/sizes.py", "TPB = 128  # threads\nTWICE = 1\nTWICE = 2\nNAME = 'a'\n(((\n"),
    "shop.api": ("shop/api.py", "from .kernels import (\n    scale,\n    N,\n)\nfast = scale\nWIDTH = 8\n"),
    "shop.all": ("shop/all.py", "try:\n    from shop.kernels import *\nexcept ImportError:\n    pass\n"),
    "shop.whole": ("shop/whole.py", "import shop.kernels as kernels\n"),
    "shop.plain": ("shop/plain.py", "import os\ndef scale(x): ...\nWIDTH = 4\nbroken = (\n"),
    "shop.broken": ("shop/broken.py", "import numba\n(((\n"),
}


def find(full: str) -> object:
    def resolve(module: str, importer: str) -> Source | None:
        return Source(*FILES[module]) if module in FILES else None

    return HostModules(resolve).outside("main.py")(full)


def test_a_definition_is_found_where_it_is_and_where_it_is_handed_on() -> None:
    for full in ("shop.kernels.scale", "shop.grow"):
        found = find(full)
        assert isinstance(found, ir.Function) and found.name == "scale"


def test_a_file_that_mentions_no_kernel_hands_on_what_it_imports() -> None:
    for full in ("shop.api.scale", "shop.all.scale", "shop.whole.kernels.scale"):
        found = find(full)
        assert isinstance(found, ir.Function) and found.name == "scale", full
    alias = find("shop.api.fast")
    assert isinstance(alias, ir.Name) and alias.full == "shop.kernels.scale"
    width = find("shop.api.WIDTH")
    assert isinstance(width, ir.Const) and width.value == 8
    # What it defines itself is no kernel, so that it is not even parsed.
    assert find("shop.plain.scale") is None
    plain = find("shop.plain.WIDTH")
    assert isinstance(plain, ir.Const) and plain.value == 4


def test_numbers_of_a_file_without_kernels_are_read_from_its_text() -> None:
    found = find("shop.sizes.TPB")
    assert isinstance(found, ir.Const) and found.value == 128
    assert isinstance(find("shop.sizes.TWICE"), ir.Opaque)
    assert isinstance(find("shop.sizes.NAME"), ir.Opaque)


def test_what_is_not_there_is_nothing() -> None:
    assert isinstance(find("shop.kernels.N"), ir.Opaque)
    assert find("shop.kernels.other") is None
    assert find("shop.broken.x") is None
    assert find("elsewhere.x") is None
