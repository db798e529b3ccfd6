"""Captions, json and other fields for generated shards, sound and broken."""

import gzip
import io
import json
from random import Random

_WORDS = (
    "a",
    "red",
    "house",
    "near",
    "the",
    "sea",
    "caf\u00e9",
    "\u4e2d\u6587",
    "\U0001f600",
    "&amp;",
    "<b>bold</b>",
)


def caption(rng: Random) -> str:
    """Return some words."""
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 9)))


def odd_caption(rng: Random) -> bytes:
    """Return a caption that some reader may stumble over; not all of them are broken."""
    text = caption(rng) + "\u00e9"
    return rng.choice(
        (
            b"",
            b" ",
            b"\n",
            b" \t\r\n\x0b\x0c",
            b"\x1c\x1d\x1e\x1f",
            "\u00a0\u2003\u3000\u0085".encode(),
            "\u200b".encode(),
            "\ufeff".encode(),
            ("\ufeff" + text).encode(),
            text.encode("latin-1", "replace"),
            text.encode("utf-16"),
            text.encode("utf-16-le"),
            b"\x92quoted\x92",
            b"\xed\xa0\x80",  # a surrogate on its own: Python's utf-8 refuses it
            b"\xc0\xaf",
            b"\xf4\x90\x80\x80",
            text.encode()[:-1],
            b"a\0b",
            b"\x1b[31mred\x1b[0m",
            b"nan",
            ("word " * 300).encode(),
        )
    )


def metadata(rng: Random, names: tuple[str, ...] = ("caption", "url")) -> bytes:
    """Return a valid json object with strings under the given names."""
    return json.dumps({name: caption(rng) for name in names}).encode()


def document(rng: Random) -> bytes:
    """Return a valid json object with values of many types.

    It has the same names and types each time, except for nulls.
    """
    sizes = [rng.randint(1, 9) for _ in range(rng.randint(0, 3))]
    values = {
        "caption": caption(rng),
        "width": rng.randint(1, 999),
        "similarity": rng.random(),
        "error": None,
        "ok": rng.random() < 0.5,
        "exif": json.dumps({"a": rng.randint(1, 9)}),
        "date": "2024-01-01T00:00:00Z",
        "sizes": sizes,
        "tags": [caption(rng)] if rng.random() < 0.7 else [],
        "place": {"x": rng.random(), "names": {"en": caption(rng)}} if rng.random() < 0.8 else None,
        "boxes": [{"left": size, "label": "dog"} for size in sizes],
    }
    return json.dumps(
        {name: None if rng.random() < 0.1 else value for name, value in values.items()}
    ).encode()


def other_document(rng: Random) -> bytes:
    """Return json that differs from ``document`` in types or names.

    A value or all of it has another type, or there are more names or fewer.
    """
    values = json.loads(document(rng))
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice((*values, "new"))
        values[name] = _value(rng)
        if rng.random() < 0.2:
            del values[name]
    return json.dumps(_value(rng) if rng.random() < 0.1 else values).encode()


