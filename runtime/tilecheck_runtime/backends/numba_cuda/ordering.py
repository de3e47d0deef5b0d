"""The order of instructions after the last reduction of a row: each just before it is needed.

A generated module computes one op on a whole tile after the other, and PTX keeps that order: all weights of a row are
loaded, then all products stand in registers, then all biases are loaded. The assembler moves instructions, but not far
enough; a row kernel then needs twice the registers that its stores ask for. So in the last stretch of straight code,
what a store needs is placed before that store, store by store:

    load w0..w7; multiply 0..7; load b0..b7; add 0..7; store 0..7
    load w0; multiply 0; load b0; add 0; store 0; load w1; ...; store 7

Only instructions that compute from registers, and loads of what nothing writes during the launch (`ld.global.nc`), move;
all others keep their order among themselves. Registers of PTX have one definition each, but for those that merge at
labels; a stretch that defines one of the latter, or has an instruction that is not known here, stays as it is.

Kernels with loops or tensor-core products are left alone: theirs are ordered for other reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_REGISTER: Final = re.compile(r"%[a-z]+\d+")
_INSTRUCTION: Final = re.compile(r"(?P<guard>@!?%p\d+\s+)?(?P<op>[a-z][\w.:]*)\s*(?P<operands>[^;]*);")
_BRANCH: Final = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")
_BEGIN, _END = "// begin inline asm", "// end inline asm"
_ELSEWHERE: Final = ("mma", "cp.async.bulk.tensor", "cp.async.c", "wgmma", "ldmatrix")
# First parts of the names of instructions that compute their first operand from the others and do nothing else.
_PURE: Final = frozenset(
    {
        *("abs", "add", "and", "bfe", "bfi", "cnot", "copysign", "cos", "cvt", "cvta", "div", "ex2"),
        *("fma", "fns", "lg2", "lop3", "mad", "max", "min", "mov", "mul", "neg", "not", "or"),
        *("popc", "prmt", "rcp", "rem", "rsqrt", "selp", "setp", "shf", "shl", "shr", "sin", "slct"),
        *("sqrt", "sub", "tanh", "testp", "xor"),
    }
)
_LOADS: Final = ("ld.global.nc", "ld.param")
_WRITES: Final = ("st", "bar", "ret", "red")


@dataclass(frozen=True, slots=True)
class _Unit:
    """The lines of an instruction, or of one piece of inline assembly."""

    lines: tuple[str, ...]
    defined: frozenset[str]
    used: frozenset[str]
    moves: bool


def by_need(ptx: str) -> str:
    """The same kernel with the stretch after its last barrier in the order of need, where that is known to be the same
    computation.
    """
    lines = ptx.split("\n")
    barriers = [at for at, line in enumerate(lines) if line.lstrip().startswith("bar.sync")]
    if not barriers or any(word in ptx for word in _ELSEWHERE) or _loops(lines):
        return ptx
    start = barriers[-1] + 1
    end = next(at for at in range(start, len(lines)) if _ends(lines[at]))
    units = _units(lines[start:end])
    if units is None or not _worth(units) or not _single(units, lines[:start] + lines[end:]):
        return ptx
    return "\n".join([*lines[:start], *_needed(units), *lines[end:]])


def _ends(line: str) -> bool:
    text = line.strip()
    return text.startswith(("$", "ret", "}")) or _BRANCH.search(text) is not None


def _loops(lines: Sequence[str]) -> bool:
    """Whether a branch goes back."""
    labels = {
        line.strip()[:-1]: at for at, line in enumerate(lines) if line.startswith("$") and line.strip().endswith(":")
    }
    for at, line in enumerate(lines):
        branch = _BRANCH.search(line)
        if branch is not None and labels.get(branch[1], 0) <= at:
            return True
    return False


def _units(lines: Sequence[str]) -> list[_Unit] | None:
    """The instructions of a stretch; None if one is not known here."""
    found: list[_Unit] = []
    held: list[str] = []
    inside = False
    for line in lines:
        held.append(line)
        text = line.strip()
        inside = (inside or text == _BEGIN) and text != _END
        if inside or not text or (text.startswith((".loc", "//")) and text != _END):
            continue
        unit = _unit(held)
        if unit is None:
            return None
        found.append(unit)
        held = []
    return None if any(line.strip() for line in held) else found


def _unit(lines: Sequence[str]) -> _Unit | None:
    code = " ".join(line.split("//")[0].strip() for line in lines if not line.strip().startswith(".loc")).strip()
    instruction = _INSTRUCTION.fullmatch(code)
    if instruction is None:
        return None
    op, operands = instruction["op"], instruction["operands"]
    named = frozenset(_REGISTER.findall(code))
    if op.split(".")[0] in _WRITES:
        return _Unit(tuple(lines), frozenset(), named, moves=False)
    kind = op.split(".")[0]
    # `.cc` leaves a carry behind, which no register shows.
    if instruction["guard"] is not None or ".cc" in op or not (kind in _PURE or kind == "ld"):
        return None
    first, _, rest = operands[1:].partition("}") if operands.startswith("{") else operands.partition(",")
    return _Unit(
        tuple(lines),
        frozenset(_REGISTER.findall(first)),
        frozenset(_REGISTER.findall(rest)),
        moves=kind != "ld" or op.startswith(_LOADS),
    )


def _worth(units: Sequence[_Unit]) -> bool:
    """Whether several stores wait for loads."""
    texts = [" ".join(unit.lines) for unit in units]
    return sum("st.global" in t for t in texts) > 1 and any("ld.global.nc" in t for t in texts)


def _single(units: Sequence[_Unit], others: Sequence[str]) -> bool:
    """Whether every register that the stretch defines is defined there once, before its uses, and named nowhere else."""
    defined = Counter(register for unit in units for register in unit.defined)
    if any(count > 1 for count in defined.values()):
        return False
    so_far: set[str] = set()
    for unit in units:
        if any(register in defined and register not in so_far for register in unit.used):
            return False
        so_far |= unit.defined
    elsewhere = {
        register for line in others if not line.lstrip().startswith(".reg") for register in _REGISTER.findall(line)
    }
    return not elsewhere & defined.keys()


def _needed(units: Sequence[_Unit]) -> list[str]:
    """The lines, what keeps its place in its order and everything else just before its first use."""
    by_register = {register: at for at, unit in enumerate(units) for register in unit.defined}
    done: set[int] = set()
    lines: list[str] = []

    def place(at: int) -> None:
        # Depth first without recursion: chains are as long as a row is.
        waiting = [(at, False)]
        while waiting:
            now, ready = waiting.pop()
            if now in done:
                continue
            if ready:
                done.add(now)
                lines.extend(units[now].lines)
                continue
            waiting.append((now, True))
            needs = sorted({by_register[r] for r in units[now].used if r in by_register} - done, reverse=True)
            waiting.extend((need, False) for need in needs)

    for at, unit in enumerate(units):
        if not unit.moves:
            place(at)
    # What no store needs comes last: nothing may get lost.
    for at in range(len(units)):
        place(at)
    return lines
