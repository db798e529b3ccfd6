"""``filter`` and ``cut`` with ``--resize``.

The images of kept samples are made smaller, and nothing else changes.
"""

import io
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import xxhash
from PIL import Image

from tests.filtering.commands import run
from tests.filtering.shards import digests, write_shards
from tests.pictures import encoded, photo
from tests.shards.archives import Entry, read_tar, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.deciding.plan import plan_of
from wdsflow.stages.scores.base import versions_of

# Processes that it starts import PyTorch.

HERE = RunOptions(jobs=0)
SIZES = [(400, 300), (90, 60), (60, 700), (1500, 1100), (200, 200), (201, 10)]


def mixed(folder: Path, shards: int = 2) -> str:
    """Write shards with pictures of several sizes and formats.

    In each, the last sample's picture is truncated, and one sample has no image.
    """
    folder.mkdir()
    for shard in range(shards):
        entries: list[Entry] = []
        for number, (width, height) in enumerate(SIZES):
            kind, name = (("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp"))[number % 3]
            key = f"{shard}{number}"
            entries += [
                (f"{key}.{name}", encoded(photo(width, height, number), kind)),
                (f"{key}.txt", f"a {key}".encode()),
            ]
        entries += [
            (f"{shard}8.txt", b"alone"),
            (f"{shard}9.jpg", encoded(photo(500, 400), "JPEG")[:-900]),
        ]
        write_tar(folder / f"{shard}.tar", [*entries, (f"{shard}9.txt", b"cut")])
    return str(folder)


def samples_of(folder: Path) -> dict[str, dict[str, bytes]]:
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(folder.glob("*.tar")):
        for name, data in read_tar(path):
            key, _, field = name.partition(".")
            found.setdefault(key, {})[field] = data
    return found


def test_large_images_become_smaller_and_all_else_keeps_its_bytes(tmp_path):
    source, out = mixed(tmp_path / "in"), tmp_path / "out"
    done = run("filter", source, "-o", out, "--resize", "200")
    assert done.status == 0
    assert "12  kept" not in done.out
    before, after = samples_of(tmp_path / "in"), samples_of(out)
    assert set(before) - set(after) == {"09", "19"}  # quarantined
    for key, fields in after.items():
        assert list(fields) == list(before[key])
        for name, data in fields.items():
            old = before[key][name]
            if name == "txt" or max(Image.open(io.BytesIO(old)).size) <= 200:
                assert data == old
            else:
                one, other = Image.open(io.BytesIO(old)), Image.open(io.BytesIO(data))
                assert max(other.size) == 200
                assert other.format == one.format
                assert abs(min(other.size) - min(one.size) * 200 / max(one.size)) <= 1
    assert "resize: truncated" in done.out
    assert "8  images made smaller" in done.out
    reasons = (out / ".wdsflow" / "quarantine" / "0.jsonl").read_text()
    assert json.loads(reasons)["stage"] == "resize"
    quarantined = samples_of(out / ".wdsflow" / "quarantine")
    assert quarantined["09"] == before["09"]
    assert json.loads((out / "sizes.json").read_text()) == {"0.tar": 7, "1.tar": 7}


def test_the_ledger_has_old_and_new_sizes_and_hashes(tmp_path):
    source, out = mixed(tmp_path / "in", 1), tmp_path / "out"
    run(
        "filter",
        source,
        "-o",
        out,
        "--resize",
        "200",
        "--image-format",
        "webp",
        "--where",
        "key != '02'",
    )
    before, after = samples_of(tmp_path / "in"), samples_of(out)
    rows = pq.read_table(out / ".wdsflow" / "ledger" / "0.parquet").to_pylist()
    found = {row["key"]: json.loads(row["resized"] or "[]") for row in rows}
    assert {key for key, images in found.items() if images} == {"00", "03", "05"}
    for key in ("00", "03", "05"):
        (image,) = found[key]
        old, new = image["field"]
        assert old in before[key]
        assert new == "webp"
        assert set(after[key]) == {"webp", "txt"}
        data = (before[key][old], after[key][new])
        assert image["xxh3"] == [xxhash.xxh3_128_hexdigest(each) for each in data]
        assert image["bytes"] == [len(each) for each in data]
        assert image["size"] == [list(Image.open(io.BytesIO(each)).size) for each in data]


