"""A location of captions that no sample has is refused before the first shard.

The message names the location that has captions.
"""

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.filtering.shards import picture
from tests.shards.archives import Entry, read_tar, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.inputs.caption_search import NoCaptions
from wdsflow.filtering.recipe.recipe_file import merged_recipe
from wdsflow.stages import Rename

HERE = RunOptions(jobs=0)
WORDS = "caption_words >= 2"
IMAGE = picture(20, 20)


def in_json(number: int, name: str = "description") -> Entry:
    tree = {"url": f"http://host/{number}.jpg", "license": "by", name: "a picture of something"}
    return f"{number:03d}.json", json.dumps(tree).encode()


def in_text(number: int, field: str = "txt") -> Entry:
    return f"{number:03d}.{field}", b"a text of words"


def write_set(folder: Path, *captions: list[Entry]) -> str:
    """Write shards of samples with an image and the members that are given."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, entries in enumerate(captions):
        keys = dict.fromkeys(name.partition(".")[0] for name, _ in entries)
        images = [(f"{key}.jpg", IMAGE) for key in keys]
        write_tar(folder / f"{number}.tar", sorted([*images, *entries]))
    return str(folder)


JSON = [[in_json(number) for number in range(start, start + 4)] for start in (0, 4)]
TEXT = [[in_text(number) for number in range(4)]]
NONE = "none in 'txt'; it has 'jpg', 'json'"
LATE = [*JSON, [in_json(8), in_text(9)]]  # one sample of twelve, the last one, has a text


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("entries", "asked", "found"),
    [
        (JSON, "txt", "json:description"),
        (JSON, "json:descriptoin", "json:description"),
        (JSON, "json:licence", "json:license"),
        (JSON, "jsn:description", "json:description"),
        (JSON, "caption;text", "json:description"),
        (TEXT, "json:description", "txt"),
        ([[in_text(1, "caption")]], "txt", "caption"),
        ([[in_json(1), in_json(2), in_text(3, "text")]], "txt", "json:description|text"),
        ([[("1.cls", b"3")]], "txt", None),
    ],
)
def test_a_place_that_no_sample_has_is_refused_with_the_one_that_has_captions(
    tmp_path, entries, asked, found
):
    source = write_set(tmp_path / "in", *entries)
    for run, recipe in (
        (filter_shards, Recipe(where=WORDS, caption=asked)),
        (measure_shards, Recipe(scores=("caption_words",), caption=asked)),
        (filter_shards, Recipe(where=f'caption_words(caption="{asked}") >= 2', unknown="keep")),
    ):
        with pytest.raises(NoCaptions, match="no sample has a caption in ") as refused:
            run(source, tmp_path / "out", recipe, HERE)
        assert (refused.value.fields, refused.value.nearest and refused.value.nearest.fields) == (
            asked,
            found,
        )
        assert not (tmp_path / "out").exists()
    if found is not None:
        report = filter_shards(
            source, tmp_path / "out", Recipe(where="length(caption) > 1", caption=found), HERE
        )
        assert report.total("kept") == report.total("samples")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("entries", "recipe", "kept"),
    [
        (LATE, Recipe(where=WORDS), 1),
        (LATE, Recipe(where=WORDS, caption="json:description"), 9),
        (LATE, Recipe(where=WORDS, caption="txt|json:description"), 10),
        (JSON, Recipe(where="width > 1"), 8),  # the default place, and nobody looks there
        (JSON, Recipe(where="caption_words is None or caption_words > 2"), 8),
        (JSON, Recipe(where='caption_words(caption="json:description") > 2'), 8),
        (
            JSON,
            Recipe(
                where="has('caption')", stages=(Rename({"caption": "txt;json"}),), caption="caption"
            ),
            8,
        ),
        # There, but not readable: that is the sample's fault.
        (
            [[("1.txt", b"\xff")]],
            Recipe(where=WORDS),
            0,
        ),
        ([[("1.json", b"{")]], Recipe(where=WORDS, caption="json:description"), 0),
    ],
)
def test_a_set_of_which_some_samples_have_the_place_is_filtered(tmp_path, entries, recipe, kept):
    report = filter_shards(write_set(tmp_path / "in", *entries), tmp_path / "out", recipe, HERE)
    assert report.total("kept") == kept


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("entries", "picked"),
    [
        (JSON, "json:description"),
        (TEXT, "txt"),
        (LATE, "json:description|txt"),
        ([[in_text(1), in_text(2), in_json(3)]], "txt|json:description"),
        ([[in_text(1), in_json(1, "alt")]], "txt"),
        ([[("1.0.txt", b"one"), ("1.1.txt", b"two")]], "txt"),
        ([[in_json(1, "caption"), ("001.txt", b" ")]], "json:caption"),
    ],
)
def test_auto_picks_the_place_says_so_and_writes_it_into_the_recipe(tmp_path, entries, picked):
    source, told = write_set(tmp_path / "in", *entries), list[str]()
    recipe = Recipe(where="length(caption) > 0", caption="auto")
    report = filter_shards(source, tmp_path / "out", recipe, RunOptions(jobs=0, say=told.append))
    assert report.total("kept") == report.total("samples")
    assert told[0].startswith("--caption auto: ")
    assert f" in {picked}, such as " in told[0]
    assert merged_recipe(tmp_path / "out" / ".wdsflow" / "run.json", {}).caption == picked
    ledger = pq.read_schema(tmp_path / "out" / ".wdsflow" / "ledger" / "0.parquet")
    assert json.loads(ledger.metadata[b"wdsflow"])["recipe"]["caption"] == picked
    # The same command resumes, and takes what was picked then.
    write_set(tmp_path / "in", [*entries[0], *(in_text(number) for number in range(90, 99))])
    again = filter_shards(source, tmp_path / "out", recipe, RunOptions(jobs=0, say=told.append))
    assert told[1] == f"--caption auto: {picked}"
    assert again.resumed == len(entries) - 1


def test_shards_elsewhere_and_compressed_ones_are_looked_at_as_well(tmp_path: Path):
    import fsspec

    source = Path(write_set(tmp_path / "in", *JSON))
    with fsspec.open("memory://captions/0.tar", "wb") as file:
        file.write((source / "0.tar").read_bytes())
    (tmp_path / "0.tar.gz").write_bytes(gzip.compress((source / "0.tar").read_bytes()))
    for url in ("memory://captions/0.tar", str(tmp_path / "0.tar.gz")):
        with pytest.raises(
            NoCaptions,
            match="no sample has a caption in txt: found jpg, json in 4 samples of 1 shard",
        ):
            filter_shards(url, tmp_path / "out", Recipe(where=WORDS), HERE)
        report = filter_shards(url, tmp_path / url[-2:], Recipe(where=WORDS, caption="auto"), HERE)
        assert report.total("kept") == 4


@pytest.mark.parametrize(
    ("entries", "recipe", "warning"),
    [
        (
            TEXT,
            Recipe(where="caption_words > 9"),
            "nothing was kept: 4 of 4 samples were dropped by caption_words > 9, such as 000 in SHARD (caption_words is 4)",
        ),
        (
            LATE,
            Recipe(where=WORDS),
            f"half or more was quarantined: 9 of 10 samples for no-caption, such as 000 in SHARD ({NONE})",
        ),
        ([[]], Recipe(where=WORDS), "no samples: 1 shard read, and none has any"),
        (TEXT, Recipe(where=WORDS), ""),
        (
            [[in_text(1), in_json(2)]],
            Recipe(where=WORDS),
            f"half or more was quarantined: 1 of 2 samples for no-caption, such as 002 in SHARD ({NONE})",
        ),
        ([[in_text(1), in_text(2), in_json(3)]], Recipe(where=WORDS), ""),
    ],
)
def test_a_report_says_first_that_little_was_kept_and_why(tmp_path, entries, recipe, warning):
    source = write_set(tmp_path / "in", *entries)
    for _ in range(2):  # also where all was done before
        report = filter_shards(source, tmp_path / "out", recipe, HERE)
        assert report.warning == warning.replace("SHARD", f"{source}/0.tar")
        assert str(report).startswith(report.warning)
    report = measure_shards(source, tmp_path / "scored", Recipe(scores=("caption_words",)), HERE)
    few = "no value for 9 of 10 samples: caption_words: no-caption, such as 000 in "
    assert report.warning.startswith(
        few if entries is LATE else "no samples" if entries == [[]] else ""
    )
    written = [
        name
        for path in tmp_path.glob("out/*.tar")
        for name, _ in read_tar(path)
        if name.endswith("jpg")
    ]
    assert len(written) == filter_shards(source, tmp_path / "out", recipe, HERE).total("kept")
