from collections.abc import Iterator

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule


class HalfDownload(Rule):
    """Shards lack the stats file that others next to them have.

    What: img2dataset writes ``NNNNN_stats.json`` when a shard is finished. Some shards of a folder have one, but these
    have none.

    Why it matters: the shard was being written when the download ended. It is short, or cut in the middle of a sample,
    which readers often do not notice (W001). On the next run, img2dataset takes a shard for done if its stats file
    exists, and writes the others again.

    In practice: img2dataset#452, #358; training sets with a few shards of 1 KB.

    Fix: run img2dataset again with ``--incremental_mode incremental``, or leave these shards out.
    """

    code = "P307"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        if context.sidecars is None:
            return
        for name, folder in context.sidecars.folders.items():
            absent = folder.without_stats
            if not absent:
                continue
            some = ", ".join(escape(base, 60) for base in absent[:3]) + (", ..." if len(absent) > 3 else "")
            yield Finding(
                self.code,
                self.severity,
                f"{escape(name or '.')}: {how_many(len(absent), 'shard')} without _stats.json ({some}), "
                f"next to {len(folder.stats):,} with one: their download was not finished",
                count=len(absent),
                readers=context.names(),
            )
