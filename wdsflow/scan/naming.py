"""Names of members and of json captions, as the evidence counts them."""

import re
from collections.abc import Callable, Collection, Iterable

from wdsflow.shards.tar.members import is_keyed_by_folder, is_meta

from .content.text_content import texts_in
from .evidence import JsonKey, ShardEvidence, Tally

# The names of a pass's counts, each with its meaning. A rule looks at ``shard.tally(name)``. The
# scan refuses names that are not listed here.
TALLIES: dict[str, str] = {
    # the archive
    "tar.truncated-data": "the file ends inside a member's contents",
    "tar.no-padding": "the file ends after a member's contents, inside the bytes that fill its last block",
    "tar.truncated-header": "the file ends inside a header",
    "tar.cut-stream": "the compressed stream ends too early",
    "tar.damaged-stream": "the compressed stream is damaged: a checksum does not match, or it cannot be unpacked",
    "tar.no-end-blocks": "the file ends at a member's border, without the two zero blocks",
    "tar.bad-header": "a header with a wrong checksum or unreadable numbers; readers stop there",
    "tar.second-archive": "valid members after the end mark, as after `cat a.tar b.tar`",
    "tar.trailing-data": "bytes after the end mark that are not a tar",
    "tar.pax-overhead": "an extended header that carries nothing but a time: 1 KiB a member",
    "tar.sparse": "sparse member",
    "tar.link": "hard or symbolic link: readers skip it",
    "tar.directory": "directory entry",
    "tar.special": "device, fifo or unknown type",
    "tar.huge-member": "a member over 2 GiB",
    # names
    "name.absolute": "absolute path",
    "name.parent": "a path with ..",
    "name.control": "control character or newline in the name",
    "name.not-utf8": "name is not UTF-8",
    "name.junk-not-utf8": "name of a folder, a link or a file without an extension is not UTF-8",
    "name.not-ascii": "name has characters outside of ASCII",
    "name.no-field": "no extension: readers skip the member",
    "name.hidden": "dot-file at the top level: readers skip it",
    "name.appledouble": "macOS ._ twin or dot-file inside a folder: splits its neighbours",
    "name.keyed-by-folder": "a name that is a folder and an extension, such as 000/.jpg: some readers skip it",
    "name.macosx": "member under __MACOSX",
    "name.meta": "__name__ metadata member: webdataset skips it",
    "name.dotted": "a dot inside the base name: the key ends there, the field is all that follows",
    "name.upper": "upper-case letters in the field name",
    "name.mixed-prefix": "some members start with ./ and others do not",
    # samples
    "key.again": "a key that was left comes back later in the shard: its members are not adjacent",
    "key.again-junk": "the key of a macOS twin, dot-file or metadata member comes back, or such a member parts a sample",
    "key.again-twin": "the key of a macOS twin or of a dot-file in a folder comes back",
    "key.duplicate-field": "two members of one sample have the same field name",
    "key.long-run": "more than 1,000 neighbouring members share one key",
    # fields
    "field.unsafe": "pickled field: decoding it runs code",
    "field.bad": "a field that its decoder refuses (integer, array, msgpack, gzip, ...)",
    "field.huge": "contents over 256 MiB: not decoded",
    "column.misfit": "a value that does not fit the type that the first samples gave its column",
    "column.other-type": "an array of another type than its column: Arrow refuses some mixtures in one batch of rows",
    "column.unwritable": "a value that fits, but that Arrow does not write to a table of that type",
    "field.needs-library": "a field whose decoder needs a library that is not installed here",
    # captions
    "text.empty": "caption without a byte",
    "text.blank": "caption of white space only",
    "text.not-utf8": "caption is not UTF-8",
    "text.bom": "caption starts with a byte-order mark",
    "text.nul": "NUL in a caption",
    "text.control": "control characters or terminal escapes in a caption",
    "text.html": "HTML tags or entities in a caption",
    "text.none": "caption is the word nan, none or null",
    "text.filename": "caption looks like a file name",
    "text.mojibake": "caption looks like UTF-8 read as Latin-1",
    "text.long": "more than 75 words: beyond CLIP's context length for certain",
    "text.huge": "caption over 1 MiB: not read further",
    # json
    "json.bad": "json that does not parse",
    "json.not-object": "json that is not an object",
    "json.deep": "json nested too deep to parse",
    "json.huge": "json over 16 MiB: not read further",
    "interleaved.images-differ": "json and sample do not have the same number of images",
    "interleaved.file-missing": "a file that the json lists is not in the sample, as others are",
    # audio and video
    "media.empty": "audio or video without a byte",
    "media.not-media": "no audio or video by its first bytes",
    "media.wrong-format": "format by the first bytes is not that of the extension",
    "media.cut": "audio or video shorter than its header says, or without its index",
    # images
    "image.empty": "image without a byte",
    "image.not-image": "no image by its first bytes",
    "image.html": "HTML, XML or JSON text saved as an image",
    "image.undecodable": "Pillow cannot decode it (level full)",
    "image.cut": "image data end too early (no end marker, or Pillow says truncated)",
    "image.damaged": "a strict decoder finds damage that Pillow passes over (level full)",
    "image.wrong-extension": "format by magic bytes is not that of the extension",
    "image.large": "over 25 megapixels: OpenCLIP 4 drops it by default",
    "image.bomb-warning": "over 89 megapixels: Pillow warns, and decodes",
    "image.bomb": "over 178 megapixels: Pillow refuses",
    "image.tiny": "shortest side under 32 pixels",
    "image.extreme-aspect": "one side more than 10 times the other",
    "image.cmyk": "CMYK",
    "image.high-depth": "16 bits or float a channel: clipped by convert('RGB')",
    "image.alpha": "transparency: dropped, hidden colours show",
    "image.rotated": "EXIF orientation is not 1; readers of this kind ignore it",
    "image.animated": "more than one frame: only the first is used",
    "image.uniform": "one colour only (level full)",
}

