"""Embeddings in the ledger, as readers find them.

Other scores have nearly the same values when they are computed from them.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("open_clip", reason="OpenCLIP is not installed")

import torch

from tests.filtering.shards import digests, picture
from tests.shards.archives import write_tar
from tests.stages.scores import tiny_models
from wdsflow import JoinOptions, Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.cli.main import main
from wdsflow.filtering.export.export import export
from wdsflow.filtering.ledger.ledger_metadata import LedgerError, read_metadata
from wdsflow.filtering.run_differences import Differs
from wdsflow.models.loaded import LoadedModels
from wdsflow.models.models_at import _models_at
from wdsflow.records.run_folder import Layout, records_in_order
from wdsflow.stages.scores.model.clip.towers import ClipImage, ClipText
from wdsflow.stages.scores.model.pictures.prepare import Prepare
from wdsflow.stages.scores.reference_lists import read_list

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
HERE = RunOptions(jobs=0, device="cpu")
WORDS = ("a red cat", "two dogs.", "a photo", "a drawing of a dog", "not blue")
SAMPLES = 12
COSINE, SHARE = 0.001, 0.03  # what half floats may change at most


@pytest.fixture(scope="module", autouse=True)
def forget_models():
    """Other tests count the models that are loaded."""
    yield
    _models_at.cache_clear()


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return tiny_models.clip(tmp_path_factory.mktemp("clip") / "a")


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    path = tmp_path_factory.mktemp("head") / "head.pth"
    torch.manual_seed(3)
    torch.save({"weight": torch.randn(1, 16), "bias": torch.zeros(1)}, path)
    return str(path)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Write two shards with unusual samples, and return the folder.

    In each, sample 3 has no image that can be decoded, 5 has two captions, and 7 has two images.
    """
    folder = tmp_path_factory.mktemp("in")
    for shard in range(2):
        members: list[tuple[str, bytes]] = []
        for number in range(SAMPLES):
            key, text = f"{shard}{number:02d}", WORDS[number % 5].encode()
            image = picture(40 + number, 50, 20 * shard + number)
            if number == 7:
                members += [(f"{key}.0.jpg", image), (f"{key}.1.jpg", picture(33, 44, 99))]
            else:
                members.append((f"{key}.jpg", image[:40] if number == 3 else image))
            alt = (
                [WORDS[(number + 2) % 5], "is very blue"]
                if number == 5
                else WORDS[(number + 2) % 5]
            )
            members += [(f"{key}.txt", text), (f"{key}.json", json.dumps({"alt": alt}).encode())]
        write_tar(folder / f"{shard}.tar", members)
    return str(folder)


def similarity(clip: str, **more: str) -> str:
    settings = "".join(f', {name}="{value}"' for name, value in more.items())
    return f'clip_similarity(model="{clip}", pretrained=""{settings})'


@pytest.fixture(scope="module")
def scored(source, clip, tmp_path_factory):
    out = tmp_path_factory.mktemp("scored") / "out"
    measure_shards(
        source, out, Recipe(scores=(similarity(clip),), image="jpg", embeddings=True), HERE
    )
    return out


def table(out: Path, shard: int = 0) -> pa.Table:
    return pq.read_table(out / ".wdsflow" / "ledger" / f"{shard}.parquet")


def named(out: Path, beginning: str) -> str:
    (name,) = [
        name
        for name in table(out).column_names
        if name.startswith(beginning) and not name.endswith(" more")
    ]
    return str(name)


class Counted:
    """Counts the images that are prepared and the towers that run."""

    def __init__(self, monkeypatch) -> None:
        self.images = 0
        self.ran: list[str] = []
        prepare, mapped = Prepare.__call__, LoadedModels.map

        def counted_prepare(own: Prepare, data: bytes, budget: int) -> Any:
            self.images += 1
            return prepare(own, data, budget)

        def counted_map(own: LoadedModels, model: Any, items: Any, alone: Any = ()) -> Any:
            self.ran += [model.kind] * len(items)
            return mapped(own, model, items, alone)

        monkeypatch.setattr(Prepare, "__call__", counted_prepare)
        monkeypatch.setattr(LoadedModels, "map", counted_map)


