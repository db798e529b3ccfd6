"""Compares json that orders texts and images with the other members of its sample, for one shard."""

from collections.abc import Sequence

from wdsflow.media.media_format import media_kind
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.content.interleaved import ImageOrder

from .evidence import Part, ShardEvidence, Tally
from .naming import is_side_image

_Found = tuple[str, int, ImageOrder]  # key, offset of the json, what it says


class InterleavedCount:
    """Collects what the json of one shard says; ``end`` after each run, ``finish`` after the last.

    Two conventions differ between sets, so they are taken from the shard: whether texts have image tokens at all, and
    whether files that a json lists are members of its sample or only where they came from.
    """

    def __init__(self) -> None:
        self.flavours: dict[str, int] = {}
        self.open: list[_Found] = []  # of the open run
        self.tokens = self.pictured = 0  # runs with places for images; with images
        self.named = 0  # runs that have a file that their json lists
        self.differ, self.untold, self.missing = Tally(), Tally(), Tally()

    def see(self, key: str, offset: int, found: ImageOrder) -> None:
        """Take one json of the open run."""
        self.flavours[found.flavour] = self.flavours.get(found.flavour, 0) + 1
        self.open.append((key, offset, found))

    def end(self, parts: Sequence[Part]) -> None:
        """Compare the json of the open run, which has these parts, with its images and files."""
        if len(self.open) == 1:  # of several nobody knows which one orders the images
            self._compare(*self.open[0], [part.suffix.lower() for part in parts])
        self.open.clear()

    def _compare(self, key: str, offset: int, found: ImageOrder, suffixes: list[str]) -> None:
        images = [name for name in suffixes if kind_of(name) == "image"]
        counts = {len(images), sum(not is_side_image(name) for name in images)}
        self.tokens += found.images > 0
        self.pictured += bool(images)
        if found.images not in counts and not any(media_kind(name) == "video" for name in suffixes):
            tally = self.differ if found.images else self.untold
            tally.add(key, offset, f"{found.images} in the json, {max(counts)} in the sample")
        base = key.rpartition("/")[2].lower()
        # An image may have been written in another format than the json says.
        media = [*images, *(name for name in suffixes if media_kind(name))]
        there = {name.rpartition(".")[0] for name in (*media, *(f"{base}.{name}" for name in media))}
        lacking = [name for name in found.files if name.rpartition(".")[0] not in there]
        self.named += len(lacking) < len(found.files)
        if lacking:
            self.missing.add(key, offset, lacking[0])

    def finish(self, shard: ShardEvidence) -> None:
        """Write what was found into the evidence of the shard."""
        shard.interleaved = self.flavours
        if self.tokens and self.pictured:
            for tally in (self.differ, self.untold):
                if tally.count:
                    known = shard.tallies.setdefault("interleaved.images-differ", Tally())
                    known.add(tally.key, tally.offset, tally.detail, tally.count)
        if self.named and self.missing.count:
            shard.tallies["interleaved.file-missing"] = self.missing
