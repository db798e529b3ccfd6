"""Loaders with planted faults, and correct loaders.

Each fault is reported, and nothing else.
"""

import inspect
import io
import multiprocessing
import queue
import signal
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
import torch.utils.data
from PIL import Image

from tests.validate.pipeline.small_set import run, scanned
from tests.validate.rules.build import shown
from wdsflow import check
from wdsflow.scan.evidence import Evidence
from wdsflow.validate.catalog.run_rules import run_rules
from wdsflow.validate.pipeline.check_loader import check_loader
from wdsflow.validate.pipeline.checks.check_workers import WorkersCheck
from wdsflow.validate.pipeline.checks.shared_reads import SharedRead
from wdsflow.validate.pipeline.loader.loader_messages import LoaderRequest, LoaderRun
from wdsflow.validate.pipeline.loader.loader_parts import parts
from wdsflow.validate.pipeline.loader.loader_runs import LoaderRuns
from wdsflow.validate.pipeline.loader.source_lines import DEFINES, SEEDS, defining_line, line_in
from wdsflow.validate.pipeline.loader.unpicklable_parts import unpicklable_parts
from wdsflow.validate.pipeline.user_code.load_pipeline import PipelineError
from wdsflow.validate.pipeline.values.marks import KEY
from wdsflow.validate.pipeline.values.rows import rows_of
from wdsflow.validate.rules.kit.base import Context
from wdsflow.validate.verdicts.check_result import Check, CheckResult, LoaderFault

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "rules" / "golden"


