"""Samples with one fault each: their members in order, by the name of the fault.

Without the fault, every reader accepts them.
"""

import gzip
import io

import numpy as np

from tests.validate.rules.build import Members, claims, jpeg, png, words

VALID = {
    "jpg": jpeg(),
    "txt": b"a dog",
    "cls": b"3",
    "json": words({"caption": "a dog", "alt": "a cat"}),
}


def _partly_loaded() -> bytes:
    """Return an npz that opens, and whose array does not load."""
    stream = io.BytesIO()
    np.savez(stream, a=np.zeros(3))
    data = bytearray(stream.getvalue())
    start = data.find(b"NUMPY")
    data[start : start + 5] = b"XXXXX"
    return bytes(data)


_CUT = jpeg()[:-1200]
# In place of the member, or in addition to the valid ones.
_CONTENTS: dict[str, tuple[bytes, ...]] = {
    "jpg": (
        *(b"", _CUT, b"<html>404</html>", b"no image at all, really", b"\x89PNG\r\n\x1a\n" + b"x"),
        *(claims(20_000, 20_000), claims(6_000, 5_000)),
    ),
    "txt": (b"", b" \n", "café".encode("latin-1")),
    "json": (b"", b"{", b"[]", b"{}", b"[" * 3000 + b"]" * 3000, b'"\xff"'),
    "cls": (b"", b"seven"),
    "id": (b"", b"x"),
    "index": (b"x",),
    "npy": (b"", b"x"),
    "npz": (b"", b"x", _partly_loaded()),
    "mp": (b"", b"\x82\xa1a"),
    "cbor": (b"", b"\xa2aa"),
    "ten": (b"", b"\0" * 7),
    "pyd": (b"", b"x"),
    "pth": (b"", b"x"),
    "pkl": (b"", b"x"),
    "txt.gz": (b"", b"x", gzip.compress(b"\xff")),
    "json.gz": (b"x", gzip.compress(b"{")),
    "jpg.gz": (b"x", gzip.compress(b"x"), gzip.compress(_CUT)),
    "seg.png": (b"", b"x", png()[:-1200]),
    "png": (b"", b"x", claims(20_000, 20_000)),
    "gif": (b"x",),
    "text": (b"", b"\xff"),
    "caption": (b"", b"\xff"),
    "jsn": (b"{",),
    "__bad__": (b"x",),
    "__key__": (b"x",),
    "__url__": (b"x",),
    "__local_path__": (b"x",),
    "__sources__": (b"x",),
}
_MISSING = ("jpg", "txt", "cls", "jpg txt", "jpg cls", "json", "txt json")


def faulty_samples() -> dict[str, Members]:
    """Return the members of each faulty sample, with their field names in place of names."""
    faulty: dict[str, Members] = {}
    for field, contents in _CONTENTS.items():
        for number, data in enumerate(contents):
            faulty[f"{field} {number}"] = list((VALID | {field: data}).items())
    for names in _MISSING:
        faulty[f"no {names}"] = [item for item in VALID.items() if item[0] not in names.split()]
    for field in ("jpg", "JPG", "txt"):
        faulty[f"{field} twice"] = [*VALID.items(), (field, VALID[field.lower()])]
    faulty["upper case"] = [(field.upper(), data) for field, data in VALID.items()]
    return faulty
