"""How a member's name becomes a sample key and a field, by WebDataset's rule.

The rule is webdataset's ``base_plus_ext``: the key is the path up to the first dot of its last
component, the field is all that follows. Hugging Face datasets, Ray Data and Energon use the same.
"""

import re

# Taken literally, with its corner cases ("d/._a.jpg" is key "d/", field "_a.jpg"): readers have them too.
_SPLIT = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
_META = re.compile(r"__[^/]*__($|/)")


def split_name(name: str) -> tuple[str, str] | tuple[None, None]:
    """Split a member name into ``(key, field)``; ``(None, None)`` where readers skip the member.

    >>> split_name("photos/001.seg.png")
    ('photos/001', 'seg.png')
    >>> split_name("photos/._001.jpg")
    ('photos/', '_001.jpg')
    >>> split_name("README")
    (None, None)
    """
    match = _SPLIT.match(name)
    return (match[1], match[2]) if match else (None, None)


def is_meta(name: str) -> bool:
    """Return whether webdataset skips the member as metadata (``__name__`` or a folder of that form).

    >>> is_meta("__info__"), is_meta("__MACOSX/a.jpg"), is_meta("__keys__/a.jpg")
    (True, False, True)
    """
    return bool(_META.match(name)) or ("/" not in name and name.startswith("__") and name.endswith("__"))


def is_junk(key: str) -> bool:
    """Return whether a key belongs to no sample of the user's: macOS twins, dot-files in folders.

    >>> is_junk("photos/"), is_junk("__MACOSX/photos/"), is_junk("photos/001")
    (True, True, False)
    """
    return key.endswith("/") or ("__MACOSX/" in key and "/__MACOSX/" in f"/{key}")


def why_junk(name: str) -> str:
    """Return which file of no sample a name is: of macOS, or hidden; empty if it is neither.

    >>> why_junk("__MACOSX/._a.jpg"), why_junk("d/._a.jpg"), why_junk(".DS_Store"), why_junk("d/a.jpg")
    ('macosx', 'appledouble', 'hidden', '')
    """
    folders, _, base = name.rpartition("/")
    if "__MACOSX" in folders.split("/"):
        return "macosx"
    return "appledouble" if base.startswith("._") else "hidden" if base.startswith(".") else ""


def key_of(name: str) -> tuple[str, str] | None:
    """Split a name as webdataset does; None if it skips the member.

    >>> key_of("photos/001.seg.png"), key_of("README"), key_of("__info__")
    (('photos/001', 'seg.png'), None, None)
    """
    if is_meta(name):
        return None
    key, suffix = split_name(name)
    return None if key is None or suffix is None else (key, suffix)