def test_scores_are_those_of_the_images_as_they_were_and_a_cut_gives_the_same_bytes(tmp_path):
    source, where = (
        write_shards(tmp_path / "in"),
        "blur > 1 and min_side >= 150 and not duplicate_caption",
    )
    recipe = Recipe(where=where, resize="short:100", image_format="png")
    filter_shards(source, tmp_path / "filtered", recipe, HERE)
    filter_shards(source, tmp_path / "plain", Recipe(where=where), HERE)
    measure_shards(
        source, tmp_path / "scored", Recipe(scores=("blur", "min_side", "duplicate_caption")), HERE
    )
    filter_shards(source, tmp_path / "cut", recipe, HERE, ledger=tmp_path / "scored")
    tars = [
        {path.name: sha256(path.read_bytes()).digest() for path in (tmp_path / name).glob("*.tar")}
        for name in ("filtered", "cut")
    ]
    assert tars[0] == tars[1] != {}
    assert samples_of(tmp_path / "plain").keys() == samples_of(tmp_path / "filtered").keys()


@pytest.mark.deep
@pytest.mark.parametrize(
    "where",
    [
        "blur > 1 and not duplicate_caption",
        pytest.param("blur > 1", marks=pytest.mark.deep),
        pytest.param("", marks=pytest.mark.deep),
    ],
)
def test_workers_and_stages_change_no_byte(tmp_path, where):
    from wdsflow.stages import Rename

    source, stages = mixed(tmp_path / "in"), (Rename({"image": "jpg;png;webp"}),)
    recipe = Recipe(where=where, resize="200", stages=stages, image="image")
    filter_shards(source, tmp_path / "one", recipe, HERE)
    filter_shards(source, tmp_path / "two", recipe, RunOptions(jobs=2))
    assert digests(tmp_path / "one") == digests(tmp_path / "two")
    after = samples_of(tmp_path / "one")
    assert all(set(fields) in ({"image", "txt"}, {"txt"}) for fields in after.values())
    sides = [
        max(Image.open(io.BytesIO(fields["image"])).size)
        for fields in after.values()
        if "image" in fields
    ]
    assert max(sides) == 200


def test_a_sample_that_would_have_two_fields_of_one_name_is_quarantined(tmp_path):
    (tmp_path / "in").mkdir()
    jpeg, png = encoded(photo(300, 200), "JPEG"), encoded(photo(300, 200), "PNG")
    entries: list[Entry] = [
        ("a.jpg", jpeg),
        ("a.webp", b"x"),
        ("b.jpg", jpeg),
        ("c.0.jpg", jpeg),
        ("c.0.png", png),
    ]
    write_tar(tmp_path / "in" / "0.tar", entries)
    done = run(
        "filter",
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "--resize",
        "100",
        "--image-format",
        "webp",
    )
    assert "2  quarantined: resize: field-taken" in done.out.replace("-    ", "")
    assert list(samples_of(tmp_path / "out")) == ["b"]


def test_no_more_memory_than_one_image_may_take(tmp_path):
    (tmp_path / "in").mkdir()
    write_tar(
        tmp_path / "in" / "0.tar",
        [("a.png", encoded(photo(2000, 1500), "PNG")), ("b.png", encoded(photo(300, 200), "PNG"))],
    )
    done = run(
        "filter",
        tmp_path / "in",
        "-o",
        tmp_path / "out",
        "--resize",
        "100",
        "--image-memory",
        "8MiB",
    )
    assert "resize: over-budget" in done.out
    assert list(samples_of(tmp_path / "out")) == ["b"]


