"""Megatron-Energon's reader of crude samples."""

from collections.abc import Sequence

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Part, Shape
from wdsflow.shards.shard_names import IMAGE_FIELDS

from .base import USABLE, Fate, Sample, fate_of_incomplete, first_of
from .energon import Energon
from .wanted_fields import IMAGES, decoding_raises, extension_of, reason_for
from .webdataset import WebDataset1

_CAPTION = "txt"
# Names that Energon needs itself.
_RESERVED = frozenset({"__key__", "__shard__", "__restore_key__", "__sources__"})


class EnergonCrude(Energon):
    """Megatron-Energon 7: ``get_train_dataset(folder, ...)`` of ``CrudeWebdataset``.

    It uses the index of ``wdsflow index --energon``.

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
    # A cooker gets all fields.
    takes_one_pair = False
    takes_field_map = False

    def fates(self, shape: Shape) -> tuple[Fate, ...]:
        """Return the fate of the one sample of the run; it is a crash where ``crash_at_start`` is one."""
        sample: Sample = {part.suffix: part for part in shape}
        image = first_of(IMAGE_FIELDS, sample)
        for name in sample:
            if name in _RESERVED:
                return (Fate("crash", "group", "reserved-field", name),)
        if image is None or _CAPTION not in sample:
            return (fate_of_incomplete(image, _CAPTION in sample),)
        for part in sample.values():
            if _is_refused(part):
                reason = reason_for(part, image, _CAPTION)
                return (Fate("dropped", "decode", reason, part.suffix),)
        return (USABLE,)

    def crash_at_start(self, shards: Sequence[ShardEvidence]) -> Fate | None:
        """Return the crash of a set that has no index, or a field with a reserved name.

        Such a field counts at the start because samples come in random order.
        """
        crash = super().crash_at_start(shards)
        if crash is not None:
            return crash
        for shard in shards:
            if not shard.is_whole:
                continue
            for run in shard.runs.shape_counts():
                for part in run.shape:
                    if part.suffix in _RESERVED:
                        return Fate("crash", "group", "reserved-field", part.suffix)
        return None


def _is_refused(part: Part) -> bool:
    """Return whether decoding a field raises: names of images may be in upper case, others not."""
    if part.suffix.startswith("__"):
        return False
    if extension_of(part.suffix).lower() in IMAGES:
        part = part._replace(suffix=part.suffix.lower())
    return decoding_raises(part, WebDataset1.decoded, loads_arrays=WebDataset1.loads_arrays)
