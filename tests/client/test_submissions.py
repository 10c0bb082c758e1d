import pytest

from optiml.settings import settings
from optimlctl.submissions import Submission, recall, remember

ID = "o0123456789abcdef01234567"
SUBMISSION = Submission(file="relu.cu", folder="/src", text="é\r\n", kernel="", problem_file=None)


def test_what_was_handed_in_is_recalled_byte_for_byte() -> None:
    remember(ID, SUBMISSION)
    assert recall(ID) == SUBMISSION


def test_an_unknown_id_is_not_recalled() -> None:
    assert recall(ID) is None


@pytest.mark.parametrize("wrong", ["../../etc/passwd", "o/../x", "", "O1"])
def test_an_id_is_never_taken_for_a_path(wrong: str) -> None:
    remember(wrong, SUBMISSION)
    assert recall(wrong) is None
    assert not settings().state_folder.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"file": 1}'])
def test_a_record_that_is_damaged_is_as_good_as_none(text: str) -> None:
    folder = settings().state_folder / "submissions"
    folder.mkdir(parents=True)
    (folder / f"{ID}.json").write_text(text)
    assert recall(ID) is None
