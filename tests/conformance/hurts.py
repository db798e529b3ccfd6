"""What can be wrong with one sample's members."""

import pickle
from collections.abc import Callable
from random import Random

from tests.conformance import contents
from tests.conformance.archives import Entry, Kind
from tests.conformance.layouts import Sample, key_of, stray, suffix_of, twin
from tests.conformance.pictures import (
    BROKEN,
    BROKEN_COLOURED,
    COLOURED,
    FORMATS,
    SOUND,
    huge_png,
    picture,
)

SampleHurt = Callable[[Sample, Random], Sample]

_IMAGES = tuple(FORMATS)


def _with(make: Callable[[Random], bytes], *suffixes: str) -> SampleHurt:
    """Add a member with one of the field names, anywhere in the sample."""

    def hurt(sample: Sample, rng: Random) -> Sample:
        entry = Entry(f"{key_of(sample)}.{rng.choice(suffixes)}", make(rng))
        place = rng.randint(0, len(sample))
        return [*sample[:place], entry, *sample[place:]]

    return hurt


def _without(wanted: Callable[[str], bool]) -> SampleHurt:
    def hurt(sample: Sample, _rng: Random) -> Sample:
        left = [entry for entry in sample if not wanted(suffix_of(entry))]
        return left or sample

    return hurt


def _replaced(wanted: Callable[[str], bool], make: Callable[[Random], bytes]) -> SampleHurt:
    def hurt(sample: Sample, rng: Random) -> Sample:
        return [
            Entry(entry.name, make(rng)) if wanted(suffix_of(entry)) else entry for entry in sample
        ]

    return hurt


def _renamed(rename: Callable[[str, Random], str]) -> SampleHurt:
    """Rename one member."""

    def hurt(sample: Sample, rng: Random) -> Sample:
        index = rng.randrange(len(sample))
        entry = sample[index]
        return [
            *sample[:index],
            Entry(rename(entry.name, rng), entry.data, entry.kind),
            *sample[index + 1 :],
        ]

    return hurt


def _all_renamed(rename: Callable[[str, Random], str]) -> SampleHurt:
    return lambda sample, rng: [
        Entry(rename(entry.name, rng), entry.data, entry.kind) for entry in sample
    ]


def _is_image(suffix: str) -> bool:
    return suffix in _IMAGES


def _other_image(name: str, rng: Random) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{rng.choice(_IMAGES)}" if _is_image(suffix) else name


def _dotted(name: str, rng: Random) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{rng.choice(('v1', '0 (clean)', '5 2x'))}.{suffix}"


def _link(sample: Sample, rng: Random) -> Sample:
    index = rng.randrange(len(sample))
    kind: Kind = rng.choice(("symlink", "hardlink", "fifo", "unknown"))
    return [*sample[:index], Entry(sample[index].name, b"", kind), *sample[index + 1 :]]


def _folder_between(sample: Sample, rng: Random) -> Sample:
    place = rng.randint(0, len(sample))
    return [
        *sample[:place],
        Entry(rng.choice(("photos/", "x.y/")), b"", "directory"),
        *sample[place:],
    ]


def _other_type(sample: Sample, rng: Random) -> Sample:
    kind: Kind = rng.choice(("old", "contiguous", "sparse"))
    return [Entry(entry.name, entry.data, kind) for entry in sample]


def _extended(sample: Sample, rng: Random) -> Sample:
    """Give a member an extended header that says something unusual."""
    index = rng.randrange(len(sample))
    entry = sample[index]
    pax = rng.choice(
        (
            {"comment": "x"},
            {"mtime": "12.5"},
            {"mtime": "soon"},
            {"path": entry.name},
            {"path": "other/name.txt"},
            {"path": "__x__"},
            {"path": ""},
            {"size": str(len(entry.data))},
            {"size": str(max(0, len(entry.data) - 1))},
            {"size": "many"},
            {"hdrcharset": "BINARY", "path": entry.name},
            {"uname": "caf\u00e9"},
            {"GNU.sparse.name": "sparse.txt"},
            {"LIBARCHIVE.xattr.user": "x" * 600},
        )
    )
    return [*sample[:index], Entry(entry.name, entry.data, entry.kind, pax), *sample[index + 1 :]]


def _again(sample: Sample, rng: Random) -> Sample:
    """Repeat a member, alike or in capitals, next to it or at the end."""
    index = rng.randrange(len(sample))
    entry = sample[index]
    stem, _, suffix = entry.name.rpartition(".")
    copy = Entry(f"{stem}.{rng.choice((suffix, suffix.upper()))}", entry.data, entry.kind)
    place = rng.choice((index, index + 1, len(sample)))
    return [*sample[:place], copy, *sample[place:]]


def _upper_suffix(name: str, rng: Random) -> str:
    stem, _, suffix = name.rpartition(".")
    return f"{stem}.{rng.choice((suffix.upper(), suffix.title()))}"


def _long_name(name: str, rng: Random) -> str:
    folder, slash, base = name.rpartition("/")
    return f"{folder}{slash}{'x' * rng.choice((90, 101, 160, 300))}{base}"


def _long_path(name: str, rng: Random) -> str:
    return "d" * 60 + "/" + "e" * rng.choice((40, 100)) + "/" + name.lstrip("/")


def _special_name(name: str, rng: Random) -> str:
    stem, _, suffix = name.rpartition(".")
    extra = rng.choice(("caf\u00e9", "\udce9", "a\nb", " ", "\x1b[31m", "%s", "#1", "\u4e2d"))
    return f"{stem}{extra}.{suffix}"


def _special_suffix(name: str, rng: Random) -> str:
    stem, _, suffix = name.rpartition(".")
    return rng.choice(
        (
            f"{stem}.",
            f"{stem}..{suffix}",
            f"{stem}.{suffix}.",
            f"{stem}.\n{suffix}",
            f"{stem}.{suffix} ",
        )
    )


