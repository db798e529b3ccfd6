"""What a filter with a ledger computes, and the columns that bare names of scores mean."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import digests, entries, write_shards
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.expressions.errors import ExpressionError
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering.deciding.ledger_subset import LedgerSubset
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, MissingScore, SettledByLedger
from wdsflow.filtering.predicates.ledger_columns import with_columns
from wdsflow.stages import Rename
from wdsflow.stages.scores import sample_view

HERE = RunOptions(jobs=0)
CHEAP = "blur > 140 and min_side >= 150 and caption_words >= 2 and json_number('n') > 3 and key != '0000007'"


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two shards in ``in``, and their ledger in ``scored``.

    The ledger has blur and duplicates.
    """
    folder = tmp_path_factory.mktemp("cut")
    measure_shards(
        write_shards(folder / "in", 2, 20),
        folder / "scored",
        Recipe(scores=("blur", "duplicate")),
        HERE,
    )
    return folder


@pytest.mark.deep
@pytest.mark.parametrize("stages", [(), (Rename({"image": "jpg"}),)], ids=["plain", "staged"])
def test_cheap_scores_that_the_ledger_lacks_are_computed_and_nothing_is_decoded(
    scored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stages: tuple[Rename, ...]
):
    source, images = str(scored / "in"), "image" if stages else "jpg"
    recipe = Recipe(scores=("blur",), stages=stages, image=images)
    measure_shards(source, tmp_path / "scored", recipe, HERE)
    filtered = filter_shards(
        source, tmp_path / "kept", Recipe(where=CHEAP, stages=stages, image=images), HERE
    )

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("wdsflow.stages.scores.sample_view.decode_picture", refuse)
    cut = filter_shards(
        source, tmp_path / "cut", Recipe(where=CHEAP), HERE, ledger=tmp_path / "scored"
    )
    assert (cut.merged("dropped"), cut.total("kept")) == (
        filtered.merged("dropped"),
        filtered.total("kept"),
    )
    assert len(cut.merged("dropped")) == 5
    kept, was = digests(tmp_path / "kept"), digests(tmp_path / "cut")
    assert [name for name in kept if name.endswith(".tar")] == ["00000.tar", "00001.tar"]
    assert all(was[name] == kept[name] for name in kept if name.endswith(".tar"))


@pytest.mark.deep
def test_with_a_filters_ledger_the_scores_that_were_not_needed_are_computed(
    scored: Path, tmp_path: Path
):
    source = str(scored / "in")
    filter_shards(
        source, tmp_path / "some", Recipe(where="min_side >= 200 and caption_words >= 3"), HERE
    )
    # Of small pictures the words were not counted.
    where = Recipe(where="caption_words > 1 and has('json')")
    cut = filter_shards(source, tmp_path / "cut", where, HERE, ledger=tmp_path / "some")
    filtered = filter_shards(source, tmp_path / "kept", where, HERE)
    assert (cut.total("kept"), cut.failures) == (filtered.total("kept"), []) == (32, [])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "where",
    [
        "width > 200 and entropy > 1",
        "blur > 100 and entropy > 1 and caption_words > 2",
        # These compare the samples of all shards.
        "rank_percent('width') < 30",
        "rank_percent('entropy', among='kept') < 60 and blur > 100",
        "width > 200 and not duplicate(among='kept')",
        "not near_duplicate",
    ],
)
def test_what_a_ledger_lacks_is_computed_for_the_samples_that_need_it(
    scored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
):
    source = str(scored / "in")
    filter_shards(source, tmp_path / "without", Recipe(where=where), HERE)
    decoded = []
    decode = sample_view.decode_picture  # type: ignore[attr-defined]

    def counted(*given: Any) -> Any:
        decoded.append(given)
        return decode(*given)

    monkeypatch.setattr(sample_view, "decode_picture", counted)
    report = filter_shards(
        source, tmp_path / "with", Recipe(where=where), HERE, ledger=scored / "scored"
    )
    assert not report.failures
    kept = digests(tmp_path / "without")
    tars = {name: kept[name] for name in kept if name.endswith(".tar")}
    with_ledger = digests(tmp_path / "with")
    assert {name: with_ledger[name] for name in tars} == tars
    # The ledger has the blur: images are decoded for other
    # scores only, and only where these may decide.
    assert len(decoded) <= (40 if "near" in where else 30)
    assert bool(decoded) == ("entropy" in where or "near" in where)


def test_what_the_ledger_settles_is_refused_where_it_is_asked_for_otherwise(
    scored: Path, tmp_path: Path
):
    ledger, where = scored / "scored", "blur > 100"
    recipes = {
        "image": (
            Recipe(where=where, image="png"),
            "--image 'jpg;png;jpeg;webp': leave out --image png",
        ),
        "caption": (Recipe(where=where, caption="alt"), "--caption txt: leave out --caption alt"),
        "image_memory": (
            Recipe(where=where, image_memory="1GiB"),
            "--image-memory 512MiB: leave out --image-memory 1GiB",
        ),
    }
    for option, (recipe, message) in recipes.items():
        with pytest.raises(SettledByLedger) as refused:
            filter_shards(str(scored / "in"), tmp_path / "out", recipe, HERE, ledger=ledger)
        assert str(refused.value) == f"{ledger} was measured with {message}"
        assert refused.value.options == (option,)
    staged = Recipe(where=where, stages=(Rename({"image": "jpg"}),))
    with pytest.raises(LedgerError) as refused:
        filter_shards(str(scored / "in"), tmp_path / "out", staged, HERE, ledger=ledger)
    assert str(refused.value) == (
        f"{ledger} was measured with other stages than those of the recipe"
    )
    assert not (tmp_path / "out").exists()


