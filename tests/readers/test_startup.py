"""What open_clip_train does before the first batch, against open_clip_train."""

import json
from dataclasses import replace

import pytest

from tests.validate.openclip import plain, write
from wdsflow.readers.open_clip.arguments import Arguments
from wdsflow.readers.open_clip.sidecars import read_sidecars
from wdsflow.readers.open_clip.startup import simulate_start
from wdsflow.readers.open_clip.url_expansion import openclip_urls
from wdsflow.scan.evidence import Evidence, ShardEvidence
from wdsflow.shards.source.base import single_shard

SHARDS = 4

pytestmark = [  # OpenCLIP leaves sizes.json open
    pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning"),
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning"
    ),
]


def real_start(command):
    """Return the number of batches in an epoch of the real get_data.

    If get_data raises, returns the name of the exception's type.
    """
    from argparse import Namespace

    data = pytest.importorskip("open_clip_train.data")
    names = Arguments.__dataclass_fields__
    args = Namespace(
        **{name: getattr(command, name) for name in names}, imagenet_val=None, imagenet_v2=None
    )
    try:
        return data.get_data(args, (None, None), tokenizer=None)["train"].dataloader.num_batches
    except Exception as error:
        return type(error).__name__


def foreseen_start(command, evidence):
    sidecars = read_sidecars([shard.url for shard in evidence.shards], evidence)
    found = simulate_start(command, [shard.url for shard in evidence.shards], sidecars)
    if found.crash is not None:
        return found.crash.partition(":")[0].partition(" ")[0]
    return -(-found.samples // command.batch_size)


SIZES = {f"{number:04d}.tar": 10 + number for number in range(SHARDS)}
FILES = {
    "no file": {},
    "sizes": {"sizes.json": json.dumps(SIZES)},
    "sizes as texts": {"sizes.json": json.dumps({name: str(size) for name, size in SIZES.items()})},
    "sizes without a shard": {"sizes.json": json.dumps(dict.fromkeys(list(SIZES)[1:], 3))},
    "sizes of nothing": {"sizes.json": json.dumps(dict.fromkeys(SIZES, 0))},
    "sizes with null": {"sizes.json": json.dumps(SIZES | {"0002.tar": None})},
    "sizes with a word": {"sizes.json": json.dumps(SIZES | {"0002.tar": "many"})},
    "sizes as a list": {"sizes.json": "[1, 2]"},
    "sizes as null": {"sizes.json": "null"},
    "sizes cut": {"sizes.json": '{"0000.tar": 1'},
    "sizes and length": {"sizes.json": json.dumps(SIZES), "__len__": "7"},
    "length": {"__len__": "77\n"},
    "length as a fraction": {"__len__": "7.5"},
    "length of nothing": {"__len__": "0"},
    "length as a text": {"__len__": "'77'"},
    "length as code": {"__len__": "exit(1)"},
    "length cut": {"__len__": "(7"},
    "length without end": {"__len__": "1e999"},
    "length too large": {"__len__": "9" * 400},
    "sizes without end": {"sizes.json": json.dumps(SIZES | {"0002.tar": 1e999})},
    "length empty": {"__len__": ""},
}


@pytest.mark.sample(8)
@pytest.mark.parametrize("files", FILES.values(), ids=FILES)
def test_the_number_of_samples_is_found_or_the_error_foreseen(tmp_path, files):
    evidence = write(tmp_path, [plain(2)] * SHARDS)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = Arguments(train_data=f"{tmp_path}/{{0000..0003}}.tar", workers=1, batch_size=1)
    assert foreseen_start(command, evidence) == real_start(command)


COMMANDS = {
    "number given": {},
    "more workers than shards": {"workers": 5},
    "as many workers as shards": {"workers": 4, "train_num_samples": 100},
    "more ranks than shards, no workers": {"workers": 0, "world_size": 9, "train_num_samples": 90},
    "resampled with more workers": {
        "workers": 5,
        "dataset_resampled": True,
        "train_num_samples": 100,
    },
    "factors without resampling": {"train_data_upsampling_factors": "1"},
    "two factors for one source": {
        "train_data_upsampling_factors": "1::2",
        "dataset_resampled": True,
    },
    "one factor": {"train_data_upsampling_factors": "2.5", "dataset_resampled": True},
    "a factor that is no number": {
        "train_data_upsampling_factors": "two",
        "dataset_resampled": True,
    },
    "a folder": {"train_data": "shards/"},
    "compressed": {"train_data": "{0000..0003}.tar.gz"},
    "compressed, type given": {"train_data": "{0000..0003}.tar.gz", "dataset_type": "webdataset"},
    "variable": {"train_data": "${NOT_SET_ANYWHERE}/{0000..0003}.tar"},
    "val data of unknown type": {"val_data": "x.parquet"},
    "open brace": {"train_data": "{0000..0003.tar"},
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("changes", COMMANDS.values(), ids=COMMANDS)
def test_a_command_starts_or_its_error_is_foreseen(tmp_path, changes):
    evidence = write(tmp_path, [plain(2)] * SHARDS)
    command = Arguments(
        train_data=f"{tmp_path}/{{0000..0003}}.tar", train_num_samples=60, workers=1, batch_size=1
    )
    command = replace(command, **changes)
    found = foreseen_start(command, evidence)
    if isinstance(found, int) and command.world_size > 1:
        found = -(-found // command.world_size)
    assert found == real_start(command)


@pytest.mark.parametrize(
    ("files", "changes", "crash"),
    [
        ("sizes of nothing", {}, "RuntimeError: the entries of sizes.json add up to 0"),
        ("length of nothing", {}, "RuntimeError: __len__ next to the first shard says 0"),
        (
            "no file",
            {},
            (
                "RuntimeError: no --train-num-samples, and neither sizes.json nor __len__ next to"
                " the first shard"
            ),
        ),
        (
            "length",
            {"train_data_upsampling_factors": "0", "dataset_resampled": True},
            "ValueError: the sum of --train-data-upsampling-factors is no number above 0",
        ),
        (
            "length",
            {"train_data_upsampling_factors": "inf", "dataset_resampled": True},
            "ValueError: the sum of --train-data-upsampling-factors is no number above 0",
        ),
        (
            "length",
            {"train_data": "{0..3}{0..99}.tar"},
            "--train-data names more than 399 shards: several ranges in one word multiply",
        ),
        (
            "length",
            {"train_data": "{0000..0003.tar", "dataset_type": "webdataset"},
            "UnbalancedBracesError: --train-data has unbalanced braces",
        ),
        (
            "length",
            {"val_data": "v.tar::{0000..0003.tar"},
            "UnbalancedBracesError: --val-data has unbalanced braces",
        ),
        (
            "length",
            {"val_data": "v.tar::${NOT_SET}.tar"},
            "AssertionError: --val-data uses the environment variable WDS_NOT_SET, which is not set",
        ),
        (
            "length",
            {"val_data": "{0..3}{0..99}.tar"},
            "--val-data names more than 399 shards: several ranges in one word multiply",
        ),
        # The name of a csv is not expanded.
        ("length", {"val_data": "{0000..0003.csv"}, None),
    ],
)
def test_a_command_that_cannot_start_is_foreseen_in_these_words(
    tmp_path, files, changes, crash, monkeypatch
):
    monkeypatch.setattr("wdsflow.readers.open_clip.startup._MOST_URLS", 399)
    for name, text in FILES[files].items():
        (tmp_path / name).write_text(text)
    urls = [str(tmp_path / name) for name in SIZES]
    evidence = Evidence("names", [ShardEvidence(single_shard(url)) for url in urls])
    command = Arguments(train_data=f"{tmp_path}/{{0000..0003}}.tar", workers=1, batch_size=1)
    found = simulate_start(replace(command, **changes), urls, read_sidecars(urls, evidence))
    assert found.crash == crash


@pytest.mark.parametrize(
    "text",
    ["a-{000..012}.tar", "a-{0..3}.tar::b-{x,y}.tar", "${PART}/{0..1}.tar", "pipe:cat {0..1}.tar"],
)
def test_urls_are_expanded_as_webdataset_does(monkeypatch, text):
    shardlists = pytest.importorskip("webdataset.shardlists")
    monkeypatch.setenv("WDS_PART", "${DEEP}/x")
    monkeypatch.setenv("WDS_DEEP", "y")
    assert list(openclip_urls(text)) == shardlists.expand_urls(text)


def test_validation_data_of_an_unknown_type_is_foreseen(tmp_path):
    command = Arguments(
        train_data=str(tmp_path / "0.tar"),
        val_data="x.parquet",
        dataset_type="auto",
        train_num_samples=9,
        workers=1,
        batch_size=1,
    )
    shard = ShardEvidence(single_shard(command.train_data))

    found = simulate_start(
        command, [shard.url], read_sidecars([shard.url], Evidence("names", [shard]))
    )

    assert found.crash_kind == "dataset-type"
    assert "the extension 'parquet' of --val-data" in found.crash


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("changed", "sizes", "kind"),
    [
        ({}, {}, "samples"),
        ({}, {"upsampling-factors.tar": "many"}, "samples"),
        ({}, {"upsampling-factors.tar": 0}, "samples"),
        ({"train_num_samples": 9, "workers": 3}, {}, "shards"),
        (
            {"train_num_samples": 9, "dataset_type": "auto", "train_data": "upsampling-factors"},
            {},
            "dataset-type",
        ),
        ({"train_num_samples": 9, "train_data_upsampling_factors": "1"}, {}, "weights"),
        ({"train_num_samples": 0}, {}, "other"),
    ],
)
def test_a_crash_says_what_it_is_about_whatever_shards_are_called(tmp_path, changed, sizes, kind):
    shard = tmp_path / "upsampling-factors.tar"
    if sizes:
        (tmp_path / "sizes.json").write_text(json.dumps(sizes))
    command = replace(
        Arguments(train_data=str(shard), dataset_type="webdataset", workers=1, batch_size=1),
        **changed,
    )
    found = simulate_start(
        command,
        [str(shard)],
        read_sidecars([str(shard)], Evidence("names", [ShardEvidence(single_shard(str(shard)))])),
    )
    assert found.crash is not None
    assert found.crash_kind == kind
