"""From what a type checker knows of a value to what lowering carries."""

from __future__ import annotations

from tilecheck.borrow.contracts import KernelFacts
from tilecheck.borrow.values import Array, Callee, Handle, KernelValue, Launcher, Op, Pieces, Value
from tilecheck.borrow.vocabulary import canonical
from tilecheck.ir.host import Contract, Expr, HostType, Sub
from tilecheck.ir.kernel import Access

_HANDLES: dict[str, Handle] = {
    "tilecheck.Running": Handle("running"),
    "tilecheck.CudaGraph": Handle("graph"),
    "tilecheck.Stream": Handle("stream"),
    "tilecheck._Prepared": Handle("prepared"),
}


def value_of_type(known: HostType) -> Value | None:
    """The value that a static type describes, None if it says nothing of interest."""
    name = canonical(known.name) or ""
    if name == "tilecheck._Launcher":
        kernel = value_of_contract(known.contract) if known.contract is not None else None
        return Launcher(kernel) if isinstance(kernel, KernelValue) else None
    if known.contract is not None:
        return value_of_contract(known.contract)
    if name == "tilecheck.Tensor":
        return Array("tilecheck", known.dtype, known.extents, known.access)
    if name in ("tilecheck.Partition", "tilecheck.OwnedPartition"):
        owned = name == "tilecheck.OwnedPartition"
        access = Access.OWNED if owned else known.access
        return Pieces(Array("tilecheck", known.dtype, None, access), mapped=None, owned=owned)
    if name == "tilecheck.DeviceOp":
        return Op()
    if name == "numpy.ndarray":
        return Array("numpy", known.dtype, known.extents)
    if name in ("torch.Tensor", "cupy.ndarray"):
        return Array("foreign", known.dtype, known.extents)
    return _HANDLES.get(name)


def value_of_annotation(note: Expr) -> Value | None:
    """What an annotation says of an op, a running one, a graph or a stream."""
    name = canonical(note.base if isinstance(note, Sub) else note)
    return Op() if name == "tilecheck.DeviceOp" else _HANDLES.get(name or "")


def value_of_contract(contract: Contract) -> Value:
    """A kernel or function of another file, of which only the signature is known."""
    return Callee(contract) if contract.track == "host" else KernelValue(KernelFacts(contract, contract.dims))
