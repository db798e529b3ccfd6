"""The status of each field, compared with webdataset's own decoders.

Exactly the contents that they refuse are refused here.
"""

import gzip
import io
import json
import pickle
import random
import warnings

import numpy as np
import pytest

from tests.pictures import encoded, photo
from wdsflow.readers.open_clip.versions import OpenClip33
from wdsflow.readers.wanted_fields import decoding_raises
from wdsflow.readers.webdataset import WebDataset02, WebDataset1
from wdsflow.scan.content.field_kinds import EXTENSIONS, kind_of
from wdsflow.scan.content_scan import ContentScanner
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import PARTLY, SUSPECT, UNSAFE

OTHERS = sorted(set().union(*EXTENSIONS.values()) - EXTENSIONS["image"] | {"bin", "mp4", "pt"})
FIELDS = [
    *OTHERS,
    *(f"{name}.gz" for name in OTHERS),
    "seg.png",
    "thumb.jpg",
    "mask.webp",
    "png.gz",
]


def saved(save) -> bytes:
    stream = io.BytesIO()
    save(stream)
    return stream.getvalue()


def sound(suffix: str) -> bytes:
    """Return contents that the decoder of a field takes."""
    if suffix.endswith(".gz"):
        return gzip.compress(sound(suffix.removesuffix(".gz")), mtime=0)
    values = np.arange(60, dtype="f4").reshape(6, 10)
    makers = {
        "image": lambda: encoded(
            photo(), {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}[suffix.rpartition(".")[2]]
        ),
        "text": "a d\u00f6g on a beach".encode,
        "json": lambda: json.dumps({"caption": "a dog", "width": 64}).encode(),
        "integer": lambda: b" 17\n",
        "npy": lambda: saved(lambda stream: np.save(stream, values)),
        "npz": lambda: saved(lambda stream: np.savez_compressed(stream, a=values, b=np.zeros(3))),
        "msgpack": lambda: bytes.fromhex("82a161930102a3646f67a162c0"),
        "cbor": lambda: bytes.fromhex("a26161016162820203"),
        "tenbin": lambda: tenbin(values),
        "pickle": lambda: pickle.dumps({"a": [1, 2.5, None], "b": "dog"}),
        "torch": lambda: torch_file(values),
    }
    content: bytes = makers.get(kind_of(suffix), lambda: b"anything")()
    return content


def tenbin(values: np.ndarray) -> bytes:
    from webdataset import tenbin

    return bytes(tenbin.encode_buffer([values]))


def torch_file(values: np.ndarray) -> bytes:
    import torch

    return saved(lambda stream: torch.save({"weights": torch.from_numpy(values)}, stream))


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes cut, changed, lengthened or replaced."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 5))):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return rng.choice(
        (
            b"",
            data[:-1],
            data[: len(data) // 2],
            bytes(changed),
            data + b"tail",
            b"<html>404</html>",
            rng.randbytes(60),
        )
    )


def decodes(suffix: str, data: bytes) -> bool:
    """Return whether OpenCLIP's stage takes a field of these contents."""
    from webdataset.autodecode import Decoder, ImageHandler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            Decoder([ImageHandler("pilrgb")])({"__key__": "a", suffix: data})
        except Exception:
            return False
    return True


def status(suffix: str, data: bytes, level: str) -> str:
    scanner = ContentScanner(ShardEvidence("0.tar"), ScanOptions(level))  # type: ignore[arg-type]
    return scanner.status("a", suffix, 0, len(data), lambda start, size: data[start : start + size])


@pytest.mark.parametrize("level", ["full", "headers"])
def test_a_field_is_refused_exactly_where_webdataset_raises(level):
    """Exceptions: images at the level "headers", and pickles that may load.

    At the level "headers", damage inside images is not seen. Of pickles, only those that certainly
    fail are refused.
    """
    rng = random.Random(11)
    reader = OpenClip33()
    wrong = []
    for suffix in FIELDS:
        is_image = kind_of(suffix) == "image"
        for number in range(12):
            data = sound(suffix) if not number else damaged(sound(suffix), rng)
            found = status(suffix, data, level)
            parts = {
                part.suffix: part
                for part in (Part("jpg", "ok"), Part("txt", "ok"), Part(suffix, found))
            }
            lost = reader.fates(tuple(parts.values()))[0].kind != "usable"
            unknown = found in (UNSAFE, SUSPECT) or (is_image and level == "headers")
            if lost == decodes(suffix, data) and not (unknown and not lost):
                wrong.append((suffix, number, found))
    assert wrong == []


def test_a_broken_array_inside_an_npz_is_met_by_readers_that_load_it():
    data = bytearray(saved(lambda stream: np.savez(stream, a=np.arange(100))))
    data[300] ^= 1  # in the values: only the checksum tells
    assert decodes("npz", bytes(data))
    with pytest.raises(Exception, match="CRC"):
        dict(np.load(io.BytesIO(bytes(data))))
    for level in ("headers", "full"):
        assert status("npz", bytes(data), level) == PARTLY
    part = Part("npz", PARTLY)
    assert not decoding_raises(part, WebDataset02.decoded, loads_arrays=WebDataset02.loads_arrays)
    assert decoding_raises(part, WebDataset1.decoded, loads_arrays=WebDataset1.loads_arrays)
