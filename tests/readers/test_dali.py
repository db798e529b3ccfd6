"""NVIDIA DALI's reader: its own tar parser, its own decoders, and what helps against both."""

import gzip
import io
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.readers.shapes import outcomes, shard, verdict
from tests.validate.rules.build import Members, jpeg, pairs, png, tar
from wdsflow import index_shards, repair_shards
from wdsflow.readers import Dali, Options
from wdsflow.scan.content.image_content import decode_image
from wdsflow.shards.tar.members import Stop
from wdsflow.validate.report.report import Report
from wdsflow.validate.run_check import check
from wdsflow.validate.verdicts.verdict import Verdict

PYTHON = os.environ.get("WDSFLOW_INDEX_READERS", "")
_READ = """
import json, sys
from nvidia.dali import fn, pipeline_def
@pipeline_def(batch_size=1, num_threads=1, device_id=None, exec_async=False, exec_pipelined=False)
def pipeline(shard, indexes):
    images, texts = fn.readers.webdataset(
        paths=[shard], index_paths=indexes, ext=["jpg;jpeg;png;webp", "txt"], name="shards"
    )
    return images, texts, fn.decoders.image(images, device="cpu")
def read(shard, indexes):
    count = 0
    try:
        ready = pipeline(shard, indexes)
        ready.build()
        for count in range(ready.reader_meta("shards")["epoch_size"]):
            ready.run()
    except RuntimeError:
        return count, True
    return count + 1, False
print(json.dumps([read(*job) for job in json.loads(sys.argv[1])]))
"""


def timed(members: Members) -> bytes:
    """Return a tar whose extended headers tell times, as webdataset writes them."""
    return pax(members, mtime=1.5)


def with_field(data: bytes, start: int, field: bytes) -> bytes:
    """Return a tar with other bytes in its first header, and the right checksum."""
    block = bytearray(data[:512])
    block[start : start + len(field)] = field
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + data[512:]


