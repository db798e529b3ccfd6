from dataclasses import replace

from tests import factories
from wdsflow.validate import Repair
from wdsflow.validate.report import render


def lines(report) -> list[str]:
    return render(report, "github").splitlines()


def test_the_verdict_comes_first_and_is_an_error_unless_it_trains():
    assert lines(factories.healthy())[0] == (
        "::notice title=OpenCLIP 3.3.0 trains::30 of 30 samples reach a batch"
    )
    assert lines(factories.stalled())[0].startswith(
        "::error title=OpenCLIP 3.3.0 stalls::0 of 10,000 samples reach"
    )


def test_the_findings_of_a_rule_are_one_annotation():
    report = factories.healthy()
    report = replace(
        report,
        findings=[
            factories.finding("W001", shard=f"d/{number}.tar", message="cut") for number in range(9)
        ],
    )
    shown = [line for line in lines(report) if "W001" in line]
    assert len(shown) == 1
    assert shown[0].startswith("::error file=d/0.tar,title=W001")
    assert shown[0].endswith("::cut%0Aalso in 1.tar, 2.tar, 3.tar, 4.tar, 5.tar and 3 more")


def test_severities_become_error_warning_and_notice():
    report = factories.healthy()
    report = replace(
        report,
        findings=[
            factories.finding(f"W00{number}", each)
            for number, each in enumerate(("error", "warning", "info"))
        ],
    )
    assert [line.partition(" ")[0] for line in lines(report)[1:]] == [
        "::error",
        "::warning",
        "::notice",
    ]


def test_what_ends_a_command_is_escaped():
    report = factories.healthy()
    report = replace(
        report,
        findings=[
            factories.finding(
                "W:1,2", shard="d/a,b:100%.tar", message="50% of x: y, z", repair=Repair("a\nb")
            )
        ],
    )
    assert (
        lines(report)[1]
        == "::error file=d/a%2Cb%3A100%25.tar,title=W%3A1%2C2::50%25 of x: y, z%0Afix: a%0Ab"
    )


def test_data_cannot_begin_a_command_of_its_own():
    shown = lines(factories.nasty())
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in shown)
    assert len(shown) == 4


def test_a_remote_shard_is_no_file_of_the_repository():
    report = factories.healthy()
    report = replace(report, findings=[factories.finding(shard="s3://bucket/0.tar")])
    assert "file=" not in lines(report)[1]
