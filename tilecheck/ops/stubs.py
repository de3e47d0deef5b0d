"""The stub lines that many rows share, written once.

Broadcasting along axes of extent 1 is spelled out up to rank 3, equal shapes for any rank, so that a wrong shape is an
ordinary type error in mypy and pyright. `One` is the `Dim` of extent 1, `T` the dtype, `*S` a whole shape.
"""

from __future__ import annotations

# (left, right, result) beyond equal shapes, for tiles of one dtype.
_BROADCASTS = (
    ("*S", "", "*S"),
    ("M, N", "M, One", "M, N"),
    ("M, N", "One, N", "M, N"),
    ("M, N", "N", "M, N"),
    ("M", "One", "M"),
    ("B, M, N", "B, M, One", "B, M, N"),
    ("B, M, N", "B, One, N", "B, M, N"),
    ("B, M, N", "One, M, N", "B, M, N"),
    ("B, M, N", "M, N", "B, M, N"),
)
_OUTER = (("M, One", "One, N", "M, N"), ("One, N", "M, One", "M, N"))


def tile(dtype: str, shape: str) -> str:
    """`Tile[dtype, *shape]`, also for rank 0."""
    return f"Tile[{dtype}, {shape}]" if shape else f"Tile[{dtype}]"


def binary(name: str, dunder: str | None = None, *, result: str = "T", scalar: str = "float") -> tuple[str, ...]:
    """Lines of an elementwise op of two values; with `dunder` also the operator's method and its reflection.

    `result` is the dtype of the result, `scalar` the Python type a scalar operand may have.
    """
    to_bool = result == "bool_"
    lines = [
        f"def {name}(x: Tile[T, *S], y: Tile[T, *S] | {scalar} | type[Dim], /) -> Tile[{result}, *S]",
        f"def {name}(x: {scalar} | type[Dim], y: Tile[T, *S], /) -> Tile[{result}, *S]",
    ]
    for left, right, shape in _BROADCASTS:
        lines.append(f"def {name}(x: {tile('T', left)}, y: {tile('T', right)}, /) -> {tile(result, shape)}")
        lines.append(f"def {name}(x: {tile('T', right)}, y: {tile('T', left)}, /) -> {tile(result, shape)}")
    for left, right, shape in _OUTER:
        lines.append(f"def {name}(x: {tile('T', left)}, y: {tile('T', right)}, /) -> {tile(result, shape)}")
    if to_bool:
        lines.append(f"def {name}(x: {scalar}, y: {scalar}, /) -> bool")
    elif scalar == "float":
        lines += [f"def {name}(x: int, y: int, /) -> int", f"def {name}(x: float, y: float, /) -> float"]
    else:
        lines.append(f"def {name}(x: {scalar}, y: {scalar}, /) -> {scalar}")
    return (*lines, *(operator(dunder, result=result, scalar=scalar) if dunder else ()))


def operator(dunder: str, *, result: str = "T", scalar: str = "float") -> tuple[str, ...]:
    """The methods of `Tile` behind a binary operator. Comparisons have no reflected method."""
    compares = result == "bool_"
    override = dunder in ("__eq__", "__ne__")
    lines = [f"Tile: def {dunder}(self, other: Tile[T, *S] | {scalar} | type[Dim], /) -> Tile[{result}, *S]"]
    for left, right, shape in _BROADCASTS:
        lines.append(
            f"Tile: def {dunder}(self: {tile('T', left)}, other: {tile('T', right)}, /) -> {tile(result, shape)}"
        )
        lines.append(
            f"Tile: def {dunder}(self: {tile('T', right)}, other: {tile('T', left)}, /) -> {tile(result, shape)}"
        )
    for left, right, shape in _OUTER:
        lines.append(
            f"Tile: def {dunder}(self: {tile('T', left)}, other: {tile('T', right)}, /) -> {tile(result, shape)}"
        )
    if not compares:
        lines.append(f"Tile: def __r{dunder[2:]}(self, other: {scalar} | type[Dim], /) -> Tile[{result}, *S]")
    if override:
        lines = [f"{line}  # type: ignore[override]" if at == 0 else line for at, line in enumerate(lines)]
    return tuple(lines)


def unary(name: str, *, result: str = "T", scalar: str | None = "float") -> tuple[str, ...]:
    """Lines of an elementwise op of one value; `scalar` is the result for a scalar, None if it takes none."""
    lines = [f"def {name}(x: Tile[T, *S], /) -> Tile[{result}, *S]"]
    if scalar == "same":
        lines += [f"def {name}(x: int, /) -> int", f"def {name}(x: float, /) -> float"]
    elif scalar is not None:
        lines.append(f"def {name}(x: float, /) -> {scalar}")
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
        f"def {name}({{x}}: Tile[T, *tuple[Any, ...]], axis: None = ..., keepdims: Literal[False] = ...) -> Tile[{result}]"
    )
    return (*(line.format(x="x") for line in lines), *("Tile: " + line.format(x="self") for line in lines))
