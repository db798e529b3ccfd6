"""Stages in plain webdataset code that take captions from json, for custom pipelines."""

from collections.abc import Iterator
from dataclasses import replace

from wdsflow.readers.base import Reader

from ..finding import Advice
from ..rules.kit.base import Context
from ..rules.kit.shape_edits import is_known, with_caption
from ..verdicts.verdict import Verdict
from .promised_gain import advice_with_gain
from .tried_edits import caption_in_json, usable_after

# ``with_caption`` of ``shape_edits`` has the same effect on the evidence.
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


def advise_caption_stages(context: Context, verdict: Verdict, reader: Reader) -> Iterator[Advice]:
    """Yield the stages if more samples of a pipeline, the reader, reach a batch with them."""
    name = caption_in_json(context.evidence.shards)
    if name is None:
        return
    usable = usable_after(context, reader, with_caption, name)
    if usable is None or usable <= verdict.usable:
        return
    action = "in a custom pipeline, put these stages before wds.decode"
    advice = advice_with_gain(verdict, action, usable, exact=is_known(context.evidence.shards))
    yield replace(advice, command=_CAPTION_STAGES.format(name=name), language="python")
