"""All that walks over random tars, healthy and hurt, tell: members, samples, losses and damage."""

import io
import tarfile
from pathlib import Path
from random import Random

import pytest

from tests.golden_file import check_text
from tests.shards.tars import MemorySource, hurt, random_tar
from wdsflow.shards.samples.grouping import ALL_SAMPLES, WEBDATASET, group_members
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.shards.source.base import SourceError
from wdsflow.shards.tar.walk import Walk

GOLDEN = Path(__file__).parent / "golden" / "whole_walks.txt"
OTHERS = (
    "README",
    "d/.hidden.jpg",
    "d/._0.jpg",
    ".DS_Store",
    "__meta__.json",
    "x.",
    "../0.txt",
    "/abs.txt",
)


class StreamSource(MemorySource):
    """A tar in memory that cannot be read again from the beginning at no cost."""

    is_seekable = False


def sample_tar(r: Random) -> bytes:
    """Return a tar of samples with some odd members between them."""
    stream = io.BytesIO()
    form = r.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    shared = {"comment": "x"} if form == tarfile.PAX_FORMAT and r.random() < 0.3 else {}
    with tarfile.open(fileobj=stream, mode="w", format=form, pax_headers=shared) as tar:
        for number in range(r.randint(2, 7)):
            key = r.choice(["", "", "d/", "D" * 110 + "/"]) + f"{number:03d}"
            names = [
                f"{key}.{field}"
                for field in r.choice([("jpg", "txt"), ("jpg", "txt"), ("jpg", "cls.txt", "JPG")])
            ]
            if r.random() < 0.3:
                names.insert(r.randint(0, len(names)), r.choice(OTHERS))
            for name in names:
                info = tarfile.TarInfo(name)
                if r.random() < 0.08:
                    info.type = r.choice([tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
                    info.linkname = "000.txt"
                else:
                    info.size = r.choice([0, 3, 512, 700, 1500])
                if form == tarfile.PAX_FORMAT and r.random() < 0.2:
                    info.mtime = 1.5
                tar.addfile(info, io.BytesIO(bytes(r.choices(b"ab", k=info.size))))
    data = stream.getvalue()
    return data[: -r.choice([0, 0, 512, 9000])] if r.random() < 0.2 else data


def drawn(make, count: int, first: int):
    for seed in range(first, first + count):
        r = Random(seed)
        data = make(r)
        for _ in range(r.choice([0, 1, 1, 1, 2, 3])):
            data = hurt(r, data)
        yield seed, data


def walked(data: bytes, *, contents: bool) -> list[str]:
    walk = Walk(MemorySource(data), contents=contents)
    lines = []
    for batch in walk:
        mark = f" behind {batch.gap_before}" if batch.gap_before else ""
        for row in batch.rows:
            lines.append(f"  {row[0][-20:]!a} {row[1:]}{' beyond' * batch.is_past_stop}{mark}")
            mark = ""
    found = walk.stop
    lines.append(
        f"  stop {found and (found.kind, found.offset, found.detail)} ended {walk.ended} {walk.gap}"
    )
    lines.append(
        f"  global {walk.global_records} zeros {walk.zeros.count, walk.zeros.offset} lost {sorted(walk.lost)!a}"
    )
    lines += [
        f"  {what} {seen.count} at {seen.offset}: {seen.name and seen.name[-20:]!a} {seen.detail!a}"
        for what, seen in sorted(walk.seen.items())
    ]
    return lines


def test_walks_over_hurt_tars_tell_this():
    lines = []
    for seed, data in drawn(random_tar, 45, 100):
        found = walked(data, contents=False)
        assert walked(data, contents=True) == found
        lines += [f"tar {seed}, {len(data)} bytes", *found]
    check_text(GOLDEN, "walks", "\n".join(lines))


@pytest.mark.parametrize("source", [MemorySource, StreamSource])
def test_samples_of_hurt_tars_are_these(source):
    lines = []
    for seed, data in drawn(sample_tar, 60, 500):
        lines.append(f"tar {seed}, {len(data)} bytes")
        samples = Samples(source(data), contents=seed % 2 > 0)
        try:
            for each in samples:
                fields = ", ".join(
                    f"{field}={row[0][-8:]}:{row[1]}" for field, row in each.fields.items()
                )
                lines.append(
                    f"  {each.number} {each.key[-8:]!a} {each.start}-{each.end} {fields!a} {each.trouble}"
                )
        except SourceError as error:
            lines.append(f"  {error}")
        lines.append(
            f"  members {samples.members} left out {sorted(samples.left_out.items())} {samples.headers}"
        )
        lines += [f"  {each!a}" for each in samples.damage]
        for rule in (WEBDATASET, ALL_SAMPLES):
            members = group_members(Walk(source(data)), rule)
            lines.append(
                "  "
                + " ".join(
                    "|" * begins + f"{key[-3:]}.{field}" for begins, key, field, _ in members
                )
            )
            lines[-1] = ascii(lines[-1])
    check_text(GOLDEN, f"samples of a {source.__name__}", "\n".join(lines))
