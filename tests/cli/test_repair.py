"""``wdsflow repair`` from the outside: exit status and what is shown."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli import shards
from tests.shards.archives import names, tar_bytes, write_tar
from wdsflow.cli.main import main


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["repair", *words])
    return int(ended.value.code or 0)


def test_json_captions_become_txt_and_the_next_step_is_shown(tmp_path: Path, capsys):
    urls = shards.with_json(tmp_path)
    out = tmp_path / "new"
    assert run(urls, "-o", str(out), "--caption", "json:caption;alt") == 0
    shown = capsys.readouterr().out
    assert "2 shards: 16 of 16 samples written" in shown
    assert "members: 32 in + 16 made = 48 out + 0 dropped" in shown
    assert f"next: wdsflow validate {out}" in shown
    assert json.loads((out / "sizes.json").read_text()) == {"0000.tar": 8, "0001.tar": 8}
    assert names(out / "0000.tar")[:3] == ["000000.jpg", "000000.json", "000000.txt"]


def test_captions_in_json_are_found_by_auto_and_named(tmp_path: Path, capsys):
    assert run(shards.with_json(tmp_path), "-o", str(tmp_path / "new"), "--caption", "auto") == 0
    shown = capsys.readouterr()
    assert shown.err.startswith(
        "wdsflow: --caption auto: 16 of 16 checked samples have one in json:caption"
    )
    assert "16 of 16 samples written" in shown.out
    assert names(tmp_path / "new" / "0000.tar")[:3] == ["000000.jpg", "000000.json", "000000.txt"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a{}.jsn", ["--rename", "jsn=json"]),
        ("a{}.json ", ["--pair-names"]),
        # The dots of the key are replaced first.
        ("a{}.v1.json", []),
    ],
)
def test_captions_may_be_in_a_field_that_another_step_names(
    name: str, options: list[str], tmp_path: Path
):
    image, caption = (
        name.replace("json", "jpg").replace("jsn", "jpg").strip(),
        b'{"caption": "a cat"}',
    )
    members = [
        member for n in range(3) for member in ((image.format(n), b"x"), (name.format(n), caption))
    ]
    write_tar(tmp_path / "0.tar", members)
    assert (
        run(
            str(tmp_path / "0.tar"),
            "-o",
            str(tmp_path / "new"),
            *options,
            "--caption",
            "json:caption",
        )
        == 0
    )
    assert sum(member.endswith(".txt") for member in names(tmp_path / "new/0.tar")) == 3


def test_auto_without_captions_in_json_is_wrong_use_and_writes_nothing(tmp_path: Path, capsys):
    write_tar(tmp_path / "0.tar", [("a.jpg", b"x"), ("a.json", b'{"width": 3}')])
    assert run(str(tmp_path / "0.tar"), "-o", str(tmp_path / "new"), "--caption", "auto") == 2
    assert capsys.readouterr().err.startswith(
        "wdsflow: --caption auto: no json member holds captions"
    )
    assert not (tmp_path / "new").exists()


def test_a_member_of_json_that_no_sample_has_is_refused_though_there_are_txt(
    tmp_path: Path, capsys
):
    members = [("a.jpg", b"x"), ("a.txt", b"a cat"), ("a.json", b'{"caption": "a red cat"}')]
    write_tar(tmp_path / "0.tar", members)
    out = str(tmp_path / "new")
    assert run(str(tmp_path / "0.tar"), "-o", out, "--caption", "json:captoin") == 2
    assert "json:captoin" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_dry_run_shows_the_same_and_writes_nothing(tmp_path: Path, capsys):
    assert run(shards.with_txt(tmp_path), "-o", str(tmp_path / "new"), "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "16 of 16 samples would be written" in shown
    assert "next:" not in shown
    assert not (tmp_path / "new").exists()


def test_losses_are_exit_status_one(tmp_path: Path, capsys):
    data = tar_bytes([("a.jpg", b"x"), ("a.txt", b"y" * 2000)])
    (tmp_path / "0.tar").write_bytes(data[:2000])
    assert run(str(tmp_path / "0.tar"), "-o", str(tmp_path / "new")) == 1
    assert "lost: at byte 1,024 the contents of a member are cut: a.txt" in capsys.readouterr().out
    assert names(tmp_path / "new/0.tar") == ["a.jpg"]


def test_fields_are_renamed_and_dropped(tmp_path: Path):
    write_tar(
        tmp_path / "0.tar", [("a.jpg", b"x"), ("a.caption", b"y"), ("a.npy", b"z"), ("a.cls", b"1")]
    )
    out = str(tmp_path / "new")
    words = ["--rename", "caption=txt", "--drop-field", "npy,cls"]
    assert run(str(tmp_path / "0.tar"), "-o", out, *words) == 0
    assert names(tmp_path / "new/0.tar") == ["a.jpg", "a.txt"]


IDLE = {
    "--rename jpgg=png": "no sample has a field jpgg",
    "--rename jpg=txt": "txt already exists",
    "--rename-bad jpg=bad": "no sample has a field jpg that does not decode",
    "--drop-field nosuch": "no sample has a field nosuch",
    "--pair-names": "no names without a partner evidently belong together",
    "--name-images": "no image lacks its name",
    "--caption-encoding cp1252": "no caption that is not UTF-8 is cp1252",
    "--caption json:caption": "no sample without a caption has one there",
}


@pytest.mark.parametrize("option", IDLE)
def test_an_option_that_changes_nothing_is_status_one_and_says_so(
    tmp_path: Path, capsys, option: str
):
    caption = b'{"caption": "a dog"}'
    members = [("a.jpg", shards.jpeg()), ("a.txt", b"a cat"), ("a.json", caption)]
    url = str(write_tar(tmp_path / "0.tar", members))
    assert run(url, "-o", str(tmp_path / "new"), *option.split()) == 1
    look = f"; to see what they have: wdsflow inspect {url}"
    why = f"{option} changed nothing: {IDLE[option]}"
    blocked = option == "--rename jpg=txt"
    assert capsys.readouterr().err == f"wdsflow: {why}{'' if blocked else look}\n"


def test_the_command_for_an_option_that_changes_nothing_shows_the_fields(tmp_path: Path, capsys):
    assert run(shards.with_txt(tmp_path), "-o", str(tmp_path / "new"), "--rename", "a=b") == 1
    told = capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main(shlex.split(told.partition("to see what they have: wdsflow ")[2]))
    assert "txt" in capsys.readouterr().out


def test_captions_that_no_sample_has_anywhere_are_refused_with_what_samples_have(
    tmp_path: Path, capsys
):
    write_tar(tmp_path / "0.tar", [("a.jpg", b"x")])
    out = str(tmp_path / "new")
    assert run(str(tmp_path / "0.tar"), "-o", out, "--caption", "json:caption") == 2
    told = "no sample has a caption in json:caption: found jpg in 1 sample of 1 shard"
    assert capsys.readouterr().err == f"wdsflow: {told}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--rename", "caption"],
            "Invalid value for '--rename': caption is not of the form OLD=NEW",
        ),
        (["--caption", "caption"], "is not of the form json:FIELD"),
        (["--drop-field", "a/b"], "is not a field name"),
    ],
)
def test_wrong_use_is_exit_status_two_in_one_line(
    tmp_path: Path, capsys, words: list[str], message: str
):
    urls = shards.with_txt(tmp_path)
    assert run(urls, "-o", str(tmp_path / "new"), *words) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "Traceback" not in shown
    assert not (tmp_path / "new").exists()


def test_existing_outputs_and_inputs_are_refused(tmp_path: Path, capsys):
    urls = shards.with_txt(tmp_path)
    assert run(urls, "-o", str(tmp_path)) == 2
    assert "is an input" in capsys.readouterr().err
    (tmp_path / "new").mkdir()
    (tmp_path / "new/0000.tar").write_bytes(b"of somebody else")
    assert run(urls, "-o", str(tmp_path / "new")) == 2
    assert (
        "exists already, and no repair wrote it: choose another folder" in capsys.readouterr().err
    )


def test_the_same_command_again_keeps_what_is_done_and_another_one_is_refused(
    tmp_path: Path, capsys
):
    urls, out = shards.with_json(tmp_path), str(tmp_path / "new")
    assert run(urls, "-o", out, "--structure-only") == 0
    capsys.readouterr()
    assert run(urls, "-o", out, "--structure-only") == 0
    assert "16 of 16 samples written (2 shards done before)" in capsys.readouterr().out
    assert run(urls, "-o", out, "--caption", "json:caption;alt", "--drop-bad") == 2
    told = capsys.readouterr().err
    assert (
        "--caption was not given, now it is json:caption;alt; --drop-bad was not given, now it is given"
        in told
    )
    assert "--restart" in told
    assert "-o" in told
    assert run(urls, "-o", out, "--caption", "json:caption;alt", "--restart") == 0
    assert "000000.txt" in names(tmp_path / "new/0000.tar")


def test_nothing_readable_is_exit_status_two(tmp_path: Path, capsys):
    (tmp_path / "0.tar").write_bytes(b"<!DOCTYPE html><html></html>")
    assert run(str(tmp_path / "0.tar"), "-o", str(tmp_path / "new")) == 2
    assert "HTML page" in capsys.readouterr().err


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
def test_a_repair_that_writes_no_sample_says_so_first_and_leaves_nothing(
    tmp_path: Path, capsys, dry: list[str]
):
    urls, out = shards.with_json(tmp_path), tmp_path / "new"
    assert run(urls, "-o", str(out), "--drop-bad", *dry) == 1
    first, *_, last = capsys.readouterr().out.splitlines()
    written = "would be written" if dry else "was written"
    assert first == f"nothing {written}: 16 of 16 samples left out for bad: no caption"
    assert last.startswith("next: wdsflow validate ") or dry
    assert not out.exists()
    assert run(urls, "-o", str(out), "--caption", "json:caption") == 0  # its options do not count


@pytest.mark.deep
def test_shards_that_can_be_read_and_hold_nothing_are_exit_status_one_and_no_others_reason_is_lost(
    tmp_path: Path, capsys
):
    write_tar(tmp_path / "0.tar", [])
    (tmp_path / "1.tar").touch()
    assert run(str(tmp_path), "-o", str(tmp_path / "new")) == 1
    shown = capsys.readouterr().out
    assert shown.startswith("nothing to write: 1 shard read, and none holds a sample")
    assert "lost: at byte 0: empty file" in shown
    assert not (tmp_path / "new").exists()


def test_what_an_earlier_repair_wrote_is_gone_where_nothing_is_left_of_it(tmp_path: Path):
    urls, out = shards.with_json(tmp_path), tmp_path / "new"
    out.mkdir()
    (out / "mine.txt").touch()
    assert run(urls, "-o", str(out)) == 0
    assert run(urls, "-o", str(out), "--drop-bad", "--restart") == 1
    assert [path.name for path in out.iterdir()] == ["mine.txt"]


def test_without_options_the_best_changes_are_planned_shown_and_made(tmp_path: Path, capsys):
    urls, out = shards.with_json(tmp_path), tmp_path / "new"
    assert run(urls, "-o", str(out), "--dry-run") == 0
    assert capsys.readouterr().out.startswith("plan: write txt from json:caption\n")
    assert not out.exists()
    assert run(urls, "-o", str(out)) == 0
    shown = capsys.readouterr().out
    assert "  step: 16 x write txt from json:caption\n" in shown
    assert names(out / "0000.tar")[:3] == ["000000.jpg", "000000.json", "000000.txt"]


def test_the_recorded_plan_resumes_and_its_promise_is_kept(tmp_path: Path, capsys, monkeypatch):
    urls, out = shards.with_json(tmp_path), tmp_path / "new"
    assert run(urls, "-o", str(out)) == 0
    (out / "0001.tar").unlink()
    capsys.readouterr()
    monkeypatch.setattr("wdsflow.validate.repair_planning.plan_repair", None)
    assert run(urls, "-o", str(out)) == 0
    assert "16 of 16 samples written (1 shard done before)" in capsys.readouterr().out
    record = json.loads((out / ".wdsflow/repair.json").read_text())
    assert record["planned"] == {
        "guessed_from": 0,
        "expected_samples": 16,
        "readers": ["open-clip"],
    }
    record["planned"]["expected_samples"] = 15
    (out / ".wdsflow/repair.json").write_text(json.dumps(record))
    assert run(urls, "-o", str(out)) == 1
    assert "the plan promised 15 samples, and 16 were written" in capsys.readouterr().err


def test_a_repair_that_costs_the_named_reader_samples_says_so(tmp_path: Path, capsys):
    """Ray Data decodes no PNG, and cannot decode the png that the repair makes of it."""
    members = []
    for number in range(4):
        members += [(f"{number}.jpg", shards.jpeg()), (f"{number}.txt", b"a dog")]
        members.append((f"{number}.PNG", shards.jpeg() if number < 2 else b"not an image at all"))
    write_tar(tmp_path / "0.tar", members)
    urls = str(tmp_path / "0.tar")
    assert run(urls, "-o", str(tmp_path / "new"), "--for", "ray-data", "--dry-run") == 0
    shown = capsys.readouterr().err
    assert "costs samples: Ray Data then ends with an exception (now 4 samples); to see" in shown
    assert f"wdsflow validate {urls} --for ray-data" in shown
    assert run(urls, "-o", str(tmp_path / "new"), "--dry-run") == 0
    assert "costs" not in capsys.readouterr().err


def test_a_plan_is_made_for_the_named_reader(tmp_path: Path, capsys):
    write_tar(tmp_path / "0.tar", [("a.jfif", shards.jpeg()), ("a.cls", b"1")])
    assert run(str(tmp_path / "0.tar"), "-o", str(tmp_path / "new"), "--for", "timm") == 0
    assert "plan: rename jfif to jpg" in capsys.readouterr().out
    assert run(str(tmp_path / "0.tar"), "-o", str(tmp_path / "new2"), "--for", "tim") == 2
    assert "unknown reader 'tim': did you mean timm?" in capsys.readouterr().err
