"""Fields that differ from sample to sample."""

from collections import Counter
from collections.abc import Iterator

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.shapes import Part, Run, Runs, Shape, ShapeCount
from wdsflow.shards.shard_names import IMAGE_FIELDS
from wdsflow.text.shell import escape
from wdsflow.text.words import enumeration, how_many

from ..finding import Finding, Severity
from .kit.base import Context, Rule, TallyRule
from .kit.field_roles import Role, accepted_fields, fields_in
from .kit.quality_rules import QualityRule
from .kit.rule_loss import loss

# Share of the samples of a shard: fewer do not show which fields it has.
_MOST_SAMPLES = 0.9
# First samples that show the columns to some readers.
_LOOKED_AT = 5


class WrongExtension(QualityRule):
    """Images have another format than their extension says.

    What: the first bytes are of another format than the extension, such as PNG data in ``a.jpg``.

    Why it matters: Pillow looks at the bytes, so OpenCLIP, webdataset and Hugging Face datasets
    decode them. Readers that choose a decoder by name, or decode only JPEG (turbojpeg), fail on
    them.

    In practice: img2dataset with ``--disable_all_reencoding`` names every image jpg
    (img2dataset#344, #457); web servers that send WebP under a .jpg url.

    Fix: nothing for OpenCLIP. img2dataset re-encodes by default: leave ``--disable_all_reencoding``
    out.
    """

    code = "F104"
    severity = "info"
    tallies = ("image.wrong-extension",)
    says = "{n} {verb:is of another format than its|are of another format than their} extension says{where}: Pillow goes by the bytes, turbojpeg takes JPEG only"


class MixedExtensions(Rule):
    """Images have several extensions.

    What: some samples have their image as jpg, others as png, jpeg or webp.

    Why it matters: OpenCLIP takes the first of the four that a sample has. Hugging Face datasets
    take their columns from the first five samples: an image with another extension is left out, and
    its row has None. Readers that need one name skip these samples or fail.

    In practice: downloads that keep the original extension (datasets#6880, #7055; Mobile-O#8).

    Fix: ``wdsflow repair URL... -o repaired --rename jpeg=jpg --rename png=jpg`` gives all images
    one name; Pillow goes by the bytes. img2dataset writes one format with ``--encode_format jpg``.
    """

    code = "F105"
    severity = "info"
    of_set = True

    def check(self, context: Context) -> Iterator[Finding]:
        counts: Counter[str] = Counter()
        first: dict[str, tuple[ShardEvidence, ShapeCount]] = {}
        for shard in context.evidence.shards:
            for item in shard.runs.shape_counts():
                name = _only_image(item.shape)
                if name:
                    counts[name] += item.count
                    first.setdefault(name, (shard, item))
        if len(counts) < 2:
            return
        common = counts.most_common(1)[0][0]
        rare = [name for name, _ in counts.most_common()[1:]]
        lost = self._lost(context, common, rare)
        severity: Severity = "info"
        effect = ""
        if lost:
            most = max(lost.values())
            severity = "error" if most > context.max_loss * context.evidence.samples else "warning"
            effect = f": for {context.reader_titles(lost)}, {how_many(most, 'image')} fall out"
        many = enumeration(f"{name} ({counts[name]:,})" for name in (common, *rare))
        others = sum(counts[name] for name in rare)
        shard, sample = first[rare[0]]
        yield self.finding(
            f"images come as {many}{effect}",
            lost,
            shard,
            sample,
            count=others,
            of=counts.total(),
            severity=severity,
        )

    def _lost(self, context: Context, common: str, rare: list[str]) -> dict[str, int]:
        """Return for each reader how many more samples it would use if all images had one name."""
        names = {common, *rare}
        lost: dict[str, int] = {}
        for reader in context.readers:
            bound = context.bound_reader(reader)
            if bound is reader:
                # It does not take its columns from the first samples.
                continue
            most = max(_lost_by_other_names(context, bound, name, names) for name in names)
            if most:
                lost[reader.name] = most
        return lost


def _lost_by_other_names(context: Context, reader: Reader, name: str, names: set[str]) -> int:
    """Return how many samples a reader loses because images have one of ``names``, not ``name``."""

    def fixed_part(part: Part) -> Part:
        if part.suffix in names and part.suffix != name:
            return Part(name, part.status)
        return part

    shards = context.evidence.shards
    return sum(loss(context, reader, shard, fixed_part).samples for shard in shards)


