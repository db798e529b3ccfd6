"""Folders of runs are removed, also those of runs that were killed."""

import subprocess
import sys
from pathlib import Path

import pytest

from wdsflow.validate.pipeline.run_folder import run_folder

HOLDS = """
from wdsflow.validate.pipeline.run_folder import run_folder
with run_folder("wdsflow-run-") as folder:
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_a_folder_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    with run_folder("wdsflow-run-") as folder:
        Path(folder, "inner").mkdir()
        assert Path(folder).parent == tmp_path

    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_run_and_that_of_a_living_one_is_not(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        with run_folder("wdsflow-cache-"):
            assert folder.is_dir()
        process.kill()
        process.wait()

    assert folder.is_dir()
    with run_folder("wdsflow-cache-"):
        assert not folder.exists()


def test_folders_of_others_stay(tmp_path: Path) -> None:
    others = [tmp_path / "wdsflow-run-without-a-lock", tmp_path / "elsewhere"]
    for other in others:
        other.mkdir()
    (tmp_path / "wdsflow-run-link").symlink_to(others[1])

    with run_folder("wdsflow-run-"):
        pass

    assert all(other.is_dir() for other in others)


def test_a_folder_that_no_later_run_would_remove_is_refused() -> None:
    with pytest.raises(ValueError, match="its folders would stay"), run_folder("wdsflow-other-"):
        pass
