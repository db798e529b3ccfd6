"""Names of fields, with alternatives: ``jpg;png``."""

from collections.abc import Iterable, Iterator

from .base import Sample, StageError

IMAGES = "jpg;png;jpeg;webp"  # what OpenCLIP takes for an image, in its order


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


def present(sample: Sample, names: Iterable[str]) -> list[str]:
    """Return those of the names that the sample has, in the order given."""
    return [name for name in names if name in sample]


def listed(sample: Sample) -> str:
    """Return the fields of a sample for a message, at most a dozen."""
    names = sorted(str(name) for name in sample if not is_meta(str(name)))
    return ", ".join(repr(name[:60]) for name in names[:12]) + (", ..." if len(names) > 12 else "") or "none"


def entries(fields: str | Iterable[str], example: str) -> tuple[str, ...]:
    """Return names, each with its alternatives, in their plain form; ``example`` shows how to give one.

    >>> entries(("jpg; png", "depth.png"), "Decode(fields='jpg;png')")
    ('jpg;png', 'depth.png')
    """
    given = (fields,) if isinstance(fields, str) else tuple(fields)
    if not given:
        raise ValueError(f"give at least one field, for instance {example}")
    return tuple(";".join(alternatives(entry)) for entry in given)


def images(sample: Sample, fields: Iterable[str]) -> Iterator[str]:
    """Yield for each entry of ``fields`` the name under which the sample has it. Raises StageError "no-image"."""
    for entry in fields:
        names = present(sample, entry.split(";"))
        if not names:
            raise StageError("no-image", f"it has none of {entry!r}; its fields: {listed(sample)}")
        yield names[0]
