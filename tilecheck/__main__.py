"""`python -m tilecheck` is the command line."""

from __future__ import annotations

from tilecheck.cli import main

if __name__ == "__main__":
    main()
