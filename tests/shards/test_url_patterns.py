"""Patterns in their odder forms: order, gaps, nesting, bounds."""

from random import Random

import braceexpand
import pytest

from wdsflow.shards.braces import BadPattern, count_names, expand_braces
from wdsflow.shards.numbered_names import missing_numbers
from wdsflow.shards.urls import NoShards, expand


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_braces_and_several_sources_keep_their_order(folder):
    touch(folder, *(f"a-{number:03d}.tar" for number in range(3)), "b.tar")
    found = expand(["b.tar::a-{000..002}.tar", "{b,a-001}.tar"], allow_pipe=True)
    assert found.urls == ["b.tar", "a-000.tar", "a-001.tar", "a-002.tar", "b.tar", "a-001.tar"]
    assert found.gaps == []


def test_a_range_with_a_gap_keeps_the_missing_names_and_tells_them(folder):
    touch(folder, "0.tar", "1.tar", "4.tar")
    found = expand(["{0..5}.tar"], allow_pipe=True)
    assert found.urls == [f"{number}.tar" for number in range(6)]
    assert found.gaps == [("{0..5}.tar", ["2.tar", "3.tar", "5.tar"], 3)]


def test_of_a_large_gap_only_the_first_names_are_told(folder):
    touch(folder, "part/000000.tar")
    found = expand(["part/{000000..000999}.tar"], allow_pipe=True)
    assert len(found.urls) == 1000
    assert found.gaps == [
        ("part/{000000..000999}.tar", [f"part/{n:06d}.tar" for n in range(1, 21)], 999)
    ]


def test_a_folder_gives_its_shards_in_natural_order(folder):
    touch(
        folder,
        "d/10.tar",
        "d/9.tar",
        "d/8.tar.gz",
        "d/11.TAR",
        "d/12.tar.zst",
        "d/._10.tar",
        "d/10.json",
        "d/sub/1.tar",
    )
    assert expand(["d"], allow_pipe=True).urls == [
        "d/8.tar.gz",
        "d/9.tar",
        "d/10.tar",
        "d/11.TAR",
        "d/12.tar.zst",
    ]
    assert expand(["d/"], allow_pipe=True).urls == expand(["d"], allow_pipe=True).urls


def test_a_glob_gives_shards_and_not_their_sidecars(folder):
    touch(folder, "d/0.tar", "d/0_stats.json", "d/1.tar", "e/odd.bin")
    assert expand(["d/*"], allow_pipe=True).urls == ["d/0.tar", "d/1.tar"]
    assert expand(["d/[1-9].tar", "?/0.tar"], allow_pipe=True).urls == ["d/1.tar", "d/0.tar"]
    assert expand(["e/*"], allow_pipe=True).urls == ["e/odd.bin"]
    assert expand(["[de]"], allow_pipe=True).urls == ["d/0.tar", "d/1.tar"]
    assert expand(["**/1.tar"], allow_pipe=True).urls == ["d/1.tar"]


def test_a_number_missing_in_a_folder_is_a_gap_and_is_not_added(folder):
    touch(folder, *(f"d/s-{number:05d}.tar" for number in (0, 1, 3, 4, 5)))
    found = expand(["d"], allow_pipe=True)
    assert len(found.urls) == 5
    assert found.gaps == [("d", ["d/s-00002.tar"], 1)]
    assert expand(["d/*.tar"], allow_pipe=True).gaps == [("d/*.tar", ["d/s-00002.tar"], 1)]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["0.tar", "1.tar", "2.tar"], []),
        (["3.tar", "4.tar", "9.tar"], []),
        (["20240101.tar", "20240307.tar"], []),
        (
            ["train-0-of-3.tar", "train-1-of-3.tar", "train-3-of-3.tar", "train-4-of-3.tar"],
            ["train-2-of-3.tar"],
        ),
        (["a/0.tar", "a/1.tar", "b/1.tar", "b/2.tar"], []),
        (["a1/0.tar", "a1/2.tar", "a1/3.tar", "a2/5.tar"], ["a1/1.tar"]),
        (["8.tar", "9.tar", "11.tar", "12.tar"], ["10.tar"]),
        (["9" * 30 + ".tar", "1.tar"], []),
        ([], []),
    ],
)
def test_gaps_are_found_in_series_only(names, missing):
    assert [name for gap in missing_numbers(names) for name in gap.names] == missing


@pytest.mark.parametrize(
    "pattern",
    ["none/*.tar", "none-{0..3}.tar", "empty", "empty/", "{empty,empty}", "@empty.txt", ""],
)
def test_what_matches_nothing_is_an_error(folder, pattern):
    (folder / "empty").mkdir()
    (folder / "empty.txt").write_text("# nothing\n\n")
    with pytest.raises(NoShards) as caught:
        expand([pattern], allow_pipe=True)
    assert repr(pattern) in str(caught.value)
    assert caught.value.hint


