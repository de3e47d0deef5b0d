"""Comments that switch a finding off: `# tilecheck: allow[rule] reason`.

At the end of a line the comment covers that line, or the whole simple statement that ends there. On a line of its own
it covers the statement below: all of it for a function (decorators included, also from between them and `def`) and for
a simple statement, the head for any other. Several rules are separated by commas. A reason is part of the syntax: without one the finding is silenced,
but *allow-without-reason* takes its place; an allow that silences nothing is *unused-allow*.

    z.store(x.load())  # tilecheck: allow[shape-mismatch] the caller pads
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tilecheck.checked import Fault
from tilecheck.diagnostic import Diagnostic, Span
from tilecheck.rules import RULES, no_rule, rule_name

# What every comment has that is looked at here; most files have none and need no tokens.
_NAMED = re.compile(r"#\s*tilecheck", re.IGNORECASE)
_COMMENT = re.compile(r"#\s*tilecheck:\s*allow\[([^\]]*)\]\s*([^#]*)")
# What looks like a directive, and is none that is read.
_WORDS = r"(allow|allows|alow|ignore|disable|noqa|skip|off)"
_RULE = f"(?:{'|'.join(map(rule_name, RULES))})(?![\\w-])"
_DIRECTIVE = re.compile(
    rf"#\s*tilecheck(?::\s*(\w+)\s*\[|:?\s*{_WORDS}\s*[\[(]|:\s*{_WORDS}\s*$|:\s*{_WORDS}[\s:=]+{_RULE})", re.IGNORECASE
)
META = frozenset({"unused-allow", "allow-without-reason", "unreadable"})


@dataclass(frozen=True, slots=True)
class Allow:
    """One rule named by one allow comment; it covers the lines `first` to `last`, both included. `among` says that the
    comment names others too. Without a rule it is a comment that looks like one, and `reason` is what stands for `allow`.
    """

    rule: str
    reason: str
    span: Span
    first: int
    last: int
    among: bool = False


def read_allows(path: str, text: str) -> tuple[Allow, ...]:
    """The allow comments of a file that parses."""
    if _NAMED.search(text) is None:
        return ()
    extents = _extents(text)
    code_lines: set[int] = set()
    comments: list[tokenize.TokenInfo] = []
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append(token)
        elif token.type not in skipped:
            code_lines.update(range(token.start[0], token.end[0] + 1))
    return tuple(allow for comment in comments for allow in _allows_of(path, comment, code_lines, extents))


@dataclass(frozen=True, slots=True)
class _Extent:
    """A statement: the lines above which an allow covers it, the lines that it then covers, whether it is a simple one."""

    heads: tuple[int, ...]
    first: int
    last: int
    simple: bool = False


def _allows_of(path: str, comment: tokenize.TokenInfo, code_lines: set[int], extents: list[_Extent]) -> Iterator[Allow]:
    match = _COMMENT.search(comment.string)
    if match is None:
        unread = _DIRECTIVE.search(comment.string)
        if unread is not None:
            (line, column), end = comment.start, comment.end[1]
            place = Span(path, line, column + unread.start() + 1, line, end + 1)
            yield Allow("", next(word for word in unread.groups() if word), place, line, line)
        return
    line, column = comment.start[0], comment.start[1] + match.start() + 1
    span = Span(path, line, column, line, comment.start[1] + len(match[0].rstrip()) + match.start() + 1)
    if line in code_lines:
        inside = [(each.first, each.last) for each in extents if each.simple and each.first <= line == each.last]
        first, last = max(inside, default=(line, line))
    else:
        below = min((code for code in code_lines if code > line), default=line)
        headed = [each for each in extents if below in each.heads]
        first, last = min((each.first for each in headed), default=below), max((e.last for e in headed), default=below)
    for rule in match[1].split(","):
        yield Allow(rule.strip(), match[2].strip(), span, first, last, "," in match[1])


def _extents(text: str) -> list[_Extent]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    found: list[_Extent] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt):
            continue
        end = node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            heads = (*(decorator.lineno for decorator in node.decorator_list), node.lineno)
            found.append(_Extent(heads, min(heads), end))
        elif body := getattr(node, "body", None):
            found.append(_Extent((node.lineno,), node.lineno, max(node.lineno, body[0].lineno - 1)))
        else:
            found.append(_Extent((node.lineno,), node.lineno, end, simple=True))
    return found


def apply_allows(
    diagnostics: Iterable[Diagnostic], allows: Collection[Allow], ran: Collection[str], known: Collection[str]
) -> tuple[list[Diagnostic], int, list[Fault]]:
    """The findings that remain, how many were silenced, and the faults of the comments themselves.

    `ran` are the rules that were looked for (an allow of another rule is not called unused), `known` all rules.
    """
    kept: list[Diagnostic] = []
    used: set[int] = set()
    silenced = 0
    for diagnostic in diagnostics:
        line = diagnostic.span.line
        hits = [
            n
            for n, allow in enumerate(allows)
            if allow.rule == diagnostic.rule and allow.first <= line <= allow.last and diagnostic.rule not in META
        ]
        used.update(hits)
        if hits:
            silenced += 1
        else:
            kept.append(diagnostic)
    faults: list[Fault] = []
    for n, allow in enumerate(allows):
        if not allow.rule and allow.reason:
            message = f"`# tilecheck: {allow.reason}` is no comment that tilecheck reads"
            way_out = "write `# tilecheck: allow[rule] reason`"
            faults.append(Fault("unused-allow", message, allow.span, help=way_out))
        elif not allow.reason:
            message = f"`{allow.rule}` is allowed without a reason"
            way_out = f"say why it is safe: `# tilecheck: allow[{allow.rule}] the reason`"
            faults.append(Fault("allow-without-reason", message, allow.span, help=way_out))
        elif allow.rule not in known:
            message, way_out = no_rule(allow.rule)
            faults.append(Fault("unused-allow", f"{message} to allow", allow.span, help=way_out))
        elif n not in used and allow.rule in ran:
            message = f"nothing here is reported as `{allow.rule}`"
            faults.append(Fault("unused-allow", message, allow.span, help=_REMOVE[allow.among].format(allow.rule)))
    return kept, silenced, faults


# By whether the comment allows other rules too.
_REMOVE = {
    False: "remove the comment, it only allows `{}`",
    True: "take `{}` out of the comment, the other rules may stay",
}
