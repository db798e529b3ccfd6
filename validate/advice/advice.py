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
from ..rules.kit.edited_evidence import changed
from ..rules.kit.other_names import other_names
from ..rules.kit.shape_edits import CAPTION, Edit, as_caption, is_known, is_plain, with_caption
from ..verdicts.judge import judge
from ..verdicts.verdict import Verdict
from .repair_advice import advise_repair, promise, why_no_repair
from .repair_forecast import RepairForecast
from .training_advice import advise_defaults, advise_training

# Takes captions from json in a webdataset pipeline, without
# wdsflow; to be put before ``wds.decode``.
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
    except (AttributeError, KeyError, TypeError, ValueError):
        # No json, or no text under that name.
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
    # Verdicts with a loss.
    lossy = [verdict for verdict in context.verdicts if _loses(verdict)]
    advice: list[Advice] = []
    shards = context.evidence.shards
    if context.evidence.samples and (lossy or forecast.empty_captions()):
        repair = advise_repair(context, forecast)
        advice += repair.advice
        shards = repair.after
        for verdict in lossy:
            advice += _without_repair(context, verdict)
            # What ends a command is answered by settings.
            is_of_samples = verdict.reasons and verdict.reasons[0].slug != "forecast"
            if is_of_samples and not any(other.reader == verdict.reader for other in advice):
                advice.append(why_no_repair(verdict))
    if context.arguments is None:
        return [*advice, *advise_defaults(context, shards)]
    settings = advise_training(context)
    if any(verdict.usable for verdict in lossy):
        # What ends the run comes before what it loses.
        return [*settings, *advice]
    return [*advice, *settings]


def read_on(verdicts: Sequence[Verdict]) -> Iterator[Advice]:
    """Yield the command that reads all samples, if a run of the user's own pipeline was ended by a limit."""
    for verdict in verdicts:
        if verdict.run is not None and verdict.run.ended_by in ("samples", "time"):
            does = f"run {escape(verdict.title, 200)} over all shards, to its own end"
            yield Advice(0, does, verdict.reader, verdict.title, reads_on=True)


def _loses(verdict: Verdict) -> bool:
    return verdict.usable < verdict.samples or verdict.outcome == "crashes"


def _without_repair(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield changes of the reader, in place of the shards, that bring it more samples."""
    yield from _flags(context, verdict)
    yield from _own_pipeline(context, verdict)
    yield from _field_map(context, verdict)


def _flags(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield flags of OpenCLIP 4, if it is judged; with a command if a training command was given."""
    if verdict.reader != "open-clip-4":
        return
    options = context.reader_named(verdict.reader).options
    unflagged = _as_they_are(context, OpenClip4(options), lambda shape, _: shape)
    if unflagged is None:
        return
    name = _json_caption(context.evidence.shards)
    if name is not None and name not in (options.json_text_key or "").split(";"):
        reader = OpenClip4(replace(options, json_text_key=name))
        usable = _as_they_are(context, reader, as_caption, name)
        yield from _flag(context, verdict, usable, ("--json-text-key", name))
    for old, new in other_names(context.evidence.shards).items():
        if new == CAPTION:
            flag = ("--text-key", f"{options.text_key};{old}")
            reader = OpenClip4(replace(options, text_key=flag[1]))
        else:
            flag = ("--image-key", f"{options.image_key};{old}")
            reader = OpenClip4(replace(options, image_key=flag[1]))
        usable = _as_they_are(context, reader, lambda shape, _: shape)
        yield from _flag(context, verdict, usable, flag)


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
    best = caption_name(shards)
    if best is None:
        return None
    name, entry = best
    return name if entry.plain == entry.strings else None


def _flag(
    context: Context, verdict: Verdict, usable: int | None, flags: tuple[str, str]
) -> Iterator[Advice]:
    """Yield a flag of the training command if more samples are usable with it."""
    if usable is None or usable <= verdict.usable:
        return
    exact = is_known(context.evidence.shards)
    advice = promise(verdict, f"train with {command(flags)}", usable, exact=exact)
    yield replace(advice, flags=flags)


def _own_pipeline(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield stages in plain webdataset code that take captions from json, for custom loaders."""
    name = _json_caption(context.evidence.shards)
    if name is None or not verdict.reader.startswith("webdataset"):
        return
    usable = _as_they_are(context, context.reader_named(verdict.reader), with_caption, name)
    if usable is not None and usable > verdict.usable:
        does = "in a custom pipeline, put these stages before wds.decode"
        advice = promise(verdict, does, usable, exact=is_known(context.evidence.shards))
        yield replace(advice, command=_CAPTION_STAGES.format(name=name), language="python")


def _field_map(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield settings of Energon that take captions from json; without a number, as it takes any value."""
    shards = context.evidence.shards
    name = _json_caption(shards)
    # In its settings, these letters separate names.
    if verdict.reader != "energon" or name is None or not set(name).isdisjoint("[],"):
        return
    # 10 ms, for few sets.
    import yaml

    images = [field for field in IMAGE_FIELDS if _has(shards, field)]
    captions = [CAPTION] if _has(shards, CAPTION) else []
    settings = captioning(images, [*captions, f"json[{name}]"])
    does = "or let Energon take captions from json, with this as .nv-meta/dataset.yaml"
    code = yaml.safe_dump(settings, sort_keys=False).rstrip()
    yield Advice(0, does, verdict.reader, command=code, language="yaml")


def _has(shards: Sequence[ShardEvidence], name: str) -> bool:
    return any(name in shard.fields for shard in shards)
