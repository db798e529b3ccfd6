"""Code that takes captions from json in a webdataset pipeline, without wdsflow."""

_CODE = """\
import json
import webdataset as wds

def with_caption(sample):
    try:
        caption = json.loads(sample["json"])[{name!r}].strip().encode()
    except (AttributeError, KeyError, TypeError, ValueError):  # no json, or no text under that name
        return sample
    return {{**sample, "txt": caption}} if caption and not sample.get("txt", b"").strip() else sample

def is_complete(sample):
    return "txt" in sample and not {{"jpg", "png", "jpeg", "webp"}}.isdisjoint(sample)

stages = [wds.map(with_caption), wds.select(is_complete)]"""


def caption_stages(name: str) -> str:
    """Return code that defines ``stages``, to put before ``wds.decode``: a caption for samples without one.

    Args:
        name: name in json of the caption.
    """
    return _CODE.format(name=name)
