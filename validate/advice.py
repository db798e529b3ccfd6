"""What would bring samples back: changes that were tried on the evidence, the most fruitful first."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from wdsflow.shards.escape import escape

from .consumers.open_clip_4 import OpenClip4
from .counterfactuals import (
    Change,
    Outcome,
    Trial,
    any_caption,
    drop_field,
    drop_hidden,
    regrouped,
    rename,
    undot,
    write_captions,
)
from .environment import release
from .evidence import JsonKey, ShardEvidence
from .json_captions import caption_name
from .rules.base import Context, listed
from .rules.commands import quote, repair
from .rules.missing import CAPTIONS, IMAGES, is_wild
from .training_advice import Advice, advise_training
from .verdict import Verdict

_LABELS = frozenset({"cls", "label", "class", "json", "jsn"})  # no captions as they stand
_OTHER_FORMATS = frozenset({"gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jp2", "jxl", "ppm", "svg"})
_MOST = 8


@dataclass(frozen=True, slots=True)
class Idea:
    """One thing that ``wdsflow repair`` can do when it is told to."""

    does: str  # "writes a txt beside each image"
    flags: tuple[str, ...]
    change: Change
    limit: str = ""  # the json name of which only so many samples have a string
    safe: bool = True


def advise(context: Context) -> list[Advice]:
    """Return changes that would let more samples through, or let training run, for each consumer.

    Every number was found by judging the changed shapes of samples again. Where that cannot be exact the text says
    "up to".
    """
    advice: list[Advice] = []
    for verdict in context.verdicts:
        if verdict.usable < verdict.samples and context.evidence.samples:
            advice += sorted(_for_consumer(context, verdict), key=lambda each: -each.regains)[:_MOST]
    return advice + advise_training(context)


def _for_consumer(context: Context, verdict: Verdict) -> Iterator[Advice]:
    consumer = next(each for each in context.consumers if each.name == verdict.consumer)
    trial = Trial(context, context.bound(consumer), verdict.usable)
    plain, does = _plain(trial)
    if plain.gained > 0:
        yield _repair(context, verdict, plain, does)
    # Every repair does the plain things too: what a flag adds is worth a line only if it is more than those.
    best = plain.gained
    ideas = _ideas(context, trial)
    for idea in ideas:
        outcome = _tried(trial, [idea])
        if outcome.gained > plain.gained:
            best = max(best, outcome.gained)
            yield _repair(context, verdict, outcome, idea.does, idea.flags, safe=idea.safe)
    needed, together = _together(trial, ideas)
    if together.gained > best:
        flags = tuple(word for idea in needed for word in idea.flags)
        does = listed([idea.does for idea in needed])
        yield _repair(context, verdict, together, does, flags, safe=all(idea.safe for idea in needed))
    yield from _flags(context, verdict, trial)
    yield from _own_pipeline(context, verdict, trial)
    yield from _salvage(context, verdict)


def _plain(trial: Trial) -> tuple[Outcome, str]:
    """Return what ``wdsflow repair`` brings without flags, and by what."""
    hidden, dots, apart = trial.try_out(drop_hidden), trial.try_out(undot), regrouped(trial)
    both = trial.try_out(drop_hidden, undot)
    if apart.gained > both.gained:
        return apart, "brings the parts of each sample together"
    parts = ["leaves macOS twins and dot-files out"] if hidden.gained > 0 else []
    parts += ["replaces the dots in keys"] if dots.gained > 0 else []
    return both, " and ".join(parts) or "cleans member names"


def _tried(trial: Trial, ideas: list[Idea]) -> Outcome:
    changes = [drop_hidden, undot, *(idea.change for idea in ideas)]
    names = [idea.limit for idea in ideas if idea.limit]
    if names and len(ideas) == 1:
        return trial.try_out(*changes, limit=lambda shard: _strings(shard, names[0]))
    return replace(trial.try_out(*changes), bound=bool(names))


def _together(trial: Trial, ideas: list[Idea]) -> tuple[list[Idea], Outcome]:
    """Return the ideas that are needed for what all of them together bring, and what that is."""
    needed, outcome = list(ideas), _tried(trial, ideas)
    for idea in ideas:
        others = [each for each in needed if each is not idea]
        without = _tried(trial, others)
        if without.gained >= outcome.gained:
            needed, outcome = others, without
    return needed, outcome


def _strings(shard: ShardEvidence, name: str) -> int:
    """Return how many captions a json name can give at the most: those beside an image, once parts are together."""
    entry = shard.json_keys.get(name)
    if entry is None:
        return 0
    parted = shard.visible_runs is not None or any(shard.tally(each).count for each in ("name.dotted", "key.again"))
    return entry.strings if parted else entry.with_image


def _ideas(context: Context, trial: Trial) -> list[Idea]:
    ideas = []
    named = caption_name(context.evidence.shards)
    if named is not None:
        flags = ("--caption", f"json:{named[0]}")
        ideas.append(Idea("writes a txt beside each image", flags, write_captions, named[0]))
    for old, new in _renames(context):
        ideas.append(Idea(f"renames {escape(old, 40)} to {new}", ("--rename", f"{old}={new}"), rename(old, new)))
    for name in _poison(context, trial, [idea.change for idea in ideas]):
        does = f"leaves the field {escape(name, 40)} out, which drops whole samples"
        ideas.append(Idea(does, ("--drop-field", name), drop_field(name), safe=False))
    return ideas


def with_image(shard: ShardEvidence, name: str) -> int:
    """Return how many samples of a shard have a decodable image and a string under a json name."""
    entry = shard.json_keys.get(name)
    return entry.with_image if entry is not None else 0


def _renames(context: Context) -> Iterator[tuple[str, str]]:
    """Yield fields that may be a caption or an image under another name, with the usual name."""
    seen: dict[str, str] = {}
    for shard in context.evidence.shards:
        for name in shard.fields:
            last = name.removesuffix(".gz").rpartition(".")[2]
            if name in seen or name in ("txt", "jpg", "png", "jpeg", "webp") or is_wild(shard, name):
                continue
            if last in CAPTIONS and last not in _LABELS:
                seen[name] = "txt"
            elif last in IMAGES and last not in _OTHER_FORMATS:
                seen[name] = last if last in ("png", "jpeg", "webp") else "jpg"
    yield from seen.items()


def _poison(context: Context, trial: Trial, changes: list[Change]) -> list[str]:
    """Return the fields that no reader needs and that cost samples because they do not decode.

    Looked for after the other changes too: before them a filter may have dropped those samples already.
    """
    names: dict[str, None] = {}
    for shard, shapes in zip(context.evidence.shards, trial.shapes, strict=True):
        changed = shapes
        for change in (drop_hidden, undot, *changes):
            changed = change(shard, changed)
        for shape in (*shapes, *changed):
            for fate in context.fates(trial.consumer, shape):
                if fate.reason == "bad-field" and fate.detail:
                    names[fate.detail.lower()] = None
    return list(names)[:_MOST]


def _repair(
    context: Context, verdict: Verdict, outcome: Outcome, does: str, flags: tuple[str, ...] = (), *, safe: bool = True
) -> Advice:
    command = repair(context.targets(), *flags).command
    return _advice(verdict, outcome, f"wdsflow repair {does}", command, safe=safe)


def _advice(verdict: Verdict, outcome: Outcome, what: str, command: str, *, safe: bool = True) -> Advice:
    title = verdict.title.split(" (")[0]
    some = "up to " if outcome.bound else ""
    text = (
        f"{what}: {some}{outcome.usable:,} of {verdict.samples:,} samples would pass in {title}, now {verdict.usable:,}"
    )
    return Advice(outcome.gained, text, command, verdict.consumer, safe)


def _flags(context: Context, verdict: Verdict, trial: Trial) -> Iterator[Advice]:
    """Yield flags of OpenCLIP 4: as commands where it is installed or asked for, else as a remark."""
    if not verdict.consumer.startswith("open-clip"):
        return
    at_hand = "open-clip-4" in context.names() or release(context.environment.get("open_clip_torch", "")) >= (4,)
    if "open-clip-4" in context.names() and verdict.consumer != "open-clip-4":
        return  # said once, for OpenCLIP 4
    options = trial.consumer.options
    unflagged = trial.read_by(OpenClip4(options))
    named = caption_name(context.evidence.shards)
    if named is not None and _is_plain(named[1]) and named[0] not in (options.json_text_key or "").split(";"):
        name = named[0]
        reader = OpenClip4(replace(options, json_text_key=name))
        outcome = trial.read_by(reader, any_caption, ceiling=lambda shard: with_image(shard, name))
        if outcome.gained > unflagged.gained:
            yield _flag(verdict, outcome, f"--json-text-key {quote(name)}", at_hand=at_hand)
    for old, new in _renames(context):
        value = f"{options.text_key if new == 'txt' else options.image_key};{old}"
        changed = replace(options, text_key=value) if new == "txt" else replace(options, image_key=value)
        outcome = trial.read_by(OpenClip4(changed))
        if outcome.gained > unflagged.gained:
            words = f"--{'text' if new == 'txt' else 'image'}-key {quote(value)}"
            yield _flag(verdict, outcome, words, at_hand=at_hand)


def _is_plain(found: JsonKey) -> bool:
    return found.plain == found.strings


def _flag(verdict: Verdict, outcome: Outcome, words: str, *, at_hand: bool) -> Advice:
    if at_hand:
        return _advice(verdict, outcome, f"training with {words} (OpenCLIP 4)", words)
    would = f"{outcome.usable:,} of {verdict.samples:,} samples would pass"
    return Advice(outcome.gained, f"training with {words}: {would} (from OpenCLIP 4 on)", "", verdict.consumer)


def _own_pipeline(context: Context, verdict: Verdict, trial: Trial) -> Iterator[Advice]:
    """Yield the stage in plain webdataset code that takes captions from json, for people with a loader of their own."""
    named = caption_name(context.evidence.shards)
    if named is None or verdict.consumer not in ("open-clip-3.3", "open-clip-4", "webdataset-1"):
        return
    if not _is_plain(named[1]):
        return  # no line of code that one would want to paste
    name = named[0]
    outcome = trial.try_out(write_captions, limit=lambda shard: with_image(shard, name))
    if outcome.gained <= 0:
        return
    code = f'wds.map(lambda s: {{**s, "txt": str(json.loads(s["json"]).get({name!r}) or "").encode()}})'
    yield _advice(verdict, outcome, "in your own pipeline, this stage in front of the filter and of wds.decode", code)


def _salvage(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield what lies behind damage at which readers stop."""
    lost = sum(shard.unreached for shard in context.evidence.shards)
    if lost:
        outcome = Outcome(verdict.usable + lost, lost, bound=True)
        command = repair(context.targets()).command
        yield _advice(verdict, outcome, "wdsflow repair keeps the samples behind damage and second archives", command)
