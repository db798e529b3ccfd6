"""What a report says of the numbers of a run: where samples were lost, and what is not visible.

The runs are made by hand, as the reports of their processes have them.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import factories
from wdsflow.scan.evidence import Evidence
from wdsflow.validate.pipeline.meters.reported_stage import (
    BLANK,
    COMBINED,
    LostSamples,
    ReportedStage,
)
from wdsflow.validate.pipeline.observed.observation import Observation
from wdsflow.validate.pipeline.observed.output_content import OutputContent
from wdsflow.validate.pipeline.observed.run_reasons import reasons_of
from wdsflow.validate.pipeline.observed.sample_keys import SampleKeys
from wdsflow.validate.pipeline.observed.unclear_runs import why_unclear
from wdsflow.validate.pipeline.reports.process_position import DATASET, MAIN, Role
from wdsflow.validate.pipeline.reports.process_report import Fault, ProcessReport
from wdsflow.validate.pipeline.run.observed_run import ObservedRun, all_stages
from wdsflow.validate.verdicts.verdict import Outcome

# Both are on this machine.
SHARDS = ("0.tar", "1.tar")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two shards, and the folder of the run."""
    monkeypatch.chdir(tmp_path)
    for name in SHARDS:
        (tmp_path / name).touch()
    return tmp_path


def stage(title: str, kind: Any = "sample", out: int = 0, **facts: Any) -> ReportedStage:
    made = ReportedStage(0, title, kind=kind, out=out)
    made.ended = facts.pop("ended", True)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def lost(count: int, error: str = "", line: str = "", key: str = "", **facts: Any) -> LostSamples:
    return LostSamples(error, line, key, "0.tar" if key else "", count, **facts)


def report(*stages: ReportedStage, role: Role = MAIN, **facts: Any) -> ProcessReport:
    return ProcessReport(
        role=role,
        pid=1,
        stages=list(stages),
        fault=None,
        limit=facts.pop("limit", ""),
        passes=facts.pop("passes", 1),
        stage_ended_early=facts.pop("stage_ended_early", -1),
        draws_shards=facts.pop("draws_shards", False),
        repeats=False,
        never_ends=False,
        without_key=facts.pop("without_key", 0),
        possible_batches=facts.pop("possible_batches", 0),
    )


def read_from_shards(count: int = 20) -> tuple[ReportedStage, ...]:
    """Return the stages of a pipeline whose steps from shards to samples are visible."""
    return stage("shards", "shard", 2), stage("samples", out=count)


def names(count: int, first: int = 0) -> list[str]:
    return [f"{number:06d}" for number in range(first, first + count)]


def observed(
    *reports: ProcessReport,
    entered: Sequence[tuple[str, str]] = (),
    delivered: Sequence[str] = (),
    in_shards: Sequence[tuple[str, str]] = (),
    rows: Sequence[dict[str, str]] = (),
    opened: Sequence[str] = SHARDS,
    **facts: Any,
) -> Observation:
    """Return what was observed of a run over two shards of 10 samples each."""
    folder = Path.cwd()
    for kind, entries in (
        ("entered", list(entered)),
        ("delivered", [("", key) for key in delivered]),
    ):
        Path(f"main.{kind}").write_text("".join(json.dumps(each) + "\n" for each in entries))
    run = ObservedRun(
        end=facts.pop("end", "ended"),
        stages=all_stages(reports),
        reports=list(reports),
        fault=facts.pop("fault", None),
        idle=facts.pop("idle", 0.0),
        seconds=facts.pop("seconds", 3.0),
    )
    shards = [factories.shard(name) for name in SHARDS]
    return Observation(
        Evidence("headers", shards),
        run,
        SampleKeys(folder, in_shards),
        OutputContent(rows, list),
        SHARDS,
        set(opened),
    )


