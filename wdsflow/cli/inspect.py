"""``wdsflow inspect``: show the contents of shards."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wdsflow.cli.shared.advice_on_shards import refuse_no_shards, refuse_none_read
from wdsflow.cli.shared.output_files import check_output, write_output
from wdsflow.cli.shared.printing import console
from wdsflow.cli.shared.progress_bars import progress
from wdsflow.cli.shared.refuse import refuse
from wdsflow.cli.shared.run_arguments import ShardArguments
from wdsflow.cli.shared.typed import Typed
from wdsflow.shards.shard import Shard
from wdsflow.text.options import OTHER, allow_pipe_option, option, processes_option
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wdsflow.validate.inspect.shown_sample import ShownSample


@dataclass(frozen=True)
class InspectOptions:
    """The parts of shards to show."""

    keys: int = option(0, "List the first N samples with their offsets.", metavar="N", least=0)
    jobs: int | None = processes_option()
    as_json: bool = option(False, "Print JSON.", "--json")
    show: str | None = option(None, "Show the sample of this key: pictures, texts.", metavar="KEY")
    sample: int = option(0, "Show N samples that chance picks.", metavar="N", least=0)
    seed: int = option(0, "With --sample: another number picks other samples.", metavar="N")
    ledger: Path | None = option(
        None, "Show scores, too: a folder that measure or filter wrote.", metavar="DIR"
    )
    readers: Sequence[str] = option(
        (),
        "With --show or --sample: what this reader makes of the sample alone; repeatable, names as for validate.",
        "--for",
        metavar="READER",
    )
    html: Path | None = option(
        None, "With --show or --sample: write a page with thumbnails.", metavar="FILE"
    )
    allow_pipe: bool = allow_pipe_option(OTHER)


def inspect(typed: Typed, shards: ShardArguments, options: InspectOptions) -> None:
    """Show the contents of shards: fields, captions, image sizes.

    With --show or --sample, show single samples instead: thumbnails in a terminal that can show
    them, texts, with --ledger scores and what the filter decided, with --for why a reader loses the
    sample. Exit status: 0, or 2 if nothing could be read.
    """
    from wdsflow.shards.urls import NoShards, expand

    urls = shards.urls
    try:
        expanded = expand(urls, allow_pipe=options.allow_pipe).urls
    except NoShards as error:
        refuse_no_shards(error, typed)
    if options.show is not None or options.sample:
        check_output(options.html, "html", typed)
        _samples(expanded, options, f"{Typed.spell_command('inspect', *urls)} --keys 20")
        return
    if options.ledger is not None or options.html is not None or options.readers:
        refuse(
            "--ledger, --for and --html are for single samples",
            f"{Typed.spell_command('inspect', *urls)} --sample 20",
        )
    _overview(expanded, options, typed)


def _overview(urls: list[Shard], options: InspectOptions, typed: Typed) -> None:
    """Show the contents of all shards."""
    from wdsflow.scan.evidence import ScanOptions
    from wdsflow.scan.scan_pool import scan_shards
    from wdsflow.validate.inspect.listed_samples import ListedSample, first_samples
    from wdsflow.validate.inspect.overview import overview

    keys = options.keys
    allow_pipe = options.allow_pipe
    scan_options = ScanOptions("headers", allow_pipe=allow_pipe)
    with progress() as begin:
        shards = scan_shards(urls, scan_options, options.jobs, begin(len(urls)))
    nothing_read = all(shard.error for shard in shards)
    total = overview(shards)
    listed: dict[str, list[ListedSample]] = {}
    for shard in shards:
        remaining = keys - sum(len(samples) for samples in listed.values())
        if remaining > 0 and shard.error is None:
            listed[shard.url] = first_samples(shard.url, remaining, allow_pipe=allow_pipe)
    if options.as_json:
        from wdsflow.validate.report.as_json import make_encodable

        tree = total.to_dict()
        if keys:
            rows: list[dict[str, object]] = []
            for url, samples in listed.items():
                rows += [{"shard": url, **sample.to_dict()} for sample in samples]
            tree["first_samples"] = rows
        print(json.dumps(make_encodable(tree), indent=2))
    elif not nothing_read:
        from wdsflow.validate.inspect.overview_text import show_overview, show_samples

        out = console()
        show_overview(total, out)
        for url, samples in listed.items():
            show_samples(url, samples, out)
    if nothing_read:
        refuse_none_read(shards, typed)


def _samples(urls: list[Shard], options: InspectOptions, again: str) -> None:
    """Show single samples. ``again`` is a command that lists keys."""
    from wdsflow.filtering.ledger.ledger_metadata import LedgerError
    from wdsflow.readers import UnknownReader
    from wdsflow.validate.inspect.shown_sample import random_samples, samples_of_key

    key = options.show
    allow_pipe = options.allow_pipe
    problems: dict[str, Exception] = {}
    if key is not None:
        samples = samples_of_key(urls, key, problems.__setitem__, allow_pipe=allow_pipe)
    else:
        samples = random_samples(
            urls, options.sample, options.seed, problems.__setitem__, allow_pipe=allow_pipe
        )
    try:
        if options.readers:
            samples = _with_fates(samples, options, urls)
        if options.ledger is not None:
            samples = _with_scores(samples, options.ledger)
        count = _print_samples(samples, options.html, as_json=options.as_json)
    except (LedgerError, UnknownReader, OSError) as error:
        refuse(str(error))
    reasons = [f"{url}: {reason}" for url, reason in problems.items()]
    if not count and len(problems) == len(urls):
        refuse(f"nothing could be read: {reasons[0]}")
    if not count:
        problem = "no sample at all" if key is None else f"no sample has the key {key!r}"
        refuse(f"{problem} in {how_many(len(urls), 'shard')}", again)
    for reason in reasons:
        print(f"wdsflow: not read to the end: {escape(reason, 600)}", file=sys.stderr)


def _with_scores(samples: "Iterator[ShownSample]", ledger: Path) -> "Iterator[ShownSample]":
    from wdsflow.filtering.ledger.sample_scores import SampleScores

    scores = SampleScores(ledger)
    for sample in samples:
        entry = scores.of(sample.url, sample.listed.key, sample.listed.offset)
        if entry is not None:
            sample.outcome, sample.scores = entry
        yield sample


def _with_fates(
    samples: "Iterator[ShownSample]", options: InspectOptions, urls: Sequence[Shard]
) -> "Iterator[ShownSample]":
    from wdsflow.validate.chosen_readers import chosen_readers
    from wdsflow.validate.inspect.sample_fates import SampleFates

    readers = chosen_readers(options.readers, None, 1).readers
    fates = SampleFates(readers, urls, allow_pipe=options.allow_pipe)
    for sample in samples:
        sample.fates = fates.of(sample.url, sample.listed)
        yield sample


def _print_samples(samples: "Iterator[ShownSample]", html: Path | None, *, as_json: bool) -> int:
    """Print samples, or write them to a page, and return how many there were."""
    if html is not None:
        from wdsflow.validate.inspect.contact_sheet import contact_sheet

        page = contact_sheet(samples)
        # Data is escaped.
        count = page.count("<article>")
        if count:
            write_output(html, page)
            print(f"{how_many(count, 'sample')} in {html}")
        return count
    if as_json:
        from wdsflow.validate.report.as_json import make_encodable

        trees = [make_encodable(sample.to_dict()) for sample in samples]
        if trees:
            print(json.dumps({"samples": trees}, indent=2))
        return len(trees)
    from wdsflow.validate.inspect.console_samples import show_contents

    return show_contents(samples, console())
