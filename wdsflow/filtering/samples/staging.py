"""The stages of a recipe, which change the fields of a sample before it is scored."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.tar.plain_entries import Row
from wdsflow.stages.base import Dropped, Sample, SampleStage, StageError
from wdsflow.stages.caption_text import CleanText, JsonText

# Prefix of the trouble of a sample that a stage dropped.
DROPPED = "dropped by "
# Bytes of a text; the stages' own limits are lower.
_LARGEST_TEXT = 17 << 20
# What stages find in a sample besides its fields, as in a loader.
_KEY, _URL = "__key__", "__url__"


class RejectedSample(Exception):
    """A sample that a stage dropped, or could not handle. ``trouble`` is the reason in its row."""

    def __init__(self, trouble: str, detail: str = "") -> None:
        super().__init__(trouble)
        self.trouble, self.detail = trouble, detail


class StoredMember(NamedTuple):
    """A member of the tar, which is read when it is needed."""

    field: str
    row: Row


# Of the tar, or new bytes.
MemberContent = StoredMember | bytes


class Staging:
    """Passes samples of a shard through stages."""

    def __init__(self, stages: Sequence[SampleStage], samples: Samples, url: str) -> None:
        self._samples, self._url = samples, url
        self._stages = [
            (f"stage {number} {stage.name}", stage) for number, stage in enumerate(stages, 1)
        ]

    def fields(self, sample: TarSample) -> dict[str, MemberContent]:
        """Return the fields of the latest sample.

        They are members of the tar, bytes that were read, and new text.

        Raises RejectedSample, OSError.
        """
        fields: Sample = {name: StoredMember(name, row) for name, row in sample.fields.items()}
        fields |= {_KEY: sample.key, _URL: self._url}
        for label, stage in self._stages:
            try:
                self._read(stage, fields)
                fields = stage.apply(fields)
                for name, value in fields.items():
                    if isinstance(value, str) and name not in {_KEY, _URL}:
                        fields[name] = value.encode()
            except Dropped as drop:
                raise RejectedSample(f"{DROPPED}{label}: {drop.reason}") from None
            except StageError as error:
                if stage.on_error == "drop":
                    raise RejectedSample(f"{DROPPED}{label}: {error.slug}", str(error)) from None
                raise RejectedSample(f"{label}: {error.slug}", str(error)) from None
        del fields[_KEY], fields[_URL]
        if not fields:
            raise RejectedSample(f"{DROPPED}{self._stages[-1][0]}: no field is left")
        return fields

    def _read(self, stage: SampleStage, fields: Sample) -> None:
        """Read the fields whose contents a stage needs."""
        names: Iterable[str] = ()
        if isinstance(stage, CleanText):
            names = stage.field.split(";")
        elif isinstance(stage, JsonText) and not (
            stage.on_target == "keep" and stage.target in fields
        ):
            names = (stage.source,)
        for name in names:
            value = fields.get(name)
            if not isinstance(value, StoredMember):
                continue
            size = value.row[1]
            if size > _LARGEST_TEXT:
                raise StageError("large-text", f"{name!r} has {size:,} bytes")
            data = self._samples.read(value.row)
            fields[name] = data
            if len(data) < size:
                raise StageError(
                    "unread", f"{len(data):,} of the {size:,} bytes of {name!r} could be read"
                )
