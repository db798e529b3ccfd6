"""Draws small shard sets from a seed.

Some are healthy, others are damaged in every way that is known to occur.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

from tests.conformance.archives import FORMATS, Entry, Format, write
from tests.conformance.contents import array, caption, document, metadata
from tests.conformance.hurts import SAMPLE_HURTS, TABLE_HURTS
from tests.conformance.layouts import LAYOUT_HURTS
from tests.conformance.pictures import picture
from tests.conformance.tar_hurts import BYTE_HURTS, COMPRESSIONS, NO_TAR

_FIELDS = (("txt",), ("txt",), ("txt",), ("txt", "json"), ("json",), ("txt", "cls"), ("cls",))
_LABEL_FIELDS = (("cls",), ("cls",), ("cls", "txt"), ("cls", "json"), ("txt",))
_TABLE_FIELDS = (
    ("txt",),
    ("txt", "json"),
    ("txt", "json"),
    ("json",),
    ("txt", "cls"),
    ("txt", "json", "npy"),
)
_RATES = (0.0, 0.05, 0.15, 0.3, 0.6, 1.0)  # how often a sample is hurt, drawn once a set


@dataclass(slots=True)
class Shard:
    """One generated shard: where it lies, and what was done to it."""

    path: str
    members: list[str] = field(default_factory=list)
    hurts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ShardSet:
    """A generated shard set; the same seed gives the same bytes."""

    seed: int
    shards: list[Shard] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        """Return the paths in order."""
        return [shard.path for shard in self.shards]

    def remove(self) -> None:
        """Delete the shards."""
        for url in self.urls:
            path = Path(url)
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink(missing_ok=True)

    def describe(self) -> dict[str, object]:
        """Return everything as plain json values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Style:
    """What the shards of one set have in common."""

    image: str
    fields: tuple[str, ...]
    prefix: str
    restart: bool  # keys begin at 0 in each shard
    caption_first: bool
    tar_format: Format
    float_time: bool
    rate: float
    hurts: tuple[str, ...]
    byte_rate: float
    longest: int  # samples a shard
    tables: bool
    documents: bool  # json has values of many types
    calm: int  # so many samples at the beginning of the set stay sound


def make_set(
    seed: int, folder: Path, *, tables: bool = False, labels: bool = False, apart: bool = False
) -> ShardSet:
    """Write the shard set of a seed into a folder, and say what is in it.

    Args:
        seed: draws everything.
        folder: gets the shards, with names that begin with the seed.
        tables: for a reader that makes tables: often hurt only the types of values, and leave
            folders in place of shards out.
        labels: for a reader that wants class numbers: most sets have them.
        apart: for a reader that takes no key twice: in most sets, the keys of each shard are its
            own.
    """
    rng = Random(seed)
    style = _style(
        rng, tables, _LABEL_FIELDS if labels else _TABLE_FIELDS if tables else _FIELDS, apart=apart
    )
    made = ShardSet(seed)
    index = 0
    for number in range(rng.randint(1, 6)):
        shard = Shard(str(folder / f"{seed:06d}-{number:02d}.tar"))
        made.shards.append(shard)
        if style.restart:
            index = 0
        count = rng.choice((rng.randint(1, style.longest), rng.randint(1, 2)))
        _make_shard(
            shard,
            _samples(rng, style, index, count),
            rng,
            style,
            calm=style.calm if number == 0 else 0,
        )
        index += count
    return made


