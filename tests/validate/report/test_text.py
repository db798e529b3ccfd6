import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests import factories
from wdsflow.scan.evidence import Evidence
from wdsflow.validate import Repair, Report
from wdsflow.validate.report import html, report_text
from wdsflow.validate.report.verdict_text import summary_and_reasons
from wdsflow.validate.verdicts.pipeline_run import PipelineRun
from wdsflow.validate.verdicts.verdict import Reason


def lines(report: Report, width: int = 100) -> list[str]:
    return report_text.render(report, width).splitlines()


def test_the_verdict_is_the_first_line_and_says_why():
    assert lines(factories.stalled(), 120)[0] == (
        "OpenCLIP 3.3.0  STALLS  0 of 10,000 samples reach a batch: no caption field (txt); they have jpg, json"
    )


def test_a_sound_set_takes_a_few_lines():
    shown = lines(factories.healthy())
    assert shown[0] == "OpenCLIP 3.3.0  TRAINS  30 of 30 samples reach a batch"
    assert "No problems found." in shown
    assert len(shown) < 8


def test_more_reasons_than_are_shown_are_counted():
    reasons = tuple(Reason("bad-image", 1, f"1 of 30 samples: {number}") for number in range(7))
    verdict = factories.verdict("loses", usable=23, reasons=reasons)
    shown = lines(replace(factories.healthy(), verdicts=[verdict]))
    assert shown[5:7] == ["    1 of 30 samples: 4", "    and 2 more reasons"]
    verdict = replace(verdict, reasons=reasons[:5])
    assert "more reason" not in "".join(lines(replace(factories.healthy(), verdicts=[verdict])))


@pytest.mark.parametrize(
    ("shards", "said"),
    [
        (["s/0.tar"] * 8, "and 3 more"),
        ([f"s/{number}.tar" for number in range(8)], "and 3 more shards"),
        ([f"s/{number}.tar" for number in range(6)], "and 1 more shard"),
        (["s/0.tar"] * 5, ""),
    ],
)
def test_more_findings_than_are_shown_are_counted(shards, said):
    findings = [
        factories.finding(shard=shard, message=f"trouble {number}")
        for number, shard in enumerate(shards)
    ]
    shown = lines(replace(factories.healthy(), findings=findings))
    assert [line.strip() for line in shown if line.strip().startswith("and ")] == (
        [said] if said else []
    )


RAN = {"ended_by": "itself", "read": 30, "delivered": 30, "repeated": 0, "shards": 3}


@pytest.mark.parametrize(
    ("outcome", "facts", "run", "said"),
    [
        ("trains", {}, {}, "30 of 30 samples reach a batch"),
        (
            "not judged",
            {},
            {"delivered": 1, "shards": None},
            "1 element came out (4 shards, as far as is visible opened)",
        ),
        (
            "crashes",
            {},
            {"read": None, "ended_by": "exception", "delivered": 7},
            "7 samples came out (3 of 4 shards opened)",
        ),
        (
            "crashes",
            {"usable": 20},
            {"ended_by": "exception"},
            "20 of the 30 samples read (3 of 4 shards) came out",
        ),
        (
            "loses",
            {"usable": 20},
            {"ended_by": "samples"},
            "20 of the 30 samples read (3 of 4 shards) reach a batch",
        ),
        (
            "trains",
            {},
            {"repeated": 5},
            "30 of the 30 samples read (3 of 4 shards) reach a batch",
        ),
        ("trains", {}, {"repeated": 5, "read": 40}, "30 of 30 samples reach a batch"),
        ("loses", {"usable": 20, "least": 9}, {}, "9 to 20 of 30 samples reach a batch"),
        ("loses", {"usable": 20, "least": 0}, {}, "up to 20 of 30 samples reach a batch"),
    ],
)
def test_the_numbers_of_a_run_are_about_what_it_read(outcome, facts, run, said):
    ran = PipelineRun(**(RAN | run), of_shards=4, stages=())
    verdict = factories.verdict(outcome, run=ran, **facts)
    text, reasons = summary_and_reasons(verdict)
    assert (text, reasons) == (said, [])


def test_the_order_is_verdict_advice_findings_forecast_and_totals():
    report = factories.stalled()
    report = replace(report, forecasts=[factories.forecast()])
    whole = "\n".join(lines(report))
    wanted = [
        "STALLS",
        "What to do",
        "Found:",
        "error   W101",
        "Forecast",
        "Note:",
        "2 shards",
        "wdsflow explain W101",
    ]
    places = [whole.index(word) for word in wanted]
    assert places == sorted(places)


def test_the_funnel_ends_where_nothing_is_left():
    assert "    20,000 members -> 10,000 samples -> 0 with image and caption" in lines(
        factories.stalled()
    )
    assert (
        "    60 members -> 30 samples -> 30 image + caption -> 30 decode -> 30 in batches"
        in lines(factories.healthy())
    )


