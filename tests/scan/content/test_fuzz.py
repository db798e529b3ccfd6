"""Random bytes and random damage: nothing raises or hangs.

Every answer is one of the defined ones.
"""

import gzip
import io
import json
import random

import numpy as np
import pytest

from tests.pictures import encoded, hurt, noise, other_images, photo
from wdsflow.images.image_header import read_header
from wdsflow.scan import statuses
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.content.image_content import decode_image
from wdsflow.scan.content.image_end import ends_early
from wdsflow.scan.content.image_header_notes import header_status, image_notes
from wdsflow.scan.content.other import decode_other
from wdsflow.scan.content.text_content import decode_json, decode_text
from wdsflow.scan.tallies import TALLIES

STATUSES = {
    statuses.OK,
    statuses.NO_LIBRARY,
    statuses.NOT_ZIPPED,
    statuses.PARTLY,
    statuses.SUSPECT,
    statuses.UNKNOWN,
    statuses.OPAQUE,
    statuses.BAD,
    statuses.EMPTY,
    statuses.BLANK,
    statuses.NOT_UTF8,
    statuses.NO_CAPTION,
    statuses.BOMB,
    statuses.BIG,
    statuses.BIG_BAD,
    statuses.UNSAFE,
}
CAPTION = "A photo of a dog &amp; a cat in São Paulo <br> IMG_1.jpg\n".encode()
DOCUMENT = json.dumps(
    {"caption": "a dog", "size": [640, 480], "score": 0.31, "tags": {"a": None}}
).encode()


def fields():
    array = io.BytesIO()
    np.savez(array, a=np.arange(4))
    plain = io.BytesIO()
    np.save(plain, np.arange(4))
    return {
        "npz": array.getvalue(),
        "npy": plain.getvalue(),
        "cls": b"17",
        "txt.gz": gzip.compress(CAPTION),
        "json.gz": gzip.compress(DOCUMENT),
        "ten": b"~TenBin~" + bytes(120),
        "mp": b"\x82\xa1a\x93\x01\x02\x03\xa1b\xc0",
        "cbor": b"\xa2\x61a\x83\x01\x02\x03\x61b\xf6",
        "pyd": b"\x80\x04.",
    }


def images():
    drawn = {
        "jpg": encoded(
            photo(24, 16),
            "JPEG",
            exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0",
        ),
        "jpeg": encoded(photo(24, 16), "JPEG", progressive=True),
        "png": encoded(noise(12, 8, "P"), "PNG", transparency=0),
        "webp": encoded(photo(24, 16), "WEBP"),
        "gif": encoded(noise(12, 8), "GIF"),
        "bmp": encoded(noise(6, 4), "BMP"),
    }
    return {**drawn, **{name: data for name, data in other_images().items() if len(data) < 12_000}}


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(4))
def test_headers_and_hints_of_damaged_images(seed):
    rng = random.Random(seed)
    sources = list(images().items())
    for _ in range(2500):
        name, data = rng.choice(sources)
        data = hurt(hurt(data, rng), rng) if rng.random() < 0.7 else hurt(data, rng)
        header = read_header(data[:4096])
        notes = image_notes(header, name, data[:4096], len(data))
        assert TALLIES.keys() >= set(notes)
        assert header_status(header, len(data), 25_000_000) in STATUSES
        assert header is None or ends_early(data[-32:], header) in (True, False)


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(2))
def test_decoding_of_damaged_images(seed):
    rng = random.Random(seed)
    sources = list(images().values())
    for _ in range(1000):
        data = hurt(rng.choice(sources), rng)
        status, notes = decode_image(data, 25_000_000)
        assert status in STATUSES
        assert TALLIES.keys() >= set(notes)


def test_captions_and_json():
    rng = random.Random(5)
    for _ in range(3000):
        status, notes, _ = decode_text(hurt(hurt(CAPTION, rng), rng))
        assert status in STATUSES
        assert TALLIES.keys() >= set(notes)
        status, notes, _ = decode_json(hurt(hurt(DOCUMENT, rng), rng), ("caption",))
        assert status in STATUSES
        assert TALLIES.keys() >= set(notes)


def test_other_fields():
    rng = random.Random(6)
    sources = list(fields().items())
    for _ in range(4000):
        suffix, data = rng.choice(sources)
        status, notes = decode_other(kind_of(suffix), suffix, hurt(data, rng))
        assert status in STATUSES
        assert TALLIES.keys() >= set(notes)


def test_bytes_without_any_form():
    rng = random.Random(7)
    starts = [
        b"",
        b"\xff\xd8\xff",
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
        b"RIFF\0\0\0\0WEBPVP8X",
        b"BM",
        b"II*\0",
        b"\0\0\0\x18ftyp",
    ]
    for _ in range(1500):
        data = rng.choice(starts) + rng.randbytes(rng.randrange(60))
        header = read_header(data)
        assert header_status(header, len(data), 0) in STATUSES
        assert TALLIES.keys() >= set(image_notes(header, "jpg", data, len(data)))


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8" + b"\xff" * 1_000_000,
        b"\xff\xd8\xff" + b"\xff\x00" * 500_000,
        b"\xff\xd8" + b"\xff\xd0" * 500_000,
        b"\xff\xd8" + b"\xff\xfe\x00\x02" * 250_000,
        b"GIF89a" + b"\x10\0\x10\0\0\0\0" + b"!\xfe\x01a\0" * 200_000,
        b"GIF89a" + b"\x10\0\x10\0\0\0\0" + b"a" * 1_000_000,
        b"\x89PNG\r\n\x1a\n" + b"\0\0\0\0tEXt\0\0\0\0" * 80_000,
        b"\0\0\0\x18ftypavif\0\0\0\0mif1" + b"ispe" * 250_000,
        b"<" + b"<!--" * 250_000,
        b" " * 1_000_000,
        bytes(1_000_000),
    ],
    ids=range(11),
)
def test_a_mebibyte_made_to_keep_a_parser_busy(data):
    header = read_header(data)
    assert header_status(header, len(data), 0) in STATUSES
    assert TALLIES.keys() >= set(image_notes(header, "jpg", data[:4096], len(data)))
