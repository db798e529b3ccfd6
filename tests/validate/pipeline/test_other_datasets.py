"""Datasets of torch, Hugging Face and Ray as pipelines."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.validate.pipeline.really import differences, jpeg, probing
from tests.validate.pipeline.test_probe_pipeline import write
from wdsflow.validate.pipeline import stand_ins
from wdsflow.validate.pipeline.load_pipeline import PipelineError
from wdsflow.validate.pipeline.probe_process import RunRequest
from wdsflow.validate.pipeline.rewire import PipelineFacts, Rewiring
from wdsflow.validate.pipeline.stand_ins import is_map_style
from wdsflow.validate.run_check import check
from wdsflow.validate.tracing.meter import TraceRun
from wdsflow.validate.tracing.pipeline_steps import take_apart
from wdsflow.validate.tracing.trace import observe, trace

HERE = Path(__file__).parent


def test_a_map_style_dataset_gives_its_items_and_is_refused_as_an_object() -> None:
    torch = pytest.importorskip("torch")
    numbers = torch.utils.data.TensorDataset(torch.arange(7))

    made: Any = Rewiring([], made_for_them=True, singly=True)
    assert len(list(made.rewire(numbers))) == 7
    half = torch.utils.data.DataLoader(numbers, sampler=torch.utils.data.SubsetRandomSampler([1, 4, 6]))
    assert sorted(int(item[0]) for item in made.rewire(half).dataset) == [1, 4, 6]
    with pytest.raises(PipelineError, match="name a function of the shards"):
        Rewiring([], made_for_them=False, singly=True).rewire(numbers)


def test_a_dataset_that_gives_its_items_by_key_is_read_by_its_keys() -> None:
    data = pytest.importorskip("torch").utils.data

    class ByKey(data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 3

        def keys(self) -> list[str]:
            return ["a", "b", "c"]

        def __getitem__(self, key: str) -> str:
            return {"a": "first", "b": "second", "c": "third"}[key]

    class Mapping(ByKey):
        def __iter__(self) -> Any:
            return iter(self.keys())

    for made in (ByKey(), Mapping()):
        rewiring: Any = Rewiring([], made_for_them=True, singly=True)
        assert list(rewiring.rewire(made)) == ["first", "second", "third"]
        loader = data.DataLoader(made, sampler=["c", "a"], batch_size=2)
        assert one_by_one(loader)[0] == [2, ""]
        assert [list(batch) for batch in loader] == [["third", "first"]]  # as torch reads it
        assert trace(loader).delivered == 1
        assert one_by_one(data.DataLoader(made, batch_size=2))[0] == [0, "KeyError"]  # by number, as torch does
    assert one_by_one(data.DataLoader({"x": 1, "y": 2}, sampler=["x", "y"], batch_size=1))[0] == [2, ""]


def test_what_comes_out_twice_of_two_views_on_the_same_shards_counts_twice(tmp_path: Path) -> None:
    url = write(tmp_path / "0.tar", 40, missing=4)

    verdict = check(url, [], pipeline=f"{HERE / 'dataset_pipelines.py'}:views").verdicts[-1]

    assert (verdict.outcome, verdict.least, verdict.usable, verdict.samples) == ("trains", None, 70, 70)
    assert "one sample gives several elements: 70 come out of 40 samples" in verdict.note


@pytest.mark.deep
def test_a_pipeline_that_needs_several_shards_is_judged_by_all_of_them(tmp_path: Path) -> None:
    urls = [write(tmp_path / f"{number}.tar", 10, start=10 * number) for number in range(4)]

    verdict = check(urls, [], pipeline=f"{HERE / 'dataset_pipelines.py'}:halves").verdicts[-1]

    assert (verdict.outcome, verdict.least, verdict.usable, verdict.reasons) == ("trains", None, 40, ())
    with pytest.raises(PipelineError, match="cannot be built"):
        check(urls[:1], [], pipeline=f"{HERE / 'dataset_pipelines.py'}:halves")


def test_a_dict_of_splits_is_refused_with_their_names() -> None:
    with pytest.raises(PipelineError, match="a dict of 'train', 'test'; return one of them"):
        Rewiring([], made_for_them=True, singly=True).rewire({"train": [], "test": []})


def one_by_one(loader: Any) -> tuple[list[Any], PipelineFacts]:
    rewiring = Rewiring([], made_for_them=True, singly=True)
    run = TraceRun(take_apart(rewiring.rewire(loader)), 1000, 60.0)
    assert observe(run).ending in ("pass", "raised")
    return [run.seen[-2].out, type(run.raised[1]).__name__ if run.raised else ""], rewiring.facts


@pytest.mark.parametrize("made", ["loader", "stage"])
def test_what_a_collate_function_leaves_out_of_a_batch_is_no_crash(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch, wds = pytest.importorskip("torch"), pytest.importorskip("webdataset")
    monkeypatch.setattr(stand_ins, "_good", [])

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
    assert [each.size for each in facts.batches] == [4]

    came, facts = one_by_one(pipeline([1, 2, 3]))
    assert (came, facts.collation_drops) == ([3, ""], False)
    monkeypatch.setattr(stand_ins, "_good", [])
    assert one_by_one(pipeline([None, 1]))[0] == [0, "RuntimeError"]  # nothing is known that fits into a batch


def test_a_batch_that_holds_nothing_is_no_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_ins, "_good", [])
    data = pytest.importorskip("torch").utils.data

    for collate in (
        lambda batch: [number for number in batch if number],
        lambda batch: {"number": [number for number in batch if number]},
        lambda batch: batch if batch[0] else None,
    ):
        loader = data.DataLoader([1, 0, 2], batch_size=2, collate_fn=collate)
        assert one_by_one(loader)[0] == [2, ""]


def test_an_item_that_fits_into_no_batch_raises_what_its_batch_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_ins, "_good", [])
    data = pytest.importorskip("torch").utils.data

    def collate(batch: list[str]) -> list[int]:
        return [int(text) for text in batch]

    assert one_by_one(data.DataLoader(["1", "2", "no"], batch_size=2, collate_fn=collate))[0] == [2, "ValueError"]


def test_an_object_with_a_length_that_gives_items_by_number_is_a_dataset() -> None:
    class Numbers:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> int:
            return index

    assert is_map_style(Numbers())
    assert not is_map_style(Numbers)
    assert not is_map_style([1])


def test_that_a_collate_function_dropped_samples_is_known_after_a_run_in_which_it_did_not(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    urls = [
        write(tmp_path / f"{start}.tar", 2, start=start) for start in (3, 0)
    ]  # one caption of 5 characters, and none

    with probing("collated", "dataset_pipelines") as process:
        drops = [process.run(RunRequest((url,))).facts.collation_drops for url in urls]  # type: ignore[union-attr]
        assert drops == [True, False]
        assert process.collation_drops


@pytest.mark.deep
@pytest.mark.parametrize(
    "name",
    [
        *["Pairs", "pairs_loader", "batch_sampler", "streaming", "stored", "stored_loader"],
        *["keyed_loader", "views"],
        *["collated", "collated_whole", "listed", "collated_inside", "unfit"],
    ],
)
def test_the_prediction_for_a_dataset_is_what_really_happens(name: str, tmp_path: Path) -> None:
    assert list(differences(name, range(12), tmp_path, module="dataset_pipelines")) == []


def test_a_file_is_the_script_of_its_process_so_that_ray_gives_its_folder_to_workers(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("")
    (tmp_path / "train.py").write_text("import helper, sys\nfound = sys.argv[0], sys.modules['__main__'].__file__")
    code = (
        "from wdsflow.validate.pipeline.load_pipeline import find; import sys; print(*find(sys.argv[1]), sys.path[0])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, f"{tmp_path}/train.py:found"], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == [f"{tmp_path}/train.py", f"{tmp_path}/train.py", str(tmp_path)]


@pytest.mark.deep
def test_a_ray_dataset_is_read_and_no_process_of_ray_stays(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    url = write(tmp_path / "0.tar", 40, missing=4, picture=jpeg())

    verdict = check(url, [], pipeline=f"{HERE / 'ray_pipelines.py'}:with_caption").verdicts[-1]

    assert (verdict.least or verdict.usable, verdict.usable) == (30, 30)
    left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=30)[1]
    assert not [each for each in left if "raylet" in " ".join(each.cmdline())]
