"""What becomes of a score that cannot be computed, and of a ledger that cannot be read."""

import errno
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wdsflow.filtering.deciding.score_values import failure_of, result_or_unknown
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, read_metadata
from wdsflow.filtering.predicates.values import Unknown
from wdsflow.shards.source.base import SourceError
from wdsflow.stages.scores import ScoreError


class Mute(Exception):
    """An error that has no text."""

    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ScoreError("no-image", "none at 0x7f3a"), Unknown("no-image", "none")),
        (MemoryError(), Unknown("out-of-memory")),
        (SystemExit(3), Unknown("raised-SystemExit", "3")),
        (
            FileNotFoundError(errno.ENOENT, "gone"),
            Unknown("raised-FileNotFoundError", "[Errno 2] gone"),
        ),
        (ValueError("x" * 900), Unknown("raised-ValueError", "x" * 500)),
        (Mute(), Unknown("raised-Mute", "")),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_score_that_fails_costs_its_sample_with_the_reason(error, why):
    def compute(view):
        raise error

    assert failure_of(error) == result_or_unknown(compute, None) == why


@pytest.mark.parametrize(
    "error", [SourceError("io", "cut"), OSError(errno.EIO, "disk")], ids=["source", "disk"]
)
def test_a_shard_or_disk_that_fails_is_no_fault_of_the_sample(error):
    with pytest.raises(type(error)) as raised:
        failure_of(error)
    assert raised.value is error


def test_what_is_no_ledger_is_named(tmp_path):
    path = tmp_path / "0.parquet"
    with pytest.raises(LedgerError, match="does not exist: was the shard scored"):
        read_metadata(path)
    path.write_bytes(b"PAR1 cut")
    with pytest.raises(LedgerError, match=r"0\.parquet is not a ledger"):
        read_metadata(path)
    table = pa.table({"sample": [1]})
    pq.write_table(table, path)
    with pytest.raises(LedgerError, match=r"0\.parquet is not a ledger"):
        read_metadata(path)
    pq.write_table(table.replace_schema_metadata({"wdsflow": json.dumps({"format": 99})}), path)
    with pytest.raises(LedgerError, match=r"another version \(99\): measure again"):
        read_metadata(path)
