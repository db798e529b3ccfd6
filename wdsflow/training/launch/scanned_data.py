"""The shards that a training command names, scanned as the feed reads them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.joining.join_options import UnpairedJoin
from wdsflow.joining.join_result import JoinResult
from wdsflow.joining.joined_fields import JoinedFields
from wdsflow.joining.joined_scan import JoinedScan, counting_progress
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.startup import simulate_start
from wdsflow.scan.evidence import Evidence, Gap, ScanOptions, ShardEvidence
from wdsflow.scan.scan import scan_shard
from wdsflow.scan.scan_pool import Progress, ScanOne, scan_shards
from wdsflow.shards.shard import Shard
from wdsflow.shards.short_look import spread_selection
from wdsflow.shards.urls import Expansion, NoShards, PipeNotAllowed, expand
from wdsflow.stages.caption_sources import Captions, captions_for
from wdsflow.text.shell import escape
from wdsflow.training.feed.join.join_errors import mismatch_error
from wdsflow.training.feed.join.open_join import open_unchecked_join
from wdsflow.training.feed.subset.subset_scan import scan_kept
from wdsflow.training.feed_options import FeedOptions, JoinError, NothingKept, SubsetError
from wdsflow.training.stalls.field_fixes import pipe_fixes, rerun_command
from wdsflow.validate.verdicts.wording import no_verdict_text

from .preflight_outcome import Refusal
from .run_command import with_training_flags

BeginProgress = Callable[..., Progress | None]

# Names of missing shards that a report lists.
_MOST_MISSING = 20


@dataclass(frozen=True)
class ScannedData:
    """The shards of ``--train-data`` or ``--val-data``, of which some or all were scanned.

    Attributes:
        evidence: of the scanned shards.
        captions: where the feed looks for captions.
        shards: how many the command names.
        all_scanned: none of them was left out.
        kept: a line on the share of samples that a ledger keeps; "" without one.
        join: the join of a table; None without one.
        join_lines: lines on how samples match the rows of the table.
    """

    evidence: Evidence
    captions: Captions
    shards: int
    all_scanned: bool
    kept: str = ""
    join: JoinedFields | None = None
    join_lines: Sequence[str] = ()


def scan_data(
    arguments: Arguments,
    options: FeedOptions,
    begin_progress: BeginProgress | None,
    *,
    trains: bool,
) -> ScannedData:
    """Scan the shards that ``arguments.train_data`` names.

    Raises Refusal if the feed could not read them.

    Args:
        arguments: the training command.
        options: settings of the feed.
        begin_progress: called with the number and the name of the shards; its result is called
            after each shard.
        trains: the shards are for training; a ledger and a table are only used for those.
    """
    expansion = _expanded(arguments, options)
    if trains:
        _refuse_unused_weights(arguments, options, expansion)
    # Those of OpenCLIP 3.3 are at their defaults.
    captions = captions_for(options.caption, arguments, keep_empty=False)
    urls = spread_selection(expansion.urls)
    all_scanned = len(urls) == len(expansion.urls)
    progress = None
    if begin_progress is not None:
        shards_name = "training shards" if trains else "shards of --val-data"
        progress = begin_progress(len(urls), shards_name)

    scan = _Scan(expansion.urls, urls, options, progress)
    scanned = scan.for_training(arguments, captions) if trains else scan.for_validation()
    text = no_verdict_text(scanned.shards)
    if text:
        nothing_read = all(shard.error is not None for shard in scanned.shards)
        raise Refusal(text, nothing_read=nothing_read)
    return ScannedData(
        Evidence("names", scanned.shards, _gaps(expansion)),
        captions.in_lower_case(),
        len(expansion.urls),
        all_scanned,
        scanned.kept,
        scanned.join.join if scanned.join is not None else None,
        _join_lines(scanned.join, options, all_scanned=all_scanned),
    )


def _expanded(arguments: Arguments, options: FeedOptions) -> Expansion:
    """Return the shards that a command names."""
    assert arguments.train_data is not None
    try:
        return expand([arguments.train_data], allow_pipe=options.allow_pipe)
    except PipeNotAllowed as error:
        raise Refusal(str(error), [f"  {fix}" for fix in pipe_fixes(options)]) from None
    except NoShards as error:
        hints = [f"  {escape(error.hint)}"] if error.hint else []
        raise Refusal(escape(str(error)), hints) from None


def _refuse_unused_weights(
    arguments: Arguments, options: FeedOptions, expansion: Expansion
) -> None:
    """Refuse weights of sources with which OpenCLIP would not start."""
    counted = replace(arguments, train_num_samples=1, dataset_type="webdataset")
    begun = simulate_start(counted, expansion.urls, None)
    if begun.crash is None or begun.crash_kind != "weights":
        return
    hints = []
    if not arguments.dataset_resampled:
        resampled = with_training_flags(options, ("--dataset-resampled",))
        hints = [f"  with it: {rerun_command(resampled)}"]
    # Without the name of the exception.
    _, _, why = begun.crash.partition(": ")
    raise Refusal(why, hints)


def _gaps(expansion: Expansion) -> list[Gap]:
    gaps = []
    for pattern, missing, count in expansion.gaps:
        gaps.append(Gap(pattern, tuple(missing[:_MOST_MISSING]), count))
    return gaps


def _join_lines(join: JoinResult | None, options: FeedOptions, *, all_scanned: bool) -> list[str]:
    """Return lines on the samples with a row, none without a table.

    Raises Refusal for a join that the feed would refuse.
    """
    if join is None:
        return []
    try:
        join.check(options.join_ambiguous, all_shards=all_scanned)
    except JoinMismatch as error:
        raise Refusal(str(mismatch_error(error, options)), nothing_read=False) from None
    return join.lines()


class _ScannedShards(NamedTuple):
    """The scanned evidence of shards, and lines on the kept share and the join.

    ``kept``: the share that a ledger keeps. ``join``: how samples match the rows of a table.
    """

    shards: list[ShardEvidence]
    kept: str = ""
    join: JoinResult | None = None


@dataclass(frozen=True)
class _Scan:
    """Scans ``urls``, some of ``all_urls``."""

    all_urls: Sequence[Shard]
    urls: Sequence[Shard]
    options: FeedOptions
    progress: Progress | None

    def for_validation(self) -> _ScannedShards:
        """Scan the shards as they are."""
        return _ScannedShards(scan_shards(self.urls, self._depth, progress=self.progress))

    def for_training(self, arguments: Arguments, captions: Captions) -> _ScannedShards:
        """Scan the samples that a ledger keeps, with the fields of a table."""
        try:
            join = open_unchecked_join(self.options, captions, self.urls)
            data = arguments.train_data or ""
            scanned = self._scan_joined(data, join, self.progress)
            if scanned.join is not None and scanned.join.withhold_ambiguous(self.urls):
                # Ambiguous samples, which are known now, lose their rows.
                scanned = self._scan_joined(data, join, None)
            return scanned
        except SubsetError as error:
            nothing_read = not isinstance(error, NothingKept)
            raise Refusal(str(error), nothing_read=nothing_read) from None
        except (JoinError, UnpairedJoin) as error:
            raise Refusal(str(error)) from None

    def _scan_joined(
        self, data: str, join: JoinedFields | None, progress: Progress | None
    ) -> _ScannedShards:
        options = self.options
        result = None
        if join is not None:
            result = JoinResult(join)
            progress = counting_progress(result, progress)
        if options.ledger is not None:
            shards, kept = scan_kept(
                self.all_urls, self.urls, self._depth, options, data, progress, join
            )
            return _ScannedShards(shards, kept, result)
        functions: list[ScanOne] = [scan_shard] * len(self.urls)
        if join is not None:
            functions = [JoinedScan(join.for_shard(url)) for url in self.urls]
        shards = scan_shards(self.urls, self._depth, progress=progress, scan_functions=functions)
        return _ScannedShards(shards, join=result)

    @property
    def _depth(self) -> ScanOptions:
        return ScanOptions("names", allow_pipe=self.options.allow_pipe)