def reasons(
    observation: Observation, outcome: Outcome = "loses", unclear: str = ""
) -> Iterator[str]:
    """Yield the reasons of a report."""
    for reason in reasons_of(observation, outcome, unclear):
        yield f"{reason.slug} {reason.count}: {reason.message}"


KEYED = [(SHARDS[number // 10], f"{number:06d}") for number in range(20)]


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (
            stage("select", out=16, losses={"": lost(4, "", "train.py:7", "000003")}),
            "dropped 4: 4 of 20 samples: stage 3 select leaves them out (train.py:7, the first: sample 000003 of 0.tar)",
        ),
        (
            stage("map", out=16, losses={"KeyError": lost(4, "KeyError: 'txt'", "train.py:7")}),
            "dropped 4: 4 of 20 samples: stage 3 map drops them (KeyError: 'txt', train.py:7)",
        ),
        (
            stage("map", out=16, losses={BLANK: lost(4, BLANK, "train.py:7", "item 3")}),
            "dropped 4: 4 of 20 samples: stage 3 map gives None for 4 samples (train.py:7, the first: item 3 of 0.tar)",
        ),
        (
            stage("own", out=16, line="train.py:9", logged=2, first_log="no image"),
            "dropped 4: 4 of 20 samples: stage 3 own leaves them out (train.py:9, it logged 2 warnings, the first: no image)",
        ),
        (
            stage("own", out=16, logged=1, first_log="x", ended_stream=True),
            "dropped 4: 4 of 20 samples: stage 3 own leaves them out (it logged 1 warning: x); its handler ended the stream there",
        ),
        (
            stage("own", "", out=0),
            "dropped 20: 20 of 20 samples: stage 3 own leaves them out",
        ),
        (
            stage("batched", "batch", 2, rows=16, batch=8),
            "together 4: 4 of 20 samples: stage 3 batched leaves out a batch that is not full, or its collate function drops them",
        ),
        (
            stage("batched", "batch", 0, rows=0, batch=64),
            "together 20: 20 of 20 samples: stage 3 batched gets 20 samples, too few for one batch",
        ),
    ],
    ids=lambda value: value.title if isinstance(value, ReportedStage) else "",
)
def test_samples_that_a_stage_lost_are_told_with_the_reason(last: ReportedStage, said: str) -> None:
    assert list(reasons(observed(report(*read_from_shards(), last)))) == [said]


def test_of_several_reasons_the_one_that_costs_most_comes_first() -> None:
    losses = {"KeyError": lost(2, "KeyError: 'txt'"), "ValueError": lost(5, "ValueError: cut")}
    last = stage("map", out=10, losses=losses)

    assert list(reasons(observed(report(*read_from_shards(), last)))) == [
        "dropped 5: 5 of 20 samples: stage 3 map drops them (ValueError: cut)",
        "dropped 3: 3 of 20 samples: stage 3 map leaves them out",
        "dropped 2: 2 of 20 samples: stage 3 map drops them (KeyError: 'txt')",
    ]


LEAVES = "leaves out a batch that is not full, or its collate function drops them"


@pytest.mark.parametrize(
    ("losses", "facts", "said"),
    [
        ({}, {}, f"together 8: 8 of 20 samples: stage 4 filter {LEAVES}"),
        (
            {"KeyError": lost(1, "KeyError: 'txt'")},
            {},
            "dropped 8: 8 of 20 samples: stage 4 filter drops them (KeyError: 'txt')",
        ),
        # Of two reasons it is not known how many samples each has cost.
        (
            {"KeyError": lost(1, "KeyError: 'txt'"), "ValueError": lost(1, "ValueError: x")},
            {},
            f"together 8: 8 of 20 samples: stage 4 filter {LEAVES}",
        ),
        ({}, {"unclear": 1}, ""),
        ({}, {"ended": False}, ""),
    ],
)
def test_lost_batches_are_counted_in_samples(
    losses: dict[str, LostSamples], facts: dict[str, Any], said: str
) -> None:
    batches = stage("batched", "batch", 5, rows=20, batch=4)
    last = stage("filter", "batch", 3, rows=12, losses=losses, **facts)
    texts = list(reasons(observed(report(*read_from_shards(), batches, last))))

    assert [text for text in texts if "filter" in text] == ([said] if said else [])


def test_what_is_in_buffers_when_a_limit_ends_the_run_is_not_lost() -> None:
    last = stage("shuffle", out=15, ended=False)

    assert list(reasons(observed(report(*read_from_shards(), last, limit="samples")))) == [
        "incomplete 5: 5 of 20 samples: they were in a buffer, or in a batch that was not full, when reading ended: not counted as lost"
    ]


def test_each_worker_may_have_a_batch_that_was_not_full_when_a_limit_ended_the_run() -> None:
    def workers(rows: int) -> Iterator[str]:
        first = report(
            *read_from_shards(10),
            stage("batched", "batch", 1, rows=rows - 4, batch=4),
            role=DATASET,
        )
        other = report(
            *read_from_shards(10), stage("batched", "batch", 1, rows=4, batch=4), role=DATASET
        )
        return reasons(observed(report(limit="samples"), first, other))  # fmt: skip

    assert [text.partition(":")[0] for text in workers(14)] == ["incomplete 6"]
    assert [text.partition(":")[0] for text in workers(12)] == ["together 2", "incomplete 6"]


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([report(*read_from_shards(), draws_shards=True)], "; it draws shards at random"),
        ([report(*read_from_shards(), passes=2)], "; it repeats"),
        (
            [
                report(stage("loader", out=20)),
                report(*read_from_shards(10), role=DATASET),
                report(*read_from_shards(10), role=DATASET),
            ],
            "; it has 2 workers, which may read the same samples",
        ),
        ([report(*read_from_shards())], ""),
    ],
)
def test_samples_that_came_again_are_told_with_the_reason(
    reports: list[ProcessReport], why: str
) -> None:
    observation = observed(*reports, entered=KEYED[:15] + KEYED[:5], in_shards=KEYED)

    assert f"repeated 0: samples came more than once: 5 of 20 had come before{why}" in list(
        reasons(observation)
    )


