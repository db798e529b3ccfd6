"""What a report says of a pipeline is what one run of it showed."""

import json
import pickle
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import webdataset

from tests.validate.pipeline.small_pipelines import Samples
from tests.validate.pipeline.small_set import forty, judged, write
from wdsflow.validate import Verdict
from wdsflow.validate.pipeline.judge_pipeline import RunLimits
from wdsflow.validate.pipeline.reports.process_stacks import own_line_in
from wdsflow.validate.pipeline.reports.run_lists import read_opened
from wdsflow.validate.pipeline.run.measured_loaders import MeasuredItems, MeasuredStream
from wdsflow.validate.pipeline.run.run_request import RunRequest
from wdsflow.validate.pipeline.user_code.load_pipeline import PipelineError
from wdsflow.validate.verdicts.pipeline_run import Ending
from wdsflow.validate.verdicts.verdict import Outcome

# Each starts a process that imports PyTorch.

SOON = RunLimits(seconds=3.0, patience=3.0)


@dataclass
class Expected:
    """What a report must say."""

    outcome: Outcome
    ended_by: Ending
    usable: int
    samples: int
    read: int | None
    said: str = ""  # in its reasons
    repeated: int | None = 0
    shards: int = 4
    key: str | None = None  # of the first reason


FOUR = "4 of 40 samples: "
PIPELINES = Path(__file__).with_name("observed_pipelines.py").read_text("utf-8").splitlines()
# Where a caption is missed.
NUMBER = 1 + PIPELINES.index('    return sample["txt"].decode()')
LINE = f"observed_pipelines.py:{NUMBER}"
EXPECTED = {
    "loses_by_branch": Expected("loses", "itself", 36, 40, 40, f"{FOUR}stage captioned leaves them out (observed_pipelines.py:"),
    "loses_by_exception": Expected(
        "loses", "itself", 36, 40, 40, f"{FOUR}stage map(caption_of) drops them (KeyError: 'txt', {LINE})", key="000009"
    ),
    "loses_by_select": Expected("loses", "itself", 36, 40, 40, f"{FOUR}stage select(<lambda>) leaves them out (observed_pipelines.py:", key="000009"),
    "loses_rest_of_batches": Expected("loses", "itself", 32, 40, 40, "8 of 40 samples: stage batched(16, partial=False) leaves out a batch"),
    "loses_a_batch": Expected("loses", "itself", 24, 40, 40, "16 of 40 samples: stage select(<lambda>) leaves them out (observed_pipelines.py:"),
    "raises": Expected("crashes", "exception", 9, 10, 10, f"KeyError: 'txt', {LINE}), at sample 000009 of 0.tar", shards=1, key="000009"),
    "repeats_twice": Expected("trains", "itself", 80, 80, 80, "samples came more than once: 40 of 80 had come before; it repeats", 40),
    "repeats_without_end": Expected("trains", "passes", 120, 120, 120, "samples came more than once: 80 of 120", 80),
    "ends_early": Expected("loses", "itself", 15, 40, 15, "25 of 40 samples: the pipeline ends after 15 samples (2 of 4 shards): stage islice(15)", shards=2),
    "ends_among_shards": Expected("loses", "itself", 20, 40, 20, "20 of 40 samples: the pipeline ends after 20 samples (2 of 4 shards): stage islice(2)", shards=2),
    "has_an_epoch": Expected("loses", "itself", 25, 40, 25, "15 of 40 samples: the pipeline ends after 25 samples (3 of 4 shards), such as by with_epoch", shards=3),
    "hangs": Expected("stalls", "hang", 12, 13, 13, "stage map(sleeps) hangs: no step for", shards=2, key="000012"),
    "hangs_in_c": Expected("stalls", "hang", 5, 5, None, "observed_pipelines.py:8", 0, 1),
    "hangs_in_a_worker": Expected("stalls", "hang", 0, 0, None, "map(sleeps) hangs"),
    "gives_nothing_for_ever": Expected("stalls", "hang", 0, 0, None, "gives_nothing_for_ever hangs: no step for", None),
    "repeats_nothing": Expected("stalls", "hang", 0, 80, 80, "it reads the shards again and again, and no sample comes out", 40),
    "loader_of_pairs": Expected("loses", "itself", 36, 40, None, f"{FOUR}they did not come out of its own code"),
    "loader_without_split": Expected("trains", "itself", 80, 80, 80, "samples came more than once: 40 of 80 had come before", 40),
    "web_loader": Expected("trains", "itself", 40, 40, 40),
    "keyed_generator": Expected("loses", "itself", 36, 40, None, "the first: sample 000009 of 0.tar", key="000009"),
    "generator": Expected("loses", "itself", 36, 40, None, "which ones is not visible: let it give the __key__ as well", None),
    "generator_twice": Expected("not judged", "itself", 40, 40, None, "72 elements came out of 40 samples", None),
    "first_shard_only": Expected("loses", "itself", 10, 40, None, "30 of 40 samples: the pipeline never opens 3 shards", 30, 1),
    "crops": Expected("not judged", "itself", 40, 40, 40, "stage twice made 40 elements of 40 samples: which samples are among them is not visible"),
    "own_batches": Expected("not judged", "itself", 40, 40, 40, "10 elements came out of 40 samples; which samples they are is not visible"),
    "twice_in_shuffled_batches": Expected("trains", "itself", 40, 40, 40, "stage twice makes 80 elements of 40 samples"),
    "others_instead": Expected("loses", "itself", 20, 40, 40, "20 of 40 samples: stage instead leaves them out (observed_pipelines.py:"),
    "others_instead_without_keys": Expected("not judged", "itself", 40, 40, 40, "stage instead made 40 elements of 40 samples"),
    "large_batches": Expected("loses", "itself", 0, 40, 40, "40 of 40 samples: stage batched(512, partial=False) gets 40 samples, too few for one batch"),
    "whole": Expected("trains", "itself", 40, 40, 40),
    "streaming": Expected("loses", "itself", 36, 40, None, "the first: sample 000009 of 0.tar", key="000009"),
}  # fmt: skip
QUICK = ("raises", "hangs", "ends_among_shards", "web_loader")


