"""``wdsflow validate --join TABLE`` predicts what the feed yields.

Compares verdict and counts with a feed over the same shards and table.
"""

import csv
import gzip
import json
import random
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

from tests.filtering.commands import run
from tests.servers import http_server
from tests.training.shards import arguments, as_text, jpeg, plain, texts, write_tar
from wdsflow import FeedOptions, check, get_data
from wdsflow import feed as make
from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.training import StallError
from wdsflow.training.feed_options import JoinError, ShardsError

CAPTIONS = [b"a cat", b"", b" \n", b"\xff\xfe", "é".encode()]
JSONS = [b'{"id": %d}', b'{"id": %d, "url": "u%d"}', b"[%d]", b'{"id": %d', b'{"id": "%d"}']
VALUES = ["new", "", " ", None, "0", 7, 1.5, float("nan"), True, [1], {"a": 1}]
# Places of captions, some of which are columns of the table.
PLACES = [None, None, "join:text", "txt|join:text", "join:text|json:id", "json:a.b|join:text"]
SETS = [["txt=text"], ["json:text=text"], ["txt=text", "json:a.b=text"], ["cls=text"]]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def write_random_shards(draw: random.Random) -> None:
    shared = draw.random() < 0.2
    for shard in range(2):
        members = []
        for number in range(draw.randint(1, 8)):
            key = f"{0 if shared else shard}{number}"
            image = jpeg(number) if draw.random() < 0.9 else b"no image"
            if draw.random() < 0.95:
                members.append((f"{key}.jpg", image))
            if draw.random() < 0.4:
                members.append((f"{key}.{draw.choice(['txt', 'TXT'])}", draw.choice(CAPTIONS)))
            if draw.random() < 0.6:
                text = draw.choice(JSONS)
                members.append((f"{key}.json", text % ((int(key),) * text.count(b"%"))))
        write_tar(Path(f"{shard}.tar"), members)


def write_random_table(draw: random.Random) -> str:
    names = ["key", "id", "text"]
    if draw.random() < 0.4:
        names.append("url")
    rows = []
    for shard in range(2):
        for number in range(8):
            if draw.random() < 0.75:
                key = f"{shard}{number}"
                url = draw.choice([f"u{int(key)}"] * 9 + ["other", None])
                rows.append([key, int(key), draw.choice(VALUES), url][: len(names)])
    if draw.random() < 0.15:
        rows.append(draw.choice(rows))
    if draw.random() < 0.1:
        rows = [["x" + row[0], row[1] + 100, *row[2:]] for row in rows]
    draw.shuffle(rows)
    kind = draw.choice(["csv", "jsonl", "parquet"])
    if kind == "jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        Path("t.jsonl").write_text("\n".join(lines))
    elif kind == "csv":
        with open("t.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([names, *rows])
    else:
        columns = [[row[at] for row in rows] for at in range(len(names))]
        columns[2] = [None if value is None else str(value) for value in columns[2]]
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), "t.parquet")
    return f"t.{kind}"


def trained(
    given: dict[str, Any], fields=("jpg;png;jpeg;webp", "txt", "__key__", "__url__")
) -> int | str:
    """How many samples a feed yields, or "refused"."""
    given = dict(given)
    more = {
        name: given.pop(name)
        for name in list(given)
        if name in ("join_ambiguous", "join_drop_unmatched")
    }
    options = FeedOptions(status_every=0.0, decode_in="threads", decoders=1, **more)
    try:
        one = make(
            ["0.tar", "1.tar"],
            fields=fields,
            transform=plain,
            shuffle=0,
            batch_size=1,
            rank=0,
            world_size=1,
            options=options,
            **given,
        )
    except JoinError:
        return "refused"
    except ShardsError:
        return 0
    try:
        return len({(batch[2][0], batch[3][0]) for batch in one})
    except StallError:
        return 0
    finally:
        one.close()


def compare(seed: int) -> str:
    """Compare the check and the feed for one random table; return the outcome."""
    draw = random.Random(seed)
    write_random_shards(draw)
    given = {
        "join": write_random_table(draw),
        "join_on": draw.choice(["key", "key", "key", "json:id"]),
        "join_set": tuple(draw.choice(SETS)),
        "join_ambiguous": draw.choice(["refuse", "first", "each", "drop"]),
        "join_drop_unmatched": draw.random() < 0.3,
    }
    places = draw.choice(PLACES)
    fields = ("jpg;png;jpeg;webp", places or "txt", "__key__", "__url__")
    expected = trained(given, fields)
    try:
        report = check("{0..1}.tar", level="full", caption=places, **given)
    except JoinMismatch:
        assert expected in (0, "refused"), (seed, given)
        return "refused"
    (verdict,) = report.verdicts
    assert (verdict.reader, verdict.exact) == ("wdsflow-train", True), seed
    actual = "refused" if verdict.outcome == "refused" else verdict.usable
    if expected == 0 and actual == "refused":
        # Where nothing is usable, the feed does not say whether the join is wrong as well.
        return "refused"
    assert actual == expected, (seed, given, str(report))
    return verdict.outcome


