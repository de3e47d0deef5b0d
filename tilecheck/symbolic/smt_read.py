"""Readings of terms: their value under an assignment, their subterms, their text.

`evaluate` is the meaning of terms; the solver's models are believed only when it agrees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tilecheck.symbolic.smt_nodes import Symbol, Term


def evaluate(term: Term, values: Mapping[Symbol, int]) -> int:
    """The value of `term` (truth values as 0 and 1). KeyError for a symbol without value, ZeroDivisionError as in Python."""
    return _value(term, values, {})


def _value(term: Term, values: Mapping[Symbol, int], done: dict[Term, int]) -> int:
    """As `evaluate`; a term that stands in many places is evaluated once."""
    if term not in done:
        done[term] = _computed(term, values, done)
    return done[term]


def _computed(term: Term, values: Mapping[Symbol, int], done: dict[Term, int]) -> int:
    match term.kind:
        case "const":
            return term.const
        case "true":
            return 1
        case "false":
            return 0
        case "sym":
            assert term.symbol is not None
            return values[term.symbol]
        case "ite":
            return _value(term.parts[1 if _value(term.parts[0], values, done) else 2], values, done)
        case "and":
            return int(all(_value(p, values, done) for p in term.parts))
        case "or":
            return int(any(_value(p, values, done) for p in term.parts))
    inner = [_value(p, values, done) for p in term.parts]
    match term.kind:
        case "lin":
            return term.const + sum(w * v for w, v in zip(term.weights, inner, strict=True))
        case "mul":
            result = 1
            for v in inner:
                result *= v
            return result
        case "div":
            return inner[0] // inner[1]
        case "mod":
            return inner[0] % inner[1]
        case "ge":
            return int(inner[0] >= 0)
        case "eq":
            return int(inner[0] == 0)
        case _:
            return 1 - inner[0]


def subterms(roots: Iterable[Term]) -> dict[Term, None]:
    """Every term at or below `roots`, children after parents, each once."""
    seen: dict[Term, None] = {}
    stack = list(roots)
    while stack:
        term = stack.pop()
        if term not in seen:
            seen[term] = None
            stack.extend(term.parts)
    return seen


def show(term: Term) -> str:
    """The term in the notation of launch conditions."""
    match term.kind:
        case "const":
            return str(term.const)
        case "sym":
            return str(term.symbol)
        case "true" | "false":
            return term.kind
        case "lin":
            pieces = [show(t) if w == 1 else f"{w}*{show(t)}" for t, w in zip(term.parts, term.weights, strict=True)]
            if term.const:
                pieces.append(str(term.const))
            return "(" + " + ".join(pieces) + ")"
        case "mul":
            return "*".join(show(p) for p in term.parts)
        case "div" | "mod":
            return f"({show(term.parts[0])} {'//' if term.kind == 'div' else '%'} {show(term.parts[1])})"
        case "ite":
            return f"({show(term.parts[1])} if {show(term.parts[0])} else {show(term.parts[2])})"
        case "ge":
            return f"{show(term.parts[0])} >= 0"
        case "eq":
            return f"{show(term.parts[0])} == 0"
        case "not":
            return f"not ({show(term.parts[0])})"
        case _:
            return "(" + f" {term.kind} ".join(show(p) for p in term.parts) + ")"
