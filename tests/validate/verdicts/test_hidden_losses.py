"""What each level reports about losses that no file name shows.

It is compared with OpenCLIP's own loader.
"""

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from tests.pictures import encoded, photo
from tests.rare_images import RARE
from wdsflow import check
from wdsflow.readers import Options
from wdsflow.stages import Decode

READER = "open-clip-3.3"
SHARDS, EACH = 4, 16
SAMPLES = SHARDS * EACH
PICTURE = encoded(photo(), "JPEG")
PICKLE = b"\x80\x04}\x94\x8c\x01a\x94K\x01s."
BROKEN = {
    "npy": b"\x93NUMPY\x01\x00",
    "npz": b"PK\x03\x04 and no more",
    "json": b'{"a": ',
    "json.gz": gzip.compress(b'{"a": 1}', mtime=0)[:-9],
    "txt.gz": b"no gzip",
    "cls": b"seven",
    "pyd": PICKLE[:-4],
    "pth": b"<html>404</html>",
    "ten": b"\0" * 7,
    "msg": b"\x82\xa1a",
    "cbor": b"\xa2aa",
    "seg.png": encoded(photo(), "PNG")[:-200],
}


@pytest.fixture(scope="module")
def real(real_readers):
    from tests.conformance.compare import environments

    environment = next(each for each in environments(os.environ) if each.reader == READER)
    if environment.missing:
        pytest.skip(environment.missing)
    with real_readers.open(environment) as reader:
        yield lambda urls: sum(map(len, reader.read(urls, Options())["keys"]))


def write(folder: Path, damage, *, every: int = 4, named="{:06d}.") -> list[str]:
    """Write shards of image-caption pairs; return their paths.

    ``damage`` is applied to one of ``every`` samples.
    """
    paths = [folder / f"{number:04d}.tar" for number in range(SHARDS)]
    for number, path in enumerate(paths):
        with tarfile.open(path, "w") as tar:
            for place in range(number * EACH, (number + 1) * EACH):
                fields = {"jpg": PICTURE, "txt": f"picture {place}".encode()}
                for field, data in (damage(fields) if place % every == 1 else fields).items():
                    member = tarfile.TarInfo(named.format(place) + field)
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return [str(path) for path in paths]


