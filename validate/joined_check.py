"""A check of shards with a table that is joined: what wdsflow's feed yields from both."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.joining.join_fixes import mismatch_fixes
from wdsflow.joining.join_result import JoinResult
from wdsflow.joining.joined_scan import JoinedScan, counting_progress
from wdsflow.joining.open_join import OpenedJoin
from wdsflow.scan.evidence import ScanOptions, ShardEvidence
from wdsflow.scan.scan_pool import Progress
from wdsflow.shards.shard import Shard
from wdsflow.stages.caption_sources import parse_captions
from wdsflow.text.words import how_many

from .advice.invocation import Invocation
from .advice.repair_forecast import Scan
from .catalog.run_rules import run_rules
from .check_options import CheckOptions
from .feed_verdict import STARVING, fatal_findings
from .finding import Advice
from .rules.kit.base import Context
from .verdicts.verdict import Reason, Verdict


class NotJoined(ValueError):
    """An option cannot be combined with a join.

    ``options`` names the options to leave out.
    """

    def __init__(self, message: str, *options: str) -> None:
        super().__init__(message)
        self.options = options


class JoinedCheck:
    """The join of a check. Raises UnpairedJoin, TableError, NotJoined."""

    def __init__(self, options: CheckOptions, urls: Sequence[Shard]) -> None:
        _refuse_other_readers(options)
        self._options = options
        captions = None if options.caption is None else parse_captions(options.caption)
        opened = OpenedJoin(options, captions)
        opened.find_key_prefixes(urls)
        opened.fields.use = None
        self._join = opened.fields
        self._result = JoinResult(opened.fields)

    def scan(
        self, scan: Scan, urls: Sequence[Shard], plan: ScanOptions, progress: Progress | None
    ) -> list[ShardEvidence]:
        """Return the evidence of shards with the fields of their rows."""
        if self._join.withholds_rows:
            # Which samples get no row is known when all of them have been listed.
            listed = JoinResult(self._join)
            self._scan(scan, urls, replace(plan, level="names"), counting_progress(listed, None))
            listed.withhold_ambiguous(urls)
        return self._scan(scan, urls, plan, counting_progress(self._result, progress))

    def _scan(
        self, scan: Scan, urls: Sequence[Shard], plan: ScanOptions, progress: Progress
    ) -> list[ShardEvidence]:
        scan_functions = [JoinedScan(self._join.for_shard(url)) for url in urls]
        return scan(urls, plan, scan_functions=scan_functions, progress=progress)

    def judged(self, context: Context) -> Context:
        """Return the context with the verdict on what is trained on.

        The run is refused for the same reasons for which the feed refuses it.

        Raises JoinMismatch if the join leaves no sample.
        """
        if not context.verdicts:
            self._refuse_nothing_left()
            return context
        verdict = self._with_others(context.verdicts[0], context.max_loss)
        notes = self._result.lines() if self._result.use.matched else []
        verdict = replace(verdict, note="; ".join(filter(None, [*notes, verdict.note])))
        context = replace(context, verdicts=[verdict])
        refusal = self._refusal(context)
        if not refusal:
            return context
        return replace(context, verdicts=[verdict.refused(refusal)])

    def advice(self, reader: str, invocation: Invocation) -> list[Advice]:
        """Return what helps if samples and rows do not match."""
        error = self._mismatch()
        if error is None:
            return []
        advice = []
        for fix in mismatch_fixes(error, self._options.join_on):
            command = invocation.command_with_join(self._options.join_words(fix.changed))
            advice.append(Advice(0, fix.action, reader, command=command))
        return advice

    def _mismatch(self) -> JoinMismatch | None:
        try:
            self._result.check(self._options.join_ambiguous, all_shards=True)
        except JoinMismatch as error:
            return error
        return None

    def _refuse_nothing_left(self) -> None:
        """Raise JoinMismatch if there are samples, and the join leaves out all of them."""
        error = self._mismatch()
        if error is None and self._result.mismatches:
            error = JoinMismatch("; ".join(self._result.lines()))
        if error is not None and self._result.use.samples:
            raise error

    def _refusal(self, context: Context) -> str:
        """Return why the feed refuses to train, "" if it does not."""
        error = self._mismatch()
        if error is not None:
            return "; ".join(line.strip() for line in str(error).splitlines())
        if context.arguments is None:
            return ""
        findings, _ = run_rules(context, sorted(STARVING))
        fatal = fatal_findings(context, findings)
        return fatal[0].message if fatal else ""

    def _with_others(self, verdict: Verdict, max_loss: float) -> Verdict:
        """Return the verdict with the samples that are not those of their rows: they are lost."""
        others = self._result.mismatches
        if not others:
            return verdict
        samples = verdict.samples + sum(others.values())
        reasons = [*verdict.reasons]
        for column, count in others.items():
            text = f"{how_many(count, 'sample')} of another {column} than the row"
            example = self._result.examples[column]
            reasons.append(Reason(f"other-{column}", count, f"{text}, such as {example}"))
        outcome = verdict.outcome
        if outcome == "trains" and samples - verdict.usable > max_loss * samples:
            outcome = "loses"
        lost = {**verdict.lost}
        for column, count in others.items():
            lost[f"other-{column}"] = count
        return replace(verdict, samples=samples, outcome=outcome, reasons=tuple(reasons), lost=lost)


def scan_with(join: JoinedCheck | None, scan: Scan) -> Scan:
    """Return what scans the training shards: with the fields of a table, if one is joined."""
    return scan if join is None else partial(join.scan, scan)


def _refuse_other_readers(options: CheckOptions) -> None:
    """Raise NotJoined for readers that join no table."""
    if options.pipeline is not None:
        raise NotJoined(
            "a pipeline of your own reads the shards as they are: check it without a table (--join)",
            "pipeline",
            "check",
            "samples",
        )
    if tuple(options.readers) != CheckOptions.readers:
        raise NotJoined(
            "with a table (--join), wdsflow's feed is judged: other readers (--for) need shards that wdsflow graft wrote",
            "readers",
        )
    if options.engine == "ray" and options.join_cache is None:
        raise NotJoined(
            "the nodes of a cluster need the index of the table: name a folder for it that all of them see (--join-cache)"
        )
