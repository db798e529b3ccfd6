"""``wdsflow filter``, ``measure``, ``cut`` and ``scores`` from the outside."""

import contextlib
import json
import os
import re
import subprocess
import sys
import tarfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest
import yaml

from tests.filtering.shards import picture, write_shards
from tests.shards.archives import write_tar
from wdsflow.cli import scores
from wdsflow.cli.main import main
from wdsflow.filtering.predicates.sample_facts import FACTS
from wdsflow.stages.scores import SCORES, all_scores
from wdsflow.text.install import install_extras

WHERE = ("--where", "min_side >= 200 and caption_words >= 2")


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_the_funnel_adds_up_and_the_next_step_is_shown(tmp_path: Path, capsys):
    source = write_shards(tmp_path / "in")
    assert run("filter", source, "-o", tmp_path / "out", *WHERE, "--jobs", 0) == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    numbers = [
        int(re.match(r" *(-? *[\d,]+)  ", line)[1].replace(",", "").replace(" ", ""))
        for line in lines[:4]
    ]
    assert lines[0].endswith("samples in 3 shards")
    assert numbers[0] + numbers[1] + numbers[2] == numbers[3] == 24
    assert f"next: wdsflow validate {tmp_path / 'out'}" in shown


@pytest.mark.deep
def test_validate_finds_nothing_in_the_output(tmp_path: Path, capsys):
    source = write_shards(tmp_path / "in", shards=2)
    assert run("filter", source, "-o", tmp_path / "out", *WHERE, "--jobs", 0) == 0
    # At the level full, images that occur many times would be reported, too.
    words = ("--level", "headers", "--format", "json")
    assert run("validate", source, *words) == 0
    capsys.readouterr()
    assert run("validate", tmp_path / "out", *words) == 0
    report = json.loads(capsys.readouterr().out)
    assert [
        finding for finding in report["findings"] if finding["severity"] in {"error", "warning"}
    ] == []
    assert report["samples"] == 16


@pytest.mark.parametrize("where", ["", "  \n"])
def test_a_predicate_that_is_empty_keeps_nothing_by_mistake(tmp_path: Path, capsys, where: str):
    source = write_shards(tmp_path / "in", shards=1)
    assert run("filter", source, "-o", tmp_path / "out", "--where", where, "--jobs", 0) == 2
    assert "--where is empty" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_recipe_means_what_the_flags_mean(tmp_path: Path, capsys):
    source = write_shards(tmp_path / "in", shards=1)
    assert (
        run("filter", "--print-recipe", *WHERE, "--unknown", "drop", "--scores", "blur,brightness")
        == 0
    )
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(capsys.readouterr().out)
    assert yaml.safe_load(recipe.read_text())["scores"] == ["blur", "brightness"]
    assert run("filter", source, "-o", tmp_path / "one", "--recipe", recipe, "--jobs", 0) == 0
    words = (*WHERE, "--unknown", "drop", "--scores", "blur,brightness", "--jobs", 0)
    assert run("filter", source, "-o", tmp_path / "two", *words) == 0
    one, two = (tmp_path / name / ".wdsflow/ledger/00000.parquet" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert (
        run("filter", source, "-o", tmp_path / "one", "--recipe", recipe, "--unknown", "keep") == 2
    )
    assert (
        "holds a filter with --unknown drop; this run has --unknown keep" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "r.yaml",
            "where: a\nwheer: b\n",
            "r.yaml, line 2: unknown key 'wheer'; did you mean where?",
        ),
        (
            "r.yaml",
            "where: a\n\nunknown: perhaps\n",
            "r.yaml, line 3: unknown: input should be 'quarantine'",
        ),
        (
            "r.yaml",
            "where: a\nwhere: b\n",
            "r.yaml, line 2: 'where' is given twice, first in line 1",
        ),
        ("r.yaml", "where: [a\n", "r.yaml, line 2: "),
        ("r.yaml", "- a\n", "a recipe is a mapping"),
        ("r.toml", 'where = "a"\nhash = true\n', "r.toml, line 2: unknown key 'hash'"),
        ("r.toml", "where = \n", "r.toml: "),
    ],
)
def test_a_wrong_recipe_is_told_with_its_line(tmp_path: Path, capsys, name, text, message):
    (tmp_path / name).write_text(text)
    assert run("filter", "x.tar", "-o", tmp_path / "out", "--recipe", tmp_path / name) == 2
    assert message in capsys.readouterr().err


