"""Handles that exist once: what is owned or runs once must not be duplicated behind the ledger's back.

`copy.copy` and `pickle` would make a second handle that nobody tracks. Copying a tensor's elements is `x.copy()`.
"""

from __future__ import annotations

from itertools import count
from typing import Any, NoReturn

from tilecheck_runtime.errors import UsageError

# A number for each handle that nothing else ever has.
serial = count(1).__next__


class Unique:
    """Refuses to be duplicated."""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise UsageError(
            f"a `{type(self).__name__}` exists once, it cannot be pickled or duplicated",
            "copy the elements of a tensor with `x.copy()`, send them as `x.numpy()`",
        )