def _style(rng: Random, tables: bool, fields: Sequence[tuple[str, ...]], *, apart: bool) -> _Style:
    known = sorted(SAMPLE_HURTS) + sorted(LAYOUT_HURTS)
    if tables and rng.random() < 0.5:
        known = sorted(TABLE_HURTS)
    return _Style(
        image=rng.choice(("jpg", "jpg", "png", "jpeg", "webp")),
        fields=rng.choice(fields),
        prefix=rng.choice(("", "", "", "", "photos/", "./", "v1.0/", "/data/", "a/b.c/")),
        restart=rng.random() < (0.1 if apart else 0.5),
        caption_first=rng.random() < 0.3,
        tar_format=rng.choice(FORMATS),
        float_time=rng.random() < 0.1,
        rate=rng.choice(_RATES),
        hurts=tuple(rng.sample(known, min(len(known), rng.choice((1, 2, 5, len(known)))))),
        byte_rate=rng.choice((0.0, 0.0, 0.2, 0.6)),
        longest=rng.choice((3, 6, 6, 12, 12, 60)),
        tables=tables,
        documents=rng.random() < 0.6,
        calm=rng.choice((0, 0, 5, 6)),
    )


def _samples(rng: Random, style: _Style, start: int, count: int) -> list[list[Entry]]:
    return [
        _sample(rng, style, f"{style.prefix}{index:05d}") for index in range(start, start + count)
    ]


def _sample(rng: Random, style: _Style, key: str) -> list[Entry]:
    contents = {"txt": caption(rng).encode(), "cls": b"7"}
    if "json" in style.fields:
        contents["json"] = document(rng) if style.documents else metadata(rng)
    if "npy" in style.fields:
        contents["npy"] = array(rng)
    entries = [Entry(f"{key}.{style.image}", picture(rng, style.image))]
    entries += [Entry(f"{key}.{name}", contents[name]) for name in style.fields]
    return entries[::-1] if style.caption_first else entries


def _make_shard(
    shard: Shard, samples: list[list[Entry]], rng: Random, style: _Style, calm: int
) -> None:
    for index, sample in enumerate(samples):
        while index >= calm and rng.random() < style.rate * 0.6:
            name = rng.choice(style.hurts)
            if name in SAMPLE_HURTS:
                samples[index] = SAMPLE_HURTS[name](samples[index], rng)
                shard.hurts.append(f"{name}@{sample[0].name!a}")
    entries = _flat(samples)
    layout = rng.choice(style.hurts)
    if layout in LAYOUT_HURTS and rng.random() < max(0.3, style.rate):
        entries = LAYOUT_HURTS[layout](samples, rng)
        shard.hurts.append(layout)
    shard.members = [ascii(entry.name) for entry in entries]
    data = _bytes(shard, entries, rng, style)
    if data is not None:
        Path(shard.path).write_bytes(data)


def _flat(samples: Iterable[list[Entry]]) -> list[Entry]:
    return [entry for sample in samples for entry in sample]


def _bytes(shard: Shard, entries: list[Entry], rng: Random, style: _Style) -> bytes | None:
    archive = write(entries, style.tar_format, float_time=style.float_time)
    data = archive.data
    if rng.random() < style.byte_rate:
        what = rng.random()
        if what < 0.08:
            shard.hurts.append("missing")
            return None
        if what < 0.12 and not style.tables:
            shard.hurts.append("directory")
            Path(shard.path).mkdir(exist_ok=True)
            return None
        if what < 0.3:
            name = rng.choice(sorted(NO_TAR))
            data = NO_TAR[name](rng)
        else:
            name = rng.choice(sorted(BYTE_HURTS))
            data = BYTE_HURTS[name](archive, rng)
        shard.hurts.append(name)
    if rng.random() < style.byte_rate / 4:
        name = rng.choice(sorted(COMPRESSIONS))
        border = rng.randint(0, len(data)) if rng.random() < 0.2 else len(data)
        pieces = [data[:border], data[border:]] if border < len(data) else [data]
        data = b"".join(map(COMPRESSIONS[name], pieces))
        shard.hurts += [name, "in-two-streams"][: len(pieces)]
        if rng.random() < 0.5:
            shard.path += f".{name}"
        if rng.random() < 0.3:
            data = data[: rng.choice((rng.randrange(len(data)), -rng.randint(1, 12)))]
            shard.hurts.append("cut-when-packed")
    return data
