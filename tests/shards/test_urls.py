"""What users write, and the shards that it stands for."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wdsflow.shards.urls import NoShards, expand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("0.tar", "1.tar", "2.tar", "10.tar", "notes.txt"):
        (tmp_path / name).touch()
    return tmp_path


def names(paths: list[str]) -> list[str]:
    return [Path(path).name for path in paths]


def test_a_folder_gives_its_tars_as_people_count(folder: Path) -> None:
    assert names(expand([str(folder)], allow_pipe=True).urls) == [
        "0.tar",
        "1.tar",
        "2.tar",
        "10.tar",
    ]


def test_a_glob_gives_its_matches_as_people_count(folder: Path) -> None:
    assert names(expand([f"{folder}/*.tar"], allow_pipe=True).urls) == [
        "0.tar",
        "1.tar",
        "2.tar",
        "10.tar",
    ]


def test_a_range_keeps_what_is_missing_and_names_it(folder: Path) -> None:
    expansion = expand([f"{folder}/{{0..4}}.tar"], allow_pipe=True)

    assert names(expansion.urls) == ["0.tar", "1.tar", "2.tar", "3.tar", "4.tar"]
    [(pattern, missing, count)] = expansion.gaps
    assert pattern == f"{folder}/{{0..4}}.tar"
    assert names(missing) == ["3.tar", "4.tar"]
    assert count == 2


def test_a_hole_in_a_series_is_named_but_not_added(tmp_path: Path) -> None:
    for number in (0, 1, 3, 4):
        (tmp_path / f"{number:05d}.tar").touch()
    expansion = expand([str(tmp_path)], allow_pipe=True)

    assert len(expansion.urls) == 4
    assert names(expansion.gaps[0][1]) == ["00002.tar"]


def test_numbers_far_apart_are_no_series_with_holes(tmp_path: Path) -> None:
    for number in (20240101, 20250101, 20260101):
        (tmp_path / f"{number}.tar").touch()

    assert expand([str(tmp_path)], allow_pipe=True).gaps == []


@pytest.mark.parametrize("pattern", ["{0..3}x.tar", "x*.tar", "x{a,b}.tar"])
def test_a_pattern_that_matches_nothing_is_an_error_with_a_hint(folder: Path, pattern: str) -> None:
    with pytest.raises(NoShards) as caught:
        expand([f"{folder}/{pattern}"], allow_pipe=True)

    assert caught.value.hint


def test_a_plain_path_stays_though_it_does_not_exist(folder: Path) -> None:
    assert names(expand([f"{folder}/nine.tar", f"{folder}/0.tar"], allow_pipe=True).urls) == [
        "nine.tar",
        "0.tar",
    ]


@pytest.mark.parametrize(
    "pattern", ["{1..10000000000000000}.tar", "{1..99999}{1..99999}.tar", "{0..9}" * 30]
)
def test_more_names_than_memory_holds_are_refused_at_once(pattern: str) -> None:
    with pytest.raises(NoShards, match="no shards match"):
        expand([pattern], allow_pipe=True)


def test_shards_that_differ_only_in_secrets_have_different_texts() -> None:
    urls = [f"https://host/a.tar?token=secret{number}&part=1" for number in range(3)]
    found = expand(
        [urls[0], urls[1], urls[0], "https://host/b.tar?token=secret0"], allow_pipe=False
    )
    first, second, again, other = found.urls
    assert (first, second) == (
        "https://host/a.tar?token=***&part=1",
        "https://host/a.tar?token=***2&part=1",
    )
    assert (again, other) == (first, "https://host/b.tar?token=***")
    assert [shard.exact for shard in found.urls[:2]] == urls[:2]
    both = [f"https://me:password{number}@host/a.tar?token=secret{number}" for number in range(2)]
    texts = ["https://***@host/a.tar?token=***", "https://***2@host/a.tar?token=***"]
    assert expand(both, allow_pipe=False).urls == texts


def test_a_list_gives_its_lines(folder: Path) -> None:
    listing = folder / "list.txt"
    listing.write_text(f"# chosen\n{folder}/2.tar\n\n  {folder}/{{0..1}}.tar\n")

    assert names(expand([f"@{listing}"], allow_pipe=True).urls) == ["2.tar", "0.tar", "1.tar"]


@pytest.mark.parametrize("content", [None, "", "# nothing\n"])
def test_a_list_without_a_line_is_an_error(tmp_path: Path, content: str | None) -> None:
    listing = tmp_path / "list.txt"
    if content is not None:
        listing.write_text(content)
    with pytest.raises(NoShards):
        expand([f"@{listing}"], allow_pipe=True)


def test_colons_part_sources_and_pipes_are_left_alone(folder: Path) -> None:
    assert names(expand([f"{folder}/0.tar::{folder}/1.tar"], allow_pipe=True).urls) == [
        "0.tar",
        "1.tar",
    ]
    assert expand(["pipe:cat a::b"], allow_pipe=True).urls == ["pipe:cat a::b"]


def test_remote_urls_have_braces_but_no_globs() -> None:
    assert expand(["s3://bucket/{0..1}.tar?x=*"], allow_pipe=True).urls == [
        "s3://bucket/0.tar?x=*",
        "s3://bucket/1.tar?x=*",
    ]


def test_file_urls_are_paths(folder: Path) -> None:
    assert expand([f"file:{folder}/0.tar", f"file://{folder}/1.tar"], allow_pipe=True).urls == [
        f"{folder}/0.tar",
        f"{folder}/1.tar",
    ]


def test_variables_are_webdatasets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDS_ROOT", str(folder))

    assert expand(["${ROOT}/0.tar"], allow_pipe=True).urls == [f"{folder}/0.tar"]
    with pytest.raises(NoShards) as caught:
        expand(["${NOWHERE_TO_BE_FOUND}/0.tar"], allow_pipe=True)
    assert "WDS_NOWHERE_TO_BE_FOUND" in caught.value.hint


def test_a_file_whose_name_has_braces_is_itself(tmp_path: Path) -> None:
    path = tmp_path / "{a}[b].tar"
    path.touch()

    assert expand([str(path)], allow_pipe=True).urls == [str(path)]


@given(st.text("ab{},.*?[]$:@/0129-~", max_size=12))
def test_whatever_is_written_gives_shards_or_one_kind_of_error(text: str) -> None:
    with contextlib.suppress(NoShards):
        assert all(isinstance(url, str) for url in expand([text], allow_pipe=True).urls)
