"""Tars that end early, or hold more than one archive."""

from collections.abc import Iterator
from dataclasses import replace

from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.shards.source.decompress import UNPACK
from wdsflow.text.words import how_many

from ..finding import Finding, Repair, Severity
from .kit.base import Context, TallyRule
from .kit.missing_fields import missing_at_end

# Names of compressions, for messages.
_COMPRESSIONS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "Zstandard"}
# Those that Python's tarfile reads in all versions.
_BY_TARFILE = ("gz", "bz2", "xz")
_READ_ERRORS = {
    "missing": "no such shard",
    "denied": "no permission to read the shard",
    "io": "the shard cannot be read",
    "refused": "reading the shard was refused",
    "worker-died": "reading the shard killed the process twice",
}


class Truncated(TallyRule):
    """The shard ends inside a member, or its compressed stream is damaged.

    What: the file is shorter than its last header says, or ends in the middle of a header.
    Everything after that is missing. The offset is that of the cut member. If only the zeros are
    missing that fill its last block, its contents are whole: other commands of wdsflow then report
    no loss. Or the compressed stream of a .tar.gz, .tar.bz2, .tar.xz or .tar.zst ends too early; if
    only its last bytes are missing, after the end of the archive, no sample is lost and the finding
    is a warning. Or that stream is damaged: a checksum in it does not match its contents.

    Why it matters: if the cut is inside a member's contents, Python's tarfile raises ReadError.
    OpenCLIP logs it, leaves the shard and counts nothing; webdataset without a handler ends the
    run. A cut inside a header is taken for the end of the archive, without an error or warning by
    any reader. The incomplete sample at the cut is dropped for its missing field, or worse, joined
    with the next shard's first sample (W021). Python's tarfile does not compare the checksum of
    gzip: readers train on wrong bytes, without an error or warning.

    In practice: a copy or an upload that was stopped, a full disk, a ShardWriter that was not
    closed (webdataset#32), a shard read while it was still being written. "ReadError: unexpected
    end of data" (webdataset#142), or just fewer samples than expected.

    Fix: copy the shard again if its source still exists. If not, keep the complete members:
    ``wdsflow repair SHARD -o repaired``. Of a damaged stream it keeps what checksums prove right.
    """

    code = "W001"
    severity = "error"
    tallies = (
        "tar.damaged-stream",
        "tar.truncated-data",
        "tar.no-padding",
        "tar.truncated-header",
        "tar.cut-stream",
    )

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "warning" if _after_end(shard) else "error"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        if shard.tally("tar.damaged-stream").count:
            return f"{detail}; readers that do not compare checksums get wrong bytes; fetch or write the shard again"
        if _after_end(shard):
            return f"{detail} after the end of the archive: all members can be read, but the file is not complete"
        if shard.error:
            return f"{detail} before the first member: nothing can be read; fetch or write it again"
        cut_member = detail.removeprefix("the file ends inside ")
        remark = f" ({cut_member})" if cut_member not in ("", "a header") else ""
        read = f"{how_many(shard.members, 'member')} of {how_many(shard.samples, 'sample')} can be read"
        if shard.tally("tar.truncated-data").count:
            return f"the file ends inside a member's contents{remark}: everything after that is missing; {read}"
        if shard.tally("tar.no-padding").count and not shard.tally("tar.cut-stream").count:
            return (
                "the file ends inside the padding of its last member, where readers raise an error: no contents are "
                f"missing, unless members followed; {read}"
            )
        if shard.tally("tar.cut-stream").count:
            if shard.stop.kind == "error":
                return f"{detail} at the end of a member; {read}"
            return f"{detail} at the end of a member: readers take it for the end, silently; {read}"
        return (
            f"the file ends inside a header{remark}: readers take it for the end, silently; {read}"
        )


def _after_end(shard: ShardEvidence) -> bool:
    damaged = shard.tally("tar.damaged-stream").count
    return shard.stop.kind == "end" and shard.tally("tar.cut-stream").count > 0 and not damaged


