import gzip
import json

import pytest
import zstandard

from tests.filtering.jsonl.files import END, IMAGE, rows, write_images, write_lines, write_set
from tests.filtering.shards import digests
from tests.models import own
from wdsflow.filtering.ledger.ledger import read_ledger
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.filtering.run_filter import cut_shards, filter_shards, measure_shards
from wdsflow.filtering.run_options import RunOptions
from wdsflow.filtering.where.predicate import parse_score
from wdsflow.shards.shard_identity import fingerprint
from wdsflow.stages.scores.score_catalog import all_scores

HERE = RunOptions(jobs=0)


def values(out, name="data"):
    """Each row's values by score, of the ledger."""
    found, _ = read_ledger(out / "_wdsflow" / "ledger" / f"{name}.parquet")
    return [{str(call): value for call, value in row.values.items()} for row in found]


def reasons(out, name="data"):
    text = (out / "_wdsflow" / "quarantine" / f"{name}.reasons.jsonl").read_text()
    return [(line["sample"], line["error"]) for line in map(json.loads, text.splitlines())]


def filtered(path, out, where="min_side >= 150", options=HERE, **recipe):
    return filter_shards(str(path), out, Recipe(where=where, **recipe), options)


def test_kept_rows_are_the_bytes_that_they_were_and_their_scores_lie_beside(tmp_path):
    path = write_set(tmp_path / "in")
    lines = path.read_bytes().splitlines(keepends=True)
    report = filtered(path, tmp_path / "out", "min_side >= 150 and caption_words >= 3")
    assert (report.total("samples"), report.total("kept")) == (6, 4)
    kept = [number for number in range(6) if number % 4]
    assert (tmp_path / "out/data.jsonl").read_bytes() == b"".join(lines[number] for number in kept)
    beside = (tmp_path / "out/data.stats.jsonl").read_text().splitlines()
    stats = [json.loads(line)["__dj__stats__"] for line in beside]
    assert [each["min_side"] for each in stats] == [(64, 150, 220, 300)[number % 4] for number in kept]
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"data.jsonl": 4}


def test_a_last_line_without_an_end_stays_so(tmp_path):
    path = write_set(tmp_path / "in", count=4, end=b"")
    filtered(path, tmp_path / "out")
    assert (tmp_path / "out/data.jsonl").read_bytes() == path.read_bytes().split(b"\n", 1)[1]


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("zst", zstandard.ZstdCompressor().compress)])
def test_packed_files_are_read_and_written_plain(tmp_path, ending, pack):
    path = write_set(tmp_path / "in")
    packed = path.with_name(f"packed.jsonl.{ending}")
    packed.write_bytes(pack(path.read_bytes()))
    filtered(packed, tmp_path / "out")
    filtered(path, tmp_path / "plain")
    assert (tmp_path / "out/packed.jsonl").read_bytes() == (tmp_path / "plain/data.jsonl").read_bytes()


def test_values_are_one_for_each_image_and_for_each_chunk(tmp_path):
    names = write_images(tmp_path, 4)
    row = {"text": f"{IMAGE} one two {END}{IMAGE}{IMAGE} three{END}words alone", "images": names[:3]}
    alone = {"text": "only words here"}
    path = write_lines(tmp_path, [json.dumps(each).encode() for each in (row, alone)])
    measure_shards(str(path), tmp_path / "out", Recipe(scores=("width", "caption_words", "bytes")), HERE)
    first, second = values(tmp_path / "out")
    assert (first["width"], first["caption_words"]) == ([64, 150, 220], [2, 1])
    assert second["caption_words"] == 3
    assert second["width"].slug == "no-image"


COUNTED = ("caption_words", "word_repetition(n=2)", "special_char_ratio", 'flagged_words(words="12")')


