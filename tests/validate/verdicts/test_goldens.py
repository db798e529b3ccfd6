"""The result of one pass over the shards of each rule.

Includes what all readers make of them, number by number.

``WDSFLOW_UPDATE_GOLDENS=1 pytest ...`` writes the files again.
"""

import gzip
import io
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.golden_file import check_file
from tests.validate.reader_groups import reader_groups
from tests.validate.rules.build import Case, jpeg, pairs, png, samples, tar, words
from tests.validate.rules.cases import CASES, SOUND
from wdsflow.readers import READERS, Options, scan_options
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.shapes import Runs
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.verdicts.judge import judge

GOLDEN = Path(__file__).parent / "golden"
# The sizes of their images depend on the version of the encoder.
UNSTABLE = {
    "I207",
    "I208",
    "I218",
}


def bmp(data: Any) -> bytes:
    """Return bytes as they are, and a picture as a bitmap."""
    stream = io.BytesIO()
    if isinstance(data, bytes):
        return data
    data.save(stream, "BMP")
    return stream.getvalue()


def array(*shape: int, kind: str = "f4") -> bytes:
    """Return an npy."""
    stream = io.BytesIO()
    np.save(stream, np.zeros(shape, kind))
    return stream.getvalue()


def with_chunk(name: bytes, place: int = -5) -> bytes:
    """Return a PNG in which a byte of a chunk is wrong, counted from its name."""
    data = bytearray(png())
    data[data.index(name) + place] ^= 1
    return bytes(data)


PARSERS = [
    *[
        ("README", b"hello"),
        *pairs(2),
        ("b.txt", b""),
        ("b.jpg", jpeg()),
        ("c.jpg", b""),
        ("c.txt", b"c"),
    ],
    *[
        ("d.png", with_chunk(b"tEXt", 9)),
        ("d.txt", b"d"),
        ("e.png", with_chunk(b"IDAT", 12)),
        ("e.txt", b"e"),
    ],
    *[
        ("f.jpg", Image.new("RGB", (40, 40))),
        ("f.txt", b"f"),
        ("g.txt", b"g"),
        ("g.seg.png", png()),
        ("h", b"h"),
    ],
    *[
        ("i.jpg", jpeg()),
        ("i.JPG", jpeg()),
        ("i.jpg", jpeg()),
        ("i.txt", b"i"),
        ("__info__.json", b"{}"),
    ],
    *[
        ("j.cls", b"x"),
        ("j.cls2", "٣".encode()),
        ("j.npy", b"PK\3\4"),
        ("j.jpg", jpeg()[:-300]),
        ("j.txt", b"j"),
    ],
    *[
        ("k.pyd", b"\x80\4N."),
        ("k.jpg", jpeg()),
        ("k.txt", b"k"),
        ("README", b"again"),
        ("l.txt", b""),
    ],
]
COLUMNS = [
    *samples(
        3,
        jpg=jpeg(),
        txt=b"a",
        json=words({"n": 1, "list": [1.5], "o": {"s": "x"}}),
        npy=array(2, 3),
        cls=b"1",
    ),
    *samples(
        1,
        3,
        jpg=jpeg(),
        txt=b"a",
        json=words({"n": "7", "list": [1], "o": None}),
        npy=array(2),
        cls=b"1",
    ),
    *samples(
        2,
        4,
        jpg=jpeg(),
        txt=b"a",
        json=words({"n": "x", "list": 3, "o": 1}),
        npy=array(2, 3, kind="i8"),
        cls=b"9",
    ),
    *samples(
        1, 6, jpg=jpeg(), txt=b"a", json=words({"n": 2.5, "more": 1}), npy=array(2, 3, 1), cls=b"x"
    ),
    *samples(1, 7, jpg=jpeg(), txt=b"a", json=words([1]), npy=b"no array", cls=b"1" * 30),
]
FIRST = tar(
    [
        *samples(6, jpg=jpeg(), txt=b"a", json=words({"n": 1, "list": [1.5]}), npy=array(2, 3)),
        *pairs(1, 6),
    ]
)
EXTRA = {
    "parsers": Case({"0.tar": tar([(name, bmp(data)) for name, data in PARSERS])}),
    "columns": Case({"0.tar": tar(COLUMNS)}),
    "later-columns": Case({"0.tar": FIRST, "1.tar": tar(COLUMNS)}),
    "arrow": Case(
        {
            "0.tar.gz": gzip.compress(tar(pairs(9)), 0, mtime=0)[:-9],
            "1.tar.bz2": tar(pairs(2)),
            "2.tar": SOUND,
        }
    ),
    "keys": Case(
        {"0.tar": SOUND},
        options=Options(image_key="webp;jpg", text_key="caption;txt", max_image_pixels=99),
    ),
    "ranks": Case(
        {"0.tar": tar(pairs(2)), "1.tar": tar(pairs(1, 5))},
        options=Options(world_size=4, workers=3),
    ),
}
LEFT_OUT = {
    "url",
    "columns",
    "key_sketch",
    "junk_sketch",
    "image_sketch",
    "frequent_images",
}
SKETCHES = ("key_sketch", "junk_sketch", "image_sketch")


