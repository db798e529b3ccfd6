"""Fixes in messages: wdsflow train options for fields, commands for a sample or a shard that hangs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import NamedTuple

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES, caption_name, json_names
from wdsflow.shards.shard import Shard
from wdsflow.shards.urls import NEED_NO_COMMAND
from wdsflow.text.secrets import redact
from wdsflow.text.shell import command as join
from wdsflow.text.shell import escape
from wdsflow.text.shell import quote_path as quote
from wdsflow.text.words import how_many, listed
from wdsflow.training.caption_sources import Captions, parse_captions
from wdsflow.training.columns import IMAGE, TEXT, parse_fields
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.ranks import launcher_words, rank_and_world
from wdsflow.training.sample_tasks import Reading, Task

# Arguments of ``wdsflow.feed`` by their names in OpenCLIP.
_ARGUMENTS = {"train_data": "shards", "workers": "FeedOptions(decoders=...)"}
# Options of the feed that are no flags of the command.
_NOT_FLAGS = frozenset({"argv", "dry_run"})
_ALSO_OF_CALL = (
    "ledger",
    "where",
    "join",
    "join_on",
    "join_set",
    "caption_probs",
    "cache",
    "cache_size",
)
_OF_CALL = frozenset({"fields", "image", "caption", *_ALSO_OF_CALL})
_NOT_TEXT = frozenset({"json", "jsn", "cls", "label", "class"})
# Names of json that are listed.
_MOST_NAMES = 12
# Samples that are listed.
_MOST = 8
# Decoders and readers, and functions of a stack.
_SHOWN = 3


def command(
    options: FeedOptions, *flags: str, **changed: str | bool | tuple[str, ...] | None
) -> str:
    """Return the command of this run with all options that differ from their defaults, some of them changed.

    For a custom loop, which has no command line, it is a Python expression.

    >>> command(FeedOptions(k=3.0, argv=("--workers", "2")), caption="json:alt")
    'wdsflow train --caption json:alt --k 3 -- --workers 2'
    >>> command(FeedOptions(k=3.0), caption="json:alt")
    'FeedOptions(caption="json:alt", k=3.0)'

    Args:
        options: of this run.
        flags: further flags.
        changed: other values of options; None omits one.
    """
    values: dict[str, object] = {}
    for item in fields(options):
        value = changed.get(item.name, getattr(options, item.name))
        if value != item.default:
            values[item.name] = value
    if options.fields:
        return _call(options, values)
    if not options.argv:
        return _settings(values)
    words = list(dict.fromkeys(["--dry-run", *flags] if options.dry_run else flags))
    for name, value in values.items():
        if name in _NOT_FLAGS:
            continue
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, tuple):
            for part in value:
                words += flag, str(part)
            continue
        words.append(flag)
        if isinstance(value, float):
            words.append(f"{value:g}")
        elif value is not True:
            words.append(str(value))
    argv = join(options.argv)
    world = rank_and_world()[1]
    as_first = ["env", "RANK=0", f"WORLD_SIZE={world}"] if world > 1 else []
    launcher = as_first if "--dry-run" in words else launcher_words()
    return " ".join([*launcher, "wdsflow train", *([join(words)] if words else []), "--", argv])


def pipe_fixes(options: FeedOptions, *flags: str) -> Iterator[str]:
    """Yield how to allow the commands of ``pipe:`` urls, and how to do without. ``flags``: further ones."""
    yield f"if it may run: {command(options, *flags, allow_pipe=True)}"
    yield NEED_NO_COMMAND


def _settings(values: Mapping[str, object]) -> str:
    return f"FeedOptions({', '.join(f'{name}={_literal(name, value)}' for name, value in values.items())})"


def _call(options: FeedOptions, values: dict[str, object]) -> str:
    """Return the call of ``wdsflow.feed`` with these options, as far as they are known.

    >>> command(FeedOptions(fields=("jpg", "txt")), caption="json:alt")
    'wdsflow.feed(..., fields=("jpg", "json:alt"))'
    """
    columns = parse_fields(options.fields)
    fields = list(options.fields)
    for name, number in (("image", IMAGE), ("caption", TEXT)):
        if name in values and number in columns.order:
            fields[columns.order.index(number)] = str(values[name])
    words = ["..."]
    if fields != list(options.fields):
        words.append(
            f"fields=({', '.join(_literal('fields', field) for field in fields)}{',' * (len(fields) == 1)})"
        )
    words += [f"{name}={_literal(name, values[name])}" for name in _ALSO_OF_CALL if name in values]
    rest = {name: value for name, value in values.items() if name not in _OF_CALL}
    return f"wdsflow.feed({', '.join([*words, f'options={_settings(rest)}'] if rest else words)})"


def _literal(name: str, value: object) -> str:
    """Return a value as Python code, strings in double quotes."""
    if name == "join_set" and isinstance(value, tuple):
        items = []
        for part in value:
            target, _, column = part.partition("=")
            items.append(f"{_literal('', target)}: {_literal('', column)}")
        return f"{{{', '.join(items)}}}"
    if name == "caption_probs":
        return f"({value})"
    if not isinstance(value, str) or name in {"stall_after", "decoders"}:
        return str(value)
    text = repr(redact(value))
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def argument(options: FeedOptions, name: str) -> str:
    """Return the user's name of an OpenCLIP argument: a flag, or an item of a custom loop's ``args``.

    >>> argument(FeedOptions(), "batch_size"), argument(FeedOptions(argv=("--workers", "2")), "batch_size")
    ('args["batch_size"]', '--batch-size')
    """
    if options.fields:
        return _ARGUMENTS.get(name, name)
    return f"--{name.replace('_', '-')}" if options.argv else f'args["{name}"]'


def processes_named(options: FeedOptions, *, recognised: bool) -> str:
    """Return the user's name of the number of decoding processes. ``recognised``: the transform is one of OpenCLIP's.

    >>> processes_named(FeedOptions(), recognised=True), processes_named(FeedOptions(argv=("--seed", "2")), recognised=False)
    ('FeedOptions(decoders=...)', '--workers')
    """
    if not recognised and not options.fields:
        return argument(options, "workers")
    return "--decoders" if options.argv else "FeedOptions(decoders=...)"


def resumed(options: FeedOptions) -> str:
    """Return the command that resumes training at its last checkpoint."""
    if options.fields:
        return "feed.load_state_dict(state)"
    if options.argv:
        return f"{command(options)} --resume latest"
    return "dataloader.load_state_dict(state)"


def caption_fixes(
    options: FeedOptions, names: Sequence[str], peeked: Sequence[ShardEvidence]
) -> Iterator[str]:
    """Yield commands that find captions elsewhere: in JSON, or in a member of another name.

    ``names``: fields of the shards. ``peeked``: shards whose JSON was read.
    """
    best = caption_name(peeked)
    if best is not None and not set("|;") & set(best[0]):
        name, entry = best
        member = "json" if "json" in names else "jsn"
        samples = sum(shard.samples for shard in peeked)
        where = f"captions are in {member}, {escape(name, 60)} ({entry.strings:,} of {samples:,} checked samples)"
        yield f"{where}: {command(options, caption=_also(options, names, f'{member}:{name}'))}"
    text = _likeliest(names, [name for name in CAPTIONS if name not in _NOT_TEXT])
    if text:
        yield f"captions may be in {escape(text, 40)}: {command(options, caption=_also(options, names, text))}"


def _also(options: FeedOptions, names: Sequence[str], location: str) -> str:
    """Return a location of captions, after the requested one if only these shards may lack that."""
    if options.caption is None or set(parse_captions(options.caption).members) & set(names):
        return location
    return f"{options.caption}|{location}"


def image_fixes(options: FeedOptions, names: Sequence[str]) -> Iterator[str]:
    """Yield the command that finds images under an unusual name."""
    image = likely_image(names)
    if image:
        yield f"images may be in {escape(image, 40)}: {command(options, image=image)}"


def likely_image(names: Sequence[str]) -> str:
    """Return the field that may hold images under an unusual name, "" if none does."""
    return _likeliest(names, IMAGES)


def requested_captions(options: FeedOptions) -> Captions | None:
    """Return where the captions of a run are looked for; None if it takes none."""
    if options.fields:
        return parse_fields(options.fields).captions
    return parse_captions(options.caption or "txt")


def wrong_names(captions: Captions, peeked: Sequence[ShardEvidence]) -> str:
    """Return the problem if none of the JSON names for captions has text, with the names that are there; "" if one has."""
    held = json_names(peeked)
    looked = [
        name
        for source in captions.sources
        if not isinstance(source, str)
        for name in source.json_text_key
    ]
    for name in looked:
        top = name.partition(".")[0]
        entry = held.get(name) or held.get(top)
        if entry is not None and (entry.strings or name != top or entry.count > entry.strings):
            # A nested name, or a list, may hold captions.
            return ""
    samples = sum(shard.samples for shard in peeked)
    problem = f"no json of {samples:,} checked samples has {' or '.join(escape(name, 60) for name in looked)}"
    with_text = {name: key.strings for name, key in held.items() if key.strings}
    if with_text:
        return f"{problem}; it has text in {_most_frequent(with_text)}"
    without_text = {name: key.count for name, key in held.items()}
    if without_text:
        return f"{problem}; it has {_most_frequent(without_text)}, without text"
    return problem


def _most_frequent(counts: Mapping[str, int]) -> str:
    names = sorted(counts, key=lambda name: (-counts[name], name))
    shown = [escape(name, 40) for name in names[:_MOST_NAMES]]
    more = [f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return listed([*shown, *more])


def _likeliest(names: Sequence[str], usual: Sequence[str]) -> str:
    ranked = [
        (usual.index(last), name) for name in names if (last := name.rpartition(".")[2]) in usual
    ]
    return min(ranked)[1] if ranked else ""


class BusyWith(NamedTuple):
    """A decoder that has been at one sample for some time."""

    # "decoder 1 (process 4242)".
    who: str
    # One; several if unknown which; none between two.
    tasks: Sequence[Task]
    seconds: float
    # Function names, innermost first.
    stack: Sequence[str] = ()
    # By a signal.
    stopped: bool = False
    # It is in the tokenizer.
    tokens: bool = False


def at(tasks: Sequence[Task], *, tokens: bool = False) -> str:
    """Return the names of samples and their shards."""
    parts = []
    for shard, group in groupby(tasks[:_MOST], lambda task: task.ref.shard):
        keys = ", ".join(f"'{escape(task.ref.key, 60)}'" for task in group)
        parts.append(f"{keys} of {escape(shard, 300)}")
    more = f" and {len(tasks) - _MOST:,} more" if len(tasks) > _MOST else ""
    one = "sample" if len(tasks) == 1 else "one of the samples"
    return f"{'the tokens of ' if tokens else ''}{one} {', '.join(parts)}{more}"


def without(task: Task) -> Iterator[str]:
    """Yield the command that writes a shard without one sample."""
    key, shard = task.ref.key, task.ref.shard
    if key.isprintable():
        text = key.replace("\\", "\\\\").replace('"', '\\"')
        pipe = "--allow-pipe " if shard.is_pipe else ""
        where = quote(f'key != "{text}"')
        yield f"train on its shard without this sample: wdsflow filter {quote(shard)} {pipe}-o without --where {where}"


def inspect(shard: Shard) -> str:
    """Return the command that shows whether a shard can be read."""
    return _on_shard("inspect", shard)


def validate(shard: Shard) -> str:
    """Return the command that reports what is wrong with a shard."""
    return _on_shard("validate", shard)


def _on_shard(command: str, shard: Shard) -> str:
    allowed = " --allow-pipe" if shard.startswith("pipe:") else ""
    return f"wdsflow {command} {quote(shard)}{allowed}"


def hanging(busy: Sequence[BusyWith], reading: Sequence[Reading]) -> Iterator[str]:
    """Yield lines on hanging decoders and shards. Decoders in foreign code come first: the others may wait for them."""
    for decoder in sorted(busy, key=_blame)[:_SHOWN]:
        where = (
            f"at {at(decoder.tasks, tokens=decoder.tokens)}"
            if decoder.tasks
            else "between two samples"
        )
        frames = ", called by ".join(escape(frame, 200) for frame in decoder.stack[:_SHOWN])
        how = "has been stopped by a signal" if decoder.stopped else "has been"
        yield f"{decoder.who} {how} {where} for {decoder.seconds:,.0f} s{f', in {frames}' if frames else ''}."
    for item in reading[:_SHOWN]:
        last = (
            f" after {how_many(item.samples, 'sample')}, the last of them '{escape(item.key, 60)}'"
        )
        yield f"{escape(item.shard, 300)} has given nothing for {item.seconds:,.0f} s{last if item.samples else ''}."
    more = len(busy[_SHOWN:]) + len(reading[_SHOWN:])
    if more:
        yield f"{more:,} more decoders or shards hang."


def hanging_fixes(
    busy: Sequence[BusyWith], reading: Sequence[Reading], options: FeedOptions
) -> Iterator[str]:
    """Yield fixes for decoders and shards that hang."""
    if any(decoder.stopped for decoder in busy):
        yield f"do not stop decoders; from the last checkpoint: {resumed(options)}"
    for decoder in sorted(busy, key=_blame)[:1]:
        if not decoder.stopped and len(decoder.tasks) == 1:
            yield from without(decoder.tasks[0])
    for item in reading[:1]:
        yield f"see whether it answers: timeout 60 {inspect(item.shard)}"


def _blame(busy: BusyWith) -> tuple[bool, float]:
    return not busy.stack, -busy.seconds
