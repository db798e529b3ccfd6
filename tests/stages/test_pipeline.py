"""Pipeline: what does not fit is found before the first sample."""

from operator import itemgetter

import pytest

from wdsflow.stages import (
    Batch,
    CleanText,
    ContractError,
    Decode,
    Drop,
    HasFields,
    JsonText,
    Pipeline,
    Rename,
    Resize,
    Select,
    Shuffle,
    Tokenize,
    Unbatch,
)

NAMES = Rename.of(image="jpg;png", text="txt")


def test_samples_pass_through_all_stages_lazily():
    pipeline = Pipeline(JsonText("caption"), CleanText(), NAMES)
    samples = iter(
        [
            {"__key__": "a", "jpg": 1, "json": b'{"caption": " a  cat"}'},
            {"__key__": "b", "jpg": 1, "json": b"{}"},
            {"__key__": "c", "jpg": 1, "json": b"{"},
        ]
    )
    assert next(pipeline(samples)) == {
        "__key__": "a",
        "json": b'{"caption": " a  cat"}',
        "image": 1,
        "text": b"a cat",
    }
    assert next(samples)["__key__"] == "b"


@pytest.mark.parametrize(
    ("stages", "source", "hint"),
    [
        (
            [CleanText("text")],
            ["jpg", "txt"],
            r"""reads 'text': .*there are jpg, txt; put Rename\({"text": "txt"}\) before""",
        ),
        (
            [CleanText()],
            ["jpg", "json"],
            r"stage 1 \(clean_text\) reads 'txt': .*put JsonText\(json_text_key=...\) before",
        ),
        ([CleanText("text")], ["json"], r'JsonText\(json_text_key=..., target="text"\)'),
        ([Batch(max_pixels=9)], ["png", "jpg"], r"""put Rename\({"image": "jpg;png"}\) before"""),
        ([CleanText("captoin")], ["caption"], "did you mean 'caption'"),
        (
            [HasFields("thumb")],
            ["jpg"],
            r"if shards hold it, say so: Pipeline\(..., source=\[...\]\)",
        ),
        (
            [CleanText("text"), NAMES],
            ["jpg", "txt"],
            r"stage 2 \(rename\) writes it; put that one before",
        ),
        ([Drop("json"), JsonText("a")], ["json"], r"stage 2 .*: stage 1 \(drop\) removed it"),
        ([NAMES, HasFields("jpg")], ["jpg", "txt"], r"stage 1 \(rename\) removed it"),
        (
            [Rename({"image": "jpg"}, keep=False), CleanText()],
            ["jpg", "txt"],
            r"stage 1 \(rename\) removed it",
        ),
        ([Drop("json"), JsonText("a")], "*", r"stage 1 \(drop\) removed it"),
        ([HasFields("jpg"), Unbatch()], ["jpg"], "gets samples: put Batch before it"),
        ([Batch(2), CleanText()], ["txt"], "gets batches: put it before Batch or after an Unbatch"),
        ([Decode(fields="jpg;png"), HasFields("png")], ["jpg"], "reads 'png'"),
        ([Tokenize("ViT-B-32", "text"), NAMES], ["jpg", "txt"], r"stage 2 \(rename\) writes it"),
        ([Batch(2), Batch(3)], ["txt"], "gets batches"),
        ([Select(itemgetter("width"), fields="width")], ["jpg"], "reads 'width'"),
    ],
)
def test_a_stage_that_reads_what_no_sample_can_have_is_refused_with_a_hint(stages, source, hint):
    with pytest.raises(ContractError, match=hint):
        Pipeline(*stages, source=source)


def test_a_stage_is_refused_a_second_time():
    stage = CleanText()
    with pytest.raises(ContractError, match="twice"):
        Pipeline(stage, stage)


@pytest.mark.parametrize(
    ("stages", "source"),
    [
        ([HasFields("jpg;png"), NAMES], ["png", "txt"]),
        ([Rename({"a": "b", "b": "a"}), HasFields.of("a", "b")], ["a", "b"]),
        ([Drop("txt"), JsonText("a"), CleanText()], ["json", "txt"]),
        ([CleanText("anything")], "*"),
        ([iter, CleanText("anything")], ["jpg"]),
        ([Batch(2), Unbatch(), CleanText()], ["txt"]),
        ([Unbatch(), CleanText()], ["txt"]),
        ([Shuffle(3), NAMES, Batch(2)], ["jpg", "txt"]),
        (
            [
                Decode(fields="jpg;png"),
                Resize(224, fields="jpg;png"),
                NAMES,
                Tokenize("ViT-B-32", "text"),
            ],
            ["jpg", "txt"],
        ),
        ([], ["jpg"]),
    ],
)
def test_stages_that_fit_are_accepted(stages, source):
    Pipeline(*stages, source=source)


def test_the_usual_fields_of_tars_are_taken_for_granted_and_no_others():
    Pipeline(Rename.of(image="webp", text="txt"), Drop("json", on_missing="raise"))
    with pytest.raises(ContractError, match="'caption'"):
        Pipeline(HasFields("caption"))


def test_what_is_no_stage_is_refused():
    with pytest.raises(TypeError, match=r"unpack a list with Pipeline\(\*stages\)"):
        Pipeline([CleanText()])


def test_a_pipeline_in_a_pipeline_becomes_its_stages():
    inner = Pipeline(CleanText(), NAMES)
    assert Pipeline(HasFields("txt"), inner).stages == (HasFields("txt"), CleanText(), NAMES)


def test_it_describes_itself():
    text = Pipeline(CleanText(), NAMES, iter).describe()
    assert str(Pipeline(CleanText(), NAMES, iter)) == text
    lines = text.splitlines()
    assert lines[0].split() == ["stage", "reads", "writes", "removes"]
    assert lines[1].split() == ["1", "CleanText()", "txt", "-", "-"]
    assert lines[2].split("  ")[-3:] == ["jpg;png, txt", "image, text", "jpg, png, txt"]
    assert lines[3].split() == ["3", "iter", "?", "?", "?"]
    assert repr(Pipeline(HasFields("txt"), iter)).startswith(
        "Pipeline(HasFields(on_error='raise', fields=('txt',)), iter)"
    )


def test_it_reports_what_became_of_samples():
    pipeline = Pipeline(JsonText("caption", on_error="drop"), CleanText(), iter)
    data = [
        b'{"caption": "a  cat"}',
        b'{"caption": "\\u200b"}',
        b"{}",
        b"{",
        b'{"caption": "a dog"}',
    ]
    list(pipeline({"__key__": str(number), "json": value} for number, value in enumerate(data)))
    lines = pipeline.report().splitlines()
    assert lines[1].split(maxsplit=3) == [
        "json_text",
        "5",
        "3",
        "no-caption: 1, failed bad-json: 1",
    ]
    assert lines[2].split(maxsplit=3) == ["clean_text", "3", "2", "empty: 1, noted changed: 1"]
    assert lines[3].split(maxsplit=3) == ["iter", "?", "?", "not counted"]
    counts = pipeline.counts
    assert (counts.seen, counts.kept) == (5, 2)
    assert counts.dropped == {"1-json_text: no-caption": 1, "2-clean_text: empty": 1}
    assert counts.failed == {"1-json_text: bad-json": 1}
