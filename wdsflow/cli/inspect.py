"""``wdsflow inspect``: show the contents of shards."""

import json
from typing import Annotated

import typer

from wdsflow.cli.shared.cli_options import AllowPipe, AsJson, Jobs, Keys
from wdsflow.cli.shared.terminal import console, fail, no_shards, progress


def inspect(
    urls: Annotated[list[str], typer.Argument(metavar="URL...", help="Shards, as for validate.")],
    keys: Keys = 0,
    jobs: Jobs = None,
    allow_pipe: AllowPipe = False,
    as_json: AsJson = False,
) -> None:
    """Show the contents of shards: fields, captions, image sizes.

    Gives no verdict. Exit status: 0, or 2 if nothing could be read.
    """
    from wdsflow.scan.scan_options import ScanOptions
    from wdsflow.scan.scan_pool import scan_shards
    from wdsflow.shards.urls import NoShards, expand
    from wdsflow.validate.inspect.listing import Listed, first_samples
    from wdsflow.validate.inspect.overview import overview

    try:
        found = expand(urls).urls
    except NoShards as error:
        no_shards(error)
    with progress() as begin:
        shards = scan_shards(found, ScanOptions("headers", allow_pipe=allow_pipe), jobs, begin(len(found)))
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
        from wdsflow.validate.inspect.overview_text import show_overview, show_samples

        out = console()
        show_overview(total, out)
        for url, samples in listed.items():
            show_samples(url, samples, out)
    if nothing:
        from wdsflow.validate.verdicts.wording import unreadable_text

        fail(unreadable_text(shards))
