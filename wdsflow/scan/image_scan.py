"""Images of one shard: their headers, and at level "full" their pixels."""

import heapq
import zlib

from wdsflow.images.image_header import ImageHeader, first_header
from wdsflow.scan.content.image_content import decode_image
from wdsflow.scan.content.image_end import ends_early, has_end
from wdsflow.scan.content.image_header_notes import (
    header_status,
    image_notes,
    is_decodable_by_header,
    with_cause,
)

from .evidence import FieldCount, ScanOptions, ShardEvidence
from .frequent import FrequentValues
from .member_contents import MemberNotes, Read, read_all
from .statuses import BIG, OK, SUSPECT

# Bytes at the end of an image that are looked at.
_TAIL = 32
# Hashes of images that are kept.
_HASHES = 64
# Hashes that are collected before all but the smallest are dropped.
_COLLECTED = 4096
_DECODABLE = (OK, BIG)

# Bits of FieldCount.ranks: arrays of two or three dimensions.
_GREY = 1 << 3
_COLOURED = 1 << 4
_RANKS = dict.fromkeys(("1", "L", "P", "I", "F", "I;16", "I;16B", "I;16L"), _GREY) | {
    "": _GREY | _COLOURED
}


class ImageScanner:
    """Judges the images of one shard; call ``finish`` after the last."""

    def __init__(self, shard: ShardEvidence, options: ScanOptions, notes: MemberNotes) -> None:
        self.shard = shard
        self.notes = notes
        self.full = options.level == "full"
        self.max_image_pixels = options.max_image_pixels
        self.frequent: FrequentValues[int] = FrequentValues(16)
        # The smallest ones, and some that are not compared yet.
        self.hashes: set[int] = set()

    def status(self, lower: str, totals: FieldCount, size: int, read: Read) -> str:
        """Return the status of an image; ``lower`` is the name of its field in lower case."""

        def read_start(start: int, most: int) -> bytes:
            return read(start, min(most, size - start))

        header, head = first_header(read_start, size)
        notes = image_notes(header, lower, head, size)
        early = False
        if header is not None:
            self._count(header, size)
            totals.ranks |= _RANKS.get(header.mode, _COLOURED)
            tail = read(size - _TAIL, _TAIL) if size > _TAIL else head
            early = ends_early(tail, header)
        status = header_status(header, size, self.max_image_pixels)
        # Decoding takes long. An image that would be reported as cut, or that its header does not
        # judge, is worth it.
        is_open = status in _DECODABLE and (early or not is_decodable_by_header(header))
        if self.full or is_open:
            data = read_all(size, read)
            if data is None:
                self.notes.add(("field.huge",), lower)
                if status in _DECODABLE:
                    status = SUSPECT
            else:
                status, decoder_notes = decode_image(data, self.max_image_pixels)
                notes += tuple(note for note in decoder_notes if note not in notes)
                # Few images end in other bytes: only these are searched to their end.
                is_searched = early and not self.full and "image.cut" not in notes
                if header is not None and is_searched and not has_end(data, header):
                    notes += ("image.cut",)
                self._remember(data)
        if notes:
            detail = lower
            if header is not None and header.width:
                detail = f"{lower} {header.width}x{header.height}"
            self.notes.add(notes, detail.strip())
        return with_cause(status, notes)

    def _remember(self, data: bytes) -> None:
        """Count an image that occurs again; only if all are read."""
        if not self.full:
            return
        digest = zlib.crc32(data)
        self.frequent.add(digest)
        self.hashes.add(digest)
        if len(self.hashes) > _COLLECTED:
            self.hashes = set(heapq.nsmallest(_HASHES, self.hashes))

    def _count(self, header: ImageHeader, size: int) -> None:
        facts = self.shard.images
        pixels = header.width * header.height
        facts.count += 1
        facts.pixels += pixels
        facts.bytes += size
        if pixels > facts.largest:
            facts.largest = pixels
        facts.formats[header.format] = facts.formats.get(header.format, 0) + 1
        facts.modes[header.mode] = facts.modes.get(header.mode, 0) + 1
        power = pixels.bit_length() - 1
        facts.megapixels[power] = facts.megapixels.get(power, 0) + 1

    def finish(self) -> None:
        """Write the images that occur again into the shard's evidence."""
        self.shard.frequent_images = self.frequent.counts()
        self.shard.image_sketch = tuple(heapq.nsmallest(_HASHES, self.hashes))
