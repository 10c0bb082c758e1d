"""Shared loads that ptxas joins are counted as one; those that it cannot join are not."""

import pytest

from services.profiler.cpu.merging import FOLLOWER, merged_loads
from services.profiler.cpu.parser import parse
from services.profiler.cpu.ptx import Instruction

HEAD = """.version 9.0
.target sm_90
.address_size 64
.visible .entry f()
{
	.reg .f32 %f<9>;
	.reg .b32 %r<9>;
"""


def _joined(*lines: str) -> list[int]:
    """Return what each load of a body is joined to."""
    text = HEAD + "".join(f"\t{line}\n" for line in lines) + "\tret;\n}\n"
    (function,) = parse(text).functions.values()
    assert function.body is not None
    found = merged_loads(function.body)
    loads = [item for item in function.body if isinstance(item, Instruction) and item.opcode.startswith("ld.")]
    return [found.get(id(load), 0) for load in loads]


def _loads(*offsets: int) -> list[str]:
    return [f"ld.shared.f32 %f{i}, [%r1+{offset}];" for i, offset in enumerate(offsets)]


def test_four_words_in_a_row_are_one_load() -> None:
    assert _joined(*_loads(0, 4, 8, 12)) == [16, FOLLOWER, FOLLOWER, FOLLOWER]


def test_the_order_does_not_matter() -> None:
    assert _joined(*_loads(12, 4, 8, 0)) == [FOLLOWER, FOLLOWER, FOLLOWER, 16]


def test_two_words_are_one_load() -> None:
    assert _joined(*_loads(8, 12)) == [8, FOLLOWER]


@pytest.mark.parametrize("offsets", [(0, 64, 128, 192), (4, 8), (0,)])
def test_words_that_are_apart_or_askew_stay_alone(offsets: tuple[int, ...]) -> None:
    assert set(_joined(*_loads(*offsets))) == {0}


@pytest.mark.parametrize("between", ["st.shared.f32 [%r2], %f8;", "bar.sync 0;", "add.s32 %r1, %r1, 4;"])
def test_nothing_is_joined_across_a_change(between: str) -> None:
    first, second = _loads(0, 4)
    assert _joined(first, between, second) == [0, 0]


def test_global_loads_are_never_joined() -> None:
    assert _joined("ld.global.f32 %f1, [%r1];", "ld.global.f32 %f2, [%r1+4];") == [0, 0]
