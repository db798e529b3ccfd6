"""The demonstration: what `wdsflow validate` reports for valid and faulty shards.

Each report is compared with what OpenCLIP itself does.

Then faults that only a model sees: ``demo_models``.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wdsflow import example_shards
from wdsflow.example_shards import Scene

from . import demo_models, faults
from .console import bold, heading, indent, wdsflow
from .environment import ROOT
from .loader import Loaded, OpenClip
from .tiny_clip.recipe import CONFIG, CONFIG_FILE

FOLDER = Path(".demo")
SAMPLES, BATCH, BATCHES = 320, 16, 8
URLS = "{000..003}.tar"
# Findings of a report that are shown; the command shows the whole report.
FINDINGS = 3


@dataclass(frozen=True, slots=True)
class Scenario:
    """One shard set, and what the report has to say of it."""

    name: str
    title: str
    make: Callable[[Path, list[Scene]], None]
    outcome: str
    status: int = 1
    workers: int = 2
    # The report is made with the command line of the training run.
    with_arguments: bool = False

    @property
    def training(self) -> list[str]:
        """The command line of the training run."""
        words = (
            f"--train-data {self.name}/{URLS} --train-num-samples {SAMPLES} --batch-size {BATCH}"
        )
        return [*words.split(), "--workers", str(self.workers)]


SCENARIOS = [
    Scenario("sound", "Nothing is wrong", faults.valid, "TRAINS", status=0),
    Scenario("json", "The captions are in json files", faults.captions_in_json, "STALLS"),
    Scenario(
        "truncated",
        "A download broke off: shard 002 ends in the middle",
        faults.truncated,
        "TRAINS",
    ),
    Scenario(
        "interleaved",
        "All pictures of a shard first, then all its captions",
        faults.interleaved,
        "STALLS",
    ),
    Scenario("dotted", "A dot inside the names: photo.000123.jpg", faults.dotted_names, "STALLS"),
    Scenario("macos", "Packed on a Mac: each file has a ._ twin", faults.macos_twins, "STALLS"),
    Scenario("bomb", "One picture has 200 megapixels", faults.huge_png, "TRAINS", status=0),
    Scenario("latin1", "One caption is not UTF-8", faults.latin1_caption, "TRAINS", status=0),
    Scenario(
        "sound",
        "Fewer shards than workers",
        faults.valid,
        "CRASHES",
        workers=8,
        with_arguments=True,
    ),
]


def main() -> int:
    """Run the demonstration; return 0 if every report and OpenCLIP did what they should."""
    start = time.monotonic()
    os.chdir(ROOT)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    os.chdir(FOLDER)
    # torch would leave a folder in /tmp.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.abspath("inductor")
    # A process that imports OpenCLIP while the pictures are drawn.
    open_clip = OpenClip()
    drawn = example_shards.draw(SAMPLES)
    print(f"Drew {SAMPLES} little landscapes, such as {drawn[0].caption!r}.")
    print(f"They are in .demo/, {faults.SHARDS} shards a set: once valid, and once for each fault.")
    print("Below each report: what OpenCLIP's own loader does with the same shards.")
    try:
        problems = [
            scenario.title
            for number, scenario in enumerate(SCENARIOS, 1)
            if not show(number, scenario, drawn, open_clip)
        ]
        problems += repair(open_clip)
        problems += train()
    finally:
        open_clip.close()
    problems += demo_models.main(len(SCENARIOS) + 3)
    return finish(problems, time.monotonic() - start)


def show(number: int, scenario: Scenario, drawn: list[Scene], open_clip: OpenClip) -> bool:
    """Make a set, validate it, load it with OpenCLIP; return whether both did what they should."""
    heading(f"{number}. {scenario.title}")
    if not Path(scenario.name).exists():
        scenario.make(Path(scenario.name), drawn)
    arguments = ["--", *scenario.training] if scenario.with_arguments else []
    done = wdsflow("validate", f"{scenario.name}/{URLS}", *arguments)
    print(report_summary(done.stdout))
    loaded = load(open_clip, scenario.training)
    is_predicted = done.returncode == scenario.status and scenario.outcome in done.stdout
    if is_predicted and did_as_predicted(scenario.outcome, loaded):
        return True
    print(
        f"{done.stderr}!! expected {scenario.outcome} and exit status {scenario.status}, got {done.returncode}"
    )
    return False


def repair(open_clip: OpenClip) -> list[str]:
    """Follow the advice of the report on the json shards, and load the result with OpenCLIP.

    Returns what went wrong.
    """
    heading(f"{len(SCENARIOS) + 1}. The one change that the report on number 2 advised")
    done = wdsflow("repair", f"json/{URLS}", "-o", "fixed", "--caption", "json:description")
    print(indent(done.stdout))
    if done.returncode:
        return [f"wdsflow repair ended with status {done.returncode}: {done.stderr.strip()}"]
    shards = sorted(path.name for path in Path("fixed").glob("*.tar"))
    scenario = Scenario("fixed", "", faults.valid, "TRAINS")
    checked = wdsflow("validate", f"fixed/{URLS}")
    print(report_summary(checked.stdout))
    loaded = load(open_clip, scenario.training)
    if checked.returncode or not did_as_predicted("TRAINS", loaded) or len(shards) != faults.SHARDS:
        return ["the repaired shards do not train"]
    return []


def train() -> list[str]:
    """Train on the json shards as they are; return what went wrong."""
    heading(
        f"{len(SCENARIOS) + 2}. Training on the shards of number 2 as they are, by OpenCLIP's own code"
    )
    model = Path("model")
    model.mkdir()
    (model / CONFIG_FILE).write_text(json.dumps(CONFIG))
    words = f"--train-data json/{URLS} --train-num-samples {SAMPLES} --batch-size {BATCH} --workers 2 --epochs 1"
    words += " --warmup 5 --model local-dir:model --device cpu --precision fp32 --logs none"
    refused = wdsflow("train", "--", *words.split())
    print(indent(refused.stderr))
    done = wdsflow("train", "--caption", "json:description", "--", *words.split())
    progress = re.findall(
        r"(Train Epoch: \d+ .*|preflight: .*|feed: epoch .*|^  (?:seen|kept).*)$",
        done.stderr,
        re.MULTILINE,
    )
    print(indent("\n".join(line[:110] for line in progress)))
    if refused.returncode != 1 or "--caption json:description" not in refused.stderr:
        return [f"wdsflow train did not refuse captions in json: {refused.stderr.strip()}"]
    if done.returncode or f"[{SAMPLES}/{SAMPLES} (100%)]" not in done.stderr:
        return [f"wdsflow train ended with status {done.returncode}: {done.stderr.strip()[-2000:]}"]
    return []


def load(open_clip: OpenClip, training: list[str]) -> Loaded:
    """Run OpenCLIP's loader, and print what came out."""
    loaded = open_clip.load(training, batches=BATCHES)
    print(
        f"  {bold(f'OpenCLIP {open_clip.version} itself')}, {training[-1]} workers: {loaded}",
        flush=True,
    )
    return loaded


