from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.shards.source.compression import UNPACK

from ...finding import Repair
from ..kit.base import TallyRule


class NotATar(TallyRule):
    """The file is not a tar archive.

    What: the first block is not a tar header: an HTML error page, a Git LFS pointer, a zip file; or the file is empty.

    Why it matters: tarfile raises ReadError ("invalid header", "empty file"). OpenCLIP logs it and skips the shard in
    every epoch; webdataset without a handler, Hugging Face datasets and Ray Data end with an exception. A worker that
    has only such shards never yields a batch, and the whole run hangs.

    In practice: ``curl`` without ``--fail`` saves the 404 page under the shard's name; ``git clone`` without
    ``git lfs pull`` leaves 130-byte pointers; 1 KiB shards (webdataset#2, bop_toolkit#97).

    Fix: fetch the file again: ``curl --fail --location --remote-name URL``, or ``git lfs pull`` in a clone.
    ``head -c 300 SHARD`` shows what it is.
    """

    code = "W005"
    severity = "error"
    counts_samples = False

    def seen(self, shard: ShardEvidence) -> Tally:
        cut = shard.tally("tar.cut-stream").count  # W001
        return Tally(1, None, 0, shard.error_detail) if shard.error in ("not-a-tar", "empty") and not cut else Tally()

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
