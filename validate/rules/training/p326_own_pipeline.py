from collections.abc import Iterator

from ...finding import Finding
from ...verdicts.verdict import PIPELINE
from ..kit.base import Context, Rule

_ENDS = {
    "crashes": "ends with an exception",
    "stalls": "hangs",
    "loses": "loses too many samples",
    "not known": "may not train",
}


class OwnPipeline(Rule):
    """The pipeline of --pipeline loses samples, hangs, ends with an exception, or may do so.

    What: the code named by ``--pipeline`` was run over some real samples of each kind, and over the shards in order.
    The message has the stage at which samples are lost, the exception, and the line of the code. If the outcome is not
    known, it says which samples were not read, and what they may do.

    Why it matters: a stage with ``handler=wds.ignore_and_continue`` drops samples silently. A stage without a handler
    ends the run at the first sample that it cannot take, perhaps after hours.

    In practice: ``to_tuple("jpg", "json")`` where some samples have ``png``; ``sample["json"]["caption"]`` where some
    objects have no caption; ``select`` that never lets a sample through.

    Fix: change the stage that the message names, repair the shards, or accept the loss with ``--max-loss``. If
    the outcome is not known, read all samples with ``--level full``, or let the stage drop what it cannot take.
    """

    code = "P326"
    severity = "error"

    def check(self, context: Context) -> Iterator[Finding]:
        for verdict in context.verdicts:
            if verdict.reader != PIPELINE or verdict.outcome == "trains":
                continue
            if not verdict.usable and verdict.outcome != "crashes":
                continue  # P301 reports it
            first = verdict.reasons[0] if verdict.reasons else None
            why = f": {first.message}" if first else ""
            yield Finding(
                self.code,
                self.severity,
                f"{verdict.title} {_ENDS[verdict.outcome]}{why}",
                shard=first.shard if first else None,
                key=first.key if first else None,
                offset=first.offset if first else None,
                count=max(1, verdict.samples - (verdict.usable if verdict.least is None else verdict.least)),
                readers=(PIPELINE,),
            )
