"""From validate --certify to verify: local shards, moved ones, and every way in which they are not the same."""

import json
import os
import shutil
import time
from random import Random

import pytest

from tests.cli import shards
from tests.printed.pasted import commands, paste
from wdsflow.cli.main import main
from wdsflow.shards.certificate import load


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture
def certified(tmp_path, capsys):
    """A folder with four shards in ``set``, and their certificate next to it."""
    (tmp_path / "set").mkdir()
    shards.with_txt(tmp_path / "set", shards=4)
    assert run("validate", tmp_path / "set", "--certify", tmp_path / "c.json") == 0
    assert "  wdsflow verify" in capsys.readouterr().err
    return tmp_path


def flip(path, place):
    """Change one byte, and nothing else that a file system tells."""
    found = path.stat()
    with path.open("r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ (1 << place % 8)]))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


def test_shards_that_were_not_touched_are_the_same(certified, capsys):
    assert run("verify", certified / "c.json") == 0
    assert "the same: all 4 shards; compared by size" in capsys.readouterr().out
    assert run("verify", certified / "c.json", "--full") == 0
    assert "all bytes were hashed" in capsys.readouterr().out


@pytest.mark.sample(1)
@pytest.mark.parametrize("level", ["names", "headers", "full"])
def test_the_root_does_not_depend_on_the_level_or_the_number_of_processes(certified, level, capsys):
    root = load(certified / "c.json").root
    for jobs in (1, 2):
        assert (
            run("validate", certified / "set", "--level", level, "--jobs", jobs, "--certify", certified / "d.json") == 0
        )
        assert load(certified / "d.json").root == root
    assert "read all" in capsys.readouterr().out


def test_a_certificate_says_what_was_judged(certified, capsys):
    facts = load(certified / "c.json").facts
    assert facts["trains"] is True
    assert [(each["reader"], each["outcome"], each["usable"]) for each in facts["verdicts"]] == [
        ("open-clip-3.3", "trains", 32)
    ]
    assert facts["versions"]["wdsflow"]
    words = ["--train-data", f"{certified}/set/{{0000..0003}}.tar", "--batch-size", "2", "--workers", "1"]
    assert run("validate", "--certify", certified / "f.json", "--", *words, "--train-num-samples", "32") == 0
    assert load(certified / "f.json").facts["verdicts"][0]["forecast"]["batch_size"] == 2


def test_every_difference_is_reported_by_name_and_its_commands_work(certified, capsys, monkeypatch):
    monkeypatch.chdir(certified)
    folder = certified / "set"
    with (folder / "0000.tar").open("ab") as file:
        file.write(bytes(512))
    (folder / "0001.tar").unlink()
    shutil.copy(folder / "0002.tar", folder / "0009.tar")
    os.utime(folder / "0003.tar")
    assert run("verify", "c.json") == 1
    shown = capsys.readouterr().out
    lines = {line.split(":")[0].strip() for line in shown.splitlines()}
    assert {"changed    0000.tar", "missing    0001.tar", "added      0009.tar", "unknown    0003.tar"} <= lines
    assert "1 of 4 shards the same" in shown
    found = commands(shown)
    assert len(found) == 4
    for command in found:
        assert paste(command, certified).status in (0, 1), command
    assert run("verify", "c-2.json", "--full") == 0  # what the last command certified


def test_json_has_all_shards_that_differ(certified, capsys):
    for number in range(3):
        (certified / "set" / f"000{number}.tar").unlink()
    assert run("verify", certified / "c.json", "--json") == 1
    tree = json.loads(capsys.readouterr().out)
    assert tree["ok"] is False
    assert [each["name"] for each in tree["missing"]] == ["0000.tar", "0001.tar", "0002.tar"]
    assert tree["same"] == 1


def test_a_shard_that_is_written_again_with_the_same_bytes_is_the_same_only_to_who_reads_it(certified, capsys):
    os.utime(certified / "set" / "0000.tar")
    assert run("verify", certified / "c.json") == 1
    assert "--full" in capsys.readouterr().out
    assert run("verify", certified / "c.json", "--full") == 0


def test_one_flipped_byte_is_found_by_full_wherever_it_is(certified, capsys):
    rng = Random(0)
    for _ in range(12):
        path = certified / "set" / f"000{rng.randrange(4)}.tar"
        place = rng.randrange(path.stat().st_size)
        flip(path, place)
        assert run("verify", certified / "c.json", "--full", "--json") == 1
        tree = json.loads(capsys.readouterr().out)
        assert ([each["name"] for each in tree["changed"]], tree["same"]) == ([path.name], 3)
        flip(path, place)
    assert run("verify", certified / "c.json", "--full") == 0


@pytest.mark.deep
def test_one_flipped_byte_is_found_in_ten_thousand_trials(certified, capsys):
    from wdsflow.indexing.compare import compare

    rng = Random(1)
    certificate = load(certified / "c.json")
    for _ in range(10_000):
        path = certified / "set" / f"000{rng.randrange(4)}.tar"
        place = rng.randrange(path.stat().st_size)
        flip(path, place)
        found = compare(certificate, certified / "c.json", full=True, jobs=1)
        assert not found.ok
        assert [each.name for each in found.changed] == [path.name]
        flip(path, place)


def test_a_set_that_is_moved_with_its_certificate_is_found(certified):
    (certified / "elsewhere").mkdir()
    for name in ("set", "c.json"):
        shutil.move(certified / name, certified / "elsewhere")
    assert run("verify", certified / "elsewhere" / "c.json") == 0


def test_a_set_that_is_moved_alone_is_found_where_the_url_says(certified, monkeypatch, capsys):
    (certified / "new").mkdir()
    shutil.move(certified / "set", certified / "new" / "place")
    assert run("verify", certified / "c.json") == 1
    assert "missing" in capsys.readouterr().out
    monkeypatch.chdir(certified)
    for url in ("new/place", "new/place/", "new/place/{0000..0003}.tar", "new/place/*.tar"):
        assert run("verify", "c.json", url, "--full") == 0, url
    assert run("verify", "c.json", "new/place/{0000..0002}.tar") == 1  # not everything was compared
    assert "0003.tar: not among the shards given" in capsys.readouterr().out
    shutil.copy("new/place/0000.tar", "new/place/7.tar")
    assert run("verify", "c.json", "new/place/*.tar") == 1
    assert "added      7.tar" in capsys.readouterr().out


def test_folders_in_a_set_are_part_of_names(tmp_path, capsys):
    for folder in ("a", "b"):
        (tmp_path / "set" / folder).mkdir(parents=True)
        shards.with_txt(tmp_path / "set" / folder)
    shutil.rmtree(tmp_path / "set" / "b")
    shutil.copytree(tmp_path / "set" / "a", tmp_path / "set" / "b")
    words = ["--ignore", "W,F,P", "--certify", tmp_path / "c.json"]
    assert run("validate", tmp_path / "set" / "a", tmp_path / "set" / "b", *words) == 0
    assert sorted(load(tmp_path / "c.json").shards) == ["a/0000.tar", "a/0001.tar", "b/0000.tar", "b/0001.tar"]
    assert run("verify", tmp_path / "c.json", tmp_path / "set", "--full") == 0
    flip(tmp_path / "set" / "b" / "0001.tar", 2000)
    assert run("verify", tmp_path / "c.json", f"{tmp_path}/set/{{a,b}}/{{0000..0001}}.tar", "--full") == 1
    assert "changed    b/0001.tar" in capsys.readouterr().out


def test_other_shards_in_the_folder_are_not_added_ones_if_they_never_were_in_the_set(tmp_path, capsys):
    shards.with_txt(tmp_path, shards=4)
    assert run("validate", f"{tmp_path}/{{0000..0001}}.tar", "--certify", tmp_path / "c.json") == 0
    assert run("verify", tmp_path / "c.json") == 0
    assert "added shards were not looked for" in capsys.readouterr().out


def test_a_set_that_does_not_train_gets_no_certificate_unless_what_was_found_is_accepted(tmp_path, capsys):
    pattern = shards.with_json(tmp_path)
    file = tmp_path / "c.json"
    assert run("validate", pattern, "--for", "open-clip-3.3", "--certify", file) == 1
    shown = capsys.readouterr().err
    assert "no certificate written to" in shown
    assert "stalls" in shown
    assert not file.exists()
    (command,) = commands(shown)
    assert paste(command, tmp_path).status == 0
    facts = load(file).facts
    assert facts["trains"] is False
    assert facts["verdicts"][0]["outcome"] == "stalls"
    assert "F101" in {each["code"] for each in facts["accepted"]}
    assert run("verify", file) == 0
    assert "STALLS" in capsys.readouterr().out


def test_an_older_certificate_is_left_as_it_is_and_that_is_said(certified, capsys):
    before = (certified / "c.json").read_bytes()
    (certified / "set" / "0001.tar").write_bytes(b"<html>404</html>" * 64)
    assert run("validate", certified / "set", "--certify", certified / "c.json") == 1
    assert "the file there is an older one" in capsys.readouterr().err
    assert (certified / "c.json").read_bytes() == before


@pytest.mark.parametrize("missing", ["{}/none*.tar", "{}/{{0..3}}.tar"])
def test_nothing_is_certified_where_nothing_can_be_read(tmp_path, capsys, missing):
    assert run("validate", missing.format(tmp_path), "--certify", tmp_path / "c.json") == 2
    assert not (tmp_path / "c.json").exists()


def test_the_output_of_a_command_has_no_certificate(tmp_path, capsys):
    shards.with_txt(tmp_path)
    assert run("validate", f"pipe:cat {tmp_path}/0000.tar", "--allow-pipe", "--certify", tmp_path / "c.json") == 2
    assert "name the shards as files or urls" in capsys.readouterr().err


def test_a_certificate_that_cannot_be_read_or_was_tampered_with_is_wrong_use(certified, capsys):
    text = (certified / "c.json").read_text()
    (certified / "c.json").write_text(text.replace("trains", "stalls", 1))
    for file in (certified / "c.json", certified / "none.json", certified / "set", certified / "set" / "0000.tar"):
        assert run("verify", file) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert 0 < len(shown.err.splitlines()) <= 2


def test_names_that_are_hostile_are_harmless(tmp_path, capsys):
    shards.with_txt(tmp_path, shards=1)
    name = "a b\x1b[31m'$(touch hacked).tar"
    os.rename(tmp_path / "0000.tar", tmp_path / name)
    assert run("validate", tmp_path, "--certify", tmp_path / "c.json") == 0
    flip(tmp_path / name, 700)
    capsys.readouterr()
    assert run("verify", tmp_path / "c.json", "--full") == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    for command in commands(shown):
        assert paste(command, tmp_path).status in (0, 1), command
    assert not (tmp_path / "hacked").exists()


def test_a_thousand_shards_are_compared_in_less_than_two_seconds(tmp_path, capsys):
    shards.with_txt(tmp_path, shards=1, samples=1)
    data = (tmp_path / "0000.tar").read_bytes()
    for number in range(1000):
        (tmp_path / f"{number:04d}.tar").write_bytes(data)
    assert run("validate", tmp_path, "--level", "names", "--select", "W001", "--certify", tmp_path / "c.json") == 0
    start = time.process_time()
    assert run("verify", tmp_path / "c.json") == 0
    assert time.process_time() - start < 2


def test_a_full_disk_is_reported_and_leaves_no_certificate(certified, capsys):
    assert run("validate", certified / "set", "--certify", "/dev/full") == 2
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--certify", "--croissant", "--write-baseline", "--output"])
def test_a_file_with_the_name_of_a_shard_is_not_replaced(tmp_path, capsys, option):
    shards.with_txt(tmp_path, 3, 2)
    names = [tmp_path / f"{number:04d}.tar" for number in range(3)]
    before = names[0].read_bytes()
    assert run("validate", option, *names) == 2
    assert "0000.tar has the name of a shard: it is not replaced" in capsys.readouterr().err
    assert names[0].read_bytes() == before


def test_two_options_do_not_write_one_file(tmp_path, capsys):
    shards.with_txt(tmp_path, 1, 2)
    file = tmp_path / "x.json"
    assert run("validate", tmp_path / "0000.tar", "--certify", file, "--croissant", file) == 2
    assert "two options name" in capsys.readouterr().err
    assert not file.exists()
