"""The scores of a sample do not depend on its neighbours.

Varies windows, batches, order, and what else is computed.
"""

import random

import pyarrow.parquet as pq
import pytest

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")
pytest.importorskip("transformers", minversion="5", reason="transformers is not installed")

from tests.pictures import encoded, photo
from tests.shards.archives import write_tar
from tests.stages.scores import tiny_models
from wdsflow import Recipe, RunOptions, measure_shards
from wdsflow.filtering.deciding import model_outputs as modelled
from wdsflow.memory.batching import runner

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SAMPLES = 24
TOLERANCE = {  # as the scores state it: absolute, and as a part of the value
    "clip_similarity": (2e-5, 0),
    "zero_shot": (2e-4, 0),
    "classify": (2e-5, 0),
    "image_text_match": (2e-5, 0),
    "text_classify": (2e-5, 0),
    "caption_perplexity": (0, 2e-4),
}


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    """Scores as they are written in a predicate."""
    root = tmp_path_factory.mktemp("models")
    clip = f"model='{tiny_models.clip(root / 'clip')}', pretrained=''"
    return (
        f"clip_similarity({clip})",
        f"zero_shot({clip}, labels='a cat;a dog;two')",
        f"classify(model='{tiny_models.image_classifier(root / 'image')}', label='nsfw')",
        f"image_text_match(model='{tiny_models.matcher(root / 'match')}')",
        f"text_classify(model='{tiny_models.text_classifier(root / 'text')}', label='odd')",
        f"caption_perplexity(model='{tiny_models.language_model(root / 'language')}')",
    )


def samples():
    chance = random.Random(4)
    words = tiny_models.WORDS
    return [
        (
            f"{number:03d}",
            encoded(
                photo(chance.randint(20, 120), chance.randint(20, 120), number % 7),
                ("PNG", "JPEG")[number % 2],
            ),
            " ".join(
                chance.choice(words) for _ in range(chance.choice((1, 2, 5, 12, 40)))
            ).encode(),
        )
        for number in range(SAMPLES)
    ]


def ledger(folder, name, some, scores):
    fields = [
        (key, field, data)
        for key, image, text in some
        for field, data in (("jpg", image), ("txt", text))
    ]
    write_tar(folder / f"{name}.tar", [(f"{key}.{field}", data) for key, field, data in fields])
    measure_shards(
        str(folder / f"{name}.tar"),
        folder / name,
        Recipe(scores=scores),
        RunOptions(jobs=0, device="cpu"),
    )
    rows = pq.read_table(folder / name / f".wdsflow/ledger/{name}.parquet").to_pylist()
    return {row["key"]: {column: row[column] for column in row if "(" in column} for row in rows}


@pytest.mark.deep
def test_values_are_the_same_whatever_is_computed_beside_them(scores, tmp_path, monkeypatch):
    every = samples()
    expected = ledger(tmp_path, "whole", every, scores)
    assert len(expected) == SAMPLES
    found = [ledger(tmp_path, "backwards", every[::-1], scores)]
    found += [ledger(tmp_path, f"alone{at}", [every[at]], scores) for at in (0, 7)]
    found.append(ledger(tmp_path, "one", every, scores[5:]))
    monkeypatch.setattr(modelled, "_MOST_SAMPLES", 5)
    found.append(ledger(tmp_path, "windows", every, scores))
    monkeypatch.setattr(runner.BatchRunner.__init__, "__kwdefaults__", {
        **runner.BatchRunner.__init__.__kwdefaults__, "most_items": 3, "waste": None
    })  # fmt: skip
    found.append(ledger(tmp_path, "batches", every, scores))
    seen = set()
    for each in found:
        for key, values in each.items():
            for column, value in values.items():
                name = column.partition("(")[0]
                part, share = TOLERANCE[name]
                assert value == pytest.approx(
                    expected[key][column], abs=part or 1e-12, rel=share or 1e-12
                ), column
                seen.add(name)
    assert seen == set(TOLERANCE)
    for column in expected["000"]:
        assert len({values[column] for values in expected.values()}) > 2
