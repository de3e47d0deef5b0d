"""The arguments of a launch of ours against the kernel's parameters: how many, by which names, of which kind.

Invariant: only what the file shows is judged. An argument behind a star, a kernel under a further decorator and a value of
which nothing is known are left to the launch.

Worked example: for `def saxpy(z: Tensor[Mut, ...], x: Tensor[Shared, ...], a: float)` the launch
`saxpy(z.partition(128), x)` lacks `a`, `saxpy(z.partition(128), x, scale=2.0)` names a parameter that there is not, and
`saxpy(z.partition(128), x, "2")` gives a string for a float.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilecheck.borrow.launch import Launch, LaunchArg
from tilecheck.borrow.spell import spell
from tilecheck.borrow.values import Array, Given, Handle, Items, KernelValue, Number, Op, Pieces, Table, Value
from tilecheck.checked import Fault
from tilecheck.diagnostic import Label
from tilecheck.ir import host as ir
from tilecheck.ir.kernel import Access, ScalarParam, TensorParam


def check_count(kernel: KernelValue, node: ir.Call, given: tuple[Given, ...]) -> Iterator[Fault]:
    """Whether a launch gets one argument for each parameter; `given` are those that a partial holds."""
    facts = kernel.facts
    if facts.least is None or any(arg.star for arg in node.args):
        return
    again = {arg.name for arg in node.args if arg.name is not None}
    names = [*(each.name for each in given if each.name not in again), *(arg.name for arg in node.args)]
    wrong = _miscounted(kernel, [name for name in names if name is not None], names.count(None))
    if wrong is None:
        return
    params = ", ".join(f"`{param.name}`" for param in facts.contract.params)
    span = facts.contract.span
    here = span is not None and span.path == node.span.path
    labels = (Label(span, f"`{facts.contract.name}` is defined here"),) if span is not None and here else ()
    yield Fault("usage", wrong, node.span, labels=labels, help=f"it takes {params}")


def _miscounted(kernel: KernelValue, named: list[str], placed: int) -> str | None:
    params, name = [param.name for param in kernel.facts.contract.params], kernel.facts.contract.name
    if placed > len(params):
        return f"`{name}` has {_counted(len(params), 'parameter')}, this launch passes {placed + len(named)} arguments"
    strange = next((each for each in named if each not in params), None)
    if strange is not None:
        return f"`{name}` has no parameter `{strange}`"
    twice = next((each for each in named if each in params[:placed]), None)
    if twice is not None:
        return f"`{twice}` of `{name}` is given twice, by place and by name"
    # Those with a default stand last.
    missing = [each for each in params[placed : kernel.facts.least] if each not in named]
    if not missing:
        return None
    return f"{' and '.join(f'`{each}`' for each in missing)} of `{name}` {_is_or_are(missing)} missing in this launch"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _is_or_are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def check_kinds(launch: Launch) -> Iterator[Fault]:
    """Arguments that are no tensor where one is wanted, no number of the right kind, or cut otherwise than is wanted."""
    for param in launch.kernel.facts.contract.params:
        arg = launch.args.get(param.name)
        if arg is None:
            continue
        if isinstance(param, TensorParam):
            yield from _tensor(launch, param, arg)
        elif param.kind is not None:
            yield from _scalar(launch, param, arg)


def _tensor(launch: Launch, param: TensorParam, arg: LaunchArg) -> Iterator[Fault]:
    if param.access is None:
        return
    name = launch.kernel.facts.contract.name
    text, written = f"`{spell(arg.expr)}`", param.access in (Access.MUT, Access.MAPPED)
    rule, wants = "usage", f"`{param.name}` of `{name}` is a tensor"
    match arg.value:
        case Pieces() if not written:
            what, way_out = "a partition", "pass the tensor itself: what is only read is not cut into tiles"
        case Pieces(mapped=False) if param.access is Access.MAPPED:
            rule, wants = "launch-contract", f"`{param.name}` of `{name}` is `Mapped`"
            what, way_out = "a partition without a map", "add `.map(shape, blocks=n)`"
        case Pieces(mapped=True) if param.access is Access.MUT:
            rule, wants = "launch-contract", f"`{param.name}` of `{name}` is `Mut`"
            what, way_out = "a partition with a map", "leave out `.map(...)`, or make the parameter `Mapped`"
        case Array(library="numpy") if (inner := text.strip("`").partition(".partition("))[1]:
            what = f"what `partition` of the NumPy array `{inner[0]}` gives, None after sorting"
            way_out = _copied(inner[0], param)
        case Array(library="numpy"):
            what, way_out = "a NumPy array", _copied(text, param)
        case Op():
            what, way_out = "an op", "chain it: `op.then(lambda value: ...)`"
        case Handle(kind="running"):
            what, way_out = "running", "`wait()` for its value"
        case Number() | Items() | Table() if _is_array(launch, param):
            what, way_out = _plainly(arg.value), "copy it to the device: `tc.asarray(...)`"
            if isinstance(arg.value, Number):
                way_out = "a scalar parameter is annotated `int`, `float` or `bool`"
        case _:
            return
    yield Fault(rule, f"{text} is {what}, but {wants}", arg.expr.span, None, declared(launch, param), way_out)


def _copied(text: str, param: TensorParam) -> str:
    """The call that makes of a NumPy array what `param` takes: NumPy's own dtype would be the next error."""
    dtype = f", tc.{param.dtype}" if param.dtype is not None else ""
    made = f"tc.asarray({text.strip('`')}{dtype})"
    if param.access in (Access.MUT, Access.MAPPED):
        return f"copy it to the device, `device = {made}`, and pass `device.partition(...)`"
    return f"copy it to the device: `{made}`"


def _is_array(launch: Launch, param: TensorParam) -> bool:
    """Whether `param` is no scalar: what an adopted kernel never indexes may be one."""
    body = launch.kernel.facts.body
    return body is None or any(body.indices.get(param.name, ()))


def _scalar(launch: Launch, param: ScalarParam, arg: LaunchArg) -> Iterator[Fault]:
    match arg.value:
        case Number(value=value):
            if _is_taken(param, value):
                return
            what = _plainly(arg.value)
        case Array(library="tilecheck") | Pieces():
            what = "a partition" if isinstance(arg.value, Pieces) else "a tensor"
        case Op():
            what = "an op"
        case Items() | Table():
            what = _plainly(arg.value)
        case _:
            return
    name = launch.kernel.facts.contract.name
    message = f"`{spell(arg.expr)}` is {what}, but `{param.name}` of `{name}` is `{param.kind}`"
    yield Fault("dtype-mismatch", message, arg.expr.span, help=f"pass a Python {param.kind}")


def _is_taken(param: ScalarParam, value: object) -> bool:
    if param.kind == "bool":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return param.kind == "float" or isinstance(value, int)


def _plainly(value: Value) -> str:
    match value:
        case Number(value=None):
            return "no value"
        case Number(value=known):
            article = "an" if isinstance(known, int) and not isinstance(known, bool) else "a"
            return f"{article} {'string' if isinstance(known, str) else type(known).__name__}"
        case Table():
            return "a dict"
        case _:
            return "a list or tuple"


def declared(launch: Launch, param: TensorParam) -> tuple[Label, ...]:
    """Where `param` stands, if the launch is in the same file."""
    if launch.kernel.facts.contract.span is None or param.span.path != launch.span.path:
        return ()
    return (Label(param.span, f"`{param.name}` is declared here"),)