def test_the_check_counts_what_the_feed_yields():
    outcomes = {compare(seed) for seed in range(12)}
    assert {"refused", "loses"} <= outcomes


def test_openclip_trains_on_as_many_samples_as_the_check_counts():
    """OpenCLIP 3.3 keeps empty captions, and so does the feed in its place."""
    members = [(f"{number}.jpg", jpeg(number)) for number in range(6)]
    write_tar(Path("0.tar"), [*members, ("6.jpg", jpeg(6)), ("6.txt", b"old")])
    Path("t.csv").write_text('key,text\n0,a\n1,""\n2," "\n3,b\n6,c\n')
    given = {"join": "t.csv", "join_set": ("txt=text",)}
    options = FeedOptions(status_every=0.0, decode_in="threads", schedule="balanced", **given)
    args = arguments(train_data="0.tar", workers=1, batch_size=1, seed=0)
    loader = get_data(args, (plain, plain), tokenizer=as_text, options=options)["train"].dataloader
    captions = [text for batch in loader for text in texts(batch)]
    loader.close()
    words = ["--train-data", "0.tar", "--workers", "1", "--batch-size", "1"]
    report = check("0.tar", level="full", arguments=words, **given)
    assert (
        report.verdicts[0].usable == len(captions) == 3 + captions.count("") + captions.count(" ")
    )
    # Without a training command, samples with an empty caption do not count.
    assert check("0.tar", level="full", **given).verdicts[0].usable == 3


def test_a_table_that_leaves_no_sample_is_refused():
    write_tar(Path("0.tar"), [("0.jpg", jpeg(0)), ("0.json", b'{"url": "u0"}')])
    Path("t.csv").write_text("key,text,url\n0,a,other\n")
    words = ("validate", "0.tar", "--join", "t.csv", "--join-set", "txt=text")
    done = run(*words)
    assert (done.status, "1 sample has another url than the row" in done.err) == (2, True)
    Path("t.csv").write_text("key,text,url\n1,a,other\n")
    done = run(*words, "--join-drop-unmatched")
    assert (done.status, "none of 1 sample has a row in t.csv" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("rows", "outcome", "message"),
    [
        ("0,a,u0\n1,b,u1\n2,c,u2\n3,d,u3\n", "trains", "4 of 4 samples have a row"),
        ("0,a,u9\n1,b,u1\n2,c,u2\n3,d,u3\n", "loses", "1 sample of another url than the row"),
        ("0,a,u0\n0,b,u0\n", "refused", "1 sample with several rows of the table each, such as 0"),
        ("9,a,u9\n", "refused", "the samples have 0, 1, 2; the table has 9 in column key"),
    ],
)
def test_the_command_reports_how_samples_and_rows_match(rows, outcome, message):
    members = []
    for number in range(4):
        members.append((f"{number}.jpg", jpeg(number)))
        members.append((f"{number}.json", b'{"url": "u%d"}' % number))
    write_tar(Path("0.tar"), members)
    Path("t.csv").write_text("key,text,url\n" + rows)
    words = ("--join", "t.csv", "--join-set", "txt=text")
    plain_text = run("validate", "0.tar", *words)
    openclip = ("--", "--train-data", "0.tar", "--workers", 1, "--batch-size", 2, "--warmup", 1)
    forecast = run("validate", *words, *openclip)
    for done in (plain_text, forecast):
        text = " ".join(done.out.split())
        assert text.startswith(f"wdsflow's feed {outcome.upper()} ")
        assert message in text
    assert ("Forecast" in forecast.out) == (outcome != "refused")
    if "several rows" in message:
        assert "--join-ambiguous each -- --train-data 0.tar" in forecast.out
        fixes = [line for line in plain_text.out.splitlines() if "--join-ambiguous each" in line]
        assert run(*shlex.split(fixes[0])[1:]).out.startswith("wdsflow's feed  LOSES")


def test_a_shard_that_is_no_tar_has_the_findings_it_has_without_a_table():
    Path("empty.tar").write_bytes(b"")
    Path("other.tar").write_bytes(b"no tar" * 200)
    Path("t.csv").write_text("key,text\n0,a\n")
    for shard in ("empty.tar", "other.tar"):
        (plain_finding,) = check(shard).findings
        (finding,) = check(shard, join="t.csv", join_set=("txt=text",)).findings
        assert finding.code == plain_finding.code == "W005"
        assert finding.message == plain_finding.message


