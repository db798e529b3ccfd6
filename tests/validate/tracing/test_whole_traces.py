"""All that traces of real pipelines tell, over shards with odd and damaged samples."""

import gc
import itertools
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
import webdataset as wds

from tests.case_names import without_address
from tests.golden_file import check_text
from tests.shards.archives import write_tar
from tests.validate.pipeline import user_pipelines, wild_pipelines
from tests.validate.pipeline.small_set import jpeg
from wdsflow import trace
from wdsflow.validate import Trace

GOLDEN = Path(__file__).parent / "golden" / "whole_traces.txt"
# webdataset leaves its files to the garbage collector.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
# Each time others.
DRAWN = {
    "random_drops",
    "mixed",
    "sampled",
    "map_tuple",
    "shuffled",
    "shuffled_apart",
    "shuffled_alike",
}
calm = wds.ignore_and_continue


def plain(count: int, **more: Any) -> list[dict[str, Any]]:
    return [
        {"__key__": f"k{number}", "__url__": "a.tar", "txt": b"a" * number, **more}
        for number in range(count)
    ]


def warns(source: Iterator[Any]) -> Iterator[Any]:
    for number, sample in enumerate(source):
        if number % 3 == 0:
            logging.getLogger("own").warning("sample %d is bad", number)
        else:
            yield sample


def source(count: int) -> Callable[[], Any]:
    return lambda: iter(plain(count))


def raises_late(source: Iterator[Any]) -> Iterator[Any]:
    for sample in source:
        if len(sample["txt"]) > 3:
            raise ValueError("too\nlong")
        yield sample


def keeps_none(source: Iterator[Any]) -> Iterator[Any]:
    return (sample for sample in source if "jpg" in sample and "txt" not in sample)


def swallows(source: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from source
    except ValueError:
        return


def batches(source: Iterator[Any]) -> Iterator[Any]:
    while batch := list(itertools.islice(source, 4)):
        yield batch


def columns(source: Iterator[Any]) -> Iterator[Any]:
    for batch in source:
        yield {
            "__key__": [each["__key__"] for each in batch],
            "txt": [each["txt"] for each in batch],
        }


def some(source: Iterator[Any]) -> Iterator[Any]:
    yield from itertools.islice(source, 3)


def bare(source: Iterator[Any]) -> Iterator[Any]:
    yield from (each["url"] for each in source)


def asks_again(source: Iterator[Any]) -> Iterator[Any]:
    while True:
        yield from source


Make = Callable[[list[str]], Any]
MADE: dict[str, Make] = {
    "logs": lambda _: [plain(9), warns],
    "raises": lambda _: [plain(9), raises_late, warns],
    "raises behind nothing": lambda _: [plain(9), keeps_none, lambda source: [next(source)]],
    "swallowed by another": lambda _: [plain(9), raises_late, swallows],
    "batches": lambda _: [plain(10), batches, columns],
    "few": lambda _: wds.DataPipeline(source(3), wds.batched(4, partial=False)),
    "rest": lambda _: wds.DataPipeline(source(11), wds.batched(4, partial=False)),
    "unbatched": lambda _: wds.DataPipeline(
        source(11), wds.to_tuple("__key__", "txt"), wds.batched(4), wds.unbatched(), wds.slice(9)
    ),
    "ends early": lambda _: [plain(9), some],
    "urls": lambda urls: [[{"url": url} for url in urls], bare, keeps_none],
    "nothing": lambda _: [[], warns],
    "none is left": lambda _: [
        plain(9, cls=b"1", **{f"f{number}": b"" for number in range(9)}),
        keeps_none,
        warns,
    ],
    "repeats nothing": lambda urls: (
        wds.WebDataset(urls, shardshuffle=False).select(lambda _: False).with_epoch(9)
    ),
    "asks again": lambda _: [plain(3), asks_again, keeps_none],
    "a loader": lambda _: torch.utils.data.DataLoader(plain(10), 4, num_workers=2),  # type: ignore[arg-type]
    "missing shard": lambda urls: wds.WebDataset(["none.tar", *urls], shardshuffle=False),
    **{
        name: make
        for module in (user_pipelines, wild_pipelines)
        for name, make in vars(module).items()
        if getattr(make, "__module__", "") == module.__name__
        and getattr(getattr(make, "__code__", None), "co_varnames", ("",))[:1] == ("urls",)
        and name not in DRAWN | {"Tars", "warns"}
    },
}


def told(found: Trace) -> Iterator[str]:
    verdict = re.sub(r"; stage \d+ .*? takes \d+% of the time", "", found.verdict)
    yield f"  {verdict} | {found.ending} {found.ok} {found.samples} {found.delivered} {found.notes}"
    for stage in found.stages:
        values = {each.name: getattr(stage, each.name) for each in fields(stage)}
        assert values.pop("seconds") >= 0
        head = f"{values.pop('number')} {values.pop('title')}: {values.pop('inputs')} {values.pop('out')} lost {stage.lost}"
        yield f"  {head} {' '.join(f'{name}={value}' for name, value in values.items() if value)}"
    shown = str(found).splitlines()
    assert shown[0] == found.verdict
    yield from (
        f"  {line}" for line in shown if line.startswith("stage ") and line != found.verdict
    )


@pytest.fixture
def urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Three shards, of which the second has damaged samples.

    The damage: an image that is cut off, a caption that is not text, and missing fields.
    """
    monkeypatch.chdir(tmp_path)
    for shard in range(3):
        members: list[tuple[str, bytes]] = []
        for number in range(5):
            key = f"{shard}{number:02d}"
            hurt = shard == 1 and number
            members.append((f"{key}.jpg", jpeg()[:200] if hurt == 1 else jpeg()))
            members += [(f"{key}.txt", b"\xff\xfe" if hurt == 2 else b"a cat" * number)] * (
                hurt != 3
            )
            members += [(f"{key}.json", json.dumps({"caption": key}).encode())] * (hurt != 4)
        write_tar(Path(f"{shard}.tar"), members)
    yield [f"{shard}.tar" for shard in range(3)]
    gc.collect()


def test_traces_of_real_pipelines_tell_this(urls: list[str]) -> None:
    lines = []
    for name, make in MADE.items():
        for most in (1000, 4):
            lines += [
                f"{name}, {most} samples",
                *told(trace(make(urls), samples=most, seconds=300)),
            ]
    text = without_address("\n".join(lines))
    check_text(GOLDEN, "traces", text)
