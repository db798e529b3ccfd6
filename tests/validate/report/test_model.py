from dataclasses import replace

from tests import factories
from wdsflow.scan.evidence import Evidence
from wdsflow.validate import Report


def test_a_report_is_ok_when_all_train_and_no_finding_is_an_error():
    report = factories.healthy()
    assert report.ok
    assert report.exit_status == 0
    report = replace(
        report, findings=[factories.finding(severity="warning"), factories.finding(severity="info")]
    )
    assert report.ok
    report = replace(report, findings=[factories.finding(severity="error")])
    assert not report.ok
    assert report.exit_status == 1


def test_one_reader_that_does_not_train_is_enough():
    for outcome in ("loses", "stalls", "crashes"):
        report = factories.healthy()
        report = replace(report, verdicts=[*report.verdicts, factories.verdict(outcome)])
        assert not report.ok


def test_a_bad_verdict_is_accepted_if_a_baseline_knows_a_reason():
    report = factories.healthy()
    report = replace(report, verdicts=[factories.verdict("loses")], against_baseline=True)
    assert not report.ok
    assert replace(report, accepted=[factories.finding(severity="error")]).ok
    assert not replace(
        report,
        accepted=[factories.finding(severity="error")],
        findings=[factories.finding("W002", severity="error")],
    ).ok


def test_nothing_read_means_not_one_shard():
    report = factories.healthy()
    assert not report.nothing_read
    report = replace(
        report,
        evidence=Evidence(
            "headers", [factories.shard(), factories.shard("gone.tar", 0, error="missing")]
        ),
    )
    assert not report.nothing_read
    report = replace(
        report, evidence=Evidence("headers", [factories.shard("gone.tar", 0, error="missing")])
    )
    assert report.nothing_read


def test_a_report_shows_itself_as_text_and_in_notebooks():
    report = factories.stalled()
    assert str(report).startswith("OpenCLIP 3.3.0  STALLS")
    assert report._repr_html_().startswith('<div class="wdsflow">')
    assert report.to_dict()["ok"] is False


def test_an_empty_report_has_nothing_read():
    assert Report(urls=[], evidence=Evidence("names")).nothing_read
