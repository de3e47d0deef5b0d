"""The text of a generated module, and the intrinsics it names.

`Writer` collects lines at an indent and hands out fresh names; asking twice for the same intrinsic gives one object, so
the text stays short and the same program always gives the same text.
"""

from __future__ import annotations

from collections.abc import Hashable

from tilecheck_runtime.backends.generated import Indented
from tilecheck_runtime.backends.numba_cuda.intrinsic import Build, tile_intrinsic


class Writer(Indented):
    """Lines, names and intrinsics of one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.namespace: dict[str, object] = {}
        self.shared_bytes = 0
        self._names: dict[str, int] = {}
        self._made: dict[Hashable, str | int] = {}

    def identity(self) -> str:
        """What fixes the code of all intrinsics, which their names in the text do not: two kernels with the same text
        and the same identity are the same code.
        """
        return repr(list(self._made.items()))

    def fresh(self, stem: str) -> str:
        """A name that starts with `stem` and was not used before."""
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return f"{stem}_{count}"

    def shares(self, size: int) -> None:
        """Note that an op takes `size` bytes of the shared buffer."""
        self.shared_bytes = max(self.shared_bytes, size)

    def take_shared(self) -> int:
        """What was noted so far; the count begins again at nothing."""
        noted, self.shared_bytes = self.shared_bytes, 0
        return noted

    def constant(self, name: str, value: int) -> None:
        """Give a name in the text a value that is known only now."""
        self.namespace[name] = value
        self._made[name] = value

    def intrinsic(self, stem: str, key: Hashable, arity: int, result: tuple[str, int] | None, build: Build) -> str:
        """The name of the intrinsic for `key`, made by `build` on first use."""
        whole = (stem, key, arity, result)
        if whole not in self._made:
            name = self.fresh(stem)
            self.namespace[name] = tile_intrinsic(name, arity, result, build)
            self._made[whole] = name
        return str(self._made[whole])
