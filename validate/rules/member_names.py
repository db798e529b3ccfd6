"""Names of members that readers skip or misinterpret."""

from wdsflow.readers.base import Reader
from wdsflow.scan.evidence import ShardEvidence
from wdsflow.scan.runs import is_junk_run
from wdsflow.scan.shapes import Part
from wdsflow.text.words import how_many

from ..finding import Severity
from .kit.base import Context, TallyRule, example_text
from .kit.rule_loss import RuleLoss, crashes, loss
from .kit.sample_loss_rules import LossRule


class NoField(TallyRule):
    """Members without an extension are skipped.

    What: the base name has no dot, and therefore no field name.

    Why it matters: webdataset, OpenCLIP, Hugging Face datasets and Ray Data silently skip such
    members. This is harmless for a stray ``LICENSE``. If captions or images are stored this way,
    they do not exist for any reader, and every sample lacks them.

    In practice: ``README``, ``nshards`` and ``Makefile`` in tars of whole folders; downloads saved
    under a hash without an extension (webdataset "No samples found in dataset; perhaps you have
    fewer shards than workers").

    Fix: give the files their extensions before packing:
    ``for f in FOLDER/*; do mv "$f" "$f.$(file --brief --extension "$f" | cut -d/ -f1)"; done``
    """

    code = "W011"
    tallies = ("name.no-field",)
    says = "{n:member has|members have} no extension{first}: and readers skip {verb:it|them}"