class DamagedHeader(TallyRule):
    """A damaged header hides the rest of the shard.

    What: a member's 512-byte header has a wrong checksum or unreadable numbers. Valid members may
    follow; the message says how many were found.

    Why it matters: Python's tarfile in stream mode, which OpenCLIP, webdataset and Hugging Face
    datasets use, takes a bad header after the first member for the end of the archive. There is no
    exception and no warning: the samples after it are never seen, in any epoch. OpenCLIP still
    counts them if ``--train-num-samples`` or sizes.json does, and repeats the rest in each epoch.

    In practice: bad disks or memory, interrupted and resumed downloads, two jobs writing one file.
    Nobody notices; the missing samples are the only trace.

    Fix: copy the shard again if its source still exists. If not, all valid members can be
    recovered: ``wdsflow repair SHARD -o repaired``
    """

    code = "W002"
    severity = "error"
    tallies = ("tar.bad-header",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        location = f" ({detail})" if detail else ""
        lost = never_reached(shard) or "no valid member follows"
        return f"a damaged header ends the shard for every reader{location}: {lost}"


def never_reached(shard: ShardEvidence) -> str:
    """Describe the valid members that readers never reach; "" if there are none.

    Such as "12 valid members (4 samples) after it are never read".
    """
    if not shard.beyond:
        return ""
    members = how_many(shard.beyond, "valid member")
    if shard.samples_after_stop:
        members += f" ({how_many(shard.samples_after_stop, 'sample')})"
    verb = "is" if shard.beyond == 1 else "are"
    return f"{members} after it {verb} never read"


class SecondArchive(TallyRule):
    """A second archive follows the end mark.

    What: two blocks of zeros end a tar; more members follow them, as after
    ``cat a.tar b.tar > ab.tar``.

    Why it matters: all readers stop at the first end mark. The second part of the shard is never
    read, without an exception or a warning, but its bytes are still downloaded and stored.

    In practice: shards merged with cat, a ``pipe:`` url over several files such as
    ``pipe:cat *.tar``, tars that a job appended to after a restart.

    Fix: ``wdsflow repair SHARD -o repaired`` writes all members into one archive. GNU tar can read
    them too: ``tar --ignore-zeros -tf SHARD``.
    """

    code = "W003"
    severity = "error"
    tallies = ("tar.second-archive",)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        return f"a second archive follows the end mark: {never_reached(shard) or 'readers never reach it'}"


class Compressed(TallyRule):
    """The shard is compressed.

    What: the file is a tar inside gzip, bzip2, xz or Zstandard, whatever its name says.

    Why it matters: images are compressed already, so compression saves hardly a byte. But one core
    has to unpack the whole stream in each epoch, and nothing can be read from the middle. Python's
    tarfile, and therefore OpenCLIP and webdataset, reads gzip, bzip2 and xz. It reads Zstandard
    only from Python 3.14 on; before that the shard is skipped as "not a tar".
    ``--dataset-type auto`` refuses names that do not end in .tar.

    In practice: low GPU use with busy loader processes (webdataset#217); "ValueError: Tried to
    figure out dataset type, but failed for extension gz".

    Fix: ``wdsflow repair SHARD -o repaired`` writes a plain tar; so do ``gunzip SHARD`` and
    ``zstd -d SHARD``.
    """

    code = "W004"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        return Tally(1, None, None, shard.compression) if shard.compression else Tally()

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "error" if _refusing(context, shard) else "warning"

    def affected_readers(self, context: Context, shard: ShardEvidence) -> tuple[str, ...]:
        return _refusing(context, shard) or context.reader_names()

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        name = _COMPRESSIONS.get(detail, detail)
        if detail in _BY_TARFILE:
            return f"compressed with {name}: one core unpacks every byte for each pass, and images hardly shrink"
        return f"compressed with {name}, which tarfile reads from Python 3.14 on only: readers skip the shard or fail"


def _refusing(context: Context, shard: ShardEvidence) -> tuple[str, ...]:
    return tuple(reader.name for reader in context.readers if not reader.opens(shard))


class NotATar(TallyRule):
    """The file is not a tar archive.

    What: the first block is not a tar header: an HTML error page, a Git LFS pointer, a zip file; or
    the file is empty.

    Why it matters: tarfile raises ReadError ("invalid header", "empty file"). OpenCLIP logs it and
    skips the shard in every epoch; webdataset without a handler, Hugging Face datasets and Ray Data
    end with an exception. A worker that has only such shards never yields a batch, and the whole
    run hangs.

    In practice: ``curl`` without ``--fail`` saves the 404 page under the shard's name;
    ``git clone`` without ``git lfs pull`` leaves 130-byte pointers; 1 KiB shards (webdataset#2,
    bop_toolkit#97).

    Fix: fetch the file again: ``curl --fail --location --remote-name URL``, or ``git lfs pull`` in
    a clone. ``head -c 300 SHARD`` shows what it is.
    """

    code = "W005"
    severity = "error"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        if shard.error not in ("not-a-tar", "empty"):
            return Tally()
        if shard.tally("tar.cut-stream").count:
            # W001 reports it.
            return Tally()
        return Tally(1, None, 0, shard.error_detail)

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        command = shard.error_detail.partition(UNPACK)[2]
        return Repair(command, note="then name the unpacked tar") if command else None

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        if shard.error == "empty":
            return "the file is empty: readers skip the shard or end with an exception; fetch or write it again"
        if detail.startswith("its first member"):
            return f"{detail}: readers skip the shard or end with an exception"
        if UNPACK in shard.error_detail:
            return f"{shard.error_detail.partition(UNPACK)[0]}: readers skip the shard or end with an exception"
        detail = detail.removeprefix("not a tar: ")
        reason = f" ({detail})" if detail else ""
        return f"not a tar archive{reason}: readers skip the shard or end with an exception; fetch or write it again"


class EmptyShard(TallyRule):
    """The shard holds no sample.

    What: a valid archive without any member that readers take, or a file of zeros.

    Why it matters: reading it gives nothing and no error. A worker that gets only such shards never
    yields a batch. PyTorch's loader waits for its workers in turn, so the whole run hangs. An empty
    shard also counts when OpenCLIP requires at least one shard per worker.

    In practice: a filter that kept nothing, a ShardWriter that opens its first file before the
    first sample, a file that was allocated but never written.

    Fix: leave the shard out of ``--train-data``. To find the empty ones: ``wdsflow inspect URL...``
    """

    code = "W017"
    requires = ("W001", "W002", "W003", "W005", "W020")
    says = "the shard has no sample: a worker that gets only such shards never yields a batch"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        return Tally() if shard.has_samples or shard.error else Tally(1)

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        if not context.evidence.samples or context.readers_ended_at(shard, "no-index"):
            return "error"
        return "warning"


class NoEndBlocks(TallyRule):
    """The end mark of the archive is missing.

    What: the file ends after a complete member, without the two blocks of zeros that end a tar. The
    last sample is compared with the others: if it lacks fields that most have, the shard was cut,
    and the finding is an error.

    Why it matters: Python's tarfile takes the end of the file for the end of the archive: no reader
    reports it, whether or not samples are missing. An incomplete sample at the end is dropped, or
    joined with the next shard's first sample (W021).

    In practice: a ShardWriter that was not closed because the job was killed (webdataset#32), a
    copy that stopped at a round number of bytes, tools that leave the end mark out.

    Fix: compare the size with the source: ``ls -l SHARD``. ``wdsflow repair SHARD -o repaired``
    writes the complete members with a proper end.
    """

    code = "W018"
    tallies = ("tar.no-end-blocks",)

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        # Energon does not index such shards.
        indexed = any(reader.keys_once for reader in context.readers)
        return "error" if missing_at_end(shard) or indexed else "warning"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        if missing := missing_at_end(shard):
            return f"no end mark, and the last sample lacks {missing}: the shard was cut, and no reader reports it"
        return "no end mark: if the shard was cut there, no reader reports it; its last sample is complete"


class TrailingBytes(TallyRule):
    """Bytes after the end mark are not a tar.

    What: the two blocks of zeros are followed by bytes that are neither zeros nor a header.

    Why it matters: readers stop at the end mark, so training does not see these bytes. They may be
    the rest of a longer file that was overwritten by a shorter one, or a damaged second archive; in
    that case samples are missing.

    In practice: a shard written over an old one in place, a log line printed into a ``pipe:``
    stream, two writers on one file.

    Fix: ``wdsflow repair SHARD -o repaired`` keeps the members before the end mark, and valid
    members after it.
    """

    code = "W019"
    requires = ("W003",)
    tallies = ("tar.trailing-data",)
    says = "bytes that are not a tar follow the end mark{where}: readers ignore them"


class Unreadable(TallyRule):
    """The shard is missing or cannot be read.

    What: opening or reading it failed: no such file, no permission, an input/output or network
    error.

    Why it matters: OpenCLIP logs a warning at each visit and continues without the shard. A brace
    range that is off by one, or a gap in the numbers, therefore costs samples in every epoch, while
    ``--train-num-samples`` still counts them. A worker that has only such shards never yields a
    batch, and the run hangs. webdataset without a handler, Hugging Face datasets and Ray Data end
    with an exception.

    In practice: ``{000000..000324}`` for 324 shards (open_clip#480), img2dataset runs with failed
    shards (img2dataset#174), expired credentials.

    Fix: correct the range or fetch the shard. ``ls FOLDER`` lists the files,
    ``wdsflow inspect URL...`` the shards that can be read. A missing library is reported once for
    all shards, with the command that installs it.
    """

    code = "W020"
    severity = "error"

    def tally_in(self, shard: ShardEvidence) -> Tally:
        if shard.error in (None, "not-a-tar", "empty"):
            # W005 reports it.
            return Tally()
        return Tally(1, None, None, shard.error_detail)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        if shard.error == "needs-library":
            return detail
        text = _READ_ERRORS.get(shard.error or "", "the shard cannot be read")
        return f"{text} ({detail})" if detail else text

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        return Repair(shard.error_fix) if shard.error_fix else None

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield one finding per shard, but a single one for shards that miss the same library."""
        by_library: dict[str, list[Finding]] = {}
        for finding in super().check(context):
            if finding.repair is None:
                yield finding
            else:
                by_library.setdefault(finding.message, []).append(finding)
        for message, findings in by_library.items():
            first = findings[0]
            count = len(findings)
            if count == 1:
                yield first
            else:
                text = f"{how_many(count, 'shard')}: {message}"
                yield replace(first, message=text, count=count, shard=None)
