"""Grafting next to `cp`."""

from .entry import Entry

GRAFTS = [
    Entry(
        "graft-small",
        "time of a graft of new captions, 20 KB samples, synced, compared with cp and sync of the same bytes",
        "graft",
        "graft-cp",
        "small",
        1.5,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=5,
        first=4,
    ),
    Entry(
        "graft-many",
        "the same, eight times as many",
        "graft",
        "graft-cp",
        "many",
        1.5,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=3,
    ),
    Entry(
        "graft-large",
        "the same with 1.5 MB samples",
        "graft",
        "graft-cp",
        "large",
        1.5,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=3,
        first=1,
    ),
]
