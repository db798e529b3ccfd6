"""Changes that would bring samples back, tried on the evidence, the most effective first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.readers.energon_dataset import captioning
from wdsflow.readers.open_clip.versions import OpenClip4
from wdsflow.readers.shared_keys import continued_shards
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.scan.naming import caption_name
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.text.shell import command, escape

from ..finding import Advice
from ..rules.kit.base import Context
from ..rules.kit.shape_edits import (
    Edit,
    as_caption,
    changed,
    is_known,
    is_plain,
    other_names,
    with_caption,
)
from ..verdicts.judge import judge
from ..verdicts.verdict import Verdict
from .repair_advice import advise_repair, promise, why_no_repair
from .repair_forecast import RepairForecast
from .training_advice import advise_defaults, advise_training

# Takes captions from json in a webdataset pipeline, without wdsflow; to be put before
# ``wds.decode``.
_CAPTION_STAGES = """\
import json
import webdataset as wds

def is_text(data):
    try:
        return bool(data.decode().strip())
    except UnicodeDecodeError:
        return False

def with_caption(sample):
    try:
        caption = json.loads(sample["json"])[{name!r}].strip().encode()
    except (AttributeError, KeyError, TypeError, ValueError):  # no json, or no text under that name
        return sample
    return {{**sample, "txt": caption}} if caption and not is_text(sample.get("txt", b"")) else sample

def is_complete(sample):
    return "txt" in sample and not {{"jpg", "png", "jpeg", "webp"}}.isdisjoint(sample)

stages = [wds.map(with_caption), wds.select(is_complete)]"""


def advise(context: Context, forecast: RepairForecast) -> list[Advice]:
    """Return changes that would let more samples through, or let training run, for each reader.

    Every number comes from judging the samples again as they would be after the change. If the
    level did not read all contents, the text says "up to". If nothing is known without a repair,
    the text has no number.

    Args:
        context: the evidence and its verdicts.
        forecast: predicts repairs of the same shards.
    """
    short = [
        verdict
        for verdict in context.verdicts
        if verdict.usable < verdict.samples or verdict.outcome == "crashes"
    ]
    advice: list[Advice] = []
    shards = context.evidence.shards
    if (short or forecast.empty_captions()) and context.evidence.samples:
        repair = advise_repair(context, forecast)
        advice += repair.advice
        shards = repair.after
        for verdict in short:
            others = [
                *_flags(context, verdict),
                *_own_pipeline(context, verdict),
                *_field_map(context, verdict),
            ]
            advice += [
                each for each in others if each.usable is None or each.usable > verdict.usable
            ]
            # What ends a command is answered by settings.
            is_of_samples = verdict.reasons and verdict.reasons[0].slug != "forecast"
            if is_of_samples and not any(each.reader == verdict.reader for each in advice):
                advice.append(why_no_repair(verdict))
    settings = (
        advise_training(context)
        if context.arguments is not None
        else advise_defaults(context, shards)
    )
    # What ends the run comes before what it loses.
    is_first = context.arguments is not None and any(each.usable for each in short)
    return [*settings, *advice] if is_first else [*advice, *settings]


def read_on(verdicts: Sequence[Verdict]) -> Iterator[Advice]:
    """Yield the command that reads all samples, if a run of the user's own pipeline was ended by a limit."""
    for verdict in verdicts:
        if verdict.run is not None and verdict.run.ended_by in ("samples", "time"):
            does = f"run {escape(verdict.title, 200)} over all shards, to its own end"
            yield Advice(0, does, verdict.reader, verdict.title, reads_on=True)


def _flags(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield flags of OpenCLIP 4, if it is judged; with a command if a training command was given."""
    if verdict.reader != "open-clip-4":
        return
    options = _reader(context, verdict).options
    unflagged = _as_they_are(context, OpenClip4(options), lambda shape, _: shape)
    if unflagged is None:
        return
    name = _json_caption(context.evidence.shards)
    if name is not None and name not in (options.json_text_key or "").split(";"):
        reader = OpenClip4(replace(options, json_text_key=name))
        usable = _as_they_are(context, reader, as_caption, name)
        yield from _flag(context, verdict, usable, ("--json-text-key", name))
    for old, new in other_names(context.evidence.shards).items():
        value = f"{options.text_key if new == 'txt' else options.image_key};{old}"
        changed = (
            replace(options, text_key=value) if new == "txt" else replace(options, image_key=value)
        )
        usable = _as_they_are(context, OpenClip4(changed), lambda shape, _: shape)
        yield from _flag(
            context, verdict, usable, (f"--{'text' if new == 'txt' else 'image'}-key", value)
        )


def _reader(context: Context, verdict: Verdict) -> Reader:
    return next(reader for reader in context.readers if reader.name == verdict.reader)


def _as_they_are(context: Context, reader: Reader, edit: Edit, caption: str = "") -> int | None:
    """Return how many samples reach a batch if samples are changed on their way to a reader.

    None if the reader would or might raise an error, or if samples continue from one shard to the
    next.
    """
    shards = context.evidence.shards
    if not is_plain(shards) or continued_shards(shards):
        return None
    edited = changed(shards, edit, caption)
    if reader.raises and not is_known(edited):
        return None
    unreadable = [shard for shard in shards if shard.error is not None]
    verdict = judge(Evidence(context.evidence.level, [*unreadable, *edited]), reader)
    return None if verdict.outcome == "crashes" else verdict.usable


def _json_caption(shards: Sequence[ShardEvidence]) -> str | None:
    """Return the name of the captions in json; None if there are none, or if some are in nested objects or lists."""
    named = caption_name(shards)
    return named[0] if named is not None and named[1].plain == named[1].strings else None


def _flag(
    context: Context, verdict: Verdict, usable: int | None, flags: tuple[str, str]
) -> Iterator[Advice]:
    if usable is not None and usable > verdict.usable:
        exact = is_known(context.evidence.shards)
        yield replace(
            promise(verdict, f"train with {command(flags)}", usable, exact=exact), flags=flags
        )


def _own_pipeline(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield stages in plain webdataset code that take captions from json, for custom loaders."""
    name = _json_caption(context.evidence.shards)
    if name is None or not verdict.reader.startswith("webdataset"):
        return
    usable = _as_they_are(context, _reader(context, verdict), with_caption, name)
    if usable is not None and usable > verdict.usable:
        does = "in a custom pipeline, put these stages before wds.decode"
        advice = promise(verdict, does, usable, exact=is_known(context.evidence.shards))
        yield replace(advice, command=_CAPTION_STAGES.format(name=name), language="python")


def _field_map(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield settings of Energon that take captions from json; without a number, as it takes any value."""
    shards = context.evidence.shards
    name = _json_caption(shards)
    if verdict.reader == "energon" and name is not None and not set(name) & set("[],"):
        # 10 ms, for few sets.
        import yaml

        captions = [*(["txt"] if _has(shards, "txt") else []), f"json[{name}]"]
        settings = captioning([field for field in IMAGE_FIELDS if _has(shards, field)], captions)
        does = "or let Energon take captions from json, with this as .nv-meta/dataset.yaml"
        code = yaml.safe_dump(settings, sort_keys=False).rstrip()
        yield Advice(0, does, verdict.reader, command=code, language="yaml")


def _has(shards: Sequence[ShardEvidence], name: str) -> bool:
    return any(name in shard.fields for shard in shards)
