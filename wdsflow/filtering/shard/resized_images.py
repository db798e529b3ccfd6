"""The images of a shard that a run makes smaller, kept in a file until the shard is written."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from wdsflow.filtering.ledger.sample_table import LedgerRow, ResizedImage
from wdsflow.filtering.samples.staging import MemberContent
from wdsflow.stages.base import StageError
from wdsflow.stages.imaging.shrink import Shrinker, ShrunkImage
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.sample_view import View


class _NewField(NamedTuple):
    """The new name of a field, and the range of its bytes in the file."""

    name: str
    start: int
    size: int


class ResizedImages(AbstractContextManager["ResizedImages"]):
    """Makes the images of samples smaller, and keeps them in an unnamed file in ``folder``."""

    def __init__(self, shrinker: Shrinker, folder: Path) -> None:
        self._shrinker = shrinker
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        self._end = 0
        # By number of the sample, and old name of the field.
        self._new_fields: dict[int, dict[str, _NewField]] = {}
        self._faults: dict[int, ScoreError | StageError] = {}

    def __exit__(self, *_: object) -> None:
        """Close the file, which then disappears."""
        self._file.close()

    def has_sample(self, row: LedgerRow) -> bool:
        """Return whether a sample was added."""
        return row.number in self._new_fields

    def add(self, row: LedgerRow, view: View) -> None:
        """Make the images of a sample smaller, if they are too large.

        Raises OSError if the disk fails.
        """
        new_fields = dict[str, _NewField]()
        resized = list[ResizedImage]()
        self._new_fields[row.number] = new_fields
        row.resized = resized
        try:
            for name in view.image_names():
                small = view.shrunk(name, self._shrinker)
                if small is None:
                    continue
                used = {*view.fields, *(field.name for field in new_fields.values())}
                new = small.field_for(name, used)
                resized.append(_resized_image(name, new, view, small))
                new_fields[name] = _NewField(new, self._end, len(small.data))
                self._file.write(small.data)
                self._end += len(small.data)
        except (ScoreError, StageError) as error:
            # Then there is nothing to make smaller.
            if error.slug != "no-image":
                self._faults[row.number] = error

    def quarantine(self, kept: Iterable[LedgerRow]) -> None:
        """Quarantine the samples whose images could not be made smaller."""
        for row in kept:
            fault = self._faults.get(row.number)
            if fault is not None:
                row.quarantine(f"resize: {fault.slug}", str(fault).removeprefix(f"{fault.slug}: "))

    def with_new_images(
        self, row: LedgerRow, fields: Mapping[str, MemberContent]
    ) -> dict[str, MemberContent]:
        """Return the fields of a sample with the new images in place of the old ones.

        Raises OSError.
        """
        new_fields = self._new_fields[row.number]
        self._file.flush()
        replaced = dict[str, MemberContent]()
        for name, content in fields.items():
            field = new_fields.get(name)
            if field is None:
                replaced[name] = content
            else:
                replaced[field.name] = os.pread(self._file.fileno(), field.size, field.start)
        return replaced


def _resized_image(name: str, new: str, view: View, small: ShrunkImage) -> ResizedImage:
    """Return what the ledger says of an image that was made smaller."""
    from xxhash import xxh3_128_hexdigest

    header, old = view.header(name), view.read(name)
    return {
        "field": [name, new],
        "size": [(header.width, header.height), (small.width, small.height)],
        "bytes": [len(old), len(small.data)],
        "xxh3": [xxh3_128_hexdigest(old), xxh3_128_hexdigest(small.data)],
    }
