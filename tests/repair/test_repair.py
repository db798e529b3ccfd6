"""Repair: what it mends, what it drops, and that every member is accounted for."""

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.shards.archives import JPEG, Entry, folder, link, names, read_tar, tar_bytes, write_tar
from wdsflow import repair_shards
from wdsflow.repair import RepairReport
from wdsflow.shards.shard_names import output_names
from wdsflow.shards.urls import PipeNotAllowed


def fixed(tmp_path: Path, entries: Any, **options: Any) -> tuple[list[Entry], RepairReport]:
    """Repair one shard; return the members of the output and the report."""
    url = tmp_path / "in.tar"
    if isinstance(entries, bytes):
        url.write_bytes(entries)
    else:
        write_tar(url, entries)
    report = repair_shards(str(url), tmp_path / "out", restart=True, **options)
    output = tmp_path / "out" / "in.tar"
    return (read_tar(output) if output.exists() else []), report


def listed(folder: Path) -> list[str]:
    """Return the names in an output folder, but that of its own record."""
    return sorted(name for name in os.listdir(folder) if name != ".wdsflow")


def samples(*keys: str) -> list[Entry]:
    return [
        (f"{key}.{field}", f"{key} {field}".encode()) for key in keys for field in ("jpg", "txt")
    ]


def test_members_of_one_sample_come_together_in_the_order_of_first_appearance(tmp_path: Path):
    a, b = samples("b", "a")[:2], samples("b", "a")[2:]
    got, report = fixed(tmp_path, [a[0], b[0], a[1], b[1]])
    assert got == [*a, *b]
    assert report.shards[0].fixed == {"samples whose members were separated": 2}
    assert not report.lost


def test_sound_shards_keep_their_members_and_order(tmp_path: Path):
    got, report = fixed(tmp_path, samples("0", "1"))
    assert got == samples("0", "1")
    assert not report.shards[0].fixed
    assert not report.shards[0].dropped


def test_junk_is_dropped_and_counted(tmp_path: Path):
    junk = [
        ("./._a.jpg", b"x"),
        ("./.DS_Store", b"x"),
        ("__MACOSX/._a.jpg", b"x"),
        ("README", b"x"),
        folder("./d"),
    ]
    prefixed = [(f"./{name}", data) for name, data in samples("a")]
    got, report = fixed(tmp_path, [junk[0], prefixed[0], *junk[1:], prefixed[1]])
    assert got == samples("a")
    assert report.shards[0].dropped == {
        "appledouble": 1,
        "system-file": 1,
        "macosx": 1,
        "no-extension": 1,
        "directory": 1,
    }
    assert report.shards[0].members == 7


def test_links_become_what_they_point_to_inside_the_archive_only(tmp_path: Path):
    entries: list[Entry | tarfile.TarInfo] = [
        *samples("a"),
        ("b.jpg", b"b"),
        link("b.txt", "a.txt"),
        ("d/c.jpg", b"c"),
        link("d/c.txt", "../a.txt", tarfile.SYMTYPE),
        link("e.txt", "/etc/passwd", tarfile.SYMTYPE),
        link("f.txt", "nowhere"),
        link("h.txt", "h.txt"),
        ("h.txt", b"behind its link"),
        link("g.txt", "g.txt"),
        link("n" * 120 + ".txt", "b.txt"),
    ]
    got, report = fixed(tmp_path, tar_bytes(entries, tarfile.PAX_FORMAT))
    assert got == [
        *samples("a"),
        ("b.jpg", b"b"),
        ("b.txt", b"a txt"),
        ("d/c.jpg", b"c"),
        ("d/c.txt", b"a txt"),
        ("h.txt", b"behind its link"),
        ("n" * 120 + ".txt", b"a txt"),
    ]
    assert report.shards[0].dropped == {"link": 3, "duplicate": 1}


def test_a_repeated_key_is_another_sample_and_repeated_members_are_dropped(tmp_path: Path):
    big = os.urandom(3_000_000)
    entries = [
        ("a.jpg", big),
        ("a.txt", b"1"),
        ("a.JPG", big),
        ("a.txt", b"2"),
        link("a.txt", "a.txt"),
    ]
    got, report = fixed(tmp_path, entries)
    assert got == [("a.jpg", big), ("a.txt", b"1"), ("a-2.jpg", big), ("a-2.txt", b"2")]
    assert report.shards[0].dropped == {"duplicate": 1}
    assert report.shards[0].fixed["samples with the key of another one kept apart"] == 1
    assert report.shards[0].renamed_key == "a is a-2 now"


