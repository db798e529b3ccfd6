"""wids: its own tar parser and decoders, compared with the package itself."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance import readers as programs
from tests.readers.shapes import outcomes, shard, verdict
from tests.readers.test_dali import far, pax, timed, with_field
from tests.validate.rules.build import Members, jpeg, pairs, png, tar
from wdsflow import index_shards, repair_shards
from wdsflow.readers import Wids
from wdsflow.shards.tar.members import Stop
from wdsflow.validate.report.report import Report
from wdsflow.validate.run_check import check

Make = Callable[[], list[bytes]]
_SIZE = len(pairs(1)[0][1])


def with_member(name: str, data: bytes) -> Make:
    """Return a shard with three samples and another member of the last one."""
    return lambda: [tar([*pairs(2), ("9.jpg", jpeg()), ("9.txt", b"a cat"), (name, data)])]


def with_header(start: int, field: bytes) -> Make:
    """Return a shard with other bytes in its first header."""
    return lambda: [with_field(tar(pairs(2)), start, field)]


def plain(*members: Members) -> Make:
    """Return shards with these members."""
    return lambda: [tar(each) for each in members]


def unlike(count: int, letter: str) -> Members:
    """Return samples whose names have a letter outside of ASCII."""
    return [(letter + name, data) for name, data in pairs(count)]


def with_entry(kind: bytes, name: str) -> list[bytes]:
    """Return a shard with an entry that is no file in front."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, "000.jpg"
        archive.addfile(info)
    return [stream.getvalue()[:512] + tar(pairs(2))]


def arrays() -> bytes:
    """Return an npz."""
    import numpy as np

    stream = io.BytesIO()
    np.savez(stream, a=np.arange(3))
    return stream.getvalue()


