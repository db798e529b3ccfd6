"""Resharding and grafting next to `cp`, and packing next to `tar cf`."""

from .entry import Entry


def _entry(
    name: str,
    title: str,
    job: str,
    shards: str,
    goal: float,
    first: int | None,
    runs: int = 5,
    peer: str = "cp-synced",
) -> Entry:
    return Entry(
        name,
        title,
        job,
        peer,
        shards,
        goal,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=runs,
        first=first,
    )


RESHARDING = [
    _entry(
        "reshard-small",
        "time of a reshard, 20 KB samples, compared with cp, both synced",
        "reshard",
        "small",
        1.5,
        4,
    ),
    _entry("reshard-many", "the same, eight times as many", "reshard", "many", 1.5, None),
    _entry("reshard-large", "the same, 1.5 MB samples", "reshard", "large", 1.5, 1),
    _entry(
        "reshard-shuffle-small",
        "time of a global shuffle, 20 KB samples",
        "reshard-shuffle",
        "small",
        3,
        4,
    ),
    _entry("reshard-shuffle-large", "the same, 1.5 MB samples", "reshard-shuffle", "large", 3, 1),
]

GRAFTS = [
    _entry(
        "graft-small",
        "time of a graft of new captions, 20 KB samples, compared with cp, both synced",
        "graft",
        "small",
        1.5,
        4,
    ),
    _entry("graft-many", "the same, eight times as many", "graft", "many", 1.5, None, runs=3),
    _entry("graft-large", "the same, 1.5 MB samples", "graft", "large", 1.5, 1, runs=3),
]

PACKING = [
    _entry(
        "pack-small",
        "time of a pack of 10,000 files of 20 KB with a table, compared with tar cf, both synced",
        "pack",
        "small",
        1.5,
        2,
        peer="tar-cf-synced",
    ),
    _entry(
        "pack-large", "the same, 500 files of 1.5 MB", "pack", "large", 1.5, 1, peer="tar-cf-synced"
    ),
]
