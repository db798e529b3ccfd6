import json
from importlib import metadata
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests import factories
from tests.validate.rules.cases import SOUND
from wdsflow import __version__, check
from wdsflow.validate.report import FORMATS, render, schema
from wdsflow.validate.report.as_json import make_encodable

REPORTS = [factories.healthy, factories.stalled, factories.nasty]


def load(report) -> Any:
    return json.loads(render(report, "json"))


@pytest.mark.parametrize("make", REPORTS)
def test_the_report_fits_its_published_schema(make):
    published = json.loads(schema())
    jsonschema.Draft202012Validator.check_schema(published)
    jsonschema.Draft202012Validator(published).validate(load(make()))


def test_the_schema_knows_every_name_that_is_written():
    published = json.loads(schema())
    written = load(factories.nasty())
    known = published["$defs"]
    assert set(written) == set(published["properties"])
    assert set(written["shards"][0]) == set(known["shard"]["properties"])
    assert set(written["verdicts"][0]) == set(known["verdict"]["properties"])
    assert set(written["verdicts"][0]["reasons"][0]) == set(known["reason"]["properties"])
    assert set(written["findings"][0]) == set(known["finding"]["properties"])
    assert list(written) == [
        "version",
        "ok",
        "samples",
        "shards",
        "verdicts",
        "findings",
        "versions",
    ]
    assert set(written["verdicts"][0]["advice"][0]) == set(known["advice"]["properties"])


def test_the_first_names_are_the_promised_ones_in_their_order():
    assert list(load(factories.healthy()))[:6] == [
        "version",
        "ok",
        "samples",
        "shards",
        "verdicts",
        "findings",
    ]
    assert list(load(factories.healthy())["verdicts"][0])[:5] == [
        "reader",
        "outcome",
        "samples",
        "usable",
        "reasons",
    ]
    assert list(load(factories.stalled())["findings"][0])[:9] == [
        *("code", "severity", "shard", "key", "offset", "count", "message", "readers", "repair")
    ]


def test_the_values_are_those_of_the_report():
    tree = load(factories.stalled(samples=10_000))
    assert (tree["version"], tree["ok"], tree["samples"]) == (1, False, 10_000)
    assert (tree["verdicts"][0]["outcome"], tree["verdicts"][0]["usable"]) == ("stalls", 0)
    assert tree["findings"][1]["shard"] == "shards/0001.tar"
    assert tree["findings"][0]["repair"]["safe"] is True
    assert load(factories.healthy())["ok"] is True


def test_the_report_states_the_installed_versions(tmp_path: Path):
    (tmp_path / "0.tar").write_bytes(SOUND)
    tree = load(check(tmp_path / "0.tar"))
    assert tree["versions"]["wdsflow"] == __version__
    assert tree["versions"]["webdataset"] == metadata.version("webdataset")


def test_names_that_are_not_utf8_give_json_that_strict_readers_take():
    written = render(factories.nasty(), "json")
    assert written.isascii()
    url = json.loads(written)["shards"][0]["url"]
    assert url.encode("utf-8")  # no lone surrogate
    assert "\x1b[31m" in url  # what is text stays as it is


def test_infinities_become_null():
    assert make_encodable({"a": [float("inf"), float("nan"), 1.5], "b": (1,)}) == {
        "a": [None, None, 1.5],
        "b": [1],
    }


def test_there_is_no_other_format():
    with pytest.raises(ValueError, match="text, json"):
        render(factories.healthy(), "yaml")
    assert all(render(factories.nasty(), form) for form in FORMATS)
