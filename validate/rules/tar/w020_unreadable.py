from collections.abc import Iterator
from dataclasses import replace

from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.text.words import how_many

from ...finding import Finding, Repair
from ..kit.base import Context, TallyRule

_WORDS = {
    "missing": "no such shard",
    "denied": "no permission to read the shard",
    "io": "the shard cannot be read",
    "refused": "reading the shard was refused",
    "worker-died": "reading the shard killed the process twice",
}


class Unreadable(TallyRule):
    """The shard is missing or cannot be read.

    What: opening or reading it failed: no such file, no permission, an input/output or network error.

    Why it matters: OpenCLIP logs a warning at each visit and continues without the shard. A brace range that is off by
    one, or a gap in the numbers, therefore costs samples in every epoch, while ``--train-num-samples`` still counts
    them. A worker that has only such shards never yields a batch, and the run hangs. webdataset without a handler,
    Hugging Face datasets and Ray Data end with an exception.

    In practice: ``{000000..000324}`` for 324 shards (open_clip#480), img2dataset runs with failed shards
    (img2dataset#174), expired credentials.

    Fix: correct the range or fetch the shard. ``ls FOLDER`` lists the files, ``wdsflow inspect URL...`` the shards that
    can be read. A missing library is reported once for all shards, with the command that installs it.
    """

    code = "W020"
    severity = "error"
    counts_samples = False

    def seen(self, shard: ShardEvidence) -> Tally:
        elsewhere = shard.error in (None, "not-a-tar", "empty")  # W005
        return Tally() if elsewhere else Tally(1, None, None, shard.error_detail)

    def message(self, shard: ShardEvidence, count: int, detail: str) -> str:
        if shard.error == "needs-library":
            return detail
        text = _WORDS.get(shard.error or "", "the shard cannot be read")
        return f"{text} ({detail})" if detail else text

    def fix(self, shard: ShardEvidence, tally: Tally) -> Repair | None:
        return Repair(shard.error_fix) if shard.error_fix else None

    def check(self, context: Context) -> Iterator[Finding]:
        """Yield a finding for each shard, but only one for all shards that need the same missing library."""
        lacking: dict[str, list[Finding]] = {}
        for finding in super().check(context):
            if finding.repair is None:
                yield finding
            else:
                lacking.setdefault(finding.message, []).append(finding)
        for message, findings in lacking.items():
            first, many = findings[0], len(findings)
            told = message if many == 1 else f"{how_many(many, 'shard')}: {message}"
            yield replace(first, message=told, count=many, shard=first.shard if many == 1 else None)