def test_what_a_level_could_not_know_is_called_an_upper_bound():
    report = factories.healthy()
    report = replace(report, verdicts=[factories.verdict(usable=20, exact=False)])
    assert "up to 20 of 30 samples reach a batch" in lines(report)[0]
    report = replace(report, verdicts=[factories.verdict(usable=20, exact=True)])
    assert "up to" not in lines(report)[0]


def test_several_reasons_stand_below_the_verdict():
    report = factories.healthy()
    reasons = (
        Reason("no-caption", 3, "3 of 30 samples: no caption"),
        Reason("bad-image", 1, "1 of 30 samples: bad"),
    )
    report = replace(report, verdicts=[factories.verdict("loses", usable=26, reasons=reasons)])
    assert lines(report)[1:3] == ["    3 of 30 samples: no caption", "    1 of 30 samples: bad"]


@pytest.mark.parametrize("width", [40, 80, 100, 160])
def test_no_line_is_wider_than_asked_for_but_commands(width):
    report = factories.stalled()
    command = "python -m open_clip_train.main " + "--train-data 'some where/{0000..0041}.tar' " * 6
    report = replace(report, advice=[factories.advice(command=command)])
    shown = lines(report, width)
    assert "       " + command in shown
    fixes = [line for line in shown if line.strip().startswith("wdsflow ")]
    assert [
        line for line in shown if len(line) > width and command not in line and line not in fixes
    ] == []


def test_a_command_of_several_lines_stays_as_it_is():
    report = factories.stalled()
    report = replace(
        report, advice=[factories.advice(command="def stage(sample):\n    return sample")]
    )
    shown = lines(report, 80)
    at = shown.index("       def stage(sample):")
    assert shown[at + 1] == "           return sample"


def test_no_line_ends_in_blanks():
    for report in (factories.healthy(), factories.stalled(), factories.nasty()):
        assert [line for line in lines(report, 80) if line != line.rstrip()] == []


def test_many_findings_of_one_rule_are_cut_to_five_and_a_number():
    report = factories.healthy()
    report = replace(
        report,
        findings=[
            factories.finding(
                "W001", shard=f"{number:04d}.tar", message=f"{number:04d}.tar is cut short"
            )
            for number in range(17)
        ],
    )
    shown = "\n".join(lines(report))
    assert shown.count("is cut short") == 5
    assert "and 12 more shards" in shown
    assert "Found: 1 error" in shown


def test_a_place_is_named_unless_the_message_does():
    report = factories.healthy()
    report = replace(
        report,
        findings=[
            factories.finding(
                shard="a/0007.tar", key="cat", offset=5_120, message="3 keys come back"
            )
        ],
    )
    assert any(
        line.endswith("3 keys come back (0007.tar, sample cat, member at byte 5,120)")
        for line in lines(report)
    )
    report = replace(
        report,
        findings=[
            factories.finding(shard="a/0007.tar", key="cat", message="0007.tar: cat comes back")
        ],
    )
    assert any(line.endswith("0007.tar: cat comes back") for line in lines(report))


def test_errors_come_before_warnings_before_notes():
    report = factories.healthy()
    report = replace(
        report,
        findings=[
            factories.finding(code, severity)
            for code, severity in (("I1", "info"), ("W1", "warning"), ("E1", "error"))
        ],
    )
    whole = "\n".join(lines(report))
    assert whole.index("E1") < whole.index("W1") < whole.index("I1")


def test_an_unsafe_fix_says_so():
    report = factories.healthy()
    report = replace(
        report, findings=[factories.finding(repair=Repair("wdsflow repair x --drop", safe=False))]
    )
    shown = lines(report)
    step = shown.index("What to do") + 1
    assert shown[step].startswith("  1. fix W006 (")
    assert "unsafe" in shown[step] + shown[step + 1]
    assert "       wdsflow repair x --drop" in shown
    report = replace(
        report,
        findings=[
            factories.finding(
                severity="warning", repair=Repair("wdsflow repair x --drop", safe=False)
            )
        ],
    )
    assert "    unsafe fix (data is changed or left out):" in lines(report)


def test_a_fix_is_printed_once_and_pointed_at_afterwards():
    report = factories.healthy()
    fix = Repair("wdsflow repair shards -o repaired")
    report = replace(
        report,
        findings=[
            factories.finding("W001", repair=fix),
            factories.finding("W002", "warning", repair=fix),
        ],
    )
    shown = lines(report)
    assert shown.count("       wdsflow repair shards -o repaired") == 1
    assert shown.count("    fix: 1 above") == 2


def test_the_same_advice_for_several_readers_comes_once_with_what_it_brings_each():
    report = factories.stalled()
    facts = {"command": "wdsflow repair s -o repaired", "usable": 785, "samples": 796}
    report = replace(
        report,
        advice=[
            factories.advice("write a txt", **facts, title="OpenCLIP 3.3.0"),
            factories.advice("write a txt", **facts, title="webdataset 1.x", now=3),
            factories.advice(
                "write a txt", **(facts | {"usable": 780, "exact": False}), title="Ray Data"
            ),
        ],
    )
    shown = lines(report, 1_000)
    step = (
        "  1. write a txt: 785 of 796 samples would reach a batch in OpenCLIP 3.3.0 (now 0) and webdataset 1.x (now 3); "
        "up to 780 of 796 samples would reach a batch in Ray Data (now 0)"
    )
    assert shown[shown.index("What to do") + 1 :][:2] == [
        step,
        "       wdsflow repair s -o repaired",
    ]


