"""A forecast in sentences, and as plain values."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from wdsflow.text.words import duration, how_many, size

from .forecast_result import Forecast
from .resources import Resources

# The source of the number of samples of an epoch, as a text.
_LENGTH_SOURCES = {
    "--train-num-samples": "requested (--train-num-samples)",
    "sizes.json": "listed in sizes.json",
    "__len__": "given in __len__",
}


def sentences(forecast: Forecast) -> list[str]:
    """Return the lines for people, the most severe first."""
    if not forecast.applies:
        return [f"No forecast: {note}." for note in forecast.notes]
    lines = list(_end(forecast))
    if forecast.validation:
        lines.append(f"Validation: {forecast.validation}.")
    if forecast.length is not None:
        lines += [*_length(forecast), *_steps(forecast), *_shares(forecast), *_draws(forecast)]
    if forecast.resources is not None:
        lines += _resources(forecast, forecast.resources)
    return lines + [f"Note: {note}." for note in forecast.notes]


def as_dict(forecast: Forecast) -> dict[str, Any]:
    """Return everything as plain values for JSON."""
    return {**asdict(forecast), "total_steps": forecast.total_steps, "lines": sentences(forecast)}


def _end(forecast: Forecast) -> Iterator[str]:
    if forecast.crash is not None:
        yield f"Crashes: {forecast.crash}."
    elif forecast.stalled:
        more = len(forecast.stalled) - 1
        others = ""
        if more:
            verb = "does" if more == 1 else "do"
            others = f", and so {verb} {how_many(more, 'other worker')}"
        batches = forecast.batches_before_stall
        after = f", after {how_many(batches, 'batch', 'batches')}" if batches else ""
        how = "Stalls" if forecast.stalled[0].hangs else "Fails"
        yield f"{how}: {forecast.stalled[0]}{after}{others}."
    elif forecast.resampled is None and forecast.epochs_checked:
        total = forecast.world_size * max(1, forecast.workers)
        who = "the only worker" if total == 1 else f"each of {how_many(total, 'worker')}"
        least = forecast.poorest.batches if forecast.poorest else 0
        yield (
            f"Runs: in {_epochs(forecast.epochs_checked)} {who} gets batches, "
            f"at least {least:,} from each pass over its shards in epoch 0."
        )


def _epochs(count: int) -> str:
    return "epoch 0" if count == 1 else f"epochs 0 to {count - 1:,}"


def _length(forecast: Forecast) -> Iterator[str]:
    length = forecast.length
    assert length is not None
    source = forecast.length_source
    line = (
        f"Epoch: {how_many(length.samples, 'sample')} for the {length.requested:,} {_LENGTH_SOURCES.get(source, source)}, "
        f"{how_many(length.batches, 'batch', 'batches')} per rank, {length.worker_batches:,} per worker"
    )
    if length.inflation > 1.01:
        line += (
            f"; rounding to whole batches and workers makes it {length.inflation:.2f} times as long"
        )
    yield line + "."


def _steps(forecast: Forecast) -> Iterator[str]:
    if not forecast.steps:
        assert forecast.length is not None
        yield (
            f"Steps: none. --accum-freq {forecast.accum_freq:,} is more than the "
            f"{how_many(forecast.length.batches, 'batch', 'batches')} of an epoch: the optimizer never steps, silently."
        )
        return
    line = f"Steps: {forecast.steps:,} per epoch, {forecast.total_steps:,} in {how_many(forecast.epochs, 'epoch')}"
    if forecast.warmup > forecast.total_steps:
        line += (
            f"; --warmup {forecast.warmup:,} is longer: the learning rate never reaches its target"
        )
    yield line + "."


def _shares(forecast: Forecast) -> Iterator[str]:
    poorest, richest = forecast.poorest, forecast.richest
    if poorest is None or richest is None or not poorest.usable:
        return
    least, most = f"{poorest.usable:,}", f"{richest.usable:,}"
    samples = least if least == most else f"{least} to {most}"
    fewest, highest = sorted(forecast.seen)
    low, high = f"{fewest:.2f}", f"{highest:.2f}"
    times = low if low == high else f"{low} to {high}"
    line = (
        f"Shares: {samples} usable samples per worker in epoch 0; each is used {times} times in it"
    )
    if forecast.unseen:
        line += f", and at least {forecast.unseen:,} of {forecast.usable:,} not at all"
    yield line + "."


def _draws(forecast: Forecast) -> Iterator[str]:
    drawn = forecast.resampled
    if drawn is None or not drawn.draws:
        return
    line = f"Resampled: about {drawn.draws:,.0f} draws of a shard per epoch; {drawn.never_seen:.0%} of the shards are not drawn"
    if drawn.dead_shards:
        line += f"; {how_many(drawn.dead_shards, 'shard')} that can be drawn have no usable sample"
    yield line + " (averages: the draws cannot be predicted)."


def _resources(forecast: Forecast, needs: Resources) -> Iterator[str]:
    if needs.shuffle_bytes is not None:
        free = ""
        if needs.available_bytes is not None:
            free = f" ({size(needs.available_bytes)} free here)"
        yield f"Memory: {size(needs.shuffle_bytes)} per machine for the shuffle buffers at their fullest{free}."
    if needs.shm_bytes:
        height, width = needs.image_size
        here = "" if needs.shm_total is None else f" (/dev/shm has {size(needs.shm_total)} here)"
        guess = "" if needs.image_size_known else ", assumed"
        yield f"Shared memory: {size(needs.shm_bytes)} per machine for batches of {height} x {width} pixels{guess}{here}."
    if needs.first_batch is not None and not forecast.stalled:
        fast, slow = needs.first_batch
        yield (
            f"First batch: after {_between(fast, slow)}; each worker first reads {how_many(needs.raw_before_first, 'sample')} "
            "(assumed: storage of 2 GB/s to 100 MB/s per machine, decoding 100 to 40 megapixels per second and core)."
        )


def _between(fast: float, slow: float) -> str:
    """Return a range of seconds, as far as an estimate goes.

    >>> _between(0.004, 0.09), _between(0.04, 3.21), _between(12.0, 400.0)
    ('less than a second', 'less than a second to 3.2 s', '12 s to 7 min')
    """
    if slow < 1:
        return "less than a second"
    from_seconds = duration(fast) if fast >= 1 else "less than a second"
    return f"{from_seconds} to {duration(slow)}"
