"""Shards in S3, from the command line to the training feed, with a real server on loopback."""

import filecmp
import importlib
import io
import os
import shlex
import sys
import time
from random import Random

import pyarrow.csv
import pyarrow.parquet
import pytest
from PIL import Image

pytest.importorskip("s3fs")
pytest.importorskip("moto")

import wdsflow
from tests.cli.commands import report, run
from tests.filtering.shards import write_shards
from tests.servers import put, s3_server, use_s3
from tests.shards.archives import write_tar
from wdsflow.shards.cache.shard_cache import ShardCache
from wdsflow.shards.shard import Shard
from wdsflow.shards.source import retries as faults
from wdsflow.shards.source.base import SourceError, single_shard
from wdsflow.shards.source.opening import open_source
from wdsflow.shards.urls import NoShards, expand

SET = "s3://bucket/set/{00000..00002}.tar"
WHERE = ("--where", "min_side >= 200 and caption_words >= 2")
DENIED = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:GetObject",
            "Resource": "arn:aws:s3:::bucket/secret.tar",
        }
    ],
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Serve shards from S3, and log the requests.

    There are three shards of pictures, one of large members, and one that nobody may read.
    """
    folder = tmp_path_factory.mktemp("s3")
    write_shards(folder / "set")
    members = [
        (f"{n:03}.{kind}", data(n))
        for n in range(12)
        for kind, data in (("png", _large), ("txt", _text))
    ]
    write_tar(folder / "large.tar", members)
    with pytest.MonkeyPatch.context() as patch, s3_server() as (url, port, log):
        use_s3(patch, url, folder)
        put(port, "bucket", b"")
        for path in sorted((folder / "set").glob("*.tar")):
            put(port, f"bucket/set/{path.name}", path.read_bytes())
        put(port, "bucket/large.tar", (folder / "large.tar").read_bytes())
        put(port, "bucket/secret.tar", b"x" * 1024)
        put(port, "bucket?policy", DENIED)
        log.port = port
        yield folder, log


@pytest.fixture
def s3(stored, monkeypatch):
    monkeypatch.setattr(faults, "WAITS", (0.0, 0.0, 0.0))
    stored[1].clear()
    return stored


def _large(number):
    """Return a valid image of 1.5 MB: one that is none would be looked at as a whole."""
    image = Image.frombytes("RGB", (700, 700), Random(number).randbytes(3 * 700 * 700))
    file = io.BytesIO()
    image.save(file, "png", compress_level=0)
    return file.getvalue()


def _text(number):
    return f"a picture of {number}".encode()


def test_braces_globs_and_folders_are_lists_of_shards(s3):
    shards = [f"s3://bucket/set/0000{number}.tar" for number in range(3)]
    for pattern in (
        SET,
        "s3://bucket/set/*.tar",
        "s3://bucket/set/",
        "s3://bucket/s*/0000[0-2].tar",
    ):
        assert expand(pattern, allow_pipe=True).urls == shards


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "pattern", ["s3://bucket/none/*.tar", "s3://nowhere/*.tar", "s3://bucket/none/"]
)
def test_a_glob_that_matches_nothing_says_so(s3, pattern):
    with pytest.raises(NoShards) as caught:
        expand(pattern, allow_pipe=True)
    assert caught.value.hint


@pytest.mark.sample(1)
@pytest.mark.parametrize("level", ["names", "headers", "full"])
def test_validate_tells_of_the_bucket_what_it_tells_of_the_folder(s3, capsys, level):
    words = ("--format", "json", "--level", level, "--jobs", 1)
    there, here = run("validate", SET, *words), report(capsys)
    assert run("validate", s3[0] / "set", *words) == there
    local = report(capsys)
    for name in ("samples", "fields"):
        assert here.get(name) == local.get(name)
    assert [verdict["outcome"] for verdict in here["verdicts"]] == [
        verdict["outcome"] for verdict in local["verdicts"]
    ]
    codes = [finding["code"] for finding in here["findings"]]
    assert "P332" in codes  # OpenCLIP needs a command to read these urls
    assert [code for code in codes if code != "P332"] == [
        finding["code"] for finding in local["findings"]
    ]


@pytest.mark.deep
def test_open_clip_needs_a_command_for_urls_that_webdataset_does_not_open(s3, capsys):
    assert run("validate", SET, "--jobs", 1) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "(webdataset <= 0.2.86) through pipe: urls MAY TRAIN up to 60 of 60 samples" in said
    assert (
        "OpenCLIP 3.3.0 opens none of 3 shards, first s3://bucket/set/00000.tar: webdataset opens no s3: urls"
        in said
    )
    assert (
        "wdsflow train does; a command does as well, such as 'pipe:aws s3 cp s3://bucket/set/00000.tar -'"
        in said
    )

    training = (
        "--jobs",
        1,
        "--",
        "--train-num-samples",
        60,
        "--batch-size",
        4,
        "--workers",
        1,
        "--train-data",
    )
    assert run("validate", *training, SET) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "(webdataset <= 0.2.86) STALLS up to 60 of 60 samples are usable: rank 0 worker 0 gets 0 batches"
        in said
    )
    assert (
        f"OpenCLIP 3.3.0 does not open --train-data {SET}: webdataset opens no s3: urls; wdsflow train does"
        in said
    )
    piped = f"pipe:aws s3 cp {SET} -"
    assert f"--train-data '{piped}' --dataset-type webdataset" in said

    # The shards are scanned where they are, and the command reads them in its own way.
    assert (
        run("validate", SET, *training, piped, "--dataset-type", "webdataset", "--warmup", 0) == 0
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "(webdataset <= 0.2.86) MAY TRAIN up to 60 of 60 samples" in said
    assert "P332" not in said


@pytest.mark.deep
@pytest.mark.parametrize("level", ["names", "headers"])
def test_of_large_members_validate_fetches_little(s3, capsys, level):
    run("validate", "s3://bucket/large.tar", "--format", "json", "--level", level, "--jobs", 1)
    size = (s3[0] / "large.tar").stat().st_size
    assert report(capsys)["samples"] == 12
    assert 0 < s3[1].sent("large.tar") < size / 10
    # The begin and the end of each image.
    assert len(s3[1].of("large.tar")) <= 2 * 12 + 4


def test_what_is_missing_or_forbidden_is_a_finding_with_its_reason(s3, capsys):
    words = ("--format", "json", "--jobs", 1)
    assert (
        run(
            "validate",
            "s3://bucket/set/00000.tar",
            "s3://bucket/none.tar",
            "s3://bucket/secret.tar",
            *words,
        )
        == 1
    )
    found = {
        finding["shard"]: finding["message"]
        for finding in report(capsys)["findings"]
        if finding.get("shard")
    }
    assert "no such file" in found["s3://bucket/none.tar"]
    assert "403" in found["s3://bucket/secret.tar"]
    with pytest.raises(SourceError) as caught:
        open_source(single_shard("s3://bucket/secret.tar"))
    assert caught.value.kind == "denied"


def test_inspect_shows_what_is_in_a_shard_of_the_bucket(s3, capsys):
    assert run("inspect", "s3://bucket/set/00001.tar") == 0
    assert "jpg" in capsys.readouterr().out


def test_filter_score_and_cut_write_what_they_write_from_the_folder(s3, tmp_path):
    for name, source in (("there", SET), ("here", s3[0] / "set")):
        out = tmp_path / name
        assert run("filter", source, "-o", out / "filtered", *WHERE, "--jobs", 0) == 0
        assert (
            run(
                "measure",
                source,
                "-o",
                out / "scores",
                "--scores",
                "min_side,caption_words",
                "--jobs",
                0,
            )
            == 0
        )
        assert (
            run(
                "filter", source, "-o", out / "cut", "--ledger", out / "scores", *WHERE, "--jobs", 0
            )
            == 0
        )
    for kind in ("filtered", "cut"):
        names = sorted(path.name for path in (tmp_path / "there" / kind).glob("*.tar"))
        assert len(names) == 3
        same = filecmp.cmpfiles(
            tmp_path / "there" / kind, tmp_path / "here" / kind, names, shallow=False
        )
        assert same == (names, [], [])
    s3[1].clear()
    # All is done.
    assert run("filter", SET, "-o", tmp_path / "there" / "filtered", *WHERE, "--jobs", 0) == 0
    assert s3[1].sent("0.tar") == 0


def test_a_table_in_the_bucket_is_joined_while_its_shards_are_filtered(
    s3, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    lines = ["id,caption", *(f"{number},of {number} and more" for number in range(0, 20, 2))]
    rows = "\n".join(lines).encode()
    (tmp_path / "t.csv").write_bytes(rows)
    put(s3[1].port, "bucket/tables/t.csv", rows)
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(tmp_path / "t.csv"), tmp_path / "t.parquet")
    put(s3[1].port, "bucket/tables/t.parquet", (tmp_path / "t.parquet").read_bytes())
    join = ("--join-on", "json:n=id", "--join-set", "txt=caption", "--join-ambiguous", "each")
    where = ("--where", "caption_words >= 4 and min_side >= 64", "--jobs", 0, *join, "--join")
    assert run("filter", s3[0] / "set", "-o", "here", *where, "t.csv") == 0
    expected = [path.read_bytes() for path in sorted((tmp_path / "here").glob("*.tar"))]
    assert len(expected) == 3
    for name in ("t.csv", "t.parquet"):
        url = f"s3://bucket/tables/{name}"
        out = f"s3://bucket/out-{name}"
        assert run("filter", SET, "-o", out, *where, url) == 0
        assert run("filter", SET, "-o", f"there-{name}", *where, url) == 0
        there = [path.read_bytes() for path in sorted((tmp_path / f"there-{name}").glob("*.tar"))]
        assert there == expected
        for number, data in enumerate(expected):
            with open_source(Shard.url(f"{out}/0000{number}.tar")) as source:
                assert source.read_at(0, len(data) + 1) == data
        # All is done, and the index of the table is used again.
        s3[1].clear()
        assert run("filter", SET, "-o", f"there-{name}", *where, url) == 0
        assert s3[1].sent(name) == 0
    url = "s3://bucket/tables/t.csv"
    scores = ("--scores", "caption_words", "--jobs", 0, *join, "--join", url)
    assert run("measure", SET, "-o", "scored", *scores) == 0
    assert run("filter", SET, "-o", "cut", "--ledger", "scored", *where, url) == 0
    assert [path.read_bytes() for path in sorted((tmp_path / "cut").glob("*.tar"))] == expected
    capsys.readouterr()
    run("validate", SET, *join, "--join", url)
    printed = " ".join(capsys.readouterr().out.split())
    assert "30 of 60 samples have a row of s3://bucket/tables/t.csv" in printed


def test_indexes_go_to_local_folders_only_and_that_is_said_at_once(s3, capsys):
    assert run("index", SET, "-o", "s3://bucket/out") == 2
    told = capsys.readouterr().err
    assert "s3://bucket/out is not a local folder" in told
    assert "Traceback" not in told
    assert not s3[1].asked


@pytest.mark.deep
def test_a_shard_that_is_replaced_while_it_is_filtered_is_told(s3, tmp_path, capsys):
    assert (
        run("filter", "s3://bucket/none.tar", SET, "-o", tmp_path / "out", *WHERE, "--jobs", 0) == 1
    )
    told = capsys.readouterr()
    assert "no such file" in told.out + told.err
    assert len(list((tmp_path / "out").glob("*.tar"))) == 3


@pytest.mark.sample(1)
@pytest.mark.parametrize("heeds_conditions", [True, False])
def test_an_object_that_is_replaced_between_two_parts_is_never_read_as_one(s3, heeds_conditions):
    folder, log = s3
    old = (folder / "large.tar").read_bytes()
    log.ignored = () if heeds_conditions else ("if-match",)
    put(log.port, "bucket/changing.tar", old)
    with open_source(single_shard("s3://bucket/changing.tar")) as source:
        assert source.read_at(0, 1000) == old[:1000]
        put(log.port, "bucket/changing.tar", old[::-1])
        with pytest.raises(SourceError, match="it changed while it was read"):
            source.read_at(5_000_000, 1000)


@pytest.mark.deep
def test_an_object_that_was_replaced_after_its_folder_was_listed_is_read_as_it_is_now(s3):
    old = (s3[0] / "large.tar").read_bytes()
    for data in (old, old[::-1], old[:1_000_000]):
        put(s3[1].port, "bucket/again/changing.tar", data)
        [url] = expand("s3://bucket/again/*.tar", allow_pipe=True).urls
        put(s3[1].port, "bucket/again/changing.tar", data[1:])
        with open_source(single_shard(url)) as source:
            assert (source.size, source.read_at(0, 1000)) == (len(data) - 1, data[1:1001])


def test_a_connection_cut_in_the_middle_of_a_shard_costs_nothing(s3, tmp_path, capsys):
    broken = []

    def cut(asked):
        if asked.method == "GET" and asked.range and len(broken) < 2:
            broken.append(asked)
            return 3000
        return None

    s3[1].cut = cut
    assert (
        run(
            "validate",
            "s3://bucket/set/00000.tar",
            "--format",
            "json",
            "--level",
            "full",
            "--jobs",
            1,
        )
        == 0
    )
    assert len(broken) == 2
    assert report(capsys)["samples"] == 20


def test_the_command_that_is_printed_for_a_pipe_reads_the_same_shards(s3, capsys, monkeypatch):
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.delenv("AWS_ENDPOINT_URL")  # the command of the pipe names it
    run(
        "validate",
        f"pipe:aws s3 cp --endpoint-url {endpoint} {SET} - || true",
        "--allow-pipe",
        "--format",
        "json",
    )
    [finding] = [found for found in report(capsys)["findings"] if found["code"] == "P312"]
    setting, program, *words = shlex.split(finding["repair"]["command"])
    assert program == "wdsflow"
    monkeypatch.setenv(*setting.split("="))
    assert run(*words, "--format", "json", "--jobs", 1) == 0
    assert report(capsys)["samples"] == 60


@pytest.mark.parametrize("way", ["s3", pytest.param("pipe", marks=pytest.mark.deep)])
def test_the_training_feed_gives_the_same_batches_from_the_bucket(s3, way):
    pytest.importorskip("open_clip_train")
    import open_clip

    from tests.training.shards import arguments, as_text, texts
    from wdsflow import FeedOptions
    from wdsflow.training import get_wds_dataset

    code = "import fsspec,shutil,sys; shutil.copyfileobj(fsspec.open(sys.argv[1]).open(), sys.stdout.buffer)"
    url = (
        SET
        if way == "s3"
        else f"pipe:{sys.executable} -c '{code}' s3://bucket/set/{{00000..00002}}.tar"
    )

    def batches(data):
        args = arguments(
            train_data=data, val_data=data, train_num_samples=60, workers=1, batch_size=5
        )
        preprocess = open_clip.image_transform(32, is_train=False)
        options = FeedOptions(status_every=0.0, decoders=1, allow_pipe=True)
        loader = get_wds_dataset(
            args, preprocess, False, tokenizer=as_text, options=options
        ).dataloader
        return [(batch[0].numpy().tobytes(), texts(batch)) for batch in loader]

    found = batches(url)
    assert sum(len(words) for _, words in found) == 60
    assert found == batches(str(s3[0] / "set" / "{00000..00002}.tar"))


def test_webdataset_reads_the_bucket_through_wdsflow(s3, monkeypatch):
    """webdataset reads all samples of a bucket over connections that break.

    It reads with two forked workers, and gets the same samples as from the folder.
    """
    torch = pytest.importorskip("torch")
    webdataset = pytest.importorskip("webdataset")
    gopen = importlib.import_module("webdataset.gopen")
    monkeypatch.setattr(gopen, "gopen_schemes", dict(gopen.gopen_schemes))
    wdsflow.register_gopen()
    folder, log = s3
    log.cut = lambda asked: 100_000 if len(log.asked) % 3 == 0 and asked.range else None
    keys = []
    for place in ("s3://bucket", str(folder)):
        urls = f"{place}/set/{{00000..00002}}.tar"
        samples = torch.utils.data.DataLoader(
            webdataset.WebDataset(urls, shardshuffle=False), batch_size=None, num_workers=2
        )
        keys.append(sorted(sample["__key__"] for sample in samples))
    assert keys[0] == keys[1]
    assert len(keys[0]) > 0
    assert "P332" not in [
        finding.code for finding in wdsflow.check(SET, readers=["open-clip-3.3"]).findings
    ]


def test_a_cache_knows_the_version_of_an_object(s3, tmp_path):
    folder, log = s3
    cache = ShardCache(tmp_path, 1 << 30)
    name = "cached.tar"
    shard = Shard.url(f"s3://bucket/{name}")

    def read() -> bytes:
        with cache.open(shard) as source:
            data = source.read_at(0, source.length)
        while list(tmp_path.rglob("*.part")):
            time.sleep(0.01)
        return data

    for content in (folder / "large.tar", folder / "set" / "00000.tar"):
        put(log.port, f"bucket/{name}", content.read_bytes())
        assert read() == content.read_bytes()
        before = log.sent(name)
        assert read() == content.read_bytes()
        assert log.sent(name) == before
    assert (cache.figures.stored, cache.figures.hits) == (2, 2)
