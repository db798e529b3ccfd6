"""Megatron-Energon's reader of captioning samples."""

import os
from collections.abc import Sequence

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Shape
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.members import is_meta

from .base import USABLE, Fate, Reader, Sample, fate_of_incomplete, first_of
from .shared_keys import may_share_keys, repeated_key, shards_sharing_a_key
from .wanted_fields import IMAGE_TROUBLE, TEXT_TROUBLE, reason_for

_CAPTION = "txt"
# failure_tolerance of its MapDataset.
_IN_A_ROW = 100


class Energon(Reader):
    """Megatron-Energon 7: ``get_train_dataset(folder, ...)`` of captioning samples.

    It uses the index of ``wdsflow index --energon``.

    Its ``field_map`` is ``{image: "jpg,png,jpeg,webp", caption: txt}``, where the image may be
    fewer of these. Only these fields are read and decoded. A sample that lacks one, or has one that
    does not decode, is skipped with a message; 100 in a row end the training with an error, so that
    it never hangs.

    A damaged shard is not in the index: its samples are lost. There is no index at all, and
    training ends at once, where a shard is compressed, has no sample, or a sample whose name is not
    UTF-8, or where a key occurs twice in one folder, which includes members of a sample that are
    not adjacent. The index of ``energon prepare`` differs: see ``docs/readers.md``.

    Cannot be known here, so that the verdict is not exact: whether 100 samples that are skipped
    come in a row, if there are 50 or more, because the order is random; whether large shards whose
    keys overlap have one in common. Not looked at: other field maps, sample loaders, task encoders
    and filters; more workers than samples; splits: all shards are judged as one.

    Source: megatron-energon 7.4.1, flavors/webdataset/itar_reader.py, sample_decoder.py,
    prepare.py, errors.py.
    """

    name = "energon"
    title = "Megatron-Energon 7 (captioning samples)"
    takes_one_pair = True
    takes_field_map = True
    reads_index = True
    # A shard that ends in an error is not in the index.
    raises = False
    gives_up = True
    reports_losses = True
    keys_once = True
    unopened = "are damaged, and left out of its index"

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run; it is never a crash."""
        sample: Sample = {part.suffix: part for part in shape}
        image = first_of(IMAGE_FIELDS, sample)
        if image is None or _CAPTION not in sample:
            return (fate_of_incomplete(image, _CAPTION in sample),)
        if sample[_CAPTION].status in TEXT_TROUBLE:
            return (Fate("dropped", "decode", "bad-caption", _CAPTION),)
        for name in IMAGE_FIELDS:
            part = sample.get(name)
            if part is not None and part.status in IMAGE_TROUBLE:
                return (Fate("dropped", "decode", reason_for(part, image, _CAPTION), name),)
        return (USABLE,)

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether a shard is in the index."""
        return shard.is_whole and shard.compression is None

    def crash_at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a set that has no index."""
        indexed = [shard for shard in shards if shard.is_whole]
        if shards and not indexed:
            return Fate("crash", "group", "no-index", "all shards are damaged")
        for shard in indexed:
            crash = self.crash_at_shard(shard)
            if crash is not None:
                return crash
        pair = shards_sharing_a_key(indexed)
        if pair is None:
            return None
        detail = f"{_name(pair[0])} and {_name(pair[1])} have a key in common"
        return Fate("crash", "group", "no-index", detail)

    def crash_at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return the crash of a shard that leaves its folder without an index."""
        obstacle = _why_no_index(shard) if shard.is_whole else ""
        if not obstacle:
            return None
        return Fate("crash", "group", "no-index", f"{_name(shard)} {obstacle}")

    def why_uncertain(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is unknown of keys, or of the order of skipped samples."""
        if self.crash_at_start(shards) is not None:
            return ""
        indexed = [shard for shard in shards if shard.is_whole]
        if any(map(_has_foreign_name, indexed)):
            return "whether a name that is not UTF-8 belongs to a sample is not known, which would leave it without an index"
        if may_share_keys(indexed):
            return "whether two shards have a key in common is not known, which would leave them without an index"
        runs = [run for shard in indexed for run in self.runs(shard).shape_counts()]
        usable = sum(run.count for run in runs if self.fates(run.shape)[0].kind == "usable")
        skipped = sum(run.count for run in runs) - usable
        # A pass may begin with the samples with which the last one ended.
        if usable and 2 * skipped >= _IN_A_ROW:
            return (
                f"training ends with an error if {_IN_A_ROW} samples that are skipped come in a row"
            )
        return ""


def _has_foreign_name(shard: ShardEvidence) -> bool:
    """Return whether some name is not UTF-8."""
    return bool(shard.tally("name.not-utf8").count or shard.tally("name.junk-not-utf8").count)


def _why_no_index(shard: ShardEvidence) -> str:
    """Return why there is no index of a shard that is not damaged, "" if there is one."""
    if shard.compression is not None:
        return f"is compressed ({shard.compression})"
    if shard.runs.head is None:
        return "has no sample"
    # The first of them: that of a member of a sample?
    foreign = shard.tally("name.not-utf8")
    if foreign.key is not None and not is_meta(foreign.detail):
        return "has a name that is not UTF-8"
    again = repeated_key(shard)
    return "" if again is None else f"has the key {again} twice"


def _name(shard: ShardEvidence) -> str:
    return os.path.basename(shard.url)
