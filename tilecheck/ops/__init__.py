"""The op table, a module per family. Importing the package fills `OPS`; `operators()` gives the rows behind
operators.
"""

from tilecheck.ops import (
    arithmetic,
    bits,
    casts,
    compare,
    creation,
    debug,
    elementary,
    elements,
    grid,
    matrix,
    memory,
    philox,
    reductions,
    scans,
    shapes,
    views,
)
from tilecheck.ops.row import NONE, OPS, Effect, Lanes, NotYet, Op, Refused, operators

# In the order of the documentation.
FAMILIES = (
    memory,
    views,
    grid,
    elements,
    creation,
    arithmetic,
    bits,
    compare,
    elementary,
    reductions,
    scans,
    matrix,
    shapes,
    casts,
    philox,
    debug,
)

__all__ = ["FAMILIES", "NONE", "OPS", "Effect", "Lanes", "NotYet", "Op", "Refused", "operators"]
