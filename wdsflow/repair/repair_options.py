"""The options of a repair."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wdsflow.shards.thread_jobs import Begin
from wdsflow.text.options import allow_pipe_option, option, restart_option, several


def _pairs(values: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for text in several(values):
        old, _, new = text.partition("=")
        if not (old and new):
            raise ValueError(f"{text} is not of the form OLD=NEW")
        pairs[old] = new
    return pairs


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """The options of a repair. ``begin`` is called with the number of shards; its result is called after each."""

    caption: str | None = option(
        None,
        "Write KEY.txt from this field of KEY.json if a sample has no caption in UTF-8; auto: find the field that holds captions.",
        metavar="json:FIELD[;OTHER]",
    )
    rename: Mapping[str, str] | None = option(
        None,
        "Rename a field, unless there is one of the new name; repeatable. txt.gz=txt also unpacks it.",
        metavar="OLD=NEW",
        parse=_pairs,
    )
    drop_fields: Iterable[str] = option(
        (), "Leave a field out; repeatable.", "--drop-field", metavar="NAME", parse=several
    )
    drop_bad: bool = option(
        False,
        "Leave out samples that OpenCLIP would not train on: without a caption, or without an image that decodes.",
    )
    dry_run: bool = option(False, "Write nothing; print what would be done.")
    restart: bool = restart_option()
    jobs: int = option(2, "Shards repaired at once.", metavar="N", least=1)
    allow_pipe: bool = allow_pipe_option()
    begin: Begin | None = None
