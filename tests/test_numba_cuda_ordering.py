"""PTX in the order of need: the same instructions, each after what it uses, and what may not move where it was."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilecheck_runtime.backends.numba_cuda.ordering import by_need

HEAD = [
    ".visible .entry k(",
    ")",
    "{",
    "\tld.param.u64 \t%rd1, [k_0];",
    "\tld.param.u64 \t%rd2, [k_1];",
    "\tbar.sync \t0;",
]
TAIL = ["\tret;", "", "}"]


def kernel(body: list[str]) -> str:
    return "\n".join([*HEAD, *body, *TAIL])


def rows(count: int) -> list[str]:
    """Loads, then products, then sums, then stores, as a generated module has them."""
    loads = [f"\tld.global.nc.f32 \t%f{n}, [%rd1+{4 * n}];" for n in range(count)]
    products = [f"\tmul.f32 \t%f{100 + n}, %f{n}, %f{n};" for n in range(count)]
    stores = [f"\tst.global.f32 \t[%rd2+{4 * n}], %f{100 + n};" for n in range(count)]
    return [*loads, *products, *stores]


def body_of(text: str) -> list[str]:
    return text.split("\n")[len(HEAD) : -len(TAIL)]


def test_a_store_comes_right_after_what_it_needs() -> None:
    words = [re.split(r"[.\s]", line.strip())[0] for line in body_of(by_need(kernel(rows(3))))]
    assert words == ["ld", "mul", "st"] * 3


@pytest.mark.parametrize(
    "strange",
    [
        "\tbfind.u32 \t%r1, %r2;",
        "\tatom.global.add.f32 \t%f900, [%rd2], %f0;",
        "\tadd.cc.u32 \t%r1, %r2, %r3;",
        "\t@%p1 mov.f32 \t%f900, %f0;",
        "\tmov.f32 \t%f0, %f1;",
        "\tmov.u64 \t%rd1, %rd2;",
        "\t{ .reg .b16 h; mov.b32 {h, %rs1}, %r1; }",
    ],
)
def test_what_is_not_known_to_be_safe_keeps_its_order(strange: str) -> None:
    text = kernel([*rows(3), strange])
    assert by_need(text) == text


def test_loops_and_products_keep_their_order() -> None:
    looped = kernel(rows(3)).replace("\tbar.sync", "$L__1:\n\tbra \t$L__1;\n\tbar.sync")
    assert by_need(looped) == looped
    product = kernel(rows(3)).replace("\tbar.sync", "\tmma.sync.aligned \t%f1, %f2;\n\tbar.sync")
    assert by_need(product) == product


def test_a_stretch_ends_at_a_branch() -> None:
    text = kernel([*rows(2), "\t@%p1 bra \t$L__9;", *rows(2), "$L__9:"])
    assert by_need(text) == text, "the second half defines the same registers"


@st.composite
def stretches(draw: st.DrawFn) -> list[str]:
    """Straight code with one definition for each register."""
    lines: list[str] = ["\tld.global.nc.f32 \t%f0, [%rd1];"]
    for n in range(1, draw(st.integers(3, 24))):
        a, b = (draw(st.integers(0, n - 1)) for _ in range(2))
        lines.append(
            draw(
                st.sampled_from(
                    [
                        f"\tld.global.nc.f32 \t%f{n}, [%rd1+{4 * n}];",
                        f"\tadd.f32 \t%f{n}, %f{a}, %f{b};",
                        f"\tld.shared.f32 \t%f{n}, [buffer+{4 * n}];",
                        f"\t// begin inline asm\n\tcvt.f32.f16 %f{n}, %f{a};\n\t// end inline asm",
                    ]
                )
            )
        )
        if draw(st.booleans()):
            lines.append(f"\tst.global.f32 \t[%rd2+{4 * n}], %f{draw(st.integers(0, n))};")
    return lines


@given(stretches())
def test_the_same_instructions_each_after_what_it_uses(lines: list[str]) -> None:
    moved = by_need(kernel(lines))
    assert sorted(moved.split("\n")) == sorted(kernel(lines).split("\n"))
    defined = {"%rd1", "%rd2"}
    for line in body_of(moved):
        if line.lstrip().startswith("//"):
            continue
        registers = re.findall(r"%[a-z]+\d+", line)
        stores = "st." in line
        assert set(registers if stores else registers[1:]) <= defined
        defined |= set() if stores else {registers[0]}

    def fixed(text: str) -> list[str]:
        return [line for line in text.split("\n") if "st.global" in line or "ld.shared" in line]

    assert fixed(moved) == fixed(kernel(lines))
