"""Members that readers handle differently."""

from collections.abc import Iterator

from wdsflow.readers.base import Reader
from wdsflow.readers.dali import refused_images
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.words import how_many

from ..finding import Finding, Severity
from .kit.base import Context, Rule, TallyRule


class HugeMember(TallyRule):
    """A member is larger than 2 GiB.

    What: one file of more than 2 GiB inside the shard.

    Why it matters: readers load a member as a whole, and OpenCLIP's shuffle buffer holds up to 5,000 samples per
    worker: a few of these exhaust the worker's memory. Arrow cannot hold a value over 2 GiB, so Hugging Face datasets
    fail on it. USTAR, webdataset's own format, ends at 8 GiB.

    In practice: a nested archive, a video or a whole embedding table packed with the samples by mistake.

    Fix: take the file out of the folder before packing:
    ``tar --sort=name --format=ustar --exclude NAME -cf SHARD -C FOLDER .``
    """

    code = "W015"
    tallies = ("tar.huge-member",)
    says = "{n:member is|members are} over 2 GiB{first}: readers load it into memory as a whole"


class Links(TallyRule):
    """Links are skipped.

    What: hard or symbolic links instead of files.

    Why it matters: readers take only regular files. A caption or an image that is a link does not exist for them, and
    OpenCLIP silently drops the sample. tar itself writes a hard link if two files share one inode: the second sample
    with the same image has none.

    In practice: data sets deduplicated with ``hardlink`` or ``cp -al``, folders of symbolic links to a common store.

    Fix: ``wdsflow repair SHARD -o repaired`` replaces them with their targets, if these are in the shard. When packing:
    ``tar --sort=name --format=ustar --dereference --hard-dereference -cf SHARD -C FOLDER .``
    """

    code = "W024"
    tallies = ("tar.link",)
    repair_note = "replaces them with their targets, if these are in the shard"
    says = "{n:link} instead of files{first}: readers skip links"


class Sparse(TallyRule):
    """Sparse members cannot be read by offset.

    What: members stored without their runs of zeros (``tar --sparse``). wdsflow does not read their contents either: its
    commands leave such samples out, as they do with damage.

    Why it matters: tarfile, and therefore OpenCLIP and webdataset, fills the holes again. Readers that take bytes by
    offset and size from an index (DALI, wids, Energon, webshart) get shifted contents and fail to decode them.

    In practice: ``tar -S`` in backup scripts.

    Fix: pack again without ``--sparse``: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W025"
    severity = "info"
    tallies = ("tar.sparse",)
    says = "{n:sparse member}{first}: readers with an index get shifted contents"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "error" if context.ends(shard, "no-index") else self.severity


class SpecialFiles(TallyRule):
    """Devices, fifos or members of an unknown type are skipped.

    What: entries that are neither files, folders nor links.

    Why it matters: readers skip them, so training is not affected. Whoever unpacks the tar as root creates the devices.
    They do not belong in a data set, and may be a sign of damage or an attack.

    In practice: tars of a root file system, bytes changed by a bad disk in the type field of a header.

    Fix: pack again from the plain files: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W026"
    tallies = ("tar.special",)
    says = "{n:member is|members are} not a file, folder or link{first}: readers skip them"


class PaxOverhead(TallyRule):
    """Extended headers waste 1 KiB per member.

    What: each member has a PAX header that holds only a time with fractions of a second.

    Why it matters: two more blocks per member to download, store and parse. A caption of 50 bytes takes 2 KiB instead
    of 1 KiB; for shards of small thumbnails a tenth of all bytes can be overhead.

    In practice: webdataset's TarWriter with its default ``mtime`` (a float), tarfile's default format since Python
    3.8 (webdataset#228: "data gets larger").

    Fix: ``wdsflow repair SHARD -o repaired`` writes plain USTAR headers. When packing: ``TarWriter(..., mtime=0)``,
    or ``tar --format=ustar``
    """

    code = "W027"
    tallies = ("tar.pax-overhead",)
    repair_note = "writes plain USTAR headers"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "warning" if _wasted(shard) >= 0.05 else "info"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        share = f", {_wasted(shard):.0%} of the shard" if shard.size else ""
        return (
            f"{how_many(count, 'member has', 'members have')} an extended header only for a time: {count:,} KiB{share}"
        )


def _wasted(shard: ShardEvidence) -> float:
    """Return the share of the shard's bytes that extended headers take."""
    stored = shard.size if shard.compression is None else None
    size = stored or shard.member_bytes + 1024 * shard.members
    return shard.tally("tar.pax-overhead").count * 1024 / max(size, 1)


