from optiml.identity import evaluation_id, kernel_id, normalised_source, problem_id
from optiml.v1 import evaluation_pb2, kernel_pb2, problem_pb2


def _kernel(source: str, block: str = "256") -> kernel_pb2.Kernel:
    return kernel_pb2.Kernel(source=source, launches=[kernel_pb2.Launch(kernel="f", grid=["N"], block=[block])])


def test_comments_and_spaces_do_not_make_another_kernel() -> None:
    plain = _kernel("__global__ void f(float* x) { x[0] = 1; }")
    noted = _kernel("// fast\n__global__  void f(float* x) {  /* one\n line */ x[0] = 1; }\n\n")
    assert kernel_id(plain) == kernel_id(_kernel("__global__ void f(float* x) {  x[0] = 1; } // end"))
    assert kernel_id(plain) == kernel_id(noted)


def test_a_comment_inside_a_string_is_kept() -> None:
    assert normalised_source('printf("a // b");') == 'printf("a // b");'


def test_a_line_break_that_the_preprocessor_needs_is_kept() -> None:
    assert normalised_source("#define N 3\nint x;") == "#define N 3\nint x;"


def test_source_and_launch_plan_both_make_the_kernel() -> None:
    ids = {kernel_id(_kernel("a")), kernel_id(_kernel("b")), kernel_id(_kernel("a", "128"))}
    assert len(ids) == 3


def test_an_id_that_came_with_the_message_is_not_trusted() -> None:
    kernel = _kernel("a")
    claimed = kernel_pb2.Kernel()
    claimed.CopyFrom(kernel)
    claimed.id = "k" + "0" * 24
    assert kernel_id(claimed) == kernel_id(kernel)


def test_problem_ids_do_not_depend_on_the_order_of_map_entries() -> None:
    one, two = problem_pb2.Problem(), problem_pb2.Problem()
    size = one.time.add()
    size.parameters["N"] = 1
    size.parameters["M"] = 2
    size = two.time.add()
    size.parameters["M"] = 2
    size.parameters["N"] = 1
    assert problem_id(one) == problem_id(two)


def test_another_device_or_toolchain_is_another_evaluation() -> None:
    h200 = evaluation_pb2.Device(name="H200")
    a100 = evaluation_pb2.Device(name="A100")
    ids = {evaluation_id("p", "k", h200, "a"), evaluation_id("p", "k", a100, "a"), evaluation_id("p", "k", h200, "b")}
    assert len(ids) == 3
