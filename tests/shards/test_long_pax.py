"""Extended headers longer than memory should be: the member after them is read, as tarfile reads it."""

import gzip
import io
import tarfile
import tracemalloc
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.shards.archives import tar_bytes
from tests.shards.tars import MemorySource, by_tarfile, by_walk, hurt, random_tar
from wdsflow.repair.run_repair import repair_shards
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.tar import tar_entry as entry
from wdsflow.validate.check import check

SAMPLE = [("0.jpg", b"\xff\xd8\xff a picture"), ("0.txt", b"a cat")]
LONG = 5 << 20  # more than is read at once


def record(keyword: bytes, value: bytes) -> bytes:
    length = next(n for n in range(len(keyword) + len(value), 1 << 62) if n == len(b"%d %s=%s\n" % (n, keyword, value)))
    return b"%d %s=%s\n" % (length, keyword, value)


def header(size: int, kind: bytes = tarfile.XHDTYPE) -> bytes:
    info = tarfile.TarInfo("long")
    info.size, info.type = size, kind
    return info.tobuf(tarfile.USTAR_FORMAT)


def after(body: bytes, kind: bytes = tarfile.XHDTYPE, before: bytes = b"") -> bytes:
    return before + header(len(body), kind) + body + bytes(-len(body) % 512) + tar_bytes(SAMPLE)


HUGE = record(b"comment", bytes(LONG))
BODIES = {
    "a comment": after(HUGE),
    "a comment, after another sample": after(HUGE, before=tar_bytes([("a.jpg", b"x"), ("a.txt", b"x")])[:2048]),
    "a new name, before and after it": after(record(b"path", b"1.jpg") + HUGE + record(b"path", b"2.jpg")),
    "a name of megabytes": after(record(b"path", b"n" * LONG + b".jpg")),
    "another size": after(HUGE + record(b"size", b"5")),
    "of records by the hundred thousand": after(record(b"comment", b"of no length") * (LONG // 24)),
    "for all members": after(HUGE + record(b"path", b"all.txt"), tarfile.XGLTYPE),
    "a GNU name": after(b"long.jpg\0" + b"n" * LONG, tarfile.GNUTYPE_LONGNAME),
    "a GNU link": after(b"n" * LONG, tarfile.GNUTYPE_LONGLINK),
    "a record that is longer than the header": after(HUGE + b"99999999 comment=x\n"),
    "a record without an end": after(HUGE + b"18 comment=no end" + b"\n" * 30),
    "a record of length 0": after(HUGE + b"0 comment=x\n"),
    "noise": after(Random(1).randbytes(LONG)),
    "a cut": after(HUGE)[: LONG // 2],
    "a cut in the last block": after(HUGE)[: 512 + len(HUGE) - 1],
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("contents", [False, True])
def test_the_member_after_a_long_header_is_read_as_tarfile_reads_it(what, contents, tmp_path: Path):
    expected = by_tarfile(BODIES[what])
    for name, data in (("a.tar", BODIES[what]), ("a.tar.gz", gzip.compress(BODIES[what], 1))):
        (tmp_path / name).write_bytes(data)
        with open_source(str(tmp_path / name)) as source:
            assert by_walk(source, contents=contents)[0] == expected


@given(seed=st.integers(0, 2**40))
def test_headers_that_are_read_piece_by_piece_mean_what_they_mean_as_a_whole(seed):
    r = Random(seed)
    data = random_tar(r)
    for _ in range(r.choice([0, 1, 1, 2])):
        data = hurt(r, data)
    data = data.replace(b"hdrcharset", b"hdrcomment")  # tarfile of some Pythons finds it also where no record begins
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entry, "WHOLE", -1)
        assert by_walk(MemorySource(data))[0] == by_tarfile(data)


def test_a_header_of_a_gigabyte_takes_some_megabytes_and_hides_no_sample(tmp_path: Path):
    path = tmp_path / "a.tar"
    start = b"%d comment=" % (1 << 30)
    with open(path, "wb") as file:  # a file with a hole: the disk holds a few blocks of it
        file.write(header(1 << 30) + start)
        file.seek((1 << 30) - len(start) - 1, io.SEEK_CUR)
        file.write(b"\n" + tar_bytes(SAMPLE))
    tracemalloc.start()
    try:
        report = check([str(path)], jobs=1)
        repaired = repair_shards(str(path), tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 30 << 20
    finally:
        tracemalloc.stop()
    assert report.evidence.samples == repaired.total("samples_written") == 1
    assert "W005" not in {finding.code for finding in report.findings}


def test_a_tar_whose_first_member_cannot_be_read_is_not_called_no_tar(tmp_path: Path):
    (tmp_path / "a.tar").write_bytes(header(1 << 30) + record(b"path", b"0.jpg"))
    (found,) = [finding for finding in check([str(tmp_path / "a.tar")]).findings if finding.code == "W005"]
    assert found.message.startswith("its first member cannot be read")