def test_the_ledger_has_the_models_own_embeddings_as_half_floats(scored, clip, source):
    found = table(scored)
    image, caption = named(scored, "image_embedding"), named(scored, "caption_embedding")
    assert image == f'image_embedding(model="{clip}", pretrained="")'
    assert found.schema.field(image).type.value_type == pa.float32()
    first = np.array(found.column(image)[0].as_py(), np.float32)
    assert first.shape == (16,)
    assert np.array_equal(first, first.astype(np.float16).astype(np.float32))
    assert found.column(image)[3].as_py() is None  # it could not be decoded
    texts = ClipText(model=clip, pretrained="")
    loaded = texts.load("cpu")
    with torch.inference_mode():
        expected = texts.run(loaded, list(WORDS))
    for number in (0, 1, 4):
        vector = np.array(found.column(caption)[number].as_py(), np.float32)
        assert np.abs(vector - expected[number % 5]).max() < 5e-4
    cosines = [
        float(np.array(one.as_py(), np.float32) @ np.array(two.as_py(), np.float32))
        if one.is_valid
        else None
        for one, two in zip(found.column(image), found.column(caption), strict=True)
    ]
    (score,) = [name for name in found.column_names if name.startswith("clip_similarity")]
    for number, (cosine, value) in enumerate(
        zip(cosines, found.column(score).to_pylist(), strict=True)
    ):
        if number != 7:  # the mean over two images
            assert value == (None if cosine is None else pytest.approx(cosine, abs=COSINE))


