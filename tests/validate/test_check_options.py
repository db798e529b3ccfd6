"""Options of ``wdsflow.check`` as users write them in Python."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wdsflow
from tests.training.shards import samples, write_tar
from wdsflow.readers import UnknownReader
from wdsflow.validate.joined_check import NotJoined


@pytest.mark.parametrize(
    ("one", "several"),
    [
        ({"readers": "open-clip-3.3"}, {"readers": ["open-clip-3.3"]}),
        ({"readers": "open-clip-3.3,timm"}, {"readers": ["open-clip-3.3", "timm"]}),
        ({"select": "I208"}, {"select": ["I208"]}),
    ],
)
def test_a_string_works_like_a_list(tmp_path: Path, one: dict[str, Any], several: dict[str, Any]):
    path = write_tar(tmp_path / "0.tar", samples(0, 4))
    by_string, by_list = (
        replace(wdsflow.check(path, jobs=1, **given), seconds=0.0) for given in (one, several)
    )
    assert str(by_string) == str(by_list)
    assert by_string.findings


def test_an_unknown_reader_is_named_as_a_whole(tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples(0, 4))
    with pytest.raises(UnknownReader, match="open-klip"):
        wdsflow.check(path, readers="open-klip")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"pipeline": "train.py:make"},
            "a pipeline of your own reads the shards as they are: check it without a table (--join)",
        ),
        (
            {"readers": ["timm"]},
            "with a table (--join), wdsflow's feed is judged: other readers (--for) need shards that wdsflow graft wrote",
        ),
        (
            {"engine": "ray"},
            "the nodes of a cluster need the index of the table: name a folder for it that all of them see (--join-cache)",
        ),
    ],
)
def test_a_table_is_joined_by_the_feed_only(options: dict[str, Any], said: str, tmp_path: Path):
    path = write_tar(tmp_path / "0.tar", samples(0, 4))
    with pytest.raises(NotJoined) as caught:
        wdsflow.check(path, join="t.csv", join_set={"txt": "caption"}, **options)
    assert str(caught.value) == said