def _only_image(shape: Shape) -> str:
    names = [part.suffix.lower() for part in shape if part.suffix.lower() in IMAGE_FIELDS]
    return names[0] if len(names) == 1 else ""


class FieldsDiffer(Rule):
    """Shards have different fields.

    What: a field that most samples of a shard have (at least nine in ten) is missing in other
    shards, or the other way round. Each shard is compared with the majority of shards.

    Why it matters: readers that take their columns from the first samples (Hugging Face datasets,
    tables made from shards) give None for the rest or fail: "the key/value pairs do not match".
    Part of the set may come from another source or an older version than you think.

    In practice: datasets#6900, #7055; a set to which shards were added later; two exports in one
    folder.

    Fix: write all shards with the same fields: ``wdsflow inspect URL...`` lists them for each
    shard. If only the name differs: ``wdsflow repair SHARD -o repaired --rename OLD=NEW``.
    """

    code = "F106"
    requires = ("F102", "F103", "F105", "W006", "W010", "W012", "W029", "W030", "W001", "W002")

    def check(self, context: Context) -> Iterator[Finding]:
        sets = [(shard, _usual_fields(shard)) for shard in context.evidence.shards if shard.samples]
        if len(sets) < 2:
            return
        ((usual, agreeing),) = Counter(fields for _, fields in sets).most_common(1)
        for shard, fields in sets:
            if fields == usual:
                continue
            differences = []
            if usual - fields:
                differences.append(f"lacks {_listed_fields(usual - fields)}")
            if fields - usual:
                differences.append(f"has {_listed_fields(fields - usual)}")
            text = f"{' and '.join(differences)} unlike {how_many(agreeing, 'other shard')}"
            yield self.finding(text, context.reader_names(), shard, count=shard.samples)


def _usual_fields(shard: ShardEvidence) -> frozenset[str]:
    """Return the fields that most samples of a shard have."""
    least = _MOST_SAMPLES * shard.samples
    fields = [name for name, item in shard.fields.items() if item.count >= least]
    return frozenset(name for name in fields if not name.startswith("*"))


def _listed_fields(fields: frozenset[str]) -> str:
    return escape(", ".join(sorted(fields)))


class UnlikeFields(Rule):
    """Samples have different fields, but a reader needs the same ones.

    What: the first five samples of the first shard do not have the same fields; or, for Ray Data,
    an image that the first sample of a shard has is missing in a later one.

    Why it matters: Hugging Face datasets, and the viewer of the Hub, read the first five samples
    and end at once: "The TAR archives of the dataset should be in WebDataset format, but the files
    in the archive don't share the same prefix or the same types." Ray Data makes a tensor of each
    image column and fails on rows without it. OpenCLIP and webdataset accept such samples.

    In practice: the data set page on the Hub shows an error instead of pictures (datasets#6880,
    #7144).

    Fix: give all samples the same fields; an optional field must be in all of the first five, or in
    none of them. ``wdsflow inspect SHARD`` shows the fields in the order of the shard.
    """

    code = "F110"
    severity = "info"
    requires = ("F102", "F103", "F105", "W006", "W010", "W012")

    def check(self, context: Context) -> Iterator[Finding]:
        shards = context.evidence.shards
        if shards:
            yield from self._first_five(context, shards[0])
        for shard in shards:
            ending = context.readers_ended_at(shard, "schema")
            if not ending:
                continue
            reader = next(reader for reader in context.readers if reader.name in ending)
            crash = reader.crash_at_shard(shard)
            field = escape(crash.detail, 40) if crash else ""
            text = f'its first sample has "{field}" and others do not: {context.exception_text(ending)}'
            yield self.finding(text, ending, shard, severity="error")

    def _first_five(self, context: Context, shard: ShardEvidence) -> Iterator[Finding]:
        ending = []
        for reader in context.readers:
            crash = reader.crash_at_start(context.evidence.shards)
            if crash is not None and crash.reason == "schema":
                ending.append(reader.name)
        runs = shard.visible_runs or shard.runs
        if ending and runs.head is None:
            text = f"the first shard has no sample that shows the fields: {context.exception_text(ending)}"
            yield self.finding(text, ending, shard, severity="error")
        usual = _fields(runs.head.shape) if runs.head else frozenset()
        for run in _early(runs):
            fields = _fields(run.shape)
            if fields == usual:
                continue
            first = escape(", ".join(sorted(usual)), 80)
            then = escape(", ".join(sorted(fields)), 80)
            text = f"the first samples differ in fields ({first}; then {then}): "
            text += "the viewer of the Hugging Face Hub refuses the set"
            severity = "error" if ending else self.severity
            yield self.finding(text, ending, shard, run, severity=severity)
            return


