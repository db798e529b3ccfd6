"""Samples next to damage.

A sample that lost a member is never written, and a sample that lost nothing is never left out.
"""

import io
import tarfile
from pathlib import Path
from random import Random

import pytest

from tests.cli.test_filter import run
from tests.reshaping.sets import samples_in
from tests.shards.archives import tar_bytes, write_tar
from tests.shards.tars import MemorySource
from wdsflow import Recipe, RunOptions, filter_shards, repair_shards
from wdsflow.shards.samples.tar_samples import Samples

VARYING = [("txt", "jpg"), ("txt", "jpg", "json")]
COMMANDS = {
    "filter": ("filter", "IN", "-o", "OUT", "--where", "bytes > 0", "--jobs", 0),
    "reshard": ("reshard", "IN", "-o", "OUT", "--samples", 5),
    "reshard, shuffled": ("reshard", "IN", "-o", "OUT", "--samples", 5, "--shuffle", 1),
    "graft": ("graft", "IN", "-o", "OUT", "--from", "TABLE", "--on", "key", "--set", "cap=cap"),
}


class Damaged:
    """A tar of samples with different fields, and what it holds."""

    def __init__(self, chance: Random, shapes: list[tuple[str, ...]], count: int = 10) -> None:
        self.samples = {f"{number:04}": chance.choice(shapes) for number in range(count)}
        names = [f"{key}.{field}" for key, fields in self.samples.items() for field in fields]
        members = [(name, b"%d" % len(name) * chance.choice([1, 300, 1500])) for name in names]
        form = chance.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT])
        self.data = bytearray(tar_bytes(members, form))
        at, self.headers = 0, {}
        for name, contents in members:
            self.headers[name] = at
            at += 512 + (len(contents) + 511) // 512 * 512

    def good(self) -> dict[str, tuple[str, ...]]:
        """Return the fields of the samples that are called whole."""
        samples = Samples(MemorySource(bytes(self.data)), contents=False)
        found = {sample.key: tuple(sample.fields) for sample in samples if not sample.trouble}
        assert samples.damage or found == self.samples
        return found


@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.deep)])
def test_a_flipped_byte_in_a_header_costs_its_sample_and_no_other(count):
    kept = 0
    for case in range(count):
        chance = Random(case)
        tar = Damaged(
            chance,
            chance.choice(
                [VARYING, [("jpg", "json"), ("jpg",)], [("json", "jpg"), ("jpg", "txt")]]
            ),
        )
        name = chance.choice(list(tar.headers))
        tar.data[tar.headers[name] + chance.choice([*range(100), *range(257, 263)])] ^= (
            1 << chance.randrange(8)
        )
        good = tar.good()
        assert good.items() <= tar.samples.items(), case
        kept += len(good) >= len(tar.samples) - 1
    assert kept > 0.98 * count  # a wrong byte within the name may name another sample


@pytest.mark.sample(1)
@pytest.mark.parametrize("what", ["zeros", "noise"])
def test_where_a_header_is_gone_no_sample_is_written_that_may_lack_a_member(what):
    for case in range(60):
        chance = Random(case)
        tar = Damaged(chance, VARYING, count=20)
        at = tar.headers[chance.choice(list(tar.headers)[9:-9])]
        tar.data[at : at + 512] = bytes(512) if what == "zeros" else chance.randbytes(512)
        good = tar.good()
        assert good.items() <= tar.samples.items(), case
        assert len(good) >= len(tar.samples) - 2, case


def test_a_gap_too_small_for_a_sample_held_a_member_of_one_of_its_neighbours():
    """None of the others has this field, and the header tells neither its name nor its size."""
    members = [(f"{number:04}.jpg", bytes(2000)) for number in range(10)]
    members.insert(5, ("0004.txt", b"a cat"))
    data = bytearray(tar_bytes(members))
    at = data.index(b"0004.txt")
    data[at : at + 2] = b"xy"
    data[at + 124 : at + 136] = b"no number..."
    samples = Samples(MemorySource(bytes(data)), contents=False)
    assert [sample.key for sample in samples if sample.trouble] == ["0004", "0005"]


def damaged_set(folder: Path, *, zeros: bool = False) -> Path:
    """Write three samples with a json and seven without; the header of 0002.json is damaged."""
    tar = Damaged(Random(1), [("txt", "jpg")])
    fields = {
        key: (*names, "json") if key in ("0002", "0003", "0007") else names
        for key, names in tar.samples.items()
    }
    members = [
        (f"{key}.{name}", f"{key} {name} ".encode() * 90)
        for key, names in fields.items()
        for name in names
    ]
    path = write_tar(folder / "in" / "0.tar", members)
    data = bytearray(path.read_bytes())
    at = data.index(b"0002.json")
    data[at : at + 512] = (
        bytes(512) if zeros else data[at : at + 130] + b"9" + data[at + 131 : at + 512]
    )
    path.write_bytes(data)
    (folder / "table.csv").write_text("key,cap\n" + "".join(f"{key},x\n" for key in fields))
    return folder / "in"


