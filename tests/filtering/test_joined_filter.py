"""``filter --join TABLE`` and ``measure --join TABLE`` join the table first.

The result is that of ``graft`` followed by ``filter`` or ``measure``.
"""

import contextlib
import csv
import gzip
import html
import json
import os
import pty
import random
import re
import shlex
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path

import pytest

from tests.filtering.commands import pasted, run
from tests.filtering.shards import picture, write_shards
from tests.killed import killed_again_and_again
from tests.shards.archives import tar_bytes
from wdsflow import JoinOptions, Recipe, RunOptions, filter_shards, measure_shards
from wdsflow.cli.runs import progress_lines
from wdsflow.filtering.deciding.measure_advice import measure_command
from wdsflow.filtering.ledger.ledger_metadata import LedgerOfOtherJoin
from wdsflow.filtering.page.run_page import run_page
from wdsflow.filtering.run_differences import Differs
from wdsflow.joining.join_errors import JoinMismatch
from wdsflow.reshaping.graft.graft_errors import AmbiguousJoin, ContradictedJoin, NoMatch
from wdsflow.reshaping.graft.run_graft import graft_shards

VALUES = ["new", "two words", "", None, 7, 1.5, float("nan"), [1], {"a": 1}, "é" * 200]
SETS = [
    ["txt=text"],
    ["json:text=text"],
    ["txt=text", "json:a.b=text", "cls=number"],
    ["cls=number", "txt=text"],
]
WHERE = [
    "caption_words >= 1",
    "has('txt') or min_side >= 50",
    "caption_words is None or caption_length > 3",
    "not duplicate",
    "not duplicate_caption or caption_words is None",
]
JSONS = [
    '{"id": %d}',
    '{"id": %d, "url": "u%d"}',
    "[%d]",
    '{"id": %d',
    '  { "id" : %d,"text":"old"}',
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def write_random_shards(draw: random.Random) -> list[str]:
    paths = []
    Path("in").mkdir(exist_ok=True)
    # Several samples may have the same row.
    shared = draw.random() < 0.3
    for shard in range(3):
        members = []
        for number in range(draw.randint(1, 7)):
            key = f"{0 if shared else shard}{number}"
            if draw.random() < 0.1:
                members.append((f"d{shard}/no-extension", b"left out"))
            members.append((f"{key}.jpg", picture(40 + 8 * number, 40, number)))
            if draw.random() < 0.5:
                members.append((f"{key}.txt", draw.choice([b"old caption", b"", b"\xff"])))
            if draw.random() < 0.6:
                text = draw.choice(JSONS)
                members.append((f"{key}.json", (text % ((int(key),) * text.count("%"))).encode()))
        paths.append(str(write_any_tar(draw, Path("in") / f"{shard}.tar", members)))
    return paths


def write_any_tar(draw: random.Random, path: Path, members: list[tuple[str, bytes]]) -> Path:
    """Write a tar that may be compressed, or begin with a global header."""
    data = tar_bytes(members, draw.choice([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT]))
    if draw.random() < 0.2:
        header = {"comment": "the same for all"} if draw.random() < 0.5 else {"uname": "me"}
        data = tarfile.TarInfo.create_pax_global_header(header) + data
    if draw.random() < 0.2:
        path = path.with_name(f"{path.name}.gz")
        data = gzip.compress(data)
    path.write_bytes(data)
    return path


def write_random_table(draw: random.Random) -> str:
    names = ["key", "id", "text", "number"]
    if draw.random() < 0.2:
        names.append("url")
    rows = []
    for shard in range(3):
        for number in range(7):
            if draw.random() < 0.8:
                key = f"{shard}{number}"
                url = draw.choice([f"u{int(key)}"] * 30 + ["other"])
                number_or_null = draw.choice([number, None])
                row = [key, int(key), draw.choice(VALUES), number_or_null, url]
                rows.append(row[: len(names)])
    if draw.random() < 0.2:
        rows.append(draw.choice(rows))
    if draw.random() < 0.05:
        rows = [["x" + row[0], row[1] + 900, *row[2:]] for row in rows]
    draw.shuffle(rows)
    if draw.random() < 0.5:
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
        Path("t.jsonl").write_text("\n".join(lines))
        return "t.jsonl"
    with open("t.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])
    return "t.csv"


def tars(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("*.tar"))}


def compare(seed: int) -> str:
    """Compare both ways for one random table; return how they ended."""
    draw = random.Random(seed)
    shards, table = write_random_shards(draw), write_random_table(draw)
    on = draw.choice(["key", "key", "json:id"])
    sets = tuple(draw.choice(SETS))
    ambiguous = draw.choice(["refuse", "first", "each", "drop"])
    drop = draw.random() < 0.3
    where = draw.choice(WHERE)
    recipe = Recipe(where=where, unknown=draw.choice(["keep", "quarantine", "drop"]))
    join = JoinOptions(
        join=table, join_on=on, join_set=sets, join_ambiguous=ambiguous, join_drop_unmatched=drop
    )
    options = RunOptions(jobs=draw.choice([0, 2]))
    joined = partial(filter_shards, shards, f"joined{seed}", recipe, options, join=join)
    grafted = f"grafted{seed}"
    try:
        graft_shards(
            shards,
            grafted,
            table=table,
            on=on,
            fields=sets,
            ambiguous=ambiguous,
            drop_unmatched=drop,
        )
    except (AmbiguousJoin, NoMatch, ContradictedJoin):
        with pytest.raises(JoinMismatch):
            joined()
        return "refused"
    written = sorted(map(str, Path(grafted).glob("*.tar")))
    report = joined()
    if written:
        expected = filter_shards(written, f"filtered{seed}", recipe, options)
        counts = report.total("kept"), report.merged("quarantined"), report.merged("dropped")
        others = expected.total("kept"), expected.merged("quarantined"), expected.merged("dropped")
        assert counts == others, (seed, where)
    assert tars(f"joined{seed}") == tars(f"filtered{seed}"), (seed, where, join)
    return "kept" if report.total("kept") else "nothing kept"


def test_a_joined_filter_is_a_filter_of_grafted_shards():
    assert {compare(seed) for seed in (0, 1, 2, 8)} == {"kept", "refused"}


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
def test_a_joined_filter_is_a_filter_of_grafted_shards_for_many_tables(part):
    for seed in range(100 + 20 * part, 120 + 20 * part):
        compare(seed)


def captions_of(shards: int, samples: int, text: str = "new caption {}") -> str:
    with open("t.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["key", "caption"])
        for shard in range(shards):
            for number in range(0, samples, 2):
                key = f"{shard:03d}{number:04d}"
                writer.writerow([key, text.format(key)])
    return "t.csv"


def test_scores_of_joined_samples_are_used_with_the_same_table_only():
    shards = write_shards(Path("in"), 3, 6)
    table = captions_of(3, 6)
    join = JoinOptions(join=table, join_set={"txt": "caption"})
    recipe = Recipe(where="caption_words >= 3")
    filter_shards(shards, "at-once", recipe, join=join)
    measure_shards(shards, "scored", Recipe(scores=("caption_words",)), join=join)
    filter_shards(shards, "later", recipe, ledger="scored", join=join)
    assert tars("at-once") == tars("later") != {}
    # A missing score is computed of the joined samples, too.
    more = Recipe(where="caption_words >= 3 and caption_length > 13")
    filter_shards(shards, "more-at-once", more, join=join)
    filter_shards(shards, "more", more, ledger="scored", join=join)
    assert tars("more-at-once") == tars("more") != {}
    # More scores are added to the ledgers.
    report = measure_shards(shards, "scored", Recipe(scores=("caption_length",)), join=join)
    assert report.total("samples") == 18
    with pytest.raises(LedgerOfOtherJoin, match="only wdsflow filter with the same --join"):
        filter_shards(shards, "other", recipe, ledger="scored")
    Path("u.csv").write_text(Path(table).read_text().replace("new", "another"))
    other = JoinOptions(join="u.csv", join_set={"txt": "caption"})
    with pytest.raises(LedgerOfOtherJoin, match="of another table"):
        filter_shards(shards, "other", recipe, ledger="scored", join=other)
    measure_shards(shards, "plain", Recipe(scores=("caption_words",)))
    with pytest.raises(LedgerOfOtherJoin, match="without the fields of the table"):
        filter_shards(shards, "other", recipe, ledger="plain", join=join)
    done = run(
        "filter",
        shards,
        "-o",
        "other",
        "--ledger",
        "plain",
        "--where",
        "caption_words > 1",
        "--join",
        table,
        "--join-set",
        "txt=caption",
    )
    assert done.status == 2
    assert run(*shlex.split(done.commands[-1])[1:]).status == 0
    joins: list[tuple[str, ...]] = [(), ("--join", "u.csv", "--join-set", "txt=caption")]
    for number, given in enumerate(joins):
        words = (shards, "-o", f"again{number}", "--where", "caption_words > 1", *given)
        done = run("filter", *words, "--ledger", "scored")
        assert done.status == 2
        assert run(*shlex.split(done.commands[-1])[1:]).status == 0


def test_a_run_resumes_with_the_same_table_in_any_file_and_no_other():
    shards = write_shards(Path("in"), 2, 6)
    table = captions_of(2, 6)
    join = JoinOptions(join=table, join_set={"txt": "caption"})
    recipe = Recipe(where="caption_words >= 3")
    filter_shards(shards, "out", recipe, join=join)
    Path(table).rename("same.csv")
    report = filter_shards(
        shards, "out", recipe, join=JoinOptions(join="same.csv", join_set={"txt": "caption"})
    )
    assert report.resumed == 2
    Path("u.csv").write_text(Path("same.csv").read_text().replace("new", "another"))
    for other in (
        JoinOptions(join="u.csv", join_set={"txt": "caption"}),
        JoinOptions(join="same.csv", join_set={"json:x": "caption"}),
        JoinOptions(join="same.csv", join_set={"txt": "caption"}, join_drop_unmatched=True),
        JoinOptions(),
    ):
        with pytest.raises(Differs, match="--join") as differs:
            filter_shards(shards, "out", recipe, join=other)
        assert ("--join same.csv (digest " in str(differs.value)) == (other.join != "same.csv")
    filter_shards(shards, "plain", recipe)
    with pytest.raises(Differs, match="no --join"):
        filter_shards(
            shards, "plain", recipe, join=JoinOptions(join="u.csv", join_set=("txt=caption",))
        )


@pytest.mark.parametrize(
    ("other", "old", "new"),
    [
        ({"join_on": "json:n=key"}, "--join-on key", "--join-on json:n=key"),
        (
            {"join_set": {"json:x": "caption"}},
            "--join-set txt=caption",
            "--join-set json:x=caption",
        ),
        ({"join_drop_unmatched": True}, "no --join-drop-unmatched", "--join-drop-unmatched"),
        ({"join_ambiguous": "first"}, "--join-ambiguous refuse", "--join-ambiguous first"),
    ],
)
def test_another_join_is_refused_and_the_option_that_differs_is_named(other, old, new):
    shards = write_shards(Path("in"), 1, 4)
    join = {"join": captions_of(1, 4), "join_set": {"txt": "caption"}}
    recipe = Recipe(where="caption_words >= 3")
    filter_shards(shards, "out", recipe, join=JoinOptions(**join))

    with pytest.raises(Differs) as differs:
        filter_shards(shards, "out", recipe, join=JoinOptions(**join | other))

    expected = f"out holds a filter with {old}; this run has {new}"
    assert str(differs.value).splitlines()[0] == expected


def test_shards_whose_samples_all_lack_a_row_are_written_if_empty_ones_are():
    """They are inputs of this filter; of those that graft writes, they are not."""
    shards = write_shards(Path("in"), 2, 4)
    join = JoinOptions(
        join=captions_of(1, 4), join_set={"txt": "caption"}, join_drop_unmatched=True
    )
    for empty, names in (("leave-out", ["00000.tar"]), ("write", ["00000.tar", "00001.tar"])):
        report = filter_shards(shards, empty, Recipe(where="True", empty=empty), join=join)
        assert report.total("kept") == 2
        assert list(tars(empty)) == names
    assert not Path("write/00001.tar").read_bytes().strip(b"\0")
    assert json.loads(Path("write/sizes.json").read_text()) == {"00000.tar": 2, "00001.tar": 0}


def test_a_printed_recipe_names_the_table_beside_it():
    shards = write_shards(Path("in"), 1, 6)
    captions_of(1, 6)
    Path("t.csv").rename("my table.csv")
    words = ("--where", "caption_words >= 3")
    join = ("--join", "my table.csv", "--join-set", "txt=caption", "--join-drop-unmatched")
    recipe = run("filter", *words, *join, "--print-recipe").out
    assert "#" not in run("filter", *words, "--print-recipe").out
    Path("recipe.yaml").write_text(recipe)
    named = [
        shlex.split(line.removeprefix("# ")) for line in recipe.splitlines() if "--join" in line
    ]
    assert named == [list(join)]
    assert run("filter", shards, "-o", "by-flags", *words, *join).status == 0
    assert (
        run("filter", shards, "-o", "by-recipe", "--recipe", "recipe.yaml", *named[0]).status == 0
    )
    assert tars("by-recipe") == tars("by-flags") != {}


def test_commands_for_a_joined_run_join_its_table(monkeypatch):
    """Printed commands name the table of a joined run, even after it has moved.

    They are those on the run's page, for its thresholds, and for missing scores.
    """
    monkeypatch.setenv("COLUMNS", "1000")
    shards = write_shards(Path("in"), 2, 6)
    table = Path(captions_of(2, 6))
    join = ("--join-set", "txt=caption", "--join-ambiguous", "first", "--join-drop-unmatched")
    measure = ("measure", shards, "-o", "scored", "--scores", "caption_words,min_side", *join)
    assert run(*measure, "--join", table).status == 0
    table.rename("my table.csv")
    assert run(*measure, "--join", "my table.csv").status == 0
    joined = (
        "--join 'my table.csv' --join-set txt=caption --join-ambiguous first --join-drop-unmatched"
    )

    page = html.unescape(run_page(Path("scored")))
    commands = {
        name: re.search(rf'"{name}": ?"(wdsflow {name} .*?)"[,}}]', page)[1].replace("\\", "")
        for name in ("filter", "measure")
    }
    assert all(joined in command for command in commands.values())
    assert pasted(f"{commands['filter']} 'caption_words >= 3'").status == 0
    assert tars("scored-kept")
    assert pasted(commands["measure"]).status == 0

    done = run("scores", "min_side", "--ledger", "scored")
    assert done.commands
    assert all(joined in command for command in done.commands)
    assert pasted(done.commands[0]).status == 0
    # For a score that the ledger lacks.
    command, folder = measure_command([shards], "scored", "caption_length > 2")
    assert joined in command
    assert pasted(command).status == 0
    assert folder == Path("scored")


def test_the_listing_of_many_shards_is_shown(monkeypatch):
    shards = write_shards(Path("in"), 5, 2)
    join = JoinOptions(join=captions_of(5, 2), join_set={"txt": "caption"})
    begun = []

    def begin(total, activity):
        begun.append([activity, total, 0])

        def step(_: object) -> None:
            begun[-1][2] += 1

        return step

    filter_shards(shards, "out", Recipe(where="True"), RunOptions(begin=begin), join=join)
    assert begun == [["listing", 5, 5], ["writing", 5, 5]]
    # On the command line, from the first time at which a line is due.
    monkeypatch.setattr(progress_lines, "_FIRST_LINES", (0.0, 1000.0))
    words = ("filter", shards, "-o", "again", "--where", "True")
    done = run(*words, "--join", "t.csv", "--join-set", "txt=caption")
    assert re.search(
        r"^wdsflow: listing for .* s: 1 of 5 shards done, about .* s left$", done.err, re.MULTILINE
    )
    assert done.err.count("listing") == 1


def test_the_listing_has_a_bar_on_a_terminal():
    shards = write_shards(Path("in"), 3, 2)
    captions_of(3, 2)
    words = (shards, "-o", "out", "--where", "True", "--join", "t.csv", "--join-set", "txt=caption")
    main, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [sys.executable, "-m", "wdsflow", "filter", *words]
    with subprocess.Popen(command, stderr=terminal, env=environment) as process:
        os.close(terminal)
        shown = b""
        # The terminal is gone at the end.
        with contextlib.suppress(OSError):
            while part := os.read(main, 1 << 16):
                shown += part
    os.close(main)
    assert process.returncode == 0
    assert b"listing" in shown
    assert b"3/3 shards" in shown


def test_another_table_is_refused_before_anything_is_said_of_the_run():
    shards = write_shards(Path("in"), 2, 6)
    captions_of(2, 6)
    Path("u.csv").write_text(Path("t.csv").read_text().replace("new", "another"))
    words = ("measure", shards, "-o", "scored", "--join-set", "txt=caption", "--join")
    assert run(*words, "t.csv", "--scores", "caption_words").status == 0
    done = run(*words, "u.csv", "--scores", "min_side")
    first, *others = done.err.splitlines()
    assert first.startswith("wdsflow: scored holds a measurement with --join t.csv (digest ")
    assert ("; this run has --join u.csv (digest ") in first
    assert all(line.startswith("  to ") for line in others)
    assert pasted(done.commands[-1]).status == 0
    # A run that finished nothing is replaced.
    for path in Path("scored/.wdsflow/ledger").iterdir():
        path.unlink()
    assert run(*words, "u.csv", "--scores", "min_side").status == 0


def test_a_shard_without_a_row_may_begin_with_a_global_header():
    """Without its only sample, the header would stand alone."""
    header = tarfile.TarInfo.create_pax_global_header({"comment": "the same for all"})
    Path("0.tar").write_bytes(header + tar_bytes([("0.jpg", picture(60, 60))]))
    Path("1.tar").write_bytes(header + tar_bytes([("1.jpg", picture(60, 60))]))
    Path("t.csv").write_text("key,caption\n1,new\n")
    join = JoinOptions(join="t.csv", join_set={"txt": "caption"}, join_drop_unmatched=True)
    report = filter_shards(["0.tar", "1.tar"], "out", Recipe(where="min_side >= 50"), join=join)
    assert (report.failures, report.total("samples"), list(tars("out"))) == ([], 1, ["1.tar"])


@pytest.mark.parametrize("damage", ["cut stream", "wrong checksum", "cut tar"])
def test_damage_is_reported_as_without_a_table(damage):
    data = bytearray(tar_bytes([(f"{n}.jpg", picture(60, 60, n)) for n in range(60)]))
    name = "0.tar"
    if damage != "cut tar":
        data, name = bytearray(gzip.compress(data)), "0.tar.gz"
    if damage == "wrong checksum":
        data[-8] ^= 1
    else:
        del data[len(data) // 2 :]
    Path(name).write_bytes(data)
    Path("t.csv").write_text("key,caption\n" + "".join(f"{n},new\n" for n in range(60)))
    join = JoinOptions(join="t.csv", join_set={"txt": "caption"})
    recipe = Recipe(where="min_side >= 50")
    plain = filter_shards([name], "plain", recipe)
    joined = filter_shards([name], "joined", recipe, join=join)
    for report in (plain, joined):
        assert report.total("samples") > 20
        assert report.records[0].damage or report.merged("quarantined")
    assert joined.total("samples") == plain.total("samples")
    assert joined.merged("quarantined") == plain.merged("quarantined")
    assert len(joined.records[0].damage) == len(plain.records[0].damage)


def test_shards_without_a_sample_are_reported_as_without_a_table():
    """A table without a row for them is not to blame."""
    data = tar_bytes([("0.jpg", picture(60, 60))])
    Path("cut.tar").write_bytes(data[:700])
    Path("empty.tar").write_bytes(b"")
    Path("t.csv").write_text("key,caption\n0,new\n")
    words = ("--where", "caption_words >= 1", "-o")
    join = ("--join", "t.csv", "--join-set", "txt=caption")
    for shard in ("cut.tar", "empty.tar"):
        plain = run("filter", shard, *words, f"plain-{shard}")
        joined = run("filter", shard, *words, f"joined-{shard}", *join)
        assert joined.status == plain.status
        assert joined.out.replace("joined", "plain") == plain.out
        assert joined.err.replace("joined", "plain") == plain.err


def test_slices_of_a_joined_run_write_what_one_run_writes():
    shards = write_shards(Path("in"), 4, 6)
    join = JoinOptions(join=captions_of(3, 6), join_set={"txt": "caption"})
    recipe = Recipe(where="caption_words >= 3")
    filter_shards(shards, "whole", recipe, RunOptions(jobs=0), join=join)
    for index in range(2):
        options = RunOptions(jobs=0, index=index, count=2)
        filter_shards(shards, "slices", recipe, options, join=join)
    assert tars("slices") == tars("whole") != {}


@pytest.mark.deep
def test_a_cluster_reads_the_index_from_the_named_folder(tmp_path):
    pytest.importorskip("ray")
    shards = write_shards(tmp_path / "in", 4, 6)
    table = tmp_path / captions_of(4, 6)
    recipe = Recipe(where="caption_words >= 3")
    given = {"join": table, "join_set": {"txt": "caption"}}
    filter_shards(shards, "here", recipe, RunOptions(jobs=0), join=JoinOptions(**given))
    join = JoinOptions(**given, join_cache=str(tmp_path / "index"))
    filter_shards(shards, tmp_path / "there", recipe, RunOptions(engine="ray", jobs=2), join=join)
    assert tars("there") == tars("here") != {}


def joined_run(shards: str, out: str, table: str) -> None:
    join = JoinOptions(join=table, join_set={"txt": "caption"})
    filter_shards(shards, out, Recipe(where="caption_words >= 2"), RunOptions(jobs=0), join=join)


def test_a_joined_run_that_is_killed_ends_with_the_same_files(tmp_path):
    shards = write_shards(tmp_path / "in", 6, 30)
    table = tmp_path / captions_of(6, 30)
    out = tmp_path / "out"
    killed_again_and_again(
        partial(joined_run, shards, str(out), str(table)),
        out,
        ["wdsflow.filtering.run_filter", "wdsflow.joining.open_join"],
    )


def write_named(images: tuple[int, ...] = (0, 1, 2, 3)) -> None:
    """Write four samples with the url of their image, which is that of its number."""
    members = []
    for number, image in enumerate(images):
        members += [
            (f"{number}.jpg", picture(40, 40, image)),
            (f"{number}.txt", b"old words"),
            (f"{number}.json", b'{"url": "u%d"}' % image),
        ]
    Path("0.tar").write_bytes(tar_bytes(members))


def test_keys_of_other_samples_are_refused_with_the_join_on_their_urls():
    write_named()
    rows = "".join(f"{number},u{(number + 1) % 4},new {number}\n" for number in range(4))
    Path("t.csv").write_text(f"key,url,caption\n{rows}")
    words = ("filter", "0.tar", "-o", "out", "--where", "caption_words == 2", "--jobs", 0)
    done = run(*words, "--join", "t.csv", "--join-set", "txt=caption")
    assert (done.status, done.out, Path("out").exists()) == (2, "", False)
    assert done.err.splitlines()[:2] == [
        "wdsflow: the keys are not those of the table; img2dataset gives samples new numbers in each download",
        "  4 samples have another url than the row, such as 0: the table has u1, the sample u0",
    ]
    (command,) = done.commands
    assert "--join-on json:url" in command
    assert pasted(command).status == 0
    with tarfile.open("out/0.tar") as tar:
        assert tar.extractfile("0.txt").read() == b"new 3"


def test_a_column_without_values_to_join_on_is_named():
    write_named()
    Path("t.csv").write_text("key,caption\n,a\n,b\n")
    join = ("--join", "t.csv", "--join-set", "txt=caption", "--jobs", 0)
    done = run("filter", "0.tar", "-o", "out", "--where", "caption_words > 0", *join)
    assert done.status == 2
    assert done.err.splitlines()[:3] == [
        "wdsflow: none of 4 samples has a row in t.csv",
        "  the samples have 0, 1, 2",
        "  column key has no values",
    ]


def test_scores_of_other_images_are_refused_where_the_ledger_has_hashes():
    write_named()
    scores = ("--scores", "caption_length", "--hash-images", "--jobs", 0)
    assert run("measure", "0.tar", "-o", "scored", *scores).status == 0
    write_named((0, 3, 2, 3))
    words = ("filter", "0.tar", "-o", "out", "--where", "json_number('n') > 0", "--jobs", 0)
    join = ("--join", "scored", "--join-set", "json:n=caption_length")
    done = run(*words, *join)
    assert (done.status, done.out, Path("out").exists()) == (2, "", False)
    assert "1 sample has another image_xxh3 than the row, such as 1: " in done.err
    # No option of a filter joins on the hash of an image.
    assert done.commands == []
    write_named()
    assert "4  kept" in run(*words, *join).out


def test_the_commands_join_a_table_and_refuse_wrong_joins():
    shards = write_shards(Path("in"), 2, 6)
    table = captions_of(2, 6)
    words = (shards, "-o", "out", "--where", "caption_words >= 3")
    sets = ("--join-set", "txt=caption")
    for kind in ("--explain", "--dry-run"):
        assert run("filter", *words, "--join", table, *sets, kind).status == 0
    assert not Path("out").exists()
    done = run("filter", *words, "--join", table, *sets)
    assert done.status == 0
    assert "6 of 12 samples have a row of t.csv" in done.err
    for command, *scores in (("filter",), ("measure", "--scores", "caption_words")):
        recipe = (*scores, "--recipe", "out/.wdsflow/run.json")
        done = run(command, shards, "-o", f"{command}-again", *recipe)
        assert done.status == 2
        assert "the run of out/.wdsflow/run.json joined a table" in done.err
        assert done.commands[-1].endswith("--join t.csv --join-set txt=caption")
        assert run(*shlex.split(done.commands[-1])[1:]).status == 0
    done = run("filter", *words, "--join", table)
    assert "name them with --join-set\n  such as: wdsflow filter in" in done.err
    done = run("filter", *words, "--join", table, "--join-set", "txt=captoin")
    assert done.commands[-1].endswith("--join t.csv --join-set txt=caption")
    for command in ("filter", "validate"):
        given = words if command == "filter" else words[:1]
        done = run(command, *given, "--join", table, *sets, "--join-on", "n=key")
        assert "--join-on json:n=key --join-set" in done.commands[-1]
    done = run("filter", *words, "--join", "x.csv", *sets)
    assert done.commands[-1].endswith("--join t.csv --join-set txt=caption")
    with open(table, "a", encoding="utf-8") as file:
        file.write("0000000,again\n")
    done = run(
        "filter", shards, "-o", "new", "--where", "caption_words >= 3", "--join", table, *sets
    )
    assert "1 sample with several rows of the table each, such as 0000000" in done.err
    assert run(*shlex.split(done.commands[-1])[1:]).status == 0
    for command in ("filter", "validate"):
        given = words if command == "filter" else words[:1]
        done = run(command, *given, "--join-on", "key", "--join-drop-unmatched")
        assert done.status == 2
        assert "--join-on and --join-drop-unmatched: name the table with --join" in done.err
        assert "--join" not in done.commands[-1]
    done = run("filter", *words, "--join", table, *sets, "--engine", "ray")
    assert (done.status, "--join-cache" in done.err) == (2, True)