def shards(folder: Path, count: int = 8, each: int = 10) -> list[str]:
    """Write shards of small pictures, each of its own colour, and captions."""
    urls, number = [], 0
    for shard in range(count):
        urls.append(str(folder / f"{shard:06d}.tar"))
        with tarfile.open(urls[-1], "w") as tar:
            for _ in range(each):
                picture = io.BytesIO()
                Image.new("RGB", (8, 8), (number * 3 % 256, number * 7 % 256, 40)).save(
                    picture, "PNG"
                )
                for name, data in {
                    "png": picture.getvalue(),
                    "txt": f"caption {number}".encode(),
                }.items():
                    info = tarfile.TarInfo(f"{number:06d}.{name}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
                number += 1
    return urls


def checked(
    file: str, name: str, urls: Sequence[str], *checks: Check, patience: float = 60.0
) -> list[CheckResult]:
    return check_loader(
        f"{HERE / file}.py:{name}", checks, *scanned([*urls], "headers"), patience=patience
    )


def messages_of(result: CheckResult) -> str:
    return "; ".join(fault.message for fault in result.faults) or result.summary


RESUME = {  # name -> a part of the message; "": it is right
    "Resumes": "",
    "OwnOrder": "",
    "Captions": "",
    "IgnoresItsState": "the epoch begins again: 50 samples come a second time",
    "ForgetsItsEpoch": "another order than without the interruption",
    "OneBehind": "1 sample repeated (such as 000030)",
    "OneAhead": "1 sample lost (such as 000021)",
    "OnlyOnce": "resumed a second time, after",
    "NeverAgain": "no epoch after the first hands out anything",
    "OnlyRankZero": "on 2 ranks resumed from the state taken",
    "KeepsItsPosition": "the next epoch has 30 samples instead of 80",
    "SharesItsState": "it shares memory with the running loader",
    "HasNoPickle": "no state can be saved: ",
    "RefusesItsState": "KeyError: 'index'",
    "OwnOrderLost": "repeated",
    "ForgetsItsBuffer": "16 samples lost",
    "Disturbed": "taking a state changes which samples come next",
}
SPLIT = {
    "split_by_environment": "",
    "NoState": "on 2 ranks each rank reads all samples",
    "one_shard_twice": "10 samples of 80 come out more than once",
    "one_shard_never": "10 samples of 80 never come out (such as 000070)",
    "unequal": "they get 30 and 50 items",
    "forgets_each_last": "the last sample of each shard never comes out (such as 000009)",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", RESUME)
def test_a_loader_that_does_not_resume_is_named_with_the_reason(name: str, tmp_path: Path) -> None:
    (result,) = checked("plain_loaders", name, shards(tmp_path), "resume")

    assert (result.answer, {fault.code for fault in result.faults}) == (
        ("wrong", {"P327"}) if RESUME[name] else ("right", set())
    ), messages_of(result)
    assert RESUME[name] in messages_of(result)
    assert all("plain_loaders.py:" in fault.message for fault in result.faults)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", SPLIT)
def test_ranks_that_do_not_share_the_samples_are_named(name: str, tmp_path: Path) -> None:
    (result,) = checked("plain_loaders", name, shards(tmp_path), "workers")

    assert (result.answer, {fault.code for fault in result.faults}) == (
        ("wrong", {"P330"}) if SPLIT[name] else ("right", set())
    ), messages_of(result)
    assert SPLIT[name] in messages_of(result)


@pytest.mark.deep
def test_a_shard_that_no_process_opens_is_named(tmp_path: Path) -> None:
    (result,) = checked("plain_loaders", "never_the_last", shards(tmp_path, 4), "workers")

    assert {fault.code for fault in result.faults} == {"P330"}
    assert "it never opens 1 shard of 4 (such as 000003.tar)" in messages_of(result)


@pytest.mark.parametrize(
    ("item", "count"),
    [
        (np.zeros(300), 1),
        (np.zeros((3, 8, 8)), 1),
        (np.zeros((8, 8, 3)), 1),
        (np.zeros((5, 3, 8, 8)), 5),
        (np.zeros((5, 77)), 5),
        ((np.zeros((3, 8, 8)), "a caption"), 1),
        ((7, "a caption"), 1),
        ((np.zeros((5, 3, 8, 8)), ["a caption"] * 5), 5),
        ([np.zeros((5, 3, 8, 8)), np.zeros((5, 77))], 5),
        ({"image": np.zeros((5, 3, 8, 8)), "meta": {"text": ["a caption"] * 5}}, 5),
        ([("0001", "a"), ("0002", "b")], 2),
    ],
)
def test_the_samples_in_an_item_are_counted(item: object, count: int) -> None:
    assert len(rows_of(item, {"0001", "0002"})) == count
    assert len(rows_of(np.zeros(5), (), batched=True)) == 5


@pytest.mark.deep
def test_samples_that_are_not_recognized_are_not_judged_and_the_way_out_is_said(
    tmp_path: Path,
) -> None:
    resume, workers = checked("plain_loaders", "Noise", shards(tmp_path), "resume", "workers")

    assert (resume.answer, workers.answer) == ("not judged", "not judged")
    assert all(
        'let the loader give the key as well, such as by .to_tuple("__key__"' in messages_of(each)
        for each in (resume, workers)
    )


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "step"), [("Hangs", "load_state_dict"), ("HangsWhenSaved", "state_dict")]
)
def test_a_loader_that_hangs_with_its_state_is_named(name: str, step: str, tmp_path: Path) -> None:
    (result,) = checked("plain_loaders", name, shards(tmp_path), "resume", patience=5)

    assert f": {step} hangs" in messages_of(result)


def test_who_interrupts_runs_that_hang_does_not_wait_for_them(tmp_path: Path) -> None:
    script, begun = tmp_path / "hangs.py", tmp_path / "begun"
    script.write_text(
        f"import pathlib, time\n\ndef make(urls):\n    pathlib.Path({str(begun)!r}).touch()\n    time.sleep(600)\n"
    )
    main, interrupted = threading.main_thread().ident, []

    def interrupt_when_it_hangs() -> None:
        while not begun.exists():
            time.sleep(0.02)
        interrupted.append(time.monotonic())
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt_when_it_hangs)
    thread.start()
    with LoaderRuns(f"{script}:make") as runs, pytest.raises(KeyboardInterrupt):
        runs.run_all([LoaderRequest(())] * 2)
    thread.join()
    assert time.monotonic() - interrupted[0] < 20


def test_a_process_that_the_users_code_ends_well_is_no_hang(tmp_path: Path) -> None:
    script = tmp_path / "quits.py"
    script.write_text("import os\n\ndef make(urls):\n    os._exit(0)\n")
    with LoaderRuns(f"{script}:make") as runs:
        assert runs.run(LoaderRequest(())).error == "the process ended with exit status 0"


