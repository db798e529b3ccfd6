"""What get_data needs, and what it says where something is missing or cannot be used."""

import random
import re
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import faults

from wdsflow.example_shards import draw

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import torch

from tests.training.shards import as_text, jpeg, texts, write_shards, write_tar
from tests.training.test_loader import EVAL
from wdsflow import FeedOptions, get_data
from wdsflow.training import get_wds_dataset
from wdsflow.training.feed_options import SampleError
from wdsflow.training.workers import sample_work

QUIET = FeedOptions(status_every=0.0, decode_in="threads")
BOTH = (EVAL, EVAL)


@pytest.mark.parametrize("make", [Namespace, SimpleNamespace, dict])
def test_shards_are_all_that_arguments_must_name(tmp_path, make):
    args = make(train_data=write_shards(tmp_path, [20, 20]), workers=1, batch_size=8)
    loading = get_data(args, BOTH, tokenizer=as_text, options=QUIET)["train"].dataloader
    assert loading.num_batches == 5
    assert len({text for batch in loading for text in texts(batch)}) == 40
    evaluation = make(val_data=write_shards(tmp_path, [20, 20]))
    assert set(get_data(evaluation, BOTH, tokenizer=as_text, options=QUIET)) == {"val"}


def test_arguments_without_data_are_refused():
    with pytest.raises(ValueError, match=r"args names no data: set train_data, .* or val_data"):
        get_data(Namespace(batch_size=8), BOTH, tokenizer=as_text)
    with pytest.raises(TypeError, match=r"args is a list; it must be a Namespace"):
        get_data(["--train-data", "a.tar"], BOTH, tokenizer=as_text)


def test_what_cannot_be_called_is_refused_before_any_sample_is_read(tmp_path):
    args = Namespace(train_data=write_shards(tmp_path, [20]), workers=1)
    with pytest.raises(
        TypeError,
        match=r"the image transform for training is None; .* open_clip.image_transform\(224",
    ):
        get_data(args, (None, EVAL), tokenizer=as_text)
    with pytest.raises(TypeError, match="preprocess_fns must be a pair"):
        get_data(args, None, tokenizer=as_text)
    with pytest.raises(TypeError, match="the tokenizer is 'RN50'; it must be a callable"):
        get_data(args, BOTH, tokenizer="RN50")
    # Nothing to evaluate on.
    assert get_data(args, (EVAL, None), options=QUIET)["train"].dataloader.num_batches == 1


def test_a_fault_of_our_own_is_not_blamed_on_a_sample(tmp_path, monkeypatch):
    def broken(*_):
        raise AssertionError("of ours")

    monkeypatch.setattr(sample_work, "read_members", broken)
    args = Namespace(train_data=write_shards(tmp_path, [20]), workers=1)
    with pytest.raises(
        RuntimeError, match=r"wdsflow failed \(read\) .* of ours. This is a fault of wdsflow"
    ) as caught:
        next(iter(get_data(args, BOTH, tokenizer=as_text, options=QUIET)["train"].dataloader))
    assert "image transform" not in str(caught.value)
    assert "without this sample" not in str(caught.value)
    assert isinstance(caught.value.__cause__, AssertionError)


@pytest.mark.usefixtures("new_interpreters")
def test_without_openclip_the_command_that_installs_it_is_printed():
    code = "import sys; sys.modules['open_clip_train'] = None; from wdsflow import get_data"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "open_clip_train is not installed; it comes with: " in last
    assert "pip install" in last
    assert "openclip" in last


def test_the_example_of_the_page_gives_two_epochs_that_differ(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "training-details.md").read_text()
    [example] = re.findall(r"```python\n(import open_clip\n.*?)```", page, re.DOTALL)
    code = example.replace("        ...\n", "        given[epoch].append(texts.tolist())\n")
    assert code != example
    faults.valid(tmp_path / "shards", draw(40))
    monkeypatch.chdir(tmp_path)
    given = [[], []]
    exec(code, {"given": given})
    first, second = given
    assert [len(epoch) for epoch in given] == [6, 6]
    assert first != second


def test_a_tokenizer_of_plain_lists_gives_batches_of_tensors_or_is_refused_in_words(tmp_path):
    args = {"train_data": write_shards(tmp_path, [20]), "workers": 1, "batch_size": 8}
    even = get_data(args, BOTH, tokenizer=lambda texts: [[1, 2, 3] for _ in texts], options=QUIET)
    batch = next(iter(even["train"].dataloader))
    tokens = batch["text"] if isinstance(batch, dict) else batch[1]
    assert (tokens.dtype, tokens.shape) == (torch.long, (8, 3))
    uneven = get_data(
        args, BOTH, tokenizer=lambda texts: [[1] * int(text[2:]) for text in texts], options=QUIET
    )
    with pytest.raises(
        SampleError, match=r"(?s)its rows have different lengths: .*returns n rows of one length"
    ):
        next(iter(uneven["train"].dataloader))