def _early(runs: Runs) -> Iterator[Run | ShapeCount]:
    """Yield each new shape among the second to fifth run."""
    for item in runs.inner:
        if 1 + sum(item.before) < _LOOKED_AT:
            yield item
    if runs.tail is not None and 1 + sum(item.count for item in runs.inner) < _LOOKED_AT:
        yield runs.tail


def _fields(shape: Shape) -> frozenset[str]:
    return frozenset(part.suffix for part in shape)


class UnsafeField(TallyRule):
    """Pickled fields run code when they are read.

    What: members named .pickle, .pkl, .pyd or .pth. Reading a pickle executes the code that its
    author put in. wdsflow never runs it: it looks at the instructions only, which shows whether the
    file is cut or damaged, and which modules it needs.

    Why it matters: webdataset's ``decode`` unpickles such fields by itself, and OpenCLIP 3.3
    decodes every field of a sample, even if it does not need it. Whoever made the shard can run
    programs on every training machine. Older versions of Ray Data and Hugging Face datasets did the
    same.

    In practice: embeddings stored by ``torch.save`` next to images; metadata as pickle out of
    habit.

    Fix: ``wdsflow repair SHARD -o repaired --drop-field pickle`` leaves the field out. When
    packing, store arrays as .npy and metadata as .json. webdataset 1.x refuses pickles with
    ``WDS_SECURE=1``.
    """

    code = "F111"
    severity = "error"
    tallies = ("field.unsafe",)
    counts_samples = True
    says = "{n:field is|fields are} pickled{first}: decoding runs its author's code"


class TwoImages(Rule):
    """Samples have two fields, and only one is used.

    What: ``a.jpg`` and ``a.png`` in one sample, or two of the caption fields named with
    ``--text-key``.

    Why it matters: OpenCLIP renames the first of ``jpg;png;jpeg;webp`` that a sample has to
    ``image``, and silently removes the others. If the png is the picture and the jpg its thumbnail
    or mask, the model sees the wrong one. Both are read, and OpenCLIP 3.3 decodes both.

    In practice: an image with its mask, depth map or low-resolution copy, each with a usual
    extension.

    Fix: give the second picture another name:
    ``wdsflow repair URL... -o repaired --rename png=mask.png``. OpenCLIP 4 can choose:
    ``--image-key png``.
    """

    code = "F123"
    requires = ("W010",)

    def check(self, context: Context) -> Iterator[Finding]:
        roles: tuple[Role, ...] = ("image", "caption")
        for role in roles:
            readers_of: dict[tuple[str, ...], list[str]] = {}
            for reader in context.readers:
                names = accepted_fields(context, reader, role)
                if len(names) > 1:
                    readers_of.setdefault(names, []).append(reader.name)
            for names, readers in readers_of.items():
                yield from self._double(context, names, readers)

    def _double(
        self, context: Context, names: tuple[str, ...], readers: list[str]
    ) -> Iterator[Finding]:
        for shard in context.evidence.shards:
            count = 0
            # Of the first such samples.
            first: ShapeCount | None = None
            fields: list[str] = []
            for item in shard.runs.shape_counts():
                present = [name for name in names if name in fields_in(item.shape)]
                if len(present) > 1:
                    count += item.count
                    if first is None:
                        first = item
                        fields = present
            if first is None:
                continue
            verb = "has" if count == 1 else "have"
            pair = escape(f"{' and '.join(fields)}: only {fields[0]} is used")
            message = f"{count:,} of {how_many(shard.samples, 'sample')} {verb} both {pair}"
            yield self.finding(message, readers, shard, first, count=count, of=shard.samples)