@pytest.mark.usefixtures("new_interpreters")
def test_two_runs_in_a_row_differ_in_the_order_of_sets(tmp_path: Path) -> None:
    script = tmp_path / "hashes.py"  # it sets a variable: libraries are not imported before
    script.write_text(
        "import os\n\nos.environ['SET'] = '1'\n\ndef make(urls):\n    yield hash('a')\n"
    )
    with LoaderRuns(f"{script}:make") as runs:
        first, second = (runs.run(LoaderRequest(())) for _ in range(2))
    assert first.status == second.status == "ended"
    assert first.rows != second.rows


def test_a_loader_without_a_state_is_no_error_and_said_as_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards(tmp_path)
    where = f"{HERE / 'plain_loaders.py'}:NoState"

    status = run(str(tmp_path), "--pipeline", where, "--check", "resume", "--select", "P")
    output = capsys.readouterr().out

    assert status == 0
    assert "resume  CANNOT  see P328" in output
    assert "cannot resume, an interrupted epoch begins again" in " ".join(output.split())


def test_what_cannot_be_judged_ends_with_status_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards(tmp_path, 2)
    where = f"{HERE / 'plain_loaders.py'}:Resumes"

    status = run(str(tmp_path), "--pipeline", where, "--check", "fork", "--select", "P")

    assert status == 2
    assert "fork  NOT JUDGED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--check", "resume"], "name it"),
        (["--check", "sleep", "--pipeline", "x.py:make"], "sleep is no check of a loader"),
    ],
)
def test_a_command_that_asks_wrongly_is_refused(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards(tmp_path, 1, 1)

    assert run(str(tmp_path), *words) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.deep
def test_from_python_the_answers_are_in_the_report(tmp_path: Path) -> None:
    shards(tmp_path)

    report = check(
        tmp_path,
        readers=(),
        pipeline=f"{HERE / 'plain_loaders.py'}:IgnoresItsState",
        check=["resume"],
    )

    assert [each.answer for each in report.checks] == ["wrong"]
    assert (report.ok, report.exit_status) == (False, 1)
    assert (
        next(each["code"] for each in report.to_dict()["findings"] if each["severity"] == "error")
        == "P327"
    )
    with pytest.raises(ValueError, match="name it by pipeline"):
        check(tmp_path, check=["resume"])
    with pytest.raises(ValueError, match="sleep is no check"):
        check(tmp_path, pipeline="train.py:make", check=["sleep"])


@pytest.mark.deep
def test_a_large_set_is_copied_in_part_and_the_report_says_so(tmp_path: Path) -> None:
    urls = shards(tmp_path, 12, 100)

    (result,) = checked("plain_loaders", "Resumes", urls, "resume")

    assert result.answer == "right"
    assert "copies of 256 samples from 8 shards" in result.notes[-1]


@pytest.mark.parametrize(("batch", "samples"), [(8, 64), (10, 80)])
def test_more_samples_are_copied_where_few_make_fewer_than_eight_batches(
    batch: int, samples: int, tmp_path: Path
) -> None:
    script = tmp_path / "batches.py"
    script.write_text(f"""
from tests.validate.pipeline.plain_loaders import keys_of

def make(urls):
    keys = keys_of(urls)
    for start in range(0, len(keys), {batch}):
        yield keys[start : start + {batch}]
""")
    evidence, options = scanned(shards(tmp_path, 2, 40), "headers")
    for shard in evidence.shards:
        # It may be large.
        shard.size = None

    (result,) = check_loader(f"{script}:make", ["resume"], evidence, options)

    assert result.notes == (f"the loader was run over copies of {samples} samples from 2 shards",)


def test_a_loader_that_does_not_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="it has"):
        checked("plain_loaders", "nothing", shards(tmp_path, 1), "resume")


