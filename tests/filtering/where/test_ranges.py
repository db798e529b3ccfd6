"""Terms that can never hold, or always do, by the ranges that scores declare."""

import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import write_shards
from wdsflow.filtering.where.predicate import check_ranges, parse
from wdsflow.filtering.where.tokens import WhereError
from wdsflow.stages.scores.score_catalog import all_scores

NEVER = {
    "language_score > 30": "language_score > 30 never holds: language_score is from 0 to 1",
    "min_side >= 200 and 50 <= brightness": "50 <= brightness never holds: brightness is from 0 to 1",
    "width < 1": "width < 1 never holds: width is at least 1",
    "not width >= 1": "width >= 1 always holds",
    "any(entropy > 8)": "entropy > 8 never holds: entropy is from 0 to 8",
    "entropy between 9 and 10": "never holds: entropy is from 0 to 8",
    "entropy in (-1, 9)": "never holds",
    "mean(-brightness * 2 + 1) > 1": "never holds: brightness is from 0 to 1",
    "brightness / 2 > 0.5": "never holds",
    "contrast - brightness > 0.5": "never holds: contrast is from 0 to 0.5, brightness is from 0 to 1",
    "brightness == 2 or entropy > 9": "brightness == 2 never holds",
    "blur < 0 and has('json')": "blur is at least 0",
    "brightness == 2 or (entropy > 9 and width > 5)": "brightness == 2 never holds",
    "not (width >= 1 and entropy <= 8)": "width >= 1 always holds",
    "not (entropy > 8 or brightness <= 1)": "entropy > 8 never holds",
    "all(entropy > 9 or not brightness <= 1)": "entropy > 9 never holds",
}
ALWAYS = ["width >= 1", "clip_similarity <= 1 or width > 5", "brightness != 2", "not entropy > 8"]
EITHER = [
    "(brightness > 1) is null",
    "width >= 2 and entropy <= 7.9 and brightness > 0.99",
    "language_score >= 1",
    "clip_similarity < -0.5",
    "json_number('similarity') > 30",
    "width / height > 100",
    "1 / brightness < 0.5",
    "1 / (brightness - 0.5) > 9",
    "rank_percent('blur') <= 30",
    "entropy in (8, 9)",
    "caption == 'a' or words(caption) < 0",
    "abs(brightness) > 2",
    "true",
    "width > 5 or (entropy > 7 and width > 2)",
    "not (width > 5 and entropy > 7)",
]


def told(where: str) -> list[str]:
    names = all_scores()
    return check_ranges(parse(where, names), names)


@pytest.mark.parametrize("where", NEVER)
def test_a_term_that_no_value_satisfies_is_refused_with_the_range(where: str):
    with pytest.raises(WhereError) as refused:
        told(where)
    assert NEVER[where] in str(refused.value)


@pytest.mark.parametrize("where", ALWAYS)
def test_a_term_that_every_value_satisfies_is_reported(where: str):
    (line,) = told(where)
    assert "always holds: " in line or "never holds: " in line


@pytest.mark.parametrize("where", EITHER)
def test_a_term_that_some_values_satisfy_says_nothing(where: str):
    assert told(where) == []


def test_a_percentage_is_answered_with_the_share_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 1, 4)
    done = run("filter", "in", "-o", "out", "--where", "brightness > 30")
    assert (done.status, (tmp_path / "out").exists()) == (2, False)
    assert done.err.splitlines()[-1] == "  write brightness > 0.3"
    assert run("measure", "in", "-o", "scored", "--scores", "brightness").status == 0
    assert (
        "brightness is from 0 to 1"
        in run("cut", "in", "-o", "out", "--ledger", "scored", "--where", "brightness > 30").err
    )
    done = run("filter", "in", "-o", "out", "--where", "width >= 1")
    assert (done.status, done.err) == (0, "wdsflow: width >= 1 always holds: width is at least 1\n")


def test_a_term_that_never_holds_is_shown_at_its_place_in_what_the_user_wrote(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 1, 4)
    assert run("measure", "in", "-o", "scored", "--scores", "caption_words,brightness").status == 0
    where = "json_text('caption')  !=  'x' and brightness > 30 and width > 1"
    for words in (("filter", "in"), ("cut", "in", "--ledger", "scored")):
        lines = run(*words, "-o", "out", "--where", where).err.splitlines()
        at = next(number for number, line in enumerate(lines) if "where, column 35: " in line)
        assert [line.strip() for line in lines[at + 1 : at + 3]] == [where, "^" * len("brightness > 30")]
        assert lines[at + 1].index("brightness") == lines[at + 2].index("^")


@pytest.mark.parametrize("kind", ["filter", "cut"])
def test_without_a_predicate_one_is_asked_for_and_true_copies_all(tmp_path, monkeypatch, kind: str):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 1, 4)
    done = run("measure", "in", "-o", "scored", "--scores", "width")
    assert [pasted(command).status for command in done.commands] == [0, 0]
    assert "--where" not in done.out  # no threshold that nobody chose
    done = run(kind, "in", "-o", "out", *(("--ledger", "scored") if kind == "cut" else ()))
    assert (done.status, (tmp_path / "out").exists()) == (2, False)
    assert "no predicate given: name what to keep with --where" in done.err
    (everything,) = done.commands
    assert "4  kept" in pasted(everything).out
