"""Captions that teach a model the wrong thing, or nothing."""

from collections import Counter
from collections.abc import Iterator

from wdsflow.readers.base import split_names
from wdsflow.scan.caption_names import caption_name
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.scan.shapes import ShapeCount
from wdsflow.scan.statuses import BLANK, EMPTY, NO_CAPTION, NOT_UTF8
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

from ..finding import Finding, Repair
from .kit.base import Context, Rule, filter_repair
from .kit.field_roles import fields_in
from .kit.folded_shapes import folded_shapes
from .kit.quality_rules import QualityRule
from .kit.sample_loss_rules import LossRule
from .kit.training_rules import flag_repair

_FREQUENT_SHARE = 0.05
_FREQUENT_LEAST = 20
# Captions that are reported.
_MOST_FREQUENT = 3
# F112 and F115 report these.
_NONE = ("", "nan", "none", "null")


class NoJsonCaption(LossRule):
    """The json has no caption under the given name.

    What: with ``--json-text-key``, some json members have no caption under any of these names: the
    name is missing, or its value is null, a number, a list or only white space.

    Why it matters: OpenCLIP 4 reads an empty caption and silently drops the sample. If the name is
    misspelt, all samples are dropped, and training hangs.

    In practice: ``--json-text-key captions`` where the field is called ``caption``; lists of
    captions; null if the captioner failed.

    Fix: name the right field, or several in order of preference:
    ``--json-text-key "caption;text"``. ``wdsflow inspect SHARD`` lists all names with an example.
    """

    code = "F108"
    requires = ("F107",)
    statuses = (NO_CAPTION,)

    def tally_in(self, shard: ShardEvidence) -> Tally:
        tally = Tally()
        for item in shard.runs.shape_counts():
            if any(part.status == NO_CAPTION for part in item.shape):
                tally.add(item.key, item.offset, count=item.count)
        return tally

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        best = caption_name([shard])
        hint = ""
        if best is not None:
            kind = (
                "a string"
                if best[1].plain == best[1].strings
                else "a caption, but deeper or in a list,"
            )
            hint = (
                f' ("{escape(best[0], 60)}" holds {kind} in {how_many(best[1].strings, "sample")})'
            )
        of = f"{count:,} of {how_many(shard.samples, 'sample')}"
        return (
            f"{of} {'has' if count == 1 else 'have'} no caption under the wanted json names{hint}"
        )


class CaptionNotUtf8(LossRule):
    """Captions are not UTF-8.

    What: text members whose bytes do not decode: Latin-1, Windows-1252, UTF-16, or damage.

    Why it matters: OpenCLIP 3.3 decodes them strictly; the UnicodeDecodeError drops the sample with
    a warning that names neither key nor shard. OpenCLIP 4 drops them silently. webdataset 1.x,
    Hugging Face datasets and Ray Data end with an exception.

    In practice: "'utf-8' codec can't decode byte 0x92 in position 12" for typographic quotes from
    Windows; captions written by PowerShell, which is UTF-16 (joy-caption-batch#1; FluxTrainer#14).

    Fix: ``wdsflow repair SHARD -o repaired`` decodes them, if one encoding makes sense for all;
    ``--caption-encoding cp1252`` names it. To read them in their encoding: the stage
    ``CleanText(fallback="cp1252")`` in a pipeline, or
    ``stages: [{clean_text: {fallback: cp1252}}]`` in a recipe of ``wdsflow filter``.
    """

    code = "F109"
    tallies = ("text.not-utf8",)
    statuses = (NOT_UTF8,)
    says = "{n:caption is|captions are} not UTF-8"


class EmptyCaption(LossRule):
    """Captions are empty.

    What: text members that are empty or only white space.

    Why it matters: OpenCLIP 3.3 trains on them: the caption is the start and end token, the same
    for all such images, which pulls these images together. OpenCLIP 4 drops the samples silently.

    In practice: img2dataset writes an empty .txt if the table has no caption (img2dataset#46);
    captioners that failed (SimpleTuner#1100).

    Fix: ``wdsflow repair URL... -o repaired`` takes the caption from json, if the sample has one
    there. With ``--drop-bad`` it leaves these samples out. OpenCLIP 4 skips them by itself.
    """

    code = "F112"
    harmless = "warning"
    tallies = ("text.empty", "text.blank")
    statuses = (EMPTY, BLANK)
    kinds = ("text", "opaque")
    says = "{n:caption is|captions are} empty"


