"""The images of a shard that a run makes smaller, kept in a file until the shard is written."""

import os
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from wdsflow.filtering.ledger.sample_table import ResizedImage, Row
from wdsflow.filtering.samples import Member
from wdsflow.stages.base import StageError
from wdsflow.stages.imaging.shrink import Shrinker, Small
from wdsflow.stages.scores.base import ScoreError
from wdsflow.stages.scores.sample_view import View


class _Place(NamedTuple):
    """Where the new bytes of a field are in the file."""

    # Its name now.
    field: str
    start: int
    size: int


class ResizedImages(AbstractContextManager["ResizedImages"]):
    """Makes the images of samples smaller, and keeps them in an unnamed file in ``folder``."""

    def __init__(self, shrinker: Shrinker, folder: Path) -> None:
        self._shrinker = shrinker
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__
        self._end = 0
        # By number of the sample, and old name of the field.
        self._places: dict[int, dict[str, _Place]] = {}
        self._faults: dict[int, ScoreError | StageError] = {}

    def __exit__(self, *_: object) -> None:
        """Close the file, which then disappears."""
        self._file.close()

    def has(self, row: Row) -> bool:
        """Return whether a sample was added."""
        return row.number in self._places

    def add(self, row: Row, view: View) -> None:
        """Make the images of a sample smaller, if they are too large. Raises OSError if the disk fails."""
        places = self._places[row.number] = dict[str, _Place]()
        row.resized = resized = list[ResizedImage]()
        try:
            for name in view.image_names():
                small = view.shrunk(name, self._shrinker)
                if small is None:
                    continue
                new = small.field_for(
                    name, {*view.fields, *(place.field for place in places.values())}
                )
                resized.append(_about(name, new, view, small))
                places[name] = _Place(new, self._end, len(small.data))
                self._file.write(small.data)
                self._end += len(small.data)
        except (ScoreError, StageError) as error:
            # Then there is nothing to make smaller.
            if error.slug != "no-image":
                self._faults[row.number] = error

    def quarantine(self, kept: Iterable[Row]) -> None:
        """Quarantine the samples whose images could not be made smaller."""
        for row in kept:
            fault = self._faults.get(row.number)
            if fault is not None:
                row.quarantine(f"resize: {fault.slug}", str(fault).removeprefix(f"{fault.slug}: "))

    def replaced(self, row: Row, fields: Mapping[str, Member]) -> dict[str, Member]:
        """Return the fields of a sample with the new images in place of the old ones. Raises OSError."""
        places, found = self._places[row.number], dict[str, Member]()
        self._file.flush()
        for name, member in fields.items():
            place = places.get(name)
            found[place.field if place else name] = self._read(place) if place else member
        return found

    def _read(self, place: _Place) -> bytes:
        return os.pread(self._file.fileno(), place.size, place.start)


def _about(name: str, new: str, view: View, small: Small) -> ResizedImage:
    from xxhash import xxh3_128_hexdigest

    header, old = view.header(name), view.read(name)
    return {
        "field": [name, new],
        "size": [(header.width, header.height), (small.width, small.height)],
        "bytes": [len(old), len(small.data)],
        "xxh3": [xxh3_128_hexdigest(old), xxh3_128_hexdigest(small.data)],
    }
