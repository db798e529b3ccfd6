"""The stages of a traced pipeline as table rows, and the errors that they swallowed."""

from collections.abc import Iterator, Sequence

from wdsflow.text.words import how_many

from .stage_trace import StageTrace

# Characters of a row without the title.
_NUMBERS_WIDTH = 60


def table(stages: Sequence[StageTrace], width: int = 120) -> Iterator[str]:
    """Yield the rows of a table: what entered and left each stage; long titles are cut.

    ``width``: of a row, in characters.
    """
    longest = max(len(stage.title) for stage in stages)
    title_width = min(longest, width - _NUMBERS_WIDTH)
    yield f"  #  {'stage':<{title_width}}  {'in':>9}  {'out':>9}  {'':<7}  {'seconds':>8}  {'swallowed':>9}"
    for stage in stages:
        # The source has no input.
        inputs = f"{stage.inputs:,}" if stage.number > 1 else "-"
        title = stage.title
        if len(title) > title_width:
            title = f"{title[: title_width - 3]}..."
        yield (
            f"{stage.number:>3}  {title:<{title_width}}  {inputs:>9}  {stage.out:>9,}  {stage.kind:<7}"
            f"  {stage.seconds:>8.2f}  {stage.errors:>9,}"
        )


def swallowed_errors(stage: StageTrace) -> str:
    """Return ``3 errors swallowed, the first: ...`` with key and shard."""
    count = "1 error swallowed"
    if stage.errors > 1:
        count = f"{stage.errors:,} errors swallowed, the first"
    return f"{count}: {stage.first_error}{key_and_shard(stage.error_key, stage.error_shard)}"


def logged_warnings(stage: StageTrace) -> str:
    """Return ``logged 3 warnings, the first: ...``."""
    first = ", the first" if stage.logged > 1 else ""
    return f"logged {how_many(stage.logged, 'warning')}{first}: {stage.first_log}"


def key_and_shard(key: str, shard: str) -> str:
    """Return key and shard in brackets, empty if neither is known."""
    parts = []
    if key:
        parts.append(f"key {key}")
    if shard:
        parts.append(f"shard {shard}")
    return f" ({', '.join(parts)})" if parts else ""
