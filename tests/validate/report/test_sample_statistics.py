"""What the charts of a report count in the first samples of each shard."""

import json
from pathlib import Path

import pytest

from tests.validate.rules.build import jpeg, samples, tar
from wdsflow.scan.evidence import ScanOptions
from wdsflow.scan.scan import scan_shard
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.report.sample_statistics import read_statistics


@pytest.mark.parametrize(
    "fields",
    [{"txt": b"a cat"}, {"json": json.dumps({"width": 3, "caption": "a cat"}).encode()}],
    ids=["txt", "json"],
)
def test_captions_are_counted_where_they_are(fields: dict[str, bytes], tmp_path: Path) -> None:
    path = tmp_path / "0.tar"
    path.write_bytes(tar(samples(4, jpg=jpeg(), **fields)))

    seen = read_statistics([scan_shard(single_shard(str(path)), ScanOptions("headers"))])

    assert seen.captions == ["a cat"] * 4
