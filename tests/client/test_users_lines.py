from optimlctl.users_lines import in_users_lines

FILE = """\
#include <cstdio>
// A comment.
__global__ void f(float* x) {
  x[0] = 1;
}
int main() {
  f<<<1, 1>>>(nullptr);
}
__global__ void g(float* x) {
  x[0] = 2
}
"""
DEVICE = """\
__global__ void f(float* x) {
  x[0] = 1;
}
__global__ void g(float* x) {
  x[0] = 2
}
"""


def _told(words: str) -> str:
    return in_users_lines(words, DEVICE, "k.cu", FILE)


def test_a_place_is_told_in_the_persons_file() -> None:
    assert _told('kernel.cu(5): error: expected a ";"') == 'k.cu:10: error: expected a ";"'


def test_every_place_is_told() -> None:
    assert _told("kernel.cu:2: note, see kernel.cu(4)") == "k.cu:4: note, see k.cu:9"


def test_a_place_that_the_person_did_not_write_stays() -> None:
    assert in_users_lines("kernel.cu(1): error", "float added;\n", "k.cu", FILE) == "kernel.cu(1): error"


def test_other_words_stay() -> None:
    assert _told("kernel.cu is wrong (3)") == "kernel.cu is wrong (3)"
