"""The fields that a sample has, by names with alternatives: ``jpg;png``."""

from collections.abc import Iterable, Iterator

from wdsflow.shards.field_names import alternatives, is_meta

from .base import Dropped, Sample, StageError


def present(sample: Sample, names: Iterable[str]) -> list[str]:
    """Return those of the names that the sample has, in the order given."""
    return [name for name in names if name in sample]


def settled(slug: str, choice: str, text: str) -> str:
    """Return ``slug``, to be noted. Raises StageError with the text if ``choice`` is "raise", Dropped if it is "drop"."""
    if choice == "raise":
        raise StageError(slug, text)
    if choice == "drop":
        raise Dropped(slug)
    return slug


def listed(sample: Sample) -> str:
    """Return the fields of a sample for a message, at most a dozen."""
    return named(str(name) for name in sample if not is_meta(str(name)))


def named(fields: Iterable[str]) -> str:
    """Return names of fields for a message, at most a dozen."""
    names = sorted(fields)
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
