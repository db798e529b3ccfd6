"""Stages that rename, remove and require fields, and names with alternatives: ``jpg;png``."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from wdsflow.shards.shard_names import alternatives, is_reserved

from .base import Dropped, Sample, SampleStage, StageError

Output = Literal["same", "str", "bytes"]

# Fields that a message names.
_SHOWN = 12


def in_output_type(text: str, source: object, output: Output) -> str | bytes:
    """Return a text as the type ``output``, str or bytes.

    "same" is the type of ``source``, from which it was read.
    """
    if output == "same":
        as_bytes = isinstance(source, (bytes, bytearray, memoryview))
    else:
        as_bytes = output == "bytes"
    return text.encode() if as_bytes else text


def present_names(sample: Sample, names: Iterable[str]) -> list[str]:
    """Return the names that the sample has, in the order of ``names``."""
    return [name for name in names if name in sample]


def note_or_raise(slug: str, choice: str, text: str) -> str:
    """Return ``slug``, to be noted, or raise as ``choice`` demands.

    Raises StageError with the text if ``choice`` is "raise", Dropped if it is "drop".
    """
    if choice == "raise":
        raise StageError(slug, text)
    if choice == "drop":
        raise Dropped(slug)
    return slug


def fields_text(sample: Sample) -> str:
    """Return the fields of a sample for a message, at most a dozen."""
    return names_text(str(name) for name in sample if not is_reserved(str(name)))


def names_text(fields: Iterable[str]) -> str:
    """Return names of fields for a message, at most a dozen."""
    names = sorted(fields)
    if not names:
        return "none"
    text = ", ".join(repr(name[:60]) for name in names[:_SHOWN])
    return f"{text}, ..." if len(names) > _SHOWN else text


def normalized_entries(fields: str | Iterable[str], example: str) -> tuple[str, ...]:
    """Return names with their alternatives, normalized.

    Raises ValueError, with ``example`` in the message, if there are none.

    >>> normalized_entries(("jpg; png", "depth.png"), "Decode(fields='jpg;png')")
    ('jpg;png', 'depth.png')
    """
    texts = (fields,) if isinstance(fields, str) else tuple(fields)
    if not texts:
        raise ValueError(f"give at least one field, for instance {example}")
    return tuple(";".join(alternatives(text)) for text in texts)


def image_fields(sample: Sample, fields: Iterable[str]) -> Iterator[str]:
    """Yield the name of each entry's field in the sample.

    ``fields`` may have alternatives in an entry. Raises StageError "no-image".
    """
    for entry in fields:
        names = present_names(sample, entry.split(";"))
        if not names:
            raise StageError(
                "no-image", f"it has none of {entry!r}; its fields: {fields_text(sample)}"
            )
        yield names[0]


@dataclass(frozen=True)
class HasFields(SampleStage, name="has_fields", read_by="fields"):
    """Keep samples that have all of the fields, and drop the others.

    A dropped sample is counted by the first field that is missing.

    Each entry may name alternatives: ``HasFields(("jpg;png;jpeg;webp", "txt"))`` keeps what
    OpenCLIP keeps.

    >>> stage = HasFields.of("jpg;png", "txt")
    >>> [sample["__key__"] for sample in stage([{"__key__": "a", "png": b"", "txt": b""}, {"__key__": "b", "png": b""}])]
    ['a']
    >>> stage.counts.dropped
    Counter({'no-txt': 1})
    """

    fields: str | tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "fields", normalized_entries(self.fields, "HasFields('txt')"))

    @classmethod
    def of(cls, *fields: str) -> "HasFields":
        """Take each field as an argument."""
        return cls(fields)

    def apply(self, sample: Sample) -> Sample:
        for entry in self.fields:
            if not any(name in sample for name in entry.split(";")):
                raise Dropped(f"no-{entry}")
        return sample


@dataclass(frozen=True)
class Drop(SampleStage, name="drop", removed_by="fields"):
    """Remove fields, so that nothing later decodes them or holds them in memory.

    ``fields`` are names joined by semicolons, or a tuple of names. A missing field is ignored,
    unless ``on_missing`` is "raise" ("no-json").

    >>> list(Drop("json;thumb")([{"__key__": "a", "txt": b"a cat", "json": b"{}"}]))
    [{'__key__': 'a', 'txt': b'a cat'}]
    """

    fields: str | tuple[str, ...]
    on_missing: Literal["keep", "raise"] = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "fields", alternatives(self.fields))

    @property
    def reads(self) -> frozenset[str]:
        """The fields if a missing one is an error, otherwise none."""
        return frozenset(self.fields) if self.on_missing == "raise" else frozenset()

    def apply(self, sample: Sample) -> Sample:
        for field in self.fields:
            if field in sample:
                del sample[field]
            elif self.on_missing == "raise":
                raise StageError(
                    f"no-{field}", f"it has no field {field!r}; its fields: {fields_text(sample)}"
                )
        return sample


Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Rename(SampleStage, name="rename"):
    """Give fields other names, as ``wds.rename`` does, but never silently.

    Each new name gets the first of its alternatives that the sample has, in their order. All
    old names are read before any new one is written, so names can be swapped. All alternatives are
    removed; with ``keep=False``, all other fields too, except webdataset's own ``__key__`` and
    ``__url__``.

    Options

    * ``on_missing``, if a sample has none of the alternatives: "raise", "drop" ("no-image"), or
      "keep" it unchanged (noted as "no-image");
    * ``on_conflict``, if it has several: "raise", "drop" ("several-image"), or use the "first"
      (noted);
    * ``on_target``, if it has a field of the new name already: "raise", "drop" ("has-image"),
      "replace" it (noted) or "keep" it (noted; the alternatives are removed).

    >>> stage = Rename({"image": "jpg;png", "text": "txt"})
    >>> list(stage([{"__key__": "a", "png": b"...", "txt": b"a cat"}]))
    [{'__key__': 'a', 'image': b'...', 'text': b'a cat'}]
    """

    fields: Mapping[str, str] | Pairs
    keep: bool = True
    on_missing: Literal["raise", "drop", "keep"] = "raise"
    on_conflict: Literal["raise", "drop", "first"] = "raise"
    on_target: Literal["raise", "drop", "replace", "keep"] = "raise"

    def __post_init__(self) -> None:
        super().__post_init__()
        renames = self.fields.items() if isinstance(self.fields, Mapping) else self.fields
        pairs = tuple((new.strip(), ";".join(alternatives(old))) for new, old in renames)
        if not pairs:
            raise ValueError(
                "Rename needs at least one field, for instance Rename({'image': 'jpg;png'})"
            )
        for new, _ in pairs:
            if not new or ";" in new or is_reserved(new):
                raise ValueError(f"{new!r} cannot be the new name of a field")
        if len({new for new, _ in pairs}) < len(pairs):
            raise ValueError(
                "two renames have the same new name; join their alternatives with a semicolon"
            )
        # Hashable.
        object.__setattr__(self, "fields", pairs)

    @classmethod
    def of(cls, **fields: str) -> "Rename":
        """Rename by keywords: ``Rename.of(image="jpg;png", text="txt")``."""
        return cls(fields)

    @property
    def pairs(self) -> Pairs:
        """New names, each with its alternatives."""
        assert isinstance(self.fields, tuple)
        return self.fields

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(old for _, old in self.pairs)

    @property
    def writes(self) -> frozenset[str]:
        return frozenset(new for new, _ in self.pairs)

    @property
    def removes(self) -> frozenset[str]:
        """The old names that are not new names as well; with ``keep=False``, all fields."""
        return self._old_names - self.writes if self.keep else frozenset({"*"})

    @property
    def _old_names(self) -> frozenset[str]:
        return frozenset(name for _, old in self.pairs for name in old.split(";"))

    def apply(self, sample: Sample) -> Sample:
        renamed: Sample = {}
        notes: list[str] = []
        old_names = self._old_names
        for new, old in self.pairs:
            names = present_names(sample, old.split(";"))
            if not names:
                text = f"it has none of {old!r} for {new!r}; its fields: {fields_text(sample)}"
                notes.append(_note(f"no-{new}", self.on_missing, text, "on_missing to 'keep'"))
                continue
            if len(names) > 1:
                text = f"it has several alternatives for {new!r}: {', '.join(names)}"
                slug = f"several-{new}"
                notes.append(_note(slug, self.on_conflict, text, "on_conflict to 'first'"))
            renamed[new] = sample[names[0]]
            if new in sample and new not in old_names:
                text = f"it has a field {new!r} already"
                notes.append(_note(f"has-{new}", self.on_target, text, "on_target to 'replace'"))
                if self.on_target == "keep":
                    renamed[new] = sample[new]
        self.counts.noted.update(notes)
        replaced = old_names | renamed.keys()
        result: Sample = {}
        for name, value in sample.items():
            if is_reserved(name) or (self.keep and name not in replaced):
                result[name] = value
        return result | renamed


def _note(slug: str, choice: str, text: str, setting: str) -> str:
    """Return ``slug``, to be noted, or raise as ``choice`` demands.

    The message of an error names the setting that would note it instead.
    """
    remedy = f"on_error='drop' drops such samples; or set {setting}"
    return note_or_raise(slug, choice, f"{text} ({remedy})")