def test_samples_of_a_concatenated_archive_are_kept_beside_those_with_the_same_keys(tmp_path: Path):
    second = [("0.jpg", b"other"), ("0.txt", b"other text"), ("2.jpg", b"2")]
    got, report = fixed(tmp_path, tar_bytes(samples("0", "1")) + tar_bytes(second))
    assert got == [
        *samples("0", "1"),
        ("0-2.jpg", b"other"),
        ("0-2.txt", b"other text"),
        ("2.jpg", b"2"),
    ]
    assert not report.lost


def test_a_captions_archive_behind_an_images_archive_completes_it(tmp_path: Path):
    both = samples("0", "1")
    got, _ = fixed(tmp_path, tar_bytes(both[::2]) + tar_bytes(both[1::2]))
    assert got == both


def test_what_lies_behind_a_damaged_header_is_kept_and_the_loss_told(tmp_path: Path):
    data = bytearray(tar_bytes(samples("0", "1", "2")))
    data[2 * 1024 + 148 : 2 * 1024 + 156] = b"damaged!"
    got, report = fixed(tmp_path, bytes(data))
    assert got == [*samples("0"), ("1.txt", b"1 txt"), *samples("2")]
    assert report.lost
    assert "at byte 2,048 a header is damaged" in report.shards[0].lost[0]
    assert "lost: at byte 2,048" in str(report)


def test_a_cut_member_is_lost_and_the_rest_of_its_sample_kept(tmp_path: Path):
    data = tar_bytes([*samples("0"), ("1.jpg", b"1"), ("1.txt", b"x" * 5000)])
    got, report = fixed(tmp_path, data[: 3 * 1024 + 512 + 1000])
    assert got == [*samples("0"), ("1.jpg", b"1")]
    assert report.lost
    assert "1.txt" in report.shards[0].lost[0]


def test_a_missing_end_mark_is_mended_without_a_loss(tmp_path: Path):
    got, report = fixed(tmp_path, tar_bytes(samples("0"))[:2048])
    assert got == samples("0")
    assert not report.lost


@pytest.mark.parametrize(
    "content", [b"", b"<!DOCTYPE html><html>404</html>" * 50, b"version https://git-lfs\n"]
)
def test_what_is_no_tar_is_told_and_nothing_written(tmp_path: Path, content: bytes):
    got, report = fixed(tmp_path, content)
    assert (got, report.lost) == ([], True)
    assert report.shards[0].output is None


def test_a_shard_without_samples_is_not_written_because_it_would_stall_a_worker(tmp_path: Path):
    got, report = fixed(tmp_path, [("README", b"x")])
    assert (got, report.shards[0].output, report.lost) == ([], None, False)
    assert "no samples: nothing written" in str(report)
    assert not (tmp_path / "out").exists()


def captioned(key: str, tree: object) -> list[Entry]:
    return [(f"{key}.jpg", JPEG), (f"{key}.json", json.dumps(tree).encode())]


def test_captions_are_taken_from_json(tmp_path: Path):
    entries = [
        *captioned("0", {"description": " a cat "}),
        *captioned("1", {"description": "", "alt": ["", "a dog"]}),
        *captioned("2", {"description": 5}),
        *captioned("3", {"description": "json"}),
        ("3.txt", b"mine"),
        *captioned("4", {"description": "json"}),
        ("4.txt", b" \n"),
        *captioned("5", {"description": "json"}),
        ("5.txt", b"caf\xe9"),
        ("6.jpg", JPEG),
        ("6.txt", b"caf\xe9"),
    ]
    got, report = fixed(tmp_path, entries, caption="json:description;alt")
    texts = {name: data for name, data in got if name.endswith(".txt")}
    assert texts == {
        "0.txt": b"a cat",
        "1.txt": b"a dog",
        "3.txt": b"mine",
        "4.txt": b"json",
        "5.txt": b"json",
        "6.txt": b"caf\xe9",
    }
    assert [name for name, _ in got][:3] == ["0.jpg", "0.json", "0.txt"]
    shard = report.shards[0]
    assert (shard.made, shard.missed, shard.dropped) == (
        4,
        {"no caption found in json": 2},
        {"empty caption replaced": 1, "not-UTF-8 caption replaced": 1},
    )


