"""Flags with which OpenCLIP 4 takes images or captions from fields of other names."""

from collections.abc import Iterator
from dataclasses import replace

from wdsflow.readers.base import Options
from wdsflow.readers.open_clip.versions import OpenClip4
from wdsflow.text.shell import command

from ..finding import Advice
from ..rules.kit.base import Context
from ..rules.kit.other_names import other_names
from ..rules.kit.shape_edits import CAPTION, as_caption, is_known
from ..verdicts.verdict import Verdict
from .promise import promise
from .tried_edits import caption_in_json, usable_after


def advise_flags(context: Context, verdict: Verdict) -> Iterator[Advice]:
    """Yield each flag by which more samples reach a batch, if the reader is OpenCLIP 4."""
    if verdict.reader != "open-clip-4":
        return
    options = context.reader_named(verdict.reader).options
    if usable_after(context, OpenClip4(options)) is None:
        # Nor is it known what any flag would do.
        return
    yield from _json_text_key(context, verdict, options)
    for name, known_name in other_names(context.evidence.shards).items():
        if known_name == CAPTION:
            names = f"{options.text_key};{name}"
            reader = OpenClip4(replace(options, text_key=names))
            flag = ("--text-key", names)
        else:
            names = f"{options.image_key};{name}"
            reader = OpenClip4(replace(options, image_key=names))
            flag = ("--image-key", names)
        yield from _if_more(context, verdict, flag, usable_after(context, reader))


def _json_text_key(context: Context, verdict: Verdict, options: Options) -> Iterator[Advice]:
    """Yield the flag that takes captions from json."""
    name = caption_in_json(context.evidence.shards)
    if name is None or name in (options.json_text_key or "").split(";"):
        return
    reader = OpenClip4(replace(options, json_text_key=name))
    usable = usable_after(context, reader, as_caption, name)
    yield from _if_more(context, verdict, ("--json-text-key", name), usable)


def _if_more(
    context: Context, verdict: Verdict, flag: tuple[str, str], usable: int | None
) -> Iterator[Advice]:
    """Yield a flag of the training command if more samples are usable with it."""
    if usable is None or usable <= verdict.usable:
        return
    exact = is_known(context.evidence.shards)
    advice = promise(verdict, f"train with {command(flag)}", usable, exact=exact)
    yield replace(advice, flags=flag)
