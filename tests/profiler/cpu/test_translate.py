"""What is not known to run correctly is refused by name; what is odd but valid is read."""

import contextlib

import pytest

from services.profiler.cpu.translate import UnsupportedPtx, translate

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
ENTRY = (
    HEAD + ".visible .entry k(.param .u64 p)\n{{\n"
    ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>; .reg .f32 %f<4>;\n{}\nret;\n}}\n"
)


def entry(body: str) -> str:
    return ENTRY.format(body)


@pytest.mark.parametrize(
    "body",
    [
        "wgmma.fence.sync.aligned;",
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0, %f1}, {%r0, %r1}, {%r2}, {%f0, %f1};",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r2];",
        "cp.async.bulk.commit_group;",
        "mbarrier.init.shared.b64 [%r1], %r2;",
        "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%rd1, {%r1}];",
        "barrier.cluster.arrive;",
        "mapa.u64 %rd1, %rd2, %r1;",
        "ld.shared::cluster.u32 %r1, [%r2];",
        "fence.proxy.async;",
        "add.strange.u32 %r1, %r2, %r3;",
        "add.u32 %r1, %r2;",
        "add.u32 %r1, %rd1, %r2;",
        "add.f32 %f1, %f2, %nothere;",
        "bra NOWHERE;",
        "frobnicate.u32 %r1, %r2;",
        "ld.global.u32 %r1, [%rd1], %rd2;",
        "call (%r1), %rd1, (%r2);",
        "mov.u32 %r1, missing_variable;",
        "ld.param.u64 %rd1, [p+8];",
        "st.param.u32 [q], %r1;",
        "cvt.rn.satfinite.e4m3x2.f32 %r1, %f1, %f2;",
        "setmaxnreg.inc.sync.aligned.u32 64;",
    ],
)
def test_unknown_instructions_are_refused_by_name(body: str) -> None:
    with pytest.raises(UnsupportedPtx) as error:
        translate(entry(f".loc 1 17 3\n{body}"))
    assert error.value.opcode == body.split(maxsplit=1)[0].rstrip(";")
    assert error.value.line == 17
    assert error.value.opcode in str(error.value)
    assert "17" in str(error.value)


@pytest.mark.parametrize(
    "text",
    ["", "not PTX at all", HEAD + ".visible .entry k(", entry("add.u32 %r1, %r2, {"), HEAD + ".global .u32 x = f(y);"],
)
def test_text_that_is_no_ptx_is_refused_or_empty(text: str) -> None:
    with contextlib.suppress(UnsupportedPtx):
        assert "function_0" not in translate(text)


def test_registers_of_a_block_shadow_those_outside() -> None:
    text = translate(entry("mov.u32 %r1, 1;\n{ .reg .b32 %r1; mov.u32 %r1, 2; }\nmov.u32 %r2, %r1;"))
    assert "R_r1_1 = ((u32)0x2u);" in text
    assert "R_r2 = R_r1;" in text


def test_symbols_of_the_text_cannot_leave_the_program() -> None:
    # A kernel's name goes into a C++ string and a JSON text.
    hostile = HEAD + '.visible .entry k"x(.param .u64 p)\n{ ret; }\n'
    with pytest.raises(UnsupportedPtx):
        translate(hostile)


def test_static_shared_memory_is_laid_out_with_its_alignment() -> None:
    text = translate(entry(".shared .align 1 .b8 a[3];\n.shared .align 16 .b8 b[32];\nmov.u32 %r1, b;"))
    assert "1040" in text  # 1024 + 3, aligned to 16
