"""The stub lines that many rows share, written once.

Broadcasting along axes of extent 1 is spelled out up to rank 3, equal shapes for any rank, so that a wrong shape is an
ordinary type error in mypy and pyright. `One` is the `Dim` of extent 1, `T` the dtype, `*S` a whole shape.
"""

from __future__ import annotations

# What stretches to a tile of this shape, beyond a rank-0 tile, and the two tiles that stretch each other.
_STRETCH = (
    ("M", ("One",)),
    ("M, N", ("M, One", "One, N", "N")),
    ("B, M, N", ("B, M, One", "B, One, N", "One, M, N", "M, N")),
)
_OUTER = (("M, One", "One, N"), ("One, N", "M, One"))


def tile(dtype: str, shape: str) -> str:
    """`Tile[dtype, *shape]`, also for rank 0."""
    return f"Tile[{dtype}, {shape}]" if shape else f"Tile[{dtype}, *tuple[()]]"


def _pairs(scalar: str, result: str) -> list[tuple[str, str, str]]:
    """Left, right and result type of an elementwise op of two values, more exact ones first."""
    pairs = [("Tile[T, *S]", f"Tile[T, *S] | Tile[T, *tuple[()]] | {scalar}", f"Tile[{result}, *S]")]
    pairs += [(tile("T", left), tile("T", right), tile(result, "M, N")) for left, right in _OUTER]
    for shape, others in _STRETCH:
        pairs.append((tile("T", shape), " | ".join(tile("T", other) for other in others), tile(result, shape)))
        pairs += [(tile("T", other), tile("T", shape), tile(result, shape)) for other in others]
    return pairs


ROUNDED = ", *, rounding: Rounding | None = ..., flush_to_zero: bool = ..."
"""What ops take that round as asked, behind their operands."""


FLUSHED = ", *, flush_to_zero: bool = ..."
"""What fast functions take."""


NAN = ", *, propagate_nan: bool = ..."
"""What the smaller and the larger value take."""


def binary(
    name: str, dunder: str | None = None, *, result: str = "T", scalar: str = "Scalar", options: str = ""
) -> tuple[str, ...]:
    """Lines of an elementwise op of two values; with `dunder` also the operator's method and its reflection. Functions
    on tiles take `options`.

    `result` is the dtype of the result, `scalar` the Python type a scalar operand may have.
    """
    lines = [
        f"def {name}(x: {left}, y: {right}, /{options}) -> {value}" for left, right, value in _pairs(scalar, result)
    ]
    lines.insert(1, f"def {name}(x: Tile[T, *tuple[()]] | {scalar}, y: Tile[T, *S], /{options}) -> Tile[{result}, *S]")
    if result == "bool_":
        lines.append(f"def {name}(x: {scalar}, y: {scalar}, /) -> bool")
    elif scalar == "Scalar":
        lines += [f"def {name}(x: int, y: int, /) -> int", f"def {name}(x: Scalar, y: Scalar, /) -> float"]
    else:
        lines.append(f"def {name}(x: {scalar}, y: {scalar}, /) -> {scalar}")
    return (*lines, *(operator(dunder, result=result, scalar=scalar) if dunder else ()))


def operator(dunder: str, *, result: str = "T", scalar: str = "Scalar") -> tuple[str, ...]:
    """The methods of `Tile` behind a binary operator. Comparisons have no reflected method."""
    pairs = _pairs(scalar, result)
    # `S` belongs to the class: another variable for the other tile's shape.
    pairs.insert(1, ("Tile[T, *tuple[()]]", "Tile[T, *S2]", f"Tile[{result}, *S2]"))
    lines = [f"Tile: def {dunder}(self: {left}, other: {right}, /) -> {value}" for left, right, value in pairs]
    if result != "bool_":
        lines.append(f"Tile: def __r{dunder[2:]}(self, other: {scalar}, /) -> Tile[{result}, *S]")
    return tuple(lines)


def unary(name: str, *, result: str = "T", scalar: str | None = "Scalar", options: str = "") -> tuple[str, ...]:
    """Lines of an elementwise op of one value; `scalar` is the result for a scalar, None if it takes none."""
    lines = [f"def {name}(x: Tile[T, *S], /{options}) -> Tile[{result}, *S]"]
    if scalar == "same":
        lines += [f"def {name}(x: int, /) -> int", f"def {name}(x: float, /) -> float"]
    elif scalar is not None:
        lines.append(f"def {name}(x: Scalar, /) -> {'float' if scalar == 'Scalar' else scalar}")
    return tuple(lines)


def reduction(name: str, *, result: str = "T", keepdims: bool = True) -> tuple[str, ...]:
    """Lines of a reduction with `axis` and `keepdims`, as a function and as a method, exact up to rank 3."""
    lines: list[str] = []
    axes = ("M", "N", "K")
    for rank in (1, 2, 3):
        names = axes[:rank]
        whole = tile("T", ", ".join(names))
        for axis in range(rank):
            rest = tile(result, ", ".join(n for at, n in enumerate(names) if at != axis))
            ones = tile(result, ", ".join("One" if at == axis else n for at, n in enumerate(names)))
            literal = f"Literal[{axis}, {axis - rank}]"
            lines.append(f"def {name}({{x}}: {whole}, axis: {literal}, keepdims: Literal[False] = ...) -> {rest}")
            if keepdims:
                lines.append(f"def {name}({{x}}: {whole}, axis: {literal}, keepdims: Literal[True]) -> {ones}")
    lines.append(
        f"def {name}({{x}}: Tile[T, *tuple[Any, ...]], axis: None = ..., keepdims: Literal[False] = ...) -> Tile[{result}, *tuple[()]]"
    )
    return (*(line.format(x="x") for line in lines), *("Tile: " + line.format(x="self") for line in lines))
