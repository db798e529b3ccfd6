"""The short way to a sample's header and caption comes to what the careful one comes to."""

import io
import struct

import pytest
from PIL import Image

from tests.filtering.shards import picture
from tests.shards.archives import tar_bytes
from tests.shards.tars import MemorySource
from wdsflow.filtering.deciding.score_values import result_or_unknown
from wdsflow.filtering.samples.shard_view import method_of
from wdsflow.filtering.samples.views import Views
from wdsflow.shards.samples.tar_samples import Samples
from wdsflow.stages.scores import SCORES, View, ViewOptions, make_score
from wdsflow.stages.scores.base import HeaderScore, TextScore

COUNTED = ("caption_words", "word_repetition", "special_char_ratio")
CALLS = [
    (name, {})
    for name, kind in SCORES.items()
    if issubclass(kind, HeaderScore | TextScore) and not kind.packages and name != "flagged_words"
] + [(name, {"count": count}) for name in COUNTED for count in ("plain", "data-juicer")]


def animation() -> bytes:
    buffer = io.BytesIO()
    frames = [Image.new("P", (40, 30), shade) for shade in (1, 2, 3)]
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def with_long_exif(size: int) -> bytes:
    data = picture(50, 60)
    return data[:2] + b"\xff\xe1" + struct.pack(">H", size + 2) + bytes(size) + data[2:]


IMAGES = [
    {"jpg": picture(50, 60)},
    {"png": picture(50, 60, kind="PNG")},
    {"webp": picture(50, 60, kind="WEBP")},
    {"jpg": picture(50, 60, kind="GIF")},
    {"jpg": picture(50, 60, kind="BMP")},
    {"jpg": picture(50, 60, kind="TIFF")},
    {"jpg": animation()},
    {"jpg": with_long_exif(60_000)},
    {"jpg": picture(50, 60)[:30]},
    {"jpg": b""},
    {"jpg": b"<html>"},
    {"JPG": picture(50, 60), "png": picture(10, 10, kind="PNG")},
    {"0.jpg": picture(50, 60), "1.jpg": picture(70, 10)},
    {"gif": animation()},
    {},
]
CAPTIONS = [
    {"txt": b"a cat, see http://x.org"},
    {"txt": "\u00e9t\u00e9 \u2603".encode()},
    {"txt": b"\xef\xbb\xbfwith a mark"},
    {"txt": "wide".encode("utf-16")},
    {"txt": "wide".encode("utf-16-le")},
    {"txt": b"\0zero"},
    {"txt": b""},
    {"txt": b"\xff not utf-8"},
    {"txt": b"word " * 2000},
    {"txt": b"x" * ((1 << 20) + 1)},
    {"0.txt": b"one", "1.txt": b"one two"},
    {},
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options", [ViewOptions(), ViewOptions(captions="json:a|txt"), ViewOptions(images="gif;png")]
)
def test_every_score_is_the_same_either_way(options):
    samples = [
        {**image, **CAPTIONS[at % len(CAPTIONS)], "cls": b"1"} for at, image in enumerate(IMAGES)
    ]
    samples += [{**IMAGES[0], **caption, "cls": b"1"} for caption in CAPTIONS]
    data = tar_bytes(
        [
            (f"{at}.{name}", data)
            for at, sample in enumerate(samples)
            for name, data in sample.items()
        ]
    )
    for contents in (False, True):
        found = Samples(MemorySource(data), contents=contents)
        views = Views(found, options, "memory")
        for sample, fields in zip(found, samples, strict=True):
            quick = views.view(sample)
            careful = View({name.lower(): data for name, data in fields.items()}, options)
            for name, settings in CALLS:
                score = make_score(name, **settings)
                assert result_or_unknown(method_of(score), quick) == result_or_unknown(
                    score.score, quick
                ), (
                    sorted(fields),
                    name,
                )
                assert result_or_unknown(score.score, quick) == result_or_unknown(
                    score.score, careful
                ), (
                    sorted(fields),
                    name,
                )