def did_as_predicted(outcome: str, loaded: Loaded) -> bool:
    """Return whether OpenCLIP's loader did what was predicted."""
    if outcome == "CRASHES":
        return bool(loaded.error)
    if outcome == "STALLS":
        return not loaded.error and not loaded.batches
    return not loaded.error and bool(loaded.batches)


def finish(problems: list[str], seconds: float) -> int:
    """Say what to do next, or what went wrong."""
    if problems:
        heading("Something is not as it should be")
        print(indent("\n".join(problems)))
        return 1
    heading(f"All as predicted, in {seconds:.0f} s. What to try next:")
    print(
        "  source .venv/bin/activate\n"
        "  wdsflow validate 'your/shards/{00000..00099}.tar'   your own data; it is only read\n"
        "  wdsflow validate .demo/bomb --level full            decode everything, as the trainer would\n"
        "  wdsflow validate .demo/macos --for webdataset-1     the same shards for another reader\n"
        "  wdsflow explain                                     all rules; `wdsflow explain W006` is a page on one\n"
        "  wdsflow train -- --train-data ... --model ViT-B-32  OpenCLIP's training on our feed\n"
        "  cd .demo && wdsflow filter 'printed/{000..003}.tar' -o text --where 'ocr_area > 0.3'\n"
        "                                                      look at what went: text/*.tar\n"
        "  wdsflow scores                                      all scores; `wdsflow scores ocr_area` is a page on one\n"
        "  scripts/tiny_clip                                   a small CLIP, trained to the end in two minutes\n"
        "  wdsflow doctor                                      is this environment fit to train in?\n"
        "  docs/validate.md, docs/training.md, docs/filter.md  the rest"
    )
    return 0


def report_summary(report: str) -> str:
    """Return the verdict, the advice and the first findings of a report.

    Details of the findings are left out.
    """
    head, _, rest = report.partition("\nFound: ")
    head = head.partition("\nNote: ")[0].partition("\nNothing found")[0]
    lines = [line for line in head.splitlines() if line.strip()]
    findings = [
        line
        for line in rest.splitlines()
        if re.match(r"(error|warning|note|info)\s+[A-Z]+\d+", line)
    ]
    lines += findings[:FINDINGS]
    more = len(findings) - FINDINGS
    if more > 0:
        lines.append(f"... and {more} more finding{'s' if more > 1 else ''}")
    return indent("\n".join(lines))
