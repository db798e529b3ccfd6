"""A run resumes whatever its manifest holds.

A line that is not valid means that its shard is done again, and nothing else.
"""

import json
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.depth import cases
from tests.filtering.shards import digests, write_shards
from wdsflow import Recipe, RunOptions, filter_shards
from wdsflow.filtering.run_differences import Differs
from wdsflow.records.run_folder import ShardRecord

HERE = RunOptions(jobs=0)
LARGE = Recipe(where="min_side >= 200")
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with a finished run, and its digests."""
    folder = tmp_path_factory.mktemp("done")
    write_shards(folder / "in", shards=1, samples=4)
    filter_shards(str(folder / "in"), folder / "out", LARGE, HERE)
    return folder, digests(folder / "out")


def resumes(folder: Path, whole: dict[str, str], lines: bytes) -> None:
    (folder / "out" / ".wdsflow" / "manifest.jsonl").write_bytes(lines)
    filter_shards(str(folder / "in"), folder / "out", LARGE, HERE)
    assert digests(folder / "out") == whole


@cases(8)
@given(
    st.sampled_from([field.name for field in fields(ShardRecord) if field.name != "failing"]),
    trees,
    st.booleans(),
)
def test_a_line_with_a_value_of_any_other_kind_never_stops_the_next_run(done, name, value, missing):
    folder, whole = done
    line = (folder / "out" / ".wdsflow" / "manifest.jsonl").read_bytes().splitlines()[0]
    tree = json.loads(line)
    if missing:
        tree.pop(name, None)  # some are only there if they are not zero
    else:
        tree[name] = value
    for other in (json.dumps(value).encode(), json.dumps(tree).encode()):
        try:
            ShardRecord.from_line(other)
        except ValueError:
            resumes(folder, whole, other + b"\n" + line[: len(other)])
        else:  # as plausible as what stood there
            resumes(folder, whole, other + b"\n" + line + b"\n")


@pytest.mark.sample(2)
@pytest.mark.parametrize("keep", [0, 1, 40, -2, -1])
def test_a_line_that_is_cut_anywhere_is_done_again(done, keep):
    folder, whole = done
    resumes(folder, whole, (folder / "out" / ".wdsflow" / "manifest.jsonl").read_bytes()[:keep])


def test_a_request_that_was_damaged_is_named(tmp_path):
    source = write_shards(tmp_path / "in", shards=1, samples=4)
    filter_shards(source, tmp_path / "out", Recipe(), HERE)
    path = tmp_path / "out" / ".wdsflow" / "run.json"
    for text in (b"[1]", b"{}", b'{"names": 3, "urls": []}', b"{", b"\xff"):
        path.write_bytes(text)
        with pytest.raises(FileExistsError, match=r"run\.json is damaged"):
            filter_shards(source, tmp_path / "out", Recipe(), HERE)


@pytest.mark.deep
def test_work_whose_manifest_cannot_be_read_is_never_removed_for_another_run(tmp_path: Path):
    """A line of a later version is none to this one: what it stands for is there all the same."""
    source = write_shards(tmp_path / "in", shards=2, samples=4)
    filter_shards(source, tmp_path / "out", LARGE, HERE)
    manifest = tmp_path / "out" / ".wdsflow" / "manifest.jsonl"
    for text in (manifest.read_text().replace('{"shard"', '{"later":1,"shard"'), ""):
        manifest.write_text(text)
        before = digests(tmp_path / "out")
        with pytest.raises(Differs):
            filter_shards(source, tmp_path / "out", Recipe(where="min_side >= 100"), HERE)
        (tmp_path / "in").rename(tmp_path / "away")
        (tmp_path / "in").mkdir()
        for number in range(2):
            (tmp_path / "in" / f"{number:05d}.tar").write_text("<html>")
        assert filter_shards(source, tmp_path / "out", LARGE, HERE).unread
        assert digests(tmp_path / "out") == before
        shutil.rmtree(tmp_path / "in")
        (tmp_path / "away").rename(tmp_path / "in")


@pytest.mark.parametrize(
    ("there", "asked", "message"),
    [
        (
            {"scores": {"blur": {"versions": {"pillow": "11.0"}}}},
            {"scores": {"blur": {"versions": {"pillow": "12.0"}}}},
            'holds a measurement with blur by pillow "11.0"; this run has blur by pillow "12.0"',
        ),
        (
            {"code": 3},
            {"code": 4},
            "holds a measurement with outcomes of version 3; this run has outcomes of version 4",
        ),
        (
            {"scores": {"flagged": {"words": [str(at) for at in range(20)]}}},
            {"scores": {"flagged": {"words": [str(at) for at in range(3, 21)]}}},
            "1 are new, 3 are missing",
        ),
    ],
)
def test_the_same_command_with_other_libraries_or_another_release_names_what_differs(
    there, asked, message
):
    run = {"kind": "measure", "recipe": {}, "urls": ["0.tar"], "wdsflow": "0.1"}
    assert message in str(
        Differs(Path("out"), {**run, **there}, {**run, **asked, "wdsflow": "0.2"})
    )