def test_the_error_says_what_is_there_instead(folder):
    touch(folder, "shards/00000.tar", "shards/00001.tar")
    with pytest.raises(NoShards) as caught:
        expand(["shards/{000..001}.tar"], allow_pipe=True)
    assert caught.value.hint.startswith("shards has 2 tars, such as 0000")


def test_a_plain_path_stays_whether_it_exists_or_not(folder):
    touch(folder, "here.tar")
    assert expand(["here.tar", "gone.tar"], allow_pipe=True) == (["here.tar", "gone.tar"], [])
    assert expand("gone.tar", allow_pipe=True).urls == ["gone.tar"]


def test_a_file_whose_name_looks_like_a_pattern_is_taken_as_it_is(folder):
    touch(folder, "a[1].tar", "b{1..2}.tar", "c{.tar")
    assert expand(["a[1].tar", "b{1..2}.tar", "c{.tar"], allow_pipe=True).urls == [
        "a[1].tar",
        "b{1..2}.tar",
        "c{.tar",
    ]


def test_a_list_names_patterns_a_line(folder):
    touch(folder, "d/0.tar", "d/1.tar", "e.tar")
    (folder / "list.txt").write_text(
        "# shards\n\n  d/{0..1}.tar  \ne.tar\ns3://bucket/{0..1}.tar\ngone.tar\n"
    )
    urls = ["d/0.tar", "d/1.tar", "e.tar", "s3://bucket/0.tar", "s3://bucket/1.tar", "gone.tar"]
    assert expand(["@list.txt"], allow_pipe=True).urls == urls
    (folder / "round.txt").write_text("@round.txt\n")
    with pytest.raises(NoShards):
        expand(["@round.txt"], allow_pipe=True)
    with pytest.raises(NoShards, match="@none"):
        expand(["@none.txt"], allow_pipe=True)


def test_other_urls_pass_with_their_braces_expanded_and_nothing_else():
    assert expand(["s3://b/{0..1}.tar::gs://bucket/x/0.tar"], allow_pipe=True).urls == [
        "s3://b/0.tar",
        "s3://b/1.tar",
        "gs://bucket/x/0.tar",
    ]
    # As webdataset does before a shell sees the command.
    assert expand(["pipe:cat a::b {0..1}.tar"], allow_pipe=True).urls == [
        "pipe:cat a::b 0.tar",
        "pipe:cat a::b 1.tar",
    ]
    assert expand(["pipe:cat 0.tar::pipe:cat 1.tar"], allow_pipe=True).urls == [
        "pipe:cat 0.tar",
        "pipe:cat 1.tar",
    ]
    assert expand(["pipe:awk '{print}' ${HOME}/0.tar"], allow_pipe=True).urls == [
        "pipe:awk '{print}' ${HOME}/0.tar"
    ]
    assert expand(["pipe:awk '{' x"], allow_pipe=True).urls == ["pipe:awk '{' x"]


def test_file_urls_home_and_the_environment_are_resolved(folder, monkeypatch):
    touch(folder, "d/0.tar", "d/1.tar")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("WDS_WHERE", str(folder / "${INNER}"))
    monkeypatch.setenv("WDS_INNER", "d")
    expected = [str(folder / "d/0.tar"), str(folder / "d/1.tar")]
    for pattern in (
        f"file:{folder}/d/*.tar",
        f"file://{folder}/d/{{0..1}}.tar",
        "~/d",
        "${WHERE}/{0..1}.tar",
    ):
        assert expand([pattern], allow_pipe=True).urls == expected
    with pytest.raises(NoShards, match="NOWHERE"):
        expand(["${NOWHERE}/a.tar"], allow_pipe=True)


@pytest.mark.parametrize(
    "pattern",
    [
        "{1..10000000000000000}.tar",
        "{0..99999}{0..99999}.tar",
        "{a{0..9999999},b}.tar",
        "{0..9}" * 20,
        "{" * 3000,
        "a{b.tar",
    ],
)
def test_patterns_that_name_too_much_or_make_no_sense_are_refused_at_once(pattern):
    with pytest.raises(BadPattern):
        expand_braces(pattern)
    with pytest.raises(NoShards):
        expand([pattern], allow_pipe=True)


def test_names_are_counted_as_braceexpand_makes_them():
    pieces = [
        "{0..3}",
        "{08..1}",
        "{1..9..4}",
        "{a,b,c}",
        "{a,{0..2}}",
        "{x}",
        "-",
        "{-2..1}",
        "{,.gz}",
        "\\{",
        "\\,",
        "{a,b{1,2}c}",
    ]
    for seed in range(300):
        pattern = "".join(Random(seed).choices(pieces, k=4))
        names = list(braceexpand.braceexpand(pattern))
        assert count_names(pattern) == len(names)
        assert expand_braces(pattern) == names
