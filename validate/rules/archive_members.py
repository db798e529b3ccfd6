"""Members that readers handle differently."""

from wdsflow.scan.evidence import ShardEvidence
from wdsflow.text.words import how_many

from ..finding import Severity
from .kit.base import Context, TallyRule


class HugeMember(TallyRule):
    """A member is larger than 2 GiB.

    What: one file of more than 2 GiB inside the shard.

    Why it matters: readers load a member as a whole, and OpenCLIP's shuffle buffer holds up to
    5,000 samples per worker: a few of these exhaust the worker's memory. Arrow cannot hold a value
    over 2 GiB, so Hugging Face datasets fail on it. USTAR, webdataset's own format, ends at 8 GiB.

    In practice: a nested archive, a video or a whole embedding table packed with the samples by
    mistake.

    Fix: take the file out of the folder before packing:
    ``tar --sort=name --format=ustar --exclude NAME -cf SHARD -C FOLDER .``
    """

    code = "W015"
    tallies = ("tar.huge-member",)
    says = "{n:member is|members are} over 2 GiB{first}: readers load it into memory as a whole"


class Links(TallyRule):
    """Links are skipped.

    What: hard or symbolic links instead of files.

    Why it matters: readers take only regular files. A caption or an image that is a link does not
    exist for them, and OpenCLIP silently drops the sample. tar itself writes a hard link if two
    files share one inode: the second sample with the same image has none.

    In practice: data sets deduplicated with ``hardlink`` or ``cp -al``, folders of symbolic links
    to a common store.

    Fix: ``wdsflow repair SHARD -o repaired`` replaces them with their targets, if these are in the
    shard. When packing:
    ``tar --sort=name --format=ustar --dereference --hard-dereference -cf SHARD -C FOLDER .``
    """

    code = "W024"
    tallies = ("tar.link",)
    says = "{n:link} instead of files{first}: readers skip links"


class Sparse(TallyRule):
    """Sparse members cannot be read by offset.

    What: members stored without their runs of zeros (``tar --sparse``). wdsflow does not read their
    contents either: its commands leave such samples out, as they do with damage.

    Why it matters: tarfile, and therefore OpenCLIP and webdataset, fills the holes again. Readers
    that take bytes by offset and size from an index, such as Energon, get shifted contents and fail
    to decode them.

    In practice: ``tar -S`` in backup scripts.

    Fix: pack again without ``--sparse``: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W025"
    severity = "info"
    tallies = ("tar.sparse",)
    says = "{n:sparse member}{first}: readers with an index get shifted contents"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "error" if context.readers_ended_at(shard, "no-index") else self.severity


class SpecialFiles(TallyRule):
    """Devices, fifos or members of an unknown type are skipped.

    What: entries that are neither files, folders nor links.

    Why it matters: readers skip them, so training is not affected. Whoever unpacks the tar as root
    creates the devices. They do not belong in a data set, and may be a sign of damage or an attack.

    In practice: tars of a root file system, bytes changed by a bad disk in the type field of a
    header.

    Fix: pack again from the plain files: ``tar --sort=name --format=ustar -cf SHARD -C FOLDER .``
    """

    code = "W026"
    tallies = ("tar.special",)
    says = "{n:member is|members are} not a file, folder or link{first}: readers skip them"


class PaxOverhead(TallyRule):
    """Extended headers waste 1 KiB per member.

    What: each member has a PAX header that holds only a time with fractions of a second.

    Why it matters: two more blocks per member to download, store and parse. A caption of 50 bytes
    takes 2 KiB instead of 1 KiB; for shards of small thumbnails a tenth of all bytes can be
    overhead.

    In practice: webdataset's TarWriter with its default ``mtime`` (a float), tarfile's default
    format since Python 3.8 (webdataset#228: "data gets larger").

    Fix: ``wdsflow repair SHARD -o repaired`` writes plain USTAR headers. When packing:
    ``TarWriter(..., mtime=0)``, or ``tar --format=ustar``
    """

    code = "W027"
    tallies = ("tar.pax-overhead",)

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "warning" if _wasted(shard) >= 0.05 else "info"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        share = f", {_wasted(shard):.0%} of the shard" if shard.size else ""
        return f"{how_many(count, 'member has', 'members have')} an extended header only for a time: {count:,} KiB{share}"


def _wasted(shard: ShardEvidence) -> float:
    """Return the share of the shard's bytes that extended headers take."""
    stored = shard.size if shard.compression is None else None
    size = stored or shard.member_bytes + 1024 * shard.members
    return shard.tally("tar.pax-overhead").count * 1024 / max(size, 1)
