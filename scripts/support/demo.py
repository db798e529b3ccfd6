"""The demonstration: healthy and faulty shards, what `wdsflow validate` says of each, and OpenCLIP's own word for it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import faults, scenes
from .environment import ROOT
from .loader import Loaded, load
from .scenes import Scene

FOLDER = Path(".demo")
SAMPLES, BATCH, WORKERS, SECONDS = 320, 16, 2, 15
URLS = "{000..003}.tar"
COMMAND = Path(sys.executable).parent / "wdsflow"
FINDINGS = 3  # of a report are shown; the whole report is a command away


@dataclass(frozen=True, slots=True)
class Scenario:
    """One shard set, and the outcome that the report has to give."""

    name: str
    title: str
    make: Callable[[Path, list[Scene]], None]
    outcome: str
    options: tuple[str, ...] = ()  # after the urls


SCENARIOS = [
    Scenario("sound", "Nothing wrong", faults.sound, "TRAINS"),
    Scenario("json", "The captions are in json", faults.captions_in_json, "STALLS"),
    Scenario("truncated", "One download broke off: shard 002 ends in the middle", faults.truncated, "LOSES"),
    Scenario("interleaved", "All pictures first, then all captions", faults.interleaved, "STALLS"),
    Scenario("dotted", "A dot inside the names: photo.000123.jpg", faults.dotted_names, "STALLS"),
    Scenario("macos", "Packed on a Mac: each file has a ._ twin", faults.macos_twins, "STALLS"),
    Scenario("bomb", "One picture of 200 megapixels", faults.huge_png, "TRAINS"),
    Scenario("latin1", "One caption that is not UTF-8", faults.latin1_caption, "TRAINS"),
    Scenario(
        "sound",
        "Fewer shards than workers",
        faults.sound,
        "CRASHES",
        (
            *("--", "--train-data", f"sound/{URLS}", "--train-num-samples", str(SAMPLES)),
            *("--batch-size", str(BATCH), "--workers", "8"),
        ),
    ),
]


def main() -> int:
    """Run the demonstration; return 0 if every report and OpenCLIP said what they should."""
    os.chdir(ROOT)
    shutil.rmtree(FOLDER, ignore_errors=True)
    start = time.monotonic()
    drawn = scenes.draw(SAMPLES)
    print(f"Drew {SAMPLES} little landscapes with captions, such as: {drawn[0].caption!r}.")
    print(f"They lie in .demo/, {faults.SHARDS} shards a set, once sound and once for each fault.")
    FOLDER.mkdir()
    os.chdir(FOLDER)
    wrong = [f"{number}. {each.title}" for number, each in enumerate(SCENARIOS, 1) if not show(number, each, drawn)]
    wrong += prove()
    finish(wrong, time.monotonic() - start)
    return 1 if wrong else 0


def show(number: int, scenario: Scenario, drawn: list[Scene]) -> bool:
    """Make a set, validate it, print the report's head; return whether the outcome is the expected one."""
    heading(f"{number}. {scenario.title}")
    if not Path(scenario.name).exists():
        scenario.make(Path(scenario.name), drawn)
    done = wdsflow("validate", f"{scenario.name}/{URLS}", *scenario.options)
    print(essence(done.stdout))
    expected = 0 if scenario.outcome == "TRAINS" else 1
    if done.returncode == expected and scenario.outcome in done.stdout:
        return True
    print(f"{done.stderr}\n!! expected {scenario.outcome} and exit status {expected}, got {done.returncode}")
    return False


def prove() -> list[str]:
    """Let OpenCLIP's own loader read the json shards before and after the repair; return what went wrong."""
    heading("Is it true? OpenCLIP's own loader, on the shards of number 2")
    before = watch(f"json/{URLS}")
    heading("The one change that the report advised")
    done = wdsflow("repair", f"json/{URLS}", "-o", "fixed", "--caption", "json:description")
    print(done.stdout.rstrip())
    if done.returncode:
        return [f"wdsflow repair ended with status {done.returncode}: {done.stderr.strip()}"]
    heading("The same loader, on the repaired shards")
    after = watch(f"fixed/{URLS}")
    wrong = (
        [] if before.ready and not before.batches else ["OpenCLIP got batches from the json shards, or did not start"]
    )
    return wrong + ([] if after.batches else ["OpenCLIP got no batch from the repaired shards"])


def watch(urls: str) -> Loaded:
    """Run OpenCLIP's loader for some seconds, and print what came out."""
    flags = f"--train-data '{urls}' --train-num-samples {SAMPLES} --batch-size {BATCH} --workers {WORKERS}"
    print(f"open_clip_train's get_data with {flags}; given {SECONDS} s", flush=True)
    loaded = load(urls, samples=SAMPLES, batch_size=BATCH, workers=WORKERS, batches=8, seconds=SECONDS)
    if not loaded.ready:
        print(f"  the loader did not start:\n{loaded.errors}")
    elif loaded.batches:
        images, texts = loaded.batches[0]
        print(f"  {len(loaded.batches)} batches in {loaded.seconds:.1f} s, of images {images} and texts {texts}")
    else:
        print(f"  no batch in {loaded.seconds:.0f} s, no error and no message; it would wait for ever. Stopped it.")
    return loaded


def finish(wrong: list[str], seconds: float) -> None:
    """Say what to do next, or what went wrong."""
    if wrong:
        heading("Something is not as it should be")
        print("\n".join(f"  {each}" for each in wrong))
        return
    heading(f"All as predicted, in {seconds:.0f} s. What to try next")
    print(
        "  source .venv/bin/activate\n"
        "  wdsflow validate 'your/shards/{00000..00099}.tar'     your own data; it is only read\n"
        "  wdsflow validate .demo/macos --level full             decode everything, as the trainer would\n"
        "  wdsflow validate .demo/sound -- --workers 8 ...       with the arguments of your training run\n"
        "  wdsflow explain                                       all rules; `wdsflow explain CODE` is a page on one\n"
        "  wdsflow doctor                                        is this environment fit to train in?\n"
        "  docs/validate.md tells the rest."
    )


def wdsflow(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Show a command, and run it."""
    print(f"$ wdsflow {' '.join(shell_word(word) for word in arguments)}", flush=True)
    environment = os.environ | {"COLUMNS": str(min(shutil.get_terminal_size().columns, 110))}
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, env=environment, check=False)


def shell_word(word: str) -> str:
    """Quote a word as a person would."""
    return word if re.fullmatch(r"[\w./:=-]+", word) else shlex.quote(word)


def essence(report: str) -> str:
    """Return the verdict and the advice of a report, and its first findings without their details."""
    head, _, rest = report.partition("\nFound: ")
    lines = [line for line in head.splitlines() if line.strip()]
    found = [line for line in rest.splitlines() if re.match(r"(error|warning|info)\b", line)]
    lines += found[:FINDINGS]
    if len(found) > FINDINGS:
        lines.append(f"... and {len(found) - FINDINGS} more findings")
    return "\n".join(f"  {line}" for line in lines)


def heading(text: str) -> None:
    """Print a heading."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else f"\n{text}")