class OddCharacters(QualityRule):
    r"""Captions have control characters, NULs or a byte-order mark.

    What: characters that are not text: NUL, terminal escapes, other control characters, or U+FEFF
    at the start.

    Why it matters: OpenCLIP's tokenizer makes separate tokens of the mark and the control
    characters, before the first word or in the middle of one. In a terminal or a log, escapes
    change colours and titles or hide text; wdsflow shows them spelled out.

    In practice: text saved as "UTF-8 with BOM" by Windows editors, text taken from PDF files.

    Fix: clean the captions before packing:
    ``text = "".join(c for c in text.lstrip("\ufeff") if c.isprintable() or c.isspace())``
    """

    code = "F113"
    tallies = ("text.bom", "text.nul", "text.control")
    says = "{n} {verb:has|have} control characters or a byte-order mark{where}: such characters become tokens"


class HtmlCaption(QualityRule):
    """Captions contain HTML.

    What: tags such as ``<br>`` or entities such as ``&amp;`` in captions.

    Why it matters: OpenCLIP's tokenizer turns entities back into characters, but leaves tags:
    ``br``, ``href`` and ``span`` become words that the model learns, and they fill the 77 tokens.

    In practice: alt texts and product descriptions taken from pages without cleaning.

    Fix: clean the captions before packing: ``text = html.unescape(re.sub(r"<[^>]*>", " ", text))``
    """

    code = "F114"
    tallies = ("text.html",)
    says = "{n} {verb:contains|contain} HTML tags or entities{where}: tags are learnt as words"


class NoneCaption(QualityRule):
    """Captions are the word nan, none or null.

    What: a missing caption that was turned into text.

    Why it matters: all these images are trained with the same word, and the sample looks complete
    to every reader and filter.

    In practice: ``str(value)`` on an empty cell of a pandas table gives ``nan``; OpenCLIP's own csv
    reader does that.

    Fix: leave such rows out before packing: ``table = table.dropna(subset=["caption"])``
    """

    code = "F115"
    tallies = ("text.none",)
    says = "{n} {verb:is|are} the word nan, none or null{where}: a missing caption was turned into text"
    common = 0.001


class FilenameCaption(QualityRule):
    """Captions are file names.

    What: the whole caption is one word with an image extension, such as ``IMG_0042.JPG``.

    Why it matters: the sample looks complete, but the model learns that pictures are called IMG.

    In practice: alt texts filled in by cameras, scanners and content management systems.

    Fix: ``wdsflow filter SHARD -o filtered --where 'not is_filename_like'`` leaves them out, and
    also numbers and names without an extension, such as ``DSC_0042``.
    """

    code = "F116"
    tallies = ("text.filename",)
    says = "{n} {verb:looks like a file name|look like file names}{where}: a name says nothing about the picture"

    def fix_of_set(self, context: Context) -> Repair | None:
        return filter_repair(context.targets(), "not is_filename_like", "leaves these samples out")


class Mojibake(QualityRule):
    """Captions were decoded with the wrong encoding.

    What: UTF-8 text that was read as Latin-1 and saved again: ``Ã©`` for ``é``, ``â€™`` for an
    apostrophe.

    Why it matters: it is valid UTF-8, so no reader complains. OpenCLIP's tokenizer repairs it if it
    uses ftfy (as its default cleaning does); other tokenizers learn the broken letters and spend
    two or three tokens on each.

    In practice: pages that declare a wrong encoding, csv files opened and saved in a spreadsheet.

    Fix: repair the captions before packing: ``text = ftfy.fix_text(text)``
    """

    code = "F117"
    tallies = ("text.mojibake",)
    says = (
        "{n} {verb:looks|look} like UTF-8 read as Latin-1{where}: letters with accents are broken"
    )


