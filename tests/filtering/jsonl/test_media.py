import json

import pytest

pytest.importorskip("av")

from tests.filtering.jsonl.files import write_lines
from tests.videos import video
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_filter import filter_shards
from wdsflow.filtering.run_options import RunOptions


def test_videos_of_rows_have_scores(tmp_path):
    for number, length in enumerate((10, 30, 20)):
        (tmp_path / f"{number}.mp4").write_bytes(video(length))
    lines = [
        {"text": "<__dj__video> short", "videos": ["0.mp4"]},
        {"text": "<__dj__video> long <__dj__video>", "videos": ["1.mp4", "2.mp4"]},
    ]
    path = write_lines(tmp_path, [json.dumps(line).encode() for line in lines])
    report = filter_shards(str(path), tmp_path / "out", Recipe(where="duration >= 2"), RunOptions(jobs=0))
    assert (report.total("kept"), report.merged("dropped")) == (1, {"duration >= 2": 1})
    rows, _ = read_ledger(tmp_path / "out/_wdsflow/ledger/data.parquet")
    assert [list(row.values.values()) for row in rows] == [[1.0], [[3.0, 2.0]]]


def test_a_video_in_a_tar_needs_no_image_beside_it(tmp_path):
    from tests.shards.archives import write_tar

    cut = video(100, keys=10)[:-3000]
    entries = [("a.mp4", video(30)), ("a.txt", b"x"), ("b.mp4", video(10)), ("b.txt", b"y"), ("c.mp4", cut)]
    write_tar(tmp_path / "0.tar", entries)
    report = filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", Recipe(where="duration >= 2"), RunOptions(jobs=0))
    assert (report.total("kept"), report.merged("dropped")) == (1, {"duration >= 2": 1})
    assert set(report.merged("quarantined")) <= {"undecodable", "truncated"}
    assert sum(report.merged("quarantined").values()) == 1