def test_a_training_reads_no_samples(scored: Path):
    with pytest.raises(MissingScore):
        LedgerSubset.of(scored / "scored", "height > 10")


@pytest.mark.deep
def test_a_bare_name_is_the_only_column_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    write_shards(Path("in"), 1, 10)
    text, tag = 'caption_words(caption="txt")', 'caption_words(caption="json:tag|txt")'
    assert run("measure", "in", "-o", "scored", "--scores", text).status == 0
    done = run("filter", "in", "-o", "kept", "--ledger", "scored", "--where", "caption_words >= 3")
    assert f"dropped by {text} >= 3" in done.out
    assert LedgerSubset.of("scored", "caption_words >= 3").where == f"{text} >= 3"
    shares = run(
        "filter", "in", "-o", "half", "--ledger", "scored", "--keep", "caption_words top 50%"
    )
    assert "5  kept" in shares.out
    assert run("measure", "in", "-o", "scored", "--scores", tag).status == 0
    done = run(
        "filter",
        "in",
        "-o",
        "none",
        "--ledger",
        "scored",
        "--where",
        "blur > 1 and caption_words >= 3",
    )
    assert done.status == 2
    assert "the ledgers have 2 columns of the name caption_words" in done.err
    assert f"name one of them: {tag}, {text}" in done.err
    # A column of just this name.
    assert run("measure", "in", "-o", "scored", "--scores", "caption_words").status == 0
    assert (
        run(
            "filter", "in", "-o", "three", "--ledger", "scored", "--where", "caption_words >= 3"
        ).status
        == 0
    )


def test_a_name_is_found_anywhere_in_a_predicate():
    there = [
        ScoreCall("blur", (("image", "png"),)),
        ScoreCall("near_duplicate", (("distance", 8),)),
        ScoreCall("width"),
    ]
    where = "not any(blur > 1) or width in (1, 2) or blur is None or 2 <= mean(-blur + 1) <= 3"
    assert with_columns(where, there).count('blur(image="png")') == 3
    # Any distance can be had from what was gathered.
    assert with_columns("near_duplicate", there) == "near_duplicate"
    assert with_columns("blur(image='jpg') > 1", there) == "blur(image='jpg') > 1"
    with pytest.raises(ExpressionError, match="2 columns of the name blur"):
        with_columns("blur > 1", [*there, ScoreCall("blur", (("image", "jpg"),))])


NAMES = [
    (
        "json_number('similarty') > 0.3",
        "similarity",
        "no sample has a number 'similarty' in its json",
    ),
    ('json_number("score") > 0.3 and caption_words > 0', "meta.score", "a number 'score'"),
    ("json_text('licens') == 'by'", "license", "a text 'licens'"),
    ("json_number('license') > 1", None, "a number 'license'"),
    ("json_number('the.long.way.score') > 0", "meta.score", "a number 'the.long.way.score'"),
    ("json_text('nothing.like.it') == ''", None, "a text 'nothing.like.it'"),
]


@pytest.mark.parametrize(("where", "near", "message"), NAMES)
@pytest.mark.parametrize("more", [(), ("--ledger", "scored")])
def test_a_name_in_json_that_no_sample_has_is_refused_with_the_nearest(
    tmp_path, monkeypatch, where, near, message, more
):
    monkeypatch.chdir(tmp_path)
    tree = {"similarity": 0.5, "license": "by", "meta": {"score": 1}}
    members = [(f"{number}.{name}", data) for number in range(6) for name, data in (entries(0, 1)[0][1:] and ("jpg", entries(0, 1)[0][1]), ("txt", b"some words"), ("json", json.dumps(tree).encode()))]  # fmt: skip
    Path("in").mkdir()
    write_tar(Path("in/0.tar"), members)
    assert run("measure", "in", "-o", "scored", "--scores", "width").status == 0
    done = run("filter", "in", "-o", "out", "--where", where, *more)
    assert (done.status, message in done.err, Path("out").exists()) == (2, True, False)
    assert "6 samples of 1 shard" in done.err
    if near is None:
        assert "json_text('license')" in done.err or [
            command.split()[1] for command in done.commands
        ] == ["inspect"]
        if "license" in where:
            message = "  6 of 6 checked samples have a text 'license': json_text('license')"
            assert message in done.err.splitlines()
        if "nothing" in where:
            assert (
                "samples have json_text('license'), json_number('similarity'), json_number('meta.score')"
                in done.err
            )
    else:
        assert (
            f"6 of 6 checked samples have a {'text' if 'text' in where else 'number'} {near!r}"
            in done.err
        )
    assert all(pasted(command).status == 0 for command in done.commands)


def test_a_value_in_json_that_some_samples_have_or_that_may_be_null_is_not_refused(tmp_path: Path):
    tree = [{}, {}, {"late": 2}]
    write_tar(
        tmp_path / "0.tar",
        [(f"{number}.json", json.dumps(each).encode()) for number, each in enumerate(tree)],
    )
    for where, kept in (("json_number('late') > 1", 1), ("json_number('none') is None", 3)):
        report = filter_shards(
            str(tmp_path / "0.tar"), tmp_path / str(kept), Recipe(where=where), HERE
        )
        assert report.total("kept") == kept


def test_a_name_in_json_is_computed_where_the_ledger_has_another_one(tmp_path: Path):
    source = write_shards(tmp_path / "in", 1, 12)
    measure_shards(source, tmp_path / "scored", Recipe(scores=("json_number('n')",)), HERE)

    report = filter_shards(
        source,
        tmp_path / "out",
        Recipe(where="json_text('nothing') is None"),
        HERE,
        ledger=tmp_path / "scored",
    )

    assert not report.failures
    assert sum(record.kept for record in report.records) == 12
