"""Which files of a cache may be removed."""

import os
from pathlib import Path

from wdsflow.shards.cache.entry import CacheEntry, boot_digest
from wdsflow.shards.cache.folder import CacheFolder
from wdsflow.shards.cache.locks import unlock
from wdsflow.shards.cache.room import remove_unless_written

PART = CacheEntry("0" * 32, "1" * 16, 2048, boot=boot_digest())


def test_a_part_is_removed_unless_a_process_writes_it(tmp_path: Path) -> None:
    folder = CacheFolder(tmp_path)
    file = folder.new_part(PART)
    (stored,) = folder.all_files()
    assert not remove_unless_written(folder, stored)
    assert folder.all_files() == [stored]
    unlock(file)
    os.close(file)
    assert remove_unless_written(folder, stored)
    assert folder.all_files() == []
    # Another process was faster.
    assert remove_unless_written(folder, stored)
