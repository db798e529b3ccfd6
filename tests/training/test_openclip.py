"""The feed beside OpenCLIP's own loader: the same shards in the same order, the same tensors."""

import io
import random
from itertools import pairwise

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

import open_clip
import torch
from open_clip_train import data as upstream
from PIL import Image

from tests.training.shards import arguments, as_text, texts, write_shards, write_tar
from wdsflow import FeedOptions, get_data
from wdsflow.training import get_wds_dataset
from wdsflow.training.feed_options import SampleError

if "naflex_data_config" in upstream.get_wds_dataset.__code__.co_varnames:
    pytest.skip("these compare with OpenCLIP 3.3", allow_module_level=True)

# OpenCLIP's own loader leaves shards open.
pytestmark = [
    pytest.mark.webdataset,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
EVAL = open_clip.image_transform(32, is_train=False)


def old_webdataset():
    """OpenCLIP 3.3's own loader works with webdataset up to 0.2.94 only."""
    from inspect import signature

    from webdataset.tariterators import tar_file_expander

    return "eof_value" not in signature(tar_file_expander).parameters


needs_their_loader = pytest.mark.skipif(
    not old_webdataset(), reason="OpenCLIP's own loader fails with this webdataset"
)


@pytest.fixture
def unshuffled(monkeypatch):
    """Samples in the order of their shards: that of OpenCLIP's shuffle is not to be foreseen."""
    monkeypatch.setattr(upstream, "_SAMPLE_SHUFFLE_SIZE", 1)
    monkeypatch.setattr(upstream, "_SAMPLE_SHUFFLE_INITIAL", 1)
    monkeypatch.setenv("OPENCLIP_WDS_SAMPLE_SHUFFLE_SIZE", "1")
    monkeypatch.setenv("OPENCLIP_WDS_SAMPLE_SHUFFLE_INITIAL", "1")


def epochs(dataset, count):
    found = []
    for epoch in range(count):
        dataset.set_epoch(epoch)
        found.append([texts(batch) for batch in dataset.dataloader])
    return found


@pytest.mark.sample(1)
@needs_their_loader
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.deep), 3])
@pytest.mark.parametrize("world", [pytest.param(1, marks=pytest.mark.deep), 2])
@pytest.mark.parametrize("resampled", [False, True])
@pytest.mark.parametrize("seed", [0, pytest.param(7, marks=pytest.mark.deep)])
def test_each_worker_of_each_rank_reads_what_openclips_reads(
    tmp_path, monkeypatch, unshuffled, workers, world, resampled, seed
):
    data = write_shards(tmp_path, [5, 9, 4, 7, 12, 6, 8])
    for rank in range(world):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        args = arguments(
            train_data=data,
            train_num_samples=60,
            workers=workers,
            batch_size=4,
            seed=seed,
            world_size=world,
            rank=rank,
            dataset_resampled=resampled,
        )
        results = []
        for make in (upstream.get_wds_dataset, get_wds_dataset):
            torch.manual_seed(5 + rank)
            dataset = make(args, EVAL, True, tokenizer=as_text)
            results.append(
                (dataset.dataloader.num_batches, dataset.dataloader.num_samples, epochs(dataset, 3))
            )
        assert results[0] == results[1]


@needs_their_loader
def test_shards_that_are_read_five_times_an_epoch_give_what_openclips_loader_gives(
    tmp_path, unshuffled
):
    args = arguments(
        train_data=write_shards(tmp_path, [4, 3]), train_num_samples=30, workers=1, batch_size=3
    )
    results = []
    for make in (upstream.get_wds_dataset, get_wds_dataset):
        torch.manual_seed(1)
        results.append(epochs(make(args, EVAL, True, tokenizer=as_text), 2))
    assert results[0] == results[1]
    assert [len(batches) for batches in results[0]] == [10, 10]


@needs_their_loader
def test_weighted_sources_are_drawn_as_openclip_draws_them(tmp_path, unshuffled):
    first, second = write_shards(tmp_path / "a", [5, 6]), write_shards(tmp_path / "b", [7, 4, 3])
    args = arguments(
        train_data=f"{first}::{second}",
        train_num_samples=60,
        workers=2,
        batch_size=3,
        dataset_resampled=True,
        train_data_upsampling_factors="1::3.5",
    )
    results = []
    for make in (upstream.get_wds_dataset, get_wds_dataset):
        torch.manual_seed(1)
        results.append(epochs(make(args, EVAL, True, tokenizer=as_text), 2))
    assert results[0] == results[1]


