"""A pilot looks at a part of the samples of a few shards."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.filtering.commands import run
from tests.filtering.shards import entries, picture, write_shards
from tests.shards.archives import read_tar, write_tar
from wdsflow import Recipe
from wdsflow.expressions.score_call import ScoreCall
from wdsflow.filtering import pilot_run
from wdsflow.filtering.pilot_run import explain_plan, measure_pilot
from wdsflow.shards.urls import expand


@pytest.mark.parametrize(
    ("shards", "most", "samples"), [(1, 3, 3), (1, 9, 4), (3, 5, 6), (9, 6, 8), (9, 100, 16)]
)
def test_samples_of_at_most_four_shards_are_looked_at(tmp_path, monkeypatch, shards, most, samples):
    write_shards(tmp_path / "in", shards=shards, samples=4)
    monkeypatch.setattr(pilot_run, "SAMPLES", most)
    pilot = measure_pilot(
        str(tmp_path / "in"), Recipe(where="width > 1 and not duplicate and caption_words < 0")
    )
    assert pilot.samples == samples
    assert set(pilot.seconds) == {
        ScoreCall("width"),
        ScoreCall("duplicate"),
        ScoreCall("caption_words"),
    }
    assert all(0 < seconds < 60 for seconds in pilot.seconds.values())
    (unique,) = [term for term in pilot.terms if str(term) == "not duplicate"]
    assert pilot.share_reaching((unique,)) == 1.0


def test_a_rank_costs_what_the_scores_cost_that_it_ranks(tmp_path: Path) -> None:
    write_shards(tmp_path / "in", shards=1, samples=4)
    where = "rank_percent(of='blur') <= 30"

    pilot = measure_pilot(str(tmp_path / "in"), Recipe(where=where))

    (seconds,) = pilot.seconds.values()
    # Images are decoded; without that, a sample takes a microsecond.
    assert seconds > 5e-5


def test_shards_are_taken_from_all_over(tmp_path, monkeypatch):
    write_shards(tmp_path / "in", shards=10, samples=1)
    looked_at, add = [], pilot_run._PilotScores.add

    def noted(scores, url, *given, **more):
        looked_at.append(url)
        add(scores, url, *given, **more)

    monkeypatch.setattr(pilot_run._PilotScores, "add", noted)
    measure_pilot(str(tmp_path / "in"), Recipe(where="width > 1"))
    urls = expand([str(tmp_path / "in")], allow_pipe=True).urls
    assert looked_at == [urls[0], urls[2], urls[4], urls[6]]


def test_the_plan_is_shown_with_what_was_measured(tmp_path):
    write_shards(tmp_path / "in", shards=1, samples=4)
    lines = explain_plan(
        str(tmp_path / "in"), Recipe(where="width > 1 and height < 0")
    ).splitlines()
    assert [line.split()[:4] for line in lines[1:3]] == [
        ["1", "width", ">", "1"],
        ["2", "height", "<", "0"],
    ]
    assert lines[3].startswith("measured on 4 samples; on average ")
    with pytest.raises(ValueError, match="no predicate to explain"):
        measure_pilot(str(tmp_path / "in"), Recipe())


def test_scores_by_models_have_no_numbers_and_make_later_ones_bounds(tmp_path):
    write_shards(tmp_path / "in", shards=1, samples=4)
    recipe = Recipe(where="ocr_area > 0.9 and width > 1 and not duplicate")
    lines = explain_plan(str(tmp_path / "in"), recipe).splitlines()
    (model,) = [line for line in lines[1:4] if "ocr_area" in line]
    assert model.count("not measured") == 2
    (last,) = [
        number for number, line in enumerate(lines) if "at most 100.0% pass all terms" in line
    ]
    assert lines[last + 1].startswith("scores by models come in addition")


@pytest.mark.sample(1)
@pytest.mark.parametrize("unknown", ["quarantine", "keep", "drop"])
@pytest.mark.parametrize(
    "where",
    [
        "width > 100 and caption_words >= 2 and not duplicate",
        "max(width) > 290 or any(width < 100) and 'word' in caption",
        "json_number('n') / (caption_words - 2) > 1 or has('png') or blur is None",
        "key != '0000002' and (blur > 100 if width > 200 else caption_length % 5 != 4)",
    ],
)
def test_the_printed_query_finds_the_kept_samples_in_any_duckdb(
    tmp_path, monkeypatch, where, unknown
):
    monkeypatch.chdir(tmp_path)
    members = [
        *entries(0, 30),
        ("two.jpg", picture(300, 300)),
        ("two.0.jpg", picture(80, 90)),
        ("two.txt", b"word"),
    ]
    members += [("bad.jpg", b"no image"), ("bad.txt", b"some words"), ("none.json", b"{}")]
    write_tar(tmp_path / "0.tar", members)
    words = ("0.tar", "-o", "out", "--where", where, "--unknown", unknown, "--image", "jpg;0.jpg")
    query = run("filter", *words, "--explain").out.splitlines()[-1]
    assert query.startswith("SELECT key FROM ")
    run("filter", *words)
    kept = list(
        dict.fromkeys(name.partition(".")[0] for name, _ in read_tar(tmp_path / "out/0.tar"))
    )
    assert 0 < len(kept) < 34
    found = subprocess.run(
        [
            sys.executable,
            "-c",
            "import duckdb, sys; print(*(key for key, in duckdb.sql(sys.argv[1]).fetchall()))",
            query,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == kept