def test_samples_that_a_stage_puts_into_others_are_told() -> None:
    mixes = stage(
        "mixup",
        out=16,
        line="train.py:5",
        losses={COMBINED: lost(4, COMBINED, "", "000001")},
    )
    twice = stage("crops", out=32, line="train.py:8")

    assert list(reasons(observed(report(*read_from_shards(), mixes, twice)))) == [
        "combined 0: stage 3 mixup combines 4 samples with others, into elements of several samples (train.py:5, the first: sample 000001 of 0.tar)",
        "several 0: stage 4 crops makes 32 elements of 16 samples: samples come out more than once, or in parts (train.py:8)",
    ]


@pytest.mark.parametrize(
    ("facts", "limit", "said"),
    [
        (
            {},
            "asks-ended-source",
            "a stage asks its ended input again and again, and gives nothing",
        ),
        ({}, "empty-passes", "it reads the shards again and again, and no sample comes out"),
        ({"end": "time"}, "", "nothing came out within 3.0 s, while 20 samples entered"),
    ],
)
def test_a_run_that_gives_nothing_is_told_with_what_it_does(
    facts: dict[str, Any], limit: Any, said: str
) -> None:
    last = stage("own", out=0, ended=False)
    observation = observed(report(*read_from_shards(), last, limit=limit), **facts)

    assert next(reasons(observation, "stalls")) == f"hang 0: {said}"


def test_code_without_stages_that_gives_nothing_has_no_count_of_what_entered() -> None:
    observation = observed(report(stage("make", out=0, ended=False)), end="time", seconds=90.0)

    assert list(reasons(observation, "stalls")) == ["hang 0: nothing came out within 90 s"]