@needs_their_loader
@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_gives_equal_tensors_in_equal_batches(tmp_path, workers):
    rng = random.Random(3)
    members = []
    for number in range(23):
        stream = io.BytesIO()
        size = (rng.randrange(20, 90), rng.randrange(20, 90))
        image = Image.frombytes("RGB", size, rng.randbytes(3 * size[0] * size[1]))
        kind = rng.choice(["jpeg", "png", "webp"])
        image.save(stream, kind)
        members += [
            (f"{number}.{kind}", stream.getvalue()),
            (f"{number}.txt", f"a picture, number {number}".encode()),
        ]
    write_tar(tmp_path / "0000.tar", members[:20])
    write_tar(tmp_path / "0001.tar", members[20:])
    args = arguments(val_data=f"{tmp_path}/{{0000..0001}}.tar", workers=workers, batch_size=4)
    tokenizer = open_clip.get_tokenizer("RN50")
    theirs = list(upstream.get_wds_dataset(args, EVAL, False, tokenizer=tokenizer).dataloader)
    ours = list(
        get_wds_dataset(
            args, EVAL, False, tokenizer=tokenizer, options=FeedOptions(decode="reference")
        ).dataloader
    )
    assert [type(batch) for batch in ours] == [type(batch) for batch in theirs]
    for (images, tokens), (their_images, their_tokens) in zip(ours, theirs, strict=True):
        assert torch.equal(tokens, their_tokens)
        assert torch.equal(images, their_images)


@pytest.mark.deep
def test_augmentation_draws_what_the_samples_seed_gives(tmp_path, unshuffled):
    stream = io.BytesIO()
    image = Image.frombytes("RGB", (64, 64), random.Random(1).randbytes(64 * 64 * 3))
    image.save(stream, "png")
    # Small parts: where a large part does not fit into the image, torchvision takes the whole,
    # which is never new.
    preprocess = open_clip.image_transform(32, is_train=True, aug_cfg={"scale": (0.1, 0.5)})
    runs = []
    for folder in ("here", "elsewhere"):
        data = tmp_path / folder / "0000.tar"
        data.parent.mkdir()
        write_tar(data, [("a.png", stream.getvalue()), ("a.txt", b"noise")])
        args = arguments(train_data=str(data), train_num_samples=8, workers=0, batch_size=1)
        dataset = get_wds_dataset(
            args, preprocess, True, tokenizer=as_text, options=FeedOptions(decode="reference")
        )
        for _ in range(2):
            dataset.set_epoch(0)
            runs.append([images[0].clone() for images, _ in dataset.dataloader])
    drawn, *again = runs
    assert not any(torch.equal(one, two) for one, two in pairwise(drawn))  # each visit draws again
    assert all(torch.equal(one, two) for run in again for one, two in zip(drawn, run, strict=True))


def test_an_unknown_transform_gets_a_pil_image(tmp_path):
    data = write_shards(tmp_path, [6])

    def preprocess(image):
        assert isinstance(image, Image.Image)
        return torch.tensor([float(image.width), float(image.height), random.random()])

    args = arguments(train_data=data, train_num_samples=12, workers=1, batch_size=3)
    dataset = get_wds_dataset(args, preprocess, True, tokenizer=as_text)
    seen = [images.clone() for images, _ in dataset.dataloader]
    assert all(torch.equal(images[:, :2], torch.tensor([[40.0, 32.0]] * 3)) for images in seen)
    dataset.set_epoch(0)
    again = [images.clone() for images, _ in dataset.dataloader]
    # What it draws depends on the sample's seed alone.
    assert torch.equal(torch.cat(seen), torch.cat(again))


def test_an_error_of_the_users_transform_names_the_sample(tmp_path):
    data = write_shards(tmp_path, [6])

    def preprocess(image):
        raise ZeroDivisionError("of mine")

    args = arguments(train_data=data, train_num_samples=12, workers=1, batch_size=3)
    with pytest.raises(RuntimeError, match=r"(?s)000000.*0000\.tar.*of mine|of mine.*000000"):
        list(get_wds_dataset(args, preprocess, True, tokenizer=as_text).dataloader)


