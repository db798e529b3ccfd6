"""Megatron-Energon's readers of WebDataset shards."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from wdsflow.scan.evidence import Part, Shape, ShardEvidence
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.shards.tar.members import is_meta

from .base import USABLE, Fate, Reader, Sample, first_of, lacking
from .wanted_fields import IMAGE_TROUBLE, IMAGES, TEXT_TROUBLE, extension_of, reason_for, refused
from .webdataset import WebDataset1

# Keys; of shards with more, the sketch has only some.
_SKETCHED = 64
# Equal hashes: fewer may be chance, where the sketches do not have all keys.
_SURE = 8

_CAPTION = "txt"
# failure_tolerance of its MapDataset.
_IN_A_ROW = 100

_RESERVED = frozenset({"__key__", "__shard__", "__restore_key__", "__sources__"})


def twice_in(shard: ShardEvidence) -> str | None:
    """Return a key that two samples of the shard have, None if there is none."""
    again = (shard.tally("key.again"), shard.tally("key.again-twin"))
    return next((tally.key for tally in again if tally.count), None)


def share_keys(shards: Sequence[ShardEvidence]) -> tuple[ShardEvidence, ShardEvidence] | None:
    """Return two shards of one folder that have a key in common; None if there are none, or if that is unknown."""
    for group in _folders(shards):
        owner: dict[int, ShardEvidence] = {}
        for shard in group:
            hashes = [*shard.key_sketch, *((1 << 32) + each for each in shard.junk_sketch)]
            owners = Counter(id(owner[each]) for each in hashes if each in owner)
            for other in (owner[each] for each in hashes if each in owner):
                if owners[id(other)] >= _SURE or (_is_whole(shard) and _is_whole(other)):
                    return other, shard
            for each in hashes:
                owner.setdefault(each, shard)
    return None


def may_share_keys(shards: Sequence[ShardEvidence]) -> bool:
    """Return whether shards of one folder may have a key in common: their keys overlap, and some keys are unknown."""
    for group in _folders(shards):
        last = last_of_part = ""
        spans = sorted(
            ((*shard.key_span, _is_whole(shard)) for shard in group if shard.key_span),
            key=lambda span: span[0],
        )
        for number, (start, end, whole) in enumerate(spans):
            if number and start <= (last_of_part if whole else last):
                return True
            last = max(last, end)
            last_of_part = last_of_part if whole else max(last_of_part, end)
    return False


def meetings(shards: Sequence[ShardEvidence]) -> int:
    """Return how many shards end with the key with which another one begins; readers shuffle shards."""
    ends = [
        (shard.runs.head.key, shard.runs.last.key)
        for shard in shards
        if shard.runs.head and shard.runs.last
    ]
    heads = Counter(head for head, _ in ends)
    return sum(heads[last] - (head == last) > 0 for head, last in ends)


def _folders(shards: Sequence[ShardEvidence]) -> Iterable[list[ShardEvidence]]:
    found: dict[str, list[ShardEvidence]] = {}
    for shard in shards:
        found.setdefault(os.path.dirname(shard.url), []).append(shard)
    return found.values()


def _is_whole(shard: ShardEvidence) -> bool:
    """Return whether the sketches have all keys."""
    return len(shard.key_sketch) < _SKETCHED and len(shard.junk_sketch) < _SKETCHED


class Energon(Reader):
    """Megatron-Energon 7: ``get_train_dataset(folder, ...)`` of captioning samples, on the index of ``wdsflow index --energon``.

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
            return (lacking(image, _CAPTION in sample),)
        if sample[_CAPTION].status in TEXT_TROUBLE:
            return (Fate("dropped", "decode", "bad-caption", _CAPTION),)
        images = (sample[name] for name in IMAGE_FIELDS if name in sample)
        bad = next((part for part in images if part.status in IMAGE_TROUBLE), None)
        return (
            USABLE
            if bad is None
            else Fate("dropped", "decode", reason_for(bad, image, _CAPTION), bad.suffix),
        )

    def opens(self, shard: ShardEvidence) -> bool:
        """Return whether a shard is in the index."""
        return shard.is_whole and shard.compression is None

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a set that has no index."""
        whole = [shard for shard in shards if shard.is_whole]
        if shards and not whole:
            return Fate("crash", "group", "no-index", "all shards are damaged")
        if crash := next(filter(None, map(self.at_shard, whole)), None):
            return crash
        if pair := share_keys(whole):
            return Fate(
                "crash",
                "group",
                "no-index",
                f"{_name(pair[0])} and {_name(pair[1])} have a key in common",
            )
        return None

    def at_shard(self, shard: ShardEvidence) -> Fate | None:
        """Return the crash of a shard that leaves its folder without an index."""
        obstacle = _obstacle(shard) if shard.is_whole else ""
        return (
            Fate("crash", "group", "no-index", f"{_name(shard)} {obstacle}") if obstacle else None
        )

    def unknown(self, shards: Sequence[ShardEvidence]) -> str:
        """Return what is unknown of keys, or of the order of skipped samples."""
        whole = [shard for shard in shards if shard.is_whole]
        if self.at_start(shards) is not None:
            return ""
        if any(
            shard.tally(name).count
            for shard in whole
            for name in ("name.not-utf8", "name.junk-not-utf8")
        ):
            return "whether a name that is not UTF-8 belongs to a sample is not known, which would leave it without an index"
        if may_share_keys(whole):
            return "whether two shards have a key in common is not known, which would leave them without an index"
        runs = [run for shard in whole for run in self.runs(shard).counted()]
        usable = sum(run.count for run in runs if self.fates(run.shape)[0].kind == "usable")
        skipped = sum(run.count for run in runs) - usable
        # A pass may begin with the samples with which the last one ended.
        if usable and 2 * skipped >= _IN_A_ROW:
            return (
                f"training ends with an error if {_IN_A_ROW} samples that are skipped come in a row"
            )
        return ""


def captioning(images: Sequence[str], captions: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return ``.nv-meta/dataset.yaml`` for samples with images and captions: of each list, the first that a sample has."""
    return {
        "sample_type": {"__module__": "megatron.energon", "__class__": "CaptioningSample"},
        "field_map": {"image": ",".join(images), "caption": ",".join(captions)},
    }