@pytest.mark.parametrize(
    ("fault", "end", "said"),
    [
        (
            Fault(2, "", "", "", "", ""),
            "hung",
            "hang 0: stage 3 own hangs: no step for 12 s, at in code that is not yours",
        ),
        (
            Fault(-1, "", "train.py:4", "000003", "1.tar", ""),
            "hung",
            "hang 0: the pipeline hangs: no step for 12 s, at train.py:4, at sample 000003 of 1.tar",
        ),
        (
            Fault(2, "signal 9", "", "", "", ""),
            "died",
            "crash 0: stage 3 own ends its process (signal 9)",
        ),
        (
            Fault(3, "KeyError: 'txt'", "train.py:4", "000003", "", ""),
            "raised",
            "crash 0: the pipeline raises an exception, which ends the run (KeyError: 'txt', train.py:4), at sample 000003",
        ),
    ],
)
def test_what_ended_a_run_is_its_first_reason(fault: Fault, end: Any, said: str) -> None:
    run = report(*read_from_shards(), stage("own", out=20))

    assert next(reasons(observed(run, fault=fault, end=end, idle=12.0), "crashes")) == said


def own_code(out: int, **facts: Any) -> ReportedStage:
    """Return the only stage of code that reads the tars itself."""
    return stage("make", out=out, line="train.py:3", **facts)


@pytest.mark.parametrize(
    ("run", "facts", "said"),
    [
        (
            report(*read_from_shards(15), stage_ended_early=1),
            {},
            "ends 5: 5 of 20 samples: the pipeline ends after 15 samples (2 of 2 shards): stage 2 samples stops before its input does",
        ),
        (
            report(*read_from_shards(15)[:1], stage("samples", out=15, ended=False)),
            {},
            "ends 5: 5 of 20 samples: the pipeline ends after 15 samples (2 of 2 shards), such as by with_epoch",
        ),
        (
            report(*read_from_shards(15)),
            {},
            "unread 5: 5 of 20 samples: they did not enter: they are after damage, or their members are parts of other samples",
        ),
        (
            report(own_code(10)),
            {"opened": ["0.tar"]},
            "unread 10: 10 of 20 samples: the pipeline never opens 1 shard, such as 1.tar",
        ),
        (
            report(own_code(15)),
            {},
            "dropped 5: 5 of 20 samples: they did not come out of its own code (train.py:3); which ones is not visible: let it give the __key__ as well",
        ),
        (
            report(own_code(19)),
            {"delivered": names(7) + names(12, 8), "in_shards": KEYED},
            "dropped 1: 1 of 20 samples: they did not come out of its own code (train.py:3, the first: sample 000007 of 0.tar)",
        ),
        # More samples than are compared one by one.
        (
            report(own_code(19)),
            {"delivered": names(19)},
            "dropped 1: 1 of 20 samples: they did not come out of its own code (train.py:3)",
        ),
    ],
)
def test_samples_that_no_stage_accounts_for_are_told(
    run: ProcessReport, facts: dict[str, Any], said: str
) -> None:
    assert list(reasons(observed(run, **facts))) == [said]


def test_a_run_that_is_not_judged_has_its_reason_only() -> None:
    last = stage("select", out=16)

    assert list(reasons(observed(report(*read_from_shards(), last)), "not judged", "why")) == [
        "not-judged 0: why"
    ]


NAME = "name a function of the shards, def make(urls): ..."
KEEP_EACH = "let them keep the __key__ of each sample"


