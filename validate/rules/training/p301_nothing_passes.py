from collections.abc import Iterator

from ...finding import Finding
from ..kit.base import Context, Rule


class NothingPasses(Rule):
    """No sample reaches a batch.

    What: no sample passes the steps of the reader before a batch. The message has the first reason; the other findings
    say where and why.

    Why it matters: OpenCLIP makes a worker repeat its shards until it has given as many batches as the epoch needs
    (``with_epoch`` on webdataset <= 0.2.86). If nothing passes, it hangs: "Start epoch 0", the GPU at 0 %, no error,
    and no line in the log, because its filter drops samples silently. With ``--dataset-resampled`` every version does
    this. Other readers end with an empty epoch or an exception.

    In practice: open_clip#1016, #569, #480, #61; webdataset#68, #188. The usual advice is to print ``has_caption`` and
    ``has_image`` from inside the filter.

    Fix: the advice in the report lists the changes that would bring samples back, and how many.
    """

    code = "P301"
    severity = "error"
    requires = ("F101",)  # reports the same, and names the missing field

    def check(self, context: Context) -> Iterator[Finding]:
        if not context.evidence.samples:
            return  # nothing could be read: other rules report why
        for verdict in context.verdicts:
            if verdict.usable or verdict.outcome == "crashes":
                continue
            why = f": {verdict.reasons[0].message}" if verdict.reasons else ""
            end = "training hangs" if verdict.outcome == "stalls" else "there is nothing to train on"
            title = verdict.title.split(" (")[0]
            yield Finding(
                self.code,
                self.severity,
                f"no sample reaches a batch in {title}, {end}{why}",
                count=verdict.samples,
                rate=1.0,
                readers=(verdict.reader,),
            )