def _obstacle(shard: ShardEvidence) -> str:
    """Return why there is no index of a shard that is not damaged, "" if there is one."""
    if shard.compression is not None:
        return f"is compressed ({shard.compression})"
    if shard.runs.head is None:
        return "has no sample"
    # The first of them: that of a member of a sample?
    foreign = shard.tally("name.not-utf8")
    if foreign.key is not None and not is_meta(foreign.detail):
        return "has a name that is not UTF-8"
    again = twice_in(shard)
    return "" if again is None else f"has the key {again} twice"


def _name(shard: ShardEvidence) -> str:
    return os.path.basename(shard.url)


class EnergonCrude(Energon):
    """Megatron-Energon 7: ``get_train_dataset(folder, ...)`` of ``CrudeWebdataset``, on the index of ``wdsflow index --energon``.

    All fields are read and decoded, as webdataset 1.x decodes them: a sample with one that does not
    decode is skipped with a message. The others go to a cooker, a function of yours, which is taken
    to want one of jpg, png, jpeg and webp, and ``txt``, and to raise without. Names of images are
    recognized in upper case, to be decoded; a cooker finds all fields as they are spelled. A field
    with a name that Energon needs itself, such as ``__key__``, ends the training.

    Cannot be known here: what your cooker wants; other decoders than the default one, which leaves
    audio and video closed; what a pickled field does (taken as valid); whether the environment that
    trains has msgpack and cbor (they are looked for in this one).

    Source: megatron-energon 7.4.1, flavors/crude.py, webdataset/sample_decoder.py; webdataset
    1.0.2, autodecode.py.
    """

    name = "energon-crude"
    title = "Megatron-Energon 7 (crude samples)"

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run; it is a crash where ``at_start`` is one."""
        sample: Sample = {part.suffix: part for part in shape}
        image = first_of(IMAGE_FIELDS, sample)
        if reserved := next((name for name in sample if name in _RESERVED), None):
            return (Fate("crash", "group", "reserved-field", reserved),)
        if image is None or _CAPTION not in sample:
            return (lacking(image, _CAPTION in sample),)
        bad = next(filter(_is_refused, sample.values()), None)
        return (
            USABLE
            if bad is None
            else Fate("dropped", "decode", reason_for(bad, image, _CAPTION), bad.suffix),
        )

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a set that has no index or a field with a reserved name: samples come in random order."""
        runs = (run for shard in shards if shard.is_whole for run in shard.runs.counted())
        reserved = (part.suffix for run in runs for part in run.shape if part.suffix in _RESERVED)
        crashes = (Fate("crash", "group", "reserved-field", each) for each in reserved)
        return super().at_start(shards) or next(crashes, None)


def _is_refused(part: Part) -> bool:
    """Return whether decoding a field raises: names of images may be in upper case, others not."""
    if part.suffix.startswith("__"):
        return False
    suffix = part.suffix.lower() if extension_of(part.suffix).lower() in IMAGES else part.suffix
    return refused(
        part._replace(suffix=suffix), WebDataset1.decoded, loads_arrays=WebDataset1.loads_arrays
    )
