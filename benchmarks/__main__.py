"""`python -m benchmarks [NAME]... [ARGUMENT]...`: run all benchmarks, or the named ones.

A benchmark is a module of this package with a `main()`. One that needs a device says so and returns. What follows the
last name is for that benchmark, if its `main` takes arguments: `python -m benchmarks device rows --json rows.json`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from itertools import takewhile
from pathlib import Path


def names() -> list[str]:
    """The benchmarks, by module name."""
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def main() -> None:
    known = names()
    chosen = list(takewhile(known.__contains__, sys.argv[1:]))
    arguments = sys.argv[1 + len(chosen) :]
    if arguments and not chosen:
        sys.exit(f"no benchmark {arguments[0]}; there are {', '.join(known)}")
    for name in chosen or known:
        print(f"== {name}", flush=True)
        run = importlib.import_module(f"benchmarks.{name}").main
        if not arguments or name != chosen[-1]:
            run()
        elif inspect.signature(run).parameters:
            run(arguments)
        else:
            sys.exit(f"the benchmark {name} takes no arguments, this is {arguments[0]}")


if __name__ == "__main__":
    main()