def test_captions_are_counted_as_data_juicer_does_unless_the_plain_count_is_asked_for(tmp_path):
    path = write_lines(tmp_path, [json.dumps({"text": "12 cats, 12 cats"}).encode()])
    plain = tuple(name.rstrip(")") + (", " if "(" in name else "(") + 'count="plain")' for name in COUNTED)
    measure_shards(str(path), tmp_path / "out", Recipe(scores=(*COUNTED, *plain)), HERE)
    (row,) = values(tmp_path / "out")
    assert [row[str(parse_score(name, all_scores()))] for name in COUNTED] == [2, 0, 8 / 16, 0]
    assert [row[str(parse_score(name, all_scores()))] for name in plain] == [4, 2 / 3, 1 / 16, 2 / 4]


def test_a_token_of_ones_own_gives_the_same_in_workers_as_here(tmp_path):
    path = write_set(tmp_path / "in", token="<image>")
    recipe = Recipe(scores=("min_side", "caption_words"), image_token="<image>")
    measure_shards(str(path), tmp_path / "here", recipe, HERE)
    measure_shards(str(path), tmp_path / "there", recipe, RunOptions(jobs=2))
    assert values(tmp_path / "here") == values(tmp_path / "there")
    assert [each["caption_words"] for each in values(tmp_path / "there")] == [3] * 6
    assert "<image>" not in str(values(tmp_path / "there"))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_token_that_is_nowhere_keeps_nothing_and_is_told(tmp_path, workers):
    path = write_set(tmp_path / "in", token="<image>")
    report = filtered(path, tmp_path / "out", "min_side >= 0", RunOptions(jobs=workers))
    assert (report.total("kept"), report.whole) == (0, False)
    assert "'<__dj__image>'; the texts have '<image>'" in report.failures[0].reason
    assert not (tmp_path / "out/data.jsonl").exists()
    again = filtered(path, tmp_path / "new", "min_side >= 0", image_token="<image>")
    assert again.total("kept") == 6


def test_rows_that_cannot_be_used_are_put_aside_as_they_were(tmp_path):
    names = write_images(tmp_path, 2)
    good = list(rows(names))
    bad = {
        "bad-json": b'{"text": ',
        "not-an-object": b'["text"]',
        "not-text": b'{"text": 3}',
        "bad-paths": b'{"text": "x", "images": "a.jpg"}',
        "other-count": json.dumps({"text": f"{IMAGE}{IMAGE}", "images": names[:1]}).encode(),
        "missing-file": json.dumps({"text": f"{IMAGE} x", "images": ["images/none.jpg"]}).encode(),
        "outside": json.dumps({"text": f"{IMAGE} x", "images": ["../secret.jpg"]}).encode(),
    }
    path = write_lines(tmp_path, [good[0], *bad.values(), good[1]])
    report = filtered(path, tmp_path / "out", "caption_words >= 0")
    assert (report.total("kept"), report.merged("quarantined")) == (2, dict.fromkeys(bad, 1))
    assert reasons(tmp_path / "out") == [(number, slug) for number, slug in enumerate(bad, 1)]
    aside = (tmp_path / "out/_wdsflow/quarantine/data.jsonl").read_bytes()
    assert aside == b"".join(line + b"\n" for line in bad.values())


def test_one_row_without_the_token_is_an_error_of_that_row(tmp_path):
    names = write_images(tmp_path, 2)
    other = json.dumps({"text": "<image> words", "images": names[1:]}).encode()
    path = write_lines(tmp_path, [next(rows(names)), other])
    report = filtered(path, tmp_path / "out", "min_side >= 0")
    assert (report.total("kept"), report.merged("quarantined")) == (1, {"other-count": 1})


