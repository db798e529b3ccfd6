"""JSON lines written as tars: what is in them, where one ends, and what a second run finds."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.filtering.jsonl.files import END, IMAGE, rows, write_images, write_lines, write_set
from tests.filtering.shards import digests
from wdsflow.filtering.ledger.export import export
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_filter import cut_shards, filter_shards, measure_shards
from wdsflow.filtering.run_folder import Layout
from wdsflow.filtering.run_options import RunOptions
from wdsflow.filtering.run_report import RunReport
from wdsflow.validate.run_check import check

HERE = RunOptions(jobs=0)


def to_tar(
    source: Any, out: Path, where: str = "min_side >= 150", options: RunOptions = HERE, **more: Any
) -> RunReport:
    return filter_shards(source, out, Recipe(where=where, lines_to="tar", **more), options)


def contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]


def test_a_row_is_a_sample_with_its_image_its_text_and_itself(tmp_path):
    path = write_set(tmp_path / "in")
    lines = path.read_bytes().splitlines()
    report = to_tar(str(path), tmp_path / "out")
    assert report.total("kept") == 4
    found = contents(tmp_path / "out/data-000000.tar")
    expected = {}
    for number in (1, 2, 3, 5):
        key = f"data-{number:08d}"
        expected[f"{key}.jpg"] = (tmp_path / f"in/images/{number}.jpg").read_bytes()
        expected[f"{key}.txt"] = f"words of number {number}".encode()
        expected[f"{key}.json"] = lines[number].strip()
    assert found == expected
    assert list(found) == list(expected)
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"data-000000.tar": 4}
    assert (tmp_path / "out/__len__").read_text() == "4\n"
    assert not list((tmp_path / "out").glob("*.jsonl"))
    assert export(Layout(tmp_path / "out"), report.records, tmp_path / "kept.txt") == 4
    assert (tmp_path / "kept.txt").read_text().split() == [f"data-{number:08d}" for number in (1, 2, 3, 5)]


def test_several_images_and_chunks_are_one_sample_whose_first_image_trains(tmp_path):
    names = write_images(tmp_path, 3)
    (tmp_path / "b.png").write_bytes((tmp_path / names[1]).read_bytes())
    row = {"text": f"{IMAGE} one {END}{IMAGE}{IMAGE} two", "images": [names[0], "b.png", names[2]]}
    path = write_lines(tmp_path, [json.dumps(row).encode()])
    to_tar(str(path), tmp_path / "out", "min(width) > 0")
    found = contents(tmp_path / "out/data-000000.tar")
    assert [name.partition(".")[2] for name in found] == ["jpg", "1.png", "2.jpg", "txt", "json"]
    assert found["data-00000000.txt"] == b"one\ntwo"


def test_tars_end_by_samples_and_by_bytes_and_are_clean(tmp_path):
    path = write_set(tmp_path / "in", count=23)
    whole = to_tar(str(path), tmp_path / "out", "width > 0", tar_samples=5)
    sizes = json.loads((tmp_path / "out/sizes.json").read_text())
    assert list(sizes.values()) == [5, 5, 5, 5, 3]
    assert whole.total("kept") == 23
    report = check(str(tmp_path / "out"), ["open-clip-3.3"], jobs=1)
    assert report.evidence.samples == 23
    assert not [finding for finding in report.findings if finding.severity != "info"], report.findings
    largest = max(file.stat().st_size for file in (tmp_path / "in/images").iterdir())
    to_tar(str(path), tmp_path / "small", "width > 0", tar_size=str(3 * largest))
    tars = sorted((tmp_path / "small").glob("*.tar"))
    assert len(tars) > 3
    assert all(tar.stat().st_size <= 3 * largest for tar in tars)
    alone = {name: data for tar in tars for name, data in contents(tar).items()}
    assert alone == {name: data for tar in (tmp_path / "out").glob("*.tar") for name, data in contents(tar).items()}


def test_a_second_run_finds_all_done_and_workers_write_the_same_bytes(tmp_path):
    path = write_set(tmp_path / "in", count=9)
    to_tar(str(path), tmp_path / "out", tar_samples=2)
    before = digests(tmp_path / "out")
    assert to_tar(str(path), tmp_path / "out", tar_samples=2).resumed == 1
    to_tar(str(path), tmp_path / "there", tar_samples=2, options=RunOptions(jobs=1))
    assert digests(tmp_path / "out") == before == digests(tmp_path / "there")
    (tmp_path / "out/data-000001.tar").write_bytes(b"")
    again = to_tar(str(path), tmp_path / "out", tar_samples=2)
    assert "data-000001.tar was changed since it was written" in again.changed[0]
    assert digests(tmp_path / "out") == before
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    to_tar(str(path), tmp_path / "out", tar_samples=2)
    assert len(list((tmp_path / "out").glob("*.tar"))) == 2
    to_tar(str(path), tmp_path / "out", "min_side > 9999", tar_samples=2, options=RunOptions(jobs=0, restart=True))
    assert not list((tmp_path / "out").glob("*.tar"))


def test_a_restart_removes_no_file_with_the_name_that_lines_would_have(tmp_path):
    path = write_set(tmp_path / "in")
    (tmp_path / "out").mkdir()
    for name in ("data.jsonl", "data.stats.jsonl", "data-00001.tar.txt"):
        (tmp_path / "out" / name).write_text("of the user")
    to_tar(str(path), tmp_path / "out")
    to_tar(str(path), tmp_path / "out", "min_side >= 9999", options=RunOptions(jobs=0, restart=True))
    assert {each.name for each in (tmp_path / "out").iterdir() if each.is_file()} == {
        "__len__", "sizes.json", "data.jsonl", "data.stats.jsonl", "data-00001.tar.txt",
    }  # fmt: skip


def test_rows_whose_files_cannot_be_copied_are_put_aside(tmp_path):
    names = write_images(tmp_path, 3)
    lines = list(rows([names[0], "images/empty.jpg", "images/none.jpg", names[1]]))
    lines.append(json.dumps({"text": f"{IMAGE} half \ud800 a pair", "images": names[:1]}).encode())
    (tmp_path / "images/empty.jpg").touch()
    report = to_tar(str(write_lines(tmp_path, lines)), tmp_path / "out", "caption_words > 0")
    assert (report.total("kept"), report.merged("quarantined")) == (
        2,
        {"empty-file": 1, "missing-file": 1, "not-text": 1},
    )
    assert (tmp_path / "out/_wdsflow/quarantine/data.jsonl").exists()


def test_an_empty_tar_is_written_where_it_is_asked_for(tmp_path):
    path = write_set(tmp_path / "in")
    to_tar(str(path), tmp_path / "out", "width > 9999", empty="write")
    assert contents(tmp_path / "out/data-000000.tar") == {}
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"data-000000.tar": 0}


def test_tars_can_be_cut_with_the_tokens_that_rows_were_scored_by(tmp_path):
    path = write_set(tmp_path / "in", token="<image>")
    measure_shards(str(path), tmp_path / "scores", Recipe(scores=("min_side",), image_token="<image>"), HERE)
    recipe = Recipe(where="min_side >= 220", lines_to="tar")
    cut_shards(str(path), tmp_path / "cut", tmp_path / "scores", recipe, HERE)
    assert contents(tmp_path / "cut/data-000000.tar")["data-00000002.txt"] == b"words of number 2"


def test_names_that_would_be_written_twice_are_refused(tmp_path):
    path = write_set(tmp_path / "in")
    (tmp_path / "in/data-000000.tar").write_bytes(b"")
    with pytest.raises(ValueError, match="would both write"):
        to_tar([str(path), str(tmp_path / "in/data-000000.tar")], tmp_path / "out")
    with pytest.raises(FileExistsError):
        to_tar(str(path), tmp_path / "in")
    for wrong in ({"tar_samples": 0}, {"tar_size": "much"}):
        with pytest.raises(ValueError, match=r"sample|much"):
            to_tar(str(path), tmp_path / "out", **wrong)
