"""All commands and functions that join a table take the same options.

If a join does not match, they all suggest the same joins that do.
"""

import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("open_clip_train", reason="OpenCLIP is not installed")

from tests.filtering.commands import pasted, run
from tests.training.shards import jpeg, write_tar
from wdsflow import FeedOptions, JoinOptions, Recipe, feed, filter_shards, measure_shards
from wdsflow.reshaping.graft.run_graft import graft_shards
from wdsflow.training.feed_options import JoinError
from wdsflow.validate.check_options import CheckOptions

SETS = ("--join", "t.csv", "--join-set", "txt=caption")
TRAINING = ("--", "--train-data", "0.tar", "--workers", 1, "--batch-size", 1, "--warmup", 1)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A shard of four samples."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    members = []
    for number in range(4):
        members.append((f"{number}.jpg", jpeg(number)))
        members.append((f"{number}.txt", b"old words"))
        members.append((f"{number}.json", b'{"url": "u%d"}' % number))
    write_tar(Path("0.tar"), members)


def refusals() -> dict[str, str]:
    """What each surface says of the join of the table ``t.csv``."""
    given = {"join": "t.csv", "join_set": {"txt": "caption"}, "fields": ("__key__", "txt")}
    with pytest.raises(JoinError) as refused:
        feed("0.tar", batch_size=1, **given)
    said = {"feed": str(refused.value)}
    for name, words in (
        ("filter", ("filter", "0.tar", "-o", "out", "--where", "caption_words > 0", *SETS)),
        ("measure", ("measure", "0.tar", "-o", "scored", "--scores", "caption_words", *SETS)),
        ("validate", ("validate", "0.tar", *SETS)),
        ("train", ("train", *SETS, "--dry-run", *TRAINING)),
    ):
        done = run(*words)
        assert done.status
        said[name] = f"{done.out}{done.err}"
    return said


def test_one_class_has_the_options_of_a_join():
    names = [item.name for item in fields(JoinOptions)]
    for kind in (FeedOptions, CheckOptions):
        assert issubclass(kind, JoinOptions)
        assert not set(names) & set(vars(kind)["__annotations__"])
    with pytest.raises(ValueError, match="join_ambiguous is 'some'; choose one of refuse, "):
        JoinOptions(join="t.csv", join_set={"txt": "caption"}, join_ambiguous="some")


def test_a_wrong_value_to_join_on_is_refused_without_those_that_graft_alone_has():
    Path("t.csv").write_text("key,caption\n0,a\n")
    words = ("filter", "0.tar", "-o", "out", "--where", "True", *SETS)
    done = run(*words, "--join-on", "url")
    assert "samples cannot be joined on 'url': give key or json:NAME, with =COLUMN" in done.err
    assert not {"sha256", "xxh3"} & set(re.findall(r"\w+", done.err))
    assert done.commands[0].endswith("--join-on json:url --join-set txt=caption")
    graft = ("graft", "0.tar", "-o", "out", "--from", "t.csv", "--set", "txt=caption")
    assert "key, json:NAME, sha256 or xxh3" in run(*graft, "--on", "url").err


def test_a_check_of_random_samples_names_the_options_that_it_does_not_take():
    Path("t.csv").write_text("key,caption\n0,a\n")
    words = ("validate", "0.tar", "--confidence", "90%", "--max-loss", "50%")
    done = run(*words, *SETS)
    assert (done.status, "random samples, without --join and --join-set: " in done.err) == (2, True)
    assert pasted(done.commands[-1]).status < 2
    done = run(*words, "--format", "html")
    assert "random samples, without --format html: " in done.err
    assert "random samples, without a training command: " in run(*words, *TRAINING).err


def test_a_run_of_no_shards_is_a_clear_error():
    Path("t.csv").write_text("key,caption\n0,a\n")
    recipe = Recipe(where="True", scores=("caption_words",))
    for begin in (filter_shards, measure_shards):
        with pytest.raises(ValueError, match='no shards given: name them, such as "shards/'):
            begin([], "out", recipe)
    with pytest.raises(ValueError, match="no shards given"):
        filter_shards([], "out", recipe, ledger="scored")
    with pytest.raises(ValueError, match="no shards given"):
        graft_shards([], "out", table="t.csv", on="key", fields=["txt=caption"])
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("table", "actions"),
    [
        ("key,caption\n0,a\n0,b\n", ["give each of the samples the first row"]),
        (
            "key,caption,id,number\na,x,0,\nb,y,1,\n",
            [
                "join on the column id, if it has these values",
                "join on the column number, if it has these values",
            ],
        ),
    ],
)
def test_every_surface_offers_the_same_joins(table, actions):
    Path("t.csv").write_text(table)
    for name, text in refusals().items():
        offered = re.findall(r"^ *(?:to )?(.*?)(?:: |:?\n +)(wdsflow[ .].*)$", text, re.MULTILINE)
        # Others explain a rule.
        offered = [(action, command) for action, command in offered if "t.csv" in command]
        assert [action.partition(". ")[2] or action for action, _ in offered] == actions, name
        if name != "feed":
            words = shlex.split(offered[0][1])
            assert run(*words[1:]).status < 2, (name, words)
