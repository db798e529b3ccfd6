"""Forecasts epochs for which workers draw shards with replacement.

They are averages, because draws cannot be predicted.
"""

from dataclasses import replace

from wdsflow.readers.base import Fate
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.startup import Start
from wdsflow.readers.open_clip.versions import EpochLength

from ..verdicts.wording import crash_text
from .forecast_result import Forecast, Resampled, Starved
from .resources import estimate
from .worker_passes import ShardPasses


def with_drawn_shards(
    base: Forecast, shards: ShardPasses, arguments: Arguments, started: Start, length: EpochLength
) -> Forecast:
    """Return averages for shards drawn with replacement, because the draws cannot be predicted."""
    weights = started.weights or (1.0,) * len(shards.shards)
    total = sum(weights)
    chances = [weight / total for weight in weights]
    drawable = [index for index, chance in enumerate(chances) if chance > 0]

    # Usable samples of the shard that a draw gives, on average.
    mean = sum(chances[index] * shards.alone[index].usable for index in drawable)
    usable = 0
    raw = 0
    crash: Fate | None = None
    dead_shards = 0
    for index in drawable:
        alone = shards.alone[index]
        usable += alone.usable
        raw += alone.formed
        crash = crash or alone.crash
        dead_shards += not alone.usable and index not in shards.unknown
    draws = length.samples / mean if mean else 0.0
    never_drawn = sum((1 - chances[index]) ** draws for index in drawable) / len(drawable)

    stalled: tuple[Starved, ...] = ()
    if not mean and not crash and not shards.unknown:
        hangs = shards.reader.empty_stalls
        stalled = (Starved(0, -1, -1, 0, len(drawable), base.batch_size, hangs),)
    drawable_shards = [shards.shards[index] for index in drawable]
    return replace(
        base,
        exact=False,
        usable=usable,
        crash=crash_text(crash.reason, crash.detail) if crash else None,
        stalled=stalled,
        resampled=Resampled(draws, never_drawn, dead_shards),
        epochs_checked=arguments.epochs,
        resources=estimate(arguments, shards.reader, drawable_shards, [raw], usable),
    )