def test_fields_are_renamed_and_left_out_but_never_overwritten(tmp_path: Path):
    entries = [
        ("0.input.jpg", JPEG),
        ("0.caption", b"c"),
        ("0.npy", b"n"),
        ("1.txt", b"t"),
        ("1.caption", b"d"),
    ]
    got, _ = fixed(
        tmp_path, entries, rename={"caption": "txt", "input.jpg": "jpg"}, drop_fields=["npy"]
    )
    assert got == [("0.jpg", JPEG), ("0.txt", b"c"), ("1.txt", b"t"), ("1.caption", b"d")]


def test_a_caption_can_come_from_json_that_is_left_out(tmp_path: Path):
    got, _ = fixed(tmp_path, captioned("0", {"c": "x"}), caption="json:c", drop_fields=["json"])
    assert got == [("0.jpg", JPEG), ("0.txt", b"x")]


def picture(form: str, side: int = 64) -> bytes:
    stream = io.BytesIO()
    Image.linear_gradient("L").resize((side, side)).save(stream, form)
    return stream.getvalue()


def test_bad_samples_are_dropped_only_on_demand(tmp_path: Path):
    good = picture("JPEG")
    entries = [
        *[("0.jpg", good), ("0.txt", b"good"), ("0.json", b'{"score": NaN}')],
        *[("1.jpg", b"<html>"), ("1.txt", b"a")],
        *[("2.jpg", good), ("2.txt", b" ")],
        *[("3.jpg", good), ("3.txt", b"caf\xe9")],
        ("4.jpg", good),
        *[("5.gif", picture("GIF")), ("5.txt", b"a")],
        *[("6.jpg", good[:-200]), ("6.txt", b"a")],
        *[("7.png", bomb()), ("7.txt", b"a")],
        *[("8.jpg", good), ("8.txt", b"a"), ("8.json", b"{'a': 1}")],
        *[("9.webp", picture("WEBP")), ("9.txt", "ü".encode())],
    ]
    assert fixed(tmp_path, entries)[0] == entries
    got, report = fixed(tmp_path, entries, drop_bad=True)
    assert got == [*entries[:3], *entries[-2:]]
    assert report.shards[0].samples_dropped == {
        "bad: image is not an image": 1,
        "bad: caption is empty": 1,
        "bad: caption is not UTF-8": 1,
        "bad: no caption": 1,
        "bad: no image": 1,
        "bad: image cannot be decoded": 1,
        "bad: image has too many pixels": 1,
        "bad: json does not parse": 1,
    }
    assert (report.total("samples"), report.total("samples_written")) == (10, 2)