class OtherForDali(Rule):
    """NVIDIA DALI finds other samples in the shard than readers in Python.

    What: DALI has a tar parser and image decoders of its own. A file without an extension is a sample, and so is a shard
    without files. GIF, and formats that only Pillow knows, are not decoded.

    Why it matters: a sample without an image comes as an empty tensor, for which DALI's image decoder raises: the whole
    run ends, "Unsupported image type" or "The decoder failed". With ``missing_component_behavior="error"`` it ends before
    the first sample.

    In practice: a ``README`` or ``LICENSE`` next to the samples; a GIF under a .jpg name, as web servers send it.

    Fix: ``wdsflow repair SHARD -o repaired`` leaves out files that are not samples; so does an index, for which
    nothing is written again: ``wdsflow index SHARD --dali``, and ``index_paths`` in the pipeline. It keeps images as they
    are: for these, download again without img2dataset's ``--disable_all_reencoding``.
    """

    code = "W034"
    severity = "error"
    repair_note = "leaves out files that are not samples"

    def check(self, context: Context) -> Iterator[Finding]:
        for reader in context.readers:
            for shard in context.evidence.shards if reader.name == "dali" else ():
                if shard.error is None and shard.stop.kind in ("end", "eof"):
                    yield from self._judge(reader, shard)

    def _judge(self, reader: Reader, shard: ShardEvidence) -> Iterator[Finding]:
        title = reader.title.split(" (")[0]
        if not shard.members:
            yield self.found(f"{title} finds a sample without an image: the shard has no files", [reader.name], shard)
        for name in ("name.no-field", "name.meta"):
            if (tally := shard.tally(name)).count:
                more = how_many(tally.count, "more sample")
                text = f"{title} finds {more} without an image: a file without an extension is one"
                fix = self.repair(shard.url) if shard.samples else None
                yield self.found(text, [reader.name], shard, tally, fix=fix)
                return
        if count := refused_images(shard):
            text = f"{title} does not decode {how_many(count, 'image')} that Pillow decodes"
            yield self.found(text, [reader.name], shard, shard.tally("image.wrong-extension"))


class OtherForWids(Rule):
    """wids finds other samples in the shard than readers in Python, or cannot open it.

    What: wids has a tar parser of its own. It reads the 100 bytes of a name that the header holds: no PAX records, no
    GNU long names, no prefix of USTAR. These bytes must be UTF-8, and sizes octal. It tells members apart by name, but
    finds their contents by position.

    Why it matters: a name that is cut has no extension, or that of another field, so that its sample is lost. One that is
    cut inside a letter, or a size in base 256, ends the run when the shard is opened. After a name that occurs twice,
    samples get the contents of other members, or an AssertionError without a text.

    In practice: long names in UTF-8, such as titles or urls, where a letter takes several bytes; shards compressed with
    gzip; tars to which ``tar -r`` appended a file that was there already.

    Fix: ``wdsflow repair SHARD -o repaired`` writes plain headers, and each name once. It keeps names that are longer
    than 100 bytes: for these, write the shards again with shorter keys.
    """

    code = "W035"
    severity = "error"
    repair_note = "writes plain headers, and each name once"

    def check(self, context: Context) -> Iterator[Finding]:
        for reader in context.readers:
            for shard in context.evidence.shards if reader.name == "wids" else ():
                if shard.is_whole and shard.samples and (found := _trouble(reader, shard)):
                    what, place = found
                    kept = shard.tally("name.long").count  # a repair keeps long names
                    what += "; write the shards again with keys of fewer bytes" if kept else ""
                    fix = None if kept else self.repair(shard.url)
                    yield self.found(what, [reader.name], shard, place, fix=fix)


def _trouble(reader: Reader, shard: ShardEvidence) -> tuple[str, Tally] | None:
    """Return the problem of wids with the shard, and its place; None if it finds the same samples as other readers."""
    title = reader.title.split(" (")[0]
    if shard.compression is not None:
        return f"{title} cannot open the shard: it is compressed ({shard.compression})", Tally(offset=0)
    if (place := shard.tally("key.duplicate-field")).count:
        return f"{title} takes members of other samples after a name that occurs twice", place
    if (place := shard.tally("name.long")).count:
        text = f"{title} does not read the names of {how_many(place.count, 'member')}: it reads no names in extended headers"
        return f"{text}, only 100 bytes of each", place
    return None
