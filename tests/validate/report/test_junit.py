from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

from tests import factories
from tests.cli import shards
from wdsflow.validate.report import render
from wdsflow.validate.run_check import check


def suites(report) -> Element:
    return fromstring(render(report, "junit"))


def test_each_reader_is_a_suite_that_fails_unless_it_trains():
    assert suites(factories.healthy()).find(".//failure") is None
    root = suites(factories.stalled())
    suite = root.find("testsuite[@name='open-clip-3.3']")
    assert suite is not None
    assert suite.get("failures") == "1"
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("type") == "stalls"
    assert "no caption field" in (failure.text or "")


def test_a_shard_has_a_case_for_each_rule_that_fails_and_one_if_none_does():
    report = factories.healthy(3)
    report = replace(
        report,
        findings=[
            factories.finding("W001", shard="shards/0001.tar"),
            factories.finding("W002", "warning", shard="shards/0001.tar"),
            factories.finding("W001", shard=None),
        ],
    )
    suite = suites(report).find("testsuite[@name='shards']")
    assert suite is not None
    cases = [(case.get("classname"), (case.get("name") or "")[:5], case.find("failure") is not None) for case in suite]
    assert cases == [
        ("shards/0000.tar", "sound", False),
        ("shards/0001.tar", "W001 ", True),
        ("shards/0001.tar", "W002 ", False),
        ("shards/0002.tar", "sound", False),
        ("all shards", "W001 ", True),
    ]
    assert (suite.get("tests"), suite.get("failures")) == ("5", "2")


def test_a_shard_that_could_not_be_read_never_counts_as_sound():
    report = factories.healthy(1)
    report.evidence.shards.append(factories.shard("gone.tar", 0, error="missing"))
    case = suites(report).find("testsuite[@name='shards']/testcase[@classname='gone.tar']")
    assert case is not None
    assert case.find("failure") is not None


def test_totals_add_up():
    root = suites(factories.nasty())
    assert int(root.get("tests", 0)) == len(root.findall(".//testcase"))
    assert int(root.get("failures", 0)) == len(root.findall(".//failure"))


def test_names_with_control_characters_give_valid_xml():
    root = suites(factories.nasty())
    texts = "".join(root.itertext()) + "".join(value for each in root.iter() for value in each.attrib.values())
    assert "<script>" in texts
    assert "\\x00" in texts


def test_a_shard_of_which_a_reader_uses_no_sample_is_not_called_sound(tmp_path):
    """F101 names the first shard only; the others are no better."""
    report = check(shards.with_json(tmp_path, shards=3), ["open-clip-3.3", "datasets"], jobs=1)
    suite = suites(report).find("testsuite[@name='shards']")
    assert suite is not None
    assert suite.findall("testcase[@name='sound']") == []
    failing = suite.findall("testcase[@name='has samples that reach a batch']/failure")
    assert [each.get("message") for each in failing] == ["not for OpenCLIP 3.3.0, Hugging Face datasets"] * 3