def test_captions_that_are_a_column_are_counted_and_kept_in_commands():
    members = [(f"{number}.jpg", jpeg(number)) for number in range(4)]
    write_tar(Path("0.tar"), [*members, ("3.txt", b"old")])
    Path("t.csv").write_text("id,TEXT\n0,a\n1,\n2,c\n")
    words = ("--join", "t.csv", "--join-on", "key=id", "--caption", "txt|join:TEXT")
    openclip = ("--", "--train-data", "0.tar", "--workers", 1, "--batch-size", 1, "--warmup", 1)
    plain_text = run("validate", "0.tar", *words)
    for done in (plain_text, run("validate", *words, *openclip)):
        text = " ".join(done.out.split())
        assert text.startswith("wdsflow's feed LOSES 3 of 4 samples reach a batch")
        assert "3 of 4 samples have a row of t.csv" in text
    dry_run = run("train", *words, "--dry-run", *openclip)
    assert "3 of 4 samples have a row of t.csv" in dry_run.err
    # A command for another join has the same captions.
    Path("t.csv").write_text("id,TEXT,other\na,a,0\n")
    done = run("validate", "0.tar", *words)
    fixes = [line for line in done.out.splitlines() if "--join-on key=other" in line]
    assert "--caption 'txt|join:TEXT'" in fixes[0]
    assert "REFUSED" not in run(*shlex.split(fixes[0])[1:]).out


@pytest.mark.parametrize("more", [{}, {"join_set": ("json:new=text",)}])
def test_a_compressed_shard_has_the_finding_it_has_without_a_table(more):
    data = write_tar(Path("0.tar"), [("0.jpg", jpeg(0)), ("0.txt", b"old")]).read_bytes()
    Path("0.tar.gz").write_bytes(gzip.compress(data))
    Path("t.csv").write_text("key,text\n0,a\n")
    given = {"join": "t.csv", "join_set": ("txt=text",), **more}
    joined = check("0.tar.gz", **given)
    codes = {finding.code: finding.message for finding in joined.findings}
    plain_codes = {finding.code: finding.message for finding in check("0.tar.gz").findings}
    assert codes == plain_codes
    assert "W004" in codes
    assert "W004" not in {finding.code for finding in check("0.tar", **given).findings}


def test_bytes_that_are_read_from_a_server_are_counted():
    write_tar(Path("0.tar"), [("0.jpg", jpeg(0))])
    Path("t.csv").write_text("key,text\n0,a\n")
    with http_server({"0.tar": Path("0.tar").read_bytes()}) as (url, _):
        report = check(f"{url}/0.tar", join="t.csv", join_set=("txt=text",))
    assert report.evidence.shards[0].bytes_read > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("--join", "t.csv"),
            "name them with --join-set\n  such as: wdsflow validate 0.tar --join t.csv --join-set txt=text",
        ),
        (("--join-set", "txt=text"), "the join lacks a table"),
        (("--caption", "join:text"), "--caption) is for wdsflow's feed, which joins a table"),
        (
            ("--join", "t.csv", "--caption", "join:txt"),
            "t.csv has no column 'txt'\n  it has key, text\n  such as: wdsflow validate 0.tar --join t.csv --caption join:text",
        ),
        (
            ("--join", "t.csv", "--join-set", "txt=txt"),
            "t.csv has no column 'txt'\n  it has key, text\n  such as: wdsflow validate 0.tar --join t.csv --join-set txt=text",
        ),
        (
            ("--join", "u.csv", "--join-set", "txt=text"),
            "there is no table u.csv\n  such as: wdsflow validate 0.tar --join t.csv",
        ),
        (
            ("--join", "t.csv", "--join-set", "txt=text", "--for", "datasets"),
            "wdsflow's feed is judged",
        ),
        (("--join", "t.csv", "--join-set", "txt=text", "--engine", "ray"), "--join-cache"),
    ],
)
def test_wrong_uses_of_a_table_are_refused(words, message):
    write_tar(Path("0.tar"), [("0.jpg", jpeg(0))])
    Path("t.csv").write_text("key,text\n0,a\n")
    done = run("validate", "0.tar", *words)
    assert done.status == 2
    assert message in done.err


@pytest.mark.deep
@pytest.mark.parametrize("part", range(20))
def test_the_check_counts_what_the_feed_yields_from_many_tables(part):
    for seed in range(100 + 25 * part, 125 + 25 * part):
        compare(seed)
