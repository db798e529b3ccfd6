"""Every command that ``wdsflow repair`` prints works as it is pasted."""

import pytest

from tests.printed.pasted import commands, paste, run
from tests.printed.sets import SETS, write

REFUSED = {
    "captions that are nowhere": ["--caption", "json:descriptoin"],
    "captions in json of another ending": ["--caption", "jsn:description"],
    "a folder that has repairs with other options": ["--caption", "json:description", "--drop-bad"],
}


@pytest.fixture
def repaired(tmp_path):
    """A folder with shards, and with what a repair made of them."""
    write(tmp_path, SETS["captions in json"] * 2)
    done = run(
        ["repair", "s/0.tar", "s/1.tar", "-o", "out", "--caption", "json:description"], tmp_path
    )
    assert [paste(command, tmp_path).status for command in commands(done.out)] == [0]
    return tmp_path


@pytest.mark.sample(1)
@pytest.mark.parametrize("options", REFUSED.values(), ids=REFUSED)
def test_what_a_repair_says_where_it_refuses_works(repaired, options):
    before = sorted(path.read_bytes() for path in (repaired / "out").glob("*.tar"))
    refused = run(["repair", "s/0.tar", "s/1.tar", "-o", "out", *options], repaired)
    assert refused.status == 2
    assert sorted(path.read_bytes() for path in (repaired / "out").glob("*.tar")) == before
    advised = commands(refused.errors)
    assert advised
    for command in reversed(advised):  # what replaces comes before what keeps
        assert paste(command, repaired).status == 0, command
