"""``wdsflow graft`` as a user sees it: exit status and output.

Every command that it prints must work.
"""

import json
from pathlib import Path

import pytest

from tests.printed.pasted import commands, paste, run
from tests.shards.archives import JPEG, read_tar, write_tar

TO_TXT = ["--from", "t.csv", "--set", "txt=caption", "-o", "out"]
ON_KEY = ["graft", "s/0.tar", "s/1.tar", "--on", "key", *TO_TXT]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two shards of two samples, and a table for them."""
    (tmp_path / "s").mkdir()
    for shard in range(2):
        keys = [f"{shard}a", f"{shard}b"]
        urls = {key: json.dumps({"url": f"http://{key}"}).encode() for key in keys}
        write_tar(
            tmp_path / f"s/{shard}.tar",
            [e for key in keys for e in ((f"{key}.jpg", JPEG), (f"{key}.json", urls[key]))],
        )
    write(tmp_path, "0a 0b 1a 1b".split())
    return tmp_path


def write(place: Path, keys: list[str], urls: list[str] | None = None) -> None:
    rows = [
        f"{key},http://{url},caption of {url}" for key, url in zip(keys, urls or keys, strict=True)
    ]
    (place / "t.csv").write_text("\n".join(["key,url,caption", *rows, ""]))


def texts(place: Path) -> list[str]:
    entries = [entry for path in sorted(place.glob("*.tar")) for entry in read_tar(path)]
    return [data.decode() for name, data in entries if name.endswith("txt")]


def test_samples_and_rows_are_counted_and_the_next_command_works(place: Path):
    write(place, ["0a", "0b", "1a", "no"])
    done = run(ON_KEY, place)
    assert done.status == 0, done
    assert "samples: 3 matched + 1 unmatched + 0 ambiguous + 0 without field = 4" in done.out
    assert "rows of the table: 3 used + 1 unmatched = 4" in done.out
    assert texts(place / "out") == ["caption of 0a", "caption of 0b", "caption of 1a"]
    # A sample has no caption.
    assert [paste(command, place).status for command in commands(done.out)] == [1]


def test_keys_of_another_download_are_refused_with_the_command_that_joins_on_the_url(place: Path):
    write(place, ["0a", "0b", "1a", "1b"], ["0b", "0a", "1b", "1a"])
    done = run(ON_KEY, place)
    assert done.status == 2
    assert "4 of 4 compared samples have another url" in done.errors
    assert "0a: the table has http://0b, the shard http://0a" in done.errors
    (command,) = commands(done.errors)
    assert paste(command, place).status == 0
    assert texts(place / "out") == [
        "caption of 0a",
        "caption of 0b",
        "caption of 1a",
        "caption of 1b",
    ]


@pytest.mark.parametrize(("how", "left"), [("first", 4), ("each", 4), ("drop", 2)])
def test_ambiguous_samples_are_refused_with_the_commands_that_resolve_them(
    place: Path, how: str, left: int
):
    write(place, ["0a", "0b", "1a", "1b", "1a", "0b"])
    done = run(ON_KEY, place)
    assert done.status == 2
    advised = commands(done.errors)
    assert len(advised) == 3
    command = next(each for each in advised if each.endswith(how))
    assert paste(command, place).status == 0
    assert len(texts(place / "out")) == left


def test_a_join_without_matches_is_no_success_and_shows_both_sides(place: Path):
    done = run(["graft", "s/0.tar", "s/1.tar", "--on", "json:url=key", *TO_TXT], place)
    assert done.status == 1
    assert "none of 4 samples has a row in t.csv" in done.errors
    assert "the samples have http://0a, http://0b" in done.errors
    assert "the table has 0a, 0b" in done.errors
    assert not (place / "out").exists()
    assert [paste(command, place).status for command in commands(done.errors)] == [0]


def test_other_options_are_refused_with_commands_that_replace_or_keep(place: Path):
    assert run(ON_KEY, place).status == 0
    done = run([*ON_KEY, "--drop-unmatched"], place)
    assert done.status == 2
    advised = commands(done.errors)
    assert len(advised) == 2
    for command in reversed(advised):  # what replaces comes before what keeps
        assert paste(command, place).status == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--on", "key", "--set", "txt=captoin"],
            "such as: wdsflow graft s/0.tar -o out --from t.csv --on key --set txt=caption",
        ),
        (["--on", "keys", "--set", "txt=caption"], "give key, json:NAME, sha256 or xxh3"),
        (["--on", "key", "--set", "jpg=caption"], "images stay as they are"),
        (["--on", "key", "--set", "txt"], "FIELD=COLUMN or json:NAME=COLUMN"),
        (["--on", "key", "--set", "txt:a=caption"], "only json has values with names"),
        (["--on", "key", "--set", "../../x=caption"], "is not a field name"),
        (
            ["--on", "key", "--set", "json=caption", "--set", "json:a=caption"],
            "json:a is set twice",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_written(
    place: Path, options: list[str], message: str
):
    done = run(["graft", "s/0.tar", "--from", "t.csv", "-o", "out", *options], place)
    assert done.status == 2
    assert message in done.errors
    assert not (place / "out").exists()


def test_a_null_for_all_samples_is_no_success(place: Path):
    (place / "t.csv").write_text("key,caption\n0a,\n0b,\n")
    done = run(ON_KEY, place)
    assert done.status == 1
    assert "--set txt=caption changed no sample" in done.errors
    assert "not set: 2 x txt=caption: null in the table" in done.out


def test_damage_is_exit_status_one_and_a_shard_that_is_missing_is_not_silent(place: Path):
    data = (place / "s/1.tar").read_bytes()
    (place / "s/1.tar").write_bytes(data[:2562])
    done = run(ON_KEY, place)
    assert done.status == 1
    assert "lost: at byte 2,048 the contents of a member are cut" in done.out
    assert any(command.startswith("wdsflow validate s/") for command in commands(done.out))
    done = run(
        ["graft", "gone.tar", "--on", "key", "--from", "t.csv", "--set", "txt=caption", "-o", "o"],
        place,
    )
    assert done.status == 2
    assert f"no such file: {place}/gone.tar" in done.errors


@pytest.mark.parametrize(
    ("table", "said", "after"),
    [
        ("Key,Caption\n0a,new\n", "t.csv has no column 'key'", 0),
        ("key, caption\n0a,new\n", "t.csv has no column 'caption'", 0),
        ("id,captions\n0a,new\n", "its first line is taken for the names of the columns", 0),
        ("0b,old\n0a,new\n", "it has 0b, old", None),
        (
            "key;caption\n0a;new\n",
            "its columns are separated by semicolons, not by commas: save it with commas",
            None,
        ),
        (
            "key\tcaption\n0a\tnew\n",
            "separated by tabs, not by commas: give it a name that ends in .tsv",
            None,
        ),
        (
            "key,caption,caption\n0a,1,2\n",
            "t.csv has 2 columns 'caption': give each a name of its own",
            None,
        ),
        ("my key;the,text\n0a;1,2\n", "it has my key;the, text", None),
        (
            "",
            "t.csv is empty, or has no names in its first line, which must name the columns",
            None,
        ),
    ],
)
def test_a_csv_file_with_other_columns_is_refused_with_what_it_has(
    place: Path, table: str, said: str, after
):
    (place / "t.csv").write_text(table)
    done = run(ON_KEY, place)
    assert done.status == 2
    assert said in done.errors
    found = commands(done.errors)
    assert len(found) == (after is not None)
    for command in found:
        assert paste(command, place).status == after


def test_a_table_or_a_join_that_is_not_there_is_refused_with_one_that_is(place: Path):
    for wrong in (["--on", "key", "--from", "tt.csv"], ["--on", "url", "--from", "t.csv"]):
        done = run(
            ["graft", "s/0.tar", *wrong, "--set", "txt=caption", "-o", f"out{wrong[1]}"], place
        )
        assert done.status == 2
        (command,) = commands(done.errors)
        assert paste(command, place).status == 0