SETS: dict[str, Make] = {
    "more shards than it keeps open": plain(*[[(f"{k}-{name}", data) for name, data in pairs(1)] for k in range(12)]),
    "headers with times": lambda: [timed(pairs(3))],
    "long names in PAX headers": lambda: [pax([*pairs(2), *far(3)])],
    "long names of GNU": lambda: [pax(far(3), tarfile.GNU_FORMAT)],
    "prefixes": lambda: [pax([(f"{'d' * 120}/{name}", data) for name, data in pairs(3)], tarfile.USTAR_FORMAT)],
    "prefixes that tell folders apart": lambda: [
        pax([(f"{folder * 120}/{name}", data) for folder in "ab" for name, data in pairs(2)], tarfile.USTAR_FORMAT)
    ],
    "a letter that is cut": lambda: [
        pax([("x" * 99 + name, data) for name, data in unlike(2, "é")], tarfile.GNU_FORMAT)
    ],
    "UTF-8 in PAX headers": lambda: [pax([*unlike(2, "é"), *unlike(2, "ü")])],
    "UTF-8": lambda: [pax(unlike(2, "é"), tarfile.GNU_FORMAT)],
    "Latin-1": with_header(0, b"\xe90.jpg\0"),
    "Latin-1 in the second shard": lambda: [tar(pairs(2)), with_field(tar([*pairs(2), ("x", b"")]), 0, b"\xe90.jpg\0")],
    "Latin-1 in a shard without samples": lambda: [tar(pairs(2)), with_field(tar([("README", b"")]), 0, b"\xe9\0")],
    "a folder in Latin-1": lambda: [with_field(with_entry(tarfile.DIRTYPE, "d/")[0], 0, b"\xe9/\0")],
    "a link in Latin-1": lambda: [with_field(with_entry(tarfile.SYMTYPE, "d")[0], 0, b"\xe9\0")],
    "a line break at the start of a key": with_member("\nb.jpg", jpeg()),
    "a contiguous file": with_header(156, b"7"),
    "an unknown kind": with_header(156, b"V"),
    "the oldest kind": with_header(156, b"\0"),
    "a size without end": with_header(124, b"%012o" % _SIZE),
    "a short size": with_header(124, (b"%o" % _SIZE).ljust(12, b"\0")),
    "a size with spaces": with_header(124, b"%10o \0" % _SIZE),
    "base 256": with_header(124, b"\x80" + _SIZE.to_bytes(11, "big")),
    "a file without an extension": plain([("README", b"x"), *pairs(2)]),
    "such a file in a folder with a dot": plain([("v1.0/README", b"x"), *pairs(2)]),
    "dot-files": plain([(".DS_Store", b"x"), *pairs(1), ("d/._000.jpg", b"x"), *pairs(2)[2:]]),
    "metadata": plain([("__info__.json", b"{}"), *pairs(2)]),
    "bad metadata": plain([("__info__.json", b"{"), *pairs(2)]),
    "no sample": plain([("README", b"x")], pairs(2), []),
    "compressed": lambda: [tar(pairs(2)), gzip.compress(tar(pairs(2)))],
    "compressed and empty": lambda: [tar(pairs(2)), gzip.compress(tar([]))],
    "all damaged": lambda: [tar(pairs(2))[:700], tar(pairs(2)) + tar(pairs(2))],
    "some damaged": lambda: [tar(pairs(2))[:700], tar(pairs(3))],
    "a name twice": plain([pairs(1)[0], *pairs(3)]),
    "a name twice at the end": plain([*pairs(3), pairs(1)[0]]),
    "a name three times": plain([pairs(1)[0], pairs(1)[0], *pairs(3)]),
    "the same sample three times": plain([("a.jpg", jpeg())] * 3 + [("b.txt", b"b"), ("c.txt", b"c")]),
    "members that are not adjacent": plain([("a.jpg", jpeg()), ("b.jpg", jpeg()), ("a.txt", b"a")]),
    "an npz for an npy": with_member("9.npy", arrays()),
    "a bad npy": with_member("9.npy", b"PK\3\4?"),
    "a bad npz": with_member("9.npz", b"?"),
    "a number of another script": with_member("9.cls", "٣".encode()),
    "a bad number": with_member("9.cls2", b"1 2"),
    "a bad index": with_member("9.index", b"?"),
    "a zipped text": with_member("9.text.gz", gzip.compress(b"\xff")),
    "a zipped transcript": with_member("9.transcript.gz", gzip.compress(b"\xff")),
    "a bad zip": with_member("9.other.gz", b"?"),
    "a zipped image that is cut": with_member("9.seg.png.gz", gzip.compress(png()[:-30])),
    "a second image that is cut": with_member("9.seg.png", png()[:-30]),
    "a second image that is none": with_member("9.seg.png", b"?"),
    "a second jpeg that is none": with_member("9.seg.jpeg", b"?"),
    "an image that is cut": plain([*pairs(2), ("9.jpg", jpeg()[:-300]), ("9.txt", b"")]),
    "a webp that is none": plain([*pairs(2), ("9.webp", b"?")]),
    "fields in capitals": plain([*pairs(2), ("8.JPG", b"?"), ("8.txt", b""), ("9.jpg", jpeg()), ("9.TXT", b"\xff")]),
    "bad json": with_member("9.json", b"{"),
    "a caption that is not UTF-8": plain([*pairs(2), ("9.jpg", jpeg()), ("9.txt", b"\xe9")]),
    "a line break": with_member("a\nb.jpg", jpeg()),
    "a line break at the end": with_member("9.png\n", b"?"),
    "a folder": lambda: with_entry(tarfile.DIRTYPE, "d.x/"),
    "a link": lambda: with_entry(tarfile.SYMTYPE, "0.jpg"),
    "a pickle": with_member("9.pt", b"?"),
}


def written(folder: Path, shards: list[bytes]) -> list[str]:
    """Write shards and their index; return the urls."""
    folder.mkdir(exist_ok=True)
    for number, data in enumerate(shards):
        (folder / f"{number:02d}.tar").write_bytes(data)
    index_shards(str(folder), ["wids"])
    return [str(folder / f"{number:02d}.tar") for number in range(len(shards))]


def judged(urls: list[str]) -> Report:
    """Return the report on shards."""
    return check(urls, ["wids"], level="full")


MISREAD = {  # in which wids finds fewer samples than there are
    *("long names in PAX headers", "long names of GNU", "prefixes that tell folders apart", "UTF-8 in PAX headers"),
}
EXACT = {
    *("Latin-1", "Latin-1 in the second shard", "a folder in Latin-1", "a link in Latin-1"),
    *("more shards than it keeps open", "headers with times", "UTF-8", "the oldest kind", "a size with spaces"),
    *("metadata", "bad metadata", "compressed", "compressed and empty", "all damaged", "some damaged"),
    *("an image that is cut", "a webp that is none", "bad json", "a caption that is not UTF-8", "a folder", "a link"),
}


