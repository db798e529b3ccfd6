"""Shards over HTTP: a view of those that a ledger keeps, next to the files that a cut writes, served by aiohttp.

The same reader reads the same bytes from both, on this machine. The clock runs from its first request to its end, when
the server has counted the samples, as it has when it prints how to train.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.request import urlopen

from support.bench import filtering

MakeClock = Callable[[], Any]
Read = Callable[[list[str]], int]

_FILES = """
import asyncio, sys
from aiohttp import web

async def main():
    app = web.Application()
    app.router.add_static("/", sys.argv[1])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"serving files at http://127.0.0.1:{runner.addresses[0][1]}/", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def view(paths: Sequence[str], clock: MakeClock, read: Read, samples: int | None = None) -> dict[str, Any]:
    """Read what `wdsflow serve` serves by a ledger, in tars of so many samples."""
    with filtering.scored(paths) as (_, scores, _recipe, _options):
        words = ["-m", "wdsflow", "serve", *paths, "--ledger", scores, "--where", filtering.WHERE, "--port", "0"]
        words += ["--samples", str(samples)] if samples else []
        with running(words, until="What to do") as url:
            with urlopen(f"{url}sizes.json") as answer:  # noqa: S310 - our own server
                urls = [url + name for name in json.load(answer)]
            begun = clock()
            result: dict[str, Any] = begun.stop(seen=read(urls))
    return result


def files(paths: Sequence[str], clock: MakeClock, read: Read, samples: int | None = None) -> dict[str, Any]:
    """Read what `wdsflow cut` wrote, and `wdsflow reshard` of that, served by aiohttp as files."""
    with filtering.scored(paths) as (folder, scores, recipe, options):
        from wdsflow.filtering.run_filter import cut_shards
        from wdsflow.reshaping.reshard import reshard_shards

        out = os.path.join(folder, "cut")
        cut_shards(paths, out, scores, recipe, options)
        if samples:
            cut, out = out, os.path.join(folder, "resharded")
            reshard_shards(cut, out, samples=samples)
        with running(["-c", _FILES, out], until="") as url:
            urls = [f"{url}{name}" for name in sorted(os.listdir(out)) if name.endswith(".tar")]
            begun = clock()
            result: dict[str, Any] = begun.stop(seen=read(urls))
    return result


def by_webdataset(urls: list[str]) -> int:
    """Return how many samples webdataset reads, through curl, without decoding."""
    from webdataset import WebDataset

    return sum(1 for _ in WebDataset(urls, shardshuffle=False))


def by_curl(urls: list[str]) -> int:
    """Return how many bytes curl downloads: a reader that does nothing with them."""
    sizes = subprocess.run(
        ["curl", "-sSf", "-w", "%{size_download} ", *(word for url in urls for word in ("-o", "/dev/null", url))],
        capture_output=True,
        check=True,
    )
    return sum(map(int, sizes.stdout.split()))


@contextmanager
def running(words: list[str], until: str) -> Iterator[str]:
    """Run a server, and give its url once it has printed a line."""
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().split()[-1]
            while until and until not in process.stdout.readline():
                pass
            yield url
        finally:
            process.kill()
