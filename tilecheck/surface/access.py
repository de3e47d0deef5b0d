"""What a piece of code may do with a tensor, as classes: the first argument of `Tensor[...]`.

The class tree is the lattice that type checkers use (`Tensor` is covariant in its access): whoever may do more can be
passed where less is wanted.

    Owned <: Mut <: Shared        Mapped <: Shared        Owned <: Atomic <: Shared

On the host a parameter `Tensor[Owned]` takes the tensor over, `Tensor[Mut]` borrows it exclusively for the call and
`Tensor[Shared]` shares it. In a kernel `Mut` is one tile of a partition per block.
"""

from __future__ import annotations


class Shared:
    """May be read, by anybody at the same time (`&T`)."""


class Mut(Shared):
    """May be read and written, by nobody else meanwhile (`&mut T`); in a kernel, the block's own tile."""


class Mapped(Shared):
    """A partition whose tiles are dealt out to blocks: stores take an index minted by `z.indices()`."""


class Atomic(Shared):
    """May be changed by many at once, through atomic operations only."""


class Owned(Mut, Atomic):
    """Belongs to the holder, who may also give it away (`T`) or let many change it by atomics."""


ACCESSES: dict[str, type[Shared]] = {a.__name__: a for a in (Shared, Mut, Owned, Mapped, Atomic)}
