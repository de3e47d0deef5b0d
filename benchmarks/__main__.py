"""`python -m benchmarks [NAME...]`: run all benchmarks, or the named ones.

A benchmark is a module of this package with a `main()`. One that needs a device says so and returns.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def names() -> list[str]:
    """The benchmarks, by module name."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def main() -> None:
    chosen = sys.argv[1:] or names()
    unknown = [name for name in chosen if name not in names()]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(names())}")
    for name in chosen:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
