"""What models took in a run is kept, and shown before the next one."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from tests.filtering.commands import run
from tests.filtering.shards import digests
from tests.printed.pasted import paste
from tests.shards.archives import write_tar
from wdsflow import Recipe, RunOptions, measure_shards
from wdsflow.filtering.score_costs import models_by_digest
from wdsflow.models.model_costs import ModelCost, add_costs, read_costs
from wdsflow.stages.scores import make_score
from wdsflow.stages.scores.model.model_score import ModelScore

WHERE = 'slow_batch(seconds=0.02) > 3 and caption != ""'


def captioned(folder: Path, samples: int = 20) -> str:
    folder.mkdir()
    for shard in range(2):
        write_tar(
            folder / f"{shard}.tar",
            [(f"{number:05d}.txt", b"a caption") for number in range(samples)],
        )
    return str(folder)


def measured(url: str, out: Path, score: str, **options: object) -> list[dict[str, object]]:
    measure_shards(url, out, Recipe(scores=(score,)), RunOptions(device="cpu", **options))
    found: list[dict[str, object]] = json.loads((out / ".wdsflow/costs.json").read_bytes())
    return found


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_run_keeps_what_its_models_took_and_a_resumed_one_adds_to_it(
    tmp_path: Path, jobs: int
) -> None:
    url = captioned(tmp_path / "in")
    (cost,) = measured(f"{url}/0.tar", tmp_path / "out", "slow_batch(seconds=0.01)", jobs=jobs)
    assert (cost["called"], cost["items"]) == ("slow_batch", 20)
    assert 0.2 <= cost["seconds"] < 5
    assert str(cost["where"]).startswith("cpu: ")
    (again,) = measured(f"{url}/0.tar", tmp_path / "out", "slow_batch(seconds=0.01)", jobs=jobs)
    assert again == cost
    both = measured(url, tmp_path / "both", "slow_batch(seconds=0.01)", jobs=jobs)
    assert [each["items"] for each in both] == [40]
    (tmp_path / "both/.wdsflow/ledger/1.parquet").unlink()
    resumed = measured(url, tmp_path / "both", "slow_batch(seconds=0.01)", jobs=jobs)
    assert [each["items"] for each in resumed] == [60]


def test_ledgers_know_nothing_of_time(tmp_path: Path) -> None:
    url = captioned(tmp_path / "in")
    for out in ("one", "two"):
        measured(url, tmp_path / out, "slow_batch(seconds=0)", jobs=0)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[1]",
        b'[{"model": "x", "called": "m", "where": "cpu", "items": "2", "seconds": 1}]',
    ],
)
def test_a_damaged_file_of_costs_has_none(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "costs.json"
    path.write_bytes(damage)

    assert read_costs([path]) == []
    add_costs(path, [ModelCost("x", "m", "cpu", 2, 1.0)])
    assert [cost.items for cost in read_costs([path])] == [2]


def test_explain_says_what_a_model_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    captioned(tmp_path / "in", 3)
    monkeypatch.chdir(tmp_path)
    words = ("filter", "in", "-o", "out", "--explain", "--jobs", "0", "--where", WHERE)
    assert "  slow_batch(seconds=0.02): not measured\n" in run(*words).out
    (tmp_path / "out/.wdsflow").mkdir(parents=True)
    score = make_score("slow_batch", seconds=0.02)
    assert isinstance(score, ModelScore)
    (model,) = models_by_digest(score.models())
    cost = ModelCost(model, "slow_batch", "cpu: a processor", 20, 0.5)
    add_costs(tmp_path / "out/.wdsflow/costs.json", [cost])
    shown = run(*words).out.splitlines()[-1]
    assert shown == (
        "  slow_batch(seconds=0.02): slow_batch 25 ms an input (20 inputs), "
        "on cpu: a processor, measured by the run in out"
    )


@pytest.mark.deep
def test_explain_names_the_commands_that_measure_a_model_and_then_its_cost(tmp_path: Path) -> None:
    captioned(tmp_path / "in")
    first = paste(f"wdsflow filter in --device cpu --explain --where '{WHERE}'", tmp_path)
    assert first.status == 0, first.errors
    *_, heading, score, how, measure, again = first.out.splitlines()
    assert (heading, score) == ("scores by models:", "  slow_batch(seconds=0.02): not measured")
    assert how == "to measure them on one shard:"
    done = paste(measure.strip(), tmp_path)
    assert done.status == 0, done.errors
    second = paste(again.partition(": ")[2], tmp_path)
    assert second.status == 0, second.errors
    last = second.out.splitlines()[-1]
    took = r"slow_batch (2\d|[3-9]\d) ms an input \(20 inputs\), on cpu: .+, measured by the run in trial"
    assert re.fullmatch(rf"  slow_batch\(seconds=0\.02\): {took}", last), last
    other = paste(again.partition(": ")[2].replace("0.02", "0.03"), tmp_path)
    assert "  slow_batch(seconds=0.03): not measured\n" in other.out


def test_explain_says_nothing_of_models_where_there_are_none(tmp_path: Path) -> None:
    captioned(tmp_path / "in", 3)
    done = paste("wdsflow filter in --explain --where 'caption_words > 1'", tmp_path)
    assert done.status == 0
    assert "models" not in done.out