def test_the_schema_accepts_what_is_printed_and_refuses_unknown_keys(capsys):
    assert run("filter", "--print-schema") == 0
    schema = json.loads(capsys.readouterr().out)
    assert run("filter", "--print-recipe", *WHERE) == 0
    recipe = yaml.safe_load(capsys.readouterr().out)
    jsonschema.validate(recipe, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**recipe, "wheer": ""}, schema)


@pytest.mark.deep
def test_scores_are_computed_once_and_cut_twice(tmp_path: Path, capsys):
    source = write_shards(tmp_path / "in")
    words = ("--scores", "min_side,caption_words", "--jobs", 0)
    assert run("measure", source, "-o", tmp_path / "scores", *words) == 0
    assert "next: wdsflow scores --ledger" in capsys.readouterr().out
    for least, kept in ((100, 45), (250, 15)):
        out = tmp_path / f"cut{least}"
        where = f"min_side >= {least}"
        assert (
            run(
                "filter",
                source,
                "-o",
                out,
                "--ledger",
                tmp_path / "scores",
                "--where",
                where,
                "--jobs",
                0,
            )
            == 0
        )
        assert json.loads((out / "__len__").read_text()) == kept
    assert pq.read_table(tmp_path / "scores/.wdsflow/ledger/00002.parquet").num_rows == 20


def test_the_plan_is_explained_with_costs_and_shares(tmp_path: Path, capsys):
    source = write_shards(tmp_path / "in", shards=1)
    assert run("filter", source, "--explain", "--where", "blur >= 0 and min_side >= 200") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[1].split()[1:4] == ["min_side", ">=", "200"]
    assert "50.0%" in shown[1]
    assert shown[2].split()[1] == "blur"
    assert "measured on 20 samples" in shown[3]


def test_the_plan_of_a_filter_by_ledger_names_the_scores_that_the_ledger_has(
    tmp_path: Path, capsys, monkeypatch
):
    source, scored = write_shards(tmp_path / "in", shards=1), tmp_path / "scored"
    assert run("measure", source, "-o", scored, "--scores", "blur", "--jobs", 0) == 0
    # It is not computed again.
    monkeypatch.setattr(SCORES["blur"], "of", None)
    where = "blur < 0 and min_side >= 200"
    assert run("filter", source, "--explain", "--where", where, "--ledger", scored) == 0
    shown = capsys.readouterr().out
    plan = shown[shown.index("term") :].splitlines()
    assert "50.0%" in plan[1]
    assert "in ledger" not in plan[1]
    assert plan[2].split()[:2] == ["2", "blur"]
    assert "in ledger" in plan[2]
    assert "0.0%" in plan[2].split()
    assert "  2. pixels: blur (in ledger)" in plan
    write_tar(tmp_path / "in" / "00000.tar", [("other.jpg", b"x"), ("other.txt", b"a caption")])
    assert run("filter", source, "--explain", "--where", where, "--ledger", scored) == 2
    assert "was made from another shard" in capsys.readouterr().err


def test_the_catalog_lists_scores_and_shows_a_page(capsys):
    assert run("scores") == 0
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert [line.partition(":")[0] for line in lines if line[:1].strip()][:4] == [
        "header",
        "text",
        "pixels",
        "model",
    ]
    assert sum(line.startswith("  min_side  ") for line in lines) == 1
    names = {line.split()[0] for line in lines if line.startswith("  ")}
    assert names == set(all_scores()) | set(FACTS)
    assert run("scores", "blur") == 0
    assert "blur: pixels tier, number" in capsys.readouterr().out
    assert run("scores", "minside") == 2
    assert "did you mean min_side?" in capsys.readouterr().err


