"""The training command, against open_clip_train's own parser."""

import random
import shlex

import pytest

from wdsflow.readers import OpenClip4, OpenClip33
from wdsflow.readers.base import Options
from wdsflow.readers.open_clip import arguments as module
from wdsflow.readers.open_clip.arguments import (
    Arguments,
    ArgumentsError,
    parse_arguments,
    parse_without_openclip,
)

OTHERS = {"precision"}  # has another default in OpenCLIP 4, and changes nothing about data

# Flags of 3.3.0, some of which the small parser does not know.
VALUES = {
    "--train-data": ["s/{000..012}.tar", "a.tar::b.tar", "pipe:curl -sf http://x/{0..3}.tar"],
    "--val-data": ["v/0.tar"],
    "--train-num-samples": ["0", "12345"],
    "--val-num-samples": ["77"],
    "--dataset-type": ["webdataset", "csv", "auto"],
    "--train-data-upsampling-factors": ["1::2.5"],
    "--seed": ["0", "-1", "42"],
    "--workers": ["0", "9"],
    "--batch-size": ["1", "256"],
    "--accum-freq": ["4"],
    "--epochs": ["1", "100"],
    "--warmup": ["0", "2000"],
    "--val-frequency": ["0", "5"],
    "--precision": ["amp_bf16", "fp32"],
    "--model": ["ViT-B-32", "coca_ViT-L-14"],
    "--force-image-size": ["336", "256 128"],
    "--force-context-length": ["32"],
    "--dataset-resampled": [""],
    "--skip-scheduler": [""],
    "--lr": ["1e-3"],
    "--wd": ["0.1"],
    "--lr-scheduler": ["cosine"],
    "--report-to": ["tensorboard"],
    "--image-mean": ["0.5 0.5 0.5"],
    "--aug-cfg": ["scale=(0.9,1.0)"],
    "--local-loss": [""],
    "--name": ["my run"],
}


def commands(count):
    rng = random.Random(7)
    for _ in range(count):
        flags = rng.sample(sorted(VALUES), rng.randint(0, 9))
        words = []
        for flag in flags:
            value = rng.choice(VALUES[flag])
            several = flag in ("--force-image-size", "--image-mean")
            words += [flag, *(value.split() if several else [value] if value else [])]
        yield words


def test_the_small_parser_reads_what_openclip_reads():
    params = pytest.importorskip("open_clip_train.params")
    for words in commands(200):
        mine, real = vars(parse_without_openclip(words)), vars(params.parse_args(words))
        shared = (mine.keys() & real.keys()) - OTHERS
        assert len(shared) > 15
        assert {name: mine[name] for name in shared} == {name: real[name] for name in shared}, words


def test_defaults_are_those_of_openclip():
    params = pytest.importorskip("open_clip_train.params")
    real = vars(params.parse_args([]))
    default = Arguments()
    shared = [
        name for name in Arguments.__dataclass_fields__ if name in real and name not in OTHERS
    ]
    assert {name: getattr(default, name) for name in shared} == {
        name: real[name] for name in shared
    }
    parsed = parse_arguments([])
    assert {name: getattr(parsed, name) for name in shared} == {name: real[name] for name in shared}


@pytest.fixture
def without_openclip(monkeypatch):
    monkeypatch.setattr(module, "installed_openclip", lambda: None)


@pytest.fixture
def with_openclip_33(monkeypatch):
    pytest.importorskip("open_clip_train.params")
    if not (module.installed_openclip() or "").startswith("3."):
        pytest.skip("needs OpenCLIP 3")


def test_flags_of_openclip_4_are_read_where_nothing_is_installed(without_openclip):
    parsed = parse_arguments(
        ["--json-text-key", "caption;alt", "--max-image-pixels", "0", "--text-key", "cap"]
    )
    assert parsed.options(OpenClip4) == Options(
        json_text_key="caption;alt", max_image_pixels=0, text_key="cap", workers=4
    )
    assert parsed.options(OpenClip33) == Options(workers=4)
    assert parsed.parser == "wdsflow"


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ([], None),
        (["--force-image-size", "336"], (336,)),
        (["--force-image-size", "256", "128"], (256, 128)),
    ],
)
def test_sizes_are_several_numbers_for_each_parser(words, size, monkeypatch):
    assert parse_arguments(words).force_image_size == size
    monkeypatch.setattr(module, "installed_openclip", lambda: None)
    assert parse_arguments(words).force_image_size == size


