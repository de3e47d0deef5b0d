"""The kernel library: `from tilecheck.kernels import softmax`; `docs/kernels.md` lists the kernels.

The library lives with the runtime, which is loaded when a kernel is asked for.
"""

from importlib import import_module


def __getattr__(name):
    library = import_module("tilecheck_runtime.kernels")
    try:
        return getattr(library, name)
    except AttributeError:
        elsewhere = import_module("tilecheck.surface.elsewhere")
        raise elsewhere.missing("module `tilecheck.kernels`", name, None, library) from None


def __dir__():
    return import_module("tilecheck_runtime.kernels").__all__
