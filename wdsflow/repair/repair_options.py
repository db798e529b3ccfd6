"""The options of a repair."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import allow_pipe_option, option, restart_option, split_commas

from .repair_plan import RepairPlan, make_plan


def _pairs(values: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in split_commas(values):
        old, _, new = text.partition("=")
        if not (old and new):
            raise ValueError(f"{text} is not of the form OLD=NEW")
        pairs[old] = new
    return pairs


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """The options of a repair.

    ``begin`` is called with the number of shards; its result is called after each shard.

    ``plan`` has all changes to samples, in place of the options that name them.
    """

    structure_only: bool = option(
        False,
        "Only regroup members, make names safe, drop junk and recover what follows damage: no change to fields.",
    )
    pair_names: bool = option(
        False,
        "Pair images and captions whose names evidently belong together, such as 1/image.jpg and 1/caption.txt.",
    )
    name_images: bool = option(
        False, "Name images without an extension, or with an unknown one, by their first bytes."
    )
    rename: Mapping[str, str] | None = option(
        None,
        "Rename a field, unless there is one of the new name; repeatable. txt.gz=txt also unpacks it.",
        metavar="OLD=NEW",
        parse=_pairs,
    )
    caption_encoding: str = option(
        "",
        "Decode captions that are not UTF-8 from this encoding, such as cp1252, and write them in UTF-8.",
        metavar="NAME",
    )
    caption: str | None = option(
        None,
        "Write KEY.txt from this field of KEY.json if a sample has no caption in UTF-8; auto: find the field that holds captions.",
        metavar="json:FIELD[;OTHER]",
    )
    rename_bad: Mapping[str, str] | None = option(
        None,
        "Rename a field only where it does not decode, so that readers leave it as bytes; repeatable.",
        metavar="OLD=NEW",
        parse=_pairs,
    )
    drop_fields: Iterable[str] = option(
        (), "Leave a field out; repeatable.", "--drop-field", metavar="NAME", parse=split_commas
    )
    drop_bad: bool = option(
        False,
        "Leave out samples that OpenCLIP would not train on: without a caption, or without an image that decodes.",
    )
    link: bool = option(
        False,
        "Make shards that do not change hard links instead of copies, on the file system of the output.",
    )
    dry_run: bool = option(False, "Write nothing; print what would be done.")
    restart: bool = restart_option()
    jobs: int = option(2, "Shards repaired at once.", metavar="N", least=1)
    allow_pipe: bool = allow_pipe_option()
    begin: Begin | None = None
    plan: RepairPlan | None = None

    def steps(self) -> RepairPlan:
        """Return the plan of the options that name changes to samples.

        Raises ValueError for an option that makes no sense.
        """
        return make_plan(
            pair_names=self.pair_names,
            name_images=self.name_images,
            rename=self.rename,
            encoding=self.caption_encoding,
            caption=self.caption,
            rename_bad=self.rename_bad,
            drop_fields=self.drop_fields,
            drop_bad=self.drop_bad,
        )

    def chosen_plan(self) -> RepairPlan:
        """Return the plan to carry out.

        Raises ValueError if two plans are named, or an option makes no sense.
        """
        steps = self.steps()
        named = steps if steps.steps() else self.plan
        if self.structure_only and named is not None:
            raise ValueError("structure_only excludes options that change samples")
        if self.plan is not None and steps.steps():
            raise ValueError("a plan excludes options that change samples: they are in it")
        return named or RepairPlan()
