"""Fields whose contents readers cannot use."""

from collections.abc import Iterator

from wdsflow.readers.base import BAD_MARK, RESERVED
from wdsflow.scan.content.field_kinds import kind_of
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.scan.shapes import Part
from wdsflow.scan.statuses import (
    BAD,
    BOMB,
    CUT,
    EMPTY,
    MARKUP,
    NO_LIBRARY,
    NOT_IMAGE,
    NOT_UTF8,
    NOT_ZIPPED,
    PARTLY,
)
from wdsflow.text.install import install_packages
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..finding import Finding, Repair
from .kit.base import Context, TallyRule, example_text, tally_of_fields
from .kit.sample_loss_rules import LossRule

_PACKAGES = {"msgpack": "msgpack", "cbor": "cbor"}


class BadJson(LossRule):
    """Json does not parse, or is not an object.

    What: Python's json refuses a json member (cut, empty, not UTF-8, nested too deep), or the
    member holds a list, a number or a string instead of an object.

    Why it matters: OpenCLIP 3.3 decodes every field of a sample, even if it does not need it. It
    drops a sample whose json does not parse, although image and caption are valid, with a warning
    that names neither key nor field. webdataset 1.x ends there. OpenCLIP 4 reads json only with
    ``--json-text-key``, and then drops samples without a caption.

    In practice: json written by hand with single quotes, NaN for other parsers, empty files from a
    writer that was killed (img2dataset#344).

    Fix: ``wdsflow repair SHARD -o repaired`` keeps such samples: it renames json that does not
    parse, so that readers leave it as bytes. If a reader needs the json, write it again with
    ``json.dumps``.
    """

    code = "F107"
    tallies = ("json.bad", "json.deep", "json.not-object")
    statuses = (BAD, EMPTY)
    kinds = ("json",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        words = {
            "json.bad": "not parsing",
            "json.deep": "nested too deep",
            "json.not-object": "not an object",
        }
        reasons = [
            f"{text}: {shard.tally(name).count:,}"
            for name, text in words.items()
            if shard.tally(name).count
        ]
        return f"{how_many(count, 'json field')} of no use ({', '.join(reasons)})"


class HugeField(TallyRule):
    """A field is far too large.

    What: a text member over 1 MiB, a json member over 16 MiB, or another field over 256 MiB. Texts
    up to 256 MiB and json up to 64 MiB are decoded all the same. Others are not: the verdict counts
    their samples as lost at its lower end.

    Why it matters: readers load and decode it as a whole. A tokenizer processes the whole caption
    to keep 77 tokens, which can block a worker for minutes. It is most likely another file under a
    wrong name.

    In practice: a log or a whole table saved as .txt, base64 images inside json.

    Fix: look at it: ``tar --extract --to-stdout -f SHARD NAME | head --bytes 1000``, and leave it
    out when packing.
    """

    code = "F119"
    tallies = ("text.huge", "json.huge", "field.huge")
    counts_samples = True
    says = "{n:field is|fields are} far too large{first}: readers load all of it"


class GzippedField(TallyRule):
    """Fields are gzipped one by one.

    What: members such as ``a.txt.gz`` or ``a.json.gz``.

    Why it matters: webdataset unpacks and decodes them, but the field keeps its name ``txt.gz``,
    and OpenCLIP needs ``txt``: its filter finds no caption, and silently drops the sample. gzip
    makes short texts larger.

    In practice: exports that always compress text; samples with ``.cls.gz``.

    Fix: ``wdsflow repair URL... -o repaired`` unpacks and renames them, as ``--rename txt.gz=txt``
    does.
    """

    code = "F120"
    counts_samples = True
    says = "{n:field is|fields are} gzipped{first}: readers keep .gz in the field name"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Count by shape: the field's name is known at every level."""
        return tally_of_fields(shard, lambda part: part.suffix.lower().endswith(".gz"))


class BadField(LossRule):
    """A field other than image and caption does not decode.

    What: the decoder refuses a member other than image, caption and json: an ``.id`` or ``.cls``
    that is not an integer, a damaged ``.npy``, ``.npz``, ``.mp``, ``.cbor``, ``.ten``, ``.pyd`` or
    ``.pth``, a ``.gz`` that is not gzip. webdataset 0.2 opens an ``.npz`` and does not load its
    arrays: it does not notice a damaged one, 1.x does.

    Why it matters: OpenCLIP 3.3 decodes every field of a sample by its extension. If one field
    fails, the sample is dropped, although image and caption are valid, with a warning that names
    neither key nor field. If all samples have such a field, none is left and training hangs.
    webdataset 1.x ends with an exception. For timm, ``cls`` is the label: samples whose label is
    not an integer are dropped.

    In practice: ``.id`` with a hexadecimal name, ``.index`` with text, empty side files (cosmos#3).

    Fix: ``wdsflow repair SHARD -o repaired`` renames the field where it does not decode, so that
    readers leave it as bytes; ``--drop-field id`` leaves it out. OpenCLIP 4 decodes only image and
    caption. Write the labels for timm again.
    """

    code = "F121"
    tallies = ("field.bad",)
    # Most of them of gzipped fields.
    statuses = (BAD, NOT_ZIPPED, PARTLY, NOT_UTF8, CUT, MARKUP, NOT_IMAGE, BOMB)
    # The others have rules of their own.
    kinds = ("integer", "npy", "npz", "msgpack", "cbor", "tenbin", "pickle", "torch", "gz")
    says = "{n:field} other than image and caption {verb:does|do} not decode{first}"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Count by shape, which includes gzipped fields, otherwise by the tally."""
        tally = tally_of_fields(
            shard, lambda part: part.status in self.statuses and kind_of(part.suffix) in self.kinds
        )
        return tally if tally.count else super().tally_in(shard)


class MarkedBad(LossRule):
    """Samples are marked as bad.

    What: a sample has a member ``.__bad__`` that is not empty, such as ``000.__bad__``.

    Why it matters: webdataset takes such a member for a mark, and OpenCLIP, timm and Ray Data drop
    the sample silently, although image and caption may be valid.

    In practice: flags of a cleaning script that were packed with the samples.

    Fix: ``wdsflow repair SHARD -o repaired --drop-field __bad__`` takes the mark off. An empty one
    has no effect.
    """

    code = "F127"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Count by shape."""
        return tally_of_fields(shard, _is_mark)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'sample is', 'samples are')} marked by a member {detail}"

    def fixed_part(self, part: Part) -> Part:
        return part._replace(status=EMPTY) if _is_mark(part) else part


