"""Whether a file is as a run has written it."""

import pytest

from wdsflow.records.file_identity import MUST_EXIST, why_changed
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.shards.source.base import SourceError


def test_a_file_is_compared_with_the_one_that_was_written(tmp_path):
    file, missing = tmp_path / "0.tar", tmp_path / "1.tar"
    file.write_bytes(b"a" * 100)
    written = fingerprint(str(file))

    assert why_changed(file, written) == ""
    assert why_changed(file, MUST_EXIST) == ""
    assert why_changed(file, None) == f"{file} was changed since it was written"
    assert why_changed(missing, written) == why_changed(missing, MUST_EXIST)
    assert why_changed(missing, written) == f"{missing} is missing"
    assert why_changed(missing, None) == ""
    file.write_bytes(b"a" * 99 + b"b")
    assert why_changed(file, written) == f"{file} was changed since it was written"


def test_a_file_that_cannot_be_read_is_not_called_missing(tmp_path):
    with pytest.raises(SourceError, match="is a folder"):
        why_changed(tmp_path, {"size": 0})
