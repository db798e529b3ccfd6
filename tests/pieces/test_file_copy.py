"""Whole files as outputs."""

from pathlib import Path

import pytest

from wdsflow.pieces import file_copy
from wdsflow.pieces.file_copy import copy_file
from wdsflow.shards.source.base import single_shard
from wdsflow.shards.source.opening import open_source


def test_a_file_that_grows_is_copied_up_to_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_copy, "_STEP", 1000)
    path = tmp_path / "0.tar"
    path.write_bytes(b"a" * 2500)
    with open_source(single_shard(str(path)), allow_pipe=False) as source:
        with path.open("ab") as file:
            file.write(b"b" * 5000)
        assert copy_file(tmp_path / "copy.tar", source) == 2500
    assert (tmp_path / "copy.tar").read_bytes() == b"a" * 2500
