"""A cache of its own for the session, and problems and kernels to evaluate."""

from collections.abc import Iterator

import pytest

from optiml.settings import settings


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIML_CACHE_FOLDER", str(tmp_path_factory.mktemp("cache")))
        settings.cache_clear()
        yield
    settings.cache_clear()
