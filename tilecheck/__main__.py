"""`tilecheck` and `python -m tilecheck` are the command line; interrupted while that is loaded, they end as it would."""

from __future__ import annotations

import sys


def main() -> None:
    """The console script."""
    try:
        from tilecheck.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("tilecheck: interrupted\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
