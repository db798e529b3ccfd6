"""Repair steps that the evidence suggests to regain samples.

Whether they do is found out by trying them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from wdsflow.readers.base import RESERVED, Reader
from wdsflow.repair.repair_plan import RepairPlan
from wdsflow.scan.caption_names import other_caption_names
from wdsflow.scan.content.caption_encoding import EncodingGuess
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Part, Shape
from wdsflow.scan.statuses import OK
from wdsflow.shards.caption_field import CaptionField
from wdsflow.shards.shard_names import IMAGE_FIELDS

from ..rules.field_contents import other_name
from ..rules.kit.base import is_option, undecoded_name
from ..rules.kit.other_names import other_names
from ..rules.kit.shape_edits import CAPTION, caption_edits, fits_option, shapes_of
from .hidden_pairs import may_lack_image_name, may_pair
from .repair_forecast import RepairForecast

# Adds steps to a plan; each result is another attempt, the most complete first.
Suggest = Callable[[RepairForecast, RepairPlan], Iterator[RepairPlan]]
# How many fields that do not decode are renamed; with more, the cause is another, and the command
# would be long.
_MOST = 8
# How many further names in json are tried.
_MOST_NAMES = 3
_REFUSED = frozenset({"bad-field", "unsafe-field"})


def suggest_pair_names(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest to pair images and texts by their names."""
    if may_pair(forecast.repaired(plan).shards) or may_pair(forecast.evidence.shards):
        yield replace(plan, pair_names=True)


def suggest_rename(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest names that readers know for captions and images; all at once, then one by one."""
    shards = forecast.repaired(plan).shards
    fields = {name for shard in shards for name in shard.fields}
    names = other_names(shards)
    for reader in forecast.readers:
        names |= {old: new for old, new in reader.aliases.items() if old in fields}
    # Readers set these themselves.
    names |= {name: other_name(name) for name in sorted(RESERVED) if name in fields}
    names |= {name: undecoded_name(name) for name in _columns_that_end_readers(forecast)}
    pairs = tuple(names.items())
    if pairs:
        yield replace(plan, rename=pairs)
    for pair in pairs if len(pairs) > 1 else ():
        yield replace(plan, rename=(pair,))


def suggest_name_images(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest to name images by their first bytes, where texts have none."""
    repaired = forecast.repaired(plan).shards
    if may_lack_image_name(repaired) or may_lack_image_name(forecast.evidence.shards):
        yield replace(plan, name_images=True)


def suggest_encoding(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest the one encoding in which all captions that are not UTF-8 make sense."""
    guess = guess_encoding(forecast, plan)
    if guess.encoding:
        yield replace(plan, encoding=guess.encoding)


def suggest_caption(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest to take captions from json."""
    edits = caption_edits(forecast.repaired(plan).shards)
    if edits is not None:
        yield replace(
            plan, rename=plan.rename + edits.rename, caption=CaptionField("json", (edits.caption,))
        )


def suggest_other_caption(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest a second caption name in json, for samples that lack the first one.

    This helps with shards from two sources.
    """
    if plan.caption is None:
        return
    names = plan.caption.names
    others = other_caption_names(forecast.repaired(plan).shards, names)
    # Those that bring nothing are taken out of the plan in the end.
    others = list(islice(filter(fits_option, others), _MOST_NAMES))
    if others:
        yield replace(plan, caption=plan.caption._replace(names=(*names, *others)))


def suggest_rename_bad(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest to rename fields that do not decode, in the samples where they fail.

    Readers do not decode a field under its new name.
    """
    shards = forecast.repaired(plan).shards
    names: dict[str, str] = {}
    for reader in forecast.readers:
        for name in _refused_fields(shards, reader):
            if is_option(name):
                names[name] = undecoded_name(name)
    if 0 < len(names) <= _MOST:
        yield replace(plan, rename_bad=tuple(names.items()))


def suggest_rename_whole(forecast: RepairForecast, plan: RepairPlan) -> Iterator[RepairPlan]:
    """Suggest to rename such a field in all samples.

    This is for readers that require the same fields in all samples.
    """
    if plan.rename_bad and any(reader.makes_columns for reader in forecast.readers):
        yield replace(plan, rename=plan.rename + plan.rename_bad, rename_bad=())


SUGGESTIONS: tuple[Suggest, ...] = (
    suggest_pair_names,
    suggest_rename,
    suggest_name_images,
    suggest_encoding,
    suggest_caption,
    suggest_other_caption,
    suggest_rename_bad,
    suggest_rename_whole,
)


def without_one_step(plan: RepairPlan) -> Iterator[RepairPlan]:
    """Yield the plan, each time without one of its steps that loses nothing."""
    if plan.pair_names:
        yield replace(plan, pair_names=False)
    if plan.name_images:
        yield replace(plan, name_images=False)
    for pair in plan.rename:
        yield replace(plan, rename=tuple(other for other in plan.rename if other != pair))
    if plan.encoding:
        yield replace(plan, encoding="")
    if plan.caption is not None:
        yield replace(plan, caption=None)
        names = plan.caption.names
        for name in names if len(names) > 1 else ():
            fewer = tuple(other for other in names if other != name)
            yield replace(plan, caption=plan.caption._replace(names=fewer))
    for pair in plan.rename_bad:
        yield replace(plan, rename_bad=tuple(other for other in plan.rename_bad if other != pair))


def guess_encoding(forecast: RepairForecast, plan: RepairPlan) -> EncodingGuess:
    """Return the guessed encoding of the captions that a plan would write.

    The guess is made as if the plan did not decode them.
    """
    guess = EncodingGuess()
    for shard in forecast.repaired(replace(plan, encoding="")).shards:
        if shard.encoding is not None:
            guess.merge(shard.encoding)
    return guess


def _columns_that_end_readers(forecast: RepairForecast) -> Iterator[str]:
    """Yield fields whose values do not fit into the columns of Hugging Face datasets."""
    shards = forecast.evidence.shards
    if not any(reader.makes_columns for reader in forecast.readers) or not shards:
        return
    columns = shards[0].columns
    names = [columns.field if columns is not None and columns.error else ""]
    for shard in shards:
        names += [
            shard.tally(name).detail.partition(": ")[0]
            for name in ("column.misfit", "column.unwritable")
        ]
    yield from (name.lower() for name in dict.fromkeys(names) if name and is_option(name))


def _refused_fields(shards: Sequence[ShardEvidence], reader: Reader) -> list[str]:
    """Return the fields other than image and caption that a reader cannot decode in some sample.

    Samples without image or caption are treated as if they had them.
    """
    names: dict[str, None] = {}
    for shape in shapes_of(shards):
        for parts in (shape, _completed(shape)):
            left = parts
            while bad := next(
                (fate.detail for fate in reader.fates(left) if fate.reason in _REFUSED), ""
            ):
                names[bad.lower()] = None
                left = tuple(part for part in left if part.suffix != bad)
    return sorted(names)


def _completed(shape: Shape) -> Shape:
    """Return a shape with an image and a caption, if it has none."""
    names = {part.suffix for part in shape}
    added: list[Part] = []
    if CAPTION not in names:
        added.append(Part(CAPTION, OK))
    # Next to a second image, the sample's own one would count as a further field.
    if names.isdisjoint(IMAGE_FIELDS):
        added.append(Part(IMAGE_FIELDS[0], OK))
    return tuple(sorted((*shape, *added)))