def test_a_mistyped_flag_is_refused_where_nothing_is_installed(without_openclip):
    for word in ("--trian-data", "--train_data"):
        with pytest.raises(ArgumentsError, match=f"^unrecognized arguments: {word}"):
            parse_arguments([word, "shards"])
    assert parse_arguments(["--lr", "1e-3", "--something-else"]).parser == "wdsflow"


def test_flags_of_openclip_4_are_refused_for_3_3_and_named(without_openclip):
    with pytest.raises(ArgumentsError, match="--image-key exists from OpenCLIP 4 on"):
        parse_arguments(["--image-key=png"], readers=[OpenClip33])


def test_flags_of_openclip_4_are_refused_where_3_3_is_installed_unless_4_is_asked_for(
    with_openclip_33,
):
    with pytest.raises(
        ArgumentsError, match=r"--json-text-key exists from OpenCLIP 4 on; open_clip_torch 3\."
    ):
        parse_arguments(["--json-text-key", "caption"])
    assert (
        parse_arguments(["--json-text-key", "caption"], readers=[OpenClip4]).json_text_key
        == "caption"
    )


@pytest.mark.parametrize(
    "flag",
    [
        "--text-pooler-own-group",
        "--audio-fusion",
        "--audio-int16-normalize",
        "--audio-zeroshot-dataset x",
        "--audio-layer-decay 0.9",
        "--opt-fallback-list a",
        "--pretrained-audio x",
        "--image-layer-decay 0.9",
    ],
)
def test_flags_of_openclips_main_branch_are_known(flag, with_openclip_33):
    with pytest.raises(ArgumentsError, match=f"{flag.split()[0]} exists from OpenCLIP 4 on"):
        parse_arguments(flag.split())
    assert parse_arguments(flag.split(), readers=[OpenClip4]).parser == "wdsflow"


def test_an_unknown_flag_is_refused_in_openclips_words(with_openclip_33, capfd):
    with pytest.raises(
        ArgumentsError,
        match=r"^unrecognized arguments: --train-date x; did you mean --train-data\?$",
    ):
        parse_arguments(["--train-date", "x"])
    assert capfd.readouterr() == ("", "")


def test_a_mistyped_flag_that_is_not_about_data_is_named():
    with pytest.raises(ArgumentsError, match="did you mean --lr-scheduler"):
        parse_arguments(shlex.split("--train-data a.tar --lr-schedulr cosine"))


@pytest.mark.parametrize("installed", [True, False])
def test_braces_that_the_shell_expanded_are_recognised(installed, request):
    request.getfixturevalue("with_openclip_33" if installed else "without_openclip")
    words = shlex.split("--train-data s/0.tar s/1.tar s/2.tar --workers 2")
    with pytest.raises(ArgumentsError, match="put the pattern in quotes"):
        parse_arguments(words)


@pytest.mark.parametrize(
    "words",
    [["--batch-size", "0"], ["--workers", "-1"], ["--accum-freq", "0"], ["--workers", "many"]],
)
def test_arguments_that_make_no_sense_are_refused(words):
    with pytest.raises(ArgumentsError):
        parse_arguments(words)


@pytest.mark.parametrize("words", [["--help"], ["--workers", "2", "-h"]])
def test_who_asks_for_openclips_help_is_told_where_it_is_whether_or_not_it_is_installed(
    words, without_openclip
):
    with pytest.raises(ArgumentsError, match=r"run python -m open_clip_train\.main --help$"):
        parse_arguments(words)


def test_ranks_are_shared_out_among_machines():
    assert parse_arguments([], world_size=32).local_world_size == 8
    assert parse_arguments([], world_size=2).local_world_size == 2
    assert parse_arguments([], world_size=32, local_world_size=4).local_world_size == 4
    with pytest.raises(ArgumentsError, match="--world-size"):
        parse_arguments([], world_size=0)
    with pytest.raises(ArgumentsError, match="--world-size"):
        parse_arguments([], world_size=2, local_world_size=4)