@pytest.mark.parametrize("counted", [None, 40])
@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("nope/{000..003}.tar", "no shards match '.*nope/{000..003}.tar': no such folder: .*nope"),
        ("{0000-0001}.tar", "a range in braces has two dots: '.*/{0000..0001}.tar'"),
        ("0009.tar", "no shards match '.*0009.tar': no such file: "),
        (
            "{0000..0001}.tar::{tmp}/nope/{0..3}.tar",
            "no shards match '.*/nope/{0..3}.tar': no such folder",
        ),
    ],
)
def test_shards_that_are_not_there_are_refused_before_anything_is_read(
    tmp_path, data, told, counted
):
    write_shards(tmp_path, [20, 20])
    args = {"workers": 1, "train_num_samples": counted}
    named = f"{tmp_path}/{data.replace('{tmp}', str(tmp_path))}"
    for which in ("train_data", "val_data"):
        with pytest.raises(ValueError, match=told):
            get_data({**args, which: named}, BOTH, tokenizer=as_text, options=QUIET)


def test_one_missing_shard_of_several_is_told_at_once(tmp_path, caplog):
    data = write_shards(tmp_path, [20, 20, 20])
    (tmp_path / "0001.tar").unlink()
    get_data({"train_data": data, "workers": 1}, BOTH, tokenizer=as_text, options=QUIET)
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line == f"feed: 1 of 3 shards not there, first: {tmp_path}/0001.tar"


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        (
            {"batchsize": 4},
            ValueError,
            "args has 'batchsize', which nothing reads: did you mean batch_size?",
        ),
        (
            {"num_workers": 4},
            ValueError,
            "args has 'num_workers', which nothing reads: did you mean workers?",
        ),
        ({"workers": "2"}, TypeError, "workers in args is '2'; it must be a whole number"),
        ({"batch_size": None}, TypeError, "batch_size in args is None; it must be a whole number"),
        ({"batch_size": 0}, ValueError, "batch_size in args is 0; it must be at least 1"),
        (
            {"train_num_samples": -1},
            ValueError,
            "train_num_samples in args is -1; it must be at least 1",
        ),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused_in_words(tmp_path, given, kind, told):
    data = write_shards(tmp_path, [8])
    with pytest.raises(kind, match=re.escape(told)):
        get_data({"train_data": data, **given}, BOTH, tokenizer=as_text, options=QUIET)
    mine = {
        "workers": 1,
        "batch_size": 4,
        "num_workers": 4,
        "local_rank": 0,
        "speed": 2.0,
        "lr": 0.1,
    }
    assert get_data({"train_data": data, **mine}, BOTH, tokenizer=as_text, options=QUIET)


@pytest.mark.deep
def test_of_a_tokenizer_that_draws_only_the_images_are_the_same_with_other_decoders(tmp_path):
    """As the limits in docs/training-details.md say."""
    args = {"train_data": write_shards(tmp_path, [20]), "workers": 1, "batch_size": 20}

    def draws(text):
        if not isinstance(text, str):
            raise TypeError("one caption at a time")
        return torch.tensor([[random.randrange(1 << 30) for _ in range(4)]])

    def batch(decoders):
        options = FeedOptions(status_every=0.0, decode_in="processes", decoders=decoders)
        loading = get_data(args, BOTH, tokenizer=draws, options=options)["train"].dataloader
        found = next(iter(loading))
        loading.close()
        return list(found.values()) if isinstance(found, dict) else found

    (images, tokens), (same, others) = batch(1), batch(2)
    assert torch.equal(images, same)
    assert not torch.equal(tokens, others)


WEIGHTS = {
    "without drawing": (
        {"train_data_upsampling_factors": "1"},
        "is given without",
        'set args["dataset_resampled"] = True',
    ),
    "too many": (
        {"train_data_upsampling_factors": "1::2", "dataset_resampled": True},
        "2 factors for 1 source in",
        "",
    ),
    "one for two": (
        {"train_data_upsampling_factors": 2.0, "dataset_resampled": True, "twice": 1},
        "1 factor for 2",
        "",
    ),
    "a word": (
        {"train_data_upsampling_factors": "two", "dataset_resampled": True},
        "is 'two'; it must be",
        "",
    ),
    "nothing": (
        {"train_data_upsampling_factors": [0], "dataset_resampled": True},
        "is [0]; it must be",
        "",
    ),
    "no number": (
        {"train_data_upsampling_factors": "nan", "dataset_resampled": True},
        "is 'nan'; it must be",
        "",
    ),
}


