"""The bytes of a sample after its stages, for the output: ranges of the tar, and new members."""

from collections.abc import Iterator, Mapping

from wdsflow.pieces.tar_members import member, moved_member
from wdsflow.shards.samples.tar_samples import Samples, TarSample
from wdsflow.shards.source.base import Piece
from wdsflow.shards.tar.tar_header import padded

from .staging import MemberContent, StoredMember


def pieces_of(
    sample: TarSample, fields: Mapping[str, MemberContent], samples: Samples
) -> Iterator[Piece]:
    """Yield the parts of a sample after its stages: ranges of the tar, and new bytes.

    A member that no stage changed stays in place, as do all bytes between members.
    """
    start = sample.start
    unchanged = {
        name for name, value in fields.items() if _is_unchanged(name, value, sample, samples)
    }
    new = {name: value for name, value in fields.items() if name not in unchanged}
    for field, row in sorted(sample.fields.items(), key=lambda item: item[1][3]):
        if field in fields and field not in new:
            continue
        _, size, data, header, _ = row
        yield start, header
        names = [field] if field in new else _new_names(new, field)
        for name in names:
            yield from _member(f"{sample.key}.{name}", new.pop(name))
        start = data + padded(size)
    yield start, sample.end
    for name, value in new.items():
        yield from _member(f"{sample.key}.{name}", value)


def _new_names(new: Mapping[str, MemberContent], field: str) -> list[str]:
    """Return the new names of a member of the tar."""
    members = {name: value for name, value in new.items() if isinstance(value, StoredMember)}
    return [name for name, value in members.items() if value.field == field]


def _is_unchanged(name: str, value: MemberContent, sample: TarSample, samples: Samples) -> bool:
    row = sample.fields.get(name)
    if row is None:
        return False
    if isinstance(value, StoredMember):
        return value.field == name
    return len(value) == row[1] and samples.read(row) == value


def _member(name: str, value: MemberContent) -> Iterator[Piece]:
    if isinstance(value, StoredMember):
        yield from moved_member(name, value.row[2], value.row[1])
    else:
        yield member(name, value)
