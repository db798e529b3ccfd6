"""Flags with which OpenCLIP 4 takes images or captions from fields of other names."""

from collections.abc import Iterator
from dataclasses import replace

from wdsflow.readers.base import Reader
from wdsflow.text.shell import command

from ..finding import Advice
from ..rules.kit.base import Context
from ..rules.kit.other_names import other_names
from ..rules.kit.shape_edits import CAPTION, as_caption, is_known
from ..verdicts.verdict import Verdict
from .promised_gain import advice_with_gain
from .tried_edits import caption_in_json, usable_after


def advise_flags(context: Context, verdict: Verdict, reader: Reader) -> Iterator[Advice]:
    """Yield each flag by which more samples reach a batch of a reader that takes such flags."""
    options = reader.options
    if usable_after(context, reader) is None:
        # Nor is it known what any flag would do.
        return
    yield from _json_text_key(context, verdict, reader)
    for name, known_name in other_names(context.evidence.shards).items():
        if known_name == CAPTION:
            names = f"{options.text_key};{name}"
            changed = replace(options, text_key=names)
            flag = ("--text-key", names)
        else:
            names = f"{options.image_key};{name}"
            changed = replace(options, image_key=names)
            flag = ("--image-key", names)
        yield from _if_more(context, verdict, flag, usable_after(context, type(reader)(changed)))


def _json_text_key(context: Context, verdict: Verdict, reader: Reader) -> Iterator[Advice]:
    """Yield the flag that takes captions from json."""
    name = caption_in_json(context.evidence.shards)
    options = reader.options
    if name is None or name in (options.json_text_key or "").split(";"):
        return
    changed = replace(options, json_text_key=name)
    usable = usable_after(context, type(reader)(changed), as_caption, name)
    yield from _if_more(context, verdict, ("--json-text-key", name), usable)


def _if_more(
    context: Context, verdict: Verdict, flag: tuple[str, str], usable: int | None
) -> Iterator[Advice]:
    """Yield a flag of the training command if more samples are usable with it."""
    if usable is None or usable <= verdict.usable:
        return
    exact = is_known(context.evidence.shards)
    advice = advice_with_gain(verdict, f"train with {command(flag)}", usable, exact=exact)
    yield replace(advice, flags=flag)