def test_the_catalog_says_which_scores_are_dear(capsys):
    assert run("scores") == 0
    lines = {
        line.split()[0]: line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("  ")
    }
    assert "~6 s, needs wdsflow[ocr]: " in lines["ocr_area"]
    assert "~0.2 s, needs" in lines["clip_similarity"]
    assert "~" not in lines["blur"]
    assert run("scores", "ocr_area") == 0
    assert "cost: about 6 s of a CPU core for a sample" in capsys.readouterr().out


def test_a_page_says_what_a_reduced_scale_changes_and_how_to_avoid_it(capsys):
    tolerances = {}
    for name in ("blur", "ocr_area", "width"):
        assert run("scores", name) == 0
        tolerances[name] = (
            capsys.readouterr().out.partition("\ntolerance: ")[2].partition("\n\n")[0]
        )
    reduced = "in photographs: large images are decoded at a reduced scale;"
    changed = "stripes, checks and noise of a few pixels may change more"
    assert tolerances == {
        "blur": f"at most 0.35 of the value, {reduced}\n{changed}",
        "ocr_area": f'at most 0.04, {reduced}\n{changed}; decode="exact" avoids it',
        "width": "",
    }


def test_a_page_says_whether_what_a_score_needs_is_installed(capsys):
    class Made(SCORES["width"], needs=("clip",), packages=("pillow",)):  # type: ignore[call-arg, valid-type, misc, name-defined]
        pass

    class Missing(SCORES["width"], needs=("clip",), packages=("pillow", "no-such-package")):  # type: ignore[call-arg, valid-type, misc, name-defined]
        pass

    assert scores._needs(Made) == "the extra clip, which is installed"
    assert scores._needs(Missing) == install_extras("clip")
    if find_spec("fasttext"):
        assert run("scores", "language") == 0
        assert "needs: the extra language, which is installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["filter"], ["no shards given: ", "no output folder given: ", "no predicate given: "]),
        (
            ["measure"],
            ["no shards given: ", "no output folder given: ", "no scores given: ", "all scores: "],
        ),
        (["filter", "-o", "kept"], ["no shards given: ", "no predicate given: "]),
        (
            ["filter", "in.tar"],
            [
                "no output folder given: ",
                "no predicate given: ",
                "wdsflow filter in.tar -o kept --where True",
            ],
        ),
        (
            ["measure", "in.tar"],
            [
                "no output folder given: ",
                "no scores given: ",
                "all scores: ",
                "wdsflow measure in.tar -o scored --scores caption_words,min_side",
            ],
        ),
        (
            ["filter", "in.tar", "--dry-run"],
            ["no predicate given: ", "wdsflow filter in.tar --where True --dry-run"],
        ),
    ],
)
def test_all_that_a_command_lacks_is_one_message(tmp_path: Path, monkeypatch, capsys, words, lines):
    monkeypatch.chdir(tmp_path)
    assert run(*words) == 2
    printed = capsys.readouterr().err.removeprefix("wdsflow: ").splitlines()
    assert len(printed) == len(lines)
    assert all(
        line.strip().startswith(start) for line, start in zip(printed, lines, strict=True)
    ), printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("filter",), "no shards given"),
        (("filter", "x.tar"), "no output folder given: name one with -o"),
        (("filter", "nothing-*.tar", "-o", "out", "--where", "True"), "no shards match"),
        (("filter", "{in}", "-o", "out", "--where", "minside > 3"), "did you mean min_side?"),
        (
            ("filter", "{in}", "-o", "out", "--where", "True", "--memory", "1MiB"),
            "too little memory",
        ),
        (("filter", "{in}", "-o", "out", "--where", "True", "--memory", "4G"), "two meanings"),
        (
            (
                "filter",
                "{in}",
                "-o",
                "out",
                "--where",
                "True",
                "--shard-index",
                "3",
                "--shard-count",
                "3",
            ),
            "slice 3 of 3 does not exist",
        ),
        (
            ("filter", "{in}", "-o", "out", "--where", "True", "--shard-count", "3", "--restart"),
            "other slices",
        ),
        (("measure", "{in}", "-o", "out"), "no scores given"),
        (
            ("filter", "{in}", "-o", "out", "--ledger", "none", "--where", "True"),
            "none has no ledgers",
        ),
    ],
)
def test_wrong_use_is_status_2_and_one_message(tmp_path: Path, monkeypatch, capsys, words, message):
    source = write_shards(tmp_path / "in", shards=1, samples=1)
    monkeypatch.chdir(tmp_path)
    assert run(*(word.replace("{in}", source) for word in words)) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told
    assert not list(tmp_path.glob("out/*.tar"))


