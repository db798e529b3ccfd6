"""Changes that would bring samples back, tried on the evidence, the most effective first."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from wdsflow.readers.energon import captioning
from wdsflow.readers.open_clip.versions import OpenClip4
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import caption_name
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.text.shell import command, escape
from wdsflow.text.words import listed

from ..finding import Advice
from ..rules.kit.base import BAD_SAMPLES, Context, is_option, renamed
from ..rules.kit.shape_edits import ShapeEdits, as_caption, caption_edits, together, with_caption
from ..verdicts.verdict import Verdict
from .promises import Trial
from .training_advice import advise_training

_MOST = 8
# Takes captions from json in a webdataset pipeline, without wdsflow; to be put before ``wds.decode``.
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


def advise(context: Context, trial: Callable[[], Trial]) -> list[Advice]:
    """Return changes that would let more samples through, or let training run, for each reader.

    Every number comes from judging the samples again as they would be after the change. If the level did not read all
    contents, the text says "up to". If nothing is known without a repair, the text has no number.

    Args:
        context: the evidence and its verdicts.
        trial: returns the object that tries changes; called only if needed.
    """
    short = [verdict for verdict in context.verdicts if verdict.usable < verdict.samples]
    advice: list[Advice] = []
    for verdict in short if context.evidence.samples else ():
        found = [
            *_repairs(verdict, trial()),
            *_flags(context, verdict, trial()),
            *_own_pipeline(context, verdict, trial()),
            *_field_map(context, verdict),
        ]
        found = [each for each in found if each.usable is None or each.usable > verdict.usable]
        advice += sorted(found, key=lambda each: -each.regains)[:_MOST]
    settings = advise_training(context)
    # What ends the run comes before what it loses.
    return [*settings, *advice] if any(each.usable for each in short) else [*advice, *settings]


def read_on(verdicts: Sequence[Verdict]) -> Iterator[Advice]:
    """Yield the command that reads all samples, if a run of the user's own pipeline was ended by a limit."""
    for verdict in verdicts:
        if verdict.run is not None and verdict.run.ended_by in ("samples", "time"):
            does = f"run {escape(verdict.title, 200)} over all shards, to its own end"
            yield Advice(0, does, verdict.reader, verdict.title, reads_on=True)


def _repairs(verdict: Verdict, trial: Trial) -> Iterator[Advice]:
    """Yield the gain of each possible repair step by itself, and of the needed steps together."""
    if not trial.known:
        yield Advice(0, _plainly(trial.shards), verdict.reader, options=())
    ideas = _ideas(trial, verdict)
    plain, usable = trial.safely(verdict, ShapeEdits())
    best = least = verdict.usable if usable is None else max(usable, verdict.usable)
    tried = {plain: usable}
    for idea in ideas:
        edits, usable = trial.safely(verdict, idea)
        # Every repair includes the basic steps: an option is worth a line only if it adds to them.
        tried[edits] = usable if usable is not None and usable > least else None
        best = max(best, usable or 0)
    if len(ideas) > 1:
        edits, usable = trial.safely(verdict, together(ideas))
        if usable is not None and usable > best:
            tried[trial.needed(verdict, edits)] = usable
    for edits, usable in tried.items():
        if usable is not None and usable > verdict.usable and (edits.options() or trial.known):
            yield trial.repair(verdict, _does(edits, trial.shards), usable, edits)


# The basic steps of a repair, by tally.
_PLAIN = {
    ("key.again",): "regroup the members of each sample",
    ("name.appledouble", "name.macosx", "name.hidden"): "leave out macOS twins and dot-files",
    ("name.dotted",): "replace the dots in keys",
    (
        "tar.truncated-data",
        "tar.truncated-header",
        "tar.bad-header",
        "tar.second-archive",
    ): "recover the members after damage",
    ("tar.no-end-blocks", "tar.no-padding"): "write the end mark",
    ("name.no-field",): "leave out files without an extension",
}


def _plainly(shards: Sequence[ShardEvidence]) -> str:
    does = [
        words for names, words in _PLAIN.items() if any(shard.tally(name).count for shard in shards for name in names)
    ]
    does += ["write plain tars"] if any(shard.compression for shard in shards) else []
    does += ["leave out shards without samples"] if any(not (shard.samples or shard.error) for shard in shards) else []
    does += ["leave out unreadable shards"] if any(shard.error for shard in shards) else []
    return listed(does) or "give members names that all readers accept"