def test_paths_out_of_the_folder_need_to_be_allowed(tmp_path):
    write_images(tmp_path / "elsewhere", 1)
    (tmp_path / "in").mkdir()
    whole = str(tmp_path / "elsewhere/images/0.jpg")
    (tmp_path / "in/link.jpg").symlink_to(whole)
    lines = [json.dumps({"text": f"{IMAGE} x", "images": [name]}).encode() for name in (whole, "link.jpg")]
    path = write_lines(tmp_path / "in", lines)
    report = filtered(path, tmp_path / "out", "width > 0")
    assert report.merged("quarantined") == {"outside": 2}
    allowed = filtered(path, tmp_path / "new", "width > 0", media_root=str(tmp_path))
    assert (allowed.total("kept"), allowed.merged("quarantined")) == (1, {"missing-file": 1})
    lines = [json.dumps({"text": f"{IMAGE} x", "images": ["images/0.jpg"]}).encode()]
    path = write_lines(tmp_path / "in", lines, "relative.jsonl")
    assert filtered(path, tmp_path / "rel", "width > 0", media_root=str(tmp_path / "elsewhere")).total("kept") == 1


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "folder.jpg").mkdir()
    lines = [json.dumps({"text": f"{IMAGE} x", "images": [name]}).encode() for name in ("folder.jpg", "a\0b", "")]
    report = filtered(write_lines(tmp_path, lines), tmp_path / "out", "width > 0")
    assert report.merged("quarantined") == {"missing-file": 3}


def test_tars_and_lines_go_through_one_run_and_a_second_run_finds_all_done(tmp_path):
    from tests.filtering.shards import write_shards

    path = write_set(tmp_path / "in")
    tars = write_shards(tmp_path / "tars", 1)
    urls = [f"{tars}/00000.tar", str(path)]
    recipe = Recipe(where="min_side >= 150")
    first = filter_shards(urls, tmp_path / "out", recipe, HERE)
    before = digests(tmp_path / "out")
    second = filter_shards(urls, tmp_path / "out", recipe, HERE)
    assert (first.total("samples"), first.resumed, second.resumed) == (26, 0, 2)
    assert digests(tmp_path / "out") == before
    assert {"00000.tar", "data.jsonl", "data.stats.jsonl"} <= before.keys()


def test_a_file_whose_scores_are_missing_is_done_again(tmp_path):
    path = write_set(tmp_path / "in")
    filtered(path, tmp_path / "out")
    before = digests(tmp_path / "out")
    (tmp_path / "out/data.stats.jsonl").unlink()
    assert "data.stats.jsonl is missing" in filtered(path, tmp_path / "out").changed[0]
    assert digests(tmp_path / "out") == before


def test_captions_of_lines_are_their_texts_and_are_not_searched_for(tmp_path):
    path, told = write_set(tmp_path / "in"), list[str]()
    options = RunOptions(jobs=0, say=told.append)
    for number, place in enumerate(("auto", "json:nothing")):
        report = filtered(path, tmp_path / f"{number}", "caption_words >= 3", options, captions=place)
        assert report.total("kept") == 6
    assert told == []


@pytest.fixture
def own_scores(tmp_path, monkeypatch):
    own.install(tmp_path / "site", monkeypatch)
    yield
    all_scores.cache_clear()


@pytest.mark.usefixtures("own_scores")
def test_values_that_compare_all_rows_are_one_for_each_image(tmp_path):
    names = write_images(tmp_path, 2)
    (tmp_path / "b.bmp").write_bytes((tmp_path / names[1]).read_bytes())
    row = {"text": f"{IMAGE} one {END}{IMAGE} two", "images": [names[0], "b.bmp"]}
    path = write_lines(tmp_path, [json.dumps(row).encode()])
    measure_shards(str(path), tmp_path / "out", Recipe(scores=('odd_dataset(gives="pair")',)), HERE)
    assert values(tmp_path / "out") == [{'odd_dataset(gives="pair")': [1, 2]}]


def test_a_restart_leaves_no_file_of_the_run_before(tmp_path):
    path = write_set(tmp_path / "in")
    filtered(path, tmp_path / "out", "min_side >= 150")
    report = filtered(path, tmp_path / "out", "min_side >= 9999", RunOptions(jobs=0, restart=True))
    assert report.total("kept") == 0
    assert not list((tmp_path / "out").glob("*.jsonl"))


