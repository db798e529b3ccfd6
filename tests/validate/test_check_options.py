"""Options of ``wdsflow.check`` as users write them in Python."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import wdsflow
from tests.training.shards import samples, write_tar
from wdsflow.readers import UnknownReader


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