@pytest.mark.parametrize(("given", "told", "fix"), WEIGHTS.values(), ids=WEIGHTS)
def test_upsampling_factors_that_cannot_be_used_are_refused_in_words_of_args(
    tmp_path, given, told, fix
):
    data = write_shards(tmp_path, [8])
    given = {
        "train_data": "::".join([data] * (1 + given.get("twice", 0))),
        "workers": 1,
        "batch_size": 4,
        **given,
    }
    with pytest.raises(ValueError, match=re.escape(told)) as caught:
        get_data(given, BOTH, tokenizer=as_text, options=QUIET)
    assert str(caught.value).startswith('args["train_data_upsampling_factors"] ')
    assert fix in str(caught.value)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("{0000..0001.tar", "Unbalanced braces: '{0000..0001.tar'"),
        ("${NOWHERE}/0.tar", "set the environment variable WDS_NOWHERE"),
    ],
)
def test_names_that_cannot_be_expanded_are_refused_in_words(data, told):
    for which in ("train_data", "val_data"):
        with pytest.raises(ValueError, match=re.escape(told)):
            get_data({which: data, "workers": 1}, BOTH, tokenizer=as_text, options=QUIET)


def test_too_little_memory_is_refused_with_options_that_are_enough(tmp_path):
    args = {"train_data": write_shards(tmp_path, [8]), "workers": 1, "batch_size": 4}
    with pytest.raises(ValueError, match="memory of 10,000,000 bytes is too little") as caught:
        get_data(args, BOTH, tokenizer=as_text, options=replace(QUIET, memory="10MB"))
    assert 'smaller batches: args["batch_size"]' in str(caught.value)
    [enough] = re.findall(r"more memory: (FeedOptions.*)", str(caught.value))
    assert (
        get_data(args, BOTH, tokenizer=as_text, options=eval(enough))[
            "train"
        ].dataloader.num_batches
        == 2
    )


def test_a_set_with_captions_in_json_is_refused_with_their_place(tmp_path):
    members = [
        (f"{n}.{kind}", jpeg(n) if kind == "jpg" else b'{"alt": "a cat"}')
        for n in range(8)
        for kind in ("jpg", "json")
    ]
    write_tar(tmp_path / "0.tar", members)
    args = {"train_data": f"{tmp_path}/0.tar", "workers": 1, "batch_size": 4}
    with pytest.raises(
        ValueError, match="none of the samples in 1 shard has an image and a caption"
    ) as caught:
        get_data(args, BOTH, tokenizer=as_text, options=QUIET)
    [told] = re.findall(r"captions are in json, alt .*: (FeedOptions.*)", str(caught.value))
    assert (
        get_data(args, BOTH, tokenizer=as_text, options=eval(told))["train"].dataloader.num_batches
        == 2
    )
    with pytest.raises(
        AssertionError, match=r'fewer workers than 3 \(args\["workers"\]\)\n.*schedule="balanced"'
    ):
        get_data({**args, "workers": 3}, BOTH, tokenizer=as_text, options=eval(told))


def test_imagenet_comes_from_openclips_own_loader(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "val" / name).mkdir(parents=True)
        (tmp_path / "val" / name / "0.jpg").write_bytes(jpeg(3))
    found = get_data(
        Namespace(imagenet_val=str(tmp_path / "val"), workers=0, batch_size=8),
        BOTH,
        tokenizer=as_text,
    )
    assert list(found) == ["imagenet-val"]
    [(images, classes)] = found["imagenet-val"].dataloader
    assert (len(images), classes.tolist()) == (2, [0, 1])


def test_schedules_and_layouts_that_exclude_each_other_are_refused(tmp_path):
    shards = write_shards(tmp_path, [20])
    for args, options, told in (
        ({"train_data": shards}, {"schedule": "balanced"}, ""),
        (
            {"train_data": shards, "dataset_resampled": True},
            {"schedule": "balanced"},
            r'once per epoch, args\["dataset_resampled"\] does not',
        ),
        ({"val_data": shards, "train_data": ""}, {}, "args names no shards: set train_data"),
        ({"train_data": shards}, {}, "args names no shards: set val_data"),
    ):
        given = Namespace(**{"workers": 1, "batch_size": 4, **args})
        making = partial(get_wds_dataset, given, EVAL, "val_data" not in told, tokenizer=as_text)
        chosen = replace(QUIET, **options)
        if told:
            with pytest.raises(ValueError, match=told):
                making(options=chosen)
        else:
            assert making(options=chosen).dataloader.num_batches == 5
