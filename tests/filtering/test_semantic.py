"""Semantic duplicates, odd sizes, and lists of images to avoid.

They work in ``measure``, ``filter`` and ``cut``.
"""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.filtering.commands import run
from tests.filtering.shards import digests
from tests.pictures import encoded, photo, smooth
from tests.shards.archives import Entry, names, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.recipe.recipe import canonical_recipe
from wdsflow.stages.scores.reference_lists import bytes_of_list

# Processes that it starts import PyTorch.

HERE = RunOptions(jobs=0, device="cpu")


def write(folder: Path, pictures: list[bytes | None], each: int = 10) -> str:
    folder.mkdir()
    for shard, start in enumerate(range(0, len(pictures), each)):
        entries: list[Entry] = []
        for number, data in enumerate(pictures[start : start + each], start):
            entries += [(f"{number:04d}.jpg", data)] if data is not None else []
            entries.append((f"{number:04d}.txt", b"a picture"))
        write_tar(folder / f"{shard}.tar", entries)
    return str(folder)


def keys(folder: Path) -> set[int]:
    return {int(name[:4]) for path in folder.glob("*.tar") for name in names(path)}


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    pytest.importorskip("open_clip", reason="OpenCLIP is not installed")
    from tests.stages.scores import tiny_models
    from wdsflow.models.models_at import _models_at

    yield tiny_models.clip(tmp_path_factory.mktemp("clip") / "a")
    _models_at.cache_clear()  # other tests count the models that are loaded


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Write twenty-four pictures, and a sample without an image.

    Pictures 20 to 23 are 0 to 3 again, with a comment: a model of random weights recognises only
    the same pixels.
    """
    pictures: list[bytes | None] = [
        encoded(smooth(96, 72, seed), "JPEG", quality=95) for seed in range(20)
    ]
    pictures += [
        encoded(smooth(96, 72, seed), "JPEG", quality=95, comment=b"again") for seed in range(4)
    ]
    return write(tmp_path_factory.mktemp("in") / "in", [*pictures, None])


@pytest.mark.parametrize(
    "keep",
    [
        "hardest",
        pytest.param("first", marks=pytest.mark.deep),
        pytest.param("easiest", marks=pytest.mark.deep),
    ],
)
def test_of_images_that_mean_the_same_one_stays(pairs, clip, tmp_path, keep):
    call = f"semantic_duplicate(model={clip!r}, pretrained='', eps=0.03, keep={keep!r})"
    filter_shards(pairs, tmp_path / "out", Recipe(where=f"not {call}", unknown="keep"), HERE)
    kept = keys(tmp_path / "out")
    gone = set(range(25)) - kept
    assert len(gone) == 4
    assert {number % 20 for number in gone} == {0, 1, 2, 3}
    assert 24 in kept
    if keep == "first":
        assert gone == {20, 21, 22, 23}


def test_embeddings_that_are_stored_are_used_and_a_cut_gives_the_same(
    pairs, clip, tmp_path, monkeypatch
):
    of = f"model={clip!r}, pretrained=''"
    call = f"semantic_duplicate({of}, eps=0.03)"
    filter_shards(pairs, tmp_path / "whole", Recipe(where=f"not {call}", unknown="drop"), HERE)
    stored = Recipe(scores=(f"clip_similarity({of})",), embeddings=True)
    measure_shards(pairs, tmp_path / "scored", stored, HERE)

    def never(*_: object) -> None:
        raise AssertionError("an image was given to the model again")

    monkeypatch.setattr("wdsflow.stages.scores.model.clip.towers.ClipImage.run", never)
    measure_shards(pairs, tmp_path / "scored", Recipe(scores=(call,), embeddings=True), HERE)
    filter_shards(
        pairs,
        tmp_path / "cut",
        Recipe(where=f"not {call}", unknown="drop"),
        HERE,
        ledger=tmp_path / "scored",
    )
    again = Recipe(where=f"not semantic_duplicate({of}, eps=0.9, keep='easiest')", unknown="drop")
    filter_shards(pairs, tmp_path / "one", again, HERE, ledger=tmp_path / "scored")
    assert keys(tmp_path / "cut") == keys(tmp_path / "whole")
    assert 1 <= len(keys(tmp_path / "one")) <= 5


@pytest.mark.deep
def test_only_samples_that_stay_are_given_to_the_model(pairs, clip, tmp_path):
    call = (
        f"semantic_duplicate(model={clip!r}, pretrained='', eps=0.03, keep='first', among='kept')"
    )
    report = filter_shards(
        pairs, tmp_path / "out", Recipe(where=f"key >= '0004' and not {call}", unknown="keep"), HERE
    )
    assert keys(tmp_path / "out") == set(range(4, 25))
    assert report.total("kept") == 21


@pytest.mark.deep
def test_workers_change_no_byte(pairs, clip, tmp_path):
    recipe = Recipe(
        where=f"not semantic_duplicate(model={clip!r}, pretrained='', eps=0.03)", unknown="keep"
    )
    filter_shards(pairs, tmp_path / "one", recipe, HERE)
    filter_shards(pairs, tmp_path / "two", recipe, RunOptions(jobs=2, device="cpu"))
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_less_memory_gives_fewer_centroids_and_the_same_pairs(tmp_path):
    from wdsflow.stages.scores.comparing.centroids import centroids_of
    from wdsflow.stages.scores.comparing.similar_vectors import duplicates
    from wdsflow.stages.scores.comparing.vector_file import VectorFile, pack_vectors

    rng = np.random.default_rng(3)
    centres = rng.normal(size=(30, 16))
    vectors = (centres[rng.integers(0, 30, 12_000)] + 0.3 * rng.normal(size=(12_000, 16))).astype(
        np.float32
    )
    vectors[6000:6050] = vectors[:50]
    order = rng.permutation(len(vectors)).tolist()
    file = VectorFile(
        tmp_path / "vectors", ((0, number, pack_vectors([vectors[number]])) for number in order)
    )
    assert len(centroids_of(file, 1 << 28)) == 109
    assert len(centroids_of(file, 1 << 13)) == 42
    for memory in (1 << 28, 1 << 13):
        found = {place for place, near in duplicates(file, 1e-5, "first", memory) if near.any()}
        assert found == set(range(6000, 6050))


def test_an_embedding_that_is_no_number_is_no_value(clip):
    from wdsflow.stages.scores import ScoreError, View, make_score
    from wdsflow.stages.scores.base import ModelDatasetScore

    score = make_score("semantic_duplicate", model=clip, pretrained="")
    assert isinstance(score, ModelDatasetScore)
    with pytest.raises(ScoreError, match="not-finite"):
        score.record(View({}), [np.array([np.nan, 1], np.float32)])


def test_a_list_of_pictures_removes_their_copies_and_nothing_else(tmp_path):
    own = [smooth(200 + seed, 150, seed) for seed in range(30)]
    planted = [own[3].resize((120, 90)), own[17].resize((300, 225)), own[29]]
    copies = [encoded(image, "JPEG", quality=80) for image in planted]
    reference = write(
        tmp_path / "reference", [encoded(own[number], "JPEG") for number in (3, 17, 29, 5, 6)]
    )
    source = write(
        tmp_path / "in",
        [encoded(smooth(180, 160, 100 + seed), "JPEG") for seed in range(27)] + copies,
    )
    listed = run(
        "measure",
        reference,
        "-o",
        tmp_path / "scores",
        "--scores",
        "phash",
        "--export",
        tmp_path / "hashes.npz",
    )
    assert "5 samples listed" in listed.out
    done = run("filter", source, "-o", tmp_path / "out", "--near", tmp_path / "hashes.npz")
    assert done.status == 0
    assert keys(tmp_path / "out") == set(range(27))
    assert "3  dropped by phash_distance(" in done.out.replace("-    ", "")
    where = f"phash_distance(file='{tmp_path / 'hashes.npz'}') <= 4"
    run("filter", source, "-o", tmp_path / "near", "--where", where)
    assert keys(tmp_path / "near") == {27, 28, 29}
    # A table sets captions, and no images.
    rows = "".join(f"{key:04d},three new words\n" for key in range(0, 30, 2))
    (tmp_path / "t.csv").write_text(f"key,caption\n{rows}")
    words = ("--near", tmp_path / "hashes.npz", "--where", "caption_words == 3")
    join = ("--join", tmp_path / "t.csv", "--join-set", "txt=caption", "--join-cache", tmp_path)
    assert run("filter", source, "-o", tmp_path / "joined", *words, *join).status == 0
    assert keys(tmp_path / "joined") == set(range(0, 27, 2))
    # A changed list is noticed.
    run(
        "measure",
        source,
        "-o",
        tmp_path / "others",
        "--scores",
        "phash",
        "--export",
        tmp_path / "hashes.npz",
    )
    changed = run("filter", source, "-o", tmp_path / "out", "--near", tmp_path / "hashes.npz")
    assert "3  dropped" not in changed.out


def test_a_list_stands_for_a_term_with_the_distance_of_copies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = {"settings": {"model": "ViT-B-32"}}
    Path("hashes.npz").write_bytes(bytes_of_list("phash", np.zeros(1, np.uint64), {}))
    Path("means.npz").write_bytes(bytes_of_list("embeddings", np.ones((1, 8)), model))
    where = canonical_recipe(Recipe(near=("hashes.npz", "means.npz"))).where
    assert where == (
        'phash_distance(file="hashes.npz") > 4'
        ' and embedding_distance(file="means.npz", model="ViT-B-32") > 0.07'
    )


def test_a_list_of_embeddings_is_for_its_model_only(pairs, clip, tmp_path):
    from tests.stages.scores import tiny_models

    of, file = f"model={clip!r}, pretrained=''", tmp_path / "embeddings.npz"
    words = (
        "--scores",
        f"clip_similarity({of})",
        "--embeddings",
        "--device",
        "cpu",
        "--jobs",
        "0",
        "--export",
        file,
    )
    reference = write(
        tmp_path / "reference",
        [encoded(smooth(96, 72, seed), "JPEG", quality=95) for seed in (1, 2)],
    )
    assert "2 samples listed" in run("measure", reference, "-o", tmp_path / "scores", *words).out
    where = f"embedding_distance({of}, file='{file}') > 0.03"
    run(
        "filter",
        pairs,
        "-o",
        tmp_path / "out",
        "--where",
        where,
        "--device",
        "cpu",
        "--jobs",
        "0",
        "--unknown",
        "keep",
    )
    assert set(range(25)) - keys(tmp_path / "out") == {1, 2, 21, 22}
    near = run(
        "filter",
        pairs,
        "-o",
        tmp_path / "near",
        "--near",
        file,
        "--device",
        "cpu",
        "--jobs",
        "0",
        "--dry-run",
    )
    assert "embedding_distance(" in near.out
    other = tiny_models.clip(tmp_path / "other", preprocess={"mean": [0.1, 0.2, 0.3]})
    wrong = run(
        "filter",
        pairs,
        "-o",
        tmp_path / "wrong",
        "--where",
        where.replace(clip, other),
        "--device",
        "cpu",
        "--jobs",
        "0",
    )
    assert wrong.status == 2
    assert "another model" in wrong.err


def test_what_is_no_list_is_refused_with_the_command_that_makes_one(tmp_path):
    source = write(tmp_path / "in", [encoded(photo(), "JPEG")])
    (tmp_path / "bad.npz").write_bytes(b"no list")
    write_tar(tmp_path / "none.tar", [("a.jpg", b"no image"), ("a.txt", b"words")])
    scores, hashes = tmp_path / "scores", tmp_path / "hashes.npz"
    ledger = scores / ".wdsflow/ledger/0.parquet"
    filtering = ("filter", source, "-o", tmp_path / "out", "--near")
    measuring = ("measure", source, "-o", scores, "--scores")
    empty = ("measure", tmp_path / "none.tar", "-o", tmp_path / "empty", "--scores")
    for words, message in (
        ((*filtering, tmp_path / "bad.npz"), "--scores phash --export hashes.npz"),
        ((*filtering, tmp_path / "none.npz"), "none.npz"),
        (
            (*measuring, "blur", "--export", hashes),
            f"{ledger} has no phash for a list of hashes: add phash to --scores",
        ),
        (
            (*empty, "phash", "--export", hashes),
            "no kept sample has an image that can be read: the list would be empty",
        ),
        (
            (*measuring, "phash", "--export", tmp_path / "keys.txt"),
            "measure writes hashes.npz",
        ),
    ):
        done = run(*words, "--jobs", 0)
        assert (done.status, message in done.err) == (2, True), done
    assert not hashes.exists()


def test_odd_sizes_are_those_of_cleanvision(tmp_path):
    rng = np.random.default_rng(2)
    sizes = [(int(rng.integers(90, 130)), int(rng.integers(90, 130))) for _ in range(40)] + [
        (700, 500),
        (3, 2),
    ]
    source = write(tmp_path / "in", [encoded(Image.new("RGB", size), "JPEG") for size in sizes])
    run("filter", source, "-o", tmp_path / "out", "--where", "odd_size")
    roots = np.sqrt(np.prod(sizes, axis=1))
    first, third = np.percentile(roots, [25, 75])
    least, most = first - 3 * (third - first), third + 3 * (third - first)
    assert (
        keys(tmp_path / "out")
        == set(np.flatnonzero((roots < least) | (roots > most)).tolist())
        == {40, 41}
    )
    for factor in (0.2, 0.5):
        run(
            "filter",
            source,
            "-o",
            tmp_path / f"{factor}",
            "--where",
            f"odd_size(iqr_factor={factor})",
        )
        least, most = first - factor * (third - first), third + factor * (third - first)
        assert keys(tmp_path / f"{factor}") == set(
            np.flatnonzero((roots < least) | (roots > most)).tolist()
        )
    alone = write(tmp_path / "alone", [encoded(photo(), "JPEG")] * 3)
    assert (
        "nothing was kept"
        in run("filter", alone, "-o", tmp_path / "none", "--where", "odd_size").out
    )


def test_grey_pictures_are_found_by_their_pixels():
    from wdsflow.stages.scores import View, make_score

    grey = smooth(300, 200).convert("L")
    score = make_score("greyscale")
    found = {
        name: score.score(View({"jpg": data}))
        for name, data in {
            "mode L": encoded(grey, "JPEG"),
            "in colours": encoded(grey.convert("RGB"), "JPEG"),
            "nearly": encoded(
                Image.merge("RGB", (grey, grey.point(lambda level: min(255, level + 5)), grey)),
                "PNG",
            ),
            "coloured": encoded(smooth(300, 200), "JPEG"),
            "a red spot": encoded(_with_spot(grey.convert("RGB")), "PNG"),
        }.items()
    }
    assert found == {
        "mode L": True,
        "in colours": True,
        "nearly": True,
        "coloured": False,
        "a red spot": False,
    }


def _with_spot(image: Image.Image) -> Image.Image:
    image.paste((255, 0, 0), (0, 0, 20, 20))
    return image