# It ends a pipeline that repeats after a pass without output.
if not webdataset.__version__.startswith("0."):
    EXPECTED["repeats_nothing"] = Expected(
        "loses", "itself", 0, 40, 40, "40 of 40 samples: stage select(<lambda>) leaves"
    )


def check(name: str, folder: Path, limits: RunLimits = SOON) -> Verdict:
    expected = EXPECTED[name]
    verdict = judged("observed_pipelines", name, forty(folder), limits)
    run = verdict.run
    assert run is not None
    reasons = " | ".join(reason.message for reason in verdict.reasons)
    # The versions of webdataset have other stages before.
    reasons = re.sub(r"stage \d+ ", "stage ", reasons)
    assert (verdict.outcome, run.ended_by) == (expected.outcome, expected.ended_by), reasons
    assert expected.said in reasons.replace("tests/validate/pipeline/", "")
    if name != "hangs_in_a_worker":  # how far the other worker came is chance
        assert (verdict.usable, verdict.samples, run.read, run.repeated) == (
            expected.usable,
            expected.samples,
            expected.read,
            expected.repeated,
        )
        assert (run.shards, run.of_shards) == (expected.shards, 4)
    if expected.key is not None:
        assert verdict.reasons[0].key == expected.key
    return verdict


@pytest.mark.webdataset
@pytest.mark.parametrize("name", QUICK)
def test_a_report_says_what_a_run_showed(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.deep
@pytest.mark.webdataset
@pytest.mark.parametrize("name", [name for name in EXPECTED if name not in QUICK])
def test_a_report_says_what_a_run_showed_of_more_kinds(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.webdataset
def test_a_run_that_was_ended_speaks_of_what_was_read_only(tmp_path: Path) -> None:
    verdict = judged("observed_pipelines", "whole", forty(tmp_path), RunLimits(samples=20))

    assert verdict.run is not None
    assert (verdict.outcome, verdict.usable, verdict.samples) == ("trains", 20, 20)
    assert (verdict.run.ended_by, verdict.run.read, verdict.run.shards) == ("samples", 20, 2)
    assert "the verdict is about what was read, not about the rest" in verdict.note


@pytest.mark.deep
@pytest.mark.webdataset
def test_a_batch_that_is_not_full_when_reading_ends_is_not_lost(tmp_path: Path) -> None:
    verdict = judged(
        "observed_pipelines", "loses_rest_of_batches", forty(tmp_path), RunLimits(samples=20)
    )

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("trains", 16, 20)
    assert [(reason.slug, reason.count) for reason in verdict.reasons] == [("incomplete", 4)]


@pytest.mark.deep
@pytest.mark.webdataset
def test_fewer_samples_than_a_batch_holds_show_nothing(tmp_path: Path) -> None:
    verdict = judged("observed_pipelines", "large_batches", forty(tmp_path), RunLimits(samples=20))

    assert verdict.outcome == "not judged"
    assert "20 samples are too few for one batch of stage" in verdict.reasons[0].message


def test_what_code_without_stages_leaves_out_is_not_visible_before_its_end(tmp_path: Path) -> None:
    verdict = judged("small_pipelines", "captions", forty(tmp_path), RunLimits(samples=20))

    assert verdict.run is not None
    assert (verdict.outcome, verdict.run.delivered, verdict.run.ended_by) == (
        "not judged",
        20,
        "samples",
    )
    assert "how many samples it leaves out is visible only at its end" in verdict.reasons[0].message


@pytest.mark.parametrize(
    ("name", "read", "said"),
    [
        ("from_names", 40, "4 of 40 samples: stage 3 captions_of leaves them out"),
        ("from_captions", None, "12 of 40 samples: stage 2 long_ones leaves them out"),
    ],
)
def test_texts_that_come_before_samples_are_shards_only_if_they_name_some(
    name: str, read: int | None, said: str, tmp_path: Path
) -> None:
    verdict = judged("small_pipelines", name, forty(tmp_path))

    assert verdict.run is not None
    assert (verdict.outcome, verdict.run.read) == ("loses", read)
    assert verdict.reasons[0].message.startswith(said)


def test_by_their_keys_it_is_visible_which_of_the_samples_so_far_were_left_out(
    tmp_path: Path,
) -> None:
    verdict = judged("small_pipelines", "keyed", forty(tmp_path), RunLimits(samples=20))

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("loses", 20, 22)
    assert [(reason.count, reason.key) for reason in verdict.reasons] == [(2, "000009")]


def test_a_run_ends_with_its_time(tmp_path: Path) -> None:
    started = time.monotonic()

    verdict = judged("small_pipelines", "slow", forty(tmp_path), RunLimits(seconds=1.0))

    assert verdict.run is not None
    assert time.monotonic() - started < 30
    assert (verdict.outcome, verdict.run.ended_by) == ("trains", "time")
    assert 0 < verdict.usable == verdict.samples < 40


def test_one_that_is_slow_to_give_its_first_sample_stalls_within_the_time(tmp_path: Path) -> None:
    verdict = judged(
        "small_pipelines",
        "hangs",
        [write(tmp_path / "0.tar", 8, missing=1)],
        RunLimits(seconds=1.0),
    )

    assert verdict.outcome == "stalls"
    assert "stage 1 hangs hangs: no step for" in verdict.reasons[0].message
    assert "small_pipelines.py:" in verdict.reasons[0].message


def test_what_two_samples_in_one_element_are_is_known_by_their_keys(tmp_path: Path) -> None:
    verdict = judged("small_pipelines", "twos", [write(tmp_path / "0.tar", 40)])

    assert (verdict.outcome, verdict.usable, verdict.samples) == ("trains", 40, 40)


@pytest.mark.deep
@pytest.mark.webdataset
def test_an_object_that_reads_other_shards_is_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "elsewhere.tar", 10, picture=b"x")

    verdict = judged("observed_pipelines", "elsewhere", forty(tmp_path))

    assert verdict.outcome == "not judged"
    assert (
        "10 samples came from shards that were not named, such as elsewhere.tar"
        in verdict.reasons[0].message
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("forgets", "forgets returned None: is a return missing?"),
        ("pairs", "pairs returned a tuple of 2 pipelines; return the one to judge"),
        ("splits", "splits returned a dict of 'train', 'test'; return one of them"),
        ("nothing", "not a pipeline: object; give a DataPipeline, a loader or a list of stages"),
    ],
)
def test_what_is_no_pipeline_is_refused_with_words(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(PipelineError) as refused:
        judged("small_pipelines", name, [write(tmp_path / "0.tar", 3)])
    assert str(refused.value) == said


def test_lines_of_files_with_any_name_are_found_in_stacks(tmp_path: Path) -> None:
    path = tmp_path / "entra\u00eener.py"
    path.write_text("pass\n")
    spelled = str(path).encode("ascii", "backslashreplace").decode()

    stacks = f'Current thread 0x1 (most recent call first):\n  File "{spelled}", line 1 in make\n  File "<string>", line 1 in <module>\n'

    assert own_line_in(stacks).endswith("entra\u00eener.py:1")


def test_a_dataset_has_its_own_attributes_while_it_is_measured(tmp_path: Path) -> None:
    class Classes(list[str]):
        classes = ("cat", "dog")

    items = MeasuredItems(Classes("ab"), RunRequest((), str(tmp_path)), time.monotonic() + 60)

    assert items.classes == ("cat", "dog")
    with pytest.raises(AttributeError):
        items.nothing  # noqa: B018


WORKER = """
import json, pickle, sys, time
import webdataset.handlers

stream, items = pickle.load(sys.stdin.buffer)
print(json.dumps([len(list(stream)), len(items), [items[number] for number in range(len(items))]]))
print(webdataset.handlers.time is time)
"""


@pytest.mark.usefixtures("new_interpreters")
def test_a_worker_that_is_not_forked_reads_the_same_and_lists_what_it_opens(tmp_path: Path) -> None:
    urls = forty(tmp_path)
    (tmp_path / "run").mkdir()
    request = RunRequest(tuple(urls), str(tmp_path / "run"))
    end = time.monotonic() + 60
    stream = MeasuredStream(Samples(urls), request, end)
    items = MeasuredItems(["a", "b", "c"], request, end)

    worker = subprocess.run(
        [sys.executable, "-c", WORKER],
        input=pickle.dumps((stream, items)),
        stdout=subprocess.PIPE,
        check=True,
    )

    answer, handlers_sleep = worker.stdout.splitlines()
    assert json.loads(answer) == [40, 3, ["a", "b", "c"]]
    assert handlers_sleep == b"False"
    assert read_opened(tmp_path / "run", urls) == set(urls)


@pytest.mark.deep
def test_a_ray_dataset_is_read_and_no_process_of_ray_stays(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    urls = forty(tmp_path)

    verdict = judged("ray_pipelines", "with_caption", urls)

    assert (verdict.outcome, verdict.usable) == ("loses", 36)
    left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=30)[1]
    assert not [each for each in left if "raylet" in " ".join(each.cmdline())]
