"""Order, causes, folding, selection."""

from pathlib import Path

import pytest

from tests.validate.rules import build
from tests.validate.rules.build import Case, context_of, jpeg, pairs, png, samples, tar
from tests.validate.rules.cases import CASES, READERS
from wdsflow import check
from wdsflow.scan.evidence import ShardEvidence, Tally
from wdsflow.shards.source.base import single_shard
from wdsflow.validate.catalog.rule_catalog import UnknownCode
from wdsflow.validate.catalog.run_rules import run_rules

HEALTHY = {f"{number}.tar": tar(pairs(10, 100 * number)) for number in range(3)}


def codes(case: Case, folder: Path, *select: str) -> list[str]:
    return [finding.code for finding in case.findings(folder, *select)]


def test_healthy_shards_have_no_findings_for_any_reader(tmp_path: Path):
    varied = {
        name: tar(samples(10, 100 * index, jpg=jpeg((64, 48 + index)), txt=b"a dog %d" % index))
        for index, name in enumerate(("0.tar", "1.tar", "2.tar"))
    }

    assert codes(Case(varied, READERS), tmp_path) == []


def test_no_shards_at_all_are_a_report_without_findings():
    report = check([], readers=READERS)
    assert (report.findings, report.nothing_read, report.evidence.samples) == ([], True, 0)


@pytest.mark.parametrize("code", CASES)
def test_a_fault_of_one_kind_is_told_by_few_rules(code: str, tmp_path: Path):
    found = set(codes(CASES[code], tmp_path)) - {"P301"}

    assert code in found
    assert len(found) <= 4


def test_findings_come_by_severity_then_code_then_shard(tmp_path: Path):
    cut = [tar(pairs(5, start))[:-1500] for start in (100, 200)]
    case = Case({"0.tar": tar([*pairs(5), (".x", b"")]), "1.tar": cut[0], "2.tar": cut[1]})
    found = [
        (item.severity, item.code, Path(item.shard or "").name)
        for item in case.findings(tmp_path, "W")
    ]

    assert found[:2] == [("error", "W001", "1.tar"), ("error", "W001", "2.tar")]
    assert found[-1] == ("info", "W023", "0.tar")
    assert found == sorted(
        found, key=lambda item: (["error", "warning", "info"].index(item[0]), item[1], item[2])
    )


def test_interleaving_explains_missing_fields_in_its_shard_only(tmp_path: Path):
    torn = tar(sorted(pairs(10), key=lambda member: member[0][-3:]))
    lacking = tar([*pairs(10, 100), ("900.jpg", jpeg())])
    case = Case({"0.tar": torn, "1.tar": lacking})

    found = [
        (item.code, Path(item.shard or "").name) for item in case.findings(tmp_path, "W006", "F102")
    ]
    assert found == [("W006", "0.tar"), ("F102", "1.tar")]


def test_a_cause_that_was_not_selected_explains_nothing(tmp_path: Path):
    torn = tar(sorted(pairs(10), key=lambda member: member[0][-3:]))

    assert "F102" not in codes(Case({"0.tar": torn}), tmp_path, "W006", "F102")
    assert "F102" in codes(Case({"0.tar": torn}), tmp_path, "F102")


def test_an_ignored_rule_is_told_with_its_reason_and_still_explains(tmp_path: Path):
    torn = tar(sorted(pairs(10), key=lambda member: member[0][-3:]))
    context = Case({"0.tar": torn}).context(tmp_path)
    findings, ignored = run_rules(
        context, ["W006", "F102"], {"W": "all tars", "w006": "we regroup on the fly"}
    )

    assert findings == []
    assert [(finding.code, reason) for finding, reason in ignored] == [
        ("W006", "we regroup on the fly")
    ]


def test_codes_can_be_chosen_by_their_beginning(tmp_path: Path):
    case = CASES["W027"]
    for prefix in ("W", "w0", "W027"):
        assert "W027" in codes(case, tmp_path, prefix)
    assert codes(case, tmp_path, "I") == []


@pytest.mark.parametrize(
    ("wrong", "meant"), [("W999", ""), ("Q", ""), ("", ""), ("W0270", "; did you mean W027?")]
)
def test_an_unknown_code_is_refused_and_names_one_that_is_like_it(
    tmp_path: Path, wrong: str, meant: str
):
    context = Case(dict(HEALTHY)).context(tmp_path)
    with pytest.raises(UnknownCode) as refused:
        run_rules(context, [wrong])
    assert str(refused.value) == f"no rule has the code {wrong!r}{meant}"
    with pytest.raises(UnknownCode):
        run_rules(context, (), {wrong: "because"})


def test_many_shards_are_folded_into_one_finding():
    shards = [
        ShardEvidence(single_shard(f"{number:03d}.tar"), tallies={"tar.link": Tally(2, "a", 512)})
        for number in range(50)
    ]
    findings, _ = run_rules(context_of(shards), ["W024"])

    assert len(findings) == 21
    assert findings[-1].shard is None
    assert (
        findings[-1].message == "Links are skipped: the same in 30 more shards, 60 times in total"
    )
    assert findings[-1].count == 60
    assert sum(finding.count for finding in findings) == 100


def test_folding_keeps_the_worst(tmp_path: Path):
    whole = tar(pairs(5), end=False)
    shards = {
        f"{number:03d}.tar": whole if number < 40 else tar(pairs(5)[:-1], end=False)
        for number in range(42)
    }
    findings = Case(dict(shards)).findings(tmp_path, "W018")

    assert [finding.severity for finding in findings].count("error") == 2
    assert [Path(finding.shard or "").name for finding in findings[:2]] == ["040.tar", "041.tar"]


