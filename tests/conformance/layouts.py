"""What can be wrong with the order of a shard's members, and what can stand between them."""

from collections.abc import Callable
from itertools import zip_longest
from random import Random

from tests.conformance.archives import Entry

Sample = list[Entry]
LayoutHurt = Callable[[list[Sample], Random], Sample]


def key_of(sample: Sample) -> str:
    """Return the key that the first member of a sample has."""
    folder, slash, base = sample[0].name.rpartition("/")
    return folder + slash + base.partition(".")[0]


def suffix_of(entry: Entry) -> str:
    """Return the field name of a member."""
    return entry.name.rpartition("/")[2].partition(".")[2]


def twin(sample: Sample, rng: Random) -> Sample:
    """Put macOS twins before the members."""
    made: Sample = []
    for entry in sample:
        folder, slash, base = entry.name.rpartition("/")
        root = rng.choice((folder + slash, folder + slash, "__MACOSX/" + folder + slash))
        made += [Entry(f"{root}._{base}", b"\0\x05\x16\x07\0\x02\0\0Mac OS X"), entry]
    return made


def stray(sample: Sample, rng: Random) -> Sample:
    """Put a member between that belongs to no sample."""
    folder = sample[0].name.rpartition("/")[0]
    folder += "/" if folder else ""
    name = rng.choice(
        (
            ".DS_Store",
            ".hidden.txt",
            "README",
            "README.md",
            "Thumbs.db",
            f"{folder}.DS_Store",
            f"{folder}.hidden.jpg",
            f"{folder}README",
            "__info__",
            "__index__.json",
            "__a.b__",
            "__meta__/x.json",
            "__meta__/__x__",
            f"{folder}__x__.txt",
            "././@LongLink",
            "..",
            "../../etc/passwd.txt",
            "a.",
            "a..txt",
            "x/.",
        )
    )
    place = rng.randint(0, len(sample))
    return [*sample[:place], Entry(name, b"{}"), *sample[place:]]


def _interleaved(samples: list[Sample], _rng: Random) -> Sample:
    return [entry for row in zip_longest(*samples) for entry in row if entry is not None]


def _by_field(samples: list[Sample], _rng: Random) -> Sample:
    return sorted(
        (entry for sample in samples for entry in sample),
        key=lambda entry: entry.name.rpartition(".")[2],
    )


def _mixed(samples: list[Sample], rng: Random) -> Sample:
    entries = [entry for sample in samples for entry in sample]
    rng.shuffle(entries)
    return entries


def _one_astray(samples: list[Sample], rng: Random) -> Sample:
    entries = [entry for sample in samples for entry in sample]
    entries.insert(rng.randint(0, len(entries)), entries.pop(rng.randrange(len(entries))))
    return entries


def _same_key(samples: list[Sample], _rng: Random) -> Sample:
    """Give two neighbouring samples one key."""
    entries: Sample = []
    for sample in samples:
        key = key_of(samples[0])
        entries += [Entry(f"{key}.{suffix_of(entry)}", entry.data, entry.kind) for entry in sample]
    return entries


LAYOUT_HURTS: dict[str, LayoutHurt] = {
    "interleaved": _interleaved,
    "by-field": _by_field,
    "mixed": _mixed,
    "one-astray": _one_astray,
    "same-key": _same_key,
    "backwards": lambda samples, rng: [entry for sample in samples for entry in reversed(sample)],
}