@pytest.mark.deep
@pytest.mark.parametrize("where", ["caption_words > 0", "blur > 0", "not duplicate"])
def test_an_image_that_kills_its_process_is_quarantined(tmp_path, where):
    source = write_shards(tmp_path / "in", shards=2, samples=6)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, PIL.Image as I\n"
        "save = I.Image.save\n"
        "I.Image.save = lambda self, *a, **k: os._exit(9) if os.environ.get('DEADLY') and self.size[0] == 91 else save(self, *a, **k)\n"
    )
    write_tar(
        tmp_path / "in" / "9.tar",
        [("x.jpg", encoded(photo(364, 400), "JPEG")), ("x.txt", b"one two")],
    )
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    wdsflow = [sys.executable, "-m", "wdsflow"]
    scored = [
        *wdsflow,
        "measure",
        source,
        "-o",
        tmp_path / "scored",
        "--scores",
        "blur,caption_words,duplicate",
    ]
    subprocess.run(list(map(str, scored)), env=variables, check=True, capture_output=True)
    for out, command in (
        ("filter", ["filter"]),
        ("scored", ["filter", "--ledger", tmp_path / "scored"]),
    ):
        words = [
            *wdsflow,
            *command,
            source,
            "-o",
            tmp_path / f"out-{out}",
            "--where",
            where,
            "--resize",
            "100",
            "--jobs",
            "2",
        ]
        done = subprocess.run(
            list(map(str, words)),
            env={**variables, "DEADLY": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert "1  quarantined: killed-worker" in done.stdout.replace("-    ", ""), done
        assert "x" not in samples_of(tmp_path / f"out-{out}")
        assert len(samples_of(tmp_path / f"out-{out}")) >= 3


def test_options_that_mean_nothing_are_refused(tmp_path):
    source = write_shards(tmp_path / "in", 1, 2)
    alone = run("filter", source, "-o", tmp_path / "out", "--where", "True", "--quality", "80")
    assert alone.status == 2
    assert "add --resize 512" in alone.err
    unknown = run("filter", source, "-o", tmp_path / "out", "--resize", "keep_ratio:80")
    assert unknown.status == 2
    assert "use short:80" in unknown.err
    assert not (tmp_path / "out").exists()


def test_the_encoders_belong_to_the_identity_and_decoding_happens_in_workers():
    plan = plan_of(Recipe(where="min_side > 3", resize="9"))
    assert plan.identities()["resize"] == versions_of("pillow", "simplejpeg")
    assert not plan.is_safe(scores=True)
    assert plan_of(Recipe(where="min_side > 3")).is_safe(scores=True)


def test_an_image_that_is_left_out_in_the_end_is_not_counted(tmp_path):
    (tmp_path / "in").mkdir()
    image, cut = encoded(photo(300, 200), "JPEG"), encoded(photo(500, 400), "JPEG")[:-900]
    twins: list[Entry] = [
        ("a.jpg", image),
        ("b.jpg", cut),
        ("a.jpg", image),
        ("c.0.jpg", image),
        ("c.1.jpg", cut),
    ]
    write_tar(tmp_path / "in" / "0.tar", twins)
    done = run(
        "filter", tmp_path / "in", "-o", tmp_path / "out", "--resize", "100", "--where", "True"
    )
    assert "1  images made smaller" in done.out
    rows = pq.read_table(tmp_path / "out" / ".wdsflow" / "ledger" / "0.parquet").to_pylist()
    assert [(row["error"], row["resized"] is None) for row in rows] == [
        (None, False),
        ("resize: truncated", True),
        ("same-key", True),
        ("resize: truncated", True),
    ]


def test_another_size_is_another_run(tmp_path):
    source = write_shards(tmp_path / "in", 1, 4)
    filter_shards(source, tmp_path / "out", Recipe(resize="100"), HERE)
    done = run("filter", source, "-o", tmp_path / "out", "--resize", "120")
    assert done.status == 2
    assert "resize" in done.err
