"""Datasets of torch, Hugging Face and Ray as pipelines."""

from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.validate.pipeline.really import differences, jpeg
from tests.validate.pipeline.test_probe_pipeline import write
from wdsflow.validate.check import check
from wdsflow.validate.pipeline import alone_in_batch
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.rewire import PipelineFacts, Rewiring
from wdsflow.validate.tracing.meter import TraceRun
from wdsflow.validate.tracing.pipeline_steps import take_apart
from wdsflow.validate.tracing.trace import observe

HERE = Path(__file__).parent


def test_a_map_style_dataset_gives_its_items_and_is_refused_as_an_object() -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.utils.data.TensorDataset(torch.arange(7))

    made = Rewiring([], made_for_them=True, singly=True)
    assert len(list(made.rewire(numbers))) == 7
    half = torch.utils.data.DataLoader(numbers, sampler=torch.utils.data.SubsetRandomSampler([1, 4, 6]))
    assert sorted(int(item[0]) for item in made.rewire(half).dataset) == [1, 4, 6]
    with pytest.raises(PipelineError, match="name a function of the shards"):
        Rewiring([], made_for_them=False, singly=True).rewire(numbers)


def test_a_dict_of_splits_is_refused_with_their_names() -> None:
    with pytest.raises(PipelineError, match="a dict of 'train', 'test'; return one of them"):
        Rewiring([], made_for_them=True, singly=True).rewire({"train": [], "test": []})


def one_by_one(loader: Any) -> tuple[list[Any], PipelineFacts]:
    rewiring = Rewiring([], made_for_them=True, singly=True)
    chain = take_apart(rewiring.rewire(loader))
    run = TraceRun(len(chain.steps), 1000, 60.0, frozenset())
    assert observe(chain, run, 60.0) in ("pass", "raised")
    return [run.seen[-2].out, type(run.raised[1]).__name__ if run.raised else ""], rewiring.facts


@pytest.mark.parametrize("made", ["loader", "stage"])
def test_what_a_collate_function_leaves_out_of_a_batch_is_no_crash(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch, wds = pytest.importorskip("torch"), pytest.importorskip("webdataset")
    monkeypatch.setattr(alone_in_batch, "_good", [])

    def collate(batch: list[int | None]) -> Any:
        kept = [torch.zeros(3 if number == 9 else 1) for number in batch if number is not None]
        return torch.stack(kept)  # of none, or of different ones, it raises

    def pipeline(numbers: list[int | None]) -> Any:
        if made == "loader":
            return torch.utils.data.DataLoader(numbers, batch_size=4, collate_fn=collate, drop_last=True)
        return wds.DataPipeline(lambda: iter(numbers), wds.batched(4, collation_fn=collate, partial=False))

    came, facts = one_by_one(pipeline([1, None, 3, None, 5]))
    assert came == [3, ""]
    assert facts.collation_drops
    assert [size for size, _, _ in facts.batches] == [4]

    came, facts = one_by_one(pipeline([1, 2, 3]))
    assert (came, facts.collation_drops) == ([3, ""], False)
    monkeypatch.setattr(alone_in_batch, "_good", [])
    assert one_by_one(pipeline([None, 1]))[0] == [0, "RuntimeError"]  # nothing is known that fits into a batch


def test_a_batch_that_holds_nothing_is_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone_in_batch, "_good", [])
    data = pytest.importorskip("torch").utils.data

    for collate in (
        lambda batch: [number for number in batch if number],
        lambda batch: {"number": [number for number in batch if number]},
        lambda batch: batch if batch[0] else None,
    ):
        loader = data.DataLoader([1, 0, 2], batch_size=2, collate_fn=collate)
        assert one_by_one(loader)[0] == [2, ""]


def test_an_item_that_fits_into_no_batch_raises_what_its_batch_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone_in_batch, "_good", [])
    data = pytest.importorskip("torch").utils.data

    def collate(batch: list[str]) -> list[int]:
        return [int(text) for text in batch]

    assert one_by_one(data.DataLoader(["1", "2", "no"], batch_size=2, collate_fn=collate))[0] == [2, "ValueError"]


@pytest.mark.deep
@pytest.mark.parametrize(
    "name",
    [
        *["Pairs", "pairs_loader", "batch_sampler", "streaming", "stored", "stored_loader"],
        *["collated", "collated_whole", "listed", "collated_inside", "unfit"],
    ],
)
def test_the_prediction_for_a_dataset_is_what_really_happens(name: str, tmp_path: Path) -> None:
    assert list(differences(name, range(12), tmp_path, module="dataset_pipelines")) == []


@pytest.mark.deep
def test_the_prediction_for_wids_is_what_really_happens(tmp_path: Path) -> None:
    seeds = range(17, 29)  # none has a name in a PAX header: wids reads only the header after it
    assert list(differences("by_wids", seeds, tmp_path, module="dataset_pipelines")) == []


@pytest.mark.deep
def test_a_ray_dataset_is_read_and_no_process_of_ray_stays(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    url = write(tmp_path / "0.tar", 40, missing=4, picture=jpeg())

    verdict = check(url, [], pipeline=f"{HERE / 'ray_pipelines.py'}:with_caption").verdicts[-1]

    assert (verdict.least or verdict.usable, verdict.usable) == (30, 30)
    left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=30)[1]
    assert not [each for each in left if "raylet" in " ".join(each.cmdline())]
