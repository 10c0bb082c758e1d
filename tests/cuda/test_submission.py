"""A source file and a problem file together, and the draft of one from the other."""

import pytest

from optiml.cuda.importer import Imported, import_file
from optiml.cuda.submission import draft_problem_file, submission
from optiml.errors import InvalidArgumentError
from optiml.problem_file import ProblemFile, load_problem

from .conftest import EXAMPLES

MATMUL = (EXAMPLES / "matmul.cu").read_text()
PROBLEM = (EXAMPLES / "matmul.yaml").read_text()
KERNEL = "__global__ void add(const float* a, float* c, int n) { int i = threadIdx.x; if (i < n) c[i] = a[i]; }\n"


def _imported() -> Imported:
    return import_file(MATMUL, "matmul.cu")


def _file(before: str = "", after: str = "") -> ProblemFile:
    return load_problem(PROBLEM.replace(before, after), "matmul.yaml")


def test_the_problem_file_wins() -> None:
    handed_in = submission(_imported(), _file("time: [{K: 2048", "time: [{K: 1024"))
    assert handed_in.problem.time[0].parameters["K"] == 1024
    assert handed_in.problem.reference.numpy == "C = A @ B\n"
    assert (handed_in.problem.id[0], handed_in.kernel.id[0]) == ("p", "k")


def test_without_a_reference_the_kernel_is_the_reference() -> None:
    handed_in = submission(_imported(), _file("reference: |\n  C = A @ B\n"))
    assert handed_in.problem.reference.kernel.launches == handed_in.kernel.launches


def test_a_launch_section_overrules_the_program() -> None:
    launch = 'launch:\n  - {kernel: matmul, grid: ["N", "M"], block: 32, arguments: [A, B, C, i32 M, i32 N, i32 K]}\n'
    handed_in = submission(_imported(), load_problem(PROBLEM + launch))
    assert list(handed_in.kernel.launches[0].grid) == ["N", "M"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("A: {dtype: f32", "A: {dtype: f16", r"^matmul\.yaml:\d+: arguments\.A\.dtype: is f16, .*; write f32"),
        ("  A: {", "  Q: {", r"^matmul\.cu:\d+: kernel\.launches\[0\]\.arguments\[0\]: no buffer is called 'A'"),
        ("  N: any\n", "", r"^matmul\.yaml:\d+: sizes\.smoke\[0\]\.N: is no parameter"),
        ("shape: [M, K]", "shape: [M, W]", r"^matmul\.yaml:\d+: arguments\.A: unknown name 'W'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_told_with_its_line(before: str, after: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        submission(_imported(), _file(before, after))


def test_a_shape_unlike_the_allocation_is_noted() -> None:
    handed_in = submission(_imported(), _file("time: [{K: 2048, M: 2048", "time: [{K: 64, M: 32"))
    assert handed_in.notes == []
    (note,) = submission(_imported(), _file("A: {dtype: f32, shape: [M, K]", "A: {dtype: f32, shape: [M, M, K]")).notes
    assert note.startswith("A has 8589934592 elements")


def test_what_is_missing_is_told_with_line_and_the_command_that_helps() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^add\.cu:1: arguments\.a\.shape: .*`optimlctl init add\.cu`"):
        submission(import_file(KERNEL, "add.cu"))


def test_the_draft_of_a_complete_file_reads_as_what_was_imported() -> None:
    imported = _imported()
    file = load_problem(draft_problem_file(imported))
    assert file.problem.arguments == imported.problem.arguments
    assert file.launches == list(imported.kernel.launches)
    assert submission(imported, file).problem.reference.HasField("kernel")


def test_the_draft_of_an_incomplete_file_has_a_todo_at_each_gap() -> None:
    imported = import_file(KERNEL, "add.cu")
    text = draft_problem_file(imported)
    assert text.count("TODO: ") == len(imported.missing)
    assert "  # TODO: arguments.a.shape: nothing allocates it (line 1); write its extents, as in [M, K]\n  a: {" in text


def test_a_finished_draft_is_accepted() -> None:
    imported = import_file(KERNEL, "add.cu")
    text = draft_problem_file(imported).replace("{dtype: f32, role", "{dtype: f32, shape: [n], role")
    text = (
        text.replace("time: [{}]", "time: [{n: 4096}]")
        .replace("grid: []", "grid: [1]")
        .replace("block: []", "block: [256]")
    )
    assert submission(imported, load_problem(text)).kernel.launches[0].kernel == "add"
