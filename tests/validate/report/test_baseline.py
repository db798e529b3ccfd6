import json
import os

import pytest

from tests import factories
from wdsflow.validate.report.baseline import (
    BaselineError,
    dump_baseline,
    fingerprint,
    load_baseline,
    split_by_baseline,
)


def test_a_fingerprint_stays_while_counts_change():
    before = factories.finding(message="0000.tar: 3 of 1,000 samples lack a caption", count=3)
    after = factories.finding(message="0000.tar: 12 of 2,000 samples lack a caption", count=12)
    assert fingerprint(before) == fingerprint(after)


@pytest.mark.parametrize(
    "change", [{"code": "W007"}, {"shard": "shards/0001.tar"}, {"key": "cat"}, {"message": "else"}]
)
def test_a_fingerprint_tells_code_shard_key_and_kind_apart(change):
    assert fingerprint(factories.finding(**change)) != fingerprint(factories.finding())


def test_the_same_shard_written_differently_has_one_fingerprint():
    wholly = os.path.abspath("shards/0000.tar")
    prints = {
        fingerprint(factories.finding(shard=each))
        for each in ("shards/0000.tar", "./shards/0000.tar", wholly)
    }
    assert len(prints) == 1


def test_known_findings_are_held_back_and_new_ones_are_not(tmp_path):
    known, new = factories.finding("W001"), factories.finding("W002")
    file = tmp_path / "baseline.json"
    file.write_text(dump_baseline([known]))
    assert split_by_baseline([known, new], file) == ([new], [known])
    assert split_by_baseline([known, new], str(file)) == ([new], [known])
    assert split_by_baseline([known, new], [fingerprint(new)]) == ([known], [new])


def test_a_plain_list_of_fingerprints_is_a_baseline_too(tmp_path):
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps([fingerprint(factories.finding())]))
    assert split_by_baseline([factories.finding()], file) == ([], [factories.finding()])


def test_the_file_does_not_depend_on_the_order_of_findings():
    findings = [factories.finding(f"W{number:03d}") for number in range(9)]
    assert dump_baseline(findings) == dump_baseline([*reversed(findings), *findings])
    assert len(json.loads(dump_baseline(findings))) == 9
    assert json.loads(dump_baseline([])) == []


def test_the_file_shows_what_each_fingerprint_stands_for():
    finding = factories.finding(key="cat")
    assert json.loads(dump_baseline([finding])) == [
        {
            "fingerprint": fingerprint(finding),
            "code": "W006",
            "shard": "shards/0000.tar",
            "key": "cat",
            "message": "0000.tar: 3 of 10 samples: trouble W006",
        }
    ]


def test_names_that_are_not_utf8_survive_the_file(tmp_path):
    file = tmp_path / "baseline.json"
    finding = factories.finding(shard="a\udcff.tar", key="\udc80\x1b", message="x \udcff")
    file.write_text(dump_baseline([finding]), encoding="ascii")
    assert load_baseline(file) == {fingerprint(finding)}


@pytest.mark.parametrize(
    "content", ["{", "{}", "[1]", '[{"code": "W001"}]', '[{"fingerprint": 3}]', "[null]"]
)
def test_a_file_that_is_no_baseline_is_refused_in_one_line(tmp_path, content):
    file = tmp_path / "baseline.json"
    file.write_text(content)
    with pytest.raises(BaselineError, match=r"baseline\.json"):
        load_baseline(file)


def test_a_missing_baseline_is_refused():
    with pytest.raises(BaselineError, match="cannot read the baseline"):
        load_baseline("nowhere.json")
