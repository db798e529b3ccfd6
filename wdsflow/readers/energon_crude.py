"""Megatron-Energon's reader of crude samples, which decodes all fields."""

from collections.abc import Sequence

from wdsflow.scan.evidence import Part, Shape, ShardEvidence
from wdsflow.shards.field_names import IMAGE_FIELDS

from .base import USABLE, Fate
from .energon import Energon
from .grouping import Sample, first_of, incomplete
from .wanted_fields import IMAGES, extension_of, reason_for, refused
from .webdataset_1 import WebDataset1

_CAPTION = "txt"
_RESERVED = frozenset({"__key__", "__shard__", "__restore_key__", "__sources__"})


class EnergonCrude(Energon):
    """Megatron-Energon 7: ``get_train_dataset(folder, ...)`` of ``CrudeWebdataset``, on the index of ``wdsflow index --energon``.

    All fields are read and decoded, as webdataset 1.x decodes them: a sample with one that does not decode is skipped
    with a message. The others go to a cooker, a function of yours. What it makes of them is not known: here, it takes
    one of jpg, png, jpeg and webp, and ``txt``, and raises without, so that the sample is skipped as well; 100 in a row
    end the training with an error. Names of images are recognized in upper case, to be decoded; a cooker finds all
    fields as they are spelled. A field with a name that Energon needs itself, such as ``__key__``, ends the training.

    Index, damaged shards, equal keys and what is not exact: as for ``energon``.
    Cannot be known here: what your cooker wants; other decoders than the default one, which leaves audio and video
    closed; what a pickled field does (taken as valid); whether the environment that trains has msgpack and cbor, which
    decoding needs (they are looked for in this one).

    Source: megatron-energon 7.4.1, flavors/crude.py, webdataset/sample_decoder.py; webdataset 1.0.2, autodecode.py.
    """

    name = "energon-crude"
    title = "Megatron-Energon 7 (crude samples)"

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run; it is a crash where ``at_start`` is one."""
        sample: Sample = {part.suffix: part for part in shape}
        image = first_of(IMAGE_FIELDS, sample)
        if reserved := next((name for name in sample if name in _RESERVED), None):
            return (Fate("crash", "group", "reserved-field", reserved),)
        if lacking := incomplete(image is not None, _CAPTION in sample, "dropped"):
            return (lacking,)
        bad = next(filter(_is_refused, sample.values()), None)
        return (USABLE if bad is None else Fate("dropped", "decode", reason_for(bad, image, _CAPTION), bad.suffix),)

    def at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a set that has no index or a field with a reserved name: samples come in random order."""
        runs = (run for shard in shards if shard.is_whole for run in shard.runs.counted())
        reserved = (part.suffix for run in runs for part in run.shape if part.suffix in _RESERVED)
        return super().at_start(shards) or next(
            (Fate("crash", "group", "reserved-field", each) for each in reserved), None
        )


def _is_refused(part: Part) -> bool:
    """Return whether decoding a field raises: names of images may be in upper case, others not."""
    if part.suffix.startswith("__"):
        return False
    suffix = part.suffix.lower() if extension_of(part.suffix).lower() in IMAGES else part.suffix
    return refused(part._replace(suffix=suffix), WebDataset1.decoded)
