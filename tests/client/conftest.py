from pathlib import Path

import pytest

from optiml.settings import settings


@pytest.fixture(autouse=True)
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands that run in this process must not touch the state folder of whoever runs the tests."""
    folder = tmp_path_factory.mktemp("home") / "state"
    monkeypatch.setattr(settings(), "state_folder", folder)
    return folder
