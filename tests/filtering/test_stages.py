"""Stages before scoring: what they change is written again, everything else keeps its bytes."""

import io
import json
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.filtering.shards import digests, picture
from tests.shards.archives import read_tar, write_tar
from wdsflow import Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.filtering.ledger.ledger_metadata import LedgerError
from wdsflow.filtering.recipe.recipe_file import (
    RecipeError,
    merged_recipe,
    recipe_schema,
    recipe_yaml,
)
from wdsflow.filtering.run_differences import Differs
from wdsflow.stages import CleanText, Drop, HasFields, JsonText, Rename, Sample

HERE = RunOptions(jobs=0)
JPG = picture(64, 64)


def kept_of(folder: Path) -> list[tuple[str, bytes]]:
    return [entry for tar in sorted(folder.glob("*.tar")) for entry in read_tar(tar)]


def blocks_of(path: Path) -> dict[str, bytes]:
    """Return each member with its headers and its padding, by name."""
    data = path.read_bytes()
    with tarfile.open(path) as tar:
        members = tar.getmembers()
    ends = [member.offset for member in members[1:]] + [len(data.rstrip(b"\0")) + 512]
    return {
        member.name: data[
            member.offset : min(end, member.offset_data + -(-member.size // 512) * 512)
        ]
        for member, end in zip(members, ends, strict=True)
    }


def test_only_what_a_stage_changed_is_written_anew(tmp_path: Path):
    write_tar(
        tmp_path / "0.tar",
        [
            ("a.jpg", JPG),
            ("a.txt", b"plain words"),
            ("b.jpg", JPG),
            ("b.txt", b"  two\nlines "),
            ("b.cls", b"7"),
            ("c.jpg", JPG),
            ("c.txt", "café".encode()),
        ],
    )
    filter_shards(str(tmp_path / "0.tar"), tmp_path / "out", Recipe(stages=(CleanText(),)), HERE)
    before, after = blocks_of(tmp_path / "0.tar"), blocks_of(tmp_path / "out" / "0.tar")
    assert list(after) == list(before)
    assert {name for name in before if before[name] != after[name]} == {"b.txt"}
    assert dict(read_tar(tmp_path / "out" / "0.tar"))["b.txt"] == b"two lines"


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_members_are_renamed_removed_and_added_in_tars_of_every_form(tmp_path: Path, form):
    key = "folder/" + ("long" * 40 if form != tarfile.USTAR_FORMAT else "short")
    entries = [
        (f"{key}{number}.{field}", data)
        for number in range(3)
        for field, data in (
            ("png", picture(70, 70, number, "PNG")),
            ("json", b'{"alt": "a &amp; b"}'),
            ("cls", b"1"),
        )
    ]
    with tarfile.open(tmp_path / "0.tar", "w", format=form) as tar:
        for name, data in entries:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            tar.addfile(info, io.BytesIO(data))
    stages = (Rename({"image": "jpg;png"}), Drop("cls"), JsonText("alt"), CleanText())
    report = filter_shards(
        str(tmp_path / "0.tar"), tmp_path / "out", Recipe(stages=stages, image="image"), HERE
    )
    assert report.total("kept") == 3
    assert kept_of(tmp_path / "out") == [
        (f"{key}{number}.{field}", data)
        for number in range(3)
        for field, data in (
            ("image", picture(70, 70, number, "PNG")),
            ("json", b'{"alt": "a &amp; b"}'),
            ("txt", b"a & b"),
        )
    ]


def samples(path: Path) -> str:
    members: list[tuple[str, bytes]] = []
    for number in range(40):
        caption = [" a  word or two ", "x", "", "caf\u00e9 au lait", "a word or two"][number % 5]
        members.append((f"{number:04d}.jpg", picture(40 + 4 * number, 60, number // 2)))
        if number % 7:
            members.append(
                (f"{number:04d}.json", json.dumps({"caption": caption, "n": number}).encode())
            )
        if number == 9:
            members[-1] = ("0009.json", b"{broken")
    write_tar(path, members)
    return str(path)


STAGES = (HasFields("json"), JsonText("caption", on_missing="raise"), CleanText())
WHERE = Recipe(where="min_side >= 50 and caption_words >= 2", stages=STAGES)


def test_scores_see_what_stages_made_and_every_sample_is_accounted_for(tmp_path: Path):
    report = filter_shards(samples(tmp_path / "0.tar"), tmp_path / "out", WHERE, HERE)
    assert report.total("samples") == 40
    assert (
        report.total("kept")
        + sum(report.merged("dropped").values())
        + sum(report.merged("quarantined").values())
        == 40
    )
    assert report.merged("dropped")["stage 1 has_fields: no-json"] == 6
    assert report.merged("quarantined") == {
        "stage 2 json_text: bad-json": 1,
        "stage 2 json_text: no-caption": 7,
    }
    assert "6  dropped by stage 1 has_fields: no-json" in str(report)
    kept = dict(kept_of(tmp_path / "out"))
    texts = {name: data for name, data in kept.items() if name.endswith(".txt")}
    assert len(texts) == report.total("kept") > 10
    assert set(texts.values()) == {b"a word or two", "café au lait".encode()}
    lines = (tmp_path / "out/.wdsflow/quarantine/0.jsonl").read_text().splitlines()
    broken = next(line for line in map(json.loads, lines) if line["key"] == "0009")
    assert (broken["stage"], broken["error"]) == (
        "stage 2 json_text",
        "stage 2 json_text: bad-json",
    )
    assert "cannot be parsed" in broken["detail"]
    rows = pq.read_table(tmp_path / "out/.wdsflow/ledger/0.parquet").to_pylist()
    assert (rows[0]["outcome"], rows[0]["term"]) == ("dropped", "stage 1 has_fields: no-json")


@pytest.mark.deep
def test_a_cut_over_scores_writes_what_the_filter_writes(tmp_path: Path):
    source = samples(tmp_path / "0.tar")
    filter_shards(source, tmp_path / "filter", WHERE, HERE)
    measure_shards(
        source,
        tmp_path / "scores",
        Recipe(stages=STAGES, scores=("min_side", "caption_words")),
        HERE,
    )
    report = filter_shards(
        source, tmp_path / "cut", Recipe(where=WHERE.where), HERE, ledger=tmp_path / "scores"
    )
    assert (tmp_path / "cut/0.tar").read_bytes() == (tmp_path / "filter/0.tar").read_bytes()
    assert report.merged("quarantined") == {
        "stage 2 json_text: bad-json": 1,
        "stage 2 json_text: no-caption": 7,
    }
    quarantine = ".wdsflow/quarantine/0.jsonl"
    assert (tmp_path / "cut" / quarantine).read_bytes() == (
        tmp_path / "filter" / quarantine
    ).read_bytes()
    with pytest.raises(LedgerError, match="other stages"):
        filter_shards(
            source,
            tmp_path / "x",
            Recipe(where="min_side > 3", stages=(CleanText(),)),
            HERE,
            ledger=tmp_path / "scores",
        )


@pytest.mark.deep
def test_scores_that_compare_samples_compare_what_stages_left(tmp_path: Path):
    source = samples(tmp_path / "0.tar")
    recipe = Recipe(where="caption_count <= 1", stages=STAGES)
    report = filter_shards(source, tmp_path / "out", recipe, HERE)
    texts = [data for name, data in kept_of(tmp_path / "out") if name.endswith(".txt")]
    assert len(texts) == len(set(texts)) == report.total("kept")
    assert report.merged("dropped")["caption_count <= 1"] > 0


@pytest.mark.deep
def test_any_number_of_workers_writes_the_same_bytes_with_stages(tmp_path: Path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        samples(tmp_path / "in" / f"{number}.tar")
    filter_shards(str(tmp_path / "in"), tmp_path / "one", WHERE, HERE)
    filter_shards(str(tmp_path / "in"), tmp_path / "two", WHERE, RunOptions(jobs=2))
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_another_stage_is_noticed_and_named(tmp_path: Path):
    source = samples(tmp_path / "0.tar")
    filter_shards(source, tmp_path / "out", WHERE, HERE)
    with pytest.raises(Differs, match=r"holds a filter with stages \[.*; this run has stages "):
        filter_shards(source, tmp_path / "out", Recipe(where=WHERE.where, stages=STAGES[:2]), HERE)


RECIPES = [
    (Rename({"image": "jpg;png"}), CleanText()),
    (JsonText(("caption", "alt"), (1, 0.5), on_target="keep"), Sample(0.5, seed=3)),
    (
        HasFields(("jpg;png", "txt")),
        Drop("cls", on_missing="raise"),
        Rename((("a", "b"),), keep=False),
    ),
]


@pytest.mark.parametrize("stages", RECIPES)
def test_a_printed_recipe_reads_back_and_fits_the_schema(tmp_path: Path, stages):
    import jsonschema
    import yaml

    recipe = Recipe(where="min_side > 1", stages=stages)
    (tmp_path / "r.yaml").write_text(recipe_yaml(recipe))
    assert merged_recipe(tmp_path / "r.yaml", {}) == recipe
    jsonschema.validate(yaml.safe_load(recipe_yaml(recipe)), json.loads(recipe_schema()))


def test_the_short_forms_fit_the_schema_and_mean_the_same(tmp_path: Path):
    import jsonschema
    import yaml

    (tmp_path / "r.yaml").write_text('stages: [{rename: {image: "jpg;png"}}, {clean_text: {}}]\n')
    assert merged_recipe(tmp_path / "r.yaml", {}).stages == RECIPES[0]
    jsonschema.validate(
        yaml.safe_load((tmp_path / "r.yaml").read_text()), json.loads(recipe_schema())
    )
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(
            {"stages": [{"clean_text": {"fild": "txt"}}]}, json.loads(recipe_schema())
        )


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("[{renam: {a: b}}]", "line 2: stage 1: unknown stage 'renam'; did you mean rename?"),
        (
            "[{clean_text: {fild: txt}}]",
            "stage 1, clean_text: unknown setting 'fild'; did you mean field?",
        ),
        (
            "[clean_text, {sample: {rate: x}}]",
            "stage 2, sample: rate: input should be a valid number, not 'x'",
        ),
        ("[decode]", "decode makes values that a tar cannot hold"),
        ("[shuffle]", "shuffle works on more than one sample"),
        ("[{rename: {Image: jpg}}]", "readers see 'Image' in lower case: write 'image'"),
        ("[{rename: {a/b: jpg}}]", "cannot end the name of a member"),
        ("[{sample: {rate: 7}}]", "must be between 0 and 1"),
        ("[{json_text: {}}]", "json_text_key is missing"),
        ("rename", "stages must be a list"),
        ("[{a: {}, b: {}}]", "stage 1 must be a name with its settings"),
    ],
)
def test_a_wrong_stage_is_told_with_its_place_and_what_to_write(tmp_path: Path, stages, message):
    (tmp_path / "r.yaml").write_text(f'where: "min_side > 1"\nstages: {stages}\n')
    with pytest.raises(RecipeError) as caught:
        merged_recipe(tmp_path / "r.yaml", {})
    assert message in str(caught.value)


@pytest.mark.deep
def test_names_that_are_not_utf8_pass_stages_ledgers_and_cuts(tmp_path: Path):
    keys = [b"a\xff1", b"a\xfe2", "grün".encode()]
    with tarfile.open(tmp_path / "0.tar", "w", encoding="utf-8", errors="surrogateescape") as tar:
        for key in keys:
            for name, data in (
                ("jpg", b"no image" if key == keys[1] else JPG),
                ("txt", b" two  words "),
            ):
                member = tarfile.TarInfo(
                    (key + b"." + name.encode()).decode("utf-8", "surrogateescape")
                )
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    where = "caption_words >= 1 and width > 1"
    filtered, cut, compared = (tmp_path / name for name in ("filtered", "cut", "compared"))
    filter_shards(
        str(tmp_path / "0.tar"), filtered, Recipe(where=where, stages=(CleanText(),)), HERE
    )
    filter_shards(str(tmp_path / "0.tar"), cut, Recipe(where=where), HERE, ledger=filtered)
    both = Recipe(where=f"{where} and near_duplicate in (True, False)", stages=(CleanText(),))
    filter_shards(str(tmp_path / "0.tar"), compared, both, HERE)

    found = {
        name: data
        for name, data in digests(filtered).items()
        if name.endswith((".tar", "quarantine/0.jsonl"))
    }
    assert len(found) == 3
    for other in (cut, compared):
        assert digests(other).items() >= found.items()
    with tarfile.open(filtered / "0.tar", encoding="utf-8", errors="surrogateescape") as tar:
        assert [
            name.encode("utf-8", "surrogateescape").partition(b".")[0]
            for name in tar.getnames()[::2]
        ] == [
            keys[0],
            keys[2],
        ]
    reason = json.loads((filtered / ".wdsflow" / "quarantine" / "0.jsonl").read_text())
    assert reason["key"] == "a\\udcfe2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'stages:\n- clean_text\n- rename: {jpg: png}\n- clean_txt\nwhere: ""\n',
            "line 4: stage 3: unknown stage",
        ),
        (
            "stages:\n- json_text:\n    json_text_ky: a\n",
            "line 3: stage 1, json_text: unknown setting",
        ),
        (
            "empty: write\nwhere: min_sid > 1\n",
            "line 2: where, column 1: no score is called 'min_sid'",
        ),
        (
            "scores:\n- blur\n- aspect_rato\n",
            "line 3: scores: 'aspect_rato': no score is called 'aspect_rato'; did you mean aspect_ratio?",
        ),
    ],
)
def test_a_mistake_in_a_recipe_is_told_with_its_own_line(tmp_path: Path, text, message):
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        merged_recipe(tmp_path / "r.yaml", {})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text", ["blur > 3", "blur(", "'a'", "blur+width", "not blur", "key is None"]
)
def test_what_is_no_score_is_not_taken_for_one(text):
    with pytest.raises(
        ValueError, match=r"is not the name of a score|takes a condition|the predicate ends"
    ):
        measure_shards("0.tar", "out", merged_recipe(None, {"scores": [text]}), HERE)


def test_commas_in_the_settings_of_a_score_do_not_part_it():
    asked = ['blur, zero_shot(labels="a, b;c"),near_duplicate(distance=4) ,']
    assert merged_recipe(None, {"scores": asked}).scores == (
        "blur",
        'zero_shot(labels="a, b;c")',
        "near_duplicate(distance=4)",
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "where",
    [
        "contains(json_text('a'), 'd800') and not duplicate",
        "contains(key, 'dcfe')",
        "'x\\\\ud800' in (json_text('a'))",
    ],
)
def test_texts_that_utf8_cannot_hold_are_the_same_to_a_predicate_and_to_a_ledger(
    tmp_path: Path, where
):
    half = json.dumps({"a": "x\ud800"}).encode()
    members = [
        ("\udcfe1.jpg", JPG),
        ("\udcfe1.json", half),
        ("2.jpg", JPG),
        ("2.json", b'{"a": "x"}'),
    ]
    write_tar(tmp_path / "0.tar", members, tarfile.GNU_FORMAT)
    source, scores = str(tmp_path / "0.tar"), ("json_text('a')", "key", "duplicate")
    filter_shards(source, tmp_path / "out", Recipe(where=where), HERE)
    measure_shards(source, tmp_path / "scored", Recipe(scores=scores), HERE)
    filter_shards(source, tmp_path / "cut", Recipe(where=where), HERE, ledger=tmp_path / "scored")
    for folder in ("out", "cut"):
        assert [name for name, _ in kept_of(tmp_path / folder)] == ["\udcfe1.jpg", "\udcfe1.json"]


def test_samples_that_a_stage_drops_for_an_error_or_leaves_without_a_field_are_dropped_not_quarantined(
    tmp_path: Path,
):
    stages = (JsonText("caption", on_missing="raise", on_error="drop"), Drop("txt;json"))
    shard = tmp_path / "0.tar"
    entries = [
        ("0.jpg", JPG),
        ("0.json", b'{"caption": "a word"}'),
        ("1.jpg", JPG),
        ("1.json", b"{"),
        ("2.txt", b"a word"),
    ]
    write_tar(shard, entries)

    report = filter_shards(str(shard), tmp_path / "out", Recipe(stages=stages), HERE)

    assert sum(report.merged("dropped").values()) == 2
    assert report.merged("dropped")["stage 1 json_text: bad-json"] == 1
    assert (report.total("kept"), report.merged("quarantined")) == (1, {})


def test_text_that_stages_return_as_str_is_written_in_utf8(tmp_path: Path):
    shard = tmp_path / "0.tar"
    write_tar(shard, [("a.json", '{"t": "  caf\u00e9 "}'.encode()), ("b.txt", b" two ")])
    stages = (JsonText("t", output="str", on_error="drop"), CleanText(output="str"))

    for folder, chosen in (("clean", stages[1:]), ("both", stages)):
        filter_shards(str(shard), tmp_path / folder, Recipe(stages=chosen), HERE)

    assert dict(kept_of(tmp_path / "both"))["a.txt"] == "caf\u00e9".encode()
    assert dict(kept_of(tmp_path / "clean"))["b.txt"] == b"two"


def test_a_sample_without_any_field_is_dropped_by_the_last_stage(tmp_path: Path):
    shard = write_tar(tmp_path / "0.tar", [("a.cls", b"1"), ("b.cls", b"2"), ("b.txt", b"two")])
    stages = (Drop("cls"), Rename({"text": "txt"}, on_missing="keep"))

    report = filter_shards(str(shard), tmp_path / "out", Recipe(stages=stages), HERE)

    assert report.merged("dropped") == {"stage 2 rename: no field is left": 1}
    assert kept_of(tmp_path / "out") == [("b.text", b"two")]


def test_a_text_that_is_too_large_for_a_stage_is_not_read(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("wdsflow.filtering.samples.staging._LARGEST_TEXT", 7)
    shard = write_tar(tmp_path / "0.tar", [("a.txt", b" 7 bytes"), ("b.txt", b"7 bytes")])

    report = filter_shards(str(shard), tmp_path / "out", Recipe(stages=(CleanText(),)), HERE)

    reason = "quarantined stage 1 clean_text: large-text"
    assert report.records[0].examples[reason] == ("a", "'txt' has 8 bytes")
    assert kept_of(tmp_path / "out") == [("b.txt", b"7 bytes")]