def _value(rng: Random, depth: int = 2) -> object:
    """Return anything that json holds."""
    if depth and rng.random() < 0.4:
        items = [_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        return (
            items if rng.random() < 0.5 else dict(zip(("left", "x", "names"), items, strict=False))
        )
    return rng.choice(
        (
            None,
            True,
            0,
            7,
            -1,
            1.0,
            2.5,
            2**53 + 1,
            2**63,
            10**30,
            1e300,
            "",
            "12",
            "1.5",
            caption(rng),
            float("nan"),
        )
    )


def odd_json(rng: Random) -> bytes:
    """Return json that some reader may stumble over; not all of it is broken."""
    text = caption(rng)
    return rng.choice(
        (
            b"",
            b" ",
            b"null",
            b"true",
            b"12",
            b"[]",
            b'["a"]',
            b'"caption"',
            b"{}",
            b"{",
            b'{"caption": "x"',
            b"{'caption': 'x'}",
            b'{"caption": NaN}',
            b'{"caption": Infinity, "a": -Infinity}',
            b'{"caption": null}',
            b'{"caption": 3}',
            b'{"caption": ["x"]}',
            b'{"caption": {"en": "x"}}',
            b'{"caption": ""}',
            b'{"caption": "  \\n"}',
            b'{"caption": "\\ud800"}',
            b'{"caption": "\\u00a0"}',
            b'{"caption": "x"} trailing',
            b'{"caption": "x"}\n{"caption": "y"}',
            b'{"caption": "a\nb"}',
            b'{"caption": "x", "caption": ""}',
            b'{"Caption": "x"}',
            b'{"caption": "x",}',
            b"\xef\xbb\xbf" + json.dumps({"caption": text}).encode(),
            json.dumps({"caption": text}).encode("utf-16"),
            json.dumps({"caption": text}).encode("utf-16-le"),
            json.dumps({"caption": text}).encode("utf-32"),
            json.dumps({"caption": "caf\u00e9"}, ensure_ascii=False).encode("latin-1"),
            b'{"n": ' + b"9" * rng.choice((20, 400, 4300, 4301)) + b', "caption": "x"}',
            b'{"n": 1e999, "caption": "x"}',
            b"[" * 100 + b"]" * 100,
            b"[" * 100_000 + b"]" * 100_000,
        )
    )


def number(rng: Random) -> bytes:
    """Return what ``int()`` takes."""
    return rng.choice((b"7", b" 12\n", b"-3", b"+5", b"1_000", b"007", b"\x0c4\x0b"))


def odd_number(rng: Random) -> bytes:
    """Return what may not be an integer."""
    return rng.choice(
        (
            b"",
            b" ",
            b"dog",
            b"1.0",
            b"0x10",
            b"1__0",
            b"1 2",
            b"5\0",
            b"1\x1c",
        )
    )


def huge_number(rng: Random) -> bytes:
    """Return more digits than an Arrow column holds, or than ``int()`` takes."""
    return rng.choice((b"9" * 30, b"9" * 4300, b"9" * 4301, b"0" * 5000))


def array(rng: Random, *, objects: bool = False) -> bytes:
    """Return a .npy file, of one dimension where it does not hold objects."""
    import numpy

    stream = io.BytesIO()
    value = numpy.array([{"a": 1}]) if objects else numpy.arange(rng.randint(0, 5))
    numpy.save(stream, value, allow_pickle=True)
    return stream.getvalue()


def other_array(rng: Random) -> bytes:
    """Return a .npy file of other dimensions or of another type."""
    import numpy

    stream = io.BytesIO()
    shape = rng.choice(((), (1,), (3,), (2, 2), (0, 2), (1, 1)))
    numpy.save(
        stream,
        numpy.full(shape, rng.choice((0, 1, 2))).astype(
            rng.choice(("f4", "f8", "i8", "u1", "?", "U3"))
        ),
    )
    return stream.getvalue()


def arrays(rng: Random) -> bytes:
    """Return a .npz file."""
    import numpy

    stream = io.BytesIO()
    numpy.savez(stream, first=numpy.arange(rng.randint(0, 5)), second=numpy.zeros((2, 2)))
    return stream.getvalue()


def odd_array(rng: Random) -> bytes:
    """Return a .npy file that is cut, holds pickled objects, or is none."""
    whole = array(rng)
    return rng.choice(
        (
            b"",
            b"\x93NUMPY",
            whole[: rng.randrange(len(whole))],
            array(rng, objects=True),
            b"no array",
        )
    )


def zipped(data: bytes) -> bytes:
    """Return gzipped bytes, alike at any time of day."""
    return gzip.compress(data, mtime=0)


def odd_zip(rng: Random) -> bytes:
    """Return bytes that gzip may refuse."""
    whole = zipped(caption(rng).encode())
    return rng.choice(
        (
            b"",
            b"plain",
            whole[:-4],
            whole[: len(whole) // 2],
            whole + b"tail",
            whole + b"\0\0",
            whole * 2,
        )
    )
