import pytest

from wdsflow.scan.content.field_kinds import IMAGE_EXTENSIONS, kind_of

EXPECTED = {
    "txt": "text",
    "transcript": "text",
    "json": "json",
    "jsn": "json",
    "cls": "integer",
    "npy": "npy",
    "npz": "npz",
    "mp": "msgpack",
    "cbor": "cbor",
    "ten": "tenbin",
    "pkl": "pickle",
    "pyd": "pickle",
    "pth": "torch",
    "jpg": "image",
    "mpg": "image",
    "mp4": "opaque",
    "": "opaque",
    "gz": "gz",
}


@pytest.mark.parametrize(("suffix", "kind"), EXPECTED.items())
def test_the_extension_chooses_the_decoder(suffix, kind):
    assert kind_of(suffix) == kind


@pytest.mark.parametrize(
    ("suffix", "kind"), [("seg.PNG", "image"), ("0.5.txt", "text"), ("a.json.GZ", "gz")]
)
def test_only_the_last_part_counts_and_case_does_not(suffix, kind):
    assert kind_of(suffix) == kind


def test_a_newline_hides_the_dots_before_it_as_in_webdataset():
    assert kind_of("a.jpg\nb") == "opaque"
    assert kind_of("a\nb.jpg") == "opaque"


@pytest.mark.webdataset
def test_the_installed_webdataset_has_the_same_image_extensions():
    autodecode = pytest.importorskip("webdataset.autodecode")
    assert set(autodecode.IMAGE_EXTENSIONS) == IMAGE_EXTENSIONS


@pytest.mark.webdataset
def test_the_installed_webdataset_has_a_decoder_for_the_same_names():
    autodecode = pytest.importorskip("webdataset.autodecode")
    names = set(autodecode.decoders) | {"pkl"}  # 0.2.86 leaves pkl alone
    kinds = {kind_of(name) for name in names}
    assert "opaque" not in kinds
    assert kinds == {
        "text",
        "json",
        "integer",
        "npy",
        "npz",
        "msgpack",
        "cbor",
        "tenbin",
        "pickle",
        "torch",
    }