FAULTS = {
    "P327": LoaderFault(
        "P327",
        "train.py:31: resumed from the state taken after 14 items of epoch 1: 8 samples lost",
    ),
    "P328": LoaderFault(
        "P328", "train.py:9: WebLoader has no state_dict: this loader cannot resume", "warning"
    ),
    "P329": LoaderFault(
        "P329", "spawn and forkserver: train.py:12: collate_fn cannot be pickled: it is a lambda"
    ),
    "P330": LoaderFault(
        "P330", "train.py:9: on 2 ranks each rank reads all samples: they come out 2 times"
    ),
    "P331": LoaderFault("P331", "train.py:9: each worker draws the same random numbers"),
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_a_finding_of_its_rule(code: str, tmp_path: Path) -> None:
    checks = [CheckResult("resume", "", tuple(FAULTS.values()))]

    findings = run_rules(Context(Evidence("headers"), (), (), checks=checks), [code])[0]

    assert shown(findings, tmp_path) == (GOLDEN / f"{code}.txt").read_text()
    assert [each.severity for each in findings] == [FAULTS[code].severity]


TORCH: dict[str, dict[str, str]] = {  # file -> "name check" -> codes, and a part of the message
    "torch_loaders": {
        "web_right fork": "",
        "web_right workers": "",
        "web_full_batches workers": "",
        "web_no_nodesplitter workers": "P330 on 2 ranks it ends: ValueError: you need to add an explicit nodesplitter",
        "web_unsplit_nodes workers": "P330 on 2 ranks each rank reads all samples",
        "web_unsplit_workers workers": "P330 with 2 workers each worker reads all samples: they come out 2 times",
        "web_resampled workers": "",
        "web_resampled_alike workers": "P330 with 2 workers each worker gives the same samples in the same order",
        "web_augments_alike workers": "P331 each worker draws the same random numbers",
        "web_shuffled workers": "",
        "web_shuffled resume": "P328 this loader cannot resume",
        "web_all_ranks_epoch workers": "",
        "web_unsplit_epoch workers": "P330 on 2 ranks the ranks give the same samples",
        "default_group workers": "",
        "own_group workers": "",
        "plain_over_web workers": "",
        "web_lambda fork": "P329 pipeline[0].dataset.pipeline[7].args[0] cannot be pickled: it is a lambda",
        "stream_right fork": "",
        "stream_right workers": "",
        "stream_right resume": "P328 this loader cannot resume",
        "stream_unsplit workers": "P330 with 2 workers each worker reads all samples",
        "stream_by_process fork": "",
        "stream_by_process workers": "P330 come out more than once",
        "stream_split_by_worker_only workers": "P330 on 2 ranks each rank reads all samples",
        "stream_loses_the_rest workers": "P330 with 3 workers 20 samples of 80 never come out",
        "stream_unequal workers": "P330 on 2 ranks they get 4 and 12 items",
        "augments_right workers": "",
        "augments_alike workers": "P331 each worker draws the same random numbers",
        "worker_init_alike workers": "P331 each worker draws the same random numbers",
        "counts workers": "",
        "opened_in_init fork": "P329 dataset.file cannot be pickled: it is the open file",
        "tar_in_init fork": "P329 dataset.tar cannot be pickled: it is an object of type tarfile.TarFile",
        "lock_in_init fork": "P329 dataset.lock cannot be pickled: it is an object of type _thread.lock",
        "opens_later fork": "",
        "local_collate fork": "P329 collate_fn cannot be pickled: it is the local function local_collate",
        "lambda_without_workers fork": "P329 with num_workers=2, spawn and forkserver",
        "sets_a_global fork": "P329 making the loader sets the global SIZE",
        "fills_a_global fork": "P329 KeyError: 'label'; making the loader sets the global CACHE",
        "lock_held_at_fork fork": "P329 reading hangs",
        "own_context fork": "",
        "distributed_drops workers": "",
        "distributed_right workers": "",
        "not_distributed workers": "P330 on 2 ranks each rank reads all samples",
    },
    "stateful_loaders": {
        "stateful_right resume": "",
        "stateful_map resume": "",
        "stateful_map_alone resume": "",
        "stateful_of_plain_stream resume": "P327 resumed a second time",  # torchdata 0.11: StopIteration
        "stateful_ignored resume": "P327 the epoch begins again: 70 samples come a second time",
        "stateful_by_time resume": "P327 repeated",
        "sampler_forgets_the_turn resume": "P327 stateful_loaders.py:",  # the line of the sampler
        "dataset_state_with_workers resume": "P327 without workers (num_workers=0) it resumes as it should",
        "dataset_state_alone resume": "",
        "Skips resume": "",
        "SkipsWithoutSeed resume": "P327 repeated",
        "prefetching resume": "P327 8 samples lost",
    },
    "feed_loader": {"make resume": ""},
    "dataset_states": {"hf_right resume": "", "hf_shuffled resume": "P327 lost"},
    "unguarded_script": {"make fork": 'P329 put that under if __name__ == "__main__"'},
}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("file", "case"), [(file, case) for file, cases in TORCH.items() for case in cases]
)
def test_a_loader_of_torch_is_judged_as_it_is(file: str, case: str, tmp_path: Path) -> None:
    name, asks = case.split()
    code, _, message = TORCH[file][case].partition(" ")

    (result,) = checked(file, name, shards(tmp_path), asks)

    assert {fault.code for fault in result.faults} == ({code} if code else set()), messages_of(
        result
    )
    assert message in messages_of(result)
    if asks == "fork" and "cannot be pickled" in message:
        assert f"{file}.py:" in messages_of(result)
    if not code:
        assert result.answer == "right", messages_of(result)