class AppleDouble(TallyRule):
    """macOS twins or other dot-files are between the members.

    What: ``folder/._a.jpg`` next to ``folder/a.jpg``, or ``folder/.DS_Store``: dot-files inside a
    folder. The key of such a member is the folder, ``folder/``, and its field is ``_a.jpg``.

    Why it matters: a foreign key between ``a.jpg`` and ``a.txt`` closes the sample. Every sample
    whose members have twins is split, and OpenCLIP silently drops its parts: training hangs at
    epoch 0. At the top level (``._a.jpg``, ``./._a.jpg``) such files are skipped and harmless
    (W023). If they are between complete samples, or for Hugging Face datasets, which skip them, no
    sample is lost, and the finding is a warning.

    In practice: tar on macOS writes ``._`` twins for files with extended attributes, and Finder
    leaves .DS_Store.

    Fix: ``wdsflow repair SHARD -o repaired`` leaves them out. When packing on macOS:
    ``COPYFILE_DISABLE=1 tar --no-mac-metadata --exclude .DS_Store -cf SHARD -C FOLDER .``
    """

    code = "W012"
    severity = "error"
    tallies = ("name.appledouble",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        effect = (
            "each splits the sample around it" if _splits(shard) else "they split no sample here"
        )
        return f"{how_many(count, 'dot-file is', 'dot-files are')} between the members{example_text(detail)}: {effect}"

    def affected_readers(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        return tuple(item.name for item in context.readers if _is_affected(context, item, shard))

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return self.severity if self.affected_readers(context, shard) else "warning"


def _splits(shard: ShardEvidence) -> bool:
    return shard.tally("key.again").count > 0


def _is_affected(context: Context, reader: Reader, shard: ShardEvidence) -> bool:
    """Return whether a reader loses samples by dot-files in folders, or raises."""
    if reader.visible_only:
        return False
    if _splits(shard) or (reader.keys_once and shard.tally("key.again-twin").count):
        return True
    bound = context.bound_reader(reader)
    junk = (
        item.shape
        for item in reader.runs(shard).shape_counts()
        if is_junk_run(item.key, item.shape)
    )
    return any(crashes(context, bound, shape) for shape in junk)


class UpperCase(LossRule):
    """Field names have upper-case letters.

    What: ``A.JPG`` or ``a.Txt``. Distinct spellings are counted, not members.

    Why it matters: webdataset and OpenCLIP convert field names to lower case: ``JPG`` is ``jpg``.
    Hugging Face datasets and Ray Data do not: ``JPG`` is another column than ``jpg``, and is not
    decoded as an image. A set with both spellings has its images in two columns. Keys are
    case-sensitive for every reader: ``A.jpg`` and ``a.txt`` never pair.

    In practice: photographs straight from cameras and from Windows; "KeyError: 'jpg'" in the
    datasets library for some of the shards (datasets#7732).

    Fix: ``wdsflow repair SHARD -o repaired`` writes field names in lower case.
    """

    code = "W013"
    tallies = ("name.upper",)
    counts_samples = False
    says = "{n:field name} with upper-case letters{first}: a field of another name for Hugging Face datasets and Ray Data"

    def loss(self, context: Context, reader: Reader, shard: ShardEvidence) -> RuleLoss:
        """Return the larger of the losses before and after the reader has columns.

        The names of columns may be in upper case.
        """
        return max(
            loss(context, each, shard, self.fixed_part)
            for each in (reader, context.bound_reader(reader))
        )

    def fixed_part(self, part: Part) -> Part:
        return part if part.suffix.islower() else Part(part.suffix.lower(), part.status)


class UnsafePath(TallyRule):
    """Member names point outside the folder in which they are unpacked.

    What: absolute paths (``/etc/x.txt``) or a ``..`` component (``../../x.txt``).

    Why it matters: readers that stream never write to disk, and OpenCLIP trains on such shards
    normally. But careless tools write outside of the target folder when they unpack the tar:
    Python's ``extractall`` without a filter (the default before 3.14) does. In a data set from a
    stranger it may be an attack.

    In practice: ``tar -P``, archives made to attack (CVE-2007-4559).

    Fix: do not unpack the shard with ``extractall`` without ``filter="data"``.
    ``wdsflow repair SHARD -o repaired`` makes the names relative.
    """

    code = "W014"
    tallies = ("name.absolute", "name.parent")
    says = "{n} {verb:name is an absolute path or has|names are absolute paths or have} a .. component{first}: unsafe to unpack"


class NameNotUtf8(TallyRule):
    """Member names are not UTF-8.

    What: names in Latin-1, Shift-JIS or another 8-bit encoding.

    Why it matters: tarfile keeps the odd bytes as surrogates. OpenCLIP still pairs such members,
    but writing the key fails: UnicodeEncodeError in a log, in JSON, in Parquet, in an index.
    Readers that decode names strictly end with an exception.

    In practice: names from old Windows or Mac archives, unpacked and packed again on Linux
    (webdataset#330, #428).

    Fix: ``wdsflow repair SHARD -o repaired`` replaces the odd bytes. To keep the letters, rename
    the files before packing: ``convmv -f latin1 -t utf8 -r --notest FOLDER``
    """

    code = "W016"
    tallies = ("name.not-utf8", "name.junk-not-utf8")
    says = "{n:name is|names are} not UTF-8{first}: writing such a key fails"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        crashes = [
            (reader.preparing_reader([shard]) or reader).crash_at_shard(shard)
            for reader in context.readers
        ]
        ends = any(
            crash is not None and crash.reason in ("not-utf8-name", "no-index") for crash in crashes
        )
        return "error" if ends else self.severity


class MacosxFolder(TallyRule):
    """The shard has a __MACOSX folder.

    What: members under ``__MACOSX/``, the resource forks that macOS writes into zip files.

    Why it matters: webdataset skips names of the form ``__name__``, but not ``__MACOSX``. Its
    members become separate samples, which OpenCLIP drops and other readers yield. Between the
    members of a sample, they split it.

    In practice: a zip file made in Finder, unpacked and packed again as tar on another machine.

    Fix: ``wdsflow repair SHARD -o repaired`` leaves them out. When packing:
    ``tar --sort=name --format=ustar --exclude __MACOSX -cf SHARD -C FOLDER .``
    """

    code = "W022"
    tallies = ("name.macosx",)
    says = "{n:member is|members are} under __MACOSX{first}: readers make separate samples of them"


class HiddenFiles(TallyRule):
    """Dot-files at the top level are skipped.

    What: names such as ``.DS_Store``, ``._a.jpg`` or ``./._a.jpg`` that begin with a dot and are in
    no folder.

    Why it matters: they have no key, and readers silently skip them. That is right for files that
    an operating system left behind. If samples have such names, they do not exist for any reader.
    Inside a folder, dot-files do harm (W012).

    In practice: tars made in Finder or of a home directory.

    Fix: none is needed. To leave them out when packing:
    ``tar --sort=name --format=ustar --exclude '.[!.]*' -cf SHARD -C FOLDER .``
    """

    code = "W023"
    severity = "info"
    tallies = ("name.hidden",)
    says = "{n:dot-file is|dot-files are} skipped by readers{first}"


class ControlInName(TallyRule):
    """Member names have control characters.

    What: newlines, escape sequences or other control characters in file names.

    Why it matters: readers pair such members like any others. Lists with one name per line break,
    terminals obey escape sequences (colours, window titles, hidden text), and shell scripts split
    the names. wdsflow shows them escaped and never uses them as paths.

    In practice: file names taken from page titles or captions, or chosen for an attack.

    Fix: ``wdsflow repair SHARD -o repaired`` replaces them. When packing, use characters that are
    safe everywhere: ``key = re.sub(r"[^A-Za-z0-9_-]", "_", key)``
    """

    code = "W028"
    tallies = ("name.control",)
    says = "{n:name has|names have} control characters{first}: unsafe in lists and terminals"


class MetaMembers(TallyRule):
    """Some readers read members with names such as __info__, others skip them.

    What: files or folders with names of the form ``__name__``.

    Why it matters: webdataset and OpenCLIP skip them as metadata. Ray Data, DataChain and others do
    not know this convention and take them for samples. Between the members of a sample, they split
    it, and Ray Data then ends with an exception.

    In practice: notes about a shard stored inside it.

    Fix: keep such files next to the shards, not in them:
    ``tar --sort=name --format=ustar --exclude '__*__' -cf SHARD -C FOLDER .``
    """

    code = "W032"
    severity = "info"
    tallies = ("name.meta",)
    says = "{n:member} named like metadata{first}: webdataset skips that, others do not"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "error" if _ending(context, shard) else self.severity

    def affected_readers(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        return _ending(context, shard) or context.reader_names()


def _ending(context: Context, shard: ShardEvidence) -> tuple[str, ...]:
    """Return the readers that raise only because such members split samples."""
    if not shard.tally("key.again-junk").count or shard.tally("key.again").count:
        return ()
    return context.readers_ended_at(shard, "key-again")


class NotAsciiName(TallyRule):
    """Member names have non-ASCII characters.

    What: UTF-8 names with non-ASCII letters, such as ``Zürich.jpg``.

    Why it matters: Python readers pair them correctly. macOS and Linux may spell the same letter in
    two ways (composed or not); an image and its caption from two systems then do not pair. USTAR
    headers cannot hold such names without an extended header, which simple tar parsers do not read:
    for these, names may become alike.

    In practice: file names taken from titles.

    Fix: nothing for OpenCLIP. When packing, number the samples and keep the title in the json:
    ``key = f"{index:09d}"``
    """

    code = "W033"
    severity = "info"
    tallies = ("name.not-ascii",)
    says = "{n:name has|names have} non-ASCII characters{first}: plain USTAR cannot hold them, and simple tar parsers read no PAX headers"
