"""What makes shards fit for ``wdsflow train`` without rewriting them: its options for fields."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.naming import CAPTIONS, IMAGES, caption_name, json_names
from wdsflow.text.shell import command as join
from wdsflow.text.shell import escape
from wdsflow.training.caption_sources import Captions, parse_captions
from wdsflow.training.feed_options import FeedOptions
from wdsflow.training.ranks import launcher_words, rank_and_world

_NOT_TEXT = frozenset({"json", "jsn", "cls", "label", "class"})


def command(options: FeedOptions, *flags: str, **changed: str | None) -> str:
    """Return the command of this run with all options that are not at their defaults, some of them changed.

    A custom loop, which has no command line, gets the options as Python has them.

    >>> command(FeedOptions(k=3.0, argv=("--workers", "2")), caption="json:alt")
    'wdsflow train --caption json:alt --k 3 -- --workers 2'
    >>> command(FeedOptions(k=3.0), caption="json:alt")
    'FeedOptions(caption="json:alt", k=3.0)'

    Args:
        options: those of this run.
        flags: further flags.
        changed: options with other values; None leaves one out.
    """
    values = {item.name: changed.get(item.name, getattr(options, item.name)) for item in fields(options)}
    values = {item.name: values[item.name] for item in fields(options) if values[item.name] != item.default}
    if not options.argv:
        return f"FeedOptions({', '.join(f'{name}={_literal(name, value)}' for name, value in values.items())})"
    words = list(flags)
    for name, value in values.items():
        if name not in {"allow_pipe", "argv"}:
            words += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    argv = join(options.argv)
    world = rank_and_world()[1]
    as_first = ["env", "RANK=0", f"WORLD_SIZE={world}"] if world > 1 else []
    launcher = as_first if "--dry-run" in flags else launcher_words()
    return " ".join([*launcher, "wdsflow train", *([join(words)] if words else []), "--", argv])


def _literal(name: str, value: object) -> str:
    """Return a value as Python code, strings in double quotes."""
    if not isinstance(value, str) or name in {"stall_after", "decoders"}:
        return str(value)
    text = repr(value)
    return f'"{text[1:-1]}"' if text[0] == "'" and '"' not in text else text


def argument(options: FeedOptions, name: str) -> str:
    """Return how the user names one of OpenCLIP's arguments: as a flag, or in a custom loop's ``args``.

    >>> argument(FeedOptions(), "batch_size"), argument(FeedOptions(argv=("--workers", "2")), "batch_size")
    ('args["batch_size"]', '--batch-size')
    """
    return f"--{name.replace('_', '-')}" if options.argv else f'args["{name}"]'


def processes_named(options: FeedOptions, *, known: bool) -> str:
    """Return how the user names the number of decoding processes. ``known``: the transform is one of OpenCLIP's.

    >>> processes_named(FeedOptions(), known=True), processes_named(FeedOptions(argv=("--seed", "2")), known=False)
    ('FeedOptions(decoders=...)', '--workers')
    """
    if not known:
        return argument(options, "workers")
    return "--decoders" if options.argv else "FeedOptions(decoders=...)"


def resumed(options: FeedOptions) -> str:
    """Return what resumes training at its last checkpoint."""
    return f"{command(options)} --resume latest" if options.argv else "dataloader.load_state_dict(state)"


def caption_fixes(options: FeedOptions, names: Sequence[str], peeked: Sequence[ShardEvidence]) -> Iterator[str]:
    """Yield what finds captions that lie elsewhere: in json, or in a member of another name.

    ``names``: fields of the shards. ``peeked``: shards of which the json was read.
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


def _also(options: FeedOptions, names: Sequence[str], place: str) -> str:
    """Return a place for captions; after the one asked for, where these shards lack that one but others may not."""
    if options.caption is None or set(parse_captions(options.caption).members) & set(names):
        return place
    return f"{options.caption}|{place}"


def image_fixes(options: FeedOptions, names: Sequence[str]) -> Iterator[str]:
    """Yield what finds images under another name than the usual ones."""
    image = likely_image(names)
    if image:
        yield f"images may be in {escape(image, 40)}: {command(options, image=image)}"


def likely_image(names: Sequence[str]) -> str:
    """Return the field that may hold images under another name than the usual ones, "" if none does."""
    return _likeliest(names, IMAGES)


def wrong_names(captions: Captions, peeked: Sequence[ShardEvidence]) -> str:
    """Return what is wrong with the names in json that captions are looked for under, "" if one of them holds some."""
    held = json_names(peeked)
    looked = [name for source in captions.sources if not isinstance(source, str) for name in source.json_text_key]
    for name in looked:
        top = name.partition(".")[0]
        found = held.get(name) or held.get(top)
        if found is not None and (found.strings or name != top or found.count > found.strings):
            return ""  # a nested name, or a list, may hold captions
    samples = sum(shard.samples for shard in peeked)
    return f"no json of {samples:,} checked samples has {' or '.join(escape(name, 60) for name in looked)}"


def _likeliest(names: Sequence[str], known: Sequence[str]) -> str:
    ranked = [(known.index(last), name) for name in names if (last := name.rpartition(".")[2]) in known]
    return min(ranked)[1] if ranked else ""
