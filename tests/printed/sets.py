"""Shard sets with faults and gaps, by what is wrong with them."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

from tests.validate.rules.build import Members, jpeg, pairs, samples, tar

JSON = json.dumps({"url": "https://x.org/a.jpg", "description": "a brown dog in the snow"}).encode()
EMPTY = json.dumps({"url": "https://x.org/a.jpg", "description": None}).encode()
PICTURE = jpeg()
CAPTIONED = samples(20, jpg=PICTURE, json=JSON)


def doubled(members: Members) -> Members:
    """Add the twins that a Mac writes."""
    return [
        pair
        for name, data in members
        for pair in ((f"d/._{name}", b"\0" * 16), (f"d/{name}", data))
    ]


SETS: dict[str, list[Members | bytes]] = {
    "captions in json": [samples(20, jpg=PICTURE, json=JSON)],
    "captions in some of the json": [[*CAPTIONED, *samples(7, start=50, jpg=PICTURE, json=EMPTY)]],
    "some samples without json": [
        [*samples(3, jpg=PICTURE), *samples(9, start=20, jpg=PICTURE, json=JSON)],
        CAPTIONED,
    ],
    "some samples without a caption": [
        [*pairs(9), *samples(2, start=20, jpg=PICTURE)],
        pairs(5, start=40),
    ],
    "some samples without an image": [[*samples(2, txt=b"a dog"), *pairs(9, start=20)]],
    "blank captions beside json": [
        [*CAPTIONED, *samples(4, start=60, jpg=PICTURE, txt=b" \n", json=JSON)]
    ],
    "captions that are no text beside json": [
        [
            *pairs(9),
            *samples(4, start=60, jpg=PICTURE, txt=b"caf\xe9", json=JSON),
            *samples(2, start=80, jpg=PICTURE, txt=b"\xff"),
        ]
    ],
    "captions in json, and some samples without an image": [
        [*CAPTIONED, *samples(3, start=60, json=JSON)]
    ],
    "captions in some json, others in txt": [
        [
            *pairs(9),
            *samples(5, start=60, jpg=PICTURE, json=JSON),
            *samples(2, start=80, txt=b"a dog"),
        ]
    ],
    "empty captions beside some that are no text": [
        [
            *pairs(14),
            *samples(8, start=40, jpg=PICTURE, txt=b""),
            *samples(4, start=60, jpg=PICTURE, txt=b"caf\xe9"),
        ]
    ],
    "empty captions": [[*pairs(14), *samples(8, start=40, jpg=PICTURE, txt=b"")]],
    "captions that are no text": [[*pairs(9), *samples(3, start=50, jpg=PICTURE, txt=b"caf\xe9")]],
    "json that is cut": [[*CAPTIONED, *samples(2, start=60, jpg=PICTURE, json=JSON[:-4])]],
    "a README among the samples": [[("README.md", b"hello"), *pairs(7)]],
    "a cut shard": [tar(pairs(9))[:-4000], tar(pairs(5, start=40))],
    "captions in another field": [samples(9, jpg=PICTURE, caption=b"a dog"), pairs(4, start=40)],
    "captions of another field that are no text": [
        samples(5, jpg=PICTURE, caption=b"\xff"),
        pairs(4, start=40),
    ],
    "captions that are gzipped": [
        samples(4, jpg=PICTURE, **{"txt.gz": gzip.compress(b"a dog", mtime=0)})
    ],
    "images in another field": [samples(9, img=PICTURE, txt=b"a dog")],
    "both in other fields": [samples(9, **{"input.jpg": PICTURE, "output.txt": b"a dog"})],
    "a field that drops samples": [pairs(12, id=b"not a number")],
    "macOS twins": [doubled(pairs(8))],
    "dotted names": [
        [
            (f"photo {n}.{n} (x).{end}", data)
            for n in range(6)
            for end, data in (("jpg", PICTURE), ("txt", b"a dog"))
        ]
    ],
    "interleaved": [sorted(pairs(10), key=lambda member: member[0][-3:])],
    "images and captions in two folders": [
        [
            *((f"img/{n}.jpg", PICTURE) for n in range(6)),
            *((f"txt/{n}.txt", b"a dog") for n in range(6)),
        ]
    ],
    "a sample cut in two between shards": [
        [*pairs(6), ("900.jpg", PICTURE)],
        [("900.txt", b"a dog"), *pairs(4, start=20)],
    ],
    "halves of a sample in shards that are no neighbours": [
        [*CAPTIONED, ("900.jpg", PICTURE)],
        samples(9, start=40, jpg=PICTURE, json=JSON),
        [("900.json", JSON), *samples(4, start=70, jpg=PICTURE, json=JSON)],
    ],
    "json and macOS twins": [doubled(samples(8, jpg=PICTURE, json=JSON))],
    "json and a field that drops samples": [samples(8, jpg=PICTURE, json=JSON, id=b"x")],
    "a second archive": [tar(pairs(9)) + tar(pairs(4, start=700))],
    "a damaged header": [
        tar(pairs(5))[: 3584 * 2] + b"\xff" * 512 + tar(pairs(9))[3584 * 2 + 512 :]
    ],
    "json with a name that needs quoting": [
        samples(5, jpg=PICTURE, json=json.dumps({"the caption's": "a brown dog"}).encode())
    ],
    "types of a column that are those of samples without a caption": [
        [
            *samples(5, jpg=PICTURE, json=b'{"a": "text"}'),
            *pairs(5, start=10, json=b'{"a": 1}'),
            *pairs(5, start=20, json=b'{"a": "text"}'),
        ]
    ],
    "types of a column that change": [
        [*pairs(5, json=b'{"a": 1}'), *pairs(5, start=10, json=b'{"a": "text"}')]
    ],
    "many shards with the same fault": [
        [*pairs(3, start=10 * n), *samples(1, start=10 * n + 5, jpg=PICTURE)] for n in range(9)
    ],
}


def write(folder: Path, contents: Sequence[Members | bytes]) -> list[str]:
    """Write shards into the subfolder ``s/``; return their pattern.

    Each shard is given as its members, or as the bytes of the file.
    """
    (folder / "s").mkdir()
    for number, members in enumerate(contents):
        (folder / "s" / f"{number}.tar").write_bytes(
            members if isinstance(members, bytes) else tar(members)
        )
    return ["s/*.tar"]
