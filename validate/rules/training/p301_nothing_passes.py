from collections.abc import Iterator

from ...finding import Finding
from ..kit.base import Context, Rule


class NothingPasses(Rule):
    """No sample reaches a batch.

    What: of all samples, not one gets through what the reader does before it makes a batch. The first reason is in the
    message; the findings beside this one say where and why.

    Why it hurts: OpenCLIP makes a worker repeat its shards until it has given as many batches as the epoch needs
    (``with_epoch`` on webdataset <= 0.2.86). Where nothing passes, it reads them forever: "Start epoch 0", the GPU at
    0 %, no error, and no line in the log, because its filter drops in silence. With ``--dataset-resampled`` every
    version does this. Other readers end with an empty epoch or an exception.

    In the wild: open_clip#1016, #569, #480, #61; webdataset#68, #188. The usual advice is to print ``has_caption`` and
    ``has_image`` from inside the filter.

    Cure: the advice in the report ranks what would bring samples back, and how many.
    """

    code = "P301"
    severity = "error"
    requires = ("F101",)  # says the same, and which field is missing

    def check(self, context: Context) -> Iterator[Finding]:
        if not context.evidence.samples:
            return  # nothing could be read: other rules say why
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
