from collections import Counter
from pathlib import Path


def test_no_two_test_files_have_the_same_name() -> None:
    names = Counter(path.name for path in Path(__file__).resolve().parents[1].rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
