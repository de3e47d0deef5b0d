"""Terms that share their parts are evaluated in as many steps as they have parts, not as many as their text is long."""

from __future__ import annotations

from tilecheck.symbolic.smt_nodes import Level, Symbol, Taint
from tilecheck.symbolic.smt_read import evaluate
from tilecheck.symbolic.smt_terms import add, mod, mul, num, variable


def test_a_term_that_doubles_with_each_step_is_evaluated_at_once() -> None:
    n = Symbol("n", 0, Level.GRID, Taint.INPUT, 1, 1000)
    term, expected = variable(n), 7
    for step in range(64):
        term = mul(mod(term, num(1009)), add(mod(term, num(1013)), num(step)))
        expected = (expected % 1009) * (expected % 1013 + step)
    assert evaluate(term, {n: 7}) == expected
