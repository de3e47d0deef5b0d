"""One small kernel of the op table as data, see `op_kernels`."""

from __future__ import annotations

from dataclasses import dataclass

FLOATS = ("f16", "bf16", "f32", "f64")
INTS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")

RAGGED = (20, 150)
EVEN = (16, 128)


@dataclass(frozen=True)
class Case:
    """One kernel: `inputs` and `output` are dtypes, `shape` that of all arrays, `body` its statements.

    `domain` is the range that random input is drawn from; `tolerance` relative to the dtype's rounding unit, 0 for exact.
    `shapes` are those of the inputs where they are not `shape`; `tile` is BM and BN.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    output: str
    body: str
    shape: tuple[int, int] = RAGGED
    out_shape: tuple[int, ...] | None = None
    tile: tuple[int, int] = (8, 64)
    domain: tuple[float, float] = (-4.0, 4.0)
    tolerance: float = 0.0
    access: str = "Mut"
    shapes: tuple[tuple[int, int], ...] = ()

    @property
    def sizes(self) -> dict[str, int]:
        """The extents by name; products have tiles of their own."""
        bm, bn = (64, 32) if self.op in ("mma", "matmul") else self.tile
        return {"BM": bm, "BN": bn, "BM2": 32, "BK": bm * bn, "HALF": bn // 2}
