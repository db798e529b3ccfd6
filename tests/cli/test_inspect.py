import json

import pytest

from tests.cli import shards
from wdsflow.cli.main import main


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", *words])
    return int(ended.value.code or 0)


def test_fields_captions_and_images_are_on_the_screen(tmp_path, capsys):
    assert run(shards.with_json(tmp_path)) == 0
    shown = capsys.readouterr().out
    for wanted in (
        "2 shards, 16 samples, 32 members",
        "16  jpg json",
        "caption",
        "picture number 0 of 0",
        "jpeg 16",
    ):
        assert wanted in shown


def test_the_first_samples_are_listed_over_shard_borders(tmp_path, capsys):
    assert run(shards.with_txt(tmp_path), "--keys", "10") == 0
    shown = capsys.readouterr().out
    assert "First samples of 0000.tar" in shown
    assert "000007" in shown
    assert "010001" in shown
    assert "010002" not in shown


def test_json_gives_offsets_where_the_members_lie(tmp_path, capsys):
    pattern = shards.with_txt(tmp_path, shards=1)
    assert run(pattern, "--json", "--keys", "2") == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["fields"]["jpg"]["count"] == 8
    second = tree["first_samples"][1]
    data = (tmp_path / "0000.tar").read_bytes()
    image, caption = second["members"]
    assert data[second["offset"] :].startswith(b"000001.jpg\0")
    assert data[image["offset"] :].startswith(b"\xff\xd8")
    assert data[caption["offset"] :][: caption["size"]] == b"picture number 1 of 0"


def test_what_cannot_be_read_is_status_2(tmp_path, capsys):
    (tmp_path / "a.tar").write_text("<html>404</html>")
    assert run(str(tmp_path / "a.tar")) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert (
        shown.err
        == f"wdsflow: nothing could be read: {tmp_path}/a.tar: not a tar: looks like HTML page\n"
    )
    assert run(str(tmp_path / "none*.tar")) == 2
    assert "no shards match" in capsys.readouterr().err