@pytest.mark.deep
def test_workers_that_a_loader_does_not_have_are_a_warning(tmp_path: Path) -> None:
    (result,) = checked("torch_loaders", "unsplit_without_workers", shards(tmp_path), "workers")

    assert "it has num_workers=0; with 2 workers each worker reads all samples" in messages_of(
        result
    )
    assert [(fault.code, fault.severity) for fault in result.faults] == [("P330", "warning")]


@pytest.mark.deep
def test_workers_that_take_long_to_import_the_script_do_not_hang(tmp_path: Path) -> None:
    (result,) = checked("slow_script", "make", shards(tmp_path, 1), "fork", patience=10)

    assert result.answer == "right", messages_of(result)


class Locked:
    key, lock = "", 0

    def __init__(self) -> None:
        self.other = sorted(self.key, reverse=True)
        assert self.lock >= 0
        self.other, self.lock = [], 3
        self.key = "a"


def test_the_line_of_an_attribute_is_the_one_that_assigns_it() -> None:
    first = inspect.getsourcelines(Locked)[1]
    lines = [defining_line(object(), Locked(), name).rpartition(":")[2] for name in ("lock", "key")]
    assert lines == [str(first + 6), str(first + 7)]


class Refuses(Mapping[str, int]):
    """As botocore has one: it does not let anyone iterate."""

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError

    def __len__(self) -> int:
        return 1

    def __getitem__(self, name: str) -> int:
        raise KeyError(name)


class Logs(torch.utils.data.Dataset[int]):
    def __init__(self) -> None:
        self.waiting: queue.Queue[int] = queue.Queue()
        self.rng = np.random.default_rng(0)

    def __getitem__(self, index: int) -> int:
        return index

    def __len__(self) -> int:
        return 8


def make_logs() -> object:
    data = Logs()
    return torch.utils.data.DataLoader(data, shuffle=True)


@pytest.mark.deep
def test_samples_that_cannot_be_compared_are_not_said_to_be_the_same(tmp_path: Path) -> None:
    script = tmp_path / "draws.py"
    lines = "import random", "from torch.utils.data import DataLoader", "def make(urls):"
    data = "[random.SystemRandom().random() for _ in range(20)]"
    script.write_text("\n".join((*lines, f"    return DataLoader({data}, num_workers=1)\n")))
    (result,) = check_loader(f"{script}:make", ["fork"], *scanned(shards(tmp_path, 1), "headers"))
    assert "its samples were not compared" in result.summary