def _is_mark(part: Part) -> bool:
    return part.suffix.lower() == BAD_MARK and part.status != EMPTY


class ReplacedKey(LossRule):
    """A field has the name of one that readers set themselves.

    What: a sample has a member ``.__key__`` or ``.__url__``, such as ``000.__key__``;
    ``.__local_path__``, ``.__shard__``, ``.__restore_key__`` or ``.__sources__``.

    Why it matters: webdataset keeps a sample as a dict, in which it sets ``__key__`` and
    ``__url__``. Up to 0.2 such a member replaces the value: the sample ends there, and its other
    members make samples of their own, each without an image or a caption. webdataset 1.x raises
    "duplicate file name in tar file", also for ``__local_path__``. Crude samples of Energon end
    with an exception at ``__key__`` and the last three.

    In practice: samples that a pipeline gave were written field by field, with the fields that it
    had set.

    Fix: ``wdsflow repair URL... -o repaired`` gives the field another name, as
    ``--rename __key__=key_field`` does.
    """

    code = "F128"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        """Count by shape."""
        return tally_of_fields(shard, _is_reserved)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"{how_many(count, 'field has', 'fields have')} a name that readers set themselves{example_text(detail)}"

    def fixed_part(self, part: Part) -> Part:
        if _is_reserved(part):
            return part._replace(suffix=other_name(part.suffix))
        return part


