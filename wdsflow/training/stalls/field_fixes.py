"""Fixes in messages: wdsflow train options for fields, commands for a hanging sample or shard."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

from wdsflow.scan.caption_names import caption_name, json_names
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES
from wdsflow.shards.shard import Shard
from wdsflow.shards.urls import NEED_NO_COMMAND
from wdsflow.stages.caption_sources import Captions, parse_captions
from wdsflow.text.secrets import redact
from wdsflow.text.shell import command as join
from wdsflow.text.shell import escape
from wdsflow.text.shell import quote_path as quote
from wdsflow.text.words import enumeration
from wdsflow.training.columns import IMAGE, TEXT, parse_fields
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.ranks import launcher_words, rank_and_world

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


def rerun_command(
    options: FeedOptions, *flags: str, **changed: str | bool | tuple[str, ...] | None
) -> str:
    """Return the command of this run with all non-default options, some of them changed.

    For a custom loop, which has no command line, it is a Python expression.

    >>> rerun_command(FeedOptions(k=3.0, argv=("--workers", "2")), caption="json:alt")
    'wdsflow train --caption json:alt --k 3 -- --workers 2'
    >>> rerun_command(FeedOptions(k=3.0), caption="json:alt")
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
    if options.dry_run:
        flags = ("--dry-run", *flags)
    words = list(dict.fromkeys(flags))
    for name, value in values.items():
        if name not in _NOT_FLAGS:
            words += _flag_words(name, value)
    parts = ["wdsflow train"]
    if words:
        parts.append(join(words))
    parts += ["--", join(options.argv)]
    return " ".join([*_launcher(dry_run="--dry-run" in words), *parts])


def _flag_words(name: str, value: object) -> list[str]:
    """Return an option of ``wdsflow train`` as words; one of several values is repeated."""
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, tuple):
        words: list[str] = []
        for part in value:
            words += flag, str(part)
        return words
    if value is True:
        return [flag]
    return [flag, f"{value:g}" if isinstance(value, float) else str(value)]


def _launcher(*, dry_run: bool) -> list[str]:
    """Return the words before ``wdsflow train``.

    A dry run needs no other ranks. It is run as the first rank.
    """
    if not dry_run:
        return list(launcher_words())
    _, world_size = rank_and_world()
    return ["env", "RANK=0", f"WORLD_SIZE={world_size}"] if world_size > 1 else []


def pipe_fixes(options: FeedOptions, *flags: str) -> Iterator[str]:
    """Yield how to allow the commands of ``pipe:`` urls, and how to do without them.

    ``flags``: further flags.
    """
    yield f"if it may run: {rerun_command(options, *flags, allow_pipe=True)}"
    yield NEED_NO_COMMAND


def _settings(values: Mapping[str, object]) -> str:
    """Return options as Python code."""
    arguments = [f"{name}={_literal(name, value)}" for name, value in values.items()]
    return f"FeedOptions({', '.join(arguments)})"


def _call(options: FeedOptions, values: dict[str, object]) -> str:
    """Return the call of ``wdsflow.feed`` with these options, as far as they are known.

    >>> rerun_command(FeedOptions(fields=("jpg", "txt")), caption="json:alt")
    'wdsflow.feed(..., fields=("jpg", "json:alt"))'
    """
    columns = parse_fields(options.fields)
    fields = list(options.fields)
    for name, number in (("image", IMAGE), ("caption", TEXT)):
        if name in values and number in columns.order:
            fields[columns.order.index(number)] = str(values[name])
    arguments = ["..."]
    if fields != list(options.fields):
        literals = ", ".join(_literal("fields", field) for field in fields)
        if len(fields) == 1:
            # As Python writes a tuple of one.
            literals += ","
        arguments.append(f"fields=({literals})")
    named = [name for name in _ALSO_OF_CALL if name in values]
    arguments += [f"{name}={_literal(name, values[name])}" for name in named]
    rest = {name: value for name, value in values.items() if name not in _OF_CALL}
    if rest:
        arguments.append(f"options={_settings(rest)}")
    return f"wdsflow.feed({', '.join(arguments)})"


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
    if text[0] == "'" and '"' not in text:
        return f'"{text[1:-1]}"'
    return text


def argument_name(options: FeedOptions, name: str) -> str:
    """Return the user's name of an OpenCLIP argument.

    This is a flag, or an item of a custom loop's ``args``.

    >>> argument_name(FeedOptions(), "batch_size"), argument_name(FeedOptions(argv=("--workers", "2")), "batch_size")
    ('args["batch_size"]', '--batch-size')
    """
    if options.fields:
        return _ARGUMENTS.get(name, name)
    if options.argv:
        return f"--{name.replace('_', '-')}"
    return f'args["{name}"]'


