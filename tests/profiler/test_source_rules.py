"""Text that reaches for files or holds host code is refused before a compiler sees it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.profiler.source_rules import SourceRules, text_rejection
from tests.profiler.kernels import MATMUL_SOURCE, RELU_SOURCE


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rules() -> AsyncIterator[SourceRules]:
    rules = SourceRules()
    yield rules
    await rules.stop()


@pytest.mark.parametrize(
    "source",
    [
        '#include "/etc/passwd"',
        "#include </etc/../etc/passwd>",
        "#inc\\\nlude </etc/passwd>",
        "%:include <x>",
        "# /* */ include <x/../../y>",
        "#define H <x>\n#include H",
        "#include_next <x>",
        "#import <x>",
        '#embed "/etc/passwd"',
        'asm(".incbin \\"/etc/passwd\\"");',
        'asm(".inc" "bin \\"a\\"");',
        'asm(R"x(.include "a")x");',
        "\0",
        "x" * (1 << 21),
    ],
)
def test_text_that_reads_files_is_refused(source: str) -> None:
    assert text_rejection(source)


@pytest.mark.parametrize("source", [RELU_SOURCE, "#include <cuda_fp16.h>", "// #include <fstream>\n"])
def test_plain_device_text_is_accepted(source: str) -> None:
    assert text_rejection(source) is None


@pytest.mark.parametrize("source", ["int main() {}", "#include <fstream>", "void f() { relu<<<1, 1>>>(); }"])
@pytest.mark.asyncio(loop_scope="module")
async def test_host_code_is_refused(rules: SourceRules, source: str) -> None:
    assert await rules.rejection(source)


@pytest.mark.asyncio(loop_scope="module")
async def test_device_code_is_accepted(rules: SourceRules) -> None:
    assert await rules.rejection(MATMUL_SOURCE) is None


@pytest.mark.asyncio(loop_scope="module")
async def test_nesting_that_overwhelms_the_parser_is_an_answer_not_a_crash(rules: SourceRules) -> None:
    deep = "__device__ int f() { return " + "(" * 200000 + "1" + ")" * 200000 + "; }"
    await rules.rejection(deep)
    assert await rules.rejection(RELU_SOURCE + " ") is None
