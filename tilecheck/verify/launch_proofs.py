"""One kernel under all the launches that host code shows of it.

A few launches are proved one by one. Of many, the first few are, and the rest together as what they have in common
(`common_launch.py`): what holds of that, holds of each. Only if it does not, they are proved one by one as well, as far
as the budget goes; what is left over then keeps what is known of the rest together, and is refuted nowhere, because no
launch was seen to fail.

Invariant: every launch is covered by a proof in the answer.

Worked example: a loop that launches `k[1, 64](x[:n])` for n from 10 to 300 has the block of 64 and the rank of `x` in
common, which is enough for a kernel that guards with `i < x.size`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from tilecheck.frontend.common_launch import common_launch
from tilecheck.frontend.launches import Launch
from tilecheck.ir.kernel import Kernel
from tilecheck.verify.proof import Proof
from tilecheck.verify.prove import prove
from tilecheck.verify.usage import Usage
from tilecheck.verify.verdict import Answer, Verdict

# Launches of a kernel that are proved one by one without more ado, and those that are if the rest together is not proven.
FEW_LAUNCHES = 4
MOST_LAUNCHES = 24
_LEAST_SECONDS = 0.02


def proofs_of(kernel: Kernel, usage: Usage, launches: Sequence[Launch], budget: float) -> list[Proof]:
    """The proofs of `kernel` under `launches` within `budget` processor seconds; under any launch if there are none."""
    if not launches:
        return [prove(kernel, usage, None, budget)]
    if len(launches) <= FEW_LAUNCHES:
        return [prove(kernel, usage, launch, budget / len(launches)) for launch in launches]
    end = time.process_time() + budget
    made = [prove(kernel, usage, launch, budget / (2 * FEW_LAUNCHES)) for launch in launches[:FEW_LAUNCHES]]
    rest = list(launches[FEW_LAUNCHES:])
    together = prove(kernel, usage, common_launch(rest), (end - time.process_time()) / 2)
    if all(answer.verdict is Verdict.PROVEN for answer in together.answers.values()):
        return [*made, together]
    while rest and len(made) < MOST_LAUNCHES and (left := end - time.process_time()) > _LEAST_SECONDS:
        more = min(len(rest), MOST_LAUNCHES - len(made))
        made.append(prove(kernel, usage, rest.pop(0), left / more))
    return [*made, _not_refuted(together)] if rest else made


def _not_refuted(proof: Proof) -> Proof:
    """`proof` of launches that were not looked at one by one."""
    reason = "one of many launches, which were not looked at one by one, may break it"
    open_ones = {
        name: Answer(Verdict.UNKNOWN, reason=reason)
        for name, answer in proof.answers.items()
        if answer.verdict is Verdict.REFUTED
    }
    return replace(proof, answers={**proof.answers, **open_ones}, refuted=[], faults=())
