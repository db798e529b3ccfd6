import pytest

from tests.models import own


@pytest.fixture(autouse=True)
def own_scores(tmp_path, monkeypatch):
    """Make the scores of ``tests.models.own`` known, as an installed package would."""
    own.install(tmp_path / "site", monkeypatch)