@pytest.mark.sample(25)
@pytest.mark.parametrize("name", SETS)
def test_the_verdict_is_what_wids_does_or_is_not_exact(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wids", reason="wids is not installed")
    monkeypatch.chdir(tmp_path)
    urls = written(tmp_path / "shards", SETS[name]())

    real = programs.wids()({"urls": urls})
    found = judged(urls).verdicts[0]

    assert found.exact == (name in EXACT)
    if found.exact:
        assert (found.usable, found.outcome == "crashes") == (len(real["keys"][0]), real["error"] is not None)


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", SETS)
def test_the_index_counts_what_wids_finds(name: str, tmp_path: Path) -> None:
    wids = pytest.importorskip("wids.wids", reason="wids is not installed")
    folder = tmp_path / "shards"
    written(folder, SETS[name]())
    index = folder / "shardindex.json"
    for row in json.loads(index.read_text())["shardlist"] if index.exists() else ():
        try:
            count = wids.compute_num_samples(str(folder / row["url"]))
        except Exception:
            continue
        assert row["nsamples"] > count if name in MISREAD else row["nsamples"] == count


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("jpg txt", "usable"),
        ("webp txt:empty", "usable"),
        ("jpg txt jsn:bad index:bad jpeg:bad", "usable"),
        ("jpg txt:not-utf8", "crash bad-caption txt"),
        ("jpg txt png:bad", "crash bad-field png"),
        ("webp:bad txt", "crash bad-image webp"),
        ("jpg:bomb txt", "crash too-large jpg"),
        ("JPG:bad txt", "no-image"),
        ("jpg", "no-caption"),
        ("json", "no-image-or-caption"),
        ("jpg txt cls:bad", "crash bad-field cls"),
    ],
)
def test_all_fields_that_it_knows_are_decoded(fields: str, expected: str) -> None:
    assert outcomes(Wids(), fields) == [expected]


def test_damaged_shards_are_left_out_and_others_end_it_where_they_are_opened() -> None:
    whole, cut = shard(["jpg txt"]), shard(["jpg txt", "jpg txt"], Stop("eof"))
    assert verdict(Wids(), whole, cut) == ("loses", 1, ["unopened"])
    assert verdict(Wids(), cut, cut)[::2] == ("crashes", ["no-wids-index"])
    packed = replace(whole, compression="gz")
    assert verdict(Wids(), whole, packed) == ("crashes", 1, ["unreadable-shard"])


@pytest.mark.parametrize(
    "data", [tar(pairs(3)), timed(pairs(3)), tar([*pairs(3), ("9.jpg", b"?"), ("9.v1.txt", b"a cat")])]
)
def test_plain_shards_are_known_in_full(data: bytes, tmp_path: Path) -> None:
    assert judged(written(tmp_path / "shards", [data])).verdicts[0].exact


def test_a_repair_keeps_its_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    report = judged(written(tmp_path / "shards", [gzip.compress(tar(pairs(3)))]))
    assert report.verdicts[0].usable < 3
    (advice,) = report.advice
    assert (advice.usable, advice.options) == (3, ())

    repair_shards(["shards/00.tar"], "repaired")
    urls = written(tmp_path / "repaired", [])
    index_shards("repaired", ["wids"])
    assert urls == []
    assert len(programs.wids()({"urls": ["repaired/00.tar"]})["keys"][0]) == 3


@pytest.mark.parametrize("tar_format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_no_repair_is_promised_for_long_names_which_it_keeps(tar_format: int, tmp_path: Path) -> None:
    report = judged(written(tmp_path / "shards", [pax([*pairs(2), *far(3)], tar_format)]))
    assert report.advice == []
    assert [(each.code, each.repair) for each in report.findings if each.code == "W035"] == [("W035", None)]


def test_a_path_that_a_shell_reads_in_another_way_makes_the_verdict_inexact(tmp_path: Path) -> None:
    folder = tmp_path / "my shards"
    found = judged(written(folder, [tar(pairs(3))])).verdicts[0]
    assert (found.outcome, found.exact) == ("trains", False)
    assert "passes paths to a shell" in found.note


def test_ranks_make_no_difference(tmp_path: Path) -> None:
    urls = written(tmp_path / "shards", [tar(pairs(3))])
    assert check(urls, ["wids"], level="full", world_size=8).verdicts[0].outcome == "trains"