class LongCaption(QualityRule):
    """Captions are longer than a text model reads.

    What: more than 75 words. A word is at least one token, and CLIP reads 77 tokens, two of which
    are start and end. Such captions are always cut; shorter ones may be.

    Why it matters: OpenCLIP's tokenizer cuts them silently: tokens after the 75th are never
    trained. The tokenizer of openai/CLIP raises "Input ... is too long for context length 77"
    instead.

    In practice: captions written by language models, product descriptions (open_clip#857, #515).

    Fix: put the important words first, or train a model with a longer context, such as one with
    ``"context_length": 256`` in its config.
    """

    code = "F118"
    tallies = ("text.long",)
    says = "{n} {verb:has|have} more than 75 words{where}: CLIP's 77 tokens end before the caption does"
    common = 0.05


class FrequentCaption(Rule):
    """Many images have the same caption.

    What: a single caption makes up at least 5 % of all captions, and occurs at least 20 times. The
    count is a lower bound.

    Why it matters: the contrastive loss takes every other pair of a batch for a mismatch. If one
    caption in 20 is the same, a batch of 1,000 has 50 matching pairs that are pushed apart. The
    loss stays high and the model inaccurate.

    In practice: boilerplate ("Buy now", "Image may contain"), class labels as captions, a captioner
    stuck in a phrase.

    Fix: leave the caption out before packing: ``if text == "...": continue``. For class labels,
    vary the sentence or use a loss made for labels.
    """

    code = "F124"

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        counts: Counter[str] = Counter()
        for shard in shards:
            for text, count in shard.captions.frequent.items():
                if text.strip().lower() not in _NONE:
                    counts[text] += count
        captions = sum(shard.captions.count for shard in shards)
        least = max(_FREQUENT_LEAST, _FREQUENT_SHARE * captions)
        for text, count in counts.most_common(_MOST_FREQUENT):
            if count < least:
                return
            first = next(shard for shard in shards if text in shard.captions.frequent)
            share = f'at least {count:,} of {captions:,} captions are "{escape(text, 60)}"'
            message = f"{share}: equal captions in a batch count as mismatches"
            yield self.finding(message, context.reader_names(), first, count=count, of=captions)


class JsonAsText(Rule):
    """The raw json is taken for the caption.

    What: ``--text-key`` names ``json``, and samples have it.

    Why it matters: OpenCLIP 4 takes the bytes of the field for the caption: it tokenizes braces,
    names and urls, and the 77 tokens are full before the caption begins. With 3.3 and a custom
    pipeline that renames json to text it is worse: the tokenizer iterates over the dict, and the
    caption of every image is its first name. The loss falls a little and nothing reports an error.

    In practice: the quick fix for captions in json (see the maintainer's warning in
    open_clip#1016).

    Fix: read one field of it: ``--json-text-key FIELD`` (OpenCLIP 4), or write txt members:
    ``wdsflow repair URL... -o repaired --caption json:FIELD``
    """

    code = "F125"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        for reader in context.readers:
            names = split_names(reader.options.text_key)
            if reader.options.json_text_key or "json" not in names:
                continue
            # Fields that the reader prefers.
            preferred = set(names[: names.index("json")])
            count = 0
            first: tuple[ShardEvidence, ShapeCount] | None = None
            for shard in context.evidence.shards:
                for item in folded_shapes(context, reader, shard):
                    fields = fields_in(item.shape)
                    takes_json = "json" in fields and preferred.isdisjoint(fields)
                    if takes_json and context.usable(reader, item.shape):
                        count += item.count
                        first = first or (shard, item)
            if first is None:
                continue
            samples = how_many(count, "sample has", "samples have")
            setting = f"{context.reader_titles([reader.name])} with --text-key"
            message = (
                f"{samples} the raw json as caption ({setting}): braces and names are tokenized"
            )
            yield self.finding(message, [reader.name], *first, count=count, fix=_fix(context))


def _fix(context: Context) -> Repair | None:
    """Return the flag that reads captions from json, if all of them are plain strings."""
    best = caption_name(context.evidence.shards)
    if best is None:
        return None
    name, entry = best
    return flag_repair("--json-text-key", name) if entry.plain == entry.strings else None