# Field names that hold captions or images somewhere, the likeliest first.
CAPTIONS = (
    "txt",
    "caption",
    "text",
    "captions",
    "cap",
    "transcript",
    "prompt",
    "json",
    "jsn",
    "cls",
    "label",
    "class",
)
IMAGES = (
    *("jpg", "jpeg", "png", "webp", "jfif", "jpe", "pjpeg", "img", "image"),
    *("gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jp2", "jxl", "ppm", "svg"),
)
# First parts of field names in common use.
_COMPOUND = frozenset({"seg", "mask", "depth", "txt", "json", "tar"})
_SIDE_IMAGES = frozenset(
    "seg segmentation mask masks depth thumb thumbnail normal edge edges canny alpha pose".split()
)
# 0.jpg, and not 0001.seg.png.
_NUMBERED = re.compile(r"\d{1,4}\.\w{2,5}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Note = Callable[[str], Tally]

# The names that public data sets and downloaders use for captions, the most usual first.
_USUAL = (
    "caption",
    "text",
    "description",
    "txt",
    "title",
    "alt",
    "alt_text",
    "prompt",
    "captions",
    "label",
)
_MACHINE = re.compile(
    r"(?i)^\s*(?:[a-z][a-z0-9+.-]*://|/|[a-z]:\\|data:|[{\[<]|\d[\d\s.,:/TZ+-]*$|[0-9a-f-]{16,}$|\S+\.[a-z0-9]{2,4}$"
    r"|.*\.(?:jpe?g|png|webp|gif|tiff?|bmp)\s*$)"
)

# Of one shard.
_MOST_NAMES = 200
# Strings that are all the same are no captions; fewer may be chance.
_TELLING = 4


def note_name(name: str, key: str | None, offset: int, note: Note) -> None:
    """Count everything that is unusual about one member's full name."""
    base = name.rpartition("/")[2]
    if name.startswith("/"):
        note("name.absolute").add(key, offset, name)
    if ".." in name.split("/"):
        note("name.parent").add(key, offset, name)
    if _CONTROL.search(name):
        note("name.control").add(key, offset, name)
    if not name.isascii():
        foreign = "name.junk-not-utf8" if key is None else "name.not-utf8"
        note("name.not-ascii" if is_utf8(name) else foreign).add(key, offset, name)
    if "__MACOSX" in name.split("/"):
        note("name.macosx").add(key, offset, name)
    if is_meta(name):
        note("name.meta").add(key, offset, name)
    elif is_keyed_by_folder(name):
        note("name.keyed-by-folder").add(key, offset, name)
    elif base.startswith("."):
        # Inside a folder the key becomes "folder/", which
        # separates the members before from those after.
        note("name.appledouble" if key is not None else "name.hidden").add(key, offset, name)
    elif key is None:
        note("name.no-field").add(None, offset, name)


def is_utf8(name: str) -> bool:
    r"""Return whether the bytes of a name are UTF-8; tarfile keeps other bytes as surrogates.

    >>> is_utf8("caf\u00e9"), is_utf8("caf\udce9")
    (True, False)
    """
    return not any("\udc80" <= char <= "\udcff" for char in name)


def is_hidden(name: str) -> bool:
    """Return whether Hugging Face datasets skip the member: its base name starts with a dot or two underscores."""
    return name.rpartition("/")[2].startswith((".", "__"))


def is_dotted(suffix: str) -> bool:
    """Return whether a field name looks like the rest of a base name with a dot in it.

    >>> is_dotted("v1.jpg"), is_dotted("0 (clean version).mp3"), is_dotted("seg.png"), is_dotted("txt.gz")
    (True, True, False, False)
    """
    first, dot, _ = suffix.partition(".")
    return bool(dot) and first.lower() not in _COMPOUND


def is_numbered(suffix: str) -> bool:
    """Return whether a field name is one of a list of files of one sample: ``0.jpg``, ``1.jpg``.

    >>> is_numbered("0.jpg"), is_numbered("012.png"), is_numbered("jpg"), is_numbered("v1.jpg")
    (True, True, False, False)
    """
    return _NUMBERED.fullmatch(suffix) is not None


def is_side_image(suffix: str) -> bool:
    """Return whether an image field in lower case belongs to another image, such as a mask.

    >>> is_side_image("mask.png"), is_side_image("0.depth.png"), is_side_image("0.png")
    (True, True, False)
    """
    return not _SIDE_IMAGES.isdisjoint(suffix.split(".")[:-1])


def note_names(shard: ShardEvidence, tree: object) -> None:
    """Add the names in the json of a sample to ``shard.json_keys``; only an object has some."""
    for name, text, _ in texts_in(tree) if isinstance(tree, dict) else ():
        if name not in shard.json_keys and len(shard.json_keys) >= _MOST_NAMES:
            continue
        entry = shard.json_keys.setdefault(name, JsonKey())
        entry.count += 1
        if text:
            entry.note(text)


def json_names(shards: Iterable[ShardEvidence]) -> dict[str, JsonKey]:
    """Return all json names with their counts summed over shards."""
    total: dict[str, JsonKey] = {}
    for shard in shards:
        for name, item in shard.json_keys.items():
            total.setdefault(name, JsonKey()).add(item)
    return total


def caption_name(shards: Iterable[ShardEvidence]) -> tuple[str, JsonKey] | None:
    """Return the json name that most likely holds the captions, with its counts; None if none does.

    A name that captions usually have, unless another one has more than twice as many strings; then
    the one with the most strings next to a decodable image, then with the most strings. Names that
    captions do not usually have are left out where they hold one word, the same text again and
    again, a url, a path, a number or a hash. Where several names are filled alike, the usual name
    wins, then the one in fewer objects, then the longer example.
    """
    fit = [
        (name, item)
        for name, item in json_names(shards).items()
        if item.strings and _may_be_caption(name, item)
    ]
    most = max((item.strings for _, item in fit), default=0)
    return max(fit, key=lambda pair: _rank(pair[0], pair[1], most), default=None)


def other_caption_names(shards: Iterable[ShardEvidence], names: Collection[str]) -> list[str]:
    """Return the json names, other than these, that captions usually have, the one with the most strings first."""
    others: list[tuple[int, str]] = []
    for name, item in json_names(shards).items():
        if item.strings and name not in names and _last(name) in _USUAL:
            others.append((-item.strings, name))
    return [name for _, name in sorted(others)]


def _may_be_caption(name: str, item: JsonKey) -> bool:
    if _last(name) in _USUAL:
        return True
    # A status, a licence or a category is one word, or the same few words each time. Some scripts
    # have no spaces.
    one_word = len(item.example.split()) == 1 and item.example.isascii()
    constant = item.strings >= _TELLING and not item.varied
    return not (one_word or constant or _MACHINE.match(item.example))


def _last(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _rank(name: str, item: JsonKey, most: int) -> tuple[bool, int, int, int, int, int, str]:
    lower = _last(name)
    usual = -_USUAL.index(lower) if lower in _USUAL else -len(_USUAL)
    enough = lower in _USUAL and item.strings * 2 >= most
    return (
        enough,
        item.with_image,
        item.strings,
        usual,
        -name.count("."),
        len(item.example.split()),
        name,
    )
