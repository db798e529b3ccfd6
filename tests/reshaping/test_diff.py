"""diff: what two sets of shards have in common, and what not."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli import shards
from tests.cli.commands import run
from tests.shards.archives import folder, read_tar, tar_bytes, write_tar
from wdsflow.reshaping.diff import diff_shards
from wdsflow.reshaping.diff.key_records import FieldRecord, KeyParts, KeyRecord, compare_part
from wdsflow.reshaping.diff.set_diff import SetDiff, markdown_lines, text_lines

Sample = tuple[str, dict[str, bytes]]


def write(path: Path, *samples: Sample) -> str:
    """Write a set of one shard."""
    path.mkdir(parents=True, exist_ok=True)
    write_tar(path / "0.tar", [(f"{key}.{name}", data) for key, fields in samples for name, data in fields.items()])
    return str(path)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """Two sets: a is the same, b has another caption, c another field, d and e are in one of them only."""
    common = ("a", {"jpg": b"1", "txt": b"one"})
    before = write(
        tmp_path / "A",
        common,
        ("b", {"jpg": b"2", "txt": b"a cat"}),
        ("c", {"jpg": b"3", "txt": b"three", "cls": b"7"}),
        ("d", {"jpg": b"4"}),
    )
    after = write(
        tmp_path / "B",
        ("e", {"jpg": b"5"}),
        ("c", {"JPG": b"3", "json": b"{}", "txt": b"three"}),
        ("b", {"txt": b"a black cat", "jpg": b"2"}),
        common,
    )
    return before, after


def test_samples_fields_and_captions_that_differ_are_reported(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("diff", *pair) == 1
    assert capsys.readouterr().out.splitlines() == [
        "A: 1 shard, 4 samples, 18 bytes in cls, jpg, txt",
        "B: 1 shard, 4 samples, 25 bytes in jpg, json, txt",
        "",
        "4 samples in A = 1 the same + 2 changed + 1 only in A",
        "4 samples in B = 1 the same + 2 changed + 1 only in B",
        "",
        "fields",
        "  cls: removed in 1",
        "  json: added in 1",
        "  txt: changed in 1",
        "",
        "changed",
        "  b: txt changed",
        "    - a cat",
        "    + a black cat",
        "  c: cls removed, json added",
        "",
        "only in A",
        f"  d  ({pair[0]}/0.tar)",
        "",
        "only in B",
        f"  e  ({pair[1]}/0.tar)",
        "",
        "NOT the same: 2 changed, 1 only in A, 1 only in B; 1 sample the same",
    ]


def test_json_says_the_same(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("diff", *pair, "--format", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["same"], found["exit_status"], found["samples"]) == (False, 1, {"same": 1, "changed": 2})
    assert found["changed"][0] == {
        "key": "b",
        "shard": f"{pair[0]}/0.tar",
        "fields": {"txt": "changed"},
        "captions": [{"field": "txt", "before": "a cat", "after": "a black cat"}],
    }
    assert found["fields"] == {"cls": {"removed": 1}, "json": {"added": 1}, "txt": {"changed": 1}}
    assert [found["sets"][name]["only_here"] for name in "AB"] == [1, 1]


def test_it_does_not_matter_in_which_shards_samples_are(tmp_path: Path) -> None:
    before = shards.with_txt(tmp_path, shards=3)
    shard = (tmp_path / f"{number:04d}.tar" for number in reversed(range(3)))
    members = {name: data for path in shard for name, data in read_tar(path)}
    (tmp_path / "one").mkdir()
    shards.write(tmp_path / "one/all.tar", members)
    found = diff_shards(before, str(tmp_path / "one"))
    assert (found.exit_status, found.same) == (0, 24)


def test_sets_that_are_the_same_end_with_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = shards.with_txt(tmp_path)
    for form in ("text", "json", "markdown"):
        assert run("diff", url, url, "--format", form) == 0
    assert "the same: 16 samples" in capsys.readouterr().out


def test_empty_sets_are_the_same(tmp_path: Path) -> None:
    empty, other = write(tmp_path / "A"), write(tmp_path / "B", ("a", {"txt": b"1"}))
    assert diff_shards(empty, empty).exit_status == 0
    found = diff_shards(empty, other)
    assert (found.exit_status, found.only) == (1, [0, 1])


def test_a_key_that_occurs_several_times_is_compared_as_often(tmp_path: Path) -> None:
    texts = lambda *each: [("k", {"txt": text}) for text in each]  # noqa: E731
    before = write(tmp_path / "A", *texts(b"1", b"2", b"2", b"3"))
    after = write(tmp_path / "B", *texts(b"2", b"4", b"1"))
    found = diff_shards(before, after)
    assert (found.same, found.changed, found.only) == (2, 1, [1, 0])
    assert [side.repeated for side in found.sides] == [3, 2]
    assert found.changed_examples[0].captions == [("txt", "2", "4")]


@given(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xyz"), st.sampled_from([b"1", b"2"])), max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_repeated_keys_are_multisets(rows: list[tuple[str, str, bytes]]) -> None:
    found = SetDiff()
    records = []
    for number, (name, key, text) in enumerate(rows):
        side = "AB".index(name)
        found.sides[side].samples += 1
        found.sides[side].shards = ["0.tar"]
        records.append(KeyRecord(side, key, 0, number, (FieldRecord("txt", 1, text[0], text),)))
    compare_part(records, found)
    found.check()
    sets = [Counter((key, text) for side, key, text in rows if side == name) for name in "AB"]
    keys = [Counter(key for side, key, _ in rows if side == name) for name in "AB"]
    assert found.same == (sets[0] & sets[1]).total()
    assert found.same + found.changed == (keys[0] & keys[1]).total()


def test_a_shard_that_is_cut_is_trouble_and_the_rest_is_compared(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(pair[1]) / "1.tar"
    path.write_bytes(tar_bytes([("f.jpg", bytes(3000)), ("g.jpg", bytes(3000))])[:5000])
    assert run("diff", *pair) == 2
    printed = capsys.readouterr().out
    assert f"could not be read: {path}: at byte " in printed
    assert "1 shard could not be read whole: what is reported is about the rest" in printed
    assert "5 samples in B = 1 the same + 2 changed + 2 only in B" in printed


@pytest.mark.parametrize("data", [b"", b"<html>", None])
def test_what_is_no_tar_is_trouble(pair: tuple[str, str], data: bytes | None) -> None:
    path = Path(pair[1]) / "1.tar"
    if data is not None:
        path.write_bytes(data)
        assert diff_shards(*pair).exit_status == 2
    assert run("diff", pair[0], f"{pair[1]}/none.tar") == 2
    assert run("diff", pair[0], f"{pair[1]}/none/") == 2


def test_hostile_texts_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b[31m</details>\n`` ```js|<script>\u202e".encode() + b"\xff" + b"x" * 5000
    before = write(tmp_path / "A", ("k`|<b>\x1b", {"txt": b"plain", "j`s": b"1"}))
    after = write(tmp_path / "B", ("k`|<b>\x1b", {"txt": evil, "j`s": b"2"}))
    for form in ("text", "markdown"):
        assert run("diff", before, after, "--format", form) == 1
        printed = capsys.readouterr().out
        assert "\x1b" not in printed
        assert "\u202e" not in printed
        assert max(map(len, printed.splitlines())) < 1000
        assert "\\x1b[31m</details>\\n`` ```js|<script>" in printed
    (line,) = (line for line in printed.splitlines() if "after" in line)
    assert line.startswith("  - after: ````\\x1b")
    assert line.endswith("````")
    assert run("diff", before, after, "--format", "json") == 1
    assert json.loads(capsys.readouterr().out)["changed"][0]["captions"][0]["after"].startswith("\x1b[31m")


def test_names_that_are_not_utf8_are_keys_like_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"\xff\xfe")
    before, after = (write(tmp_path / side, (f"{name}{side}", {"txt": b"1"}), (name, {"txt": b"2"})) for side in "AB")
    for form in ("text", "json", "markdown"):
        assert run("diff", before, after, "--format", form) == 1
    assert "\\xff\\xfeA" in capsys.readouterr().out


def test_members_of_no_sample_are_counted(tmp_path: Path) -> None:
    (tmp_path / "A").mkdir()
    write_tar(tmp_path / "A/0.tar", [folder("d"), ("README", b"1"), ("a.txt", b"1")])
    found = diff_shards(str(tmp_path / "A"), write(tmp_path / "B", ("a", {"txt": b"1"})))
    assert (found.exit_status, found.sides[0].left_out.total()) == (0, 2)
    assert any("2 members of no sample" in line for line in text_lines(found))


def test_only_the_first_samples_are_shown(tmp_path: Path) -> None:
    many = [(f"{number:04d}", {"txt": str(number).encode()}) for number in range(500)]
    before = write(tmp_path / "A", *many)
    after = write(tmp_path / "B", *((key, {"txt": b"x"}) for key, _ in many[:400]))
    found = diff_shards(before, after, shown=3)
    assert [each.key for each in found.changed_examples] == ["0000", "0001", "0002"]
    assert [each.key for each in found.only_examples[0]] == ["0400", "0401", "0402"]
    assert (found.changed, found.only) == (400, [100, 0])
    assert "changed (the first 3 of 400)" in "\n".join(text_lines(found))
    assert "(the first 3 of 100)" in "\n".join(markdown_lines(found))
    none = diff_shards(before, after, shown=0)
    assert none.changed_examples == []
    assert "the first 0" not in "\n".join([*text_lines(none), *markdown_lines(none)])


def test_scores_are_compared_where_both_sets_have_ledgers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, side in (("A", 32), ("B", 48)):
        members = {
            f"{n}.{kind}": shards.jpeg(side if n else 32) if kind == "jpg" else b"a"
            for n in range(4)
            for kind in ("jpg", "txt")
        }
        (tmp_path / name).mkdir()
        shards.write(tmp_path / name / "0.tar", members)
        assert run("measure", tmp_path / name, "-o", tmp_path / f"{name}-scores", "--scores", "min_side") == 0
    capsys.readouterr()
    words = [
        "diff",
        tmp_path / "A",
        tmp_path / "B",
        "--ledger-a",
        tmp_path / "A-scores",
        "--ledger-b",
        tmp_path / "B-scores",
    ]
    assert run(*words) == 1
    printed = capsys.readouterr().out
    assert "  min_side: 3 of 4 changed, mean 32 in A, 44 in B, largest difference 16\n" in printed
    assert "several" not in printed
    assert run(*words, "--format", "markdown") == 1
    assert "- `min_side`: 3 of 4 changed" in capsys.readouterr().out
    assert run("diff", tmp_path / "A", tmp_path / "A", "--ledger-a", tmp_path / "A-scores") == 2
    assert run("diff", tmp_path / "A", tmp_path / "A", "--ledger-a", tmp_path / "A-scores", "--ledger-b", tmp_path) == 2


@pytest.mark.deep
def test_scores_of_samples_with_several_images_are_compared_under_their_names(tmp_path: Path) -> None:
    for name, side in (("A", 32), ("B", 48)):
        (tmp_path / name).mkdir()
        shards.write(
            tmp_path / name / "0.tar", {"0.0.jpg": shards.jpeg(32), "0.1.jpg": shards.jpeg(side), "0.txt": b"a"}
        )
        run("measure", tmp_path / name, "-o", tmp_path / f"{name}-scores", "--scores", "min_side")
    sets = (tmp_path / "A", tmp_path / "B")
    found = diff_shards(*map(str, sets), ledgers=(tmp_path / "A-scores", tmp_path / "B-scores"))
    assert found.scores["min_side"].changed == 1
    assert "several" not in found.scores


@pytest.mark.deep
def test_ledgers_in_the_folders_of_the_shards_are_found(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    url = shards.with_txt(tmp_path / "in")
    for name, least in (("A", 10), ("B", 999)):
        run("filter", url, "-o", tmp_path / name, "--where", f"min_side >= {least}")
    found = diff_shards(str(tmp_path / "A"), str(tmp_path / "B"))
    assert (found.only, found.scores["outcome"].changed, found.scores["min_side"].changed) == ([16, 0], 16, 0)


def test_a_full_disk_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    for name in "AB":
        (tmp_path / name).mkdir()
        shards.write(tmp_path / name / "0.tar", {f"{n}.txt": b"1" for n in range(2000)})
    (tmp_path / "tmp").mkdir()
    program = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "from wdsflow.cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", program, "diff", str(tmp_path / "A"), str(tmp_path / "B")]
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 2
    assert f"cannot write {tmp_path}/tmp/wdsflow-diff-" in ended.stderr
    assert "TMPDIR" in ended.stderr
    assert os.listdir(tmp_path / "tmp") == []


def record(side: int, number: int, digest: int) -> KeyRecord:
    return KeyRecord(side, f"{number:012d}", 0, number, (FieldRecord("txt", 1, digest, b"t"),))


def test_large_members_are_compared_to_their_last_byte(tmp_path: Path) -> None:
    large = bytes(5 << 20)
    before = write(tmp_path / "A", ("a", {"mp4": large}), ("b", {"mp4": large + b"1"}))
    after = write(tmp_path / "B", ("a", {"mp4": large}), ("b", {"mp4": large + b"2"}))
    found = diff_shards(before, after)
    assert (found.same, found.changed) == (1, 1)


@pytest.mark.parametrize("count", [2000, pytest.param(20_000, marks=pytest.mark.deep)])
def test_parts_are_split_until_they_are_small(tmp_path: Path, count: int) -> None:
    draw = random.Random(1)
    found = SetDiff()
    with KeyParts(tmp_path, largest=2000) as parts:
        for side in (0, 1):
            found.sides[side].samples, found.sides[side].shards = count + 100, ["0.tar"]
            numbers = list(range(count))
            draw.shuffle(numbers)
            parts.add(record(side, number, number if number % 10 or not side else -1) for number in numbers)
            parts.add(record(side, -1, number) for number in range(100))  # one key, so often that it fills a part
        sizes = []
        for part in parts.parts():
            sizes.append(len(part))
            compare_part(part, found)
    found.check()
    assert (found.same, found.changed, found.only) == (count // 10 * 9 + 100, count // 10, [0, 0])
    assert max(sizes) < 100
    assert os.listdir(tmp_path) == []


@pytest.mark.deep
def test_memory_does_not_grow_with_the_number_of_samples(tmp_path: Path) -> None:
    program = (
        "import sys, tempfile\n"
        "from pathlib import Path\n"
        "from tests.reshaping.test_diff import record\n"
        "from wdsflow.memory.usage import peak\n"
        "from wdsflow.reshaping.diff.key_records import compare_part\n"
        "from wdsflow.reshaping.diff.key_records import KeyParts\n"
        "from wdsflow.reshaping.diff.set_diff import SetDiff\n"
        "found, count = SetDiff(), int(sys.argv[1])\n"
        "with tempfile.TemporaryDirectory(dir=sys.argv[2]) as folder, KeyParts(Path(folder)) as parts:\n"
        "    for side in (0, 1):\n"
        "        found.sides[side].shards, found.sides[side].samples = ['0.tar'], count\n"
        "        for n in range(0, count, 1000):\n"
        "            parts.add([record(side, n + i, n % 7 + side) for i in range(1000)])\n"
        "    for part in parts.parts():\n"
        "        compare_part(part, found)\n"
        "found.check()\n"
        "print(peak())\n"
    )
    used = []
    for count in (250_000, 1_000_000):
        command = [sys.executable, "-c", program, str(count), str(tmp_path)]
        used.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    assert max(used) < 512 << 20
    assert used[1] < used[0] + (200 << 20)