def _does(edits: ShapeEdits, shards: Sequence[ShardEvidence]) -> str:
    does = ["write a txt next to each image"] if edits.caption else []
    does += [f"rename {escape(old, 40)} to {new}" for old, new in edits.rename]
    does += [f"leave out the field {escape(name, 40)}, which drops whole samples" for name in edits.drop]
    does += [f"leave out {BAD_SAMPLES}"] if edits.drop_bad else []
    return listed(does) if does else _plainly(shards)


def _ideas(trial: Trial, verdict: Verdict) -> list[ShapeEdits]:
    captions = caption_edits(trial.repaired)
    ideas = [captions] if captions is not None else []
    ideas += [ShapeEdits(rename=((old, new),), judged=trial.judged) for old, new in trial.renames]
    aliases = trial.reader(verdict).aliases
    ideas += [ShapeEdits(rename=((old, new),)) for old, new in aliases.items() if trial.has(old)]
    for name in [name for name in trial.refused(trial.reader(verdict)) if is_option(name)][:_MOST]:
        # Readers leave fields with unknown names as bytes. Captions may come from json; gzip is unpacked.
        kept = name != "json" and not name.endswith(".gz") and renamed(name)
        ideas.append(ShapeEdits(rename=((name, renamed(name)),)) if kept else ShapeEdits(drop=(name,)))
    return ideas


def _flags(context: Context, verdict: Verdict, trial: Trial) -> Iterator[Advice]:
    """Yield flags of OpenCLIP 4, if it is judged; with a command if a training command was given."""
    if verdict.reader != "open-clip-4":
        return
    options = trial.reader(verdict).options
    unflagged = trial.as_they_are(OpenClip4(options), lambda shape, _: shape, "")
    if unflagged is None:
        return
    name = _json_caption(context.evidence.shards)
    if name is not None and name not in (options.json_text_key or "").split(";"):
        reader = OpenClip4(replace(options, json_text_key=name))
        yield from _flag(verdict, trial, trial.as_they_are(reader, as_caption, name), ("--json-text-key", name))
    for old, new in trial.renames:
        value = f"{options.text_key if new == 'txt' else options.image_key};{old}"
        changed = replace(options, text_key=value) if new == "txt" else replace(options, image_key=value)
        usable = trial.as_they_are(OpenClip4(changed), lambda shape, _: shape, "")
        yield from _flag(verdict, trial, usable, (f"--{'text' if new == 'txt' else 'image'}-key", value))


def _json_caption(shards: Sequence[ShardEvidence]) -> str | None:
    """Return the name of the captions in json; None if there are none, or if some are in nested objects or lists."""
    named = caption_name(shards)
    return named[0] if named is not None and named[1].plain == named[1].strings else None


def _flag(verdict: Verdict, trial: Trial, usable: int | None, flags: tuple[str, str]) -> Iterator[Advice]:
    if usable is not None and usable > verdict.usable:
        yield replace(trial.promise(verdict, f"train with {command(flags)}", usable), flags=flags)


def _own_pipeline(context: Context, verdict: Verdict, trial: Trial) -> Iterator[Advice]:
    """Yield stages in plain webdataset code that take captions from json, for custom loaders."""
    name = _json_caption(context.evidence.shards)
    if name is None or not verdict.reader.startswith("webdataset"):
        return
    usable = trial.as_they_are(trial.reader(verdict), with_caption, name)
    if usable is not None and usable > verdict.usable:
        found = trial.promise(verdict, "in a custom pipeline, put these stages before wds.decode", usable)
        yield replace(found, command=_CAPTION_STAGES.format(name=name), language="python")


def _field_map(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield settings of Energon that take captions from json; without a number, as it takes any value."""
    shards = context.evidence.shards
    name = _json_caption(shards)
    if verdict.reader == "energon" and name is not None and not set(name) & set("[],"):
        import yaml  # 10 ms, for few sets

        captions = [*(["txt"] if _has(shards, "txt") else []), f"json[{name}]"]
        settings = captioning([field for field in IMAGE_FIELDS if _has(shards, field)], captions)
        does = "or let Energon take captions from json, with this as .nv-meta/dataset.yaml"
        code = yaml.safe_dump(settings, sort_keys=False).rstrip()
        yield Advice(0, does, verdict.reader, command=code, language="yaml")


def _has(shards: Sequence[ShardEvidence], name: str) -> bool:
    return any(name in shard.fields for shard in shards)