def test_embeddings_of_images_serve_the_captions_of_a_table(
    scored, source, clip, tmp_path, monkeypatch
):
    """Also those of a run with another table, unless samples without a row are left out."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keys = [f"{shard}{number:02d}" for shard in range(2) for number in range(0, SAMPLES, 2)]
    for name in ("a", "b"):
        rows = "".join(f"{key},{name} photo of a red {key}\n" for key in keys)
        (tmp_path / f"{name}.csv").write_text(f"key,caption\n{rows}")
    sets = {"join_set": {"txt": "caption"}}
    a, b = (JoinOptions(join=tmp_path / f"{name}.csv", **sets) for name in ("a", "b"))
    recipe = Recipe(scores=(similarity(clip),), image="jpg", embeddings=True)
    measure_shards(source, tmp_path / "b", recipe, HERE, join=b)
    counted = Counted(monkeypatch)
    measure_shards(source, tmp_path / "a", recipe, HERE, join=a, embeddings_from=scored)
    # One image of each shard cannot be decoded.
    assert counted.images == 2
    assert counted.ran == ["open_clip text"] * len(keys)
    measure_shards(source, tmp_path / "again", recipe, HERE, join=b, embeddings_from=tmp_path / "a")
    assert counted.images == 4
    for shard in range(2):
        found, expected = (
            table(tmp_path / name, shard)
            .column(named(tmp_path / name, "clip_similarity"))
            .to_pylist()
            for name in ("again", "b")
        )
        assert found == [
            None if one is None else pytest.approx(one, abs=COSINE) for one in expected
        ]
    dropping = JoinOptions(join=tmp_path / "a.csv", join_drop_unmatched=True, **sets)
    report = measure_shards(
        source, tmp_path / "c", recipe, HERE, join=dropping, embeddings_from=scored
    )
    assert [failure.kind for failure in report.failures] == ["ledger", "ledger"]
    assert "samples without the fields of the table" in report.failures[0].reason


def test_the_metadata_tells_model_weights_versions_and_preprocessing(scored, clip):
    about = json.loads(table(scored).schema.metadata[b"wdsflow"])
    image, caption = about["embeddings"]
    assert (image["of"], caption["of"], image["size"], image["dtype"]) == (
        "image",
        "caption",
        16,
        "float16",
    )
    assert image["model"] == json.loads(json.dumps(ClipImage(model=clip, pretrained="").identity()))
    assert "xxh3_128" in image["model"]["settings"]["model"]
    assert image["model"]["versions"]["torch"]
    assert image["facts"]["size"] == 32
    assert len(image["facts"]["mean"]) == 3


def test_other_libraries_read_the_ledger_as_it_is(scored):
    path, name = scored / ".wdsflow" / "ledger" / "0.parquet", named(scored, "image_embedding")
    expected = table(scored).column(name)[0].as_py()
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(path)
    assert list(frame[name][0]) == expected
    assert frame[name][0].dtype == np.float32
    assert frame[name][3] is None
    numbers = np.stack(frame[name].dropna())
    assert numbers.shape == (SAMPLES - 1, 16)


def test_readers_without_pyarrow_find_the_same(scored):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    path, name = scored / ".wdsflow" / "ledger" / "0.parquet", named(scored, "image_embedding")
    expected = table(scored).column(name)[0].as_py()
    assert polars.read_parquet(path)[name][0].to_list() == expected
    quoted = name.replace('"', '""')
    assert (
        list(duckdb.sql(f"""select "{quoted}" from '{path}' limit 1""").fetchall()[0][0])
        == expected
    )


@pytest.mark.deep
def test_other_captions_are_scored_without_decoding_an_image(
    scored, clip, source, tmp_path, monkeypatch
):
    recipe = Recipe(scores=(similarity(clip, caption="json:alt"),), image="jpg")
    measure_shards(source, tmp_path / "anew", recipe, HERE)
    counted = Counted(monkeypatch)
    measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=scored)
    assert counted.images == 2  # those that cannot be decoded: nothing is known of them
    # One of 12 has no image, one of them two captions.
    assert counted.ran == ["open_clip text"] * 2 * SAMPLES
    assert close(tmp_path / "out", tmp_path / "anew", COSINE)


def close(one: Path, other: Path, tolerance: float) -> bool:
    """Whether all values of the only score agree, and differ anywhere."""
    same = True
    for shard in range(2):
        found, expected = table(one, shard), table(other, shard)
        (name,) = [
            name
            for name in expected.column_names
            if "(" in name and not name.startswith(("image", "caption"))
        ]
        several = [
            json.loads(each)[name] if each else []
            for each in expected.column("several").to_pylist()
        ]
        others = [
            json.loads(each)[name] if each else [] for each in found.column("several").to_pylist()
        ]
        for left, right in zip(
            [*found.column(name).to_pylist(), *chain(*others)],
            [*expected.column(name).to_pylist(), *chain(*several)],
            strict=True,
        ):
            assert left == (None if right is None else pytest.approx(right, abs=tolerance))
            same = same and left == right
        for each in ("outcome", "failed", "fields"):
            assert found.column(each) == expected.column(each)
    return not same


@pytest.mark.deep
@pytest.mark.parametrize("name", ["zero_shot", "aesthetic", "clip_similarity"])
def test_other_scores_of_the_model_are_computed_from_the_ledger(
    scored, clip, head, source, tmp_path, monkeypatch, name
):
    settings = {
        "zero_shot": ', labels="a cat;two dogs"',
        "aesthetic": f', head="{head}"',
        "clip_similarity": "",
    }[name]
    recipe = Recipe(scores=(f'{name}(model="{clip}", pretrained=""{settings})',), image="jpg")
    measure_shards(source, tmp_path / "anew", recipe, HERE)
    counted = Counted(monkeypatch)
    measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=scored)
    assert counted.images == 2
    assert set(counted.ran) <= {"open_clip labels"}
    length = float(np.linalg.norm(torch.load(head)["weight"].numpy()))
    tolerance = {
        "zero_shot": SHARE,
        "aesthetic": 0.0005 * length + 1e-3,
        "clip_similarity": COSINE,
    }[name]
    differ = close(tmp_path / "out", tmp_path / "anew", tolerance)
    assert differ or name == "zero_shot"  # a random CLIP is sure of its labels


def test_what_half_floats_change_is_bounded():
    chance = np.random.default_rng(5)
    for size in (16, 512, 1024):
        one, two = (
            np.float32(each / np.linalg.norm(each)) for each in chance.standard_normal((2, size))
        )
        for image in (one, np.eye(size, dtype=np.float32)[0] * 0.99 + one * 0.01):
            halved = image.astype(np.float16).astype(np.float32)
            assert np.linalg.norm(halved - image) < COSINE / 2
            assert (
                abs(float(halved @ two.astype(np.float16).astype(np.float32)) - float(image @ two))
                < COSINE
            )


def test_embeddings_that_are_taken_over_are_the_same_bits(scored, clip, source, tmp_path):
    recipe = Recipe(scores=(similarity(clip),), image="jpg", embeddings=True)
    measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=scored)
    for shard in range(2):
        for beginning in ("image_embedding", "caption_embedding"):
            for more in ("", " more"):
                name = f"{named(scored, beginning)}{more}"
                assert table(tmp_path / "out", shard).column(name) == table(scored, shard).column(
                    name
                )
        assert table(tmp_path / "out", shard).column("embedded") == table(scored, shard).column(
            "embedded"
        )


def test_further_images_and_captions_lie_in_a_column_beside_them(scored, clip, source, tmp_path):
    found = table(scored)
    image = named(scored, "image_embedding")
    (more,) = found.column(f"{image} more")[7].as_py()
    assert len(more) == 16
    assert found.column(f"{image} more").null_count == SAMPLES - 1
    keys = json.loads(found.column("embedded")[7].as_py())
    assert keys[image] == ["0.jpg", "1.jpg"]
    recipe = Recipe(
        scores=(similarity(clip, caption="json:alt", flip="both"),), image="jpg", embeddings=True
    )
    measure_shards(source, tmp_path / "out", recipe, HERE)
    name = f'caption_embedding(caption="json:alt", model="{clip}", pretrained="")'
    assert len(table(tmp_path / "out").column(f"{name} more")[5].as_py()) == 1
    flipped = f'image_embedding(flip="both", model="{clip}", pretrained="")'
    assert table(tmp_path / "out").column(flipped)[0].as_py() != found.column(image)[0].as_py()
    assert json.loads(table(tmp_path / "out").column("embedded")[0].as_py())[flipped] == [
        "jpg/both"
    ]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("setting", "ran"),
    [
        ({"flip": "both"}, ["open_clip image"]),
        ({"decode": "exact"}, ["open_clip image"]),
        ({"processor": "hf"}, ["open_clip image", "open_clip text"]),
    ],
)
def test_an_embedding_of_something_else_is_not_taken(
    scored, clip, source, tmp_path, monkeypatch, setting, ran
):
    counted = Counted(monkeypatch)
    recipe = Recipe(scores=(similarity(clip, **setting),), image="jpg", embeddings=True)
    measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=scored)
    assert sorted(set(counted.ran)) == ran
    ((name, value),) = setting.items()
    for tower in ran:
        assert counted.ran.count(tower) >= 2 * (SAMPLES - 1)
        column = named(tmp_path / "out", f"{tower.split()[1].replace('text', 'caption')}_embedding")
        assert f'{name}="{value}"' in column


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda entry: entry["model"]["versions"].update(torch="1.0"),
            'versions.torch: "1.0" is now',
        ),
        (
            lambda entry: entry["model"]["settings"].update(precision="fp16"),
            'precision: "fp16" is now "fp32"',
        ),
        (lambda entry: entry["model"]["settings"].update(pretrained="xxh3_128 1"), "pretrained"),
    ],
)
def test_embeddings_of_another_model_or_version_are_named_and_not_used(
    scored, clip, source, tmp_path, change, message
):
    other = tmp_path / "other"
    shutil.copytree(scored, other)
    for shard in range(2):
        rewrite(other, shard, lambda about: [change(entry) for entry in about["embeddings"]])
    recipe = Recipe(scores=(similarity(clip),), image="jpg")
    with pytest.raises(ValueError, match="none of the open_clip image") as refused:
        measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=other)
    assert message in str(refused.value)
    assert not (tmp_path / "out").exists()


def rewrite(out: Path, shard: int, change: Any) -> None:
    found, path = table(out, shard), out / ".wdsflow" / "ledger" / f"{shard}.parquet"
    about = json.loads(found.schema.metadata[b"wdsflow"])
    change(about)
    pq.write_table(found.replace_schema_metadata({"wdsflow": json.dumps(about)}), path)


@pytest.mark.deep
def test_where_only_captions_are_of_another_version_they_are_computed_and_that_is_told(
    scored, clip, source, tmp_path, monkeypatch
):
    other, told = tmp_path / "other", []
    shutil.copytree(scored, other)
    for shard in range(2):
        rewrite(
            other,
            shard,
            lambda about: about["embeddings"][1]["model"]["versions"].update(transformers="1"),
        )
    counted = Counted(monkeypatch)
    options = RunOptions(jobs=0, device="cpu", say=told.append)
    measure_shards(
        source,
        tmp_path / "out",
        Recipe(scores=(similarity(clip),), image="jpg"),
        options,
        embeddings_from=other,
    )
    assert set(counted.ran) == {"open_clip text"}
    assert counted.images == 2
    assert len(told) == 1
    assert 'versions.transformers: "1" is now' in told[0]
    assert told[0].endswith("computed again")


@pytest.mark.deep
def test_a_ledger_that_differs_from_the_first_is_told_of_its_shard(scored, clip, source, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(scored, other)
    rewrite(other, 1, lambda about: about.update(embeddings=[]))
    report = measure_shards(
        source,
        tmp_path / "out",
        Recipe(scores=(similarity(clip),), image="jpg"),
        HERE,
        embeddings_from=other,
    )
    assert [failure.name for failure in report.failures] == ["1.tar"]
    assert "no embeddings" in report.failures[0].reason
    shutil.copytree(scored, tmp_path / "half")
    rewrite(
        tmp_path / "half",
        1,
        lambda about: about["embeddings"][1]["model"]["versions"].update(torch="1"),
    )
    recipe = Recipe(scores=(similarity(clip),), image="jpg")
    report = measure_shards(
        source, tmp_path / "again", recipe, HERE, embeddings_from=tmp_path / "half"
    )
    assert 'versions.torch: "1" is now' in report.failures[0].reason


def test_a_shard_that_has_changed_and_other_stages_are_refused(scored, clip, source, tmp_path):
    copy = tmp_path / "in"
    shutil.copytree(source, copy)
    write_tar(copy / "1.tar", [("x.jpg", picture(40, 40)), ("x.txt", b"a cat")])
    recipe = Recipe(scores=(similarity(clip),), image="jpg")
    report = measure_shards(str(copy), tmp_path / "out", recipe, HERE, embeddings_from=scored)
    assert "has changed since" in report.failures[0].reason
    assert len(report.failures) == 1
    from wdsflow.stages import CleanText

    staged = Recipe(scores=(similarity(clip),), image="jpg", stages=(CleanText(),))
    with pytest.raises(ValueError, match="other stages"):
        measure_shards(source, tmp_path / "staged", staged, HERE, embeddings_from=scored)


def test_without_a_clip_or_without_embeddings_it_is_refused(scored, clip, source, tmp_path):
    with pytest.raises(ValueError, match="add clip_similarity"):
        measure_shards(
            source, tmp_path / "out", Recipe(scores=("min_side",), embeddings=True), HERE
        )
    with pytest.raises(ValueError, match="the recipe has none"):
        measure_shards(
            source, tmp_path / "out", Recipe(scores=("min_side",)), HERE, embeddings_from=scored
        )
    measure_shards(source, tmp_path / "plain", Recipe(scores=("min_side",)), HERE)
    recipe = Recipe(scores=(similarity(clip),), image="jpg")
    with pytest.raises(ValueError, match="measure with --embeddings first"):
        measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=tmp_path / "plain")
    with pytest.raises(ValueError, match="cannot be both --embeddings-from and -o"):
        measure_shards(source, scored, recipe, HERE, embeddings_from=scored)


@pytest.mark.deep
def test_two_passes_and_a_cut_carry_the_embeddings_along(scored, clip, source, tmp_path):
    where = f"{similarity(clip)} > -2 and not duplicate"
    recipe = Recipe(where=where, image="jpg", embeddings=True)
    filter_shards(source, tmp_path / "two", recipe, HERE)
    name = named(scored, "image_embedding")
    for shard in range(2):
        assert table(tmp_path / "two", shard).column(name) == table(scored, shard).column(name)
    filter_shards(
        source,
        tmp_path / "cut",
        Recipe(where=f"{similarity(clip)} > 0"),
        HERE,
        ledger=tmp_path / "two",
    )
    assert name not in table(tmp_path / "cut").column_names
    kept = Recipe(where=f"{similarity(clip)} > 0", embeddings=True)
    filter_shards(source, tmp_path / "kept", kept, HERE, ledger=tmp_path / "two")
    assert table(tmp_path / "kept").column(name) == table(scored).column(name)


@pytest.mark.deep
def test_what_is_not_needed_is_not_computed_and_null(scored, clip, source, tmp_path):
    recipe = Recipe(
        where=f"min_side >= 45 and {similarity(clip)} > -2", image="jpg", embeddings=True
    )
    filter_shards(source, tmp_path / "out", recipe, HERE)
    found = table(tmp_path / "out")
    name = named(tmp_path / "out", "image_embedding")
    valid = {
        (row["outcome"], vector.is_valid)
        for row, vector in zip(found.to_pylist(), found.column(name), strict=True)
    }
    assert valid == {("kept", True), ("dropped", False), ("quarantined", False)}


@pytest.mark.deep
def test_workers_give_the_same_bytes_and_what_is_gone_is_made_again(clip, source, scored, tmp_path):
    recipe = Recipe(scores=(similarity(clip),), image="jpg", embeddings=True)
    measure_shards(source, tmp_path / "out", recipe, RunOptions(jobs=2, device="cpu"))
    expected = {name: each for name, each in digests(scored).items() if name.endswith(".parquet")}
    found = digests(tmp_path / "out")
    assert {name: found[name] for name in expected} == expected
    (tmp_path / "out" / ".wdsflow" / "ledger" / "1.parquet").unlink()
    assert measure_shards(source, tmp_path / "out", recipe, HERE).resumed == 1
    assert {name: digests(tmp_path / "out")[name] for name in expected} == expected


@pytest.mark.deep
def test_another_ledger_or_none_makes_a_shard_anew(clip, source, scored, tmp_path):
    recipe = Recipe(scores=(similarity(clip, caption="json:alt"),), image="jpg")
    measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=scored)
    assert (
        measure_shards(source, tmp_path / "out", recipe, HERE, embeddings_from=scored).resumed == 2
    )
    again = measure_shards(source, tmp_path / "out", recipe, HERE)
    assert again.resumed == 0
    assert len(again.changed) == 2
    with pytest.raises(Exception, match="embeddings"):
        measure_shards(
            source,
            tmp_path / "out",
            Recipe(scores=recipe.scores, image="jpg", embeddings=True),
            HERE,
        )


@pytest.mark.deep
def test_groups_of_rows_are_read_where_a_shard_has_several(
    clip, source, scored, tmp_path, monkeypatch
):
    recipe = Recipe(scores=(similarity(clip),), image="jpg", embeddings=True)
    shutil.copytree(scored, tmp_path / "one")
    path = tmp_path / "one" / ".wdsflow" / "ledger" / "1.parquet"
    # DuckDB writes groups of at least 2,048 rows.
    pq.write_table(pq.read_table(path), path, row_group_size=5)
    assert pq.ParquetFile(path).num_row_groups == 3
    counted = Counted(monkeypatch)
    measure_shards(source, tmp_path / "two", recipe, HERE, embeddings_from=tmp_path / "one")
    assert counted.images == 2
    name = named(scored, "image_embedding")
    assert (
        table(tmp_path / "two", 1).column(name).to_pylist()
        == table(scored, 1).column(name).to_pylist()
    )


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def test_the_command_keeps_embeddings_and_takes_them(clip, source, tmp_path, capsys):
    common = ("--image", "jpg", "--jobs", 0, "--device", "cpu")
    assert (
        run(
            "measure",
            source,
            "-o",
            tmp_path / "a",
            "--scores",
            similarity(clip),
            "--embeddings",
            *common,
        )
        == 0
    )
    where = f"{similarity(clip, caption='json:alt')} > -2"
    assert (
        run(
            "filter",
            source,
            "-o",
            tmp_path / "b",
            "--where",
            where,
            "--embeddings-from",
            tmp_path / "a",
            *common,
        )
        == 0
    )
    assert named(tmp_path / "a", "image_embedding")
    assert "kept" in capsys.readouterr().out


def test_kept_embeddings_are_exported_as_a_matrix_with_keys(clip, source, scored, tmp_path, capsys):
    common = ("--image", "jpg", "--jobs", 0, "--device", "cpu", "--embeddings")
    where = f"{similarity(clip)} > 0"
    lists = [
        word
        for name in ("image", "caption")
        for word in ("--export", tmp_path / f"my_{name}_embeddings.npy")
    ]
    assert run("filter", source, "-o", tmp_path / "out", "--where", where, *common, *lists) == 0
    keys = (tmp_path / "my_image_embeddings.txt").read_text().split()
    kept = [
        row
        for shard in range(2)
        for row in table(tmp_path / "out", shard).to_pylist()
        if row["outcome"] == "kept"
    ]
    assert keys == [row["key"] for row in kept]
    assert 0 < len(keys) < 2 * SAMPLES
    for name in ("image", "caption"):
        found = np.load(tmp_path / f"my_{name}_embeddings.npy")
        assert found.dtype == np.float16
        column = named(scored, f"{name}_embedding")
        assert found.tolist() == [row[column] for row in kept]
    assert (
        f"{len(keys)} samples listed in {tmp_path / 'my_image_embeddings.npy'}"
        in capsys.readouterr().out
    )


def test_embeddings_of_all_images_are_exported_as_a_list_for_near(scored, tmp_path):
    layout = Layout(scored)
    records = records_in_order(layout)
    column = named(scored, "image_embedding")
    count = export(layout, records, tmp_path / "my_embeddings.npz")
    found = read_list("embedding_distance", str(tmp_path / "my_embeddings.npz"))
    vectors = [
        row[column]
        for shard in range(2)
        for row in table(scored, shard).to_pylist()
        if row[column] is not None
    ]
    assert (found.kind, count) == ("embeddings", len(vectors))
    lengths = np.linalg.norm(np.array(vectors, np.float32), axis=1, keepdims=True)
    np.testing.assert_allclose(found.values, np.array(vectors, np.float32) / lengths, rtol=1e-6)
    entry = next(
        entry
        for entry in read_metadata(layout.ledger(records[0].name))["embeddings"]
        if entry["column"] == column
    )
    assert (found.metadata["model"], found.metadata["settings"]) == (
        entry["model"],
        entry["settings"],
    )


def test_lists_of_embeddings_that_cannot_be_are_refused(clip, tmp_path):
    members = [("a\nb.jpg", picture(40, 50)), ("a\nb.txt", b"a red cat")]
    write_tar(tmp_path / "0.tar", members)
    write_tar(tmp_path / "none.tar", [("a.jpg", b"no image"), ("a.txt", b"a red cat")])
    recipe = Recipe(scores=(similarity(clip),), image="jpg", embeddings=True)
    for name, kind, message in (
        (
            "0.tar",
            "image_embeddings.npy",
            "keys with line breaks cannot be listed in the .txt next to {path}",
        ),
        (
            "none.tar",
            "embeddings.npz",
            "no kept sample has an image that can be read: the list would be empty",
        ),
    ):
        out = tmp_path / name.partition(".")[0]
        measure_shards(str(tmp_path / name), out, recipe, HERE)
        layout = Layout(out)
        path = tmp_path / kind
        with pytest.raises(ValueError) as refused:
            export(layout, records_in_order(layout), path)
        assert str(refused.value) == message.format(path=path)
    measure_shards(str(tmp_path / "0.tar"), tmp_path / "plain", Recipe(scores=("width",)), HERE)
    layout = Layout(tmp_path / "plain")
    with pytest.raises(LedgerError) as lacking:
        export(layout, records_in_order(layout), tmp_path / "caption_embeddings.npy")
    assert str(lacking.value) == (
        f"the ledgers in {tmp_path}/plain have no embeddings of captions: filter with --embeddings"
    )
    assert not list(tmp_path.glob("*.np*"))


@pytest.mark.deep
def test_embeddings_that_are_not_there_cannot_be_exported(clip, source, tmp_path, capsys):
    common = (
        "--image",
        "jpg",
        "--jobs",
        0,
        "--device",
        "cpu",
        "--export",
        tmp_path / "image_embeddings.npy",
    )
    assert run("filter", source, "-o", tmp_path / "none", "--where", "min_side > 1", *common) == 2
    assert "--embeddings" in capsys.readouterr().err
    both = f"{similarity(clip)} > -2 and {similarity(clip, flip='both')} > -2"
    assert (
        run("filter", source, "-o", tmp_path / "two", "--where", both, "--embeddings", *common) == 2
    )
    assert "several embeddings of images" in capsys.readouterr().err
    assert not (tmp_path / "image_embeddings.npy").exists()


DECODER = """
import json, sys
from pathlib import Path
from wdsflow.filtering.ledger.embeddings import reuse_of, stored_embeddings
from wdsflow.filtering.ledger.embedding_lookup import ShardEmbeddings
from wdsflow.shards.shard_identity import input_identity
from wdsflow.shards.source.base import single_shard
from wdsflow.filtering.deciding.plan import FilterPlan
from wdsflow.filtering.recipe.recipe import Recipe
from wdsflow.records.run_folder import ShardRecord
from wdsflow.filtering.ledger.sample_table import LedgerRow
from wdsflow.stages.scores.sample_view import View

