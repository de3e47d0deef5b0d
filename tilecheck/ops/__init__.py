"""The op table, a module per family. Importing the package fills `OPS`; `operators()` gives the rows behind operators."""

from tilecheck.ops import arithmetic, bits, compare, creation, debug, grid, matrix, memory, reductions
from tilecheck.ops.row import NONE, OPS, Effect, Lanes, NotYet, Op, Refused, operators

FAMILIES = (memory, grid, creation, arithmetic, bits, compare, reductions, matrix, debug)

__all__ = ["FAMILIES", "NONE", "OPS", "Effect", "Lanes", "NotYet", "Op", "Refused", "operators"]
