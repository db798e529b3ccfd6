"""What the objects of pipelines tell before they run, and what follows for workers: whole."""

import functools
import itertools
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
import webdataset as wds

from tests.golden_file import check_text
from tests.validate.pipeline import user_pipelines, wild_pipelines, worker_pipelines
from wdsflow.scan.evidence import Run, Runs, ShardEvidence
from wdsflow.validate.pipeline.fates import Estimate
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.reading import judge_split, leave_room
from wdsflow.validate.pipeline.rewire import PipelineFacts, Rewiring, check_made
from wdsflow.validate.pipeline.stand_ins import AloneInBatch
from wdsflow.validate.tracing.pipeline_steps import LEFT_OUT, take_apart

GOLDEN = Path(__file__).parent / "golden" / "whole_facts.txt"
URLS = [f"{number}.tar" for number in range(4)]
calm = wds.ignore_and_continue
Make = Callable[[list[str]], Any]


def chain(*stages: Any, source: Any = None) -> Make:
    return lambda urls: wds.DataPipeline(source or wds.SimpleShardList(urls), *stages)


def own(source: Iterator[Any]) -> Iterator[Any]:
    yield from source


class Holder:
    """Names shards, and holds a pipeline."""

    def __init__(self, urls: list[str]) -> None:
        self.files, self.more, self.count = tuple(urls), ["a.json"], 3
        self.inner = wds.WebDataset(urls, shardshuffle=False)

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class Numbers(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Is map-style."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> int:
        return index


opened = wds.tarfile_to_samples(handler=calm)
MADE: dict[str, Make] = {
    "shuffle before split": chain(wds.shuffle(10), wds.split_by_node, wds.split_by_worker, opened),
    "detshuffle before split": chain(wds.detshuffle(), wds.split_by_worker, opened),
    "shuffle between splits": chain(wds.split_by_node, wds.shuffle(10), wds.split_by_worker, opened),
    "shuffle behind splits": chain(wds.split_by_node, wds.split_by_worker, wds.shuffle(10), opened),
    "shuffle with a generator": chain(wds.shuffle(10, 5, random.Random(1)), wds.split_by_worker, opened),
    "shuffle with a named generator": chain(wds.shuffle(10, rng=random.Random(1)), wds.split_by_worker, opened),
    "shuffle without a buffer": chain(wds.shuffle(0), wds.split_by_worker, opened, wds.shuffle(bufsize=0)),
    "seeded": lambda urls: wds.DataPipeline(wds.SimpleShardList(urls, seed=3), wds.split_by_worker, opened),
    "of a list": lambda urls: wds.DataPipeline([{"url": url} for url in urls], wds.split_by_node, opened),
    "shuffled apart, of own code": chain(wds.shuffle(10), wds.split_by_worker, opened, source=own),
    "own code before tars": chain(own, wds.split_by_worker, opened),
    "resampled": lambda urls: wds.DataPipeline(wds.ResampledShards(urls), opened, wds.decode(handler=calm)),
    "resampled, ends": lambda urls: wds.DataPipeline(wds.ResampledShards(urls, nshards=3), opened),
    "picked": lambda urls: wds.DataPipeline(wds.SimpleShardList(urls[1:3]), opened),
    "strict decode": chain(opened, wds.decode("pil")),
    "own decoder": chain(opened, wds.decode(lambda key, data: data, handler=calm)),
    "strict own decoder": chain(opened, wds.decode(lambda key, data: data)),
    "warning decode": chain(opened, wds.decode("rgb", handler=wds.warn_and_continue), wds.map(len)),
    "stopping": chain(opened, wds.map(len, handler=wds.ignore_and_stop), wds.select(bool)),
    "own code behind tars": chain(opened, own, functools.partial(own)),
    "chooses members": chain(wds.tarfile_to_samples(handler=calm, select_files=bool)),
    "renames members": chain(wds.tarfile_to_samples(handler=calm, rename_files=str), wds.to_tuple("a", handler=calm)),
    "slices": chain(opened, wds.slice(50), wds.slice(20), wds.slice(5, 30), wds.rsample(0.5)),
    "slices batches": chain(opened, wds.batched(4), wds.slice(3), wds.batched(5, partial=False), wds.slice(2, 7)),
    "slices by a third": chain(opened, wds.batched(4), wds.slice(1, 9, 2)),
    "unbatched": chain(opened, wds.batched(4, list, True), wds.unbatched(), wds.slice(3), wds.batched()),
    "batched by position": chain(opened, wds.batched(6, None, False), wds.batched(batchsize=2, collation_fn=list)),
    "repeated": lambda urls: wds.WebDataset(urls, shardshuffle=False).repeat().with_epoch(10),
    "twice": lambda urls: wds.WebDataset(urls, shardshuffle=2).repeat(2),
    "split by node": lambda urls: wds.WebDataset(urls, nodesplitter=wds.split_by_node, shardshuffle=4),
    "kept": lambda urls: wds.WebDataset(urls, shardshuffle=False, cache_dir=".", nodesplitter=wds.split_by_node),
    "nested": lambda urls: wds.DataPipeline(wds.WebDataset(urls, shardshuffle=False), wds.batched(3)),
    "loader": lambda urls: torch.utils.data.DataLoader(Holder(urls), batch_size=None),  # type: ignore[arg-type]
    "holder": Holder,
    "map-style": lambda _: Numbers(),
    "map-style loader": lambda _: torch.utils.data.DataLoader(Numbers(), 4, shuffle=True, num_workers=3),
    "map-style loader in order": lambda _: torch.utils.data.DataLoader(Numbers(), 1, drop_last=True),
    "batch sampler": lambda _: torch.utils.data.DataLoader(
        Numbers(), batch_sampler=torch.utils.data.BatchSampler(range(9), 3, False)
    ),
    "splits": lambda urls: {"train": urls, "test": urls},
    "a loader of splits": lambda urls: torch.utils.data.DataLoader({0: 1, 1: 2}),  # type: ignore[arg-type]
    "numbers": lambda _: iter([1, 2]),
    **{
        f"{module.__name__.rpartition('.')[2]}.{name}": make
        for module in (user_pipelines, wild_pipelines, worker_pipelines)
        for name, make in vars(module).items()
        if getattr(make, "__module__", "") == module.__name__
        and getattr(getattr(make, "__code__", None), "co_varnames", ("",))[:1] == ("urls",)
    },
}


def told(facts: PipelineFacts) -> list[str]:
    plain = PipelineFacts()
    found = [(each.name, getattr(facts, each.name)) for each in fields(facts)]
    return [f"    {name} {value}" for name, value in found if value != getattr(plain, name)]


def changed(thing: Any) -> str:
    """Return what runs in place of a pipeline."""
    if hasattr(thing, "pipeline"):
        inner = [changed(thing.pipeline[0]), *(changed(stage) for stage in thing.pipeline[1:])]
        return f"{type(thing).__name__}({' '.join(inner)})"
    if isinstance(thing, torch.utils.data.DataLoader):
        collate = type(thing.collate_fn).__name__
        more = f"{thing.batch_size} {thing.drop_last} {thing.num_workers} {collate}"
        return f"loader({more} {changed(thing.__dict__['dataset'])})"
    if isinstance(thing, Holder):
        return f"Holder({thing.files} {thing.more} {thing.count} {changed(thing.inner)})"
    if hasattr(thing, "kw"):
        names = {name: getattr(value, "__name__", value) for name, value in thing.kw.items()}
        return f"{thing.f.__name__}{tuple(getattr(each, '__name__', each) for each in thing.args)!r}{names}"
    return str(thing) if isinstance(thing, list | dict) else type(thing).__name__


def plainly(text: str) -> str:
    return re.sub(r"<([\w.]+) (?:object )?(?:\w+ )?at 0x\w+>", r"<\1>", text)


def rewired(make: Make, *, made_for_them: bool = True, singly: bool = True) -> list[str]:
    rewiring = Rewiring(URLS if made_for_them else ["new.tar"], made_for_them=made_for_them, singly=singly)
    try:
        twin = rewiring.rewire(make(URLS))
    except PipelineError as error:
        return [f"    {error}"]
    return [f"    {plainly(changed(twin))}", *told(rewiring.facts)]


def test_pipelines_tell_this_before_they_run() -> None:
    lines = []
    for name, make in MADE.items():
        found, whole, others = rewired(make), rewired(make, singly=False), rewired(make, made_for_them=False)
        lines += [name, *found, *(f"  whole: {line.strip()}" for line in whole if line not in found)]
        lines += [
            f"  not of the urls: {line.strip()}" for line in others if line not in found and "'new.tar'" not in line
        ]
    check_text(GOLDEN, "rewired", "\n".join(lines))


def test_pipelines_are_taken_apart_into_these_steps() -> None:
    lines = []
    for name, make in MADE.items():
        try:
            found = take_apart(make(URLS))
        except TypeError as error:
            lines.append(f"{name}: {error}")
            continue
        lines.append(
            f"{name}: {found.endless} {found.breaks} {sorted(found.urls)} {found.workers} {found.by_open_clip}"
        )
        lines += [f"    {step.title} {step.batch}" for step in found.steps]
    check_text(GOLDEN, "taken apart", plainly("\n".join(lines)))


def test_a_copy_of_a_stage_has_its_own_generators() -> None:
    class Drawing:
        def __init__(self) -> None:
            self.random, self.numpy, self.other = random.Random(3), np.random.default_rng(3), [1]

        def __call__(self, source: Any) -> Any:
            self.other.append(2)
            return [self.random.random(), float(self.numpy.random())]

    stage = Drawing()
    call = take_apart([[1], stage]).steps[1].make(lambda error, goes_on: None)
    assert call([1]) == Drawing()([])
    assert stage.random.random() == random.Random(3).random()
    assert stage.other == [1, 2]


def test_results_that_are_no_pipeline_are_refused_with_what_to_return() -> None:
    lines = []
    stream = Holder(URLS)
    for built in (
        None,
        5,
        [],
        [stream],
        [stream, len],
        (stream, Holder(URLS)),
        (stream, 5),
        [stream, len, "x"],
        [5, 6],
    ):
        try:
            check_made(own, built)
        except PipelineError as error:
            lines.append(str(error))
        else:
            lines.append("taken")
    check_text(GOLDEN, "made", "\n".join(lines))


def test_workers_get_these_shards() -> None:
    shards = [ShardEvidence(url, runs=Runs(Run("a", 0, ())), samples=number + 3) for number, url in enumerate(URLS)]
    lines = []
    splits = ([], ["split_by_node"], ["split_by_worker"], ["split_by_node", "split_by_worker"], ["single_node_only"])
    for names, workers, world, source in itertools.product(splits, (0, 3), (1, 3), ("list", "resampled", "")):
        kinds = ("", "endless", "breaks", "checks_empty", "shuffled_apart")
        for kind in kinds if source == "list" and workers + world > 1 else kinds[::4]:
            facts = PipelineFacts(splits=names, workers=workers, source=source, endless=kind in ("endless", "breaks"))
            facts.breaks, facts.checks_empty = kind == "breaks", kind == "checks_empty"
            if kind == "shuffled_apart":
                facts.shuffled_apart, facts.source, facts.shuffled_before = names, "", True
            estimate = Estimate(18, 18, 18)
            leave_room(estimate, facts, shards, world)
            found = judge_split(facts, shards, [], world)
            room = f" {estimate.least} {estimate.doubts}" if estimate != Estimate(18, 18, 18) else ""
            lines.append(
                f"{names} {workers} {world} {source} {kind}{room}: {found.note} | {found.starved} | {found.outcome}"
            )
    check_text(GOLDEN, "split", "\n".join(lines))


def always(value: Any) -> Callable[[list[Any]], Any]:
    return lambda items: value


def test_a_collate_function_is_tried_with_one_item_among_good_ones() -> None:
    def collate(items: list[Any]) -> Any:
        return np.stack([np.zeros(item) for item in items if item is not None])

    lines = []
    noted: list[int] = []
    for size in (1, 2, 4):
        alone = AloneInBatch(collate, size, lambda: noted.append(1))
        for item in (3, None, 4, None):
            try:
                batch: Any = alone([item])
            except ValueError as error:
                lines.append(f"{size} {item}: {type(error).__name__} {len(noted)}")
            else:
                lines.append(f"{size} {item}: {'left out' if batch is LEFT_OUT else batch.shape} {len(noted)}")
    for empty in (None, [], ([], []), {"image": []}, ([], [1]), [0], {"image": 0}, 0, "", ()):
        batch = AloneInBatch(always(empty), 2, lambda: noted.append(1))([3])
        lines.append(f"{empty!r}: {'left out' if batch is LEFT_OUT else 'a batch'} {len(noted)}")
    check_text(GOLDEN, "alone", "\n".join(lines))
