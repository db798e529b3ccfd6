"""Folders for the files of one block of code."""

import shutil

from wdsflow.shards.atomic import scratch_folder


def test_it_is_empty_at_the_start_and_gone_at_the_end_also_if_it_was_removed_before(tmp_path):
    folder = tmp_path / "deep" / "scratch"
    folder.mkdir(parents=True)
    (folder / "of a killed run").touch()

    with scratch_folder(folder):
        assert list(folder.iterdir()) == []
        (folder / "new").touch()
    assert not folder.exists()
    with scratch_folder(folder):
        shutil.rmtree(folder)