@pytest.mark.sample(1)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_leaves_out_the_sample_that_lost_its_json_and_keeps_the_next(
    command, zeros, tmp_path: Path, capsys
):
    (tmp_path / "in").mkdir()
    places = {
        "IN": damaged_set(tmp_path, zeros=zeros),
        "OUT": tmp_path / "out",
        "TABLE": tmp_path / "table.csv",
    }
    assert run(*(places.get(word, word) for word in COMMANDS[command])) == 1
    shown = capsys.readouterr()
    assert "at byte" in shown.out + shown.err
    written = {
        key: {*fields} - {"cap"}
        for path in (tmp_path / "out").glob("*.tar")
        for key, fields in samples_in(path)
    }
    assert sorted(written) == [f"{number:04}" for number in range(10) if number != 2]
    assert written["0003"] == {"txt", "jpg", "json"}


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", COMMANDS)
def test_damage_inside_a_sample_is_named_and_costs_that_sample(command, tmp_path: Path, capsys):
    (tmp_path / "in").mkdir()
    members = [
        (f"{key:04}.{name}", b"x" * 900) for key in range(6) for name in ("jpg", "txt", "json")
    ]
    data = bytearray(tar_bytes(members))
    data[data.index(b"0003.txt") + 124] ^= 3
    (tmp_path / "in/0.tar").write_bytes(data)
    (tmp_path / "table.csv").write_text("key,cap\n" + "".join(f"{key:04},x\n" for key in range(6)))
    places = {"IN": tmp_path / "in", "OUT": tmp_path / "out", "TABLE": tmp_path / "table.csv"}
    assert run(*(places.get(word, word) for word in COMMANDS[command])) == 1
    shown = capsys.readouterr()
    assert "a header is damaged" in shown.out + shown.err
    assert "next to each other" not in shown.out + shown.err
    assert sorted(
        {key for path in (tmp_path / "out").glob("*.tar") for key, _ in samples_in(path)}
    ) == [
        "0000",
        "0001",
        "0002",
        "0004",
        "0005",
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("last", [False, True])
def test_a_lone_block_of_zeros_is_reported_by_filter_and_repair(last, tmp_path: Path):
    members = [(f"{key:04}.{name}", b"x" * 900) for key in range(6) for name in ("jpg", "txt")]
    data = bytearray(tar_bytes(members))
    at = data.index(b"0005.txt" if last else b"0003.jpg")
    data[at : at + 512] = bytes(512)
    path = tmp_path / "0.tar"
    path.write_bytes(data)
    filtered = filter_shards(
        str(path), tmp_path / "out", Recipe(where="bytes > 0"), RunOptions(jobs=0)
    )
    assert filtered.records[0].damage == [f"at byte {at:,} zeros are in the place of a header"]
    assert filtered.lost
    assert filtered.total("kept") == 5
    assert repair_shards(str(path), tmp_path / "repaired").lost


def test_archives_one_after_the_other_are_no_damage(tmp_path: Path):
    parts = [tar_bytes([(f"{key}.jpg", b"x" * 700), (f"{key}.txt", b"y")]) for key in "abc"]
    path = tmp_path / "0.tar"
    for joined in (
        b"".join(parts),
        b"".join(part.rstrip(b"\0").ljust(2560, b"\0") + bytes(1024) for part in parts),
    ):
        path.write_bytes(joined)
        out = tmp_path / str(len(joined))
        report = filter_shards(str(path), out, Recipe(where="bytes > 0"), RunOptions(jobs=0))
        assert (report.total("kept"), report.lost) == (3, False)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("start", ["bär", "d" * 100 + "/"])
def test_the_name_in_a_header_after_an_extended_one_proves_nothing(form: int, start: str):
    names = [
        f"{start}{number:04}.{field}" for number in range(6) for field in ("jpg", "txt", "json")
    ]
    data = bytearray(tar_bytes([(name, b"abc") for name in names], form))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        lost = tar.getmember(f"{start}0002.json").offset_data - 512
    data[lost + 257] ^= 1  # in the magic number
    samples = Samples(MemorySource(bytes(data)), contents=False)
    whole = {sample.key: tuple(sample.fields) for sample in samples if not sample.trouble}
    assert set(whole.values()) == {("jpg", "txt", "json")}
    assert f"{start}0002" not in whole


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_a_damaged_extended_header_costs_the_member_whose_name_it_holds(form: int):
    names = [
        f"{'d' * 110 + '/' if number % 2 else ''}{number:04}.{field}"
        for number in range(6)
        for field in ("jpg", "txt")
    ]
    data = tar_bytes([(name, b"abc" * 300) for name in names], form)
    headers = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    extended = [at for at in headers if data[at + 156 : at + 157] in b"xL"]
    assert len(extended) == 6
    for at in extended:
        loser = f"{'d' * 110}/{extended.index(at) // 2 * 2 + 1:04}"
        for place in (3, 50, 130, 150, 156, 200, 260):
            hurt = bytearray(data)
            hurt[at + place] ^= 1
            samples = Samples(MemorySource(bytes(hurt)), contents=False)
            whole = {sample.key: tuple(sample.fields) for sample in samples if not sample.trouble}
            assert set(whole.values()) == {("jpg", "txt")}
            assert len(whole) == 5, place
            assert loser not in whole


def test_a_damaged_extended_header_between_samples_that_holds_only_a_time_costs_nothing():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, field in [(number, field) for number in range(4) for field in ("jpg", "txt")]:
            member = tarfile.TarInfo(f"{number:04}.{field}")
            # Webdataset's own writer stores such times.
            member.size, member.mtime = (
                900,
                1_700_000_000.5,
            )
            tar.addfile(member, io.BytesIO(b"x" * 900))
    data = stream.getvalue()
    headers = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    # Before each picture: within a sample nothing proves that both parts are of one.
    for at in headers[4::4]:
        hurt = bytearray(data)
        hurt[at + 3] ^= 1
        samples = Samples(MemorySource(bytes(hurt)), contents=False)
        assert [(tuple(sample.fields), sample.trouble) for sample in samples] == [
            (("jpg", "txt"), "")
        ] * 4
        assert samples.damage
