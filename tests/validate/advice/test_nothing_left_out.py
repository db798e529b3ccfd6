"""Where a repair loses no sample, it is printed without the option that leaves samples out."""

import json
from pathlib import Path

from tests.pictures import encoded, photo
from tests.shards.archives import write_tar
from wdsflow.validate.run_check import check


def repairs(path: Path) -> list[tuple[bool, tuple[str, ...]]]:
    found = check(str(path), level="headers", select=["F112"]).findings
    return [(each.repair.safe, each.repair.options) for each in found if each.repair]


def shard(path: Path, captioned: range) -> Path:
    members = []
    for number in range(8):
        value = {"caption": f"a picture {number}"} if number in captioned else {}
        text = b"" if number % 2 else b"a"
        members += [
            (f"{number}.jpg", encoded(photo(seed=number), "JPEG")),
            (f"{number}.json", json.dumps(value).encode()),
            (f"{number}.txt", text),
        ]
    write_tar(path, members)
    return path


def test_empty_captions_with_others_in_json_are_replaced_without_leaving_samples_out(tmp_path: Path) -> None:
    assert repairs(shard(tmp_path / "all.tar", range(8))) == [(True, ("--caption", "json:caption"))]


def test_samples_without_another_caption_are_left_out(tmp_path: Path) -> None:
    ((safe, options),) = repairs(shard(tmp_path / "some.tar", range(4)))
    assert not safe
    assert "--drop-bad" in options
