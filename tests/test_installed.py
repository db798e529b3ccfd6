from pathlib import Path

import pytest

from tests.distributions import write_distribution
from wdsflow.installed import entry_points_of, version_of


def test_a_distribution_is_found_where_the_path_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert version_of("of-a-test") is None
    assert entry_points_of("a.group") == ()
    write_distribution(tmp_path, "of-a-test", {"a.group": {"mine": "a.module:Thing"}}, "2.0.1")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert version_of("of-a-test") == "2.0.1"
    (entry,) = entry_points_of("a.group")
    assert (entry.name, entry.value) == ("mine", "a.module:Thing")
    monkeypatch.undo()
    assert version_of("of-a-test") is None
    assert entry_points_of("a.group") == ()


def test_a_package_that_is_installed_while_the_process_runs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert version_of("of-a-test") is None
    write_distribution(tmp_path, "of-a-test", {}, "2.0.1")
    assert version_of("of-a-test") == "2.0.1"