def test_what_only_a_starting_worker_inherits_is_no_fault() -> None:
    dataset = Shared()
    loader = torch.utils.data.DataLoader(dataset, num_workers=1)
    assert unpicklable_parts(loader) == []
    dataset.other = lambda: 0
    (text,) = unpicklable_parts(loader)
    assert "dataset.other cannot be pickled" in text
    with pytest.raises(RuntimeError, match="inheritance"):  # nothing is left behind
        ForkingPickler.dumps(dataset.count)


class Shared(torch.utils.data.Dataset[int]):
    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.count, self.results = context.Value("i", 0), context.Queue()
        self.other: object = None


def test_a_mapping_that_refuses_to_be_read_is_left_alone() -> None:
    assert [path for path, _ in parts([Refuses(), 1])] == ["", "[0]", "[1]"]


def test_the_lines_of_a_loader_are_those_that_decide() -> None:
    loader, first = make_logs(), inspect.getsourcelines(Logs)[1]
    call = inspect.getsourcelines(make_logs)[1] + 2
    file = Path(__file__).relative_to(Path.cwd())

    assert line_in(loader, make_logs, DEFINES.format("__iter__")) == f"{file}:{call}"
    assert line_in(loader, make_logs, SEEDS) == f"{file}:{first + 3}"
    assert unpicklable_parts(loader) == [
        f"{file}:{first + 2}: dataset.waiting cannot be pickled: it is an object of type queue.Queue"
    ]


def workers_of(alone: Sequence[str]) -> WorkersCheck:
    """Return a comparison of workers for two shards of four samples each.

    ``alone``: the samples that one process reads.
    """
    keys = (("a0", "a1", "a2", "a3"), ("b0", "b1", "b2", "b3"))
    request = LoaderRequest(("a.tar", "b.tar"), shard_keys=keys, unique_keys=True)
    return WorkersCheck(LoaderRuns(""), request, read(alone))


def read(keys: Sequence[str]) -> LoaderRun:
    return LoaderRun("ended", epochs=[[[{"key": f"{KEY}{key}"}] for key in keys]], complete=[True])


@pytest.mark.parametrize(
    ("alone", "text"),
    [
        (
            ["a0", "a1", "a2", "b0", "b1", "b2"],
            "the last sample of each shard never comes out (such as a3)",
        ),
        (
            ["a0", "a1", "b0", "b1", "b2"],
            "the last samples (up to 2) of each shard never come out (such as a2)",
        ),
        (
            ["a1", "a2", "a3", "b1", "b2", "b3"],
            "the first sample of each shard never comes out (such as a0)",
        ),
        (["a0", "a1", "a2", "b1", "b2", "b3"], ""),  # dropped for another reason
        (["b0", "b1", "b2"], ""),
        (["a0", "a1", "a2", "a3", "b0", "b1", "b2"], ""),  # the last batch
    ],
)
def test_the_ends_of_shards_that_never_come_out_are_named(alone: list[str], text: str) -> None:
    workers = workers_of(alone)
    workers.find_unread(read(alone))

    assert [fault.message for fault in workers.faults.values()] == ([text] if text else [])


def test_a_sample_less_than_equal_shares_is_noted_and_no_fault() -> None:
    alone = ["a0", "a1", "a2", "b0", "b1"]
    workers = workers_of(alone)
    workers.compare(read(alone), SharedRead([read(alone[:-1])], "with 2 workers", 2))
    first_notes = list(workers.notes)
    workers.compare(read(alone), SharedRead([read(alone[:-2])], "with 2 workers", 2))

    assert first_notes == [
        "workers: with 2 workers 1 sample left out, for full batches or equal shares"
    ]
    assert [fault.message for fault in workers.faults.values()] == [
        "it has num_workers=0; with 2 workers 2 samples of 5 never come out (such as b0)"
    ]


def test_a_sample_that_a_sampler_repeats_is_noted_and_no_fault() -> None:
    alone = ["a0", "a1", "a2", "b0", "b1"]
    workers = workers_of(alone)
    workers.compare(
        read(alone),
        SharedRead([read(["a0", "a2", "b1"]), read(["a1", "b0", "a0"])], "on 2 ranks", 2),
    )

    assert not workers.faults
    assert workers.notes == [
        "workers: on 2 ranks 1 sample repeated, so that all ranks have as many (such as a0)"
    ]
