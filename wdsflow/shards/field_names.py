"""Names of a sample's fields."""

from collections.abc import Iterable

IMAGE_FIELDS = ("jpg", "png", "jpeg", "webp")  # what readers take for the image, in OpenCLIP's order
IMAGES = ";".join(IMAGE_FIELDS)


def alternatives(fields: str | Iterable[str]) -> tuple[str, ...]:
    """Split names joined by semicolons. Raises ValueError if there are none, or webdataset's own (``__key__``).

    >>> alternatives("jpg; png")
    ('jpg', 'png')
    """
    parts = fields.split(";") if isinstance(fields, str) else fields
    names = tuple(dict.fromkeys(name for part in parts if (name := part.strip())))
    if not names:
        raise ValueError(f"{fields!r} names no field; give one such as 'txt', or alternatives such as 'jpg;png'")
    for name in names:
        if is_meta(name):
            raise ValueError(f"{name!r} belongs to webdataset and is not for stages to change")
    return names


def is_meta(name: str) -> bool:
    """Whether a name is one of webdataset's own, such as ``__key__`` and ``__url__``."""
    return name.startswith("__") and name.endswith("__")