def _is_reserved(part: Part) -> bool:
    return part.suffix.lower() in RESERVED


def other_name(suffix: str) -> str:
    """Return the name that a field of a reserved name gets."""
    return f"{suffix.lower().strip('_')}_field"


class NeedsLibrary(LossRule):
    """A field needs a library that is not installed here.

    What: members such as ``.mp`` (msgpack) or ``.cbor`` whose decoder is a separate package. It is
    missing in this environment; check the environment in which you train.

    Why it matters: OpenCLIP 3.3 decodes every field. Without the package, each such sample is
    dropped with a warning that names neither key nor cause. If all samples have the field, none is
    left and training hangs.

    In practice: shards made with one environment and read with another.

    Fix: ``pip install msgpack`` for .mp and .msg, ``pip install cbor`` for .cbor, or leave the
    field out when packing.
    """

    code = "F122"
    tallies = ("field.needs-library",)
    statuses = (NO_LIBRARY,)
    kinds = ("msgpack", "cbor", "tenbin", "torch", "npy", "npz")
    says = "{n:field needs|fields need} a library that is not installed here{first}"

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        package = _PACKAGES.get(kind_of(tally.detail))
        return Repair(install_packages(package), note="where you train, too") if package else None


class TypesDiffer(TallyRule):
    """The values of a column change their type.

    What: json, arrays or msgpack have values of other types than those of the first five samples;
    or the first samples do not agree, or hold values that Arrow does not accept, such as a list of
    numbers and strings, or an integer of more than 64 bits.

    Why it matters: Hugging Face datasets take the types of their columns from the first five
    samples of the first shard. Later values are converted to these types. A string in a column of
    numbers, a number instead of a list, or a list instead of an object ends the reader with an
    exception, often after hours. Missing names and null are fine. Without streaming, all values are
    written to tables first, which are stricter: a value in a column that had only null, an integer
    of more than 64 bits, or a list of unlike values ends the reader as well.

    In practice: sizes that are null or "unknown" after a failed download, tags that are one string
    or a list of strings, metadata of several sources in one set.

    Fix: write the values with one type, or keep the field as bytes, which fit any column:
    ``wdsflow repair URL... -o repaired --rename json=json_raw``
    """

    code = "F126"
    severity = "error"
    tallies = ("column.misfit", "column.unwritable")

    def check(self, context: Context) -> Iterator[Finding]:
        typing = [reader.name for reader in context.readers if reader.makes_columns]
        writing = [reader.name for reader in context.readers if reader.writes_tables]
        shards = context.evidence.shards
        if not typing or not shards:
            return
        columns = shards[0].columns
        if columns is not None and columns.error:
            text = f"the first samples give the column {escape(columns.field, 40)} no type"
            text += f" ({escape(columns.error, 120)})"
            yield self._of_column(context, text, typing, shards[0], None)
        for shard in shards:
            tally = shard.tally("column.misfit")
            if tally.count:
                values = how_many(tally.count, "value does", "values do")
                text = f"{values} not fit the type of the column{_first_value(tally)}"
                yield self._of_column(context, text, typing, shard, tally)
        for shard in shards if writing else ():
            tally = shard.tally("column.unwritable")
            if tally.count:
                values = how_many(tally.count, "value")
                text = f"{values} cannot be written to a table{_first_value(tally)}"
                yield self._of_column(context, text, writing, shard, tally)

    def _of_column(
        self,
        context: Context,
        text: str,
        readers: list[str],
        shard: ShardEvidence,
        tally: Tally | None,
    ) -> Finding:
        count = tally.count if tally else 0
        return self.finding(
            f"{text}; {context.exception_text(readers)}", readers, shard, tally, count=count
        )


def _first_value(tally: Tally) -> str:
    """Return the first value of a tally with its error, in brackets."""
    field, _, error = tally.detail.partition(": ")
    return f" (first: {escape(field, 40)}, {escape(error, 120)})"
