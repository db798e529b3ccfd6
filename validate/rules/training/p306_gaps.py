from collections.abc import Iterator

from wdsflow.text.escape import escape
from wdsflow.text.words import how_many

from ...finding import Finding
from ..kit.base import Context, Rule


class Gaps(Rule):
    """Numbers are missing in the series of shards.

    What: shards are numbered, and some numbers in the middle have no file; or a brace range such as ``{000000..000324}``
    names files that do not exist.

    Why it hurts: OpenCLIP logs a warning for each missing shard on every visit and goes on, so that an off-by-one in
    the range, or a download that was never finished, is invisible but for fewer samples. A worker that was dealt
    missing shards only never fills a batch, and training waits for it. webdataset without a handler ends with
    FileNotFoundError.

    In the wild: ranges that are one too long (open_clip#480); img2dataset#174 (shards that failed leave gaps, which end
    training); PixelRAG#47.

    Cure: copy or download the missing shards, or name those that exist: a glob in quotes for wdsflow; for OpenCLIP
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