def bomb() -> bytes:
    """A small PNG that claims 400 megapixels."""
    data = bytearray(picture("PNG"))
    data[16:24] = (20_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


def test_a_gzipped_field_is_unpacked_by_a_new_name_without_gz(tmp_path: Path):
    entries = [("0.jpg", JPEG), ("0.txt.gz", gzip.compress(b"a cat")), ("1.txt.gz", b"broken")]
    assert fixed(tmp_path, entries)[0] == entries
    got, report = fixed(tmp_path, entries, rename={"txt.gz": "txt"})
    assert got == [("0.jpg", JPEG), ("0.txt", b"a cat"), ("1.txt.gz", b"broken")]
    assert report.merged("missed") == {"gzipped field that cannot be unpacked": 1}


def test_a_sample_cut_in_two_at_a_shard_border_is_put_together(tmp_path: Path):
    whole = samples("0", "1", "2", "3")
    for name, part in (("0", whole[:3]), ("1", whole[3:7]), ("2", whole[7:])):
        write_tar(tmp_path / f"{name}.tar", part)
    report = repair_shards(str(tmp_path / "{0..2}.tar"), tmp_path / "out", jobs=2)
    assert read_tar(tmp_path / "out/0.tar") == whole[:4]
    assert read_tar(tmp_path / "out/1.tar") == whole[4:]  # the rest of "3" is alone in its shard
    assert [shard.dropped["moved to the shard before"] for shard in report.shards] == [0, 1, 1]
    assert report.shards[2].output is None
    again = repair_shards(str(tmp_path / "out"), tmp_path / "again")
    assert not again.merged("fixed")
    assert not again.merged("dropped")


def test_a_part_alone_in_its_shard_is_not_joined_where_no_sample_tells_how_many_fields_there_are(
    tmp_path: Path,
):
    whole = samples("0")
    for name, part in (("0", whole[:1]), ("1", whole[1:])):
        write_tar(tmp_path / f"{name}.tar", part)
    repair_shards(str(tmp_path / "{0..1}.tar"), tmp_path / "out")
    assert read_tar(tmp_path / "out/0.tar") == whole[:1]
    assert read_tar(tmp_path / "out/1.tar") == whole[1:]


def test_shards_that_number_anew_are_not_joined(tmp_path: Path):
    write_tar(tmp_path / "0.tar", [("0.jpg", b"mine")])
    write_tar(tmp_path / "1.tar", samples("0", "1"))
    repair_shards(str(tmp_path / "{0..1}.tar"), tmp_path / "out")
    assert read_tar(tmp_path / "out/0.tar") == [("0.jpg", b"mine")]
    assert read_tar(tmp_path / "out/1.tar") == samples("0", "1")


def test_counts_are_written_for_open_clip_and_keep_what_was_there(tmp_path: Path):
    for name, keys in (("0", "ab"), ("1", "cde")):
        write_tar(tmp_path / f"{name}.tar", samples(*keys))
    repair_shards(str(tmp_path / "0.tar"), tmp_path / "out")
    repair_shards(str(tmp_path / "1.tar"), tmp_path / "out")
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {"0.tar": 2, "1.tar": 3}
    assert (tmp_path / "out/__len__").read_text().strip() == "5"
    assert listed(tmp_path / "out") == ["0.tar", "1.tar", "__len__", "sizes.json"]


@pytest.mark.parametrize(
    ("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)]
)
def test_compressed_shards_become_plain_ones(tmp_path: Path, ending: str, pack: Any):
    entries = samples("a", "b")
    (tmp_path / f"0.tar.{ending}").write_bytes(
        pack(tar_bytes([entries[0], *entries[2:], entries[1]]))
    )
    report = repair_shards(str(tmp_path / f"0.tar.{ending}"), tmp_path / "out")
    assert read_tar(tmp_path / "out/0.tar") == entries
    assert not report.lost
    assert listed(tmp_path / "out") == ["0.tar", "__len__", "sizes.json"]


def test_a_second_compressed_stream_is_kept_too(tmp_path: Path):
    packed = gzip.compress(tar_bytes(samples("a"))) + gzip.compress(tar_bytes(samples("b")))
    got, report = fixed(tmp_path, packed)
    assert got == samples("a", "b")
    assert not report.lost


def test_a_cut_compressed_shard_is_kept_as_far_as_it_goes(tmp_path: Path):
    noise = os.urandom(100_000)
    packed = gzip.compress(tar_bytes([*samples("a"), ("b.jpg", noise), ("b.txt", b"b")]))
    got, report = fixed(tmp_path, packed[:90_000])
    assert got == samples("a")
    assert report.lost
    assert listed(tmp_path / "out") == ["__len__", "in.tar", "sizes.json"]


def test_the_output_of_a_command_is_repaired_only_where_allowed(tmp_path: Path):
    write_tar(tmp_path / "0.tar", samples("a"))
    url = f"pipe:cat {tmp_path / '0.tar'}"
    with pytest.raises(PipeNotAllowed, match="would run a shell command"):
        repair_shards(url, tmp_path / "out")
    report = repair_shards(url, tmp_path / "out", allow_pipe=True)
    assert (report.lost, report.shards[0].output) == (False, str(tmp_path / "out/shard-000000.tar"))
    assert read_tar(tmp_path / "out/shard-000000.tar") == samples("a")


def test_a_sparse_member_is_refused_with_its_place(tmp_path: Path):
    with open(tmp_path / "0.bin", "wb") as file:
        file.seek(100_000)
        file.write(b"end")
    (tmp_path / "1.bin").write_bytes(b"whole")
    assert os.system(f"cd {tmp_path} && tar --sparse -cf in.tar 1.bin 0.bin") == 0
    report = repair_shards(str(tmp_path / "in.tar"), tmp_path / "out")
    assert report.shards[0].lost == ["at byte 1,024 a sparse member is not read: 0.bin"]
    assert read_tar(tmp_path / "out/in.tar") == [("1.bin", b"whole")]


def test_a_dry_run_writes_nothing_and_says_the_same(tmp_path: Path):
    entries = [*samples("a"), ("._a.jpg", b"x"), *captioned("b", {"c": "x"})]
    url = str(write_tar(tmp_path / "in.tar", entries))
    plan = repair_shards(url, tmp_path / "out", caption="json:c", dry_run=True)
    assert not (tmp_path / "out").exists()
    real = repair_shards(url, tmp_path / "out", caption="json:c")
    assert str(plan).replace("would be written", "written") == str(real)


def test_equal_names_from_several_folders_are_numbered(tmp_path: Path):
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        write_tar(tmp_path / name / "0.tar", samples(name))
    repair_shards([str(tmp_path / "x"), str(tmp_path / "y")], tmp_path / "out", jobs=2)
    assert names(tmp_path / "out/0.tar") == ["x.jpg", "x.txt"]
    assert names(tmp_path / "out/0-2.tar") == ["y.jpg", "y.txt"]
    assert output_names(["a/0.tar", "b/0.tar", "c/0-2.tar"]) == ["0.tar", "0-3.tar", "0-2.tar"]


def test_inputs_and_existing_outputs_are_safe(tmp_path: Path):
    url = write_tar(tmp_path / "0.tar", samples("a"))
    before = url.read_bytes()
    (tmp_path / "same").symlink_to(tmp_path)
    for out in (tmp_path, tmp_path / "same"):
        with pytest.raises(FileExistsError, match="is an input"):
            repair_shards(str(url), out)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/0.tar").write_bytes(b"of somebody else")
    with pytest.raises(FileExistsError, match="exists already"):
        repair_shards(str(url), tmp_path / "out")
    assert (tmp_path / "out/0.tar").read_bytes() == b"of somebody else"
    assert url.read_bytes() == before


def test_a_run_that_cannot_write_keeps_whole_outputs_and_counts_none_of_them(tmp_path: Path):
    for number in range(3):
        write_tar(tmp_path / f"{number}.tar", samples(str(number)))

    def block(_: int) -> Callable[[object], object]:
        (tmp_path / "out/1.tar").mkdir()  # no file can take this name
        return lambda _: None

    with pytest.raises(IsADirectoryError):
        repair_shards(str(tmp_path / "{0..2}.tar"), tmp_path / "out", jobs=1, begin=block)
    left = listed(tmp_path / "out")
    assert left[:2] == ["0.tar", "1.tar"]
    assert not [name for name in left if name.endswith(".tmp")]
    assert not {"sizes.json", "__len__"} & set(left)
    (tmp_path / "out/1.tar").rmdir()
    repair_shards(str(tmp_path / "{0..2}.tar"), tmp_path / "out")
    assert json.loads((tmp_path / "out/sizes.json").read_text()) == {
        "0.tar": 1,
        "1.tar": 1,
        "2.tar": 1,
    }


def test_wrong_arguments_are_refused_before_anything_is_written(tmp_path: Path):
    url = str(write_tar(tmp_path / "0.tar", samples("a")))
    for wrong in ({"caption": "x"}, {"rename": {"a/b": "c"}}, {"drop_fields": [" "]}, {"jobs": 0}):
        with pytest.raises(ValueError):
            repair_shards(url, tmp_path / "out", **wrong)
    with pytest.raises(ValueError):
        repair_shards(str(tmp_path / "*.zip"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_report_shows_names_from_data_escaped(tmp_path: Path):
    data = tar_bytes([("a.jpg", b"x"), ("a\x1b[31m.txt", b"x" * 5000)])
    _, report = fixed(tmp_path, data[:2000])
    assert report.lost
    assert "\x1b" not in str(report)


def test_a_header_that_is_cut_is_said_once(tmp_path: Path):
    path = tmp_path / "a.tar"
    write_tar(path, samples("a", "b"))
    with tarfile.open(path) as tar:
        last = tar.getmembers()[-1].offset
    os.truncate(path, last + 100)
    (shard,) = repair_shards([str(path)], tmp_path / "out").shards
    assert shard.lost == [f"at byte {last:,} the file ends inside a header"]


def test_a_member_elsewhere_completes_its_sample_only_if_readers_decode_it(tmp_path: Path) -> None:
    whole = [
        entry
        for key in ("a", "b", "c")
        for entry in ((f"{key}.jpg", JPEG), (f"{key}.txt", b"text"), (f"{key}.cls", b"1"))
    ]
    parts = [("d.jpg", JPEG), ("d.txt", b"text"), ("e.jpg", JPEG), ("e.txt", b"text")]
    late = [("d.cls", b"7"), ("e.cls", b"no number")]

    members, _ = fixed(tmp_path, [*whole, *parts, *late])

    assert members[len(whole) :][:5] == [*parts[:2], late[0], *parts[2:]]
    assert members[len(whole) + 5 :] == [("e-2.cls", b"no number")]
