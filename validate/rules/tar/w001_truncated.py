from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Repair, Severity
from ..kit.base import Context, TallyRule


class Truncated(TallyRule):
    """The shard ends inside a member, or its compressed stream is damaged.

    What: the file is shorter than its last header says, or ends in the middle of a header. Everything after that is
    missing. The offset is that of the cut member. If only the zeros are missing that fill its last block, its contents
    are whole: other commands of wdsflow then report no loss. Or the compressed stream of a .tar.gz, .tar.bz2, .tar.xz or .tar.zst
    ends too early; if only its last bytes are missing, after the end of the archive, no sample is lost and the finding
    is a warning. Or that stream is damaged: a checksum in it does not match its contents.

    Why it matters: if the cut is inside a member's contents, Python's tarfile raises ReadError. OpenCLIP logs it,
    leaves the shard and counts nothing; webdataset without a handler ends the run. A cut inside a header is taken for
    the end of the archive, without an error or warning by any reader. The incomplete sample at the cut is dropped for
    its missing field, or worse, joined with the next shard's first sample (W021). Python's tarfile does not compare the
    checksum of gzip: readers train on wrong bytes, without an error or warning.

    In practice: a copy or an upload that was stopped, a full disk, a ShardWriter that was not closed
    (webdataset#32), a shard read while it was still being written. "ReadError: unexpected end of data"
    (webdataset#142), or just fewer samples than expected.

    Fix: copy the shard again if its source still exists. If not, keep the complete members: ``wdsflow repair SHARD -o
    repaired``. Of a damaged stream it keeps what checksums prove right.
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
    counts_samples = False
    repair_note = "keeps the complete members; a fresh copy of the shard is better"

    def severity_in(self, context: Context, shard: ShardEvidence) -> Severity:
        return "warning" if _after_end(shard) else "error"

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        if shard.tally("tar.damaged-stream").count:
            return f"{detail}; readers that do not compare checksums get wrong bytes; fetch or write the shard again"
        if _after_end(shard):
            return f"{detail} after the end of the archive: all members can be read, but the file is not complete"
        if shard.error:
            return f"{detail} before the first member: nothing can be read; fetch or write it again"
        where = detail.removeprefix("the file ends inside ")
        place = f" ({where})" if where not in ("", "a header") else ""
        read = f"{how_many(shard.members, 'member')} of {how_many(shard.samples, 'sample')} can be read"
        if shard.tally("tar.truncated-data").count:
            return f"the file ends inside a member's contents{place}: everything after that is missing; {read}"
        if shard.tally("tar.no-padding").count and not shard.tally("tar.cut-stream").count:
            return (
                "the file ends inside the padding of its last member, where readers raise an error: no contents are "
                f"missing, unless members followed; {read}"
            )
        if shard.tally("tar.cut-stream").count:
            silently = "" if shard.stop.kind == "error" else ": readers take it for the end, silently"
            return f"{detail} at the end of a member{silently}; {read}"
        return f"the file ends inside a header{place}: readers take it for the end, silently; {read}"

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        return None if shard.error or shard.is_distrusted else self.repair(shard.url)


def _after_end(shard: ShardEvidence) -> bool:
    damaged = shard.tally("tar.damaged-stream").count
    return shard.stop.kind == "end" and shard.tally("tar.cut-stream").count > 0 and not damaged