def runs(found: Runs) -> str:
    """Return all runs on one line: key, offset and members."""
    shown = [
        f"{item.count} x {item.key!a} at {item.offset}: {members(item.shape)}"
        for item in found.shape_counts()
    ]
    before = [item.before for item in found.inner]
    return "; ".join(shown) + (f" {before}" if any(before) else "")


def members(shape: Any) -> str:
    return " ".join(f"{part.suffix!a}:{part.status}{'' if part.fits else '!'}" for part in shape)


def facts(shard: ShardEvidence, indent: str = "  ") -> Iterator[str]:
    """Yield a line for each fact that is not the default."""
    plain = ShardEvidence("")
    for each in fields(ShardEvidence):
        name, value = each.name, getattr(shard, each.name)
        if name in LEFT_OUT or value == getattr(plain, name):
            continue
        if isinstance(value, Runs):
            yield f"{indent}{name}: {runs(value)}"
        elif name == "by_parser":
            for parser, other in sorted(value.items()):
                yield f"{indent}{parser}:"
                yield from facts(other, indent + "  ")
        elif isinstance(value, ShardEvidence):
            yield f"{indent}{name}:"
            yield from facts(value, indent + "  ")
        elif name == "tallies":
            for tally, item in sorted(value.items()):
                yield f"{indent}{tally}: {item.count} {item.key!a} {item.offset} {item.detail!a}"
        elif name == "json_keys":
            for key, item in sorted(value.items()):
                shapes = "; ".join(
                    f"{count} x {members(shape)}" for shape, count in item.shapes.items()
                )
                yield f"{indent}json {key!a}: {[*asdict(item).values()][:-1]!a} {shapes}"
        elif name == "fields":
            yield f"{indent}fields: " + ", ".join(
                f"{k!a} {[*asdict(v).values()]}" for k, v in sorted(value.items())
            )
        else:
            yield f"{indent}{name}: {value!a}"
    yield f"{indent}sketches: {[len(getattr(shard, name)) for name in SKETCHES]} {[*shard.frequent_images.values()]}"


def verdicts(evidence: Evidence, readers: Any) -> Iterator[str]:
    """Yield what each reader makes of the shards; readers that agree are on one line."""
    texts: dict[str, str] = {}
    for reader in readers:
        found = judge(evidence, reader)
        exact = "" if found.exact else " not exact"
        least = "" if found.least is None else f" least {found.least}"
        lines = [
            f"{found.outcome} {found.usable} of {found.samples}{exact}{least}, {[*asdict(found.funnel).values()]}"
        ]
        lines += [
            f"    {r.slug} {r.count} {r.shard} {r.key!a} {r.offset}: {r.message!a}"
            for r in found.reasons
        ]
        lines += [f"    lost: {dict(found.lost)}"] if found.lost else []
        lines += [f"    {found.note!a}"] if found.note and evidence.level != "names" else []
        texts[reader.name] = "\n".join(lines)
    for names, text in reader_groups(texts):
        yield f"  {names}: {text}"


def shown(case: Any, folder: Path) -> str:
    urls = [str(folder / name) for name in case.write(folder)]
    readers = [reader(case.options) for reader in READERS.values()]
    lines = []
    for level in ("full", "names", "headers") if case in EXTRA.values() else ("full", "names"):
        shards = [
            scan_shard(
                single_shard(url), scan_options(level, readers, list(map(single_shard, urls)))
            )
            for url in urls
        ]
        if level == "full":
            for shard in shards:
                lines += [f"{Path(shard.url).name}", *facts(shard)]
        lines += [level, *verdicts(Evidence(level, shards), readers)]
    return "".join(line.replace(f"{folder}/", "") + "\n" for line in lines)


@pytest.mark.parametrize("code", [*(code for code in CASES if code not in UNSTABLE), *EXTRA])
def test_a_pass_finds_what_the_golden_file_says_and_so_do_the_readers(
    code: str, tmp_path: Path
) -> None:
    text = shown({**CASES, **EXTRA}[code], tmp_path)
    check_file(GOLDEN / f"{code}.txt", text)
