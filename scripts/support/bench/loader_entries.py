"""Our loader compared with OpenCLIP's own.

Compares speed, time to the first batch, memory, and how closely the pictures match.
"""

import os

from .entry import Entry
from .loading import HEAD, Plan
from .shards import SETS

HEAD_LOADER = "open_clip-main"
# The set that --photos takes the place of.
PHOTOS = "photos"


def _speed(
    size: str, title: str, goal: float, runs: int, plan: Plan, peer: str = "open_clip"
) -> Entry:
    exact, evaluation = "-exact" * (plan.decode == "exact"), "-eval" * (not plan.train)
    return Entry(
        f"loader-{size}{evaluation}{exact}{peer.removeprefix('open_clip')}",
        f"{title}, compared with OpenCLIP's loader{' on its main branch' if peer == HEAD_LOADER else ''}",
        "wdsflow",
        peer,
        size,
        goal,
        measure="samples_per_s",
        unit="samples/s",
        runs=runs,
        plan=plan,
        peer_of=f"loader-{size}" if exact else None,
    )


def _rate(times: int, seconds: float, **more: object) -> Plan:
    return Plan("rate", seconds=seconds, times=times, **more)  # type: ignore[arg-type]


# They decode later than 3.3: after shuffling, one picture at a time.
_OF_HEAD = [
    _speed("small", "training loader, 20 KB pictures", 3, 2, _rate(8, 8), HEAD_LOADER),
    _speed("2mp", "training loader, 2 megapixels", 4, 2, _rate(400, 10), HEAD_LOADER),
    _speed("12mp", "training loader, 12 megapixels", 6, 1, _rate(400, 25), HEAD_LOADER),
]

LOADERS = [
    _speed("small", "training loader, 20 KB pictures", 3, 2, _rate(8, 8)),
    _speed("small", "the same in mode exact", 2.8, 2, _rate(8, 6, decode="exact")),
    _speed("small", "loader for evaluation, 20 KB pictures", 3, 1, _rate(8, 10, train=False)),
    _speed("2mp", "training loader, 2 megapixels", 4, 2, _rate(400, 10)),
    _speed("2mp", "the same in mode exact", 2.6, 2, _rate(400, 6, decode="exact")),
    _speed("12mp", "training loader, 12 megapixels", 6, 1, _rate(400, 25)),
    _speed("12mp", "the same in mode exact", 2.6, 1, _rate(400, 15, decode="exact")),
    Entry(
        "loader-handover",
        "what one training process can take from decoders, 20 KB pictures",
        "wdsflow",
        "bound",
        "small",
        3000,
        measure="handed_per_s",
        unit="samples/s",
        runs=2,
        bound=3000,
        judged="ours",
        plan=_rate(8, 8),
    ),
    Entry(
        "loader-subset",
        "useful samples: --where keeps half, compared with the same feed that reads all and drops the others",
        "wdsflow-subset",
        "wdsflow-dropped",
        "pairs",
        1.9,
        measure="samples_per_s",
        unit="samples/s",
        runs=3,
        plan=_rate(16, 8, workers=2, batch=128),
    ),
    Entry(
        "loader-join",
        "captions of a table, joined while feeding, compared with the same feed of the captions in the shards",
        "wdsflow-joined",
        "wdsflow",
        "pairs",
        0.95,
        measure="samples_per_s",
        unit="samples/s",
        runs=3,
        plan=_rate(16, 8, workers=2, batch=128),
    ),
    Entry(
        "first-batch",
        "from the call to the first batch for training, 20 KB pictures, compared with OpenCLIP's loader",
        "wdsflow",
        "open_clip",
        "small",
        0.5,
        at_most=True,
        measure="seconds",
        unit="s",
        runs=3,
        plan=Plan("first"),
    ),
    *(
        Entry(
            f"loader-memory{name}",
            f"peak memory of all processes, {title} on photographs, compared with OpenCLIP's loader",
            "wdsflow",
            "open_clip",
            PHOTOS,
            1,
            at_most=True,
            measure="peak_mb",
            unit="MB",
            runs=1,
            plan=Plan(
                "peak", train=train, batch=32, workers=min(os.cpu_count() or 1, SETS[PHOTOS][0])
            ),
        )
        for name, title, train in (
            ("", "an epoch of training", True),
            ("-eval", "evaluation", False),
        )
    ),
    Entry(
        "fidelity",
        "mean PSNR of mode fast against mode exact on photographs at 224 x 224",
        "fidelity",
        "bound",
        PHOTOS,
        45,
        measure="psnr",
        unit="dB",
        runs=1,
        bound=45,
        judged="ours",
    ),
    *(_OF_HEAD if HEAD in os.environ else ()),
]
