"""What a repair does to the samples of a set of shards, as data."""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from wdsflow.shards.caption_field import CaptionField, parse_caption_field

_FIELD = re.compile(r"[^/\s.][^/\s]*")


class Step(NamedTuple):
    """One change that a plan asks for, beyond the structure of the shards."""

    # Options of ``wdsflow repair``: ("--rename", "jfif=jpg").
    words: tuple[str, ...]
    # For reports, not escaped: "rename jfif to jpg".
    action: str
    # Contents of the input are missing in the output.
    loses: bool = False
    # If it changes nothing, that is probably a mistake: a misspelled name of a field.
    must_change: bool = True

    @property
    def option(self) -> str:
        """The options as one text, which names the step in the counts of a report."""
        return " ".join(self.words)


@dataclass(frozen=True)
class RepairPlan:
    """All changes of a repair, in the order in which they are made to a sample.

    Every repair fixes the structure: members of a sample are brought together, samples with the
    same key are kept apart, names are made safe, junk is left out, and damage is passed over. A
    plan without steps does nothing else.

    Attributes:
        pair_names: pair images and captions whose names evidently belong together, see ``pairing``.
        name_images: name images by their first bytes, if their extension is missing or unknown to
            readers.
        rename: pairs of old and new field names; a field of the new name is never replaced.
        encoding: captions that are not UTF-8 are decoded from it, "" for none.
        caption: where captions are in json, for samples without one.
        rename_bad: pairs of old and new field names; only fields that do not decode get the new
            name.
        drop_fields: fields that are left out.
        drop_bad: leave out samples that OpenCLIP would not train on.
        guessed_from: how many captions the encoding was guessed from; 0 if they have a mark, or if
            a user named it.
        expected_samples: how many samples the repair writes, if the plan was tried; the repair
            compares.
        readers: those that it was planned for, as named; empty if a user made it.
        costs: which of them get fewer samples after the repair than before; "" if none does.
    """

    pair_names: bool = False
    name_images: bool = False
    rename: tuple[tuple[str, str], ...] = ()
    encoding: str = ""
    caption: CaptionField | None = None
    rename_bad: tuple[tuple[str, str], ...] = ()
    drop_fields: tuple[str, ...] = ()
    drop_bad: bool = False
    guessed_from: int = field(default=0, compare=False)
    expected_samples: int | None = field(default=None, compare=False)
    readers: tuple[str, ...] = field(default=(), compare=False)
    costs: str = field(default="", compare=False)

    def steps(self) -> list[Step]:
        """Return the changes beyond the structure, in order."""
        steps: list[Step] = []
        if self.pair_names:
            action = "name images and captions alike that belong together"
            steps.append(Step(("--pair-names",), action))
        if self.name_images:
            steps.append(Step(("--name-images",), "name images by their first bytes"))
        for old, new in self.rename:
            steps.append(Step(("--rename", f"{old}={new}"), f"rename {old} to {new}"))
        if self.encoding:
            action = f"decode captions from {self.encoding}"
            if self.guessed_from == 1:
                action += " (a guess: the only one makes sense in it)"
            elif self.guessed_from:
                action += f" (a guess: all {self.guessed_from:,} make sense in it)"
            steps.append(Step(("--caption-encoding", self.encoding), action))
        if self.caption is not None:
            source = self.caption.text
            steps.append(Step(("--caption", source), f"write txt from {source}"))
        for old, new in self.rename_bad:
            action = f"rename {old} to {new} where it does not decode"
            steps.append(Step(("--rename-bad", f"{old}={new}"), action))
        for name in self.drop_fields:
            action = f"leave out the field {name}"
            steps.append(Step(("--drop-field", name), action, loses=True))
        if self.drop_bad:
            action = "leave out samples that do not train"
            steps.append(Step(("--drop-bad",), action, loses=True, must_change=False))
        return steps

    @property
    def loses(self) -> bool:
        """Whether a step loses contents."""
        return any(step.loses for step in self.steps())

    def options(self) -> tuple[str, ...]:
        """Return the options of ``wdsflow repair`` that mean the same.

        >>> RepairPlan(rename=(("jfif", "jpg"),), drop_bad=True).options(), RepairPlan().options()
        (('--rename', 'jfif=jpg', '--drop-bad'), ('--structure-only',))
        """
        words = tuple(word for step in self.steps() for word in step.words)
        return words or ("--structure-only",)

    def to_dict(self) -> dict[str, object]:
        """Return the plan as JSON can hold it, by options of the command line."""
        return {
            "--pair-names": self.pair_names,
            "--name-images": self.name_images,
            "--rename": [f"{old}={new}" for old, new in self.rename],
            "--caption-encoding": self.encoding,
            "--caption": self.caption.text if self.caption else None,
            "--rename-bad": [f"{old}={new}" for old, new in self.rename_bad],
            "--drop-field": list(self.drop_fields),
            "--drop-bad": self.drop_bad,
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> "RepairPlan":
        """Return the plan of ``to_dict``. Raises KeyError, TypeError, ValueError.

        >>> plan = RepairPlan(pair_names=True, caption=CaptionField("json", ("alt", "title")), drop_fields=("npy",))
        >>> RepairPlan.from_dict(plan.to_dict()) == plan
        True
        """
        return make_plan(
            pair_names=values["--pair-names"],
            name_images=values["--name-images"],
            rename=dict(pair.split("=", 1) for pair in values["--rename"]),
            encoding=values["--caption-encoding"],
            caption=values["--caption"],
            rename_bad=dict(pair.split("=", 1) for pair in values["--rename-bad"]),
            drop_fields=values["--drop-field"],
            drop_bad=values["--drop-bad"],
        )


def make_plan(
    *,
    pair_names: bool = False,
    name_images: bool = False,
    rename: Mapping[str, str] | None = None,
    encoding: str = "",
    caption: str | None = None,
    rename_bad: Mapping[str, str] | None = None,
    drop_fields: Iterable[str] = (),
    drop_bad: bool = False,
) -> RepairPlan:
    """Return the plan of values as typed. Raises ValueError for one that makes no sense."""
    return RepairPlan(
        pair_names=pair_names,
        name_images=name_images,
        rename=_pairs(rename or {}),
        encoding=_encoding(encoding),
        caption=parse_caption_field(caption) if caption else None,
        rename_bad=_pairs(rename_bad or {}),
        drop_fields=tuple(sorted(map(_field, drop_fields))),
        drop_bad=drop_bad,
    )


def _pairs(names: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((_field(old), _field(new)) for old, new in names.items())


def _field(name: str) -> str:
    if not _FIELD.fullmatch(name):
        raise ValueError(f"{name!r} is not a field name")
    return name.lower()


def _encoding(name: str) -> str:
    """Return the name of an encoding as Python spells it.

    Raises ValueError for an encoding that Python does not know.
    """
    if not name:
        return ""
    try:
        # Codecs that make no text, such as base64, raise,
        # too; those of text raise nothing for a letter.
        b"a".decode(name, "replace")
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise ValueError(f"{name!r} is not an encoding of text that Python knows") from None