ledger, shard, image, *scores = sys.argv[1:]
plan = FilterPlan(Recipe(scores=tuple(scores), image="jpg"))
reuse = reuse_of(ledger, ["0.tar"], plan.models, ())
record = ShardRecord(0, shard, "0.tar", "", input_identity(single_shard(shard)))
with ShardEmbeddings(stored=stored_embeddings(plan.models, (), record, reuse)) as embeddings:
    view = View({"jpg": Path(image).read_bytes(), "txt": b"a red cat"})
    requests = [request for score in plan.scores.values() for request in score.requests(view)]
    found = [embeddings.find(LedgerRow(0, "000", 0, 0), request) for request in requests]
    other = View({"jpg": b"", "txt": b"a caption that no sample has"})
    (_, text) = plan.scores[next(iter(plan.scores))].requests(other)
    assert embeddings.find(LedgerRow(0, "000", 0, 0), text) is None
    tokens = text.make()
heavy = {"torch", "open_clip", "transformers"} & set(sys.modules)
print(json.dumps([[each is not None for each in found], len(tokens), sorted(heavy)]))
"""


@pytest.mark.usefixtures("new_interpreters")
def test_a_decoder_finds_embeddings_without_importing_what_models_need(
    scored, clip, source, tmp_path
):
    (tmp_path / "image").write_bytes(b"not looked at")
    scores = [similarity(clip), f'zero_shot(model="{clip}", pretrained="", labels="a;b")']
    words = [
        sys.executable,
        "-c",
        DECODER,
        str(scored),
        f"{source}/0.tar",
        str(tmp_path / "image"),
        *scores,
    ]
    root = Path(__file__).resolve().parent.parent.parent
    path = os.pathsep.join((str(root), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True
    )
    # Those of labels are computed.
    assert json.loads(done.stdout) == [
        [True, True, False, True],
        8,
        [],
    ]


@pytest.mark.deep
def test_workers_take_embeddings_from_the_ledger_and_load_what_is_missing(
    scored, clip, source, tmp_path
):
    recipe = Recipe(
        scores=(similarity(clip, caption="json:alt"), similarity(clip, flip="both")), image="jpg"
    )
    measure_shards(source, tmp_path / "here", recipe, HERE, embeddings_from=scored)
    measure_shards(
        source, tmp_path / "out", recipe, RunOptions(jobs=1, device="cpu"), embeddings_from=scored
    )
    for shard in range(2):
        found, expected = table(tmp_path / "out", shard), table(tmp_path / "here", shard)
        assert found.to_pylist() == expected.to_pylist()
        assert found.column("failed").null_count == SAMPLES - 1


def numbers(table, name: str):
    """Return all numbers of a column, also of lists of vectors, in order."""
    values = table.column(name).combine_chunks()
    while pa.types.is_list(values.type):
        values = values.flatten()
    return values.drop_null().to_numpy(zero_copy_only=False)


@pytest.mark.deep
def test_a_ledger_that_gets_more_scores_keeps_its_embeddings_and_uses_them(
    scored, clip, head, source, tmp_path, monkeypatch
):
    first, words = similarity(clip), "caption_words"
    more = f'aesthetic(model="{clip}", pretrained="", head="{head}")'
    shutil.copytree(scored, tmp_path / "grown")
    recipe = Recipe(image="jpg", embeddings=True)
    for scores, ran in (
        ((words,), set()),
        ((similarity(clip, caption="json:alt"), more), {"open_clip text"}),
    ):
        counted = Counted(monkeypatch)
        report = measure_shards(source, tmp_path / "grown", replace(recipe, scores=scores), HERE)
        assert (set(counted.ran) - {"aesthetic"}, report.changed, report.whole) == (ran, [], True)
    whole = replace(recipe, scores=(first, words, similarity(clip, caption="json:alt"), more))
    measure_shards(source, tmp_path / "whole", whole, HERE)
    for shard in range(2):
        grown, at_once = table(tmp_path / "grown", shard), table(tmp_path / "whole", shard)
        kept = [name for name in table(scored).column_names if "_embedding(" in name]
        assert len(kept) == 4
        assert grown.select(kept).equals(table(scored, shard).select(kept))
        assert grown.column_names == at_once.column_names
        assert grown.select(["embedded", words]).equals(at_once.select(["embedded", words]))
        # Some processors round differently in batches of another size: by one step of a half float.
        for name in (*kept, first):
            np.testing.assert_allclose(
                numbers(grown, name), numbers(at_once, name), rtol=2e-3, atol=1e-4
            )


@pytest.mark.deep
def test_the_record_says_the_precision_that_was_used_and_another_is_refused(clip, source, tmp_path):
    out, text = tmp_path / "out", similarity(clip)
    half, column = (
        Recipe(scores=(text,), image="jpg", precision="bf16"),
        Recipe(scores=(text,)).scores[0],
    )
    measure_shards(source, out, half, HERE)
    scores = json.loads((out / ".wdsflow" / "run.json").read_text())["scores"]
    ((_, identity),) = scores.items()
    assert identity["settings"]["precision"] == "bf16"
    assert {model["settings"]["precision"] for model in identity["models"]} == {"bf16"}
    plain = replace(half, precision="auto")  # fp32 on a CPU
    with pytest.raises(
        Differs, match=r"holds a measurement with --precision bf16; this run has --precision fp32$"
    ):
        measure_shards(source, out, plain, HERE)
    assert measure_shards(source, out, half, HERE).resumed == 2
    # Without a model nothing depends on it.
    more = replace(half, scores=("caption_words",), precision="bf16")
    assert measure_shards(source, out, more, HERE).resumed == 0
    cut = filter_shards(
        source, tmp_path / "cut", Recipe(where=f"{column} > -2", image="jpg"), HERE, ledger=out
    )
    assert cut.total("kept") > 0
    recorded = json.loads((tmp_path / "cut" / ".wdsflow" / "run.json").read_text())
    ((_, identity),) = recorded["scores"].items()
    assert identity["settings"]["precision"] == "bf16"
    measure_shards(source, tmp_path / "fp32", plain, HERE)
    found = json.loads((tmp_path / "fp32" / ".wdsflow" / "run.json").read_text())
    assert "precision" not in found["recipe"]
    ((_, identity),) = found["scores"].items()
    assert identity["settings"]["precision"] == "fp32"
