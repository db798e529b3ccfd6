"""The laws that hold for every stage, wherever it runs."""

import pickle
from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

import pytest

from tests.stages.loaders import has_jpg, through_loader
from tests.stages.stage_laws import assert_stage_laws, keys_of
from wdsflow import stages
from wdsflow.stages import STAGES, Batch, Pipeline, Stage, StageError, Unbatch

SAMPLES = [
    {
        "__key__": f"{number:03}",
        "__url__": "00000.tar",
        "jpg" if number % 3 else "png": bytes(number),
        "txt": [b"a  cat", "a dog", b"\xff", b""][number % 4],
        "json": [b'{"caption": "a bird"}', {"caption": "a cow"}, b"{", b"{}", b'{"caption": 7}'][
            number % 5
        ],
    }
    for number in range(60)
]
BATCHES = list(
    Batch(7)([{"__key__": sample["__key__"], "json": sample["json"]} for sample in SAMPLES])
)
EXAMPLES: list[Stage | Pipeline] = [
    stages.Batch(7, on_error="drop"),
    stages.Batch(7, max_bytes="2KiB", partial=False, on_error="drop"),
    stages.CleanText(on_error="drop"),
    stages.CleanText(fallback="cp1252", on_empty="keep"),
    stages.Drop("json"),
    stages.HasFields.of("jpg", "txt"),
    stages.JsonText("caption", on_error="drop"),
    stages.JsonText("caption;alt", (0.5, 0.5), on_missing="raise", on_error="drop"),
    stages.Rename({"image": "jpg", "text": "txt"}, on_missing="drop"),
    stages.Rename({"image": "jpg;png", "txt": "json", "json": "txt"}, keep=False),
    stages.Sample(0.5),
    stages.Select(has_jpg, "no-jpg", "jpg"),
    stages.Shuffle(10, initial=3),
    stages.Unbatch(),
    Pipeline(
        stages.HasFields("jpg"),
        stages.Sample(0.7),
        stages.CleanText(on_error="drop"),
        stages.Drop("json"),
    ),
]


@pytest.mark.parametrize("stage", EXAMPLES, ids=lambda stage: stage.name)
def test_every_stage_keeps_the_laws(stage):
    samples = BATCHES if isinstance(stage, Unbatch) else SAMPLES
    holds_back = stage.name in {"batch", "shuffle"}
    outputs = assert_stage_laws(
        stage, samples, ordered=stage.name != "shuffle", holds_back=holds_back
    )
    assert outputs


def test_every_stage_without_pixels_and_tokens_has_an_example_here():
    assert set(STAGES) - {"decode", "resize", "tokenize"} <= {stage.name for stage in EXAMPLES}


def test_the_catalogue_goes_by_name_and_all_in_it_is_exported():
    assert all(stage.name == name for name, stage in STAGES.items())
    assert {stage.__name__ for stage in STAGES.values()} <= set(stages.__all__)


def test_every_stage_in_the_folder_is_in_the_catalogue():
    modules = [
        import_module(f"wdsflow.stages.{found.name}") for found in iter_modules(stages.__path__)
    ]
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    assert {kind for kind in kinds if issubclass(kind, Stage) and not isabstract(kind)} == set(
        STAGES.values()
    )


def test_all_exports_are_there():
    assert all(hasattr(stages, name) for name in stages.__all__)


class Hoarder(stages.HasFields):
    def __call__(self, samples):
        return super().__call__(list(samples))


class LateHoarder(stages.HasFields):
    def __call__(self, samples):
        yield from super().__call__(list(samples))


class Miscounter(stages.HasFields):
    def __call__(self, samples):
        yield from list(super().__call__(samples))[::2]


class Backwards(stages.HasFields):
    def __call__(self, samples):
        yield from reversed(list(super().__call__(samples)))


class Vandal(stages.SampleStage):
    name = "vandal"

    def apply(self, sample):
        sample["list"].append(1)
        return sample


class Forgetful(stages.HasFields):
    def apply(self, sample):
        return {**sample, "number": self.counts.seen}


@pytest.mark.parametrize(
    ("kind", "settings", "law"),
    [
        (Hoarder, {}, "pulls nothing before it is asked"),
        (LateHoarder, {}, "before it pulls the next"),
        (Miscounter, {"holds_back": True}, "counted as kept"),
        (Backwards, {"holds_back": True}, "in the order"),
        (Forgetful, {}, "a second pass yields the same"),
    ],
)
def test_a_stage_that_breaks_a_law_is_caught(kind, settings, law):
    stage = kind("jpg;png")
    with pytest.raises(AssertionError, match=law):
        assert_stage_laws(stage, SAMPLES, **settings)


def test_a_stage_that_changes_values_is_caught():
    with pytest.raises(AssertionError, match="as they were"):
        assert_stage_laws(Vandal(), [{"__key__": "a", "list": []}])


def chain() -> Pipeline:
    return Pipeline(
        stages.Select(has_jpg),
        stages.JsonText("caption", on_error="drop"),
        stages.CleanText(),
        stages.Shuffle(10),
        stages.Sample(0.9),
        stages.HasFields.of("jpg", "txt"),
        stages.Drop("json"),
        stages.Rename.of(image="jpg", text="txt"),
        stages.Batch(4),
        stages.Unbatch(),
    )


@pytest.mark.webdataset
@pytest.mark.parametrize("stage", EXAMPLES, ids=lambda stage: stage.name)
def test_a_plain_webdataset_pipeline_runs_every_stage_as_it_is(stage):
    pytest.importorskip("webdataset")
    samples = BATCHES if isinstance(stage, Unbatch) else SAMPLES
    found = through_loader(stage, [dict(sample) for sample in samples])
    assert found == list(stage(dict(sample) for sample in samples))


@pytest.mark.webdataset
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_an_error_in_a_worker_names_the_sample_here():
    pytest.importorskip("webdataset")
    pytest.importorskip("torch")
    with pytest.raises(
        Exception, match=r"clean_text: sample '002' of '00000\.tar': 'txt' cannot be decoded"
    ):
        through_loader(stages.CleanText(), SAMPLES, "fork")


def test_an_error_survives_the_way_between_processes():
    with pytest.raises(StageError) as caught:
        list(stages.CleanText()(SAMPLES))
    error = pickle.loads(pickle.dumps(caught.value))
    assert (type(error), error.slug, str(error)) == (StageError, "not-utf8", str(caught.value))


@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12's
@pytest.mark.parametrize(
    "method", [pytest.param("fork", marks=pytest.mark.deep), "spawn", "forkserver"]
)
def test_a_worker_yields_what_this_process_yields_however_it_was_started(method):
    pytest.importorskip("webdataset")
    pytest.importorskip("torch")
    found = through_loader(chain(), SAMPLES, method)
    assert found == list(chain()(dict(sample) for sample in SAMPLES))
    assert len(keys_of(found)) > 5