def test_an_error_of_the_users_tokenizer_names_the_sample(tmp_path):
    data = write_shards(tmp_path, [6])

    def tokenizer(text):
        if "0/3" in text:
            raise ZeroDivisionError("of mine")
        return [text]

    args = arguments(train_data=data, train_num_samples=12, workers=1, batch_size=3)
    with pytest.raises(RuntimeError, match=r"'0000003'.*0000\.tar.*of mine"):
        list(get_wds_dataset(args, EVAL, True, tokenizer=tokenizer).dataloader)


def test_a_tokenizer_that_takes_only_a_list_gives_the_tokens_of_whole_captions(tmp_path):
    def tokenizer(texts):
        return torch.stack([torch.tensor([len(text), *map(ord, text[:3])]) for text in texts])

    args = arguments(
        train_data=write_shards(tmp_path, [9]), train_num_samples=8, workers=1, batch_size=4
    )
    for where in ("threads", "processes"):
        options = FeedOptions(decode_in=where, status_every=0.0)
        loading = get_wds_dataset(args, EVAL, True, tokenizer=tokenizer, options=options).dataloader
        rows = [row for _, tokens in loading for row in tokens.tolist()]
        assert len(rows) == 8
        assert all(row[:3] == [3, ord("0"), ord("/")] for row in rows)


def test_a_tokenizer_without_a_row_for_each_caption_is_an_error_that_blames_no_sample(tmp_path):
    args = arguments(
        train_data=write_shards(tmp_path, [6]), train_num_samples=12, workers=1, batch_size=3
    )
    with pytest.raises(SampleError, match="it returned 3 rows") as caught:
        list(get_wds_dataset(args, EVAL, True, tokenizer=lambda text: [text] * 3).dataloader)
    assert "takes a list of n captions and returns n rows" in str(caught.value)
    assert "0000.tar" not in str(caught.value)


def test_get_data_serves_training_and_validation(tmp_path):
    data = write_shards(tmp_path, [8, 8])
    args = arguments(train_data=data, val_data=data, train_num_samples=16, workers=2, batch_size=4)
    found = get_data(args, (EVAL, EVAL), epoch=3, tokenizer=open_clip.get_tokenizer("RN50"))
    assert set(found) == {"train", "val"}
    assert found["train"].shared_epoch.get_value() == 3
    images, tokens = next(iter(found["train"].dataloader))
    assert images.shape == (4, 3, 32, 32)
    assert images.dtype == torch.float32
    assert tokens.shape == (4, 77)
    assert sum(len(images) for images, _ in found["val"].dataloader) == 16


@pytest.mark.parametrize("sizes", [None, '{"0000.tar": -1, "0001.tar": 9}', '{"0000.tar": 8}'])
def test_samples_are_counted_where_nobody_tells_their_number(tmp_path, caplog, sizes):
    data = write_shards(tmp_path, [8, 9])
    if sizes is not None:
        (tmp_path / "sizes.json").write_text(sizes)
    args = arguments(train_data=data, workers=1, batch_size=4)
    assert get_wds_dataset(args, EVAL, True, tokenizer=as_text).dataloader.num_samples == 20
    assert ("sizes.json cannot be used, samples are counted: it " in caplog.text) == (
        sizes is not None
    )


def test_too_few_shards_are_refused_with_a_way_out(tmp_path):
    args = arguments(
        train_data=write_shards(tmp_path, [8]), train_num_samples=8, workers=2, batch_size=4
    )
    with pytest.raises(
        AssertionError,
        match=r"(?s)number of shards must be >= total workers: 1 shard for.*balanced",
    ):
        get_wds_dataset(args, EVAL, True, tokenizer=as_text)


def test_other_kinds_of_data_come_from_openclip(tmp_path):
    args = arguments(dataset_type="synthetic", train_num_samples=8, workers=0, batch_size=4)
    train = open_clip.image_transform(32, is_train=True)
    found = get_data(args, (train, EVAL), tokenizer=open_clip.get_tokenizer("RN50"))
    assert len(list(found["train"].dataloader)) == 2
