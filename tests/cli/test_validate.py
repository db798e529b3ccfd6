import json
import os
import stat

import pytest

from tests.cli import shards
from wdsflow.cli.main import main


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["validate", *map(str, words)])
    return int(ended.value.code or 0)


def test_sound_shards_train_with_status_0(tmp_path, capsys):
    assert run(shards.with_txt(tmp_path)) == 0
    shown = " ".join(capsys.readouterr().out.split())  # however wide the terminal is
    assert shown.startswith("OpenCLIP")
    assert "TRAINS 16 of 16 samples reach a batch" in shown
    assert "2 shards, 16 samples" in shown


def test_captions_in_json_stall_with_status_1_and_advice(tmp_path, capsys):
    assert run(shards.with_json(tmp_path), "--for", "open-clip-3.3") == 1
    shown = capsys.readouterr().out
    assert "STALLS" in shown.splitlines()[0]
    assert "What to do" in shown
    assert "caption" in shown


def test_several_readers_have_a_verdict_each(tmp_path, capsys):
    assert (
        run(
            shards.with_json(tmp_path),
            "--for",
            "open-clip-3.3",
            "--for",
            "datasets",
            "--format",
            "json",
        )
        == 1
    )
    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    assert [verdict["reader"] for verdict in verdicts] == ["open-clip-3.3", "datasets"]
    assert verdicts[0]["outcome"] == "stalls"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["none*.tar"],
        ["{good}", "--for", "open-clap"],
        ["{good}", "--select", "Q9"],
        ["{good}", "--ignore", "Q9=why"],
        ["{good}", "--level", "deep"],
        ["{good}", "--format", "yaml"],
        ["{good}", "--max-loss", "5"],
        ["{good}", "--max-loss", "much"],
        ["{good}", "--jobs", "0"],
        ["{good}", "--baseline", "nowhere.json"],
        ["{good}", "--output", "no/such/folder/report.json"],
        ["{good}", "--", "--train-dato", "x"],
        ["--", "--batch-size", "4"],
    ],
)
def test_wrong_use_is_status_2_in_one_line_with_no_traceback(tmp_path, capsys, words):
    good = shards.with_txt(tmp_path)
    assert run(*[word.replace("{good}", good) for word in words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert 0 < len(shown.err.strip().splitlines()) <= 4
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--address", "host:1"], ["--address is for --engine ray"]),
        (
            ["--output", "x.json", "--write-baseline", "x.json"],
            [
                "two options name x.json",
                "  elsewhere: wdsflow validate s.tar --output x.json --write-baseline x-2.json",
            ],
        ),
        (
            ["--output", "s.tar"],
            [
                "s.tar has the name of a shard: it is not replaced",
                "  elsewhere: wdsflow validate s.tar --output s.json",
            ],
        ),
        (
            ["--join", "t.csv", "--caption", "jsn:"],
            ["'jsn:' is not of the form json:FIELD or json:FIELD;OTHER"],
        ),
        (
            ["--samples", "3", "--level", "full", "--pipeline", "x.py:make"],
            [
                "--level full reads all samples, and --samples only some",
                "  wdsflow validate s.tar --pipeline x.py:make --level full",
            ],
        ),
        (
            ["--confidence", "99%", "--format", "html"],
            [
                (
                    "--confidence judges random samples, without --format html: it takes only"
                    " --max-loss, --seed, --for, --level, --jobs, --engine, --address, and --format"
                    " text or json"
                ),
                "  wdsflow validate s.tar --confidence 99%",
            ],
        ),
        (
            ["--confidence", "99%", "--ignore", "W", "--", "--epochs", "3"],
            [
                (
                    "--confidence judges random samples, without --ignore and a training command:"
                    " it takes only --max-loss, --seed, --for, --level, --jobs, --engine,"
                    " --address, and --format text or json"
                ),
                "  leave out what follows --",
            ],
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused_in_these_words(
    tmp_path, monkeypatch, capsys, words, lines
):
    monkeypatch.chdir(tmp_path)
    shards.write(tmp_path / "s.tar", {"a.jpg": b"x"})
    assert run("s.tar", *words) == 2
    assert capsys.readouterr() == ("", "\n".join([f"wdsflow: {lines[0]}", *lines[1:], ""]))
    assert [path.name for path in tmp_path.iterdir()] == ["s.tar"]


def test_one_unreadable_shard_among_others_is_a_finding(tmp_path, capsys):
    pattern = shards.with_txt(tmp_path)
    (tmp_path / "0002.tar").write_bytes(b"<html>404</html>" * 64)
    assert run(tmp_path, "--format", "json") == 1
    assert any(
        "0002.tar" in (each["shard"] or "")
        for each in json.loads(capsys.readouterr().out)["findings"]
    )
    assert pattern


def test_what_training_reads_is_judged_where_no_url_is_given(tmp_path, capsys):
    pattern = shards.with_txt(tmp_path, shards=4)
    words = [
        "--train-data",
        pattern,
        "--batch-size",
        "2",
        "--workers",
        "2",
        "--train-num-samples",
        "32",
    ]
    assert run("--format", "json", "--", *words) == 0
    tree = json.loads(capsys.readouterr().out)
    assert len(tree["shards"]) == 4
    assert tree["verdicts"][0]["forecast"] is not None


def test_fewer_shards_than_workers_is_foreseen(tmp_path, capsys):
    pattern = shards.with_txt(tmp_path, shards=1)
    words = [
        "--train-data",
        pattern,
        "--batch-size",
        "2",
        "--workers",
        "4",
        "--train-num-samples",
        "8",
    ]
    assert run("--", *words) == 1
    assert "Forecast" in capsys.readouterr().out


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "html"])
def test_every_format_goes_to_a_file_and_a_summary_to_the_screen(tmp_path, capsys, form):
    file = tmp_path / "report.out"
    file.write_text("old")
    assert (
        run(
            shards.with_json(tmp_path), "--for", "open-clip-3.3", "--format", form, "--output", file
        )
        == 1
    )
    assert "STALLS" in capsys.readouterr().out
    assert len(file.read_text()) > 200
    assert [each for each in os.listdir(tmp_path) if each.endswith(".tmp")] == []
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o666 & ~umask


def test_a_run_that_fails_leaves_the_old_report_as_it_was(tmp_path, capsys):
    file = tmp_path / "report.json"
    file.write_text("old")
    assert run(tmp_path / "none*.tar", "--format", "json", "--output", file) == 2
    assert file.read_text() == "old"
    assert capsys.readouterr().out == ""


def test_a_baseline_holds_back_what_is_known_and_nothing_else(tmp_path, capsys):
    pattern = shards.with_txt(tmp_path)
    (tmp_path / "0002.tar").write_bytes(b"<html>404</html>" * 64)
    file = tmp_path / "baseline.json"
    assert run(tmp_path, "--write-baseline", file) == 0
    assert json.loads(file.read_text())
    assert run(tmp_path, "--baseline", file) == 0
    assert "in the baseline" in capsys.readouterr().out
    (tmp_path / "0003.tar").write_bytes(b"<html>404</html>" * 64)
    assert run(tmp_path, "--baseline", file) == 1
    assert pattern


@pytest.mark.deep
def test_a_baseline_holds_back_a_stall_that_is_known(tmp_path, capsys):
    pattern = shards.with_json(tmp_path)
    file = tmp_path / "baseline.json"
    assert run(pattern) == 1
    assert run(pattern, "--write-baseline", file) == 0
    assert run(pattern, "--baseline", file) == 0
    assert "STALLS" in capsys.readouterr().out
    file.write_text("[]")
    assert run(pattern, "--baseline", file) == 1


@pytest.mark.deep
def test_an_ignored_finding_does_not_fail_and_shows_its_reason(tmp_path, capsys):
    shards.with_txt(tmp_path)
    (tmp_path / "0002.tar").write_bytes(b"<html>404</html>" * 64)
    assert run(tmp_path, "--format", "json") == 1
    codes = {
        each["code"]
        for each in json.loads(capsys.readouterr().out)["findings"]
        if each["severity"] == "error"
    }
    ignore = [word for code in codes for word in ("--ignore", f"{code}=the mirror is down")]
    assert run(tmp_path, *ignore) == 0
    assert "the mirror is down" in capsys.readouterr().out


def test_the_schema_is_printed(capsys):
    assert run("--print-schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "wdsflow validation report"


def test_no_escape_sequence_leaves_a_pipe(tmp_path, capsys):
    members = {"a\x1b[31m.jpg": shards.jpeg(), "a\x1b[31m.txt": b"\x1b]0;title\x07[red]x[/red]"}
    shards.write(tmp_path / "0000.tar", members)
    run(tmp_path / "0000.tar")
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