def test_a_shard_that_cannot_be_read_is_status_1(tmp_path: Path, capsys):
    write_tar(tmp_path / "0.tar", [("a.jpg", picture(300, 300))])
    (tmp_path / "1.tar").write_bytes(b"<!doctype html>")
    words = ("filter", tmp_path, "-o", tmp_path / "out", "--where", "min_side >= 200", "--jobs", 0)
    assert run(*words, "--dry-run") == 1
    shown = capsys.readouterr().out
    assert "1 shard could not be read: fix this before the run without --dry-run" in shown
    assert "resumes" not in shown
    assert run(*words) == 1
    shown = capsys.readouterr().out
    assert "1.tar: not a tar: looks like HTML page" in shown
    assert "1 shard is not done: fix this, and the same command resumes with it" in shown
    write_tar(tmp_path / "1.tar", [("b.jpg", picture(300, 300))])
    assert run(*words) == 0
    assert "2  kept" in capsys.readouterr().out


def test_a_shard_that_is_cut_is_filtered_up_to_there_and_status_1(tmp_path: Path, capsys):
    source = write_shards(tmp_path / "in", shards=1, samples=8)
    whole = tmp_path / "in" / "00000.tar"
    with tarfile.open(whole) as tar:
        caption = tar.getmember("0000007.txt")
    whole.write_bytes(whole.read_bytes()[: caption.offset_data])
    assert (
        run("filter", source, "-o", tmp_path / "out", "--where", "min_side >= 200", "--jobs", 0)
        == 1
    )
    shown = capsys.readouterr().out
    assert "damaged: " in shown
    assert "quarantined: beside-damage" in shown
    assert "3  kept" in shown


def test_each_pass_has_a_bar_that_says_what_is_done(tmp_path):
    source = write_shards(tmp_path / "in", shards=2, samples=4)
    terminal, other = os.openpty()
    words = [
        "filter",
        source,
        "-o",
        str(tmp_path / "out"),
        "--where",
        "not duplicate",
        "--jobs",
        "0",
    ]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [sys.executable, "-m", "wdsflow", *words], stderr=other, stdout=-3, env=environment
    )
    os.close(other)
    shown = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while data := os.read(terminal, 4096):
            shown += data
    os.close(terminal)
    assert process.wait() == 0
    assert shown.index(b"measuring") < shown.index(b"writing")


def test_a_bar_counts_samples_and_why_they_are_left_out_and_a_shard_that_fails_adds_none(
    tmp_path, monkeypatch
):
    source = write_shards(tmp_path / "in", shards=2, samples=4)
    (tmp_path / "in" / "00002.tar").write_bytes(b"no tar")
    write_tar(tmp_path / "in" / "00003.tar", [("a.txt", b"a cat")])
    terminal, other = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    where, shown = "min_side > 150", bytearray()

    def look() -> None:
        with contextlib.suppress(OSError):  # how a terminal ends
            while data := os.read(terminal, 4096):
                shown.extend(data)

    looking = threading.Thread(target=look)
    looking.start()
    # No time passes: at least a thousandth of a second is assumed.
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    with os.fdopen(other, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        assert run("filter", source, "-o", tmp_path / "out", "--where", where, "--jobs", 0) == 1
        monkeypatch.undo()
    looking.join()
    os.close(terminal)
    last = shown.decode().rpartition("shards")[2]
    assert re.search(
        r"9,000 samples/s,( [\d.]+ MiB,)? kept 4, -4 min_side > 150, -1 no-image\r", last
    ), last
