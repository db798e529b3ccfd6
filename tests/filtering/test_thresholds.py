"""``wdsflow scores --ledger`` promises what ``wdsflow filter --ledger`` keeps."""

import json
import re
import shutil

import pyarrow.parquet as pq
import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import SIDES, picture, write_shards
from tests.shards.archives import write_tar
from wdsflow.filtering.predicates.sample_facts import FACTS
from wdsflow.stages.scores import all_scores, make_score

KEEPS = re.compile(r"^  ([<>]) (\S+) keeps [\d.]+% \(([\d,]+) of ([\d,]+)\)$", re.MULTILINE)
CUTS = re.compile(
    r"^  to keep [^,]+, precisely [\d.]+% \(([\d,]+) of [\d,]+\)(?: \(no .*\))?:\n  (wdsflow filter .*)$",
    re.MULTILINE,
)


def deep(*values: object) -> object:
    """Return a case that the gate leaves out."""
    return pytest.param(*values, marks=pytest.mark.deep)


def sample(number: int) -> list[tuple[str, bytes]]:
    """Return the members of one of several unusual samples, by number.

    It may have two pictures, a broken one, both, none, or the key of another sample.
    """
    key, side = f"{number:04d}", SIDES[number % 4]
    pictures = {
        0: [(".0.jpg", picture(side, side)), (".1.jpg", picture(side + number, 90))],
        1: [(".jpg", b"no picture")],
        2: [],
        3: [(".0.jpg", picture(side, side)), (".1.jpg", b"no picture")],
    }
    tree = json.dumps({"n": number * 0.37 - 5, "odd": number if number % 3 else "none"}).encode()
    if number % 11 > 6:
        key = "again"
    members = pictures.get(number % 7, [(".jpg", picture(side, side + number, number))])
    return [
        (f"{key}{name}", data)
        for name, data in (*members, (".txt", b"word " * (number % 5)), (".json", tree))
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Shards in which a predicate meets all that it may meet, and ledgers of them."""
    made = tmp_path_factory.mktemp("odd")
    (made / "in").mkdir()
    for shard in range(3):
        write_tar(
            made / "in" / f"{shard}.tar",
            [part for number in range(40) for part in sample(shard * 40 + number)],
        )
    numbers = (
        "min_side,json_number('n'),json_number('odd'),caption_words,caption_count,format,has('jpg')"
    )
    numbers += ",char_repetition(n=2),rank_percent('min_side')"
    kept = 'min_side >= 100 and json_number("n") > 0 and not duplicate'
    (made / "recipe.yaml").write_text("stages: [{has_fields: {fields: 'jpg;0.jpg'}}]\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        for words in (
            ("measure", "in", "-o", "scored", "--scores", numbers),
            ("measure", "in", "-o", "staged", "--scores", numbers, "--recipe", "recipe.yaml"),
            ("filter", "in", "-o", "kept", "--where", kept),
            (
                "filter",
                "in",
                "-o",
                "share",
                "--where",
                "min_side >= 100",
                "--keep",
                "json_number('n') top 30% of kept",
            ),
        ):
            assert run(*words, "--jobs", 0).status in (0, 1), words
    return made


@pytest.mark.parametrize(
    ("ledger", "names"),
    [
        deep("scored", ["min_side", "json_number", "caption_words"]),
        deep("scored", ["rank_percent"]),
        deep("scored", ["char_repetition"]),
        deep("staged", ["json_number('odd')", "min_side"]),
        deep("kept", ["json_number", "min_side"]),
        ("share", ["json_number"]),
    ],
)
def test_a_cut_keeps_as_many_samples_as_promised(folder, monkeypatch, ledger, names):
    monkeypatch.chdir(folder)
    shown = run("scores", "--ledger", ledger, *names)
    assert shown.status == 0, shown
    promises = 0
    for about in shown.out.split("\n\n")[1:]:
        where = re.search(r"--where '(.*)'", about)
        for sign, bound, count, _ in KEEPS.findall(about):
            assert where is not None, about
            asked = re.sub(r"[<>] [^<>]*$", f"{sign} {bound}", where[1])
            cut = run(
                "filter", "in", "--ledger", ledger, "--where", asked, "--dry-run", "--jobs", 0
            )
            assert f" {count}  kept" in cut.out, (asked, count, cut)
            promises += 1
        for count, command in CUTS.findall(about):
            assert f" {count}  kept" in pasted(f"{command} --jobs 0").out, command
            promises += 1
    assert promises >= 5 * len(names)


def test_values_of_all_kinds_are_counted(folder, monkeypatch):
    monkeypatch.chdir(folder)
    shown = run("scores", "--ledger", "scored", "format", "has('jpg')", "json_number('odd')").out
    table = pq.ParquetDataset("scored/.wdsflow/ledger").read()
    formats, several = table["format"].to_pylist(), table["several"].to_pylist()
    jpegs = formats.count("jpeg") + sum(
        json.loads(text).get("format", []).count("jpeg") for text in several if text
    )
    assert f"  {jpegs}  jpeg" in shown
    there = table['has(field="jpg")'].to_pylist().count(True)
    assert re.search(rf"^ +{there}  true", shown, re.MULTILINE)
    values = table['json_number(path="odd")'].to_pylist()
    failed = sum(
        entry["score"] == 'json_number(path="odd")'
        for row in table["failed"].to_pylist()
        for entry in row or ()
    )
    assert f"{len(values)} samples, {len(values) - values.count(None)} with a value" in shown
    assert f"without: {failed} not-a-number" in shown


@pytest.mark.parametrize(
    ("where", "name"),
    [
        # No part of the predicate tells which images are large, whose words were not counted.
        ("min_side >= 200 or caption_words > 2", "caption_words"),
        # What it is compared with depends on the predicate.
        ("rank_percent('width', among='kept') < 50 and caption_words > 1", "rank_percent"),
    ],
)
def test_values_that_were_not_needed_are_not_guessed(tmp_path, monkeypatch, where, name):
    """No threshold is suggested for values that the run did not compute."""
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", shards=2, samples=12)
    run("filter", "in", "-o", "kept", "--where", where, "--jobs", 0)
    shown = run("scores", "--ledger", "kept", name)
    assert (
        "what a threshold keeps is not known: the run did not compute the score for all samples"
        in shown.out
    )
    assert not KEEPS.search(shown.out)
    (command,) = shown.commands
    assert f"  to compute it: {command}\n" in shown.out
    assert pasted(f"{command} --jobs 0").status == 0
    assert KEEPS.search(run("scores", "--ledger", "kept-all", name).out)


def test_a_term_that_tells_which_values_were_computed_is_part_of_the_threshold(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", shards=2, samples=6)
    where = "min_side >= 200 and caption_words >= 3"
    run("filter", "in", "-o", "kept", "--where", where, "--jobs", 0)
    shown = run("scores", "--ledger", "kept", "caption_words")
    lines = shown.out.splitlines()
    assert "  not computed for all samples; known with: min_side >= 200" in lines
    assert "  > 3 keeps 16.7% (2 of 12)" in lines
    (command,) = shown.commands
    assert " 2  kept" in pasted(f"{command} --jobs 0").out


def test_samples_that_a_stage_left_out_are_counted_apart(folder, monkeypatch):
    monkeypatch.chdir(folder)
    shown = run("scores", "--ledger", "staged", "min_side").out
    troubles = pq.ParquetDataset("staged/.wdsflow/ledger").read()["trouble"].to_pylist()
    left_out = len(troubles) - troubles.count(None)
    assert left_out
    assert f"without: 33 not-an-image, {left_out} unreadable or dropped by a stage\n" in shown


def test_a_run_that_has_finished_no_shard_has_no_thresholds(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "scored", tmp_path / "none")
    (tmp_path / "none/.wdsflow/manifest.jsonl").write_text("")
    done = run("scores", "--ledger", "none")
    assert (done.status, done.out) == (2, "")
    assert done.err.strip() == "wdsflow: no shard of none is finished yet"
    page = run("report", "none")
    assert (page.status, page.out) == (2, "")
    assert page.err.strip() == (
        "wdsflow: none holds a run that has finished no shard: run the command again to resume it"
    )


def test_texts_of_which_there_are_too_many_are_not_counted(folder, monkeypatch):
    monkeypatch.chdir(folder)
    counted = run("scores", "--ledger", "scored", "format").out
    monkeypatch.setattr("wdsflow.filtering.deciding.ledger_scores._MOST_TEXTS", 0)
    shown = run("scores", "--ledger", "scored", "format").out
    assert counted.endswith("  jpeg  (100.0%)\n")
    assert shown.endswith("\n  more than 10,000 different values\n")


@pytest.mark.parametrize(
    ("words", "said", "command"),
    [
        (("--ledger", "score"), "score has no ledgers", "wdsflow scores --ledger scored"),
        (
            ("--ledger", "kept", "min_sid"),
            "kept has no min_sid; it has",
            "wdsflow scores --ledger kept min_side",
        ),
        (("--ledger", "kept", "qq"), "kept has no qq; it has", "wdsflow scores --ledger kept"),
        (("blur", "width"), "without --ledger, name one score", "wdsflow scores blur"),
    ],
)
def test_wrong_use_is_answered_with_a_command(folder, monkeypatch, words, said, command):
    monkeypatch.chdir(folder)
    done = run("scores", *words)
    assert (done.status, done.out) == (2, "")
    assert said in done.err
    assert done.commands == [command]
    assert pasted(command).status == 0


@pytest.mark.deep
def test_the_largest_numbers_give_no_threshold_that_a_predicate_cannot_have(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    numbers = ["-1.7e308"] * 10 + ["1", "2", "3"] + ["1.7e308"] * 10
    members = [
        (f"{place}.json", f'{{"n": {number}}}'.encode()) for place, number in enumerate(numbers)
    ]
    write_tar(tmp_path / "in.tar", members)
    assert (
        run("measure", "in.tar", "-o", "scored", "--scores", "json_number('n')", "--jobs", 0).status
        == 0
    )
    shown = run("scores", "--ledger", "scored")
    assert "inf keeps" not in shown.out
    assert "Warning" not in shown.err + capfd.readouterr().err
    for count, command in CUTS.findall(shown.out):
        assert f" {count}  kept" in pasted(f"{command} --jobs 0").out, command


def test_thresholds_keep_the_values_that_are_good(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for name, sign in (("min_side", ">"), ("rank_percent", "<"), ("char_repetition", "<")):
        shown = run("scores", "--ledger", "scored", name).out
        assert {found[0] for found in KEEPS.findall(shown)} == {sign}, shown
        assert all(sign in command for _, command in CUTS.findall(shown))


def test_ledgers_whose_shards_are_elsewhere_are_said_to_be(folder, monkeypatch, tmp_path):
    told = "in/0.tar is not here: run these commands in the folder in which the shards were scored"
    monkeypatch.chdir(tmp_path)
    shown = run("scores", "--ledger", folder / "scored", "min_side").out
    assert shown.endswith(f"\n  {told}\n")
    assert shown.count(" is not here") == 1
    monkeypatch.chdir(folder)
    assert told not in run("scores", "--ledger", "scored", "min_side").out


def test_samples_without_a_value_because_a_stage_dropped_them_are_counted(folder, monkeypatch):
    monkeypatch.chdir(folder)
    outcomes = pq.ParquetDataset("staged/.wdsflow/ledger").read()["outcome"].to_pylist()
    dropped = outcomes.count("dropped")
    assert dropped
    shown = run("scores", "--ledger", "staged", "min_side").out
    assert f"{dropped:,} unreadable or dropped by a stage\n" in shown


def test_only_the_most_common_texts_are_listed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = ["zz", "zz", *(f"t{number:02}" for number in range(12))]
    parts = [(f"{at}.json", json.dumps({"t": text}).encode()) for at, text in enumerate(texts)]
    write_tar(tmp_path / "in.tar", parts)
    run("measure", "in.tar", "-o", "scored", "--scores", "json_text('t')", "--jobs", 0)
    rows = ["  2  zz  (14.3%)", *(f"  1  t{number:02}  (7.1%)" for number in range(9))]
    shown = run("scores", "--ledger", "scored").out.splitlines()
    assert shown[3:] == [*rows, "  and 3 other values"]
    monkeypatch.setattr("wdsflow.filtering.deciding.ledger_scores._MOST_TEXTS", 12)
    shown = run("scores", "--ledger", "scored").out.splitlines()
    assert shown[3:] == ["  more than 10,000 different values"]


def test_many_values_of_which_nearly_all_are_equal_have_no_bars(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = [*range(10, 17), *[50] * 800, *range(90, 97)]
    parts = [(f"{at:04d}.txt", b"word " * count) for at, count in enumerate(counts)]
    write_tar(tmp_path / "in.tar", parts)
    run("measure", "in.tar", "-o", "scored", "--scores", "caption_words", "--jobs", 0)
    shown = run("scores", "--ledger", "scored").out
    assert "min 10  1% 50  5% 50  25% 50  50% 50  75% 50  95% 50  99% 50  max 96\n" in shown
    assert "#" not in shown


def test_the_good_side_of_each_score_is_known():
    small = {name for name, score in {**FACTS, **all_scores()}.items() if score.small_is_good}
    assert small == {
        "caption_count",
        "caption_perplexity",
        "char_repetition",
        "flagged_words",
        "ocr_area",
        "ocr_caption_overlap",
        "rank_percent",
        "special_char_ratio",
        "word_repetition",
    }
    assert make_score("classify", model="nsfw").keeps_small
    assert not make_score("classify", model="org/dogs", label="dog").keeps_small


def test_a_run_that_is_not_finished_is_said_to_be(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    shutil.copytree(folder / "scored", tmp_path / "half")
    manifest = tmp_path / "half" / ".wdsflow" / "manifest.jsonl"
    first, *others = manifest.read_text().splitlines(keepends=True)
    manifest.write_text(first)
    assert others
    shown = run("scores", "--ledger", tmp_path / "half")
    assert f"{len(others)} more shard" in shown.out


def test_bars_with_outliers_are_open_and_equal_values_explain_a_share_that_is_far_off(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    words = [40, 40, 40, *range(40, 70), *[80] * 100, *range(90, 120), 4000, 5000, 6000]
    parts = [(f"{at:04d}.txt", b"word " * count) for at, count in enumerate(words)]
    write_tar(tmp_path / "in" / "0.tar", parts)
    run("measure", "in", "-o", "scored", "--scores", "caption_words", "--jobs", 0)
    lines = run("scores", "--ledger", "scored", "caption_words").out.splitlines()
    bars = [line.partition("#")[0].split() for line in lines if re.search(" #+ ", line)]
    (first, *_), last = bars[0], bars[-1]
    assert first == "40"  # nothing lies below it
    assert last[0] == ">=", last
    share = "(no number comes nearer: 100 samples have the value 80)"
    assert [
        line.partition(" of 166) ")[2] for line in lines if line.startswith("  to keep 50%")
    ] == [f"{share}:"]