def test_lines_can_be_cut_by_scores_that_are_there(tmp_path):
    path = write_set(tmp_path / "in")
    measure_shards(str(path), tmp_path / "scores", Recipe(scores=("min_side",)), HERE)
    for image in (tmp_path / "in/images").iterdir():
        image.unlink()
    cut_shards(str(path), tmp_path / "cut", tmp_path / "scores", Recipe(where="min_side >= 220"), HERE)
    lines = path.read_bytes().splitlines(keepends=True)
    assert (tmp_path / "cut/data.jsonl").read_bytes() == lines[2] + lines[3]
    recipe = Recipe(where="min_side >= 220 and height > 1")  # which is computed
    (failure,) = cut_shards(str(path), tmp_path / "new", tmp_path / "scores", recipe, HERE).failures
    assert "sample 2: 'images/2.jpg': No such file" in failure.reason


def test_a_cut_of_lines_that_end_elsewhere_than_those_that_were_scored_is_an_error(tmp_path):
    path = write_lines(tmp_path, [json.dumps({"text": "a word" * 1000}).encode() for _ in range(100)])
    measure_shards(str(path), tmp_path / "scores", Recipe(scores=("caption_words",)), HERE)
    known, lines = fingerprint(str(path)), path.read_bytes().splitlines(keepends=True)
    lines[3:5] = lines[3][:-12] + lines[3][-3:], lines[4][:-3] + b"a word12" + b"3" + lines[4][-3:]
    path.write_bytes(b"".join(lines))
    assert fingerprint(str(path)) == known, "this is noticed without reading the file"
    recipe = Recipe(where="caption_words > 0")
    (failure,) = cut_shards(str(path), tmp_path / "cut", tmp_path / "scores", recipe, HERE).failures
    assert f"from another shard than {path}, or the shard has changed since" in failure.reason
    assert not (tmp_path / "cut/data.jsonl").exists()
    path.write_bytes(b"".join([*lines[:3], *[lines[5]] * 2, *lines[5:]]))  # the same lines, written again
    assert cut_shards(str(path), tmp_path / "new", tmp_path / "scores", recipe, HERE).total("kept") == 100


def test_duplicates_are_found_across_rows(tmp_path):
    names = write_images(tmp_path, 2)
    path = write_lines(tmp_path, rows([*names, names[0]]))
    report = filtered(path, tmp_path / "out", "not duplicate")
    assert (report.total("kept"), report.merged("dropped")) == (2, {"not duplicate": 1})


def test_what_lines_cannot_have_is_refused_before_any_work(tmp_path):
    from wdsflow.stages import CleanText

    path = write_set(tmp_path / "in")
    for recipe, message in (
        (Recipe(where="width > 1", stages=(CleanText(),)), "stages"),
        (Recipe(where="width > 1", image_token=""), "empty"),
    ):
        with pytest.raises(ValueError, match=message):
            filter_shards(str(path), tmp_path / "out", recipe, HERE)
    with pytest.raises(ValueError, match="--media-root"):
        filter_shards("s3://bucket/data.jsonl", tmp_path / "out", Recipe(where="width > 1"), HERE)


def test_long_lines_and_empty_ones_do_not_stop_the_rest(tmp_path):
    names = write_images(tmp_path, 2)
    lines = list(rows(names))
    long = b'{"text": "' + b"x" * (17 << 20) + b'"}'
    path = write_lines(tmp_path, [lines[0], b"", b"  ", long, lines[1]])
    report = filtered(path, tmp_path / "out", "width > 0")
    assert (report.total("kept"), report.merged("quarantined")) == (2, {"large-line": 1})
    assert report.merged("left_out") == {"empty line": 2}
    assert (tmp_path / "out/_wdsflow/quarantine/data.jsonl").read_bytes() == long + b"\n"


def test_an_image_that_is_called_like_a_field_is_still_an_image(tmp_path):
    names = write_images(tmp_path, 1)
    for name in ("a.json", "b.txt", "c", "d.JPG"):
        (tmp_path / name).write_bytes((tmp_path / names[0]).read_bytes())
    lines = [
        json.dumps({"text": f"{IMAGE} x", "images": [name]}).encode() for name in ("a.json", "b.txt", "c", "d.JPG")
    ]
    report = filtered(write_lines(tmp_path, lines), tmp_path / "out", "width == 64 and caption_words == 1")
    assert report.total("kept") == 4
