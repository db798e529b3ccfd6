"""Keys of a set that do not follow one pattern."""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.scan.runs import is_junk_run
from wdsflow.scan.shapes import Run, ShapeCount
from wdsflow.text.shell import escape

from ..finding import Finding, Severity
from .kit.base import Context, Rule, TallyRule
from .kit.field_roles import fields_in
from .kit.folded_shapes import folded_shapes
from .kit.rule_loss import RuleLoss
from .kit.sample_loss_rules import LossRule

# Shapes that share a base name; with more, the cause is something other than folders.
_MOST_SHAPES = 50


class Mispaired(Rule):
    """Samples run together across shards.

    What: the last sample of one shard has the same key as the first sample of another shard, and is
    incomplete or lacks the field with which the other begins.

    Why it matters: webdataset up to 0.2.88, which OpenCLIP pins, does not mark the end of a shard.
    The open sample continues with the members of the next shard. If it is incomplete, the image of
    one sample is silently trained with the caption of another. Otherwise the other sample loses
    members and is dropped. Shards are shuffled again in each epoch, so any two can meet. Newer
    webdataset closes the sample at the end of the shard.

    In practice: a truncated shard in a set whose numbering starts again in each shard; LAION-400M's
    tails (the FIXME in OpenCLIP's group_by_keys; webdataset#327).

    Fix: ``wdsflow repair URL... -o repaired --drop-bad`` leaves the incomplete sample out; a fresh
    copy of the shard is better. Keys that include the number of the shard prevent this.
    """

    code = "W021"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        heads: dict[str, list[int]] = {}
        for index, shard in enumerate(shards):
            head = shard.runs.head
            if head is not None and not is_junk_run(head.key, head.shape):
                heads.setdefault(head.key, []).append(index)
        rows: list[tuple[ShardEvidence, Run, dict[str, _Meeting]]] = []
        for index, shard in enumerate(shards):
            tail = shard.runs.last
            if tail is None:
                continue
            others = [other for other in heads.get(tail.key, ()) if other != index]
            meetings: dict[str, _Meeting] = {}
            for reader in context.readers:
                meeting = _worst_meeting(context, reader, index, others)
                if meeting is not None:
                    meetings[reader.name] = meeting
            if meetings:
                rows.append((shard, tail, meetings))
        are_many = len(rows) > context.max_loss * context.evidence.samples
        for shard, tail, meetings in rows:
            # An image with the caption of another sample is worse than a lost sample.
            worst = max(meetings.values(), key=lambda meeting: meeting.mispairs)
            other_name = escape(worst.shard.url.rpartition("/")[2])
            if worst.mispairs:
                fields = ", ".join(escape(part.suffix, 30) for part in tail.shape)
                fact = (
                    f"its last sample has only {fields}, and {other_name} begins with the same key"
                )
                effect = "pair an image with the caption of another sample"
            else:
                fact = f"its last sample and the first of {other_name} have the same key"
                effect = "take members of one for the other, and lose a sample"
            message = f"{fact}: {context.reader_titles(meetings)} can {effect}"
            severity: Severity = "error" if worst.mispairs or are_many else "warning"
            yield self.finding(message, meetings, shard, tail, severity=severity)


class _Meeting(NamedTuple):
    """What happens where a shard follows another one."""

    # That follows.
    shard: ShardEvidence
    # An image is paired with the caption of another sample; otherwise a sample is lost.
    mispairs: bool


def _worst_meeting(
    context: Context, reader: Reader, index: int, others: list[int]
) -> _Meeting | None:
    """Return the worst shard of ``others`` to follow shard ``index``; None if harmless."""
    shards = context.evidence.shards
    if not others or not reader.joins:
        return None
    tail = reader.runs(shards[index]).last
    if tail is None:
        return None
    is_complete = context.usable(reader, tail.shape) > 0
    losing: _Meeting | None = None
    for other in others:
        head = reader.runs(shards[other]).head
        if head is None or head.key != tail.key:
            continue
        apart = context.usable(reader, tail.shape) + context.usable(reader, head.shape)
        joined = tail.shape + head.shape
        first = context.fates(reader, joined)[:1]
        makes_a_sample = bool(first) and first[0].kind == "usable"
        # One split sample: W009.
        are_halves = not apart and others == [index + 1]
        if makes_a_sample and not is_complete and not are_halves:
            return _Meeting(shards[other], mispairs=True)
        if losing is None and context.usable(reader, joined) < apart:
            losing = _Meeting(shards[other], mispairs=False)
    return losing


