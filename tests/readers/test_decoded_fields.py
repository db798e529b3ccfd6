"""Which fields each reader decodes, and which contents its decoders refuse."""

from functools import cache

import pytest

from tests.readers.shapes import shape, shard
from wdsflow.readers import READERS, Datasets
from wdsflow.readers.base import Fate
from wdsflow.readers.datasets_columns import EXAMPLES
from wdsflow.readers.wanted_fields import decoding_raises, extension_of, reason_for
from wdsflow.scan.content.field_kinds import IMAGE_EXTENSIONS
from wdsflow.scan.evidence import FieldCount, ShardEvidence
from wdsflow.scan.shapes import Part

STATUSES = (
    "ok ? - bad empty blank not-utf8 no-caption bomb big big-bad unsafe cut not-image markup no-library not-zipped "
    "partly suspect"
).split()
VALUES = frozenset("cls cls2 index inx id json jsn ten tb mp msg npy npz cbor".split())
WORDS = frozenset({"txt", "text", "transcript"})
PICKLES = frozenset({"pyd", "pickle", "pth"})
ALL = (
    IMAGE_EXTENSIONS
    | VALUES
    | WORDS
    | PICKLES
    | frozenset("pkl pt mp3 mp4 flac exe zst dat".split())
)
DECODED = {  # by each reader
    "open-clip-3.3": IMAGE_EXTENSIONS | VALUES | WORDS | PICKLES,
    "webdataset-1": IMAGE_EXTENSIONS | VALUES | WORDS | PICKLES | {"pkl"},
    "webdataset-0.2": IMAGE_EXTENSIONS | VALUES | WORDS | PICKLES,
    "datasets": IMAGE_EXTENSIONS | VALUES | WORDS | {"pth"},
    "datasets-tables": IMAGE_EXTENSIONS | VALUES | WORDS | {"pth"},
    "ray-data": frozenset(
        "txt text jpg png ppm pgm pbm pnm cls cls2 json npy mp pt pth pickle pkl".split()
    ),
}


@cache
def fates(name: str) -> dict[str, Fate]:
    """Return what becomes of a sample with a bad field of each extension."""
    reader = READERS[name]()
    return {extension: reader.fates(shape(f"jpg txt x.{extension}:bad"))[0] for extension in ALL}


def with_field(name: str) -> ShardEvidence:
    evidence = shard([f"jpg txt {name}"])
    evidence.fields = {name: FieldCount(1)}
    return evidence


@pytest.mark.parametrize("name", DECODED)
def test_a_bad_field_is_met_by_readers_that_decode_it_and_by_no_other(name: str) -> None:
    assert {
        extension for extension, fate in fates(name).items() if fate.kind != "usable"
    } == DECODED[name]
    assert fates(name)["json"][2:] == ("bad-field", "x.json")


def test_ray_data_refuses_pickles_whatever_they_hold() -> None:
    assert {
        extension for extension, fate in fates("ray-data").items() if fate.reason == "unsafe-field"
    } == {*("pt", "pth", "pickle", "pkl")}


@pytest.mark.parametrize(
    ("field", "troubles"),
    [
        ("jpg", "bad empty bomb big-bad cut not-image markup"),
        ("txt", "bad not-utf8"),
        ("json", "bad empty no-library"),
        ("x.gz", "not-zipped"),
        ("gz", "not-zipped"),
        ("json.gz", "bad not-utf8 bomb big-bad cut not-image markup no-library not-zipped"),
        ("xgz", ""),
        ("note", ""),
    ],
)
def test_a_decoder_refuses_these_contents_and_no_others(field: str, troubles: str) -> None:
    assert [
        status
        for status in STATUSES
        if decoding_raises(Part(field, status), frozenset({"jpg", "txt", "json"}))
    ] == (troubles.split())


@pytest.mark.parametrize("name", DECODED)
@pytest.mark.parametrize(
    ("field", "status", "reason"),
    [
        ("jpg", "bad", "bad-image"),
        ("jpg", "empty", "bad-image"),
        ("jpg", "bomb", "too-large"),
        ("jpg", "big-bad", "bad-image"),
        ("txt", "bad", "bad-caption"),
        ("txt", "not-utf8", "bad-caption"),
        ("cls", "empty", "bad-field"),
        ("text", "not-utf8", "bad-field"),
        ("jpg", "big", ""),
        ("txt", "empty", ""),
        ("text", "blank", ""),
    ],
)
def test_a_loss_is_named_after_the_field_that_was_wanted(
    name: str, field: str, status: str, reason: str
) -> None:
    members = " ".join(
        f"{each}:{status}" if each == field else each
        for each in dict.fromkeys(("jpg", "txt", field))
    )
    (fate,) = READERS[name]().fates(shape(members))

    assert (fate.reason, fate.detail) == (reason, reason and field)


def test_only_datasets_decodes_fields_that_begin_with_two_underscores() -> None:
    reasons = {
        name: READERS[name]().fates(shape("jpg txt __x.png:bad"))[0].reason for name in DECODED
    }

    assert reasons == {
        **dict.fromkeys(DECODED, ""),
        "datasets": "bad-field",
        "datasets-tables": "bad-field",
    }


@pytest.mark.parametrize(
    ("suffix", "extension"),
    [
        ("jpg", "jpg"),
        ("a.b.png", "png"),
        ("txt.gz", "txt"),
        ("gz", ""),
        ("x.gz.gz", "gz"),
        ("jpg\nb", "jpg\nb"),
        ("a.jpg\nb", "jpg\nb"),
        ("x.a\nb.jpg", "a\njpg"),
    ],
)
def test_the_decoder_is_chosen_by_what_follows_the_last_dot_of_a_line(
    suffix: str, extension: str
) -> None:
    assert extension_of(suffix) == extension


def test_only_the_wanted_image_is_called_an_image() -> None:
    image, other = Part("jpg", "bad"), Part("png", "bad")

    assert [
        reason_for(part, image, "caption") for part in (image, other, Part("caption", "bad"))
    ] == [*("bad-image", "bad-field", "bad-caption")]
    assert reason_for(other, None, "txt") == "bad-field"


def test_the_installed_datasets_decodes_converts_and_unpacks_the_same_names() -> None:
    module = pytest.importorskip("datasets.packaged_modules.webdataset.webdataset")
    real = module.WebDataset
    media = {*real.AUDIO_EXTENSIONS, *real.VIDEO_EXTENSIONS, *real.MESH_EXTENSIONS}
    packed = {name.removeprefix(".") for name in module.EXTENSION_TO_COMPRESSION_FS_FILE_CLS} | {
        "lz4"
    }

    assert set(real.DECODERS) == VALUES | WORDS | {"pth"}
    assert set(real.IMAGE_EXTENSIONS) == IMAGE_EXTENSIONS
    assert real.NUM_EXAMPLES_FOR_FEATURES_INFERENCE == EXAMPLES
    said = {
        name: Datasets().why_uncertain([with_field(f"x.{name}")])
        for name in {*media, *packed, *ALL}
    }
    assert {name for name, why in said.items() if "what the column" in why} == media | {
        "cbor",
        "ten",
        "tb",
    }
    assert {name for name, why in said.items() if "packed field" in why} == packed - {"gz"}
