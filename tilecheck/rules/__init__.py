"""The rules: one module each, listed once, below.

A rule module says everything about its rule: the docstring's first line is the summary, the rest says why; `BAD` and
`GOOD` are short programs (the offending line of a bad one ends in `# error`); `check` words the findings. The module's
name with dashes is the rule's name, its mypy error code and its page. Docs, listings and tests derive from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol

from tilecheck.rules import (
    allow_without_reason,
    borrow_conflict,
    capture,
    check_in_kernel,
    data_race,
    divergent_barrier,
    dropped_op,
    dtype_mismatch,
    foreign_index,
    frozen_global,
    host_array_copied,
    implicit_float64,
    index_overflow,
    launch_contract,
    out_of_bounds,
    partial_coverage,
    reentrant_sync,
    shape_mismatch,
    tune_in_place,
    unbound_dim,
    uninitialised_shared,
    unpartitioned_output,
    unproven,
    unreadable,
    unsupported,
    unused_allow,
    usage,
    use_after_move,
    use_in_flight,
    void_lanes,
    warp_sync,
    write_to_shared,
)

if TYPE_CHECKING:
    from tilecheck.checked import Checked
    from tilecheck.diagnostic import Diagnostic


class Rule(Protocol):
    """What a rule module offers. `TRACKS` says where the rule looks."""

    @property
    def __name__(self) -> str: ...
    @property
    def SEVERITY(self) -> Literal["error", "warning"]: ...
    @property
    def BAD(self) -> tuple[str, ...]: ...
    @property
    def GOOD(self) -> tuple[str, ...]: ...
    def check(self, checked: Checked) -> Iterator[Diagnostic]: ...


def rule_name(rule: Rule | ModuleType) -> str:
    """`tilecheck.rules.data_race` is `data-race`."""
    return rule.__name__.rpartition(".")[2].replace("_", "-")


# The table of contents. A line per rule, in the order of the documentation.
RULES: tuple[Rule, ...] = (
    borrow_conflict,
    use_after_move,
    use_in_flight,
    dropped_op,
    unpartitioned_output,
    write_to_shared,
    foreign_index,
    shape_mismatch,
    dtype_mismatch,
    unbound_dim,
    launch_contract,
    partial_coverage,
    void_lanes,
    check_in_kernel,
    out_of_bounds,
    data_race,
    divergent_barrier,
    uninitialised_shared,
    warp_sync,
    index_overflow,
    unproven,
    reentrant_sync,
    capture,
    tune_in_place,
    usage,
    unsupported,
    implicit_float64,
    host_array_copied,
    frozen_global,
    unused_allow,
    allow_without_reason,
    unreadable,
)


def no_rule(name: str) -> tuple[str, str]:
    """That there is no rule `name`, and the way out: the nearest one, if one is near."""
    near = get_close_matches(name, map(rule_name, RULES), 1)
    return f"there is no rule `{name}`", f"the nearest is `{near[0]}`" if near else "`tilecheck rules` lists them"