class SplitFolders(TallyRule):
    """Images and captions are in different folders.

    What: ``images/a.jpg`` and ``captions/a.txt``: the same base name under two folders, with
    different fields.

    Why it matters: the folder is part of the key: ``images/a`` and ``captions/a`` are two samples,
    for every reader. OpenCLIP silently drops one for its missing caption and the other for its
    missing image: no sample is left, and training hangs.

    In practice: data sets with a folder for each kind of file, packed without change.

    Fix: ``wdsflow repair SHARD -o repaired`` joins the folders and regroups the members. When
    packing, put all files of a sample into one folder.
    """

    code = "W029"
    severity = "error"
    counts_samples = True
    says = "{n:sample has|samples have} fields under different folders{first}: the folder is part of the key, so they never pair"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Return the samples split over two folders, judged by the first key of each shape.

        If the base name of that key is in two folders, so are those of the others.
        """
        folders: dict[str, list[ShapeCount]] = {}
        for item in shard.runs.shape_counts():
            folders.setdefault(item.key.rpartition("/")[2], []).append(item)
        for items in folders.values():
            if len(items) >= _MOST_SHAPES:
                continue
            for one, other in combinations(items, 2):
                if _are_parts(one, other):
                    rarer = min(_with_fields_of(one, shard), _with_fields_of(other, shard))
                    return Tally(rarer, one.key, one.offset, f"{one.key} and {other.key}")
        return Tally()


def _are_parts(one: ShapeCount, other: ShapeCount) -> bool:
    """Return whether two samples with one base name are parts of one sample, by their fields."""
    if one.key == other.key or not one.key.rpartition("/")[2]:
        return False
    return fields_in(one.shape).isdisjoint(fields_in(other.shape))


def _with_fields_of(sample: ShapeCount, shard: ShardEvidence) -> int:
    """Return how many samples of a shard have the same fields."""
    fields = fields_in(sample.shape)
    return sum(item.count for item in shard.runs.shape_counts() if fields_in(item.shape) == fields)


class MixedPrefix(LossRule):
    """Some names start with ./ and others do not.

    What: ``./a.jpg`` and ``a.txt`` in one shard.

    Why it matters: the key is the whole path, and ``./a`` is another key than ``a``: the two never
    pair, for any reader. OpenCLIP silently drops both parts.

    In practice: ``tar -rf SHARD a.txt`` onto a shard that was made with ``tar -cf SHARD .``.

    Fix: ``wdsflow repair SHARD -o repaired`` removes the prefix and regroups the members. When
    packing, name all files the same way: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W030"
    tallies = ("name.mixed-prefix",)
    counts_samples = False
    says = "{n:name differs|names differ} from the others in the prefix ./: a key with it is another key"

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence) -> RuleLoss:
        lost = 0
        for item in folded_shapes(context, reader, shard):
            if not is_junk_run(item.key, item.shape) and not context.usable(reader, item.shape):
                lost += item.count
        return RuleLoss(lost)


class LongRun(TallyRule):
    """More than 1,000 neighbouring members share one key.

    What: one sample has over 1,000 members.

    Why it matters: readers hold a sample in memory as a whole until its key changes. If the members
    are really many samples whose names merge at the first dot, all but one of them are lost.

    In practice: names that begin with a common part before the first dot (``img.000001.jpg``),
    frames of a video stored one by one.

    Fix: give each sample a key without dots when packing: ``key = name.replace(".", "_")``
    """

    code = "W031"
    requires = ("W010",)
    tallies = ("key.long-run",)
    counts_samples = True
    says = "{n:key has|keys have} more than 1,000 members in a row: readers hold them in memory as one sample"