def pax(members: Members, tar_format: int = tarfile.PAX_FORMAT, mtime: float = 0) -> bytes:
    """Return a tar of another format than USTAR."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tar_format) as archive:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime  # type: ignore[assignment]
            archive.addfile(info, io.BytesIO(data))
    return stream.getvalue()


def far(count: int) -> Members:
    """Return samples with names that do not fit into a USTAR header."""
    return [("x" * 120 + name, data) for name, data in pairs(count)]


def gif() -> bytes:
    """Return an image of a format that DALI does not decode."""
    from PIL import Image

    stream = io.BytesIO()
    Image.new("P", (40, 40)).save(stream, "GIF")
    return stream.getvalue()


def judged(folder: Path, *shards: bytes) -> Report:
    """Return the report on shards."""
    for number, data in enumerate(shards):
        (folder / f"{number}.tar").write_bytes(data)
    return check([str(folder / f"{number}.tar") for number in range(len(shards))], ["dali"], level="full")


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("jpg txt", "usable"),
        ("txt:not-utf8 webp", "usable"),
        ("jpg txt:empty json:bad npy:bad cls:bad", "usable"),
        ("png:bad jpg txt", "crash bad-image png"),
        ("jpg png:bad txt txt", "usable"),
        ("jpg jpg:bad txt", "usable"),
        ("jpg:bomb txt", "crash bad-image jpg"),
        ("JPG txt", "crash no-image"),
        ("jpg TXT", "no-caption"),
        ("jpg", "no-caption"),
        ("txt", "crash no-image"),
        ("seg.png json", "crash no-image-or-caption"),
        ("", "crash no-field"),
    ],
)
def test_the_first_field_of_each_output_counts(members: str, expected: str) -> None:
    assert outcomes(Dali(), members) == [expected]


def test_a_shard_that_cannot_be_read_ends_it_before_the_first_sample() -> None:
    for stop in (Stop("unreadable"), Stop("error")):
        assert verdict(Dali(), shard(["jpg txt"]), shard(["jpg txt"], stop))[:2] == ("crashes", 0)
    packed = replace(shard(["jpg txt"]), compression="gz")
    assert verdict(Dali(), shard(["jpg txt"]), packed) == ("crashes", 0, ["unreadable-shard"])


def test_samples_before_one_that_does_not_decode_come_out() -> None:
    assert verdict(Dali(), shard(["jpg txt", "jpg", "jpg:bad txt", "jpg txt"]))[:2] == ("crashes", 1)


def test_fewer_samples_than_ranks_end_it() -> None:
    two = shard(["jpg txt", "jpg txt"])
    assert verdict(Dali(Options(world_size=2)), two)[0] == "trains"
    assert verdict(Dali(Options(world_size=3)), two) == ("crashes", 0, ["fewer-than-ranks"])


@pytest.mark.parametrize(
    "data",
    [
        tar(pairs(3)),
        timed(pairs(3)),
        tar([(f"{n}.{name}", data) for n in range(3) for name, data in (("png", png()), ("txt", b"a cat"))]),
    ],
)
def test_plain_shards_are_known_in_full(data: bytes, tmp_path: Path) -> None:
    found = judged(tmp_path, data).verdicts[0]
    assert (found.outcome, found.usable, found.exact) == ("trains", 3, True)


@pytest.mark.parametrize(
    "data",
    [
        pax(far(2)),
        pax(far(2), tarfile.GNU_FORMAT),
        timed([*pairs(2), *far(1)]),
        pax([(f"{'d' * 120}/{name}", data) for name, data in pairs(2)], tarfile.USTAR_FORMAT),
        with_field(timed(pairs(4)), 100, b"0100644\0"),  # a regular file, whatever its type
        with_field(tar(pairs(4)), 124, b"\x80" + len(pairs(1)[0][1]).to_bytes(11, "big")),
        tar([("README", b"hello"), *pairs(1)]),
        tar([(".DS_Store", b""), *pairs(1)]),
        tar([("__info__", b"{}"), *pairs(1)]),
        tar([("/data/1.jpg", jpeg()), ("../x/2.txt", b"a")]),
        bytes(512) + tar(pairs(1)),
    ],
)
def test_headers_that_it_may_read_in_another_way_make_the_verdict_inexact(data: bytes, tmp_path: Path) -> None:
    found = judged(tmp_path, data).verdicts[0]
    assert not found.exact
    assert "DALI has its own tar parser" in found.note


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-700],  # a piece of a block
        lambda data: data[:2000],
        lambda data: data[:4] + b"?" + data[5:],
        lambda data: data[:124] + b"\x80" + bytes(9) + b"\4\0" + data[136:],
        lambda data: b"<html>" * 200,
        lambda data: b"",
        gzip.compress,
    ],
)
def test_damage_is_an_error(spoil: Callable[[bytes], bytes], tmp_path: Path) -> None:
    report = judged(tmp_path, tar(pairs(3)), spoil(tar(pairs(3))))
    assert (report.verdicts[0].outcome, report.verdicts[0].usable) == ("crashes", 0)


@pytest.mark.parametrize(
    ("image", "outcome", "exact"),
    [
        (jpeg(), "trains", True),
        (png(), "trains", True),
        (png() + b"tail", "trains", True),
        (jpeg()[:-300], "crashes", False),
        (png()[:100], "crashes", False),
        (b"", "crashes", True),
        (gif(), "crashes", False),
    ],
)
def test_images_that_it_decodes(image: bytes, outcome: str, exact: bool, tmp_path: Path) -> None:
    found = judged(tmp_path, tar([*pairs(2), ("9.jpg", image), ("9.txt", b"a cat")])).verdicts[0]
    assert (found.outcome, found.exact) == (outcome, exact)


def test_a_damaged_jpeg_that_pillow_takes_makes_the_verdict_inexact(tmp_path: Path) -> None:
    whole = jpeg()
    start = whole.index(b"\xff\xda")
    damaged = whole[: start + 40] + whole[start + 47 :]
    assert decode_image(damaged, 0)[0] == "ok"
    found = judged(tmp_path, tar([*pairs(2), ("9.jpg", damaged), ("9.txt", b"a cat")])).verdicts[0]
    assert (found.outcome, found.exact) == ("trains", False)
    assert "whether DALI decodes jpg 64x48 in 9" in found.note


def test_a_rare_format_makes_the_verdict_inexact(tmp_path: Path) -> None:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (40, 40)).save(stream, "TIFF")
    found = judged(tmp_path, tar([*pairs(2), ("9.jpg", stream.getvalue()), ("9.txt", b"a cat")])).verdicts[0]
    assert (found.outcome, found.exact) == ("trains", False)
    assert "whether DALI decodes every tiff in" in found.note


@pytest.mark.parametrize("data", [tar([("README", b"x"), *pairs(3)]), gzip.compress(tar(pairs(3)))])
def test_a_repair_keeps_its_promise(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = judged(tmp_path, data)
    assert report.verdicts[0].outcome == "crashes"
    (advice,) = report.advice
    assert advice.usable in (3, None)

    repair_shards(["0.tar"], "repaired")
    assert check("repaired/0.tar", ["dali"], level="full").verdicts[0].usable == 3


def test_a_repair_promises_nothing_for_images_that_it_keeps(tmp_path: Path) -> None:
    report = judged(tmp_path, tar([*pairs(3), ("9.jpg", gif()), ("9.txt", b"a cat")]))
    assert report.advice == []
    assert [
        finding.code for finding in report.findings if "dali" in finding.readers and finding.severity == "error"
    ] == ["W034"]


@pytest.mark.skipif(not PYTHON, reason="WDSFLOW_INDEX_READERS is not set")
def test_an_index_gives_it_the_samples_of_other_readers(tmp_path: Path) -> None:
    sets = [
        tar(pairs(3)),
        pax(far(3)),
        *(tar([(name, b"x"), *pairs(3)]) for name in ("README", ".DS_Store", "__info__")),
    ]
    report = [judged_alone(tmp_path / f"{number}.tar", data) for number, data in enumerate(sets)]
    shards = [str(tmp_path / f"{number}.tar") for number in range(len(sets))]
    assert index_shards(shards, ["dali"]).ok
    jobs = [(shard, indexes) for shard in shards for indexes in ([], [shard.replace(".tar", ".idx")])]

    done = subprocess.run([PYTHON, "-c", _READ, json.dumps(jobs)], capture_output=True, text=True, check=True)
    came = json.loads(done.stdout.splitlines()[-1])

    assert came[::2] == [[3, False], *[[0, True]] * 4]
    assert came[1::2] == [[3, False]] * len(sets)
    assert [found.exact for found in report] == [True, *[False] * 4]


def judged_alone(path: Path, data: bytes) -> Verdict:
    """Return the verdict on one shard."""
    path.write_bytes(data)
    return check([str(path)], ["dali"], level="full").verdicts[0]


def test_ranks_count_without_a_training_command(tmp_path: Path) -> None:
    (tmp_path / "0.tar").write_bytes(tar(pairs(3)))
    found = [check(tmp_path / "0.tar", ["dali"], world_size=ranks).verdicts[0] for ranks in (3, 4)]
    assert [(each.outcome, [reason.slug for reason in each.reasons]) for each in found] == [
        ("trains", []),
        ("crashes", ["fewer-than-ranks"]),
    ]


def test_where_no_file_is_a_sample_no_repair_is_advised(tmp_path: Path) -> None:
    (tmp_path / "0.tar").write_bytes(tar([]))
    (tmp_path / "1.tar").write_bytes(tar(pairs(3)))
    found = [each for each in check(tmp_path, ["dali"], level="full").findings if each.code == "W034"]
    assert [(each.shard, each.repair) for each in found] == [(str(tmp_path / "0.tar"), None)]


def test_a_gif_under_another_field_is_not_renamed_for_it(tmp_path: Path) -> None:
    report = judged(tmp_path, tar([*pairs(3), ("9.gif", gif()), ("9.txt", b"a cat")]))
    assert not any(each.repair and "--rename" in each.repair.options for each in report.findings)
