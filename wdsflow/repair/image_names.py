"""Names images whose file has no extension, by their first bytes."""

import posixpath
from collections import defaultdict
from collections.abc import Callable, Sequence

from wdsflow.scan.content.field_kinds import IMAGE_EXTENSIONS

from .dotted_names import split_base_name
from .junk_names import junk_reason


def name_images(names: Sequence[str], field_of: Callable[[int], str]) -> list[str]:
    """Return the names, with an extension for images that have none.

    Only files that share the name of another one, such as ``000001`` next to ``000001.txt``, are
    looked at: alone they would be samples without a caption. If there is an image of that name
    already, it stays the only one.

    Args:
        names: of the members of a shard.
        field_of: returns the field for the image at that index, "" if the file is no image. May
            raise OSError.
    """
    # path without extension -> extensions
    extensions: dict[str, set[str]] = defaultdict(set)
    for name in names:
        if not junk_reason(name):
            stem, extension = split_base_name(posixpath.normpath(name))
            extensions[stem].add(extension.lower())
    named: list[str] = []
    for index, name in enumerate(names):
        siblings = extensions.get(posixpath.normpath(name), set())
        has_caption_alone = siblings and siblings.isdisjoint(IMAGE_EXTENSIONS)
        field = field_of(index) if has_caption_alone and _is_bare(name) else ""
        named.append(f"{name}.{field}" if field else name)
    return named


def _is_bare(name: str) -> bool:
    """Return whether a name has no extension.

    The ".v1" of "photo.v1" next to "photo.v1.txt" is a part of its key.
    """
    return (
        junk_reason(name) in ("no-extension", "")
        and split_base_name(name)[1].lower() not in IMAGE_EXTENSIONS
    )