def judged(urls, level):
    given = {"level": level} if level else {}
    report = check(urls, [READER], jobs=1, **given)
    return report, report.verdicts[0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("cut", [1, 40, len(PICTURE) // 2])
def test_cut_images_are_lost_at_every_level_that_reads_them(cut, real, tmp_path):
    urls = write(tmp_path, lambda fields: fields | {"jpg": PICTURE[:-cut]})
    usable = real(urls)
    for level in (None, "headers", "full"):
        report, verdict = judged(urls, level)
        lost = SAMPLES - usable
        assert (verdict.usable, verdict.samples, report.exit_status) == (
            usable,
            SAMPLES,
            1 if lost else 0,
        ), level
        assert sum(each.lost.get(READER, 0) for each in report.findings) == lost


def test_names_alone_promise_nothing(real, tmp_path):
    urls = write(tmp_path, lambda fields: fields | {"jpg": PICTURE[:-400]})
    assert real(urls) == 48
    report, verdict = judged(urls, "names")
    assert (verdict.word, verdict.exact, verdict.usable) == ("may train", False, 64)
    assert "MAY TRAIN  up to 64 of 64 samples" in str(report)


@pytest.mark.sample(3)
@pytest.mark.parametrize("field", BROKEN)
def test_a_broken_field_beside_image_and_caption_costs_the_sample(field, real, tmp_path):
    urls = write(tmp_path, lambda fields: fields | {field: BROKEN[field]})
    assert real(urls) == 48
    for level in (None, "headers", "full"):
        report, verdict = judged(urls, level)
        assert (verdict.outcome, verdict.usable, report.exit_status) == ("loses", 48, 1), (
            field,
            level,
        )
        losing = [finding for finding in report.findings if finding.lost]
        # One finding a shard, and their sum is the loss of the set.
        assert [finding.lost[READER] for finding in losing] == [4] * SHARDS
        assert all("; OpenCLIP 3.3.0 drops 4 samples" in finding.message for finding in losing)
    _, by_names = judged(urls, "names")
    assert by_names.word == "may train"


def test_a_pickle_that_most_likely_fails_counts_as_lost_in_the_outcome(real, tmp_path):
    """The number of usable samples is a range, whose lower end decides.

    wdsflow must not load the pickle to find out.
    """
    without_its_module = b"cno_such_module\nThing\n."
    urls = write(tmp_path, lambda fields: fields | {"pyd": without_its_module})
    assert real(urls) == 48
    report, verdict = judged(urls, "full")
    assert (verdict.word, verdict.least, verdict.usable, verdict.exact) == (
        "loses",
        48,
        SAMPLES,
        False,
    )
    assert report.exit_status == 1
    assert "LOSES  48 to 64 of 64 samples" in str(report)
    (doubt,) = [reason for reason in verdict.reasons if reason.slug == "suspect"]
    assert doubt.message.startswith("16 more samples may be lost: ")
    tolerant = check(urls, [READER], jobs=1, level="full", max_loss=0.25).verdicts[0]
    assert (tolerant.word, tolerant.least) == ("may train", 48)
    _, by_headers = judged(urls, "headers")
    assert (by_headers.word, by_headers.least, by_headers.usable) == ("loses", None, SAMPLES)


def test_a_broken_pickle_inside_gzip_costs_nothing(real, tmp_path):
    broken = gzip.compress(PICKLE[:-4], mtime=0)
    urls = write(tmp_path, lambda fields: fields | {"pkl.gz": broken})
    assert real(urls) == SAMPLES
    for level in (None, "headers", "full"):
        _, verdict = judged(urls, level)
        assert verdict.usable == SAMPLES, level


def test_an_empty_field_is_judged_by_its_name(real, tmp_path):
    for field in ("jpg", "npy", "json.gz", "pyd", "cls"):
        urls = write(tmp_path, lambda fields, field=field: fields | {field: b""})
        assert real(urls) == 48
        report, verdict = judged(urls, "names")
        assert (verdict.usable, report.exit_status) == (48, 1), field


@pytest.mark.parametrize("named", ["{:06d}/.", "__MACOSX/{:06d}."])
def test_files_that_elsewhere_are_junk_are_judged_as_the_reader_takes_them(named, real, tmp_path):
    """Names that are only an extension in a folder, and a folder of macOS with pictures in it."""
    urls = write(tmp_path, dict, named=named)
    assert real(urls) == SAMPLES
    for level in ("names", "headers", "full"):
        report, verdict = judged(urls, level)
        assert (verdict.usable, verdict.samples, report.exit_status) == (SAMPLES, SAMPLES, 0), level


@pytest.mark.parametrize("level", ["names", "headers", "full"])
def test_there_are_never_more_usable_samples_than_samples(level, real, tmp_path):
    path = tmp_path / "0000.tar"
    with tarfile.open(path, "w") as tar:
        for place in range(37):
            note = (f"__MACOSX/._{place}.jpg", b"\0\5\x16\7" + bytes(40))
            for name, data in (note, (f"{place}.jpg", PICTURE), (f"{place}.txt", b"a")):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        for name, data in (("__MACOSX/a.jpg", PICTURE), ("__MACOSX/a.txt", b"a dog")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    usable = real([str(path)])
    _, verdict = judged([str(path)], level)
    assert (verdict.usable, verdict.usable <= verdict.samples) == (usable, True)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", RARE)
def test_rare_formats_are_what_pillow_makes_of_them_everywhere(kind, real, tmp_path):
    """The loader, the verdict and the decoder of filters agree.

    That holds for intact and truncated images.
    """
    whole = RARE[kind]()
    for data in (whole, whole[: len(whole) // 2]):
        urls = write(tmp_path, lambda fields, data=data: fields | {"jpg": data})
        usable = real(urls)
        for level in (None, "headers", "full"):
            _, verdict = judged(urls, level)
            # Headers alone do not tell whether such an
            # image decodes: only an upper limit is stated.
            if level == "headers" and not verdict.exact:
                assert verdict.word in ("may train", "loses")
                assert verdict.usable >= usable
            else:
                assert (verdict.usable, verdict.exact) == (usable, True), level
        came = list(Decode(mode="exact")([{"__key__": "a", "jpg": data}]))
        assert len(came) == int(usable == SAMPLES)