def _other_key(name: str, rng: Random) -> str:
    return rng.choice(("./" + name, "x/" + name, name.upper(), name.lstrip("./") or name))


def _one_of(makers: dict[str, Callable[[Random], bytes]]) -> Callable[[Random], bytes]:
    return lambda rng: makers[rng.choice(sorted(makers))](rng)


def _pickled(rng: Random) -> bytes:
    return pickle.dumps({"a": rng.random()})


_PLAIN: dict[str, SampleHurt] = {
    "no-image": _without(_is_image),
    "no-caption": _without(lambda suffix: suffix in ("txt", "json", "cls")),
    "no-txt": _without(lambda suffix: suffix == "txt"),
    "odd-caption": _replaced(lambda suffix: suffix == "txt", contents.odd_caption),
    "broken-image": _replaced(_is_image, _one_of(BROKEN_COLOURED)),
    "rare-image": _replaced(_is_image, _one_of(COLOURED)),
    "other-extension": _renamed(_other_image),
    "second-image": _with(picture, "jpg", "png", "jpeg", "webp", "gif", "seg.png", "thumb.jpg"),
    "broken-second-image": _with(
        _one_of(BROKEN_COLOURED), "jpg", "png", "webp", "seg.png", "mask.png", "bmp", "jp2"
    ),
    "no-picture": _with(
        lambda rng: rng.randbytes(40), "mpg", "h5", "hdf", "tga", "ppm", "psd", "xbm", "eps", "ico"
    ),
    "dotted": _renamed(_dotted),
    "all-dotted": _all_renamed(_dotted),
    "upper-suffix": _renamed(_upper_suffix),
    "all-upper": _all_renamed(_upper_suffix),
    "twin": twin,
    "stray": stray,
    "link": _link,
    "folder-between": _folder_between,
    "other-type": _other_type,
    "extended": _extended,
    "again": _again,
    "long-name": _all_renamed(_long_name),
    "long-path": _all_renamed(_long_path),
    "special-name": _renamed(_special_name),
    "special-suffix": _renamed(_special_suffix),
    "other-key": _renamed(_other_key),
    "text-field": _with(
        lambda rng: contents.caption(rng).encode(), "text", "transcript", "caption", "label.txt"
    ),
    "odd-text-field": _with(contents.odd_caption, "text", "transcript", "caption", "alt.txt"),
    "reserved": _with(
        lambda rng: rng.choice((b"", b"1", b"\xff")), "__key__", "__url__", "__bad__", "__BAD__"
    ),
    "reserved-by-others": _with(lambda rng: b"x", "__local_path__", "__worker__", "image", "path"),
    "unknown-field": _with(
        lambda rng: rng.randbytes(30), "bin", "dat", "feather", "pt2", "caption"
    ),
    "bulky": _with(lambda rng: bytes(rng.choice((10_000, 70_000, 1 << 20, 3 << 20))), "bin", "dat"),
    "number": _with(contents.number, "cls", "id", "index"),
    "odd-number": _with(contents.odd_number, "cls", "cls2", "id", "index", "inx"),
}

# What decides for readers that make tables of columns.
_DEEP: dict[str, SampleHurt] = {
    "any-broken-image": _replaced(_is_image, _one_of(BROKEN)),
    "any-rare-image": _replaced(_is_image, _one_of(SOUND)),
    "foreign-number": _with(
        lambda rng: rng.choice((b"\xef\xbc\x91", b"\xa05", b"\xc2\xa05")), "cls", "id"
    ),
    "huge-number": _with(contents.huge_number, "cls", "id"),
    "json": _with(contents.metadata, "json", "json", "jsn", "meta.json"),
    "odd-json": _with(contents.odd_json, "json", "jsn", "meta.json"),
    "other-json": _replaced(lambda suffix: suffix == "json", contents.other_document),
    "other-array": _replaced(lambda suffix: suffix == "npy", contents.other_array),
    "odd-json-instead": _replaced(lambda suffix: suffix == "json", contents.odd_json),
    "array": _with(contents.array, "npy", "emb.npy"),
    "arrays": _with(contents.arrays, "npz"),
    "odd-array": _with(contents.odd_array, "npy"),
    "odd-arrays": _with(lambda rng: rng.choice((b"", b"PK\3\4", b"none")), "npz"),
    "no-library": _with(lambda rng: b"\x81\xa1a\x01", "mp", "msg", "cbor"),
    "tensor": _with(lambda rng: rng.randbytes(64), "ten", "tb"),
    "pickled": _with(_pickled, "pyd", "pickle"),
    "zipped": _with(
        lambda rng: contents.zipped(contents.caption(rng).encode()), "txt.gz", "gz", "text.gz"
    ),
    "zipped-json": _with(
        lambda rng: contents.zipped(contents.odd_json(rng)), "json.gz", "x.json.gz"
    ),
    "zipped-caption": _with(
        lambda rng: contents.zipped(contents.odd_caption(rng)), "txt.gz", "TXT.GZ"
    ),
    "zipped-image": _with(lambda rng: contents.zipped(picture(rng)), "jpg.gz"),
    "odd-zip": _with(contents.odd_zip, "txt.gz", "gz", "json.gz", "bin.gz", "jpg.gz", "txt.gz.gz"),
    "large-image": _replaced(_is_image, lambda rng: huge_png(5001, rng.choice((4999, 5000)))),
}

SAMPLE_HURTS: dict[str, SampleHurt] = {**_PLAIN, **_DEEP}
TABLE_HURTS = (
    "other-json",
    "other-array",
    "huge-number",
    "number",
    "json",
    "array",
    "any-rare-image",
)
