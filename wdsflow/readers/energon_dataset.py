"""Energon's description of a set."""

from collections.abc import Sequence


def captioning(images: Sequence[str], captions: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return ``.nv-meta/dataset.yaml`` for samples with images and captions.

    Of each list, a sample's first field is used.
    """
    return {
        "sample_type": {"__module__": "megatron.energon", "__class__": "CaptioningSample"},
        "field_map": {"image": ",".join(images), "caption": ",".join(captions)},
    }
