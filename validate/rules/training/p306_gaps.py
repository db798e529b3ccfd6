from collections.abc import Iterator

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule


class Gaps(Rule):
    """Numbers are missing in the series of shards.

    What: shards are numbered, and some numbers in the middle have no file; or a brace range such as ``{000000..000324}``
    names files that do not exist.

    Why it matters: OpenCLIP logs a warning for each missing shard on every visit and continues. An off-by-one in the
    range, or an unfinished download, shows only in fewer samples. A worker that gets only missing shards never fills a
    batch, and training hangs. webdataset without a handler ends with FileNotFoundError.

    In practice: ranges that are one too long (open_clip#480); img2dataset#174 (failed shards leave gaps, which end
    training); PixelRAG#47.

    Fix: copy or download the missing shards, or name those that exist: a glob in quotes for wdsflow; for OpenCLIP
    several ranges, ``{000..041}.tar::{043..107}.tar``.
    """

    code = "P306"
    severity = "warning"

    def check(self, context: Context) -> Iterator[Finding]:
        for gap in context.evidence.gaps:
            some = ", ".join(escape(name, 60) for name in gap.missing[:3])
            more = f" and {gap.count - 3:,} more" if gap.count > 3 else ""
            yield Finding(
                self.code,
                self.severity,
                f"{escape(gap.pattern)}: {how_many(gap.count, 'shard')} missing: {some}{more}",
                count=gap.count,
                readers=context.names(),
            )