def test_small_losses_warn_and_large_ones_are_errors(tmp_path: Path):
    few = Case({"0.tar": tar([*pairs(30), ("900.jpg", b""), ("900.txt", b"a")])})
    many = Case({"0.tar": tar([*pairs(5), *samples(5, 900, jpg=b"", txt=b"a")])})

    assert [finding.severity for finding in few.findings(tmp_path, "I216")] == ["warning"]
    assert [finding.severity for finding in many.findings(tmp_path, "I216")] == ["error"]


def test_a_loss_is_told_for_those_readers_who_have_it(tmp_path: Path):
    case = Case({"0.tar": tar(pairs(3, id=b"x"))}, READERS[:3])
    (finding,) = case.findings(tmp_path, "F121")

    assert finding.readers == ("open-clip-3.3", "webdataset-1")
    assert "OpenCLIP 3.3.0 drops 3 samples" in finding.message
    assert "webdataset 1.x ends with an exception" in finding.message


def test_zstandard_is_an_error_for_readers_that_cannot_unpack_it():
    shards = [ShardEvidence(single_shard("0.tar.zst"), compression="zst", samples=1)]
    (finding,), _ = run_rules(context_of(shards, READERS), ["W004"])

    assert finding.severity == "error"
    assert finding.readers == READERS[:4]  # Arrow unpacks it for Ray Data


def test_an_error_does_not_vanish_behind_a_remark(tmp_path: Path):
    """A dotted field that costs nothing is no cause for samples that differ in their fields."""
    data = tar([*pairs(2), *pairs(1, 10, **{"emb.bin": b"x"}), *pairs(9, 20)])
    found = Case({"0.tar": data}, ("datasets",)).findings(tmp_path, "W010", "F110")

    assert [(finding.code, finding.severity) for finding in found] == [
        ("F110", "error"),
        ("W010", "info"),
    ]


def test_a_sample_that_loses_members_to_another_shard_is_a_warning(tmp_path: Path):
    """The png joins the open sample, which already has a jpg.

    The caption after it is then a sample of its own.
    """
    later = [*samples(1, 29, png=png(), txt=b"a cat"), *pairs(30, 100)]
    (finding,) = Case({"0.tar": tar(pairs(30)), "1.tar": tar(later)}).findings(tmp_path, "W021")

    assert finding.severity == "warning"
    assert "have the same key" in finding.message


def test_shards_that_share_no_keys_are_not_called_alike(tmp_path: Path):
    case = Case(
        {
            f"{number}.tar": tar(samples(30, 100 * number, png=png(), txt=b"a"))
            for number in range(9)
        }
    )

    assert codes(case, tmp_path, "W008") == []


@pytest.mark.parametrize(
    ("first", "second", "expected"), [(0, 0, []), (0, 1, ["W008"]), (1, 0, ["W008"])]
)
def test_equal_keys_are_a_fault_unless_dots_have_cut_them_in_both_shards(
    first: int, second: int, expected: list[str], tmp_path: Path
):
    """``photo 3.7 (x).jpg`` has the key ``photo 3``: W010 reports that."""
    fields = {"jpg": jpeg(), "txt": b"a cat"}
    cut = [(f"photo {n}.{n}7 (x).{name}", data) for n in range(30) for name, data in fields.items()]
    whole = [(f"photo {n}.{name}", data) for n in range(30) for name, data in fields.items()]
    tars = tar(cut), tar(whole)

    case = Case({"0.tar": tars[first], "1.tar": tars[second]})

    assert codes(case, tmp_path, "W008") == expected


def test_a_whole_sample_at_the_border_is_not_mispaired(tmp_path: Path):
    same = {"0.tar": tar(pairs(30)), "1.tar": tar([*pairs(1, 29), *pairs(5, 100)])}

    assert codes(Case(same), tmp_path, "W021", "W009") == []


def test_a_reader_that_marks_the_end_of_shards_does_not_mispair(tmp_path: Path):
    case = CASES["W021"]

    assert codes(Case(case.shards, ("webdataset-1",)), tmp_path, "W021") == []


def test_names_from_data_are_escaped_in_messages(tmp_path: Path):
    nasty = "\x1b[31m[bold]x\r\n"
    case = Case(
        {
            "0.tar": tar(
                [*pairs(3), (f"{nasty}.a.jpg", jpeg()), (f"{nasty}", b""), (f"q.{nasty}", b"")]
            )
        }
    )
    findings = case.findings(tmp_path)

    assert findings
    for finding in findings:
        assert finding.message.isprintable(), finding


def test_commands_can_be_pasted(tmp_path: Path):
    name = "it's a $(shard) {0}.tar"
    Case({name: tar([("0.jpg", jpeg()), ("d/._a.jpg", b""), ("0.txt", b"a dog")])}).write(tmp_path)
    advice = check([tmp_path / name]).advice[0]

    import shlex

    assert shlex.split(advice.command) == [
        "wdsflow",
        "repair",
        str(tmp_path / name),
        "-o",
        "repaired",
    ]


def test_build_gives_what_it_says(tmp_path: Path):
    """The cases stand on these."""
    import tarfile

    (tmp_path / "a.tar").write_bytes(tar(pairs(2)))
    with tarfile.open(tmp_path / "a.tar") as archive:
        assert archive.getnames() == ["000.jpg", "000.txt", "001.jpg", "001.txt"]
    assert len(build.jpeg()) == len(build.png()) == build.PADDED