def process_count_name(options: FeedOptions, *, recognised: bool) -> str:
    """Return the user's name of the number of decoding processes.

    ``recognised``: the transform is one of OpenCLIP's.

    >>> process_count_name(FeedOptions(), recognised=True), process_count_name(FeedOptions(argv=("--seed", "2")), recognised=False)
    ('FeedOptions(decoders=...)', '--workers')
    """
    if not recognised and not options.fields:
        return argument_name(options, "workers")
    return "--decoders" if options.argv else "FeedOptions(decoders=...)"


def resume_command(options: FeedOptions) -> str:
    """Return the command that resumes training at its last checkpoint."""
    if options.fields:
        return "feed.load_state_dict(state)"
    if options.argv:
        return f"{rerun_command(options)} --resume latest"
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
        share = f"{entry.strings:,} of {samples:,} checked samples"
        fix = rerun_command(options, caption=_after_requested(options, names, f"{member}:{name}"))
        yield f"captions are in {member}, {escape(name, 60)} ({share}): {fix}"
    text = _likeliest(names, [name for name in CAPTIONS if name not in _NOT_TEXT])
    if text:
        fix = rerun_command(options, caption=_after_requested(options, names, text))
        yield f"captions may be in {escape(text, 40)}: {fix}"


def _after_requested(options: FeedOptions, names: Sequence[str], location: str) -> str:
    """Return a location of captions, after the requested one if only these shards may lack that."""
    if options.caption is None or set(parse_captions(options.caption).members) & set(names):
        return location
    return f"{options.caption}|{location}"


def image_fixes(options: FeedOptions, names: Sequence[str]) -> Iterator[str]:
    """Yield the command that finds images under an unusual name."""
    image = likely_image_field(names)
    if image:
        yield f"images may be in {escape(image, 40)}: {rerun_command(options, image=image)}"


def likely_image_field(names: Sequence[str]) -> str:
    """Return the field that may hold images under an unusual name, "" if none does."""
    return _likeliest(names, IMAGES)


def requested_captions(options: FeedOptions) -> Captions | None:
    """Return where the captions of a run are looked for; None if it takes none."""
    if options.fields:
        return parse_fields(options.fields).captions
    return parse_captions(options.caption or "txt")


def json_names_problem(captions: Captions, peeked: Sequence[ShardEvidence]) -> str:
    """Return the problem if no JSON name for captions has text; "" if one has.

    It lists the names that exist.
    """
    existing = json_names(peeked)
    requested: list[str] = []
    for source in captions.sources:
        if not isinstance(source, str):
            requested += source.json_text_key
    for name in requested:
        top = name.partition(".")[0]
        entry = existing.get(name) or existing.get(top)
        if entry is None:
            continue
        # A nested name, or a list, may hold captions.
        if entry.strings or name != top or entry.count > entry.strings:
            return ""
    samples = sum(shard.samples for shard in peeked)
    names = " or ".join(escape(name, 60) for name in requested)
    problem = f"no json of {samples:,} checked samples has {names}"
    with_text = {name: key.strings for name, key in existing.items() if key.strings}
    if with_text:
        return f"{problem}; it has text in {_most_frequent(with_text)}"
    without_text = {name: key.count for name, key in existing.items()}
    if without_text:
        return f"{problem}; it has {_most_frequent(without_text)}, without text"
    return problem


def _most_frequent(counts: Mapping[str, int]) -> str:
    """Return the most frequent names as text, equal counts in alphabetical order."""
    names = sorted(counts, key=lambda name: (-counts[name], name))
    shown = [escape(name, 40) for name in names[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        shown.append(f"{len(names) - _MOST_NAMES} more")
    return enumeration(shown)


def _likeliest(names: Sequence[str], usual: Sequence[str]) -> str:
    """Return the name whose extension is first among the usual ones.

    "" if no name has one of them.
    """
    ranked: list[tuple[int, str]] = []
    for name in names:
        extension = name.rpartition(".")[2]
        if extension in usual:
            ranked.append((usual.index(extension), name))
    return min(ranked)[1] if ranked else ""


def inspect_command(shard: Shard) -> str:
    """Return the command that shows whether a shard can be read."""
    return _shard_command("inspect", shard)


def validate_command(shard: Shard) -> str:
    """Return the command that reports what is wrong with a shard."""
    return _shard_command("validate", shard)


def _shard_command(command: str, shard: Shard) -> str:
    allowed = " --allow-pipe" if shard.startswith("pipe:") else ""
    return f"wdsflow {command} {quote(shard)}{allowed}"
