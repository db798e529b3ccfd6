"""Terms that can never hold, or always do, by the ranges that scores declare."""

import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import write_shards


def test_a_percentage_is_answered_with_the_share_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 1, 4)
    done = run("filter", "in", "-o", "out", "--where", "brightness > 30")
    assert (done.status, (tmp_path / "out").exists()) == (2, False)
    assert done.err.splitlines()[-1] == "  write brightness > 0.3"
    assert run("measure", "in", "-o", "scored", "--scores", "brightness").status == 0
    assert (
        "brightness is from 0 to 1"
        in run("filter", "in", "-o", "out", "--ledger", "scored", "--where", "brightness > 30").err
    )
    done = run("filter", "in", "-o", "out", "--where", "width >= 1")
    assert (done.status, done.err) == (0, "wdsflow: width >= 1 always holds: width is at least 1\n")


@pytest.mark.deep
def test_a_term_that_never_holds_is_shown_at_its_place_in_what_the_user_wrote(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 1, 4)
    assert run("measure", "in", "-o", "scored", "--scores", "caption_words,brightness").status == 0
    where = "json_text('caption')  !=  'x' and brightness > 30 and width > 1"
    for words in (("filter", "in"), ("filter", "in", "--ledger", "scored")):
        lines = run(*words, "-o", "out", "--where", where).err.splitlines()
        at = next(number for number, line in enumerate(lines) if "where, column 35: " in line)
        assert [line.strip() for line in lines[at + 1 : at + 3]] == [
            where,
            "^" * len("brightness > 30"),
        ]
        assert lines[at + 1].index("brightness") == lines[at + 2].index("^")


@pytest.mark.sample(1)
@pytest.mark.parametrize("ledger", [(), ("--ledger", "scored")])
def test_without_a_predicate_one_is_asked_for_and_true_copies_all(
    tmp_path, monkeypatch, ledger: tuple[str, ...]
):
    monkeypatch.chdir(tmp_path)
    write_shards(tmp_path / "in", 1, 4)
    done = run("measure", "in", "-o", "scored", "--scores", "width")
    assert [pasted(command).status for command in done.commands] == [0, 0]
    assert "--where" not in done.out  # no threshold that nobody chose
    done = run("filter", "in", "-o", "out", *ledger)
    assert (done.status, (tmp_path / "out").exists()) == (2, False)
    assert "no predicate given: name what to keep with --where" in done.err
    (everything,) = done.commands
    assert "4  kept" in pasted(everything).out
