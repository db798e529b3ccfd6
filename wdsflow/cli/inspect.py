"""``wdsflow inspect``: show the contents of shards."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wdsflow.cli.shared.cli_options import AllowPipe, AsJson, Jobs, Keys, Shards
from wdsflow.cli.shared.terminal import check_output, console, fail, no_shards, none_read, progress, write_output
from wdsflow.cli.shared.typed_command import Typed
from wdsflow.text.shell import escape
from wdsflow.text.words import how_many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wdsflow.validate.inspect.shown_sample import ShownSample

Show = Annotated[
    str | None, typer.Option("--show", metavar="KEY", help="Show the sample of this key: pictures, texts.")
]
Some = Annotated[int, typer.Option("--sample", min=0, metavar="N", help="Show N samples that chance picks.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="With --sample: another number picks other samples.")]
Ledger = Annotated[
    Path | None, typer.Option("--ledger", metavar="DIR", help="Show scores, too: a folder that score or filter wrote.")
]
Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="With --show or --sample: write a page with thumbnails.")
]


def inspect(
    context: typer.Context,
    urls: Shards,
    keys: Keys = 0,
    jobs: Jobs = None,
    allow_pipe: AllowPipe = False,
    as_json: AsJson = False,
    show: Show = None,
    sample: Some = 0,
    seed: Seed = 0,
    ledger: Ledger = None,
    html: Html = None,
) -> None:
    """Show the contents of shards: fields, captions, image sizes.

    With --show or --sample, show single samples instead: thumbnails in a terminal that can show them, texts, and with
    --ledger scores. Gives no verdict. Exit status: 0, or 2 if nothing could be read.
    """
    from wdsflow.shards.urls import NoShards, expand

    try:
        found = expand(urls).urls
    except NoShards as error:
        no_shards(error, Typed(context))
    if show is not None or sample:
        check_output(html, "html", Typed(context))
        again = f"{Typed.spell('inspect', *urls)} --keys 20"
        _samples(found, show, (sample, seed), (ledger, html), again, allow_pipe=allow_pipe, as_json=as_json)
        return
    if ledger is not None or html is not None:
        fail("--ledger and --html are for single samples", f"{Typed.spell('inspect', *urls)} --sample 20")
    _overview(found, keys, jobs, Typed(context), allow_pipe=allow_pipe, as_json=as_json)


def _overview(urls: list[str], keys: int, jobs: int | None, typed: Typed, *, allow_pipe: bool, as_json: bool) -> None:
    """Show what all shards have."""
    from wdsflow.scan.scan_options import ScanOptions
    from wdsflow.scan.scan_pool import scan_shards
    from wdsflow.validate.inspect.overview import overview
    from wdsflow.validate.inspect.shown_sample import Listed, first_samples

    with progress() as begin:
        shards = scan_shards(urls, ScanOptions("headers", allow_pipe=allow_pipe), jobs, begin(len(urls)))
    nothing = all(shard.error for shard in shards)
    total = overview(shards)
    listed: dict[str, list[Listed]] = {}
    for shard in shards:
        left = keys - sum(len(samples) for samples in listed.values())
        if left > 0 and shard.error is None:
            listed[shard.url] = first_samples(shard.url, left, allow_pipe=allow_pipe)
    if as_json:
        from wdsflow.validate.report.as_json import clean

        tree = total.to_dict()
        if keys:
            tree["first_samples"] = [
                {"shard": url, **sample.to_dict()} for url, samples in listed.items() for sample in samples
            ]
        print(json.dumps(clean(tree), indent=2))
    elif not nothing:
        from wdsflow.validate.inspect.overview import show_overview, show_samples

        out = console()
        show_overview(total, out)
        for url, samples in listed.items():
            show_samples(url, samples, out)
    if nothing:
        none_read(shards, typed)


def _samples(
    urls: list[str],
    key: str | None,
    chance: tuple[int, int],
    files: tuple[Path | None, Path | None],
    again: str,
    *,
    allow_pipe: bool,
    as_json: bool,
) -> None:
    """Show single samples. ``chance`` is their number and a seed, ``again`` a command that lists keys."""
    from wdsflow.filtering.ledger.ledger_row import LedgerError
    from wdsflow.validate.inspect.shown_sample import samples_of_key, some_samples

    (ledger, html), problems = files, dict[str, Exception]()
    if key is not None:
        found = samples_of_key(urls, key, problems.__setitem__, allow_pipe=allow_pipe)
    else:
        found = some_samples(urls, *chance, problems.__setitem__, allow_pipe=allow_pipe)
    try:
        count = _printed(found if ledger is None else _scored(found, ledger), html, as_json=as_json)
    except (LedgerError, OSError) as error:
        fail(str(error))
    reasons = [f"{url}: {reason}" for url, reason in problems.items()]
    if not count and len(problems) == len(urls):
        fail(f"nothing could be read: {reasons[0]}")
    if not count:
        what = "no sample at all" if key is None else f"no sample has the key {key!r}"
        fail(f"{what} in {how_many(len(urls), 'shard')}", again)
    for reason in reasons:
        print(f"wdsflow: not read to the end: {escape(reason, 600)}", file=sys.stderr)


def _scored(samples: "Iterator[ShownSample]", ledger: Path) -> "Iterator[ShownSample]":
    from wdsflow.filtering.ledger.ledger import SampleScores

    scores = SampleScores(ledger)
    for each in samples:
        each.scores = scores.of(each.url, each.listed.key, each.listed.offset)
        yield each


def _printed(samples: "Iterator[ShownSample]", html: Path | None, *, as_json: bool) -> int:
    """Print samples, or write them to a page, and return how many there were."""
    if html is not None:
        from wdsflow.validate.inspect.shown_sample import contact_sheet

        page = contact_sheet(samples)
        if count := page.count("<article>"):  # data is escaped
            write_output(html, page)
            print(f"{how_many(count, 'sample')} in {html}")
        return count
    if as_json:
        from wdsflow.validate.report.as_json import clean

        trees = [clean(each.to_dict()) for each in samples]
        if trees:
            print(json.dumps({"samples": trees}, indent=2))
        return len(trees)
    from wdsflow.validate.inspect.shown_sample import show_contents

    return show_contents(samples, console())