@pytest.mark.parametrize(
    ("run", "facts", "why"),
    [
        (
            report(
                *read_from_shards(),
                stage(
                    "map",
                    out=0,
                    losses={"X": lost(20, "X", machine_fault="this machine has no GPU")},
                ),
            ),
            {},
            "this machine has no GPU: validate where it will train",
        ),
        (
            report(*read_from_shards()),
            {"fault": Fault(1, "X", "", "", "", "this machine has no GPU"), "end": "raised"},
            "this machine has no GPU: validate where it will train",
        ),
        (
            report(*read_from_shards(3)),
            {"entered": [("other/5.tar", "a"), ("other/5.tar", "b"), ("0.tar", "c")]},
            f"2 samples came from shards that were not named, such as 5.tar: {NAME}",
        ),
        (
            report(own_code(20)),
            {"opened": []},
            f"it was not seen to open any of the shards: {NAME}",
        ),
        (
            report(*read_from_shards(), stage("batched", "batch", 0, batch=64), limit="samples"),
            {},
            "20 samples are too few for one batch of stage 3 batched: read more with --samples",
        ),
        # It gave one, of which nothing came out later.
        (
            report(
                *read_from_shards(),
                stage("batched", "batch", 1, rows=20, batch=64),
                stage("select", "", 0),
                limit="samples",
            ),
            {},
            "",
        ),
        # To its own end, that is a loss.
        (report(*read_from_shards(), stage("batched", "batch", 0, batch=64)), {}, ""),
        (
            report(own_code(18), without_key=2),
            {"delivered": names(16), "in_shards": KEYED},
            "2 elements came out without the __key__ that others have: which samples they are is not visible",
        ),
        (
            report(*read_from_shards(), stage("crops", out=40)),
            {},
            "stage 3 crops made 40 elements of 20 samples: which samples are among them is not visible; let it keep the __key__",
        ),
        (
            report(*read_from_shards(), stage("batched", "batch", 5, rows=0, unclear=5)),
            {},
            f"5 batches came out, and how many samples they hold is not visible; {KEEP_EACH}",
        ),
        (report(*read_from_shards(), stage("batched", "batch", 5, rows=20, batch=4)), {}, ""),
        (
            report(*read_from_shards(), stage("group", out=5, line="train.py:3"), possible_batches=5),
            {},
            f"5 elements came out, each of which may be a batch of any size; {KEEP_EACH}",
        ),
        # It is not the user's own code.
        (report(*read_from_shards(), stage("group", out=5), possible_batches=5), {}, ""),
        (
            report(
                *read_from_shards(),
                stage("own", "", out=20),
                stage("more", out=16),
            ),
            {},
            "4 of the 20 samples that entered are in no element that came out, and no stage shows where they were lost: let it keep the __key__ of each sample",
        ),
        (
            report(own_code(15, ended=False), limit="samples"),
            {},
            "it reads the tars in its own code: how many samples it leaves out is visible only at its end",
        ),
        # Their keys show how many it has left out so far.
        (
            report(own_code(15, ended=False), limit="samples"),
            {"delivered": names(15), "in_shards": KEYED},
            "",
        ),
        (report(*read_from_shards()), {}, ""),
    ],
)  # fmt: skip
def test_what_a_run_does_not_show_is_said_with_what_would_show_it(
    run: ProcessReport, facts: dict[str, Any], why: str
) -> None:
    assert why_unclear(observed(run, **facts)) == why


def test_workers_of_a_loader_count_together() -> None:
    def worker(out: int, rows: int, error: str) -> ProcessReport:
        losses = {error: lost(2, error, key=f"of {error}"), "E": lost(1, "E")}
        batches = stage("batched", "batch", out, rows=rows, losses=losses, fields={"jpg": rows})
        return report(*read_from_shards(10), batches, role=DATASET)

    stages = all_stages([report(stage("loader", out=3, is_loader=True)), worker(2, 8, "A"), worker(1, 4, "B")])  # fmt: skip
    batches, loader = stages[2:]

    assert [each.number for each in stages] == [1, 2, 3, 4]
    assert (batches.inputs, batches.out, batches.rows) == (20, 3, 12)
    assert {name: loss.count for name, loss in batches.losses.items()} == {"A": 2, "E": 2, "B": 2}
    assert batches.losses["B"].key == "of B"
    assert batches.fields == {"jpg": 12}
    # It passes on what its workers batched.
    assert (loader.kind, loader.rows, loader.inputs) == ("batch", 12, 3)