def test_what_is_missing_in_part_is_counted_beside_the_verdict():
    report = factories.healthy()
    reasons = (Reason("no-caption", 11, "11 of 796 samples: no caption field; they have jpg"),)
    report = replace(report, verdicts=[factories.verdict("trains", 796, 785, reasons)])
    assert (
        lines(report, 200)[0]
        == "OpenCLIP 3.3.0  TRAINS  785 of 796 samples reach a batch (11 lack a caption)"
    )


@pytest.mark.parametrize("width", [20, 40, 200])
def test_what_could_not_be_read_is_one_line_and_no_verdict(width):
    missing = [factories.shard(f"/s/{number}.tar", 0, error="missing") for number in range(3)]
    report = Report(urls=["/s/{0..2}.tar"], evidence=Evidence("headers", missing))
    assert (
        lines(report, width)[0] == "nothing could be read: /s/0.tar and 2 more shards: no such file"
    )
    assert "STALLS" not in str(report)


def test_samples_that_are_usable_although_training_ends_are_called_so():
    report = factories.healthy()
    report = replace(report, verdicts=[factories.verdict("crashes", usable=20)])
    assert lines(report)[0] == "OpenCLIP 3.3.0  CRASHES  20 of 30 samples are usable"


def test_ignored_findings_are_counted_with_their_reason():
    report = factories.healthy()
    report = replace(
        report,
        ignored=[
            (factories.finding("W013"), "two cameras"),
            (factories.finding("W013"), "two cameras"),
        ],
    )
    report = replace(report, accepted=[factories.finding("W013")] * 4)
    shown = lines(report)
    assert "ignored W013, 2 findings: two cameras" in shown
    assert "4 known findings in the baseline not shown" in shown


def test_data_cannot_speak_to_the_terminal():
    whole = report_text.render(factories.nasty(), 100)
    assert {char for char in whole if not char.isprintable()} <= {"\n", "\ufffe"}
    assert "[red]b[/red]" in whole  # markup is shown, not obeyed
    buffer = io.StringIO()
    report_text.show(
        factories.nasty(),
        Console(file=buffer, force_terminal=True, color_system="standard", width=100),
    )
    assert "\x1b[31m[red]" not in buffer.getvalue()


def test_colour_is_there_only_where_asked_for():
    buffer = io.StringIO()
    report_text.show(
        factories.stalled(),
        Console(file=buffer, force_terminal=True, color_system="standard", width=100),
    )
    assert "\x1b[1;31mSTALLS" in buffer.getvalue()
    assert "\x1b" not in str(factories.stalled())


def test_the_summary_is_the_verdict_and_the_totals():
    buffer = io.StringIO()
    report_text.show_summary(factories.stalled(), Console(file=buffer, width=100))
    shown = buffer.getvalue().splitlines()
    assert shown[0].startswith("OpenCLIP 3.3.0  STALLS")
    assert "Found: 1 error" in shown
    assert len(shown) <= 4


def test_a_report_without_shards_or_verdicts_is_still_a_text():
    shown = str(Report(urls=["gone.tar"], evidence=Evidence("headers")))
    assert "0 shards, 0 samples" in shown
    assert "Nothing found" not in shown


def test_an_error_beside_a_good_verdict_is_told_at_once():
    report = factories.healthy()
    report = replace(
        report, findings=[factories.finding("W001"), factories.finding("W002", "warning")]
    )
    assert "    but check 1 error below (exit status 1)" in lines(report)
    report = replace(report, findings=report.findings[1:])
    assert not any("exit status" in line for line in lines(report))


@pytest.mark.parametrize("outcome", ["stalls", "crashes", "refused"])
def test_samples_that_a_fault_of_the_run_keeps_from_batches_are_usable_in_the_funnel(outcome):
    reasons = (Reason("run", 0, "rank 0 worker 0 gets 0 batches"),)
    report = replace(factories.healthy(), verdicts=[factories.verdict(outcome, reasons=reasons)])
    text = "\n".join(lines(report))
    assert "-> 30 decode -> 30 usable" in text
    assert "in batches" not in text
    assert "reach a batch" not in html.render(report)


def test_files_that_are_no_samples_are_no_reason_with_the_number_0():
    reasons = (
        Reason("no-image-or-caption", 0, "0 of 30 samples: neither an image nor a caption field"),
    )
    report = replace(factories.healthy(), verdicts=[factories.verdict(reasons=reasons)])
    assert lines(report)[0] == "OpenCLIP 3.3.0  TRAINS  30 of 30 samples reach a batch"
